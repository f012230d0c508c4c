"""Geometry of a launch: how many columns a lane, and how large a tile."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import get_args

from longalign.backends.base import SweepJob
from longalign.backends.cuda.config import KernelConfig, Letters

#: Columns a lane, widest first. Wide strips spend less on boundaries and synchronisation, narrow ones
#: keep more warps busy on short rectangles.
COLUMN_CHOICES = (16, 8, 4)

#: Warps a multiprocessor needs to hide latencies: two for each of its four schedulers.
_BUSY_WARPS = 8

#: About twenty seconds at 1.5 TCUPS: long beside a launch and its transfers, short enough to lose.
TILE_CELLS = 1 << 45

#: What a tile takes on the device for a letter of either side: the letter, the boundary beside it, and
#: the boundaries of a lattice of 64 lines each way.
_BYTES_A_LETTER = 1 + 8 + 64 * 8


def every_configuration() -> list[KernelConfig]:
    """Every kernel that `CudaBackend` may choose by itself."""
    return [
        KernelConfig(local, track_best, columns, letters)
        for local, track_best, columns, letters in product(
            (True, False), (True, False), COLUMN_CHOICES, get_args(Letters)
        )
    ]


def columns_a_lane(jobs: Sequence[SweepJob], multiprocessors: int) -> int:
    """The widest strips that keep the device busy, or the narrowest if none do."""
    for columns in COLUMN_CHOICES:
        config = KernelConfig(local=True, track_best=True, columns=columns)
        at_once = sum(
            min(-(-len(job.target) // config.strip_width), -(-len(job.query) // config.lag)) for job in jobs
        )
        if at_once >= _BUSY_WARPS * multiprocessors:
            return columns
    return COLUMN_CHOICES[-1]


def tile_shape(rows: int, cols: int, free_bytes: int) -> tuple[int, int]:
    """The largest tile (rows, columns) worth one launch within this much device memory.

    Full width where memory allows: the pipeline of strips then fills and empties once for the whole
    width, and tiles follow one another from top to bottom. Tiles are of nearly equal size.
    """
    letters = max(2, free_bytes // (2 * _BYTES_A_LETTER))
    width = _even_part(cols, letters // 2)
    return _even_part(rows, max(1, min(letters - width, TILE_CELLS // width))), width


def _even_part(length: int, limit: int) -> int:
    """The size of nearly equal parts of at most `limit`."""
    return -(-length // -(-length // limit))
