"""The command line with small tiles, chunks and leaves: a short run then takes many steps.

    python small_tile_cli.py align QUERY TARGET --store DIR

The environment variable LONGALIGN_SMALL="TILE CHUNK LEAF" gives other sizes than the defaults of `Sizes`.
With `--prune auto`, small matrices are pruned as well, however few cells can be left out.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

_VARIABLE = "LONGALIGN_SMALL"


@dataclass(frozen=True)
class Sizes:
    """Letters a side of tiles and chunks, and cells of a leaf (a rectangle that is traced in one call).

    With the default sizes, two mitochondria of 16.5 kb have 6 x 6 tiles, with 4 x 4 chunks in each.
    """

    tile: int = 2800
    chunk: int = 700
    leaf: int = 60 * 60

    def environment(self) -> dict[str, str]:
        """The environment variable for a process of this script."""
        return {_VARIABLE: f"{self.tile} {self.chunk} {self.leaf}"}

    def set(self, backend: str = "cpu") -> None:
        """Use these sizes in this process from now on."""
        from longalign.model import geometry
        from longalign.phases import recompute

        used = backend_class(backend)
        used.tile_shape = lambda _, rows, cols, devices=1: (min(self.tile, rows), min(self.tile, cols))
        used.can_trace = lambda _, rows, cols, detour=None: rows * cols <= self.leaf
        used.min_chunk = used.saturating_side = 0
        geometry.SMALLEST_CHUNK = self.chunk
        recompute.GROUP_SEGMENTS = 4


def backend_class(name: str) -> type:
    """The class of the back end `cuda` or `cpu`."""
    if name == "cuda":
        from longalign.backends.cuda.backend import CudaBackend

        return CudaBackend
    from longalign.backends.cpu import CpuBackend

    return CpuBackend


def prune_small_matrices(backend: str) -> None:
    """Let `--prune auto` prune in this process, however few cells there are or can be left out."""
    from longalign.run import bounds

    bounds.MIN_CELLS = 0
    used = backend_class(backend)
    used.max_share_pruned = used.max_share_stored = 1.0


def main() -> int:
    """As `longalign.__main__`, which handles signals before it imports anything slow."""
    from longalign.cli.interrupts import Interrupts

    interrupts = Interrupts()
    interrupts.catch()
    from longalign.cli.process import run_process

    backend = "cuda" if "cuda" in sys.argv else "cpu"
    Sizes(*map(int, os.environ.get(_VARIABLE, "").split())).set(backend)
    if "auto" in sys.argv:
        prune_small_matrices(backend)
    interrupts.settle(code := run_process(interrupts))
    return code


if __name__ == "__main__":
    sys.exit(main())
