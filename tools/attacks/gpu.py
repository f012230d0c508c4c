"""A GPU that is shared or interrupted: only with `--backend cuda`.

Real processes align over small tiles on the first GPU. A case is one of these:

- A signal at a random instant, which may be during a launch. Asserted: the exit code is 130, 143 or 0, with
  one line on stderr, and a later run on the store gives the right result.
- Two processes use the GPU at once. Asserted: both give the right result.
- The time limit of a batch system, which sends SIGTERM and some seconds later SIGKILL. Asserted: the run ends
  before the SIGKILL.

Exactness on the GPU is tested by the attack `exactness` with the same option.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

from inputs import DATA
from processes import wait_for_handlers
from small_tile_cli import Sizes
from small_tile_runs import MITOCHONDRIA

from attacks.base import Attack, CaseFailed, expect
from attacks.children import INTERRUPTED, environment, real_command, result_of, run_real, start_real

SECONDS = 120.0
_GRACE = 10.0
SIZES = Sizes()


class Gpu(Attack):
    weight = 3.0
    limit = 400.0

    @classmethod
    def unavailable(cls, backend: str) -> str | None:
        if backend != "cuda":
            return "only with --backend cuda"
        code = "from longalign.backends.cuda import why_unavailable; print(why_unavailable() or '')"
        # In another process, as a process that has initialised CUDA must not be forked.
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment(), capture_output=True, text=True, check=False
        )
        return done.stdout.strip() or (None if done.returncode == 0 else "longalign cannot be imported")

    def __init__(self, folder: Path, seed: int, backend: str) -> None:
        super().__init__(folder, seed, backend)
        self._expected = cache(self._make)

    def run(self, rng: random.Random) -> int:
        folder = self.fresh()
        kind = rng.choice(self._kinds())
        self.note(kind.__name__)
        try:
            return kind(rng, folder)
        except CaseFailed as fault:
            raise CaseFailed(f"{kind.__name__.strip('_')}: {fault}") from fault

    def _kinds(self) -> list[Callable[[random.Random, Path], int]]:
        """The kinds of cases, repeated by their weight."""
        return [self._signal, self._signal, self._signal, self._two, self._time_limit]

    def _make(self) -> bytes:
        folder = self.fresh("expected")
        run_real(command(folder), folder, SIZES, SECONDS).check({0}, "undisturbed")
        return (folder / "out").read_bytes()

    def check(self, folder: Path) -> None:
        """Raise CaseFailed unless the output is that of an undisturbed run."""
        found = (folder / "out").read_bytes()
        expect(found == self._expected(), f"wrote {found!r}, not {self._expected()!r}")

    def _signal(self, rng: random.Random, folder: Path) -> int:
        kills = rng.randint(1, 3)
        for _ in range(kills):
            process, number = _start(folder), rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
            time.sleep(rng.uniform(0, 6))
            process.send_signal(number)
            ended = result_of(process, SECONDS, f"after {number.name}")
            if number != signal.SIGKILL:
                ended.check({0, INTERRUPTED[number]}, f"a run after {number.name}")
        run_real(command(folder), folder, SIZES, SECONDS).check({0}, "the last run")
        self.check(folder)
        return kills

    def _two(self, rng: random.Random, folder: Path) -> int:
        folders = [folder / str(number) for number in range(2)]
        for one in folders:
            one.mkdir()
        for process in [_start(one) for one in folders]:
            result_of(process, SECONDS, "one of two runs").check({0}, "one of two runs")
        for one in folders:
            self.check(one)
        return 1

    def _time_limit(self, rng: random.Random, folder: Path) -> int:
        process = _start(folder)
        time.sleep(rng.uniform(0, 5))
        process.send_signal(signal.SIGTERM)
        ended = result_of(process, _GRACE, "after SIGTERM")
        ended.check({0, INTERRUPTED[signal.SIGTERM]}, "a run at its time limit")
        return 1


def command(folder: Path) -> list[str]:
    """The command of a run, which starts a store in `folder` or resumes it."""
    pair = [DATA / name for name in MITOCHONDRIA]
    options = "--store", folder / "store", "-o", folder / "out", "-q", "--backend", "cuda"
    return real_command(["align", *pair, *options], SIZES)


def _start(folder: Path) -> subprocess.Popen[str]:
    """Start a run. It handles signals when this returns."""
    process = start_real(command(folder), folder, SIZES)
    wait_for_handlers(process)
    return process


ATTACK = Gpu
