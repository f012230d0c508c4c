"""Cuts of large rectangles at cells through which a good path passes, until all parts are traced quickly.

As in Hirschberg's method (Comm. ACM 18:341, 1975), one half is swept forwards and the other backwards, and
the path crosses the cut where the two values have the highest sum. Only values of H are added. So a gap
across the cut counts as two gaps, and the path is a good one, not always the best.
"""

from __future__ import annotations

from itertools import chain

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Backend, Progress, SweepJob, SweepResult
from longalign.model.alphabet import Codes
from longalign.model.boundary import State, entry_edges
from longalign.model.pruning import Anchors
from longalign.model.scoring import Scoring
from longalign.pruning.fill import Rectangles, can_be_traced, cells_of

#: A rectangle with more cells is cut even if the back end can trace it: to trace all of it takes longer.
_MAX_CELLS = 1 << 20


def cut_points(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    rectangles: Rectangles,
    backend: Backend,
    progress: Progress,
) -> Anchors:
    """Cells of good paths through large rectangles, between which no rectangle is large.

    They are anchors without letters. Each rectangle must have a side of 2 letters or more. Takes about two
    sweeps of the rectangles.
    """
    points: list[list[int]] = []
    while large := rectangles.tolist():
        jobs = chain.from_iterable(_halves(query, target, scoring, *rectangle) for rectangle in large)
        results = iter(backend.sweep([*jobs], progress))
        parts: list[list[int]] = []
        for i, i_end, j, j_end in large:
            is_row = _is_cut_between_rows(i, i_end, j, j_end)
            before, after = _last_line(next(results)), _last_line(next(results))
            place = int(np.argmax(before + after[::-1]))
            row, col = ((i + i_end) // 2, j + place) if is_row else (i + place, (j + j_end) // 2)
            points.append([row, row, col, col])
            parts += [i, row, j, col], [row, i_end, col, j_end]
        rectangles = np.array(parts, np.int64)
        rectangles = rectangles[are_large(rectangles, backend)]
    return np.array(points, np.int64).reshape(-1, 4)


def are_large(rectangles: Rectangles, backend: Backend) -> NDArray[np.bool_]:
    """Which rectangles have many cells, or cannot be traced."""
    cells = cells_of(rectangles)
    large: NDArray[np.bool_] = cells > _MAX_CELLS
    others = np.flatnonzero((cells > 0) & ~large)
    large[others] = ~can_be_traced(rectangles[others], backend)
    return large


def _is_cut_between_rows(i: int, i_end: int, j: int, j_end: int) -> bool:
    """Whether a rectangle is cut between rows, else between columns."""
    return i_end - i >= j_end - j


def _halves(
    query: Codes, target: Codes, scoring: Scoring, i: int, i_end: int, j: int, j_end: int
) -> tuple[SweepJob, SweepJob]:
    """The sweep from the upper left corner to the cut, and that of the reversed letters from the lower right
    corner to the cut."""
    is_row = _is_cut_between_rows(i, i_end, j, j_end)
    row, col = ((i + i_end) // 2, j_end) if is_row else (i_end, (j + j_end) // 2)
    first = query[i:row], target[j:col]
    row, col = (row, j) if is_row else (i, col)
    second = query[row:i_end][::-1].copy(), target[col:j_end][::-1].copy()

    def job(query: Codes, target: Codes) -> SweepJob:
        size = len(query), len(target)
        top, left = entry_edges(State.H, *size, scoring)
        rows, cols = (size[:1], ()) if is_row else ((), size[1:])
        return SweepJob(query, target, scoring, top, left, False, rows, cols, False)

    return job(*first), job(*second)


def _last_line(result: SweepResult) -> NDArray[np.int64]:
    """H on the only line that was requested."""
    [line] = (*result.rows, *result.cols)
    return line.h.astype(np.int64)
