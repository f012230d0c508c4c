"""The lock of a store: at most one run writes to it.

The workers of a cluster take no lock. They write nothing but tiles, each in one step, and a tile is right
whichever worker has computed it. So a worker that outlives its run does no harm.

Two locks are taken. The lock on the directory holds as long as the store exists, since removing the directory
removes the store; but some network file systems cannot lock directories. The file `lock` is locked as well
and names the holder. The system releases both when the process ends. A run checks that its lock file is still
in place before it renames a file. If it is not, the run ends: another run may already hold a new lock.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
from contextlib import suppress
from pathlib import Path

from longalign.errors import StoreError, reason_of
from longalign.store.files import NotWritten, kind_of

#: The first bytes of a lock file.
_OURS = b"process "

#: The lock file may be replaced while it is being locked; give up after this many attempts.
_TRIES = 10

#: Errors of a system that refuses to write.
_NO_WRITING = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOSPC, errno.EDQUOT}

#: Flags to open the lock file: do not follow a link, do not block on a pipe.
_SAFELY = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class Lock:
    """A lock on the store in the directory `folder`.

    It is exclusive if the store can be written. Otherwise it is shared with other readers, and `refusal` is
    the system's error.

    Raises StoreError if another process holds it, or if `lock` is not a lock file; OSError if the directory
    cannot be opened.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / "lock"
        self.refusal: OSError | None = None
        self._file: int | None = None  # None if there is no lock file and none can be made
        self._folder = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for _ in range(_TRIES):
                self._file = self._open_file()
                self._lock_both()
                if self._file is None or self._is_in_place():
                    self._sign()
                    return
                self._close_file()
            raise StoreError(f"{self._path}: is being replaced again and again")
        except BaseException:
            self.release()
            raise

    def check(self) -> None:
        """Raise StoreError unless this lock still permits writing."""
        if self.refusal is not None:
            raise NotWritten(f"{self._path.parent}: cannot be written: {reason_of(self.refusal)}")
        if not self._is_in_place():
            raise StoreError(
                f"{self._path}: was deleted or replaced while this run held it, and another run may be at "
                f"work in the store; this one ends. To go on: longalign resume {self._path.parent}"
            )

    def release(self) -> None:
        self._close_file()
        os.close(self._folder)

    def _open_file(self) -> int | None:
        """Open the lock file. None if there is none and none can be made."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | _SAFELY, 0o644)
        except OSError as error:
            if os.path.lexists(self._path):
                self._refuse_others(self._path.lstat())
            if error.errno not in _NO_WRITING:
                raise
            self.refusal = error
            if not os.path.lexists(self._path):
                return None
            file = os.open(self._path, os.O_RDONLY | _SAFELY)
        try:
            self._refuse_others(os.fstat(file))
            content = os.read(file, len(_OURS))
            if content and content != _OURS:
                raise StoreError(f"{self._path}: is not the lock file of a store: it holds something else")
        except BaseException:
            os.close(file)
            raise
        return file

    def _refuse_others(self, status: os.stat_result) -> None:
        """Raise StoreError if something other than a lock file is in its place."""
        if not stat.S_ISREG(status.st_mode):
            raise StoreError(f"{self._path}: is {kind_of(status)}, not the lock file of a store")

    def _lock_both(self) -> None:
        how = fcntl.LOCK_NB | (fcntl.LOCK_EX if self.refusal is None else fcntl.LOCK_SH)
        try:
            try:
                fcntl.flock(self._folder, how)
            except BlockingIOError:
                raise
            except OSError:  # a file system without locks of directories
                if self._file is None:
                    raise
            if self._file is not None:
                fcntl.flock(self._file, how)
        except BlockingIOError:
            raise StoreError(f"{self._path.parent}: the store is in use by {self._holder()}") from None

    def _holder(self) -> str:
        if self._file is None:
            return "another process"
        os.lseek(self._file, 0, os.SEEK_SET)
        return os.read(self._file, 200).decode(errors="replace").strip() or "another process"

    def _is_in_place(self) -> bool:
        """Whether the lock file is still the one that was opened."""
        if self._file is None:
            return False
        held = os.fstat(self._file)
        try:
            found = self._path.lstat()
        except OSError:
            return False
        return (held.st_dev, held.st_ino) == (found.st_dev, found.st_ino)

    def _sign(self) -> None:
        """Write the holder into the lock file. A full disk is ignored: the text is only informative.

        A file with several hard links, as in a backup, may belong to another store too; it is left unchanged.
        """
        if self.refusal is None and self._file is not None and os.fstat(self._file).st_nlink == 1:
            text = f"process {os.getpid()} on {socket.gethostname()}\n".encode()
            with suppress(OSError):
                os.ftruncate(self._file, os.pwrite(self._file, text, 0))

    def _close_file(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
