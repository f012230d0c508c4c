"""One alignment problem: letters, scoring and boundary conditions; local and global differ only in those."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from longalign.backends.base import SweepJob, TraceJob
from longalign.model.alignment import Mode
from longalign.model.alphabet import Codes
from longalign.model.boundary import Edge, State, Waypoint, entry_edges, local_edges
from longalign.model.scoring import UNREACHABLE, Scoring
from longalign.model.sequence import Sequence


@dataclass(frozen=True, eq=False)
class Problem:
    """A rectangle to align: codes (m,) and (n,) uint8, its upper and left edge, and the floor.

    `entry` is the state in which every path starts at the upper left corner, or None in local mode,
    where a path starts anywhere.
    """

    query: Codes
    target: Codes
    scoring: Scoring
    entry: State | None
    top: Edge
    left: Edge

    @classmethod
    def local(cls, query: Codes, target: Codes, scoring: Scoring) -> Problem:
        top, left = local_edges(len(query), len(target))
        return cls(query, target, scoring, None, top, left)

    @classmethod
    def entered(cls, query: Codes, target: Codes, scoring: Scoring, entry: State = State.H) -> Problem:
        """Every path enters at the corner in `entry`, with value 0. Global mode enters in H."""
        top, left = entry_edges(entry, len(query), len(target), scoring)
        return cls(query, target, scoring, entry, top, left)

    @classmethod
    def of(cls, query: Sequence, target: Sequence, scoring: Scoring, mode: Mode) -> Problem:
        """Two whole sequences, in the alphabet of `scoring`, in `local` or `global` mode."""
        make = cls.local if mode == "local" else cls.entered
        return make(query.as_query(), target.as_target(), scoring)

    @property
    def is_local(self) -> bool:
        return self.entry is None

    def is_start(self, point: Waypoint) -> bool:
        """Whether a path that has come here, backwards, has come to its start."""
        if self.is_local:
            return point.state == State.H and point.value == 0
        return point.i == point.j == 0

    @property
    def corner(self) -> Waypoint:
        """Where a path along an edge of the matrix comes from."""
        return Waypoint(0, 0, State.H if self.entry is None else self.entry, 0)

    def letters(self, i0: int, i1: int, j0: int, j1: int) -> tuple[Codes, Codes]:
        """The query letters of rows i0..i1 and the target letters of columns j0..j1."""
        return self.query[i0:i1], self.target[j0:j1]

    def letters_backwards(self, i0: int, i1: int, j0: int, j1: int) -> tuple[Codes, Codes]:
        """The same letters from the last to the first."""
        query, target = self._backwards
        rows, cols = len(query), len(target)
        return query[rows - i1 : rows - i0], target[cols - j1 : cols - j0]

    @cached_property
    def _backwards(self) -> tuple[Codes, Codes]:
        # Made once: the many rectangles that are swept backwards, round after round, are parts of it.
        return self.query[::-1].copy(), self.target[::-1].copy()

    def sweep_job(self, rows: tuple[int, ...], cols: tuple[int, ...]) -> SweepJob:
        """The whole problem as one forward sweep."""
        return SweepJob(
            self.query,
            self.target,
            self.scoring,
            self.top,
            self.left,
            self.is_local,
            rows,
            cols,
            self.is_local,
        )


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

    def letters(self, whole: Problem) -> tuple[Codes, Codes]:
        """The query and target letters that the path takes here."""
        return whole.letters(self.entry.i, self.exit.i, self.entry.j, self.exit.j)

    def trace_job(self, whole: Problem) -> TraceJob:
        """The path through the segment, as a back end is asked for it."""
        return TraceJob(*self.letters(whole), whole.scoring, self.entry.state, self.exit.state)

    def cut(self, at: Waypoint) -> tuple[Segment, Segment]:
        """The stretches before and after a point on the path."""
        return Segment(self.entry, at), Segment(at, self.exit)


def reachable(values: np.ndarray) -> np.ndarray:
    """Which boundary values are not minus infinity."""
    return values >= UNREACHABLE
