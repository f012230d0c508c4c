"""One alignment problem: letters, scoring, mode and boundary conditions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from longalign.backends.base import Rectangle, TraceJob
from longalign.model.alphabet import Codes
from longalign.model.boundary import Edge, State, Waypoint, entry_edges, local_edges, start_parts
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs
from longalign.model.mode import Mode
from longalign.model.pruning import NO_FINDINGS, Findings, Pruning
from longalign.model.scoring import UNREACHABLE, Scoring
from longalign.model.sequence import Sequence
from longalign.pruning.gains import Gains, gains


@dataclass(frozen=True, eq=False)
class Problem:
    """The matrix of two sequences: codes (m,) and (n,) uint8, scoring, mode, and its upper and left edge.

    `entry` is the state in which every path starts that starts in the upper left corner. No path uses the
    letter pairs in `excluded`. With `pruning`, only paths that reach its bound are of interest.
    """

    query: Codes
    target: Codes
    scoring: Scoring
    mode: Mode
    top: Edge
    left: Edge
    excluded: ExcludedPairs = NO_PAIRS
    pruning: Pruning | None = None

    @classmethod
    def of(cls, query: Sequence, target: Sequence, scoring: Scoring, mode: Mode) -> Problem:
        """Two sequences, in the alphabet of `scoring`, in a mode."""
        return cls.of_codes(query.as_query(), target.as_target(), scoring, mode)

    @classmethod
    def of_codes(cls, query: Codes, target: Codes, scoring: Scoring, mode: Mode) -> Problem:
        """The codes of two sequences in a mode: what the mode frees decides the edges of the matrix."""
        free_top, free_left = local_edges(len(query), len(target))
        top, left = entry_edges(State.H, len(query), len(target), scoring)
        ends = mode.ends
        return cls(
            query,
            target,
            scoring,
            mode,
            free_top if ends.target_start else top,
            free_left if ends.query_start else left,
        )

    def gains(self, findings: Findings = NO_FINDINGS) -> Gains:
        """The most that a path can gain from each cell on; less with `findings`."""
        return gains(self.query, self.target, self.scoring, findings=findings, ends=self.mode.ends)

    def pruning_by(self, bound: int, gains: Gains | None = None) -> Pruning:
        """What a sweep may leave out if only paths that reach `bound`, the score of one, are of interest.

        `gains` is what the method of that name has returned, if it has been called already.
        """
        gains = self.gains() if gains is None else gains
        return Pruning(bound, gains.query, gains.target, self.mode.ends_anywhere)

    @property
    def codes(self) -> tuple[Codes, Codes]:
        """Those of both sequences."""
        return self.query, self.target

    @property
    def has_floor(self) -> bool:
        """Whether no H falls below 0, because a path may start in any cell: the flag `local` of sweeps."""
        return self.mode.starts_anywhere

    def is_start(self, point: Waypoint) -> bool:
        """Whether a path that was followed backwards to this point starts there."""
        in_h = point.state == State.H
        return point == self.corner or (in_h and self.mode.starts_at(point.i, point.j, point.value))

    @property
    def corner(self) -> Waypoint:
        """The start of every path that runs along an edge of the matrix."""
        return Waypoint(0, 0, State.H, 0)

    def letters(self, i0: int, i1: int, j0: int, j1: int) -> tuple[Codes, Codes]:
        """The query letters of rows i0 < i <= i1 and the target letters of columns j0 < j <= j1."""
        return self.query[i0:i1], self.target[j0:j1]

    def rectangle(
        self, i0: int, i1: int, j0: int, j1: int, top: Edge, left: Edge, *, local: bool
    ) -> Rectangle:
        """The rows i0 < i <= i1 and columns j0 < j <= j1 with these edges; `local` sets the floor of 0."""
        place = i0, i1, j0, j1
        excluded = self.excluded.within(*place)
        return Rectangle(*self.letters(*place), self.scoring, top, left, local, excluded=excluded)

    def letters_backwards(self, i0: int, i1: int, j0: int, j1: int) -> tuple[Codes, Codes]:
        """The same letters in reverse order."""
        query, target = self._backwards
        rows, cols = len(query), len(target)
        return query[rows - i1 : rows - i0], target[cols - j1 : cols - j0]

    def excluded_backwards(self, i0: int, i1: int, j0: int, j1: int) -> ExcludedPairs:
        """The excluded pairs of `letters_backwards`."""
        return self.excluded.within(i0, i1, j0, j1).reversed(i1 - i0, j1 - j0)

    @cached_property
    def _backwards(self) -> tuple[Codes, Codes]:
        # Reversed once: each rectangle that is swept backwards then takes a contiguous part of it.
        return self.query[::-1].copy(), self.target[::-1].copy()


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the optimal path between two waypoints, entry before exit."""

    entry: Waypoint
    exit: Waypoint

    @property
    def rows(self) -> int:
        return self.exit.i - self.entry.i

    @property
    def cols(self) -> int:
        return self.exit.j - self.entry.j

    @property
    def cells(self) -> int:
        return self.rows * self.cols

    def detour(self, scoring: Scoring) -> int:
        """By how many diagonals at most the path leaves the band between its two ends: see `TraceJob.detour`.

        Let d be that number. Then at least d query letters and d target letters are in gaps, besides the
        difference of the side lengths. Each such pair of letters could have been a letter pair, which scores
        at most `highest`, and costs beta twice instead. If d > 0 there is a vertical and a horizontal gap.
        Their openings are paid inside, but for one that is open on entry. All this cannot cost more than what
        the path's gain lacks to the best one that the side lengths allow.

        Where other cells are left out, a value may be lower than in the whole rectangle, but not by more than
        the cost of a gap: there is one from the path to any cell. Where such values could leave the 32-bit
        range, nothing is left out.
        """
        shorter, longer = sorted((self.rows, self.cols))
        most = scoring.highest * shorter - scoring.gap_extend * (longer - shorter)
        openings = scoring.gap_open * (2 if self.entry.state == State.H else 1)
        lost = most - (self.exit.value - self.entry.value) - openings
        by_each = scoring.highest + 2 * scoring.gap_extend
        lowest = -3 * scoring.gap_open - 2 * scoring.gap_extend * (shorter + longer)
        if by_each <= 0 or lowest < UNREACHABLE:
            return shorter
        return min(shorter, max(0, lost // by_each))

    def trace_job(self, problem: Problem) -> TraceJob:
        """The segment as a job for `Backend.trace`."""
        place = self.entry.i, self.exit.i, self.entry.j, self.exit.j
        return TraceJob(
            *problem.letters(*place),
            problem.scoring,
            self.entry.state,
            self.exit.state,
            self.detour(problem.scoring),
            excluded=problem.excluded.within(*place),
        )

    def cut(self, at: Waypoint) -> tuple[Segment, Segment]:
        """The stretches before and after a point on the path."""
        return Segment(self.entry, at), Segment(at, self.exit)


@dataclass(frozen=True, slots=True, eq=False)
class Approach:
    """A rectangle of the DP matrix with known edges, and the `exit` of a path in its lower right corner.

    (i0, j0) is the rectangle's upper left corner. The path enters the rectangle through its top or left edge
    or, if `rectangle.local`, may begin inside. The values on the edges are those of the whole matrix, or
    lower where the path does not pass.
    """

    problem: Problem
    i0: int
    j0: int
    rectangle: Rectangle
    exit: Waypoint

    @property
    def rows(self) -> int:
        return len(self.rectangle.query)

    @property
    def cols(self) -> int:
        return len(self.rectangle.target)

    def part(self, i0: int, j0: int, top: Edge, left: Edge, exit_: Waypoint) -> Approach:
        """The part from the cell (i0, j0) of the DP matrix to an exit, with these edges."""
        place, local = (i0, exit_.i, j0, exit_.j), self.rectangle.local
        return Approach(self.problem, i0, j0, self.problem.rectangle(*place, top, left, local=local), exit_)

    def entry(self, code: int) -> Waypoint:
        """The cell at which the path enters, or begins, given its `boundary.start_code` in the rectangle."""
        row, col, state = start_parts(code)
        value = 0
        if row == 0 or col == 0:
            edge, cell = (self.rectangle.top, col) if row == 0 else (self.rectangle.left, row)
            h, gap = edge.cells(cell, cell + 1)
            value = int((h if state == State.H else gap)[0])
        return Waypoint(self.i0 + row, self.j0 + col, State(state), value)


def reachable(values: np.ndarray) -> np.ndarray:
    """Which boundary values are not minus infinity."""
    return values >= UNREACHABLE
