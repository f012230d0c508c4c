"""Signals that ask a command to end: Ctrl-C (SIGINT) and SIGTERM."""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType
    from typing import TypeVar

    T = TypeVar("T")

_SIGNALS = (signal.SIGINT, signal.SIGTERM)

#: Frames of Python's import system are of code in this file.
_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"

#: Seconds after which a signal that could not raise KeyboardInterrupt is tried again.
_RETRY = 0.02


class Interrupts:
    """Makes KeyboardInterrupt of signals, but only within a call of `during`.

    Outside of it a signal is noted, and nothing is raised: neither before the command begins nor while its
    exit code is being reported is there anything to catch an exception. Within it, a signal that arrives
    during an import waits for its end, as modules that are half imported may swallow the exception, print it,
    or make another one of it.

    Libraries may swallow it elsewhere, too. Before anything long begins, ask `check`.
    """

    def __init__(self) -> None:
        self.struck: int | None = None  # the first signal
        self._settled: int | None = None
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._hook_before = sys.unraisablehook

    @property
    def exit_code(self) -> int:
        """What a shell reports for a process that the signal ended."""
        return 128 + (self.struck or signal.SIGINT)

    def check(self) -> None:
        """Raise KeyboardInterrupt if there was a signal."""
        if self.struck:
            raise KeyboardInterrupt

    def during(self, call: Callable[[], T]) -> T:
        """Make a call; within it, signals raise KeyboardInterrupt."""
        self.check()
        return call()

    def catch(self) -> None:
        """Install the handlers. Ignored signals, as those of a background job of a script, stay ignored."""
        for number in _SIGNALS:
            if (before := signal.getsignal(number)) not in (None, signal.SIG_IGN):
                self._before[number] = before
                signal.signal(number, self._strike)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._retry)
        sys.unraisablehook = self._unraisable

    def release(self) -> None:
        """Restore what was there before `catch`."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._hook_before

    def settle(self, code: int) -> None:
        """The process will end with this exit code: from now on a signal only makes it end sooner."""
        import atexit

        self._settled = code
        # CPython gives handled signals their default meaning, death, before it takes its modules down. It
        # leaves ignored ones alone. Functions registered last run first, so this one is followed by others
        # only if they were registered earlier.
        atexit.register(self._ignore)

    def _ignore(self) -> None:
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def _strike(self, number: int, frame: FrameType | None) -> None:
        self.struck = self.struck or number
        if self._settled is not None:
            os._exit(self._settled)
        inside, importing = _place(frame)
        if inside and not importing:
            raise KeyboardInterrupt
        if inside:
            self._try_again()

    def _retry(self, number: int, frame: FrameType | None) -> None:
        if self.struck:
            self._strike(self.struck, frame)

    def _try_again(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, _RETRY)

    def _unraisable(self, what: sys.UnraisableHookArgs) -> None:
        """A KeyboardInterrupt raised in a finalizer or a callback is lost: raise it again elsewhere.

        After a signal, other errors there come of objects that the interrupt left half made.
        """
        if not self.struck:
            self._hook_before(what)
        elif issubclass(what.exc_type, KeyboardInterrupt):
            self._try_again()


def _place(frame: FrameType | None) -> tuple[bool, bool]:
    """Whether a frame is within a call of `during`, and whether it is within an import there."""
    importing = False
    while frame is not None and frame.f_code is not Interrupts.during.__code__:
        importing = importing or frame.f_code.co_filename == _IMPORT_SYSTEM
        frame = frame.f_back
    return frame is not None, importing
