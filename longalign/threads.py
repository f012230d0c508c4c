"""One way to spread NumPy's work on large arrays over threads: NumPy lets them run side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

#: More hardly pay: memory is busy then.
MOST_THREADS = min(8, os.cpu_count() or 1)


def in_threads(function: Callable[..., T], *arguments: Iterable[Any]) -> list[T]:
    """What `map` gives for iterables of equal length, in order; a single call is made here.

    Raises what the first call that fails raises.
    """
    calls = list(zip(*arguments, strict=True))
    if len(calls) <= 1:
        return [function(*call) for call in calls]
    with ThreadPoolExecutor(min(MOST_THREADS, len(calls))) as threads:
        return list(threads.map(function, *zip(*calls, strict=True)))
