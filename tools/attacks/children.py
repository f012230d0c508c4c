"""Run the command line in child processes: forked ones, which start without delay, and real ones.

A forked child (`Child`, `run_forked`) inherits the imported modules and compiled kernels of its parent. A
real process (`start_real`, `run_real`) is started as a user starts it.
"""

from __future__ import annotations

import faulthandler
import os
import re
import select
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from small_tile_cli import Sizes

from attacks.base import CaseFailed, expect

ROOT = Path(__file__).resolve().parents[2]
SMALL = ROOT / "tests" / "helpers" / "small_tile_cli.py"

#: Exit codes of longalign: done; wrong input or store; wrong usage; failure of a back end or of the system.
DONE, INPUT, USAGE, BACKEND = 0, 1, 2, 3
INTERRUPTED = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}

_SECONDS = 30.0
#: How long a process that gets SIGABRT may take to print its stacks and end.
_ABORT_SECONDS = 10.0


def warm_up() -> None:
    """Compile kernels and import the modules of a run, so that forked children inherit them.

    It leaves no thread running, as a process with threads must not be forked.
    """
    import longalign
    import longalign.cli.runs
    import longalign.cli.trace
    import longalign.store

    for mode in ("local", "global"):
        longalign.align("ACGTTACG" * 9, "ACGTACG" * 9, mode=mode, backend="cpu", threads=1)
    assert threading.active_count() == 1, "a process with threads cannot be forked"


@dataclass(frozen=True)
class ProcessResult:
    """The exit code and output of a process. A negative code is the number of the signal that ended it."""

    code: int
    out: str
    err: str

    def check(self, allowed: Collection[int], what: str = "run") -> None:
        """Raise CaseFailed unless the process ended properly.

        Properly means: one of the allowed exit codes, no traceback, and exactly one line on stderr if it
        failed.
        """
        shown = self.err.strip().replace("\n", " | ")[-300:]
        expect("Traceback" not in self.err, f"{what}: traceback: {shown}")
        expect("internal error" not in self.err, f"{what}: {shown}")
        expect(self.code >= 0, f"{what}: ended by signal {-self.code}: {shown}")
        expect(self.code in allowed, f"{what}: exit code {self.code}, not {sorted(allowed)}: {shown}")
        if self.code not in (DONE, USAGE):
            lines = self.err.splitlines()
            expect(len(lines) == 1, f"{what}: exit code {self.code} with {len(lines)} lines: {shown}")
            expect(lines[0].startswith("longalign: "), f"{what}: {shown}")


class Hang(CaseFailed):
    """A run that did not end in time.

    The text names the innermost functions of the main thread; `stacks` is the stack dump of all threads.
    """

    def __init__(self, text: str, stacks: str) -> None:
        super().__init__(text)
        self.stacks = stacks


