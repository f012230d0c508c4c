"""One way to spread work on large arrays over threads: NumPy and compression let them run side by side."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, TypeVar

A = TypeVar("A")
T = TypeVar("T")


def processors() -> int:
    """Processors this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


#: More hardly pay: memory is busy then.
MOST_THREADS = min(8, processors())

#: So many calls are handed to a thread at a time that each has a few turns.
_BATCHES_A_THREAD = 4

#: Calls of `streamed` that are in hand or done, for each thread: enough that none waits for the caller.
_AHEAD_A_THREAD = 4


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
def begun(
    function: Callable[..., T], *arguments: Iterable[Any], most: int = MOST_THREADS
) -> Iterator[Callable[[], list[T]]]:
    """The same, while the caller does something else: gives a function that waits for the results.

    `most` is how many threads there may be: each takes turns at Python's lock with the caller, too.
    Leaving the context waits for the threads to finish what they have at hand; they take up no more.
    """
    calls = list(zip(*arguments, strict=True))
    most = min(most, MOST_THREADS)
    size = -(-len(calls) // (_BATCHES_A_THREAD * most)) or 1
    batches = [calls[start : start + size] for start in range(0, len(calls), size)]
    threads = ThreadPoolExecutor(max(1, min(most, len(batches))))
    try:
        found = [_submitted(threads, lambda batch: [function(*call) for call in batch], k) for k in batches]
        yield lambda: [result for results in found for result in results.result()]
    finally:
        threads.shutdown(cancel_futures=True)


@contextmanager
def streamed(function: Callable[[A], T], arguments: Iterable[A]) -> Iterator[Iterator[T]]:
    """What `map` gives, in order, as the caller takes it: calls are made a bounded number of results ahead.

    Leaving the context waits for the calls in hand; no more are made. A single call is made here.
    """
    calls = list(arguments)
    if len(calls) <= 1:
        yield map(function, calls)
        return
    threads = ThreadPoolExecutor(min(MOST_THREADS, len(calls)))

    def results() -> Iterator[T]:
        ahead: deque[Future[T]] = deque()
        for call in calls:
            if len(ahead) == _AHEAD_A_THREAD * MOST_THREADS:
                yield ahead.popleft().result()
            ahead.append(_submitted(threads, function, call))
        while ahead:
            yield ahead.popleft().result()

    try:
        yield results()
    finally:
        threads.shutdown(cancel_futures=True)


def _submitted(threads: ThreadPoolExecutor, function: Callable[[A], T], argument: A) -> Future[T]:
    """A call handed to a thread; made here if the system lets this process have no more.

    A thread that is there may make it as well: what is spread here may be done twice.
    """
    try:
        return threads.submit(function, argument)
    except RuntimeError:
        made: Future[T] = Future()
        made.set_result(function(argument))
        return made
