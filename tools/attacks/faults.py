"""Faults of the system: calls that fail, at any call, end a run in a line, and what it stored is sound.

A library loaded before the C library (`shim.c`) makes calls fail in a forked process, from its n-th call on,
once, now and then or always: writes and reads below the store (no space, input/output error, fewer bytes than
asked for), `fsync`, `rename`, opening of files, and anywhere the start of threads and mappings of memory.
Asserted:

- the run succeeds and writes what an undisturbed run writes, or exits with 1 or 3 and one line;
- never a traceback, an internal error, a signal or a hang, but for a hang that is CPython's own and an abort
  that is LLVM's, both for want of memory;
- without the fault, the same store can then be gone on with, and the result is that of an undisturbed run.
"""

from __future__ import annotations

import random
import re
import signal
from functools import cache, partial
from pathlib import Path

from attacks import shim
from attacks.base import Attack, Fault, expect
from attacks.children import BACKEND, DONE, INPUT, Ended, Hang, run_forked
from attacks.problems import Problem

_VARIANTS = 8
_SECONDS = 15.0


class Faults(Attack):
    weight = 2.0
    limit = 60.0
    unit = "faults"

    def __init__(self, folder: Path, seed: int, backend: str) -> None:
        super().__init__(folder, seed, backend)
        self._problem = cache(self._make)

    @classmethod
    def unavailable(cls, backend: str) -> str | None:
        return (
            None if shim.is_loaded() else "no C compiler for the library that makes calls fail, or not Linux"
        )

    def _make(self, variant: int) -> Problem:
        rng = random.Random(f"faults:{self.seed}:variant:{variant}")
        commands = "align", "align", "eager", "score"
        problem = Problem.make(self.folder / str(variant), rng, rng.choice([200, 600]), commands)
        assert problem.expected or problem.command == "align"
        return problem

    def run(self, rng: random.Random) -> int:
        problem = self._problem(rng.randrange(_VARIANTS))
        folder = self.fresh()
        store, output = folder / "store", folder / "out"
        fault = rng.choice(shim.FAULTS)
        first, every = (
            int(rng.expovariate(1 / rng.choice([3, 30, 200]))),
            rng.choice([0, 0, 1 << 40, 1 << 40, 3, 20]),
        )
        what = f"{fault} at call {first}" + {0: " and all after it", 1 << 40: ""}.get(
            every, f" and every {every}th"
        )
        self.note(what)
        arm = partial(shim.arm, fault, first, every, store)
        try:
            ended = run_forked(problem.begin(store, output), folder, problem.sizes, arm, _SECONDS)
            if not (fault == "no memory" and _is_of_llvm(ended)):
                ended.check({DONE, INPUT, BACKEND}, "the run with the fault")
            if ended.code == DONE:
                _check(problem, output, "the run with the fault")
            output.unlink(missing_ok=True)
            again = problem.resume(store, output) if _is_store(store) else problem.begin(store, output)
            _finish(run_forked(again, folder, problem.sizes))
            _check(problem, output, "the run after the fault")
        except Hang as hang:
            if fault == "no memory" and _is_of_python(hang):
                return 1
            raise Fault(f"{what}: {hang}") from hang
        except Fault as wrong:
            raise Fault(f"{what}: {wrong}") from wrong
        return 1


def _is_of_python(hang: Hang) -> bool:
    """Whether a thread is in `Thread.start`: CPython waits forever for a thread without memory to begin."""
    return re.search(r'threading\.py", line \d+ in start\b', hang.stacks) is not None


def _is_of_llvm(ended: Ended) -> bool:
    """Whether LLVM has ended the process, as it does if it has no memory for machine code."""
    return ended.code == -signal.SIGABRT and "LLVM ERROR" in ended.err


def _is_store(path: Path) -> bool:
    return (path / "manifest.json").exists()


def _finish(ended: Ended) -> None:
    ended.check({DONE}, "the run after the fault")


def _check(problem: Problem, output: Path, what: str) -> None:
    found = output.read_bytes()
    expect(found == problem.expected, f"{what}: wrote {found[:150]!r}, not {problem.expected[:150]!r}")


ATTACK = Faults
