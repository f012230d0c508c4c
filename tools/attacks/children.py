"""Runs of the command line in processes of their own: forked ones, which start at once, and real ones."""

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

from attacks.base import Fault, expect
from attacks.small import Sizes

ROOT = Path(__file__).resolve().parents[2]
SMALL = Path(__file__).parent / "small.py"

#: Exit codes: of an input or a store, of usage, of a back end or a limit of the system.
DONE, INPUT, USAGE, BACKEND = 0, 1, 2, 3
INTERRUPTED = {signal.SIGINT: 130, signal.SIGTERM: 143}

_SECONDS = 30.0


def warm_up() -> None:
    """Compile kernels and import what runs need, so that forked processes have it. Starts no thread."""
    import longalign
    import longalign.cli.align
    import longalign.cli.trace
    import longalign.store

    for mode in ("local", "global"):
        longalign.align("ACGTTACG" * 9, "ACGTACG" * 9, mode=mode, backend="cpu", threads=1)
    assert threading.active_count() == 1, "a process with threads cannot be forked"


@dataclass(frozen=True)
class Ended:
    """How a process ended; a negative code is the number of a signal."""

    code: int
    out: str
    err: str

    def check(self, allowed: Collection[int], what: str = "run") -> None:
        """Raise Fault unless it ended as it may: with such a code, and one line if it failed."""
        shown = self.err.strip().replace("\n", " | ")[-300:]
        expect("Traceback" not in self.err, f"{what}: traceback: {shown}")
        expect("internal error" not in self.err, f"{what}: {shown}")
        expect(self.code >= 0, f"{what}: ended by signal {-self.code}: {shown}")
        expect(self.code in allowed, f"{what}: exit code {self.code}, not {sorted(allowed)}: {shown}")
        if self.code not in (DONE, USAGE):
            lines = self.err.splitlines()
            expect(len(lines) == 1, f"{what}: exit code {self.code} with {len(lines)} lines: {shown}")
            expect(lines[0].startswith("longalign: "), f"{what}: {shown}")


class Hang(Fault):
    """A run that does not end; the text says in which functions it is, `stacks` where all its threads are."""

    def __init__(self, text: str, stacks: str) -> None:
        super().__init__(text)
        self.stacks = stacks


class Child:
    """A forked process that runs the command line; its output goes to files in `folder`."""

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
        """Wait so long at most; whether it has ended."""
        return bool(select.select([self._waiting], [], [], seconds)[0])

    def _where(self) -> str:
        """The innermost functions of the main thread, which is the last that is told of."""
        stack = self._stacks.read_text().rpartition("hread 0x")[2]
        calls = re.findall(r'File "([^"]*)", line (\d+) in (\w+)', stack)
        return ", ".join(f"{Path(file).name}:{line} {function}" for file, line, function in calls[:6])

    def wait(self, seconds: float = _SECONDS) -> Ended:
        """How it ended. Raises Fault if it does not."""
        in_time = self.ended_within(seconds)
        if not in_time:
            self.send(signal.SIGUSR1)
            self.ended_within(1)
            self.send(signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        os.close(self._waiting)
        if not in_time:
            raise Hang(
                f"hang: not over after {seconds:g} seconds, in {self._where()}", self._stacks.read_text()
            )
        out, err = (path.read_text(errors="replace") for path in (self._out, self._err))
        return Ended(os.waitstatus_to_exitcode(status), out, err)


def run_forked(
    arguments: Sequence[object],
    folder: Path,
    sizes: Sizes | None = None,
    before: Callable[[], None] = lambda: None,
    seconds: float = _SECONDS,
) -> Ended:
    return Child(arguments, folder, sizes, before).wait(seconds)


def _catch_signals_around_main() -> list[int]:
    """Handle signals that come before `main` installs its handlers, or after it has removed them.

    Only a forked child has these moments; in a real process the handlers of `longalign.__main__` cover them.
    Before `main`, a signal ends the child as `main` would. After it, the child ends with the exit code that
    the caller appends to the returned list.
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
    """That of a real process: without the shim, with this checkout."""
    variables = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    return {**variables, "PYTHONPATH": path, **(sizes.environment() if sizes else {})}


def real_command(arguments: Sequence[object], sizes: Sizes | None = None) -> list[str]:
    """`longalign` as its user starts it, or over small tiles."""
    program = ["-m", "longalign"] if sizes is None else [str(SMALL)]
    return [sys.executable, *program, *map(str, arguments)]


def run_real(
    command: Sequence[str], folder: Path, sizes: Sizes | None = None, seconds: float = _SECONDS
) -> Ended:
    """Run a command to its end. Raises Fault if it has none."""
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment(sizes), stdin=subprocess.DEVNULL, capture_output=True,
            timeout=seconds, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise Fault(f"hang: the run has not ended within {seconds:g} seconds") from None
    return Ended(done.returncode, *(text.decode(errors="replace") for text in (done.stdout, done.stderr)))


def sleep_until(instant: float) -> None:
    """Until `time.monotonic()` is that."""
    if (left := instant - time.monotonic()) > 0:
        time.sleep(left)