class Child:
    """A forked process that runs the command line with its output in files in `folder`.

    It calls `before` immediately before `main`; the constructor returns when that has been done.
    """

    def __init__(
        self,
        arguments: Sequence[object],
        folder: Path,
        sizes: Sizes | None = None,
        before: Callable[[], None] = lambda: None,
    ) -> None:
        self._out, self._err, self._stacks = (folder / name for name in ("stdout", "stderr", "stacks"))
        reading, writing = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            self._run([str(argument) for argument in arguments], sizes, before, writing)
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        self._waiting = os.pidfd_open(self.pid)

    def _run(
        self, arguments: list[str], sizes: Sizes | None, before: Callable[[], None], ready: int
    ) -> NoReturn:
        code = 70
        try:
            for descriptor, path in ((1, self._out), (2, self._err)):
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
                os.dup2(file, descriptor)
                os.close(file)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False, buffering=1)  # noqa: SIM115
            main_ended_with = _catch_signals_around_main()
            faulthandler.register(signal.SIGUSR1, self._stacks.open("w"))
            if sizes is not None:
                sizes.set()
            from longalign.cli import main

            before()
            os.write(ready, b".")
            code = _exit_code(lambda: main(arguments))
            main_ended_with.append(code)
            sys.stdout.flush()
        except BaseException:
            with suppress(BaseException):
                traceback.print_exc()
        finally:
            os._exit(code)

    def send(self, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(self.pid, number)

    def ended_within(self, seconds: float) -> bool:
        """Wait for the end of the process for at most `seconds`; return whether it has ended."""
        return bool(select.select([self._waiting], [], [], seconds)[0])

    def _where(self) -> str:
        """The innermost functions of the main thread, which faulthandler dumps last."""
        stack = self._stacks.read_text().rpartition("hread 0x")[2]
        calls = re.findall(r'File "([^"]*)", line (\d+) in (\w+)', stack)
        return ", ".join(f"{Path(file).name}:{line} {function}" for file, line, function in calls[:6])

    def wait(self, seconds: float = _SECONDS) -> ProcessResult:
        """Wait for the end. Raises Hang if the process has not ended after `seconds`; it is then killed."""
        in_time = self.ended_within(seconds)
        if not in_time:
            self.send(signal.SIGUSR1)
            self.ended_within(1)
            self.send(signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self._waiting)
        if not in_time:
            raise Hang(
                f"hang: not finished after {seconds:g} seconds, in {self._where()}", self._stacks.read_text()
            )
        out, err = (path.read_text(errors="replace") for path in (self._out, self._err))
        return ProcessResult(os.waitstatus_to_exitcode(status), out, err)


def run_forked(
    arguments: Sequence[object],
    folder: Path,
    sizes: Sizes | None = None,
    before: Callable[[], None] = lambda: None,
    seconds: float = _SECONDS,
) -> ProcessResult:
    return Child(arguments, folder, sizes, before).wait(seconds)


def _catch_signals_around_main() -> list[int]:
    """Handle signals that arrive before `main` installs its handlers, or after it has removed them.

    Only a forked child has such moments; in a real process the handlers of `longalign.__main__` cover them.
    Before `main`, a signal ends the child as `main` would. Afterwards, it ends the child with the exit code
    that the caller has appended to the returned list.
    """
    main_ended_with: list[int] = []

    def end(number: int, _frame: object) -> None:
        if main_ended_with:
            os._exit(main_ended_with[0])
        os.write(2, b"longalign: interrupted\n")
        os._exit(INTERRUPTED[signal.Signals(number)])

    for number in INTERRUPTED:
        signal.signal(number, end)
    return main_ended_with


def _exit_code(run: Callable[[], int]) -> int:
    try:
        return run()
    except SystemExit as stop:  # argparse
        return stop.code if isinstance(stop.code, int) else 1


def environment(sizes: Sizes | None = None) -> dict[str, str]:
    """The environment of a real process: with this checkout, without the library of `shim`."""
    variables = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    # With PYTHONFAULTHANDLER, SIGABRT prints the stacks of all threads.
    return {
        **variables,
        "PYTHONPATH": path,
        "PYTHONFAULTHANDLER": "1",
        **(sizes.environment() if sizes else {}),
    }


def real_command(arguments: Sequence[object], sizes: Sizes | None = None) -> list[str]:
    """The command that runs `longalign` as users do or, with `sizes`, over small tiles."""
    program = ["-m", "longalign"] if sizes is None else [str(SMALL)]
    return [sys.executable, *program, *map(str, arguments)]


def start_real(command: Sequence[str], folder: Path, sizes: Sizes | None = None) -> subprocess.Popen[str]:
    """Start a command in `folder`. Its output is read by `result_of`."""
    return subprocess.Popen(
        command, cwd=folder, env=environment(sizes), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
    )  # fmt: skip


def result_of(process: subprocess.Popen[str], seconds: float, what: str) -> ProcessResult:
    """Wait for the end of a real process. Raises Hang, with its stacks, if it does not end in time."""
    try:
        out, err = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        stacks = _abort(process)
        shown = stacks.strip().replace("\n", " | ")[-2000:]
        raise Hang(f"hang: {what}: not finished after {seconds:g} seconds: {shown}", stacks) from None
    return ProcessResult(process.returncode, out, err)


def _abort(process: subprocess.Popen[str]) -> str:
    """End a process, and return what it has written to stderr, where SIGABRT prints its stacks.

    SIGABRT may not end a process that waits for a GPU.
    """
    process.send_signal(signal.SIGABRT)
    with suppress(subprocess.TimeoutExpired):
        return process.communicate(timeout=_ABORT_SECONDS)[1]
    process.kill()
    return process.communicate()[1]


def run_real(
    command: Sequence[str], folder: Path, sizes: Sizes | None = None, seconds: float = _SECONDS
) -> ProcessResult:
    """Run a command to its end. Raises Hang if it does not end in time."""
    return result_of(start_real(command, folder, sizes), seconds, "the run")


def sleep_until(instant: float) -> None:
    """Sleep until `time.monotonic()` reaches `instant`."""
    if (left := instant - time.monotonic()) > 0:
        time.sleep(left)
