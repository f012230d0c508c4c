"""Files that are whole or absent, and regular ones that are opened without waiting for anybody."""

from __future__ import annotations

import _thread
import os
import re
import stat
from collections.abc import Callable, Iterator
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


class NotWritten(StoreError):
    """The system does not let us write there: a full disk, no permission."""


_TEMPORARY_PREFIX = ".tmp-"
_TEMPORARY = re.compile(r"\.tmp-[0-9a-f]{32}(?:-(.+))?", re.DOTALL)

#: Bytes of a file that begin their way to the disk together, while more are written.
_FLUSH_BYTES = 1 << 25


def temporary_name(name: str = "") -> str:
    """A name for a file that is to be called `name` when it is whole, or for one that is to be no other.

    It does not consist of the number of the process: two machines that share a directory may use the same.
    """
    return f"{_TEMPORARY_PREFIX}{uuid4().hex}{'-' * bool(name)}{name}"


def final_name(temporary: str) -> str | None:
    """The `name` of which `temporary_name` has made a name; None if it has not made it."""
    match = _TEMPORARY.fullmatch(temporary)
    return None if match is None else match[1] or ""


def no_check() -> None:
    """Nothing speaks against a new file."""


@contextmanager
def atomic_path(path: Path, check: Callable[[], None] = no_check) -> Iterator[Path]:
    """A temporary path beside `path` that becomes `path` if the block ends well.

    Contents and name are both flushed to the disk, so after a power loss a file with its final name
    is whole. Nothing is at the temporary path in the beginning. `check` is called right before the file takes
    its final name, and raises what speaks against that. Raises StoreError if the file system refuses (full
    disk, no permission): NotWritten.
    """
    temporary = path.with_name(temporary_name(path.name))
    try:
        yield temporary
        _flush(temporary)
        check()
        temporary.replace(path)
        _flush(path.parent)
    except OSError as error:
        raise NotWritten(f"{path}: cannot be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):  # otherwise the next run that opens the store removes it
            temporary.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def new_hdf5(path: Path, check: Callable[[], None] = no_check) -> Iterator[h5py.File]:
    """A new HDF5 file, atomically; the latest format, whose metadata carry checksums.

    Raises StoreError as `atomic_path` does.
    """
    import h5py

    with atomic_path(path, check) as temporary, _DeferredErrorFile(temporary, "x+") as content:
        try:
            with h5py.File(content, "w", libver="latest") as file:
                yield file
        except Exception:
            if content.write_error is None:  # otherwise HDF5 may not have found again what it has written
                raise
        content.wait_for_flush()
        if content.write_error is not None:
            raise content.write_error


class _DeferredErrorFile(FileIO):
    """A file that reports no write error to HDF5, which may crash the process on a full disk.

    `write_error` is the first error; nothing is written after it. Written data are flushed to the disk in the
    background, so the final flush takes little time. Nothing is written once the file is closed: if an
    interrupt strikes within h5py, HDF5 closes its own handle only later.
    """

    write_error: OSError | None = None
    _unflushed_bytes = 0

    def __init__(self, path: Path, mode: str) -> None:
        super().__init__(path, mode)
        self._flush_lock = Mutex()

    def write(self, data: Buffer) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        if self.closed:
            return size
        try:
            while len(left) and self.write_error is None:
                left = left[super().write(left) :]
        except OSError as error:
            self.write_error = self.write_error or error
        self._unflushed_bytes += size
        if (
            self._unflushed_bytes >= _FLUSH_BYTES
            and self.write_error is None
            and self._flush_lock.acquire(blocking=False)
        ):
            self._unflushed_bytes = 0
            try:
                # This is called under h5py's lock, which a new thread may want before it has begun, as
                # garbage may be collected there: it is not waited for, as `threading` would.
                _thread.start_new_thread(self._flush_in_background, ())
            except (RuntimeError, MemoryError):  # there may be no more threads; nothing is lost
                self._flush_lock.release()
        return size

    def _flush_in_background(self) -> None:
        try:
            os.fsync(self.fileno())
        except OSError as error:  # which the system may tell once only
            self.write_error = self.write_error or error
        finally:
            self._flush_lock.release()

    def wait_for_flush(self) -> None:
        """Wait for what is on its way to the disk."""
        with self._flush_lock:
            pass

    def close(self) -> None:
        self.wait_for_flush()
        super().close()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return offset if self.closed else super().seek(offset, whence)

    def flush(self) -> None:
        if not self.closed:
            super().flush()

    def truncate(self, size: int | None = None) -> int:
        if self.closed:
            return size or 0
        try:
            return super().truncate(size)
        except OSError as error:
            self.write_error = self.write_error or error
            return size or 0


def open_hdf5(path: Path) -> h5py.File:
    """An HDF5 file, to be read. Raises OSError if it is not one; StoreError as `open_regular_file` does.

    Files are never changed, so HDF5 need not lock them, which some network file systems refuse.
    """
    import h5py

    open_regular_file(path).close()  # HDF5 would wait for the other end of a pipe
    return h5py.File(path, "r", locking=False)


def open_regular_file(path: Path) -> FileIO:
    """A regular file, or a link to one, to be read.

    Raises OSError as `open` does, and StoreError if it is of another kind. A pipe whose other end nobody has
    opened is not waited for.
    """
    try:
        file = FileIO(path, "r", opener=_open_at_once)
    except IsADirectoryError:
        raise StoreError(f"{path}: is a directory, not a regular file") from None
    try:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"{path}: is {kind_of(status)}, not a regular file")
    except BaseException:
        file.close()
        raise
    return file


def _open_at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a pipe",
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def kind_of(status: os.stat_result) -> str:
    """What something in the file system is, in words."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "a regular file")
