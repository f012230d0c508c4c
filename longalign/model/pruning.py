"""Which cells of a rectangle cannot lie on a path of interest, and what stands in their place.

Two facts are known before a sweep: a *bound* that the score of every path of interest reaches, and the most
that a path can still gain from a cell on. A block of cells, of whatever size a back end leaves out at a time,
is needed only if a path can enter it with a value that, with all it can still gain, reaches the bound:

    highest + gain + alpha  >=  bound

Here `highest` is the highest H, E or F on the block's upper and left edge, and `gain` is the most that a path
in H gains from any boundary of the block on (`Pruning.gain`). A path that enters in E or F has a gap open
already. It may gain alpha more than a path from H, whose gap would have to be opened. In local mode a path
may also begin inside the block, with value 0. The edges of the block then hold no H below 0, so the same test
covers it.

**What a gain depends on.** The letters of the query that are left limit it, and so do those of the target. A
path may also lag behind: it has used many letters of the query, but few of the target. If similar letters of
the two are not there, but further on in the target, the path gains little, or it has to catch up by a gap. A
gap of one letter more costs beta more. So for each place in the query there is a limit that rises by beta
with each letter of the target, and likewise with query and target exchanged (`SideGains`).

Why the result is the same. The values that stand in the place of a block (`values_left_out`) are never higher
than the true ones. So no value anywhere is too high. Take a path that reaches the bound. By induction along
it, its value is exact wherever it enters a block, so the test holds and the block is computed. Therefore all
such paths have exact values in all of their cells: score, end cell and the choice among equally good paths
are those of the whole matrix. Off these paths, values may be too low. A tie counts as needed.

Source: pruning blocks by the best score so far is from CUDAlign (E. F. de O. Sandes and A. C. M. A. de Melo,
IEEE Trans. Parallel Distrib. Syst. 24:1009-1021, 2013).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

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

#: Rows from which it is known how much a path gains at most, in order: int64 of shape (rows, 2). The first
#: number is the row boundary, a multiple of `SPACING` between 0 and the last row. The second is the most that
#: a path in H gains from any of its cells on.
RowLimits = NDArray[np.int64]

NO_LIMITS: RowLimits = np.empty((0, 2), np.int64)


class Findings(NamedTuple):
    """What has been found out about two sequences, with which closer gains are computed.

    `anchors` are those of an alignment. Gains verify them. `limits` are taken to be true. They hold for one
    scoring, and for the ends that one mode frees.
    """

    anchors: Anchors = NO_ANCHORS
    limits: RowLimits = NO_LIMITS


NO_FINDINGS = Findings()

#: Boundary indices: a number or an integer array.
Places = int | NDArray[np.int64]

#: The most that a path in H gains from any cell from the first to the last one of a line.
GainAlong = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]

#: `SideGains.floor` and `SideGains.line` hold one number for each group of `SPACING` letters.
SPACING = 8

#: The ends of the range of gains.
LOWEST, _HIGHEST = np.iinfo(np.int32).min, np.iinfo(np.int32).max


@dataclass(frozen=True, slots=True, eq=False)
class SideGains:
    """The most that a path can still gain, by its place in one of two sequences, which has n letters.

    Take a path in H at boundary k of this sequence and boundary x of the other one. It gains no more than

        min(most[k], max(floor[k // SPACING], line[k // SPACING] + slope * x))

    from there on. `most` has the shape (n + 1,). The other two have the shape (n // SPACING + 1,). All are
    int32 and do not increase. `slope` is the beta of the scoring, or 0 where `floor` is nowhere less than
    `most`, so that the line makes no difference.
    """

    most: IntArray
    floor: IntArray
    line: IntArray
    slope: int

    def __post_init__(self) -> None:
        kept = (len(self.most) - 1) // SPACING + 1
        if {len(self.floor), len(self.line)} != {kept}:
            raise ValueError(f"gains for {len(self.most) - 1} letters need {kept} numbers by diagonal")

    @classmethod
    def of(cls, most: IntArray) -> SideGains:
        """Gains that do not depend on the place in the other sequence."""
        floor = most[::SPACING]
        return cls(most, floor, np.full_like(floor, LOWEST), 0)

    @property
    def arrays(self) -> tuple[IntArray, IntArray, IntArray]:
        """The three arrays. One after the other, they are the table that `limits_at` reads."""
        return self.most, self.floor, self.line

    def within(self, start: int, stop: int, other_start: int) -> SideGains:
        """The same for the letters start <= k < stop of this sequence, and x >= other_start of the other one.

        Unless `start` is a multiple of SPACING, `floor` and `line` are those of up to 7 letters before, so
        the result may be larger. A line beyond 32 bits is clipped. That changes nothing at the upper end, as
        `most` is no larger, and raises the line at the lower end.
        """
        first, count = start // SPACING, (stop - start) // SPACING + 1
        floor, line = (values[first : first + count] for values in (self.floor, self.line))
        moved = np.clip(line + np.int64(self.slope * other_start), LOWEST, _HIGHEST).astype(np.int32)
        return SideGains(self.most[start : stop + 1], floor, moved, self.slope)

    def at(self, first: Places, last_other: Places) -> NDArray[np.int64]:
        """The most that a path gains from any boundary k >= first here and x <= last_other in the other one.

        For numbers, or for integer arrays that broadcast. The result is int64.
        """
        at = np.asarray(first) // SPACING
        line = self.line[at] + np.int64(self.slope) * last_other
        least: NDArray[np.int64] = np.minimum(self.most[first], np.maximum(self.floor[at], line))
        return least


@dataclass(frozen=True, slots=True, eq=False)
class Pruning:
    """What a sweep of a rectangle of m x n letters may leave out.

    Only paths through the rectangle that end, wherever they end, with a score of at least `bound` are of
    interest. `query` and `target` are what a path can gain, inside and beyond the rectangle, by its place in
    the m query letters and in the n target letters.

    `rises`: the best score found raises the bound while the rectangle is swept. This is only right where a
    path of interest may end in any cell, as its best score is then that of the best cell.
    """

    bound: int
    query: SideGains
    target: SideGains
    rises: bool = False

    def within(self, i0: int, i1: int, j0: int, j1: int) -> Pruning:
        """The same for a part of the rectangle: the cells i0 < i <= i1, j0 < j <= j1."""
        return replace(self, query=self.query.within(i0, i1, j0), target=self.target.within(j0, j1, i0))

    def gain(self, i0: Places, i1: Places, j0: Places, j1: Places) -> NDArray[np.int64]:
        """The most that a path in H gains from any boundary (i, j) on, i0 <= i <= i1 and j0 <= j <= j1.

        For numbers, or for integer arrays that broadcast. The result is int64.
        """
        return np.minimum(self.query.at(i0, j1), self.target.at(j0, i1))

    def along_row(self, i: int, j: int) -> GainAlong:
        """The most that a path in H gains from a stretch of row i on. Columns count from j."""
        return lambda first, last: self.gain(i, i, j + first, j + last)

    def along_column(self, i: int, j: int) -> GainAlong:
        """The most that a path in H gains from a stretch of column j on. Rows count from i."""
        return lambda first, last: self.gain(i + first, i + last, j, j)

    def needs(self, top: Edge, left: Edge, gap_open: int, i: int = 0, j: int = 0) -> bool:
        """Whether a path of interest may enter the part that begins at (i, j), given its top and left edge.

        Each cell of the edges is tested like a block in `is_needed`, with its own gain. On a linear edge,
        where H is highest at the beginning, one test does for all cells. No gap state is above H. The caller
        tests paths that begin inside the part.
        """
        least = self.bound - gap_open
        return any_reaches(top, self.along_row(i, j), least) or any_reaches(
            left, self.along_column(i, j), least
        )


def any_reaches(edge: Edge, gain: GainAlong, least: int) -> bool:
    """Whether H somewhere on an edge, with what can be gained from there on, is at least `least`.

    Only stretches whose upper bound is high enough are unpacked. If there are several, the one with the
    highest bound comes first, which mostly settles it; then neighbouring ones are unpacked together.
    """
    firsts, highest = edge.stretches()
    lasts = np.append(firsts[1:] - 1, len(edge))
    most = highest + gain(firsts, lasts)
    may_reach = np.flatnonzero(most >= least)
    if isinstance(edge, LinearEdge) or not len(may_reach):
        return len(may_reach) > 0
    neighbours = np.split(may_reach, np.flatnonzero(np.diff(may_reach) > 1) + 1)
    if len(may_reach) > 1:
        neighbours.insert(0, np.array([most.argmax()]))
    for together in neighbours:
        first, last = int(firsts[together[0]]), int(lasts[together[-1]])
        h, _ = edge.cells(first, last + 1)
        cells = np.arange(first, last + 1)
        if (h + gain(cells, cells)).max() >= least:
            return True
    return False


@dataclass(frozen=True, slots=True)
class KnownBound:
    """The score of an alignment, scaled, and the share of the cells that a sweep with this bound computes.

    The share, 0..1, is an estimate. The other fields may be missing: a manifest does not note them.
    `prunings` are what sweeps may leave out, by the strand of the query. `findings` are those with which its
    gains were computed; a store keeps them in files of their own. `milestones` are cells of the alignments
    of that score.
    """

    score: int
    share: float
    prunings: Mapping[Strand, Pruning] = field(default_factory=dict, compare=False, repr=False)
    findings: Mapping[Strand, Findings] = field(default_factory=dict, compare=False, repr=False)
    milestones: Mapping[Strand, Milestones] = field(default_factory=dict, compare=False, repr=False)


def limits_at(gains: IntArray, at: int, letters: int, place: int) -> tuple[int, int, int]:
    """`most`, `floor` and `line` of a boundary of a sequence of that many letters.

    `gains` is a table in which the `SideGains.arrays` of this sequence lie end to end from index `at` on.
    Back ends compile this function.
    """
    floor_at = at + letters + 1 + place // SPACING
    return gains[at + place], gains[floor_at], gains[floor_at + letters // SPACING + 1]


def gain_within(limits: tuple[int, int, int], slope: int, last_other: int) -> int:
    """`SideGains.at` of a boundary, from its `limits_at`. Back ends compile it.

    All numbers fit 32 bits, but their sums may not.
    """
    most, floor, line = limits
    return min(most, max(floor, line + slope * last_other))


def table_length(letters: int) -> int:
    """How many numbers `SideGains.arrays` have together."""
    return letters + 1 + 2 * (letters // SPACING + 1)


def is_needed(highest: int, gain: int, gap_open: int, bound: int) -> bool:
    """Whether a block may lie on a path of interest. `gain` is the smaller one of both sequences' gains.

    Back ends compile it. All numbers fit 32 bits, but their sums may not.
    """
    return highest + gain + gap_open >= bound


def values_left_out(scoring: Scoring, local: bool) -> tuple[int, int]:
    """H and the gap state in a cell that was left out: never higher than the true values.

    In local mode H is at least 0, so that E and F of the next cell are at least -alpha - beta.
    """
    return (0, -scoring.gap_open - scoring.gap_extend) if local else (NEG_INF, NEG_INF)
