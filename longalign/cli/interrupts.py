"""Handling of the signals that end a command: SIGINT (Ctrl-C), SIGTERM and SIGHUP."""

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

#: SIGHUP arrives when a terminal is closed. Under `nohup` it is ignored, and stays so.
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: The file name in the code objects of Python's import system.
_IMPORT_SYSTEM = "<frozen importlib._bootstrap>"

#: Files of the standard library whose functions take and release locks. KeyboardInterrupt there can leave a
#: lock taken for ever, and another thread waiting for it.
_LOCKING_FILES = (f"{os.sep}threading.py", f"{os.sep}concurrent{os.sep}futures{os.sep}_base.py")

#: Functions in these files that wait, and may be interrupted while they do.
_WAITING = ("wait", "join", "_wait_for_tstate_lock")

#: Seconds until the next attempt, when a signal arrived where KeyboardInterrupt could not be raised.
_RETRY = 0.02


class Interrupts:
    """Turns signals into KeyboardInterrupt, but only within a call of `during`.

    Outside of `during` a signal is only recorded: before the command starts, and while its exit code is being
    reported, no code would catch the exception. Within `during`, a signal that arrives during an import is
    delivered after it, because a module interrupted halfway may swallow the exception, print it, or replace
    it by another one. A signal that arrives while a lock is taken or released is delivered afterwards as
    well.

    Libraries may also swallow the exception elsewhere. Call `check` before each long step.
    """

    def __init__(self) -> None:
        self.struck: int | None = None  # the first signal
        self._settled: int | None = None
        self._before: dict[int, Callable[[int, FrameType | None], object] | int | None] = {}
        self._hook_before = sys.unraisablehook

    @property
    def exit_code(self) -> int:
        """The exit code that a shell reports for a process ended by the signal: 128 plus its number."""
        return 128 + (self.struck or signal.SIGINT)

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has arrived."""
        if self.struck:
            raise KeyboardInterrupt

    def during(self, call: Callable[[], T]) -> T:
        """Return `call()`; a signal that arrives during the call raises KeyboardInterrupt in it."""
        self.check()
        return call()

    def catch(self) -> None:
        """Install the handlers.

        A signal that is ignored, as SIGINT is in a background job of a shell script, stays ignored.
        """
        for number in _SIGNALS:
            if (before := signal.getsignal(number)) not in (None, signal.SIG_IGN):
                self._before[number] = before
                signal.signal(number, self._strike)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._retry)
        sys.unraisablehook = self._unraisable

    def release(self) -> None:
        """Restore the handlers that were installed before `catch`."""
        signal.setitimer(signal.ITIMER_REAL, 0)
        for number, handler in self._before.items():
            signal.signal(number, handler)
        sys.unraisablehook = self._hook_before

    def settle(self, code: int) -> None:
        """Fix the exit code. From now on a signal ends the process at once, with this code."""
        import atexit

        self._settled = code
        # Before CPython finalises its modules, it resets handled signals to their default action, which ends
        # the process. Ignored signals stay ignored. Exit functions run in reverse order of registration, so
        # this one runs before all that were registered earlier.
        atexit.register(self._ignore)

    def _ignore(self) -> None:
        for number in self._before:
            signal.signal(number, signal.SIG_IGN)

    def _strike(self, number: int, frame: FrameType | None) -> None:
        self.struck = self.struck or number
        if self._settled is not None:
            os._exit(self._settled)
        inside, importing = _place(frame)
        if inside and (importing or _is_locking(frame)):
            self._try_again()
        elif inside:
            raise KeyboardInterrupt

    def _retry(self, number: int, frame: FrameType | None) -> None:
        if self.struck:
            self._strike(self.struck, frame)

    def _try_again(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, _RETRY)

    def _unraisable(self, what: sys.UnraisableHookArgs) -> None:
        """Retry a KeyboardInterrupt that was raised, and lost, in a finalizer or a callback.

        After a signal, other errors there are dropped: the interrupt has left objects half constructed.
        """
        if not self.struck:
            self._hook_before(what)
        elif issubclass(what.exc_type, KeyboardInterrupt):
            self._try_again()


def _is_locking(frame: FrameType | None) -> bool:
    """Whether the innermost function takes or releases a lock of the standard library."""
    code = frame.f_code if frame is not None else None
    return code is not None and code.co_filename.endswith(_LOCKING_FILES) and code.co_name not in _WAITING


def _place(frame: FrameType | None) -> tuple[bool, bool]:
    """Whether a frame is within a call of `during`, and whether it is within an import there."""
    importing = False
    while frame is not None and frame.f_code is not Interrupts.during.__code__:
        importing = importing or frame.f_code.co_filename == _IMPORT_SYSTEM
        frame = frame.f_back
    return frame is not None, importing
