"""A command as a process of its own: standard streams, settings of libraries, and the exit code."""

from __future__ import annotations

import io
import os
import sys

from longalign.cli.command import fail, run
from longalign.cli.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def run_process(interrupts: Interrupts) -> int:
    """Run the command of `sys.argv`; returns its exit code, with nothing left to be written."""
    _open_standard_descriptors()
    sys.stderr = Unfailing(sys.stderr)
    # longalign uses no BLAS, and the threads that one starts when NumPy is imported need memory each.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = run(None, interrupts)
    except SystemExit as stop:  # argparse: 0 after --help, 2 for wrong options
        code = stop.code if isinstance(stop.code, int) else 0
    # A KeyboardInterrupt that leaves `exec` or `eval` of a text makes CPython end itself by SIGINT, whatever
    # the exit code. Evaluating any other text revokes that.
    eval("0")
    return _flushed(code)


def _flushed(code: int) -> int:
    """Write what is left for stdout, and let the interpreter not try in vain at its end."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        sys.stdout = None
        if code == 0 and not isinstance(error, BrokenPipeError):
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            fail(f"stdout: cannot be written: {reason}", 1)
        return code or 1
    return code


def _open_standard_descriptors() -> None:
    """Have descriptors 0, 1 and 2 open, lest a file of ours gets such a number and messages go into it."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


class Unfailing(io.TextIOBase):
    """Writes to a stream until that fails once, and then nowhere: messages never end a run."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        return "utf-8" if self._stream is None else self._stream.encoding

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._stream is not None:
            try:
                self._stream.write(text)
            except (OSError, ValueError):  # ValueError: it is closed
                self._stream = None
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            try:
                self._stream.flush()
            except (OSError, ValueError):
                self._stream = None

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()
