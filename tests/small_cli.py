"""The command line over small tiles, chunks and leaves, so that a short run takes many steps.

`python small_cli.py align QUERY TARGET --store DIR`
"""

from __future__ import annotations

import sys

from longalign import geometry
from longalign.backends.cpu import CpuBackend
from longalign.cli import main
from longalign.phases import recompute

#: Of two mitochondria of 16.5 kb: 6 x 6 tiles, 4 x 4 chunks in each.
TILE, CHUNK, LEAF = 2800, 700, 60 * 60

if __name__ == "__main__":
    CpuBackend.tile_shape = lambda self, rows, cols: (TILE, TILE)
    geometry.SMALLEST_CHUNK = CHUNK
    CpuBackend.can_trace = lambda self, rows, cols: rows * cols <= LEAF
    recompute.GROUP_SEGMENTS = 4
    sys.exit(main())
