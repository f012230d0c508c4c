"""Kills: a run may be ended at any moment, in any way, and nothing finished is lost.

Runs of `align`, `score`, `resume` and `trace` over a store are struck by SIGKILL, SIGTERM and SIGINT at
random instants, several times a store. Asserted:

- after SIGINT a run exits with 130, after SIGTERM with 143, or with 0 if it was done; with one line on
  stderr;
- a tile whose file has its final name is not computed again: it stays the same file;
- in the end `resume` succeeds and writes, byte by byte, what an undisturbed run writes; no temporary is left.

One store in ten is attacked through real processes of `python -m longalign`, which are struck while they
start and end, too: from the moment when the interpreter looks for the package `longalign`.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from processes import wait_for_handlers

from attacks.base import Attack, expect
from attacks.children import (
    INTERRUPTED,
    Child,
    Ended,
    environment,
    run_forked,
    run_real,
    sleep_until,
)
from attacks.problems import Problem

_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
_VARIANTS = 12
_REAL_SHARE = 0.1
_LONGEST_REAL = 2.5

Stamps = dict[str, tuple[int, int]]


class Kills(Attack):
    weight = 3.0
    limit = 120.0
    unit = "kills"

    def run(self, rng: random.Random) -> int:
        problem, seconds = self._problem(rng.randrange(_VARIANTS))
        folder = self.fresh()
        store, output = folder / "store", folder / "out"
        is_real = rng.random() < _REAL_SHARE
        kills = 0
        stamps: Stamps = {}
        for _ in range(rng.randint(1, 3 if is_real else 6)):
            arguments = self._next_run(problem, store, output, rng)
            number = rng.choice(_SIGNALS)
            if is_real:
                _strike_real(arguments, folder, number, rng.uniform(0, _LONGEST_REAL))
            else:
                _strike(Child(arguments, folder, problem.sizes), arguments, number, rng.uniform(0, seconds))
            kills += 1
            stamps = _kept(stamps, store)
        self._finish(problem, store, output, folder, is_real)
        _kept(stamps, store)
        return kills

    def _problem(self, variant: int) -> tuple[Problem, float]:
        """The problem, and the seconds in which a run of it is over."""
        return self._made(variant)

    def __init__(self, folder: Path, seed: int, backend: str) -> None:
        super().__init__(folder, seed, backend)
        self._made = cache(self._make)

    def _make(self, variant: int) -> tuple[Problem, float]:
        rng = random.Random(f"kills:{self.seed}:variant:{variant}")
        commands = "align", "align", "align", "eager", "score"
        problem = Problem.make(self.folder / str(variant), rng, rng.choice([600, 1500, 3000]), commands)
        assert problem.expected or problem.command == "align"
        begun = time.monotonic()
        store = self.fresh("timed") / "store"
        arguments = problem.begin(store, store.parent / "out")
        run_forked(arguments, store.parent, problem.sizes).check({0})
        return problem, time.monotonic() - begun

    def _next_run(self, problem: Problem, store: Path, output: Path, rng: random.Random) -> list[object]:
        if not (store / "manifest.json").exists():
            return problem.begin(store, output)
        if problem.is_eager and rng.random() < 0.3:
            cell = ",".join(str(rng.randint(1, length)) for length in problem.lengths)
            return ["trace", store, "--end", cell, "-o", output.with_name("traced"), "--backend", "cpu", "-q"]
        return rng.choice([problem.resume(store, output), problem.begin(store, output)])

    def _finish(self, problem: Problem, store: Path, output: Path, folder: Path, is_real: bool) -> None:
        arguments = problem.resume(store, output)
        if not (store / "manifest.json").exists():
            arguments = problem.begin(store, output)
        if is_real:
            ended = run_real([sys.executable, "-m", "longalign", *map(str, arguments)], folder)
        else:
            ended = run_forked(arguments, folder, problem.sizes)
        ended.check({0}, "the last resume")
        found, wanted = output.read_bytes(), problem.expected
        if is_real:  # its tiles are as large as they come, so that another path may be as good
            found, wanted = (b"\t".join(_ends(line, problem.command)) for line in (found, wanted))
        expect(found == wanted, f"wrote {found[:200]!r}, not {wanted[:200]!r}")
        expect(not list(store.rglob(".tmp-*")), "a temporary is left in the store")


def _ends(line: bytes, command: str) -> list[bytes]:
    """What does not depend on which of several equally good paths was taken."""
    if command == "score":
        return [line]
    fields = line.split(b"\t")
    return [field for number, field in enumerate(fields) if number in (0, 3, 5, 8) or field[:2] == b"AS"]


def _strike(child: Child, arguments: Sequence[object], number: signal.Signals, after: float) -> None:
    """Send a signal to a run after some seconds, and judge how it ends."""
    if not child.ended_within(after):
        child.send(number)
    _judge(child.wait(), number, arguments)


def _strike_real(arguments: list[object], folder: Path, number: signal.Signals, after: float) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "longalign", *map(str, arguments)], cwd=folder, env=environment(),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    wait_for_handlers(process)
    sleep_until(time.monotonic() + after)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    _judge(Ended(process.returncode, out, err), number, arguments, "a real process")


def _judge(ended: Ended, number: signal.Signals, arguments: Sequence[object], what: str = "a run") -> None:
    # `trace` of a cell that is not there, or not yet, is refused.
    done = {0, 1} if arguments[0] == "trace" else {0}
    if number != signal.SIGKILL:
        ended.check({*done, INTERRUPTED[number]}, f"{what} struck by {number.name}")
    elif ended.code != -signal.SIGKILL:
        ended.check(done, f"{what} that was over before {number.name}")


def _kept(before: Stamps, store: Path) -> Stamps:
    """The tiles that are there now. Raises Fault if one that was there is another file, or gone."""
    now = {}
    for path in (store / "tiles").glob("r*.h5"):
        status = path.stat()
        now[path.name] = status.st_ino, status.st_mtime_ns
    lost = [name for name, stamp in before.items() if now.get(name) != stamp]
    expect(not lost, f"finished tiles were lost or computed again: {', '.join(lost[:5])}")
    return now


ATTACK = Kills
