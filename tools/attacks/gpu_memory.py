"""A GPU whose memory another process occupies: only with `--backend cuda`, and never beside other attacks.

Asserted: the run gives the right result, or exits with 1, 2 or 3 and one line. When the memory is free again,
a run on the same store gives the right result.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from attacks.base import expect
from attacks.children import environment, run_real
from attacks.gpu import SECONDS, SIZES, Gpu, command

#: Allocates a GPU's memory except for some MiB, prints "taken", and keeps it until its stdin is closed.
_HOG = """
import sys
from numba import cuda
free, _ = cuda.current_context().get_memory_info()
taken = [cuda.device_array(max(1, free - {left} * 2**20), "u1")]
print("taken", flush=True)
sys.stdin.read()
"""


class GpuMemory(Gpu):
    weight = 1.0
    exclusive = True

    def _kinds(self) -> list[Callable[[random.Random, Path], int]]:
        return [self._full]

    def _full(self, rng: random.Random, folder: Path) -> int:
        left = rng.choice([8, 64, 200, 500, 1000])
        hog = subprocess.Popen(
            [sys.executable, "-c", _HOG.format(left=left)], env=environment(), stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert hog.stdout is not None
        try:
            expect(hog.stdout.readline().strip() == "taken", "the memory of the GPU could not be taken")
            ended = run_real(command(folder), folder, SIZES, SECONDS)
        finally:
            hog.communicate()
        ended.check({0, 1, 2, 3}, f"with {left} MiB left")
        if ended.code == 0:
            self.check(folder)
        run_real(command(folder), folder, SIZES, SECONDS).check({0}, "with all memory free")
        self.check(folder)
        return 1


ATTACK = GpuMemory
