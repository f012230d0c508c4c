"""Faults of the system: a failing system call ends a run with one line, and its store stays valid.

A library that is loaded before the C library (`shim.c`) makes calls fail in a forked process: the n-th call,
the n-th and every k-th after it, or all from the n-th on. The calls are writes and reads in the store (no
space, input/output error, fewer bytes than requested), `fsync`, `rename` and the opening of files in the
store, and anywhere the start of threads and the mapping of memory. Asserted:

- the run succeeds and writes the output of an undisturbed run, or exits with 1 or 3 and one line;
- it never shows a traceback or an internal error, dies by a signal or hangs. Two exceptions, both without
  memory, are not longalign's: CPython hangs when a thread cannot start, and LLVM aborts;
- without the fault, the store can then be resumed, and the result is that of an undisturbed run.
"""

from __future__ import annotations

import random
import re
import signal
from functools import partial
from pathlib import Path

from attacks import shim
from attacks.base import Attack, CaseFailed, expect
from attacks.children import BACKEND, DONE, INPUT, Hang, ProcessResult, run_forked
from attacks.problems import Problem, variants

_VARIANTS = 8
_SECONDS = 15.0


class Faults(Attack):
    weight = 2.0
    limit = 60.0
    unit = "faults"

    def __init__(self, folder: Path, seed: int, backend: str) -> None:
        super().__init__(folder, seed, backend)
        commands = "align", "align", "eager", "score"
        self._problem = variants(f"faults:{seed}", folder, [200, 600], commands)

    @classmethod
    def unavailable(cls, backend: str) -> str | None:
        return (
            None if shim.is_loaded() else "no C compiler for the library that makes calls fail, or not Linux"
        )

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
            ended = run_forked(problem.run_arguments(store, output), folder, problem.sizes, arm, _SECONDS)
            if not (fault == "no memory" and _aborted_by_llvm(ended)):
                ended.check({DONE, INPUT, BACKEND}, "the run with the fault")
            if ended.code == DONE:
                _check(problem, output, "the run with the fault")
            output.unlink(missing_ok=True)
            again = (
                problem.resume_arguments(store, output)
                if _is_store(store)
                else problem.run_arguments(store, output)
            )
            _finish(run_forked(again, folder, problem.sizes))
            _check(problem, output, "the run after the fault")
        except Hang as hang:
            if fault == "no memory" and _hangs_in_cpython(hang):
                return 1
            raise CaseFailed(f"{what}: {hang}") from hang
        except CaseFailed as wrong:
            raise CaseFailed(f"{what}: {wrong}") from wrong
        return 1


def _hangs_in_cpython(hang: Hang) -> bool:
    """Whether a thread is in `Thread.start`, where CPython waits forever if the new thread has no memory."""
    return re.search(r'threading\.py", line \d+ in start\b', hang.stacks) is not None


def _aborted_by_llvm(ended: ProcessResult) -> bool:
    """Whether LLVM aborted the process, as it does without memory for machine code."""
    return ended.code == -signal.SIGABRT and "LLVM ERROR" in ended.err


def _is_store(path: Path) -> bool:
    return (path / "manifest.json").exists()


def _finish(ended: ProcessResult) -> None:
    ended.check({DONE}, "the run after the fault")


def _check(problem: Problem, output: Path, what: str) -> None:
    found = output.read_bytes()
    expect(found == problem.expected, f"{what}: wrote {found[:150]!r}, not {problem.expected[:150]!r}")


ATTACK = Faults
