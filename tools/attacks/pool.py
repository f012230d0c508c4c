"""Run cases in child processes. A crash or a hang ends one process and is reported as a failure of its case.

A slice is one process that runs cases of one attack, one after the other, until its time is over. It is
forked from a parent that has imported longalign and has no threads. It leads a session of its own, which
allows its parent to kill it together with all processes that its cases have started.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from shutil import rmtree

from attacks.base import NOTE, Attack, CaseFailed, CaseId

#: Seconds that an attack may take to prepare for its first case.
_READY_SECONDS = 180.0
_POLL_SECONDS = 0.1
#: Positions in the array that a slice shares with its parent: the number of the present case, its start in
#: monotonic seconds, the cases done, and the sum of their trials.
_CASE, _SINCE, _CASES, _TRIED = range(4)
#: The number of the present case while the attack prepares.
_PREPARING = -1

_FORK = multiprocessing.get_context("fork")


@dataclass(frozen=True)
class Failure:
    """A case that failed, and the reason."""

    case: CaseId
    text: str


@dataclass
class Tally:
    """The sums over all cases of one attack."""

    unit: str
    cases: int = 0
    tried: int = 0
    seconds: float = 0.0
    failures: list[Failure] = field(default_factory=list)
    skipped: str | None = None


class Slice:
    """Runs the cases `first`, `first + 1`, ... in one process: at most `most`, for about `seconds`."""

    def __init__(
        self, attack: type[Attack], name: str, seed: int, backend: str, first: int, seconds: float, most: int
    ) -> None:
        self.attack, self.name, self.seed, self.first = attack, name, seed, first
        self.started, self.planned = time.monotonic(), seconds
        self.failures: list[Failure] = []
        self.folder = Path(tempfile.mkdtemp(prefix="campaign-", dir=_fast_folder()))
        self._state = _FORK.RawArray("d", [_PREPARING, time.monotonic(), 0, 0])
        self._receiver, sender = _FORK.Pipe(duplex=False)
        arguments = attack, name, seed, backend, first, seconds, most, self.folder, self._state, sender
        self._process = _FORK.Process(target=_work, args=arguments)
        self._process.start()
        sender.close()

    @property
    def handles(self) -> list[int | Connection]:
        """The handles that become ready when the process ends or reports a failure."""
        return [self._process.sentinel, self._receiver]

    @property
    def cases(self) -> int:
        return int(self._state[_CASES])

    @property
    def tried(self) -> int:
        return int(self._state[_TRIED])

    def poll(self) -> bool:
        """Collect failures and end a case that exceeds its limit. Returns whether the process has ended."""
        self._receive()
        if self._process.is_alive():
            number, since = int(self._state[_CASE]), self._state[_SINCE]
            limit = _READY_SECONDS if number == _PREPARING else self.attack.limit
            if time.monotonic() - since > limit:
                self._process.kill()
                self._fail(f"hang: no end within {limit:g} seconds")
            else:
                return False
        elif code := self._process.exitcode:
            self._fail(f"crash: {_described(code)}")
        self._end()
        self._receive()
        return True

    def _fail(self, text: str) -> None:
        number = int(self._state[_CASE])
        if number == _PREPARING:
            number, text = self.first, f"before the first case: {text}"
        with suppress(OSError):
            text += f": {(self.folder / NOTE).read_text()}"
        self.failures.append(Failure(CaseId(self.name, self.seed, number), text))
        self._state[_CASES] += 1

    def _receive(self) -> None:
        with suppress(EOFError, OSError):
            while self._receiver.poll():
                number, text = self._receiver.recv()
                self.failures.append(Failure(CaseId(self.name, self.seed, number), text))

    def _end(self) -> None:
        """Kill the process and all processes in its session."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.join()
        rmtree(self.folder, ignore_errors=True)

    def stop(self) -> None:
        self._process.kill()
        self._end()


def watch(running: list[Slice]) -> list[Slice]:
    """Wait briefly for the slices, and return those that have ended."""
    wait([handle for one in running for handle in one.handles], timeout=_POLL_SECONDS)
    return [one for one in running if one.poll()]


def _work(
    attack: type[Attack],
    name: str,
    seed: int,
    backend: str,
    first: int,
    seconds: float,
    most: int,
    folder: Path,
    state: list[float],
    sender: Connection,
) -> None:
    os.setsid()
    _quiet(folder / "log.txt")
    started = time.monotonic()
    instance = attack(folder, seed, backend)
    for number in range(first, first + most):
        state[_CASE], state[_SINCE] = number, time.monotonic()
        case = CaseId(name, seed, number)
        text = _outcome(lambda case=case: instance.run(case.rng()), state)
        if text is not None:
            sender.send((number, text))
        state[_CASES] += 1
        if time.monotonic() - started > seconds:
            break


def _outcome(run: Callable[[], int], state: list[float]) -> str | None:
    try:
        state[_TRIED] += run()
    except CaseFailed as fault:
        return " ".join(str(fault).split())
    except BaseException as error:
        if os.environ.get("LONGALIGN_DEBUG"):
            traceback.print_exc()
        where = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split())
        return f"unexpected {type(error).__name__}: {text} ({Path(where.filename).name}:{where.lineno})"
    return None


def _quiet(log: Path) -> None:
    """Redirect the output of cases to a file, which is removed with the folder of the slice."""
    sys.stdout.flush()
    sys.stderr.flush()
    target = os.environ.get("LONGALIGN_DEBUG")
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    if not target:
        os.dup2(descriptor, 2)
    os.close(descriptor)


def _fast_folder() -> str | None:
    """A folder in memory if there is one, as cases write and flush many small files."""
    shared = "/dev/shm"
    return shared if os.access(shared, os.W_OK) else None


def _described(code: int) -> str:
    return signal.Signals(-code).name if code < 0 else f"exit code {code}"
