"""Recognises errors that come from a lack of memory, threads or open files, and words them for the user."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator

from longalign.errors import BackendError
from longalign.system.sizes import format_size

#: Bytes of address space that a command needs to start; importing the libraries takes most of them.
#: With less, an allocation can fail anywhere, and some libraries then abort the process or hang.
MIN_ADDRESS_SPACE = 1 << 30

#: Parts of the messages with which the dynamic loader and libraries report a failed allocation.
_NO_MEMORY = ("failed to map segment", "cannot allocate memory", "cannot create shared object descriptor")

_THREADS = "the system refuses this process more threads (ulimit -u, or the limit of a batch system)"
_FILES = "the system refuses this process more open files (ulimit -n)"


def check_address_space() -> None:
    """Raise BackendError if the limit on this process's address space (ulimit -v) is too low."""
    limit = _address_space()
    if limit is not None and limit < MIN_ADDRESS_SPACE:
        raise BackendError(
            f"ulimit -v allows this process {format_size(limit)} of address space: "
            f"at least {format_size(MIN_ADDRESS_SPACE)} are needed"
        )


def shortage_of(error: BaseException) -> tuple[str, int] | None:
    """A message and exit code if the cause of an error is a lack of memory, threads or files; else None.

    The causes of the error, as far as Python chains them, are examined too.
    """
    limit = _address_space()
    if lacks_files(error):
        return _FILES, 3
    for cause in _chain(error):
        text = str(cause).lower()
        if isinstance(cause, RuntimeError) and "start new thread" in text:
            return _THREADS, 3
        if _is_memory(cause, text):
            advice = "a smaller --mem or --store-budget needs less"
            return f"out of memory: {f'ulimit -v allows {format_size(limit)}' if limit else advice}", 1
    # Under a limit (ulimit -v), libraries report a failed allocation as some unrelated error. An OSError with
    # an error number is not such a case: it states its own cause.
    if limit and isinstance(error, ImportError | OSError | SystemError) and _number(error) is None:
        what = f"{type(error).__name__}: {error}"
        return f"probably out of memory, as ulimit -v allows {format_size(limit)}: {what}", 3
    return None


def lacks_files(error: BaseException) -> bool:
    """Whether an error, a LongalignError included, was caused by the limit on open files."""
    return any(
        _number(cause) in (errno.EMFILE, errno.ENFILE) or "too many open files" in str(cause).lower()
        for cause in _chain(error)
    )


def _is_memory(error: BaseException, text: str) -> bool:
    known = isinstance(error, MemoryError) or _number(error) == errno.ENOMEM
    return known or any(word in text for word in _NO_MEMORY)


def _number(error: BaseException) -> int | None:
    return error.errno if isinstance(error, OSError) else None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, then its cause, the cause of that, and so on."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _address_space() -> int | None:
    """The limit on this process's address space in bytes, if there is one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else limit
