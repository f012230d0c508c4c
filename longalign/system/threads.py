"""Work on large arrays, spread over threads: NumPy and compression release the GIL.

Pools for such work are `WorkerThreads`. Calls need not be idempotent, so each call runs exactly once,
even if the system refuses to start threads.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

A = TypeVar("A")
T = TypeVar("T")


def processors() -> int:
    """The number of processors that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


#: Seconds after which a thread hands over the GIL to one that waits for it. The threads that prepare the
#: tiles of a GPU wait for it after each call of NumPy.
_TURN_SECONDS = 5e-4

#: The most threads of a pool. More threads gain almost nothing, because memory bandwidth is the limit.
MAX_THREADS = min(8, processors())

#: Batches of calls for each thread, so that all threads finish at about the same time.
_BATCHES_A_THREAD = 4

#: Calls of `streamed` for each thread that are running or finished ahead of the caller.
_AHEAD_A_THREAD = 4

#: Seconds between two looks of a thread that waits for a call in another thread.
_POLL_SECONDS = 0.1


@contextmanager
def short_turns() -> Iterator[None]:
    """Let Python's threads take short turns. This is a setting of the whole process, restored at the end."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(_TURN_SECONDS)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """A call to be made once, and the future that receives its outcome."""

    future: Future[Any]
    call: Callable[[], Any]

    def make(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.call()
        except BaseException as error:
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class WorkerThreads(Executor):
    """An executor of at most `max_threads` threads, or fewer if the system refuses more.

    `ThreadPoolExecutor.submit` queues a call before it starts a thread for it. If the thread cannot be
    started, `submit` raises, but an existing thread still makes the call. A caller that then makes the call
    itself makes it twice. Here the thread is started first. If it cannot be started, the existing threads
    make the calls, and if there are none, `submit` makes the call itself. As a context manager, it waits for
    the calls on leaving.

    The threads are daemons. An interrupt may strike before `shutdown` tells them to end, and other threads
    would then keep the process from ending. With `daemon` = False, the interpreter waits at its end for the
    calls. That is for callers that do not wait themselves; they must call `shutdown` in any case.
    """

    def __init__(self, max_threads: int, name: str = "longalign", *, daemon: bool = True) -> None:
        self._max_threads, self._name, self._daemon = max_threads, name, daemon
        self._threads: list[Thread] = []
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._lock = Lock()
        self._unfinished = 0
        self._closed = False

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Make a call in a thread, or in the caller's thread if there is none, in a copy of its context.

        Raises RuntimeError after `shutdown`.
        """
        future: Future[T] = Future()
        context = copy_context()
        call = _Call(future, lambda: context.run(fn, *args, **kwargs))
        with self._lock:
            if self._closed:
                raise RuntimeError("these threads have been shut down")
            if self._unfinished >= len(self._threads) < self._max_threads:
                self._start_thread()
            in_thread = bool(self._threads)
            if in_thread:
                self._unfinished += 1
                self._calls.put(call)
        if not in_thread:
            call.make()
            if isinstance(error := future.exception(), BaseException) and not isinstance(error, Exception):
                raise error  # an interrupt must reach the caller, as in a plain call
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more calls. The threads make the queued calls, unless these are cancelled, and end."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                self._cancel_queued()
            self._calls.put(None)
        if wait:
            for thread in self._threads:
                thread.join()

    def _start_thread(self) -> None:
        """Start one more thread, or keep to the existing ones if that fails."""
        name = f"{self._name}_{len(self._threads)}"
        thread = Thread(target=self._work, name=name, daemon=self._daemon)
        try:
            thread.start()
        except (RuntimeError, MemoryError):
            self._max_threads = len(self._threads)
        else:
            self._threads.append(thread)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call.make()
            del call  # free the result, which may be large, before waiting for the next call
            with self._lock:
                self._unfinished -= 1
        # Tell the other threads to end, including one that an interrupt kept out of the list after its start.
        self._calls.put(None)

    def _cancel_queued(self) -> None:
        with suppress(Empty):
            while True:
                call = self._calls.get_nowait()
                if call is not None:
                    call.future.cancel()


def in_own_thread(call: Callable[[], T], poll: Callable[[], object] = lambda: None) -> T:
    """The result of `call()`, made in a new thread. For code that no signal interrupts, such as a compiler.

    `poll` is called before, and about ten times a second meanwhile. If it raises, or KeyboardInterrupt is
    raised here, the wait ends. The call goes on, and its result is dropped. The end of the interpreter waits
    for it: the call may hold locks that finalizers of a library take. If the system refuses another thread,
    the call is made in this one.
    """
    poll()
    future: Future[T] = Future()
    made = _Call(future, call)
    try:
        Thread(target=made.make, name="own", daemon=False).start()
    except (RuntimeError, MemoryError):
        made.make()
    while not wait([future], _POLL_SECONDS).done:
        poll()
    return future.result()


def in_threads(
    function: Callable[..., T], *arguments: Iterable[Any], max_threads: int = MAX_THREADS
) -> list[T]:
    """The results of `map` for iterables of equal length, in order. At most `max_threads` threads are used.

    A single call, and all calls one after the other if `max_threads` is 1, are made in this thread. Raises
    the exception of the first call that fails.
    """
    calls = list(zip(*arguments, strict=True))
    if max_threads == 1 or len(calls) <= 1:
        return [function(*call) for call in calls]
    with calls_in_background(function, *zip(*calls, strict=True), max_threads=max_threads) as results:
        return results()


@contextmanager
def calls_in_background(
    function: Callable[..., T], *arguments: Iterable[Any], max_threads: int = MAX_THREADS
) -> Iterator[Callable[[], list[T]]]:
    """Like `in_threads`, but in the background. Yields a function that waits for the results.

    At most `max_threads` threads are used; each contends with the caller for the GIL. Leaving the context
    waits for running calls and cancels the others.
    """
    calls = list(zip(*arguments, strict=True))
    max_threads = min(max_threads, MAX_THREADS)
    size = -(-len(calls) // (_BATCHES_A_THREAD * max_threads)) or 1
    batches = [calls[start : start + size] for start in range(0, len(calls), size)]
    threads = WorkerThreads(max(1, min(max_threads, len(batches))))
    try:
        found = [threads.submit(lambda batch: [function(*call) for call in batch], k) for k in batches]
        yield lambda: [result for results in found for result in results.result()]
    finally:
        threads.shutdown(cancel_futures=True)


@contextmanager
def streamed(
    function: Callable[[A], T],
    arguments: Iterable[A],
    threads: int = MAX_THREADS,
    max_ahead: int = _AHEAD_A_THREAD * MAX_THREADS,
) -> Iterator[Iterator[T]]:
    """The results of `map`, in order. Calls run ahead of the caller by up to `max_ahead` results.

    Leaving the context waits for running calls and cancels the others. A single call is made in this thread.
    """
    calls = list(arguments)
    if len(calls) <= 1:
        yield map(function, calls)
        return
    workers = WorkerThreads(min(threads, len(calls)))

    def results() -> Iterator[T]:
        ahead: deque[Future[T]] = deque()
        for call in calls:
            if len(ahead) == max_ahead:
                yield ahead.popleft().result()
            ahead.append(workers.submit(function, call))
        while ahead:
            yield ahead.popleft().result()

    try:
        yield results()
    finally:
        workers.shutdown(cancel_futures=True)
