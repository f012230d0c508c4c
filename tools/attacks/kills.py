"""Kills: a run that is ended at any moment loses no finished work.

Runs of `align`, `score`, `resume` and `trace` over a store get SIGKILL, SIGTERM, SIGINT or SIGHUP at random
instants, several times per store. Asserted:

- After SIGINT a run exits with 130, after SIGTERM with 143 and after SIGHUP with 129, each with one line on
  stderr, or with 0 if it had finished.
- A tile file with its final name is not computed again: it stays the same file.
- In the end `resume` succeeds and writes the output of an undisturbed run, byte by byte. No temporary file is
  left.

One store in ten is attacked through real processes of `python -m longalign`. They may also get the signal
while they start or end, once they handle signals.
"""

from __future__ import annotations

import random
import signal
import time
import traceback
from collections.abc import Sequence
from functools import cache, partial
from pathlib import Path

from processes import wait_for_handlers

from attacks.base import Attack, expect
from attacks.children import (
    INTERRUPTED,
    Child,
    ProcessResult,
    real_command,
    result_of,
    run_forked,
    run_real,
    sleep_until,
    start_real,
)
from attacks.problems import Problem, variants

_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_VARIANTS = 12
_REAL_SHARE = 0.1
_LONGEST_REAL = 2.5

#: The file beside a store in which runs record why they drop a tile.
DROPS = "drops"

#: By the name of a tile file: its inode and its time of modification in ns.
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
        history: list[str] = []
        for _ in range(rng.randint(1, 3 if is_real else 6)):
            arguments = self._next_run(problem, store, output, rng)
            number = rng.choice(_SIGNALS)
            if is_real:
                _signal_real_process(arguments, folder, number, rng.uniform(0, _LONGEST_REAL))
            else:
                child = Child(arguments, folder, problem.sizes, partial(_record_drops, folder / DROPS))
                _signal_child(child, arguments, number, rng.uniform(0, seconds))
            kills += 1
            history.append(f"{arguments[0]} {number.name}")
            stamps = _unchanged_tiles(stamps, store, history)
        self._finish(problem, store, output, folder, is_real)
        _unchanged_tiles(stamps, store, [*history, "the last resume"])
        return kills

    def __init__(self, folder: Path, seed: int, backend: str) -> None:
        super().__init__(folder, seed, backend)
        commands = "align", "align", "align", "eager", "score"
        self._variant = variants(f"kills:{seed}", folder, [600, 1500, 3000], commands)
        self._problem = cache(self._timed)

    def _timed(self, variant: int) -> tuple[Problem, float]:
        """The problem, and the seconds that an undisturbed run of it takes."""
        problem = self._variant(variant)
        started = time.monotonic()
        store = self.fresh("timed") / "store"
        arguments = problem.run_arguments(store, store.parent / "out")
        run_forked(arguments, store.parent, problem.sizes).check({0})
        return problem, time.monotonic() - started

    def _next_run(self, problem: Problem, store: Path, output: Path, rng: random.Random) -> list[object]:
        if not (store / "manifest.json").exists():
            return problem.run_arguments(store, output)
        if problem.is_eager and rng.random() < 0.3:
            cell = ",".join(str(rng.randint(1, length)) for length in problem.lengths)
            return ["trace", store, "--end", cell, "-o", output.with_name("traced"), "--backend", "cpu", "-q"]
        return rng.choice([problem.resume_arguments(store, output), problem.run_arguments(store, output)])

    def _finish(self, problem: Problem, store: Path, output: Path, folder: Path, is_real: bool) -> None:
        arguments = problem.resume_arguments(store, output)
        if not (store / "manifest.json").exists():
            arguments = problem.run_arguments(store, output)
        if is_real:
            ended = run_real(real_command(arguments), folder)
        else:
            ended = run_forked(arguments, folder, problem.sizes)
        ended.check({0}, "the last resume")
        found, wanted = output.read_bytes(), problem.expected
        expect(found == wanted, f"wrote {found[:200]!r}, not {wanted[:200]!r}")
        expect(not list(store.rglob(".tmp-*")), "a temporary file is left in the store")


def _signal_child(child: Child, arguments: Sequence[object], number: signal.Signals, after: float) -> None:
    """Send a signal to a run after some seconds, and check how it ends."""
    if not child.ended_within(after):
        child.send(number)
    _check(child.wait(), number, arguments)


def _signal_real_process(arguments: list[object], folder: Path, number: signal.Signals, after: float) -> None:
    process = start_real(real_command(arguments), folder)
    wait_for_handlers(process)
    sleep_until(time.monotonic() + after)
    process.send_signal(number)
    _check(result_of(process, 60, f"after {number.name}"), number, arguments, "a real process")


def _check(
    ended: ProcessResult, number: signal.Signals, arguments: Sequence[object], what: str = "a run"
) -> None:
    # `trace` refuses a cell without an alignment, and one whose tile is missing.
    done = {0, 1} if arguments[0] == "trace" else {0}
    if number != signal.SIGKILL:
        ended.check({*done, INTERRUPTED[number]}, f"{what} after {number.name}")
    elif ended.code != -signal.SIGKILL:
        ended.check(done, f"{what} that had ended before {number.name}")


def _record_drops(file: Path) -> None:
    """Make this process write to a file why it drops a tile."""
    from longalign.run import damage

    drop = damage._drop

    def recorded(error: Exception, *arguments: object) -> None:
        with file.open("a") as records:
            traceback.print_exception(error, file=records)
        drop(error, *arguments)

    damage._drop = recorded


def _unchanged_tiles(before: Stamps, store: Path, history: Sequence[str]) -> Stamps:
    """The present tiles. Raises CaseFailed if a tile of `before` is missing or is another file now."""
    now = {}
    for path in (store / "tiles").glob("r*.h5"):
        status = path.stat()
        now[path.name] = status.st_ino, status.st_mtime_ns
    lost = [name for name, stamp in before.items() if now.get(name) != stamp]
    records = store.parent / DROPS
    reason = " | ".join(records.read_text().splitlines()[-4:]) if records.exists() else "no tile was dropped"
    expect(
        not lost,
        f"finished tiles were lost or computed again: {', '.join(lost[:5])}, "
        f"after {', '.join(history)}: {reason}",
    )
    return now


ATTACK = Kills
