"""Compilation as a run sees it: how long callers wait for the compiler, and which kernels are on disk.

A back end compiles a kernel where it is first needed, on whatever thread that is. Each compilation goes
through `compiling`, which reports the wait to the run and, if asked, refuses it.

The reports are kept for the whole process, because Numba compiles one function at a time in a process. Two
runs at the same time in one process each get the reports of both.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from longalign.backends.base import Kernel
from longalign.events import CompileFinished, CompileStarted, Emit, Event

_listeners: list[Emit] = []
_this_thread = threading.local()


class NotOnDisk(Exception):
    """A kernel would have to be compiled, and the caller wants only those in the cache."""


class _Waits:
    """Counts the callers that wait. Waits that overlap are one interval, so no second is counted twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._callers = 0
        self._since = 0.0

    def begin(self, device: str) -> None:
        with self._lock:
            self._callers += 1
            if self._callers > 1:
                return
            self._since = perf_counter()
        _report(CompileStarted(device))

    def end(self, device: str) -> None:
        with self._lock:
            self._callers -= 1
            if self._callers:
                return
            seconds = perf_counter() - self._since
        _report(CompileFinished(device, seconds))


_waits = _Waits()


def _report(event: Event) -> None:
    for emit in tuple(_listeners):
        emit(event)


@contextmanager
def compiles_reported(emit: Emit) -> Iterator[None]:
    """Within the block, `emit` gets CompileStarted and CompileFinished, from any thread."""
    _listeners.append(emit)
    try:
        yield
    finally:
        _listeners.remove(emit)


@contextmanager
def waiting_for_compiler(device: str) -> Iterator[None]:
    """Within the block, the caller waits for kernels of `device` to be compiled."""
    _waits.begin(device)
    try:
        yield
    finally:
        _waits.end(device)


@contextmanager
def compiling(device: str, on_disk: bool) -> Iterator[None]:
    """The block compiles a kernel for `device`, or loads it if it is on disk.

    Raises NotOnDisk, before the block is run, if `is_on_disk` asks on this thread.
    """
    if on_disk:
        yield
        return
    if getattr(_this_thread, "only_from_disk", False):
        raise NotOnDisk
    with waiting_for_compiler(device):
        yield


def is_on_disk(kernel: Kernel) -> bool:
    """Load a kernel if it is in the cache on disk, or in this process already; say whether it is."""
    _this_thread.only_from_disk = True
    try:
        kernel.load()
    except NotOnDisk:
        return False
    finally:
        _this_thread.only_from_disk = False
    return True
