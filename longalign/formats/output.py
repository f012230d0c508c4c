"""Output files that are either whole or not there."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper
from pathlib import Path
from typing import Literal, TextIO

from longalign.errors import InputError

STDOUT = "-"

#: What a write can fail with while the program is right: the disk is full or broken, or may only be read.
_DISK_ERRORS = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EROFS, errno.ESTALE}


@contextmanager
def open_output(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """A text stream (UTF-8) into a file that takes its name only when the block ends without an error.

    Until then the text is in a temporary file in the same directory; after an error that file is
    removed, and what was under the name before stays. Devices and pipes are written directly. "-" is
    stdout, which is flushed and stays open; a closed pipe raises BrokenPipeError, for the caller.

    Raises InputError, with the path, if the file cannot be made or the disk is full.
    """
    if os.fspath(path) == STDOUT:
        with _stdout() as file:
            yield file
        return
    target, temporary = _places(path)
    try:
        direct = _is_device(target)
        file = _open_text(target, "w") if direct else _create_beside(target, temporary)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        with file:
            yield file
            file.flush()
            if not direct:
                os.fsync(file.fileno())
        if not direct:
            temporary.replace(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno in _DISK_ERRORS:
            raise _cannot_write(path, error) from error
        raise


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
    """A stream that takes every text, names of files that are none as well, whatever the locale says."""
    if not isinstance(file, TextIOWrapper):
        yield file
        return
    encoding, errors = file.encoding, file.errors
    file.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        yield file
    finally:
        with suppress(OSError, ValueError):  # what could not be written; or it is closed
            file.reconfigure(encoding=encoding, errors=errors)


def check_output(path: str | os.PathLike[str]) -> None:
    """Raise the InputError that `open_output` would, before hours are spent on what is to be written."""
    if os.fspath(path) == STDOUT:
        if sys.stdout is None:  # closed by whoever started us
            raise InputError("stdout: cannot be written: it is closed")
        return
    target, temporary = _places(path)
    try:
        if not _is_device(target):
            _create_beside(target, temporary).close()
            temporary.unlink()
    except OSError as error:
        raise _cannot_write(path, error) from error


def _places(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    """The file itself (a symbolic link stays one), and a temporary file beside it."""
    try:
        target = Path(os.path.realpath(path))
    except OSError as error:  # the working directory is gone
        raise _cannot_write(path, error) from error
    return target, target.parent / f".longalign-{secrets.token_hex(8)}.tmp"


def _is_device(target: Path) -> bool:
    """Whether it is a device or a pipe, to be written directly."""
    return target.exists() and not (target.is_file() or target.is_dir())


def _create_beside(target: Path, temporary: Path) -> TextIO:
    """The temporary file, with the permissions of the file it will replace."""
    if target.is_dir():
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not target.exists():
        return _open_text(temporary, "x")
    if not os.access(target, os.W_OK):  # renaming over it would need no such permission
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))
    file = _open_text(temporary, "x")
    shutil.copymode(target, temporary)
    return file


def _open_text(path: Path, mode: Literal["w", "x"]) -> TextIO:
    return path.open(mode, encoding="utf-8", newline="\n")


def _cannot_write(path: str | os.PathLike[str], error: OSError) -> InputError:
    return InputError(f"{os.fspath(path)}: cannot be written: {(error.strerror or str(error)).lower()}")
