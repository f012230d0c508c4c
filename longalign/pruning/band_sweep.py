"""Sweep rectangles in which a narrow band of cells is needed, stage by stage in the columns of the band.

A back end leaves out the blocks beside a band one by one. In a long rectangle there are far more of them than
blocks in the band. So the rows are swept in stages. In the first row of a stage, the cells are known from
which a path of interest can go on. They limit the columns of the stage:

- No such path gets to the left of the first of these cells. The stage begins one column before it, so that a
  vertical gap may go down from it. That column has the values of cells that were left out.
- Take a path from one of these cells, with value v, to the last row of the stage. If x letters of it are in
  horizontal gaps, its value is at most v + highest * rows - beta * x there. It can only reach the bound if
  this, with the most that it can gain from there on, does. That limits x. The limit also holds for a path
  that ends before the last row: its value is no higher, and the most that can be gained is never below 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longalign.backends.base import Backend, Progress, SweepJob, SweepResult, no_progress
from longalign.model.boundary import Boundary, Edge, LinearEdge
from longalign.model.pruning import Pruning, values_left_out
from longalign.model.scoring import NEG_INF, Scoring
from longalign.system.threads import in_threads

#: The rows of a stage: a multiple of `SPACING`, as gains are looser otherwise (`SideGains.within`).
_ROWS = 1 << 18


def best_scores(jobs: Sequence[SweepJob], backend: Backend, progress: Progress = no_progress) -> list[int]:
    """The best score of each rectangle: that of its best cell, if requested, otherwise that of its last row.

    The jobs have a pruning, beta is not 0, and paths enter only through the top edge and the left edge's
    corner. A score below the bound may be too low. `progress` receives the cells of the stages.

    Raises BackendError if the device fails, and whatever `progress` raises.
    """
    descents = [_Descent(job) for job in jobs]
    under_way = descents
    while under_way:
        stages = in_threads(_Descent.next_stage, under_way)
        under_way = [one for one, stage in zip(under_way, stages, strict=True) if stage is not None]
        results = backend.sweep([stage for stage in stages if stage is not None], progress)
        for descent, result in zip(under_way, results, strict=True):
            descent.take(result)
    return [descent.best for descent in descents]


class _Descent:
    """A sweep on its way down: the row that it has come to, and the boundary there, from a column on."""

    def __init__(self, job: SweepJob) -> None:
        self.best = NEG_INF
        self._job, self._row, self._col = job, 0, 0
        self._top = job.top

    def next_stage(self) -> SweepJob | None:
        """The next rows. None at the end of the rectangle, or if no path of interest goes on."""
        job, start, pruning = self._job, self._row, self._job.pruning
        stop = min(start + _ROWS, len(job.query))
        assert pruning is not None
        columns = None if start == stop else self._columns(start, stop, pruning)
        if columns is None:
            return None
        first, last = columns
        top = self._top_between(first, last)
        left = job.left.part(start, stop) if first == 0 else _left_of_band(stop - start, top, job.scoring)
        self._row, self._col = stop, first
        return SweepJob(
            job.query[start:stop], job.target[first:last], job.scoring, top, left, False,
            (stop - start,), (), job.track_best,
            of_matrix=job.of_matrix, pruning=pruning.within(start, stop, first, last),
        )  # fmt: skip

    def _columns(self, start: int, stop: int, pruning: Pruning) -> tuple[int, int] | None:
        """The columns of a stage, as the module's docstring proves; None if no path of interest goes on."""
        scoring, h = self._job.scoring, self._top.h.astype(np.int64)
        cols, least = self._col + np.arange(len(h)), pruning.bound - scoring.gap_open
        needed = np.flatnonzero(h + pruning.gain(start, start, cols, cols) >= least)
        if len(needed) == 0:
            return None
        first = max(0, int(cols[needed[0]]) - 1)
        most = scoring.highest * (stop - start) + int(pruning.query.most[stop])
        gap_letters = (h[needed] + most - least) // scoring.gap_extend
        farthest = int((cols[needed] + gap_letters).max()) + stop - start
        return first, min(len(self._job.target), max(first + 1, farthest))

    def take(self, result: SweepResult) -> None:
        """Take the result of the stage, whose last row is the first one of the next stage."""
        [self._top] = result.rows
        if self._job.track_best:
            self.best = max(self.best, int(result.best.score))
        elif self._row == len(self._job.query):
            self.best = int(self._top.h.max())

    def _top_between(self, first: int, last: int) -> Edge:
        """The boundary above the stage with these columns. Beyond its end, cells were left out."""
        known = self._top.part(first - self._col, min(last - self._col, len(self._top)))
        missing = last - first - len(known)
        if missing == 0:
            return known
        level = values_left_out(self._job.scoring, local=False)
        sides = zip((known.h, known.gap), level, strict=True)
        return Boundary(*(np.append(side, np.full(missing, value, np.int32)) for side, value in sides))


def _left_of_band(rows: int, top: Edge, scoring: Scoring) -> LinearEdge:
    """The left edge of a stage whose first column no path of interest visits: below its corner, left out."""
    h, _ = values_left_out(scoring, local=False)
    return LinearEdge(rows, int(top.h_at([0])[0]), h, 0)
