"""Errors on reading a file of a store: damage, which is mended, or a failure that leaves the file alone."""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from longalign.errors import InputError, StoreError
from longalign.store.files import kind_of

#: Errors that say nothing about a file's content: the file is kept.
_NOT_DAMAGE = {
    *(errno.EACCES, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOLCK, errno.EINTR),
    *(errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.EHOSTDOWN),
}


@contextmanager
def read_errors_as(failure: Callable[[str], StoreError], path: Path) -> Iterator[None]:
    """Turn the errors that HDF5 and others raise on a missing or damaged file into `failure`.

    Raises StoreError if the file cannot be read now, but may be sound. A failure to allocate memory is not
    damage: MemoryError passes unchanged.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _NOT_DAMAGE:
            raise _cannot_read(path, error) from error
        raise failure(f"{path}: damaged: {_first_line(error)}") from error
    except (LookupError, RuntimeError, ValueError, TypeError, ArithmeticError, InputError) as error:
        raise failure(f"{path}: damaged: {_first_line(error)}") from error


def file_exists(path: Path) -> bool:
    """Whether a file exists. Raises StoreError if that is unknown, or if it is not a regular file."""
    try:
        status = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise _cannot_read(path, error) from error
    if not stat.S_ISREG(status.st_mode):
        raise StoreError(f"{path}: is {kind_of(status)}, not a regular file")
    return True


def files_named(pattern: re.Pattern[str], folder: Path) -> list[re.Match[str]]:
    """The names of the files in a folder that match a pattern as a whole; none if there is no such folder.

    Raises StoreError if they are unknown, or if one of these names is not that of a regular file.
    """
    try:
        with os.scandir(folder) as entries:
            # The folder says of what kind its entries are, so only links are looked up one by one.
            return [
                match
                for entry in entries
                if (match := pattern.fullmatch(entry.name)) is not None
                and (entry.is_file(follow_symlinks=False) or file_exists(Path(entry)))
            ]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise _cannot_read(folder, error) from error


def _cannot_read(path: Path, error: OSError) -> StoreError:
    return StoreError(f"{path}: cannot be read: {os.strerror(error.errno or 0).lower()}")


def _first_line(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):
        return "it is missing"
    # The text of a KeyError is in quotation marks.
    text = str(error.args[0] if isinstance(error, KeyError) and error.args else error).strip()
    return text.splitlines()[0] if text else type(error).__name__
