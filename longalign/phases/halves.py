"""A rectangle with known edges and the exit of a path, cut in two between rows or columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from longalign.backends.base import SweepJob, SweepResult
from longalign.model.boundary import Edge, State, Waypoint
from longalign.phases.meeting import forward_half, reaching
from longalign.phases.problem import Approach


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """An approach, cut after `cut` rows if it is higher than wide, otherwise after `cut` columns.

    `first` sweeps its first part forward to the cut, `back` its second part from the exit back to the cut.
    Both may leave out cells through which no path reaches the exit with its value.
    """

    approach: Approach
    cut: int
    first: SweepJob
    back: SweepJob

    @classmethod
    def of(cls, approach: Approach) -> Halves:
        """The halves of an approach with a side of 2 letters or more."""
        rows, cols = len(approach.rectangle.query), len(approach.rectangle.target)
        cut = max(rows, cols) // 2
        first_size, at = ((cut, cols), (cut, 0)) if rows >= cols else ((rows, cut), (0, cut))
        return cls(approach, cut, _first(approach, *first_size), _back(approach, *at))

    @property
    def _between_rows(self) -> bool:
        return len(self.approach.rectangle.query) >= len(self.approach.rectangle.target)

    def second(self, swept: SweepResult) -> Approach:
        """The part after the cut, given the result of `first`."""
        whole, (i0, j0) = self.approach.rectangle, (self.approach.i0, self.approach.j0)
        rows, cols = len(whole.query), len(whole.target)
        if self._between_rows:
            i0 += self.cut
            edges: tuple[Edge, Edge] = swept.rows[0], whole.left.part(self.cut, rows)
            part = self.cut, rows, 0, cols
        else:
            j0 += self.cut
            edges = whole.top.part(self.cut, cols), swept.cols[0]
            part = 0, rows, self.cut, cols
        return Approach(i0, j0, whole.part(*part, *edges), self.approach.exit, self.approach.track_best)

    def before(self, middle: Waypoint) -> Approach | None:
        """The part up to `middle`, where the path enters the second part; None if the path comes from an edge
        of the whole rectangle there, or begins there."""
        whole, (i0, j0) = self.approach.rectangle, (self.approach.i0, self.approach.j0)
        rows, cols = middle.i - i0, middle.j - j0
        on_cut = (rows if self._between_rows else cols) == self.cut and min(rows, cols) > 0
        begins = whole.local and middle.state == State.H and middle.value == 0
        if not on_cut or begins:
            return None
        edges = whole.top.part(0, cols), whole.left.part(0, rows)
        return Approach(i0, j0, whole.part(0, rows, 0, cols, *edges), middle, self.approach.track_best)


def _first(approach: Approach, rows: int, cols: int) -> SweepJob:
    """The sweep of the first `rows` x `cols` letters, from the edges of the rectangle."""
    whole = approach.rectangle
    is_high = rows < len(whole.query)
    job = SweepJob(
        whole.query[:rows],
        whole.target[:cols],
        whole.scoring,
        whole.top.part(0, cols),
        whole.left.part(0, rows),
        whole.local,
        rows=(rows,) if is_high else (),
        cols=() if is_high else (cols,),
        track_best=approach.track_best,
        excluded=whole.excluded.within(0, rows, 0, cols),
    )
    return reaching(job, approach.exit.value, whole.query, whole.target)


def _back(approach: Approach, i: int, j: int) -> SweepJob:
    """The sweep from the exit back to the cell (i, j) of the rectangle."""
    whole, exit_ = approach.rectangle, approach.exit
    rows, cols = len(whole.query), len(whole.target)
    query, target = (np.ascontiguousarray(codes[::-1]) for codes in (whole.query, whole.target))
    half = forward_half(
        query[: rows - i],
        target[: cols - j],
        whole.scoring,
        exit_.state,
        0 if exit_.state == State.H else -whole.scoring.gap_open,
        last_row=True,
        last_col=True,
        track_best=approach.track_best,
        excluded=whole.excluded.within(i, rows, j, cols).reversed(rows - i, cols - j),
    )
    highest = max(int(whole.top.h.max()), int(whole.left.h.max()))
    bound = exit_.value - highest - whole.scoring.gap_open
    return reaching(half.job, bound, query[half.skipped[0] :], target[half.skipped[1] :])
