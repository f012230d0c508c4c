"""One way to spread NumPy's work on large arrays over threads: NumPy lets them run side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")

#: More hardly pay: memory is busy then.
MOST_THREADS = min(8, os.cpu_count() or 1)

#: So many calls are handed to a thread at a time that each has a few turns.
_BATCHES_A_THREAD = 4


def in_threads(function: Callable[..., T], *arguments: Iterable[Any]) -> list[T]:
    """What `map` gives for iterables of equal length, in order; a single call is made here.

    Raises what the first call that fails raises.
    """
    calls = list(zip(*arguments, strict=True))
    if len(calls) <= 1:
        return [function(*call) for call in calls]
    with begun(function, *zip(*calls, strict=True)) as results:
        return results()


@contextmanager
def begun(function: Callable[..., T], *arguments: Iterable[Any]) -> Iterator[Callable[[], list[T]]]:
    """The same, while the caller does something else: gives a function that waits for the results.

    Leaving the context waits for the threads to finish what they have at hand; they take up no more.
    """
    calls = list(zip(*arguments, strict=True))
    size = -(-len(calls) // (_BATCHES_A_THREAD * MOST_THREADS)) or 1
    batches = [calls[start : start + size] for start in range(0, len(calls), size)]
    threads = ThreadPoolExecutor(max(1, min(MOST_THREADS, len(batches))))
    try:
        found = threads.map(lambda batch: [function(*call) for call in batch], batches)
        yield lambda: [result for results in found for result in results]
    finally:
        threads.shutdown(cancel_futures=True)
