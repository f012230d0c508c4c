"""Guessed lattice rows, with which a pruned phase 1 works in several places of a band at once.

The tiles along the path form a chain, in which each waits for the one before. A *guessed line* stands in for
a lattice row that is not known yet, so that the tiles below it need not wait. The tile rows from one guessed
line to the next are a *slab*. When all tiles are swept, each guess is compared with the row that the slab
above has found. A slab whose guess was wrong is swept again.

**The guess.** A *milestone* is a cell of the alignment that seeds have found, with the score of the alignment
up to there. Some rows further down, the best paths to all cells of the band have come through the milestone,
or through cells near it, if the guess is right. So a sweep from the milestone alone gives the values of a row
there, but for a constant: what the alignment so far lacks to the best one. Parallel sweeps of that kind are
known as rank convergence (S. Maleki, M. Musuvathi and T. Mytkowicz, PPoPP 2014).

**The check.** A value v of H, E or F in a cell is *of interest* if v + R + alpha reaches the bound, where R
is what can still be gained from the cell on: see `model.pruning`, whose bound must not rise in the meantime.
A guess is right if there is a number `added` <= 0 such that the guessed line plus `added` and the true line
have the same values wherever one of the two is of interest. The value of the milestone is raised by a margin,
so that `added` is not positive. No path that reaches the bound may begin below the line.

**Why the result is the same.** Let T be the true value of a cell and state, and rest the true best gain from
there on. Call a value v hopeless if v + rest is below the bound. Claim: a slab's values plus `added` are at
most T or hopeless. On the line, values of interest are T, and the others are hopeless, since rest is at most
R, or R + alpha in a gap. Values of cells that were left out, and the 0 with which a local path begins, are at
most T before a number <= 0 is added. A step to the next cell keeps the claim: what a hopeless value gains by
the step, rest loses at least. (Back ends that raise low values, see `cuda.planning.raised_range`, raise them
to what a detour from a nearby cell gives. T and rest of nearby cells differ by no more than that detour.)

Now take a path that reaches the bound. It crosses the line with a value of interest, so that is T. By
induction, its values plus `added` are at least T. They are not hopeless, so they are T. The slab's sweep
compares values that are too high by -`added`, so it leaves out nothing that the path needs, and neither does
the choice of its tiles, which looks at the guessed line only. So all paths that reach the bound have exact
values, and no other value can take their place.

**What reads the values later.** `ShiftedEdge` raises H to that of cells left out, and the gap state with it.
In local mode, that may exceed T; but no value of at most 0 below the line reaches the bound, so it is
hopeless. Phases 2 and 3 look for what accounts for a value on a path that reaches the bound. A hopeless value
never does: with the step and what follows it would stay below the bound. In a corner of a tile below the
line, the top and the left edge may hold different values, but only hopeless ones.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Backend, Progress, SweepJob, no_progress
from longalign.model.boundary import Boundary, Edge, IntArray, LinearEdge, State, entry_edges
from longalign.model.geometry import Grid
from longalign.model.pruning import Milestones, Pruning, SideGains, any_reaches, values_left_out
from longalign.model.scoring import NEG_INF, Scoring
from longalign.phases.problem import Problem

#: The sweep of a guess begins above the guessed row. The distance, in rows and in columns, is half the width
#: of the band plus this number of letters. The best paths to some cells of the band may follow a repeat
#: beside the alignment. The guess can still be right if no such repeat is longer than this.
_LONGEST_REPEAT = 1 << 16

#: 1 / `_SPARE_PART` of half the width is added as well. Past a run of N, the best paths to the outermost
#: cells of a wide band run beside the alignment for longer than the run. One guess began just below a run of
#: 50,000, and 1,114 of its 4.1 million values of interest were wrong. Begun above the run, it was right
#: (`slabs_cuda.json`).
_SPARE_PART = 16

#: The score up to a milestone may be lower than that of the best path. The difference is assumed to be at
#: most the bound divided by this number.
_MARGIN = 1 << 11


@dataclass(frozen=True, slots=True, eq=False)
class GuessedLine:
    """H and E of the cells of lattice row `row` from column `first` on, minus an unknown constant.

    `beside` is the true H at column 0. On both sides of the line stand cells that were left out, with H and E
    as in `values_left_out`.
    """

    row: int
    first: int
    line: Boundary
    beside: int
    values_left_out: tuple[int, int]

    def part(self, j0: int, j1: int) -> Edge:
        """The line from column j0 to column j1, with the values of cells that were left out around it."""
        level, _ = self.values_left_out
        begin, end = max(j0, self.first), min(j1, self.first + len(self.line))
        if begin > end:
            return LinearEdge(j1 - j0, self.beside if j0 == 0 else level, level, 0)
        h, gap = (np.full(j1 - j0 + 1, value, np.int32) for value in self.values_left_out)
        there, here = slice(begin - self.first, end - self.first + 1), slice(begin - j0, end - j0 + 1)
        h[here], gap[here] = self.line.h[there], self.line.gap[there]
        if j0 == 0:
            h[0] = self.beside
        gap[0] = NEG_INF
        return Boundary(h, gap)


@dataclass(frozen=True, eq=False)
class ShiftedEdge:
    """An edge with `added` in all values, but with no H below `least`."""

    edge: Edge
    added: int
    least: int

    @cached_property
    def _all(self) -> tuple[IntArray, IntArray]:
        return self.cells(0, len(self) + 1)

    @property
    def h(self) -> IntArray:
        """See `Edge`."""
        return self._all[0]

    @property
    def gap(self) -> IntArray:
        """See `Edge`."""
        return self._all[1]

    def h_at(self, indices: Sequence[int]) -> IntArray:
        """See `Edge`."""
        return self._shifted(self.edge.h_at(indices))

    def cells(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """See `Edge`."""
        h, gap = self.edge.cells(start, stop)
        shifted = self._shifted(h)
        # The gap state keeps its distance from H. Minus infinity remains what it is.
        return shifted, np.maximum(gap + (shifted - h), np.int32(NEG_INF))

    def part(self, start: int, stop: int) -> ShiftedEdge:
        """See `Edge`."""
        return ShiftedEdge(self.edge.part(start, stop), self.added, self.least)

    def stretches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `Edge`."""
        firsts, highest = self.edge.stretches()
        return firsts, np.maximum(highest + self.added, self.least)

    def __len__(self) -> int:
        return len(self.edge)

    def _shifted(self, h: IntArray) -> IntArray:
        return np.maximum(h, self.least - self.added) + np.int32(self.added)


