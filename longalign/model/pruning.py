"""Which cells of a rectangle cannot lie on a path of interest, and what stands in their place.

Two facts are known before a sweep: a *bound* that the score of every path of interest reaches, and the most
that a path can still gain from a cell on. A block of cells, of whatever size a back end leaves out at a time,
is needed only if a path can enter it with a value that, with all it can still gain, reaches the bound:

    highest + min(query_gain[i], target_gain[j]) + alpha  >=  bound

Here `highest` is the highest H, E or F on the block's upper and left edge, and (i, j) its upper left corner.
The gains do not increase with i and j, so those at the corner hold for the whole block. A path that enters in
E or F has a gap open already. It may gain alpha more than a path from H, whose gap would have to be opened.
In local mode a path may also begin inside the block, with value 0. The edges of the block then hold no H
below 0, so the same test covers it.

Why the result is the same. The values that stand in the place of a block (`left_out`) are never higher than
the true ones. So no value anywhere is too high. Take a path that reaches the bound. By induction along it,
its value is exact wherever it enters a block, so the test holds and the block is computed. Therefore all such
paths have exact values in all of their cells: score, end cell and the choice among equally good paths are
those of the whole matrix. Off these paths, values may be too low. A tie counts as needed.

Source: pruning blocks by the best score so far is from CUDAlign (E. F. de O. Sandes and A. C. M. A. de Melo,
IEEE Trans. Parallel Distrib. Syst. 24:1009-1021, 2013).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from longalign.model.boundary import Edge, IntArray, LinearEdge
from longalign.model.scoring import NEG_INF, Scoring
from longalign.model.strand import Strand

#: Cells of an alignment in which letter pairs begin, int64 of shape (cells, 3), in order: the row, the column
#: (boundary indices), and the score of the alignment up to there.
Milestones = NDArray[np.int64]

#: Stretches of diagonals that an alignment follows, in order, int64 of shape (anchors, 4): the first and the
#: last row boundary, then the first and the last column boundary.
Anchors = NDArray[np.int64]

NO_ANCHORS: Anchors = np.empty((0, 4), np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Pruning:
    """What a sweep of a rectangle of m x n letters may leave out.

    Only paths through the rectangle that end, wherever they end, with a score of at least `bound` are of
    interest. `query_gain` of shape (m + 1,) and `target_gain` of shape (n + 1,), int32, do not increase. A
    path in H at boundary (i, j) gains at most the smaller of `query_gain[i]` and `target_gain[j]` from there
    on, inside and beyond the rectangle.

    `rises`: the best score found raises the bound while the rectangle is swept. This is only right where a
    path of interest may end in any cell, as its best score is then that of the best cell.
    """

    bound: int
    query_gain: IntArray
    target_gain: IntArray
    rises: bool = False

    def within(self, i0: int, i1: int, j0: int, j1: int) -> Pruning:
        """The same for the part of the rectangle with the rows i0 <= i < i1 and the columns j0 <= j < j1."""
        return Pruning(self.bound, self.query_gain[i0 : i1 + 1], self.target_gain[j0 : j1 + 1], self.rises)

    def needs(self, top: Edge, left: Edge, gap_open: int) -> bool:
        """Whether a path of interest may visit the rectangle, given its top and left edge.

        The same as `is_needed`, but each cell of the edges is tested with its own gains. On a linear edge,
        where H is highest at the beginning, one test does for all cells. No gap state is above H.
        """
        least = self.bound - gap_open
        return any_reaches(top, self.target_gain, int(self.query_gain[0]), least) or any_reaches(
            left, self.query_gain, int(self.target_gain[0]), least
        )


def any_reaches(edge: Edge, gains: IntArray, other_gain: int, least: int) -> bool:
    """Whether H somewhere on an edge, with what can be gained from there on, is at least `least`.

    Only stretches whose upper bound of H is high enough are unpacked, neighbouring ones together.
    """
    firsts, highest = edge.stretches()
    stops = np.append(firsts[1:], len(edge) + 1)
    may_reach = np.flatnonzero(highest + np.minimum(gains[firsts], other_gain) >= least)
    if isinstance(edge, LinearEdge) or not len(may_reach):
        return len(may_reach) > 0
    for together in np.split(may_reach, np.flatnonzero(np.diff(may_reach) > 1) + 1):
        first, stop = int(firsts[together[0]]), int(stops[together[-1]])
        h, _ = edge.cells(first, stop)
        if np.add(h, np.minimum(gains[first:stop], other_gain), dtype=np.int64).max() >= least:
            return True
    return False


@dataclass(frozen=True, slots=True)
class KnownBound:
    """The score of an alignment, scaled, and the share of the cells that a sweep with this bound computes.

    The share, 0..1, is an estimate. The other fields are not part of what a store notes, and may be missing.
    `prunings` are what sweeps may leave out, by the strand of the query. `anchors` are those with which gains
    were computed. `milestones` are cells of the alignments of that score.
    """

    score: int
    share: float
    prunings: Mapping[Strand, Pruning] = field(default_factory=dict, compare=False, repr=False)
    anchors: Mapping[Strand, Anchors] = field(default_factory=dict, compare=False, repr=False)
    milestones: Mapping[Strand, Milestones] = field(default_factory=dict, compare=False, repr=False)


def is_needed(highest: int, query_gain: int, target_gain: int, gap_open: int, bound: int) -> bool:
    """Whether a block may lie on a path of interest; the gains are those at its upper left corner.

    Back ends compile it. All numbers fit 32 bits, but their sum may not.
    """
    return highest + min(query_gain, target_gain) + gap_open >= bound


def values_left_out(scoring: Scoring, local: bool) -> tuple[int, int]:
    """H and the gap state in a cell that was left out: never higher than the true values.

    In local mode H is at least 0, so that E and F of the next cell are at least -alpha - beta.
    """
    return (0, -scoring.gap_open - scoring.gap_extend) if local else (NEG_INF, NEG_INF)
