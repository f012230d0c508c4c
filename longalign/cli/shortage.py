"""What the system refused to give this process more of, where that is why something failed."""

from __future__ import annotations

import errno
import resource
from collections.abc import Iterator

from longalign.size import format_size

#: In messages of the dynamic loader and of libraries that found no memory.
_NO_MEMORY = ("failed to map segment", "cannot allocate memory", "cannot create shared object descriptor")


def shortage_of(error: BaseException) -> tuple[str, int] | None:
    """A message and an exit code if an error comes of a lack of memory, threads or open files."""
    limit = _address_space()
    for cause in _chain(error):
        number = cause.errno if isinstance(cause, OSError) else None
        text = str(cause).lower()
        if isinstance(cause, RuntimeError) and "start new thread" in text:
            return "the system lets this process have no more threads (ulimit -u, or a batch system's limit)", 3
        if number in (errno.EMFILE, errno.ENFILE) or "too many open files" in text:
            return "the system lets this process have no more open files (ulimit -n)", 3
        if isinstance(cause, MemoryError) or number == errno.ENOMEM or any(map(text.__contains__, _NO_MEMORY)):
            advice = "a smaller --mem or --store-budget needs less"
            return f"out of memory: {f'ulimit -v allows {limit}' if limit else advice}", 1
    if limit and isinstance(error, ImportError | OSError | SystemError):
        return f"probably out of memory, as ulimit -v allows {limit}: {type(error).__name__}: {error}", 3
    return None


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it came of."""
    found: BaseException | None = error
    while found is not None:
        yield found
        found = found.__cause__ or found.__context__


def _address_space() -> str | None:
    """The limit on this process's address space, if there is one."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    return None if limit == resource.RLIM_INFINITY else format_size(limit)
