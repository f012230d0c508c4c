"""Rivals: several runs on one store at once, and interference with its files.

Two or three runs start or resume the same store at the same time, or the case itself deletes, moves, copies
or replaces the lock, tiles and other files during a run. Asserted: every run that succeeds writes the output
of an undisturbed run; the others exit with 1 or 3 and one line; afterwards the store can be resumed or, after
interference, may be refused with one line.
"""

from __future__ import annotations

import os
import random
import shutil
import time
from contextlib import suppress
from pathlib import Path

from attacks.base import Attack, CaseFailed, expect
from attacks.children import Child, run_forked
from attacks.problems import Problem, variants

_VARIANTS = 6


class Rivals(Attack):
    weight = 1.0
    limit = 120.0

    def __init__(self, folder: Path, seed: int, backend: str) -> None:
        super().__init__(folder, seed, backend)
        self._problem = variants(f"rivals:{seed}", folder, [600, 1500], ("align", "eager", "score"))

    def run(self, rng: random.Random) -> int:
        problem = self._problem(rng.randrange(_VARIANTS))
        folder = self.fresh()
        store = folder / "store"
        vandal = _Vandal(store, rng) if rng.random() < 0.6 else None
        runs = [
            _start(problem, folder, number)
            for number in range(1 if vandal and rng.random() < 0.5 else rng.choice([2, 3]))
        ]
        what = f"{len(runs)} runs"
        if vandal:
            vandal.work(runs)
            what += f", interference: {', '.join(vandal.actions)}"
        self.note(what)
        try:
            ended = [child.wait() for child in runs]
            for number, one in enumerate(ended):
                one.check({0, 1, 3}, "a run")
                if one.code == 0:
                    _check(problem, folder / f"run{number}" / "out")
            if not vandal:
                expect(any(one.code == 0 for one in ended), "no run succeeded")
            output = folder / "out"
            last = run_forked(problem.run_arguments(store, output), folder, problem.sizes)
            last.check({0, 1} if vandal else {0}, "the last run")
            if last.code == 0:
                _check(problem, output)
        except CaseFailed as fault:
            raise CaseFailed(f"{what}: {fault}") from fault
        return 1


def _start(problem: Problem, folder: Path, number: int) -> Child:
    own = folder / f"run{number}"
    own.mkdir()
    return Child(problem.run_arguments(folder / "store", own / "out"), own, problem.sizes)


def _check(problem: Problem, output: Path) -> None:
    found = output.read_bytes()
    expect(found == problem.expected, f"wrote {found[:150]!r}, not {problem.expected[:150]!r}")


class _Vandal:
    """Changes the files of a store during runs."""

    def __init__(self, store: Path, rng: random.Random) -> None:
        self._store, self._rng = store, rng
        self.actions: list[str] = []

    def work(self, runs: list[Child]) -> None:
        for _ in range(self._rng.randint(1, 4)):
            time.sleep(self._rng.expovariate(1 / 0.1))
            if all(run.ended_within(0) for run in runs):
                break
            with suppress(OSError):
                self._change()

    def _change(self) -> None:
        rng = self._rng
        kind = rng.choice(["lock", "lock", "any", "any", "tiles", "store"])
        if kind == "store":
            self._store.rename(self._store.with_name(f"moved{len(self.actions)}"))
            self.actions.append("the store moved away")
            return
        if kind == "tiles":
            shutil.rmtree(self._store / "tiles")
            self.actions.append("tiles/ deleted")
            return
        path = self._store / "lock" if kind == "lock" else rng.choice(self._files())
        name = str(path.relative_to(self._store))
        action = rng.choice(["delete", "replace", "copy", "truncate"])
        if action == "delete":
            path.unlink()
        elif action == "replace":
            other = path.with_name("foreign")
            other.write_bytes(b"rubbish")
            other.replace(path)
        elif action == "copy":
            other = path.with_name("foreign")
            shutil.copy(path, other)
            other.replace(path)
        else:
            os.truncate(path, 0)
        self.actions.append(f"{action} {name}")

    def _files(self) -> list[Path]:
        found = sorted(path for path in self._store.rglob("*") if path.is_file())
        if not found:
            raise FileNotFoundError(self._store)
        return found


ATTACK = Rivals
