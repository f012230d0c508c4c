"""The command line with small tiles, chunks and leaves: short sequences then run through every step.

    python tools/attacks/small_tiles.py align QUERY TARGET --store DIR

The environment variable LONGALIGN_SMALL="TILE CHUNK LEAF" gives the sizes: letters a side of a tile and of a
chunk, and cells of a leaf.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

_VARIABLE = "LONGALIGN_SMALL"


@dataclass(frozen=True)
class Sizes:
    """Letters a side of tiles and chunks, and cells of a leaf (a rectangle that is traced in one call)."""

    tile: int = 300
    chunk: int = 80
    leaf: int = 1600

    def environment(self) -> dict[str, str]:
        """The environment variable for a process of this script."""
        return {_VARIABLE: f"{self.tile} {self.chunk} {self.leaf}"}

    def set(self, backend: str = "cpu") -> None:
        """Use these sizes in this process from now on."""
        from longalign.model import geometry
        from longalign.phases import recompute

        if backend == "cuda":
            from longalign.backends.cuda.backend import CudaBackend as Backend
        else:
            from longalign.backends.cpu import CpuBackend as Backend
        Backend.tile_shape = lambda _, rows, cols, devices=1: (min(self.tile, rows), min(self.tile, cols))
        Backend.can_trace = lambda _, rows, cols, detour=None: rows * cols <= self.leaf
        Backend.least_chunk = Backend.saturating_side = 0
        geometry.SMALLEST_CHUNK = self.chunk
        recompute.GROUP_SEGMENTS = 4


def main() -> int:
    """As `longalign.__main__`, which handles signals before it imports anything slow."""
    from longalign.cli.interrupts import Interrupts

    interrupts = Interrupts()
    interrupts.catch()
    from longalign.cli.process import run_process

    Sizes(*map(int, os.environ[_VARIABLE].split())).set("cuda" if "cuda" in sys.argv else "cpu")
    interrupts.settle(code := run_process(interrupts))
    return code


if __name__ == "__main__":
    sys.exit(main())
