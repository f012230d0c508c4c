"""Runs a command as a process of its own: sets up the standard streams and libraries, and ends cleanly."""

from __future__ import annotations

import io
import os
import sys

from longalign.cli.command import CLOSED_PIPE, fail, run
from longalign.cli.interrupts import Interrupts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def run_process(interrupts: Interrupts) -> int:
    """Run the command in `sys.argv`; returns its exit code after stdout is flushed."""
    _open_standard_descriptors()
    sys.stderr = Unfailing(sys.stderr)
    # Importing NumPy starts the threads of OpenBLAS, which take memory. longalign makes no BLAS calls.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        code = run(None, interrupts)
    except SystemExit as stop:  # argparse: 0 after --help, 2 for wrong options
        code = stop.code if isinstance(stop.code, int) else 0
    # A KeyboardInterrupt that propagates out of `exec` or `eval` of a string sets a flag in CPython, which
    # then ends the process by SIGINT whatever the exit code is. Evaluating another string clears the flag.
    eval("0")
    code = _flushed(code)
    if interrupts.struck:
        # The end of the interpreter would wait for threads that the interrupt left behind, such as one that
        # compiles, and for locks that they hold, such as that of HDF5.
        sys.stderr.flush()
        os._exit(code)
    return code


def _flushed(code: int) -> int:
    """Flush stdout; returns `code`, or another exit code than 0 if the flush fails.

    After a failure, stdout is closed to the interpreter, which would otherwise flush again at exit.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except (OSError, ValueError) as error:
        sys.stdout = None
        if isinstance(error, BrokenPipeError):
            return code or CLOSED_PIPE
        if code == 0:
            reason = (getattr(error, "strerror", None) or str(error)).lower()
            fail(f"stdout: cannot be written: {reason}", 1)
        return code or 1
    return code


def _open_standard_descriptors() -> None:
    """Open /dev/null on each of the descriptors 0, 1 and 2 that is closed.

    Otherwise the next file opened would get that number, and messages for stderr would go into it.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(descriptor)


class Unfailing(io.TextIOBase):
    """A stream that discards everything after its first failed write: a lost stderr never ends a run."""

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
