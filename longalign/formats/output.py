"""Output files that appear under their name only when they are complete."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Literal, TextIO

from longalign.errors import InputError, reason_of

STDOUT = "-"

#: Where the descriptors of this process have names, and what these look like.
_FOLDERS_OF_DESCRIPTORS = "/proc/self/fd", "/proc/thread-self/fd", "/dev/fd"
_NUMBER = re.compile("0|[1-9][0-9]{0,8}")

#: The most links that a path may follow, as on Linux.
_MAX_LINKS = 40

#: Errors of a write that are faults of the disk: it is full, broken or read-only.
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE}


@contextmanager
def open_output(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A text stream (UTF-8) into a file that gets its name only when the block ends without an error.

    Until then the text is in a temporary file in the same directory. After an error the temporary file is
    removed, and a file that had the name before is unchanged. Devices and pipes are written directly. So are
    descriptors of this process (/dev/fd/3), after what was written to them before; they stay open. "-" is
    stdout, which is flushed and stays open. A closed pipe raises BrokenPipeError.

    A file that cannot be replaced, such as one that a container mounts, gets the text as its content. If it
    refuses that as well, the temporary file stays.

    Raises InputError, with the path, if the file cannot be created or the disk is full; with the name of the
    temporary file, if the complete text could not get its place.
    """
    if os.fspath(path) == STDOUT:
        with _stdout() as file:
            yield file
        return
    target, temporary = _places(path)
    try:
        descriptor = descriptor_of(path)
        direct = descriptor is not None or _is_device(target)
        if descriptor is not None:
            file = os.fdopen(_duplicate(descriptor), "w", encoding="utf-8", newline="\n")
        else:
            file = _open_text(target, "w") if direct else _create_beside(target, temporary)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        with file:
            yield file
            file.flush()
            if not direct:
                os.fsync(file.fileno())
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            raise _cannot_write(path, error) from error
        raise
    if not direct:
        _put_in_place(temporary, target, path)


def _put_in_place(temporary: Path, target: Path, path: str | os.PathLike[str]) -> None:
    """Give the complete text its name, or, where that is refused, copy it into the file that has the name."""
    try:
        temporary.replace(target)
    except OSError:
        try:
            shutil.copyfile(temporary, target)
        except OSError as error:
            raise InputError(f"{_cannot_write(path, error)}; the complete output is {temporary}") from error
        temporary.unlink()


@contextmanager
def _stdout() -> Iterator[TextIO]:
    check_output(STDOUT)
    try:
        with _in_utf8(sys.stdout) as file:
            yield file
            file.flush()
    except OSError as error:
        if error.errno in _DISK_ERRORS:
            raise _cannot_write("stdout", error) from error
        raise


@contextmanager
def _in_utf8(file: TextIO) -> Iterator[TextIO]:
    """A stream that can write every text, whatever the locale's encoding is.

    Surrogates, which stand for undecodable bytes in file names, are written as escapes.
    """
    if not isinstance(file, TextIOWrapper):
        yield file
        return
    encoding, errors = file.encoding, file.errors
    file.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        yield file
    finally:
        with suppress(OSError, ValueError):  # pending text cannot be written, or the stream is closed
            file.reconfigure(encoding=encoding, errors=errors)


def check_output(path: str | os.PathLike[str]) -> None:
    """Raise the InputError that `open_output` would raise; a check before a run of hours."""
    if os.fspath(path) == STDOUT:
        if sys.stdout is None:  # closed by the parent process
            raise InputError("stdout: cannot be written: it is closed")
        return
    target, temporary = _places(path)
    try:
        descriptor = descriptor_of(path)
        if descriptor is not None:
            os.close(_duplicate(descriptor))
        elif _is_device(target):
            _refuse_read_only(target)  # to open a pipe would wait for its reader
        else:
            _create_beside(target, temporary).close()
            temporary.unlink()
    except OSError as error:
        raise _cannot_write(path, error) from error


def _places(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The file itself, with symbolic links resolved, and a name for a temporary file beside it."""
    try:
        target = Path(os.path.realpath(path))
    except OSError as error:  # the working directory is gone
        raise _cannot_write(path, error) from error
    return target, target.parent / f".longalign-{secrets.token_hex(8)}.tmp"


def descriptor_of(path: str | os.PathLike[str]) -> int | None:
    """The number of the descriptor of this process that a path such as /dev/stdout or /dev/fd/3 names.

    The file behind it must not be replaced: others write to the same descriptor.
    """
    own = {os.path.realpath(folder) for folder in _FOLDERS_OF_DESCRIPTORS}
    place = Path(path)
    with suppress(OSError):  # the working directory is gone
        for _ in range(_MAX_LINKS):
            if re.fullmatch(_NUMBER, place.name) and os.path.realpath(place.parent) in own:
                return int(place.name)
            if not place.is_symlink():
                break
            place = place.parent / place.readlink()
    return None


def _duplicate(descriptor: int) -> int:
    """The same descriptor under another number, so that closing it leaves the other one open."""
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise OSError(errno.EBADF, "it is open for reading only")
    return os.dup(descriptor)


def _is_device(target: Path) -> bool:
    """Whether `target` is a device or a pipe, which is written directly."""
    return target.exists() and not (target.is_file() or target.is_dir())


def _create_beside(target: Path, temporary: Path) -> TextIO:
    """Create the temporary file, with the permissions of the file that it will replace."""
    if target.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not target.exists():
        return _open_text(temporary, "x")
    _refuse_read_only(target)  # renaming over such a file would succeed
    file = _open_text(temporary, "x")
    try:
        shutil.copymode(target, temporary)
    except OSError:
        file.close()
        temporary.unlink()
        raise
    return file


def _refuse_read_only(target: Path) -> None:
    if not os.access(target, os.W_OK):
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))


def _open_text(path: Path, mode: Literal["w", "x"]) -> TextIO:
    return path.open(mode, encoding="utf-8", newline="\n")


def _cannot_write(path: str | os.PathLike[str], error: OSError) -> InputError:
    return InputError(f"{os.fspath(path)}: cannot be written: {reason_of(error)}")
