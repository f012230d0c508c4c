"""One way to spread NumPy's work on large arrays over threads: NumPy lets them run side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")

#: So many calls are handed to a thread at a time that each has a few turns.
_BATCHES_A_THREAD = 4

#: More hardly pay: memory is busy then.
MOST_THREADS = min(8, os.cpu_count() or 1)


def in_threads(function: Callable[..., T], *arguments: Iterable[Any]) -> list[T]:
    """What `map` gives for iterables of equal length, in order; a single call is made here.

    Raises what the first call that fails raises.
    """
    calls = list(zip(*arguments, strict=True))
    if len(calls) <= 1:
        return [function(*call) for call in calls]
    size = -(-len(calls) // (_BATCHES_A_THREAD * MOST_THREADS))
    batches = [calls[start : start + size] for start in range(0, len(calls), size)]
    with ThreadPoolExecutor(min(MOST_THREADS, len(batches))) as threads:
        found = threads.map(lambda batch: [function(*call) for call in batch], batches)
        return [result for results in found for result in results]
