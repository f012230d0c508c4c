"""Signals that ask a command to end: Ctrl-C (SIGINT) and SIGTERM."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn


class Interrupts:
    """Raises KeyboardInterrupt where a signal strikes, and knows of it where that does not come through.

    A library can make another error of it, or nothing: some extension modules swallow it while they are
    imported. So once all is imported, and before anything long begins, ask `check`.
    """

    def __init__(self) -> None:
        self.struck = False

    def check(self) -> None:
        """Raise KeyboardInterrupt if a signal has struck before."""
        if self.struck:
            raise KeyboardInterrupt

    @contextmanager
    def caught(self) -> Iterator[None]:
        """Meanwhile, signals strike here.

        What is ignored, as Ctrl-C is by a job in the background of a script, stays ignored.
        """
        before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
        before = {number: old for number, old in before.items() if old not in (None, signal.SIG_IGN)}
        for number in before:
            signal.signal(number, self._strike)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _strike(self, number: int, frame: FrameType | None) -> NoReturn:
        self.struck = True
        raise KeyboardInterrupt
