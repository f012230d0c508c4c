"""The command line with small tiles, chunks and leaves: a short run then takes many steps.

`python small_tile_cli.py align QUERY TARGET --store DIR`

With `--prune auto`, small matrices are pruned as well, however few cells can be left out.
"""

from __future__ import annotations

import sys

from longalign.__main__ import main
from longalign.backends.cpu import CpuBackend
from longalign.model import geometry
from longalign.phases import recompute
from longalign.run import bounds


def backend_class() -> type:
    """The class of the back end that the arguments choose: --backend cuda or cpu."""
    if "cuda" not in sys.argv:
        return CpuBackend
    from longalign.backends.cuda.backend import CudaBackend

    return CudaBackend


#: Two mitochondria of 16.5 kb then have 6 x 6 tiles, with 4 x 4 chunks in each.
TILE, CHUNK, LEAF = 2800, 700, 60 * 60

if __name__ == "__main__":
    backend = backend_class()
    backend.tile_shape = lambda self, rows, cols, devices=1: (TILE, TILE)
    backend.can_trace = lambda self, rows, cols, detour=None: rows * cols <= LEAF
    backend.least_chunk = backend.saturating_side = 0
    geometry.SMALLEST_CHUNK = CHUNK
    recompute.GROUP_SEGMENTS = 4
    if "auto" in sys.argv:
        bounds.LEAST_CELLS = 0
        backend.most_share_pruned = backend.most_share_stored = 1.0
    sys.exit(main())
