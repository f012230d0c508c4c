"""The start states of a tile: once it is swept, all edges of its chunks are known, and each is on its own."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np

from longalign.backends.base import Backend, Progress, Rectangle, SweepJob, SweepResult
from longalign.model.boundary import StartLine, start_code


def tile_starts(
    job: SweepJob, result: SweepResult, backend: Backend, progress: Progress
) -> tuple[list[StartLine], list[StartLine]]:
    """Start states along the rows and the columns of a swept tile's lattice, counted from the tile's corner.

    `job.rows` and `job.cols` are the lattice, with or without the tile's bottom and right edge. A path to a
    cell of it starts where it enters the chunk that computes the cell.
    """
    across, down = _spans(job.cols, len(job.target)), _spans(job.rows, len(job.query))
    tops, lefts = (job.top, *result.rows), (job.left, *result.cols)
    rows_of, cols_of = range(len(job.rows)), range(len(job.cols))  # spans that end at a line of the lattice
    places = list(product(range(len(down)), range(len(across))))
    chunks = [
        Rectangle(
            job.query[slice(*down[row])],
            job.target[slice(*across[col])],
            job.scoring,
            tops[row].part(*across[col]),
            lefts[col].part(*down[row]),
            job.local,
        )
        for row, col in places
    ]
    found = dict(zip(places, backend.starts(chunks, progress), strict=True))

    def shifted(row: int, col: int, line: StartLine) -> StartLine:
        return _shifted(line, down[row][0], across[col][0])

    rows = [_joined([shifted(r, c, found[r, c].bottom) for c in range(len(across))]) for r in rows_of]
    cols = [_joined([shifted(r, c, found[r, c].right) for r in range(len(down))]) for c in cols_of]
    return rows, cols


def _spans(lines: tuple[int, ...], length: int) -> list[tuple[int, int]]:
    """What lies between lines, and after the last one."""
    return list(pairwise((0, *lines) if lines and lines[-1] == length else (0, *lines, length)))


def _shifted(line: StartLine, i0: int, j0: int) -> StartLine:
    """The same start states from a corner so many rows up and columns to the left."""
    by = start_code(i0, j0, 0)
    return StartLine(line.h + by, line.gap + by)


def _joined(lines: list[StartLine]) -> StartLine:
    return StartLine(np.concatenate([line.h for line in lines]), np.concatenate([line.gap for line in lines]))
