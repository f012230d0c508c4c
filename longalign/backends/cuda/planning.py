"""Geometry of a launch: how many columns a lane, and how large a tile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

from longalign.backends.base import SweepJob
from longalign.backends.cuda import window
from longalign.backends.cuda.config import KernelConfig, Numbers
from longalign.backends.cuda.letters import LETTER_SCORES, letters_for

#: Columns of a part of a strip, widest first. Wide strips spend less on boundaries and synchronisation,
#: narrow ones keep more warps busy on short rectangles.
COLUMN_CHOICES: dict[Numbers, tuple[int, ...]] = {"packed": (16, 8, 4), "int32": (16, 8, 4)}

#: What packed arithmetic needs: Hopper's instructions.
_PACKED_CAPABILITY = (9, 0)

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
        KernelConfig(local, track_best, columns, letters, numbers=numbers)
        for local, track_best, (numbers, letters) in product((True, False), (True, False), LETTER_SCORES)
        for columns in COLUMN_CHOICES[numbers]
    ]


def numbers_for(job: SweepJob, config: KernelConfig, capability: tuple[int, int]) -> Numbers:
    """The fastest numbers that are exact for a rectangle on a device of this compute capability."""
    if capability < _PACKED_CAPABILITY or letters_for(job) != "bytes":
        return "int32"
    packed = replace(config, columns=min(COLUMN_CHOICES["packed"]), numbers="packed")
    if window.wide_enough(job.scoring, packed) and window.has_smooth_edges(job):
        return "packed"
    return "int32"


def columns_of_part(jobs: Sequence[SweepJob], config: KernelConfig, multiprocessors: int) -> int:
    """The widest strips that keep the device busy, or the narrowest if none do."""
    choices = [
        columns
        for columns in COLUMN_CHOICES[config.numbers]
        if config.numbers == "int32"
        or all(window.wide_enough(job.scoring, replace(config, columns=columns)) for job in jobs)
    ]
    for columns in choices:
        wide = replace(config, columns=columns)
        at_once = sum(
            min(-(-len(job.target) // wide.strip_width), -(-len(job.query) // wide.lag)) for job in jobs
        )
        if at_once >= _BUSY_WARPS * multiprocessors:
            return columns
    return choices[-1]


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