def rows_to_guess(grid: Grid, milestones: Milestones, slabs: int) -> tuple[int, ...]:
    """The lattice rows that cut a matrix into slabs: about `slabs` of them, with about as many tiles each.

    The rows are edges of tiles, and lie between the first and the last milestone. The tiles of a band from
    the upper left corner to a milestone are counted by its row and column together. Those that follow the
    last milestone are not counted.
    """
    at, to = milestones[:, 0], milestones[:, :2].sum(axis=1)
    inner = np.array([row for row in grid.tile_rows[1:-1] if at[0] < row < at[-1]], np.int64)
    if not len(inner) or slabs < 2:
        return ()
    wanted = np.linspace(0, to[-1], slabs + 1)[1:-1]
    nearest = np.abs(np.interp(inner, at, to)[:, None] - wanted).argmin(axis=0)
    return tuple(sorted({int(inner[k]) for k in nearest}))


def guessed_line(
    problem: Problem, milestones: Milestones, row: int, backend: Backend, progress: Progress = no_progress
) -> GuessedLine | None:
    """A guess of a lattice row, or None if it cannot be guessed.

    That is so if no milestone is far enough above it, if a path that reaches the bound may begin below it,
    and, in local mode, if H on the edges of the sweep would be below 0.
    Requires pruning. Raises BackendError if the device fails, and whatever `progress` raises.
    """
    pruning, scoring = problem.pruning, problem.scoring
    assert pruning is not None
    milestones = milestones[: np.searchsorted(milestones[:, 0], row, side="right")]
    if len(milestones) == 0 or _may_begin_below(problem, row):
        return None
    margin = abs(pruning.bound) // _MARGIN
    half_width = _half_width(pruning, milestones, row, margin, scoring)
    distance = half_width + half_width // _SPARE_PART + _LONGEST_REPEAT
    at, column, _ = milestones[-1].tolist()
    column += row - at
    j1 = min(len(problem.target), column + distance)
    far_enough = (milestones[:, 0] <= row - distance) & (milestones[:, 1] <= column - distance)
    if not far_enough.any():
        return None
    i0, j0, value = milestones[np.flatnonzero(far_enough)[-1]].tolist()
    edges = entry_edges(State.H, row - i0, j1 - j0, scoring, value + margin)
    if problem.has_floor and min(edge.value(len(edge)) for edge in edges) < 0:
        return None
    job = SweepJob(
        *problem.letters(i0, row, j0, j1),
        scoring,
        *edges,
        problem.has_floor,
        rows=(row - i0,),
        track_best=problem.mode.ends_anywhere,
        of_matrix=True,
        pruning=replace(pruning.within(i0, row, j0, j1), rises=False),
    )
    [result] = backend.sweep([job], progress)
    beside = int(problem.left.h_at([row])[0])
    return GuessedLine(row, j0, result.rows[0], beside, values_left_out(scoring, problem.has_floor))


