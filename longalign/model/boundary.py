"""Values and start states on the edges of a rectangle, its best cell, and the order among best cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from longalign.model import recurrence
from longalign.model.scoring import NEG_INF, Scoring
from longalign.model.strand import Strand
from longalign.system.rationals import Number

IntArray = NDArray[np.int32]

#: The cells of a stretch of a `Boundary`.
_STRETCH = 1 << 12


class State(IntEnum):
    """The state of a path at a cell: see `longalign.model.recurrence`."""

    H = recurrence.H
    E = recurrence.E
    F = recurrence.F


class Edge(Protocol):
    """H and one gap state along a row (gap = E) or a column (gap = F) of a rectangle.

    Both arrays are int32 of shape (length + 1,). Index k lies after the first k letters of the rectangle's
    side. Index 0 is the corner, on the rectangle's left edge for a row and on its top edge for a column.
    `gap[0]` belongs to a cell outside the rectangle and is NEG_INF.
    """

    @property
    def h(self) -> IntArray: ...

    @property
    def gap(self) -> IntArray: ...

    def h_at(self, indices: Sequence[int]) -> IntArray:
        """H at these indices."""
        ...

    def cells(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """H and the gap state at the indices start <= k < stop, where start < stop."""
        ...

    def part(self, start: int, stop: int) -> Edge:
        """The edge of the sub-rectangle that has the letters start <= k < stop of this side."""
        ...

    def stretches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The edge in stretches: the index at which each begins, and an upper bound of H in each.

        They are found without unpacking the edge.
        """
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """An `Edge` of arbitrary values, as a sweep computes them."""

    h: IntArray
    gap: IntArray

    def h_at(self, indices: Sequence[int]) -> IntArray:
        """See `Edge`."""
        return self.h[list(indices)]

    def cells(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """See `Edge`."""
        return self.h[start:stop], self.gap[start:stop]

    def part(self, start: int, stop: int) -> Boundary:
        """See `Edge`."""
        gap = self.gap[start : stop + 1].copy()
        gap[0] = NEG_INF
        return Boundary(self.h[start : stop + 1], gap)

    def stretches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `Edge`."""
        starts = np.arange(0, len(self.h), _STRETCH)
        return starts, np.maximum.reduceat(self.h, starts).astype(np.int64)

    def __len__(self) -> int:
        return len(self.h) - 1


def linear_h(corner: Any, first: Any, step: Any, index: Any) -> Any:
    """H at an index of a `LinearEdge` with these fields. Kernels compile this function, too."""
    return first - (index - 1) * step if index > 0 else corner


@dataclass(frozen=True, eq=False)
class LinearEdge:
    """An `Edge` known without a sweep: paths start on it, or have only one gap along it.

    H is `corner` at index 0, `first` at index 1, and decreases by `step` >= 0 with each further index up to
    `length`. The gap state is NEG_INF everywhere. The arrays are created at first use and are read-only.
    """

    length: int
    corner: int
    first: int
    step: int

    @cached_property
    def h(self) -> IntArray:
        """See `Edge`."""
        h = np.arange(-1, self.length, dtype=np.int32)
        h *= -self.step
        h += self.first
        h[0] = self.corner
        h.flags.writeable = False
        return h

    @cached_property
    def gap(self) -> IntArray:
        """See `Edge`."""
        gap = np.full(self.length + 1, NEG_INF, np.int32)
        gap.flags.writeable = False
        return gap

    def h_at(self, indices: Sequence[int]) -> IntArray:
        """See `Edge`."""
        return np.array([self.value(index) for index in indices], np.int32)

    def cells(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """See `Edge`."""
        return self.h[start:stop], self.gap[start:stop]

    def part(self, start: int, stop: int) -> LinearEdge:
        """See `Edge`. The part may lie beyond the end of this edge: H goes on decreasing."""
        return LinearEdge(stop - start, self.value(start), self.value(start + 1), self.step)

    def stretches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `Edge`."""
        return np.zeros(1, np.int64), np.array([max(self.corner, self.first)], np.int64)

    def value(self, index: int) -> int:
        """H at this index."""
        value: int = linear_h(self.corner, self.first, self.step, index)
        return value

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True, slots=True)
class BestCell:
    """A candidate for the end of the best alignment: its score, and its row and column boundary index.

    `i` counts along `strand`, that of the query. Inside a run the score is scaled (`Scoring.scale`).
    `longalign.score` returns it in the units that the user gave, as a Fraction if the scale is not 1.
    BestCell() stands for the absence of a cell with a positive score.
    """

    score: Number = 0
    i: int = 0
    j: int = 0
    strand: Strand = field(default="plus", kw_only=True)

    @property
    def rank(self) -> tuple[Number, int, int]:
        """The sort key of end cells: the highest ranks first by `recurrence.outranks`."""
        return (self.score, -(self.i + self.j), self.j)

    def shifted(self, rows: int, cols: int) -> BestCell:
        """The same cell, with indices counted from a corner `rows` further up and `cols` further left."""
        return replace(self, i=self.i + rows, j=self.j + cols) if self.score > 0 else self


