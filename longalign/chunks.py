"""The start states of a tile: once it is swept, all edges of its chunks are known, and each is on its own."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np

from longalign.backends.base import Backend, EdgeStarts, Progress, Rectangle, SweepJob, SweepResult
from longalign.boundary import StartLine, start_code


def tile_starts(
    job: SweepJob, result: SweepResult, backend: Backend, progress: Progress
) -> tuple[list[StartLine], list[StartLine]]:
    """Start states along the rows and the columns of a swept tile's lattice, counted from the tile's corner.

    `job.rows` and `job.cols` are the lattice, bottom and right edge included. A path to a cell of it starts
    where it enters the chunk that computes the cell.
    """
    across, down = list(pairwise((0, *job.cols))), list(pairwise((0, *job.rows)))
    tops, lefts = (job.top, *result.rows), (job.left, *result.cols)
    chunks = [
        Rectangle(
            job.query[i0:i1],
            job.target[j0:j1],
            job.scoring,
            tops[row].part(j0, j1),
            lefts[col].part(i0, i1),
            job.local,
        )
        for (row, (i0, i1)), (col, (j0, j1)) in product(enumerate(down), enumerate(across))
    ]
    found = dict(zip(product(down, across), backend.starts(chunks, progress), strict=True))
    rows = [_joined([_bottom(found[part, span], part[0], span[0]) for span in across]) for part in down]
    cols = [_joined([_right(found[part, span], part[0], span[0]) for part in down]) for span in across]
    return rows, cols


def _bottom(starts: EdgeStarts, i0: int, j0: int) -> StartLine:
    return _shifted(starts.bottom, i0, j0)


def _right(starts: EdgeStarts, i0: int, j0: int) -> StartLine:
    return _shifted(starts.right, i0, j0)


def _shifted(line: StartLine, i0: int, j0: int) -> StartLine:
    """The same start states from a corner so many rows up and columns to the left."""
    by = start_code(i0, j0, 0)
    return StartLine(line.h + by, line.gap + by)


def _joined(lines: list[StartLine]) -> StartLine:
    return StartLine(np.concatenate([line.h for line in lines]), np.concatenate([line.gap for line in lines]))
