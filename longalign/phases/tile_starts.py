"""The start states of a tile.

Once the tile is swept, the edges of all its chunks are known. The start states of each chunk can then be
computed independently of the other chunks.
"""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np

from longalign.backends.base import Backend, Progress, Rectangle, SweepJob, SweepResult
from longalign.model.boundary import StartLine, start_code


def tile_starts(
    job: SweepJob, result: SweepResult, backend: Backend, progress: Progress
) -> tuple[list[StartLine], list[StartLine]]:
    """The start states along the lattice rows and the lattice columns of a swept tile.

    The start state of a cell is where its optimal path enters the chunk that computes the cell. Coordinates
    count from the tile's upper left corner. `job.rows` and `job.cols` are the lattice, with or without the
    tile's bottom and right edge.
    """
    row_spans, col_spans = _spans(job.rows, len(job.query)), _spans(job.cols, len(job.target))
    tops, lefts = (job.top, *result.rows), (job.left, *result.cols)
    places = list(product(range(len(row_spans)), range(len(col_spans))))
    chunks = [
        Rectangle(
            job.query[slice(*row_spans[row])],
            job.target[slice(*col_spans[col])],
            job.scoring,
            tops[row].part(*col_spans[col]),
            lefts[col].part(*row_spans[row]),
            job.local,
        )
        for row, col in places
    ]
    starts = dict(zip(places, backend.starts(chunks, progress), strict=True))

    def in_tile(row: int, col: int, line: StartLine) -> StartLine:
        return _shifted(line, row_spans[row][0], col_spans[col][0])

    # The last span ends at no lattice line where the lattice lacks the tile's bottom or right edge.
    rows = [
        _joined([in_tile(row, col, starts[row, col].bottom) for col in range(len(col_spans))])
        for row in range(len(job.rows))
    ]
    cols = [
        _joined([in_tile(row, col, starts[row, col].right) for row in range(len(row_spans))])
        for col in range(len(job.cols))
    ]
    return rows, cols


def _spans(lines: tuple[int, ...], length: int) -> list[tuple[int, int]]:
    """The half-open spans into which lattice lines cut `length` letters."""
    return list(pairwise((0, *lines) if lines and lines[-1] == length else (0, *lines, length)))


def _shifted(line: StartLine, i0: int, j0: int) -> StartLine:
    """Start states of a chunk with its corner at (i0, j0) of a tile, as coordinates in the tile."""
    shift = start_code(i0, j0, 0)
    return StartLine(line.h + shift, line.gap + shift)


def _joined(lines: list[StartLine]) -> StartLine:
    """The lines of adjacent chunks as one line."""
    return StartLine(np.concatenate([line.h for line in lines]), np.concatenate([line.gap for line in lines]))
