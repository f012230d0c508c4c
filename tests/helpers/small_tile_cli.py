"""The command line over small tiles, chunks and leaves, so that a short run takes many steps.

`python small_tile_cli.py align QUERY TARGET --store DIR`
"""

from __future__ import annotations

import sys

from longalign.__main__ import main
from longalign.backends.cpu import CpuBackend
from longalign.model import geometry
from longalign.phases import recompute


def backend_class() -> type:
    """The one that the command line asks for, with --backend cuda or cpu."""
    if "cuda" not in sys.argv:
        return CpuBackend
    from longalign.backends.cuda.backend import CudaBackend

    return CudaBackend


#: Of two mitochondria of 16.5 kb: 6 x 6 tiles, 4 x 4 chunks in each.
TILE, CHUNK, LEAF = 2800, 700, 60 * 60

if __name__ == "__main__":
    backend = backend_class()
    backend.tile_shape = lambda self, rows, cols, devices=1: (TILE, TILE)
    backend.can_trace = lambda self, rows, cols: rows * cols <= LEAF
    backend.least_chunk = backend.saturating_side = 0
    geometry.SMALLEST_CHUNK = CHUNK
    recompute.GROUP_SEGMENTS = 4
    sys.exit(main())
