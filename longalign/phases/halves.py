"""A rectangle with known edges and the exit of a path, cut in two between rows or columns.

D. Hirschberg, Comm. ACM 18:341 (1975); E. Myers and W. Miller, CABIOS 4:11 (1988).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from longalign.backends.base import SweepJob, SweepResult
from longalign.model.boundary import State, Waypoint
from longalign.phases.meeting import backward_sweep, is_pruned, reaching_edges, reaching_exit
from longalign.phases.problem import Approach
from longalign.system.threads import in_threads

#: Cuts lie at multiples of these. Back ends sweep rows in pairs, and columns mostly in groups of 8, 24 or 32.
_ROW_STEP, _COLUMN_STEP = 2, 96

#: The middle is rounded down to a multiple only if it holds this many steps, so the halves stay about equal.
_MIN_STEPS = 16


@dataclass(frozen=True, slots=True, eq=False)
class Halves:
    """An approach, cut after `cut` rows if `between_rows`, otherwise after `cut` columns.

    `first` sweeps its first part forward to the cut, `back` its second part from the exit back to the cut.
    """

    approach: Approach
    between_rows: bool
    cut: int
    first: SweepJob
    back: SweepJob

    @classmethod
    def of(cls, approach: Approach, min_pruned_cells: int) -> Halves:
        """The halves of an approach with a side of 2 letters or more. Its longer side is cut.

        For `min_pruned_cells`, see `Backend`.
        """
        between_rows, cut = cut_of(approach.rows, approach.cols)
        corner = (approach.i0 + cut, approach.j0) if between_rows else (approach.i0, approach.j0 + cut)
        first = _first(approach, between_rows, cut)
        back = backward_sweep(approach.problem, corner, approach.exit)
        first = reaching_exit(approach, first, min_pruned_cells)
        back = reaching_edges(approach, corner, back, min_pruned_cells)
        return cls(approach, between_rows, cut, first, back)

    def second(self, swept: SweepResult) -> Approach:
        """The part after the cut, given the result of `first`."""
        whole, top, left = self.approach, self.approach.rectangle.top, self.approach.rectangle.left
        i0, j0 = whole.i0, whole.j0
        if self.between_rows:
            i0, top, left = i0 + self.cut, swept.rows[0], left.part(self.cut, whole.rows)
        else:
            j0, top, left = j0 + self.cut, top.part(self.cut, whole.cols), swept.cols[0]
        return whole.part(i0, j0, top, left, whole.exit)

    def before(self, middle: Waypoint) -> Approach | None:
        """The part up to `middle`, where the path enters the second part.

        None if the path begins there, or comes from an edge of the whole rectangle there.
        """
        whole = self.approach
        rows, cols = middle.i - whole.i0, middle.j - whole.j0
        on_cut = (rows if self.between_rows else cols) == self.cut and min(rows, cols) > 0
        begins = whole.rectangle.local and middle.state == State.H and middle.value == 0
        if not on_cut or begins:
            return None
        top, left = whole.rectangle.top.part(0, cols), whole.rectangle.left.part(0, rows)
        return whole.part(whole.i0, whole.j0, top, left, middle)


def halves_of(approaches: Sequence[Approach], min_pruned_cells: int) -> list[Halves]:
    """The halves of each approach. To find what can be left out takes time, which threads share."""
    halves = partial(Halves.of, min_pruned_cells=min_pruned_cells)
    if any(is_pruned(each.problem, each.rectangle.cells, min_pruned_cells) for each in approaches):
        return in_threads(halves, approaches)
    return [*map(halves, approaches)]


def cut_of(rows: int, cols: int) -> tuple[bool, int]:
    """Whether a rectangle is cut between rows (else between columns), and after how many of them."""
    between_rows = rows >= cols
    length, step = (rows, _ROW_STEP) if between_rows else (cols, _COLUMN_STEP)
    middle = length // 2
    return between_rows, middle // step * step if middle >= _MIN_STEPS * step else middle


def _first(approach: Approach, between_rows: bool, cut: int) -> SweepJob:
    """The sweep from the edges of an approach to the cut."""
    whole = approach.rectangle
    rows, cols = (cut, approach.cols) if between_rows else (approach.rows, cut)
    return SweepJob(
        whole.query[:rows], whole.target[:cols], whole.scoring,
        whole.top.part(0, cols), whole.left.part(0, rows), whole.local,
        (rows,) if between_rows else (), () if between_rows else (cols,), approach.problem.has_floor,
        excluded=whole.excluded.within(0, rows, 0, cols),
    )  # fmt: skip
