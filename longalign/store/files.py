"""Files that are written atomically, and regular files that are opened without blocking."""

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

from longalign.errors import StoreError, reason_of

if TYPE_CHECKING:  # imported only to open a file: most runs keep their boundaries in memory
    import h5py
    from typing_extensions import Buffer


class NotWritten(StoreError):
    """The system refuses to write: a full disk, or no permission."""


_TEMPORARY_PREFIX = ".tmp-"
_TEMPORARY = re.compile(r"\.tmp-[0-9a-f]{32}(?:-(.+))?", re.DOTALL)

#: After this many new bytes of a file, they are flushed to the disk in the background.
_FLUSH_BYTES = 1 << 25


def temporary_name(name: str = "") -> str:
    """A temporary name for a file whose final name is `name`; without `name`, the file is never renamed.

    It is random: two machines that share a directory may have processes of the same number.
    """
    return f"{_TEMPORARY_PREFIX}{uuid4().hex}{'-' * bool(name)}{name}"


def final_name(temporary: str) -> str | None:
    """The `name` that was given to `temporary_name`; None if it did not make this name."""
    match = _TEMPORARY.fullmatch(temporary)
    return None if match is None else match[1] or ""


def no_check() -> None:
    """Allow every new file."""


@contextmanager
def atomic_path(path: Path, check: Callable[[], None] = no_check) -> Iterator[Path]:
    """A temporary path beside `path` that is renamed to `path` if the block ends well.

    Contents and name are both flushed to the disk, so after a power loss a file with its final name is
    complete. No file exists at the temporary path at first. `check` is called right before the file is
    renamed; it raises an exception to prevent that. Raises NotWritten if the file system refuses.
    """
    temporary = path.with_name(temporary_name(path.name))
    try:
        yield temporary
        _flush(temporary)
        check()
        temporary.replace(path)
        _flush(path.parent)
    except OSError as error:
        raise NotWritten(f"{path}: cannot be written: {reason_of(error)}") from error
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
    """A new HDF5 file, written atomically, in the latest format, whose metadata carry checksums.

    Raises StoreError as `atomic_path` does.
    """
    import h5py

    with atomic_path(path, check) as temporary, _DeferredErrorFile(temporary, "x+") as content:
        try:
            with h5py.File(content, "w", libver="latest") as file:
                yield file
        except Exception:
            if content.write_error is None:  # otherwise this is a consequence of the write error
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
                # This runs under h5py's lock. A new thread may need that lock before it counts as started, if
                # it collects garbage. `threading` would wait for its start, and both would hang.
                _thread.start_new_thread(self._flush_in_background, ())
            except (RuntimeError, MemoryError):  # no thread can be started: the final flush does it
                self._flush_lock.release()
        return size

    def _flush_in_background(self) -> None:
        try:
            os.fsync(self.fileno())
        except OSError as error:  # the system may report it only once
            self.write_error = self.write_error or error
        finally:
            self._flush_lock.release()

    def wait_for_flush(self) -> None:
        """Wait for a background flush, if one runs."""
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
    """Open an HDF5 file to read it. Raises OSError if it is not one; StoreError as `open_regular_file` does.

    Files never change, so HDF5 need not lock them; some network file systems refuse locks.
    """
    import h5py

    open_regular_file(path).close()  # HDF5 would block on a pipe
    return h5py.File(path, "r", locking=False)


def open_regular_file(path: Path) -> FileIO:
    """Open a regular file, or a link to one, to read it.

    Raises OSError as `open` does, and StoreError if it is of another kind. Never blocks, even on a pipe
    without a writer.
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
    """The kind of a file in words."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "a regular file")