@dataclass(frozen=True, slots=True)
class Waypoint:
    """A point of an optimal path on the boundary between two rectangles.

    `i` and `j` are boundary indices of the whole DP matrix. `value` is the value of `state` at that cell.
    """

    i: int
    j: int
    state: State
    value: int


# A start state as one number: the row and the column at which a path enters a rectangle, as boundary indices
# counted from the rectangle's corner, and the state of the path there.
START_ROW_SHIFT, START_COLUMN_SHIFT = 32, 2


def start_code(row: Any, col: Any, state: Any) -> Any:
    """The int64 code of a start state, or of arrays of them. 0 <= row < 2^31 and 0 <= col < 2^30."""
    return (row << START_ROW_SHIFT) | (col << START_COLUMN_SHIFT) | state


def start_parts(code: Any) -> tuple[Any, Any, Any]:
    """The row, the column and the state of a start state's code, or of an array of codes."""
    low = code & ((1 << START_ROW_SHIFT) - 1)
    return code >> START_ROW_SHIFT, low >> START_COLUMN_SHIFT, low & ((1 << START_COLUMN_SHIFT) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class StartLine:
    """Start states of H and one gap state along a row (gap = E) or a column (gap = F).

    Both arrays hold `start_code`s, int64 of shape (length,). Element k belongs to the cell after k + 1
    letters: the corner is not included, because another rectangle computes it. Where a value is minus
    infinity, its start state is undefined.
    """

    h: NDArray[np.int64]
    gap: NDArray[np.int64]


def edge_starts(rows: int, cols: int) -> tuple[StartLine, StartLine]:
    """The start states on a rectangle's top and left edge: each cell of these edges is its own start.

    Unlike other `StartLine`s these include the corner: the shapes are (cols + 1,) and (rows + 1,).
    """
    across, down = np.arange(cols + 1, dtype=np.int64), np.arange(rows + 1, dtype=np.int64)
    top = StartLine(start_code(0, across, int(State.H)), start_code(0, across, int(State.E)))
    left = StartLine(start_code(down, 0, int(State.H)), start_code(down, 0, int(State.F)))
    return top, left


def best_of(cells: list[BestCell]) -> BestCell:
    """The first of several cells in the order of `BestCell.rank`."""
    return max(cells, key=lambda cell: cell.rank, default=BestCell())


def local_edges(rows: int, cols: int) -> tuple[LinearEdge, LinearEdge]:
    """Top and left boundary of the DP matrix in local mode: H is 0, as an alignment may start anywhere."""
    return LinearEdge(cols, 0, 0, 0), LinearEdge(rows, 0, 0, 0)


def entry_edges(
    state: State, rows: int, cols: int, scoring: Scoring, value: int = 0
) -> tuple[LinearEdge, LinearEdge]:
    """Top and left boundary of a rectangle that every path enters at its upper left corner.

    `value` is the value of the path in `state` on entry. A path that enters in E must extend its vertical gap
    downwards, and one that enters in F its horizontal gap to the right; the gap is already open. A path that
    enters in H may continue in any way. Global mode is the entry in H with value 0 into the whole DP matrix.

    The edges hold the gap states that a sweep reads: E along the top, F along the left. The other gap states
    equal H on the edge: E(k, 0) = H(k, 0) and F(0, k) = H(0, k) for k >= 1.
    """
    if state == State.H:
        return gap_edges(state, rows, cols, scoring, value)
    unreachable, open_gap = (NEG_INF, 0), (value - scoring.gap_extend, scoring.gap_extend)
    on_top, on_left = (unreachable, open_gap) if state == State.E else (open_gap, unreachable)
    return LinearEdge(cols, NEG_INF, *on_top), LinearEdge(rows, NEG_INF, *on_left)


def gap_edges(
    state: State, rows: int, cols: int, scoring: Scoring, value: int
) -> tuple[LinearEdge, LinearEdge]:
    """Top and left boundary of a rectangle that every path enters in H with `value` at its upper left corner.

    If `state` is E or F, the path has just taken a letter of a vertical or horizontal gap, and may extend
    that gap without opening it again.
    """

    def edge(length: int, extends: bool) -> LinearEdge:
        opening = 0 if extends else scoring.gap_open
        return LinearEdge(length, value, value - opening - scoring.gap_extend, scoring.gap_extend)

    return edge(cols, state == State.F), edge(rows, state == State.E)
