"""Files that are whole or absent, and a lock that dies with its process."""

from __future__ import annotations

import _thread
import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from threading import Lock as Mutex
from typing import TYPE_CHECKING
from uuid import uuid4

from longalign.errors import StoreError

if TYPE_CHECKING:  # imported only to open a file: most runs keep their boundaries in memory
    import h5py
    from typing_extensions import Buffer

TEMPORARY_PREFIX = ".tmp-"

#: Bytes of a file that begin their way to the disk together, while more are written.
_FLUSHED = 1 << 25


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` if the block ends well.

    Contents and name are both flushed to the disk, so after a power loss a file with its final name
    is whole. Raises StoreError if the file system refuses (full disk, no permission).
    """
    # Not named after the process: on two machines that share the directory, two may have one number.
    temporary = path.with_name(f"{TEMPORARY_PREFIX}{uuid4().hex}-{path.name}")
    try:
        yield temporary
        _flush(temporary)
        temporary.replace(path)
        _flush(path.parent)
    except OSError as error:
        raise StoreError(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # whoever opens the store next removes it, too
            temporary.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def new_hdf5(path: Path) -> Iterator[h5py.File]:
    """A new HDF5 file, atomically; the latest format, whose metadata carry checksums.

    Raises StoreError as `atomic_path` does.
    """
    import h5py

    with atomic_path(path) as temporary, _Forgiving(temporary, "w+") as content:
        try:
            with h5py.File(content, "w", libver="latest") as file:
                yield file
        except Exception:
            if content.refusal is None:  # otherwise HDF5 may not have found again what it has written
                raise
        content.settle()
        if content.refusal is not None:
            raise content.refusal


class _Forgiving(FileIO):
    """A file that takes all that HDF5 writes, as that may crash the process where a disk is full.

    `refusal` is what the disk said first; nothing is written from then on. What has been written goes to the
    disk meanwhile, so whoever makes sure of that in the end need not wait for much.
    """

    refusal: OSError | None = None
    _unflushed = 0

    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self._at_rest = Mutex()

    def write(self, data: Buffer) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while len(left) and self.refusal is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.refusal = self.refusal or error
        self._unflushed += size
        if self._unflushed >= _FLUSHED and self.refusal is None and self._at_rest.acquire(blocking=False):
            self._unflushed = 0
            try:
                # This is called under h5py's lock, which a new thread may want before it has begun, as
                # garbage may be collected there: it is not waited for, as `threading` would.
                _thread.start_new_thread(self._flush_meanwhile, ())
            except (RuntimeError, MemoryError):  # there may be no more threads; nothing is lost
                self._at_rest.release()
        return size

    def _flush_meanwhile(self) -> None:
        try:
            os.fsync(self.fileno())
        except OSError as error:  # which the system may tell once only
            self.refusal = self.refusal or error
        finally:
            self._at_rest.release()

    def settle(self) -> None:
        """Wait for what is on its way to the disk."""
        with self._at_rest:
            pass

    def close(self) -> None:
        self.settle()
        super().close()

    def truncate(self, size: int | None = None) -> int:
        try:
            return super().truncate(size)
        except OSError as error:
            self.refusal = self.refusal or error
            return size or 0


def open_hdf5(path: Path) -> h5py.File:
    """An HDF5 file, to be read. Raises OSError if it is not one.

    Files are never changed, so HDF5 need not lock them, which some network file systems refuse.
    """
    import h5py

    return h5py.File(path, "r", locking=False)


class Lock:
    """An exclusive lock on a store, released by the kernel when its process dies in any way."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.ftruncate(self._descriptor, 0)
            os.write(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
        except BlockingIOError:
            holder = os.read(self._descriptor, 200).decode(errors="replace").strip() or "another process"
            self.release()
            raise StoreError(f"{path.parent}: the store is in use by {holder}") from None
        except OSError:
            self.release()
            raise

    def release(self) -> None:
        os.close(self._descriptor)