def _half_width(pruning: Pruning, milestones: Milestones, row: int, margin: int, scoring: Scoring) -> int:
    """About how many letters a path of interest may be right of the alignment in a row or, if more, below it.

    A path to the right leaves the alignment in this row by a horizontal gap. One below has left it in a row
    above, at one of the milestones, by a vertical gap. Both pay beta for each letter. The gap that leads them
    back is not counted: too large a width costs little, and too small a one makes guesses wrong. `milestones`
    are those down to the row, at least one. The letters between the last one and the row are taken for
    matches.
    """
    sides = SideGains.of(pruning.query.most), SideGains.of(pruning.target.most)
    by_place = Pruning(pruning.bound, *sides)
    beta, least = scoring.gap_extend, pruning.bound - margin
    at, column, value = milestones[-1].tolist()
    value, column = value + scoring.highest * (row - at), column + row - at

    def is_lost(letters: int) -> bool:
        still = by_place.gain(row, row, column + letters, column + letters)
        return bool(value - beta * letters + still < least)

    right = bisect_left(range(len(pruning.target.most) - column), True, key=is_lost) - 1
    above, columns, values = milestones.T
    reached = values - beta * (row - above) + by_place.gain(row, row, columns, columns)
    of_interest = np.flatnonzero(reached >= least)
    below = row - int(above[of_interest[0]]) if len(of_interest) else 0
    return max(0, right, below)


def _may_begin_below(problem: Problem, row: int) -> bool:
    """Whether a path that reaches the bound may begin below a row.

    It begins on the left edge or, with the floor of 0, in any cell. The left edge is then 0, and its cells
    are tested with what can be gained from any column on.
    """
    pruning, columns = problem.pruning, len(problem.target)
    assert pruning is not None
    left = problem.left.part(row, len(problem.query))
    least, last_column = pruning.bound - problem.scoring.gap_open, columns if problem.has_floor else 0
    return any_reaches(left, lambda first, last: pruning.gain(row + first, row + last, 0, last_column), least)


def difference(
    line: GuessedLine, true: Sequence[Edge], cuts: Sequence[int], pruning: Pruning, gap_open: int
) -> int | None:
    """What is to be added to a guessed line to get the true one; None if the guess was wrong.

    `true` are the pieces of the true line between the columns `cuts`. The corner of each belongs to the piece
    before.
    """
    least, row = pruning.bound - gap_open, line.row
    first, last = line.first, line.first + len(line.line)
    compared = []
    for j0, j1, edge in zip(cuts[:-1], cuts[1:], true, strict=True):
        begin, end = max(first, j0 + 1), min(last, j1)
        if begin > end:
            begin, end = j1 + 1, j1
        for start, stop in ((j0 + 1, begin - 1), (end + 1, j1)):  # not guessed
            if start <= stop and any_reaches(
                edge.part(start - j0, stop - j0), pruning.along_row(row, start), least
            ):
                return None
        if begin <= end:
            compared.append((j0, edge, begin, end))

    def both_lines(j0: int, edge: Edge, begin: int, end: int) -> NDArray[np.int64]:
        columns = np.arange(begin, end + 1)
        limit = least - pruning.gain(row, row, columns, columns)
        known = edge.cells(begin - j0, end - j0 + 1)
        guess = line.line.cells(begin - first, end - first + 1)
        return np.array([*known, *guess, limit], np.int64)

    # Each piece is read twice, so that only one is in memory at a time.
    added = _difference_at_peak(starmap(both_lines, compared))
    is_right = added is not None and all(_differ_by(added, piece) for piece in starmap(both_lines, compared))
    return added if is_right else None


def _difference_at_peak(pieces: Iterable[NDArray[np.int64]]) -> int | None:
    """The true H minus the guessed one, in the cell whose true H exceeds its limit most.

    A piece has the values of cells side by side, int64 of shape (5, cells): the true H and E, H and E as
    guessed, and the limit, from which on a value is of interest. The result is None if it would be above 0,
    or if no true H is of interest.
    """
    highest, added = -1, 0
    for h, _, guessed_h, _, limit in pieces:
        peak = int(np.argmax(h - limit))
        if h[peak] - limit[peak] > highest:
            highest, added = int(h[peak] - limit[peak]), int(h[peak] - guessed_h[peak])
    return added if highest >= 0 >= added else None


def _differ_by(added: int, piece: NDArray[np.int64]) -> bool:
    """Whether the true values of a piece are the guessed ones plus `added`.

    Only cells count in which one of the two is of interest. `_difference_at_peak` says what a piece is.
    """
    h, e, guessed_h, guessed_e, limit = piece
    for known, guess in ((h, guessed_h + added), (e, guessed_e + added)):
        is_of_interest = (known >= limit) | (guess >= limit)
        if (known[is_of_interest] != guess[is_of_interest]).any():
            return False
    return True
