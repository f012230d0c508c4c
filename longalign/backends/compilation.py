"""Compilation from a run's point of view: the time spent waiting, and which kernels are on disk.

A back end compiles a kernel when it first needs it. Each compilation goes through `compile_or_load`, which
reports the wait to the run, or refuses to compile on behalf of `is_on_disk`.

Several runs may be active in a process, and each hears of its own waits. Each has a context of its own
(`contextvars`), and its threads work in copies of that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import perf_counter
from typing import TypeVar

from longalign.backends.base import Kernel
from longalign.events import CompileFinished, CompileStarted, Emit, ignore
from longalign.system.threads import in_own_thread

T = TypeVar("T")

#: A kernel is usually loaded from disk in fewer seconds than this.
_LONGEST_LOAD = 0.5


def _nothing() -> None:
    """The poll of a thread that has none."""


class _ThisThread(threading.local):
    """What a thread has asked of its compilations."""

    only_from_disk = False
    poll: Callable[[], object] = staticmethod(_nothing)


_this_thread = _ThisThread()


class NotOnDisk(Exception):
    """A kernel is not in the cache on disk, and the caller does not want it to be compiled."""


class _Waits:
    """The waits of the threads of a run. Those that overlap form one interval: no second is counted twice.

    Events are reported under the lock, so that they come in order. An interrupt may strike anywhere: `end`
    of a wait that did not begin does nothing.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._lock = threading.Lock()
        self._waits: set[object] = set()
        self._since = 0.0

    def stop(self) -> None:
        """Report nothing from now on."""
        with self._lock:
            self._emit = ignore

    def begin(self, wait: object, device: str) -> None:
        with self._lock:
            is_first = not self._waits
            if is_first:
                self._since = perf_counter()
            self._waits.add(wait)
            if is_first:
                self._emit(CompileStarted(device))

    def end(self, wait: object, device: str) -> None:
        with self._lock:
            if wait in self._waits:
                self._waits.remove(wait)
                if not self._waits:
                    self._emit(CompileFinished(device, perf_counter() - self._since))


_waits: ContextVar[_Waits | None] = ContextVar("waits", default=None)


@contextmanager
def compiles_reported(emit: Emit) -> Iterator[None]:
    """Within the block, `emit` receives CompileStarted and CompileFinished, from the thread that waits.

    That is this thread, or one that was started in the block and works in a copy of its context.
    """
    waits = _Waits(emit)
    before = _waits.set(waits)
    try:
        yield
    finally:
        _waits.reset(before)
        waits.stop()  # a thread that was left behind may still wait


@contextmanager
def waiting_for_compiler(device: str) -> Iterator[None]:
    """Within the block, the caller waits for kernels of `device` to be compiled."""
    waits, wait = _waits.get() or _Waits(ignore), object()
    try:
        waits.begin(wait, device)  # which may raise what the listener raises
        yield
    finally:
        waits.end(wait, device)


@contextmanager
def kernel_lock(lock: threading.Lock, device: str) -> Iterator[None]:
    """Hold the lock under which a kernel of `device` is compiled or loaded.

    A thread that holds it for longer than loading takes is compiling. The wait for it is then reported.
    """
    if not lock.acquire(timeout=_LONGEST_LOAD):
        with waiting_for_compiler(device):
            lock.acquire()
    try:
        yield
    finally:
        lock.release()


def compile_or_load(device: str, is_cached: Callable[[], bool], call: Callable[[], T]) -> T:
    """The result of the call, which compiles a kernel for `device`, or loads it from disk if `is_cached()`.

    Both run in a thread of their own. The caller, which may be interrupted, waits: see `polled`. A compiler
    runs for seconds without a chance for Python to interrupt it. KeyboardInterrupt within Numba may leave its
    lock taken for ever. Within a function that LLVM calls, as it does to load a kernel, the exception is
    lost, and LLVM goes on without the kernel's code.

    Raises NotOnDisk instead of compiling on behalf of `is_on_disk`, and whatever `call` raises.
    """
    if in_own_thread(is_cached, _this_thread.poll):
        return in_own_thread(call, _this_thread.poll)
    if _this_thread.only_from_disk:
        raise NotOnDisk
    with waiting_for_compiler(device):
        return in_own_thread(call, _this_thread.poll)


@contextmanager
def polled(poll: Callable[[], object]) -> Iterator[None]:
    """Within the block, `poll` is called about ten times a second while this thread waits for a compiler.

    If it raises, the wait ends with that exception. The compiler goes on, and its kernel is kept on disk.
    """
    before = _this_thread.poll
    _this_thread.poll = poll
    try:
        yield
    finally:
        _this_thread.poll = before


def is_on_disk(kernel: Kernel) -> bool:
    """Whether a kernel is in the cache on disk or in this process. If so, it is loaded."""
    _this_thread.only_from_disk = True
    try:
        kernel.load()
    except NotOnDisk:
        return False
    finally:
        _this_thread.only_from_disk = False
    return True
