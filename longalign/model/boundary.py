"""Values on the edges of a rectangle, the best cell inside it, and the order among best cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from longalign.model import recurrence
from longalign.model.scoring import NEG_INF, Scoring

IntArray = NDArray[np.int32]


class State(IntEnum):
    """What a path is doing at a cell: see `longalign.model.recurrence`."""

    H = recurrence.H
    E = recurrence.E
    F = recurrence.F


class Edge(Protocol):
    """H and one gap state along a row (gap = E) or a column (gap = F) of a rectangle.

    Both arrays are int32 of shape (length + 1,). Index k lies after the first k letters of the
    rectangle's side; index 0 is the corner on the rectangle's own left or top edge. `gap[0]` belongs
    to a cell outside the rectangle and is NEG_INF.
    """

    @property
    def h(self) -> IntArray: ...

    @property
    def gap(self) -> IntArray: ...

    def h_at(self, places: Sequence[int]) -> IntArray:
        """H at these indices."""
        ...

    def cells(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """H and the gap state at the indices start..stop - 1, of which there is one at least."""
        ...

    def part(self, start: int, stop: int) -> Edge:
        """The edge of a sub-rectangle that spans letters start..stop of this side."""
        ...

    def __len__(self) -> int: ...


@dataclass(frozen=True, slots=True, eq=False)
class Boundary:
    """An `Edge` of any values, which a sweep has found."""

    h: IntArray
    gap: IntArray

    def h_at(self, places: Sequence[int]) -> IntArray:
        """See `Edge`."""
        return self.h[list(places)]

    def cells(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """See `Edge`."""
        return self.h[start:stop], self.gap[start:stop]

    def part(self, start: int, stop: int) -> Boundary:
        """See `Edge`."""
        gap = self.gap[start : stop + 1].copy()
        gap[0] = NEG_INF
        return Boundary(self.h[start : stop + 1], gap)

    def __len__(self) -> int:
        return len(self.h) - 1


@dataclass(frozen=True, eq=False)
class LinearEdge:
    """An `Edge` on which paths begin, or along which they are one gap: known without a sweep.

    H is `corner` at the corner, `first` after a letter, and then `step` >= 0 less with each letter, of which
    there are `length`; the gap state is NEG_INF. The arrays are made when somebody asks for them, and are not
    to be written to.
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

    def h_at(self, places: Sequence[int]) -> IntArray:
        """See `Edge`."""
        return np.array([self.value(place) for place in places], np.int32)

    def cells(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """See `Edge`."""
        return self.h[start:stop], self.gap[start:stop]

    def part(self, start: int, stop: int) -> LinearEdge:
        """See `Edge`."""
        return LinearEdge(stop - start, self.value(start), self.value(start + 1), self.step)

    def value(self, place: int) -> int:
        """H at this index."""
        return self.first - (place - 1) * self.step if place > 0 else self.corner

    def __len__(self) -> int:
        return self.length


@dataclass(frozen=True, slots=True)
class BestCell:
    """A cell that may be where the best alignment ends: score, and row and column boundary index.

    BestCell() means no cell with a positive score.
    """

    score: int = 0
    i: int = 0
    j: int = 0

    @property
    def rank(self) -> tuple[int, int, int]:
        """The order: best score, then lowest anti-diagonal i + j, then rightmost (largest j).

        The rule for ties is Aymone's; with it the end cell does not depend on how the matrix was cut.
        """
        return (self.score, -(self.i + self.j), self.j)

    def shifted(self, rows: int, cols: int) -> BestCell:
        """The same cell seen from a corner that lies `rows` up and `cols` to the left."""
        return BestCell(self.score, self.i + rows, self.j + cols) if self.score > 0 else self


@dataclass(frozen=True, slots=True)
class Waypoint:
    """A start state: where an optimal path passes from one rectangle into the next.

    `i` and `j` are boundary indices of the whole matrix, `value` is that of `state` there.
    """

    i: int
    j: int
    state: State
    value: int


# A start state as one number: the row and the column at which a path enters a rectangle, as boundary indices
# counted from the rectangle's corner, and its state there.
START_ROW_SHIFT, START_COLUMN_SHIFT = 32, 2


def start_code(row: Any, col: Any, state: Any) -> Any:
    """Start states as int64; of numbers or arrays. 0 <= row < 2^31, 0 <= col < 2^30."""
    return (row << START_ROW_SHIFT) | (col << START_COLUMN_SHIFT) | state


def start_parts(code: Any) -> tuple[Any, Any, Any]:
    """Row, column and state of start states."""
    low = code & ((1 << START_ROW_SHIFT) - 1)
    return code >> START_ROW_SHIFT, low >> START_COLUMN_SHIFT, low & ((1 << START_COLUMN_SHIFT) - 1)


@dataclass(frozen=True, slots=True, eq=False)
class StartLine:
    """Start states of H and one gap state along a row (gap = E) or a column (gap = F).

    Both arrays are int64 of shape (length,), made by `start_code`. Element k belongs to the cell after
    k + 1 letters: the corner is computed elsewhere. Where a value is minus infinity its start says nothing.
    """

    h: NDArray[np.int64]
    gap: NDArray[np.int64]


def edge_starts(rows: int, cols: int) -> tuple[StartLine, StartLine]:
    """The start states on a rectangle's own top and left edge, from the corner on: each cell is its own.

    Unlike other `StartLine`s these have the corner: shapes (cols + 1,) and (rows + 1,).
    """
    across, down = np.arange(cols + 1, dtype=np.int64), np.arange(rows + 1, dtype=np.int64)
    top = StartLine(start_code(0, across, int(State.H)), start_code(0, across, int(State.E)))
    left = StartLine(start_code(down, 0, int(State.H)), start_code(down, 0, int(State.F)))
    return top, left


def best_of(cells: list[BestCell]) -> BestCell:
    """The first of several cells in the order of `BestCell.rank`."""
    return max(cells, key=lambda cell: cell.rank, default=BestCell())


def local_edges(rows: int, cols: int) -> tuple[LinearEdge, LinearEdge]:
    """Top and left boundary of the matrix in local mode: an alignment may begin anywhere."""
    return LinearEdge(cols, 0, 0, 0), LinearEdge(rows, 0, 0, 0)


def entry_edges(
    state: State, rows: int, cols: int, scoring: Scoring, value: int = 0
) -> tuple[LinearEdge, LinearEdge]:
    """Top and left boundary of a rectangle that every path enters at its upper left corner.

    `value` is what the path is worth on entry, in `state`: a path that enters in E can only go on
    down, one that enters in F only go right, with its gap already opened; one that enters in H may do
    anything. Global mode is the entry (H, value 0) of the whole matrix.

    The gap states are those that a sweep reads there: E along the top, F along the left. The
    other two gap states of the edge equal H there: E(k, 0) = H(k, 0) and F(0, k) = H(0, k) for k >= 1.
    """
    if state == State.H:
        return gap_edges(state, rows, cols, scoring, value)
    run = value - scoring.gap_extend
    blocked, open_ = (NEG_INF, 0), (run, scoring.gap_extend)
    on_top, on_left = (blocked, open_) if state == State.E else (open_, blocked)
    return LinearEdge(cols, NEG_INF, *on_top), LinearEdge(rows, NEG_INF, *on_left)


def gap_edges(
    state: State, rows: int, cols: int, scoring: Scoring, value: int
) -> tuple[LinearEdge, LinearEdge]:
    """Top and left boundary of a rectangle at whose upper left corner every path is in H, worth `value`.

    If `state` is E it has just taken a letter of a vertical gap, if F of a horizontal one, and can go on with
    that without opening it again.
    """

    def edge(length: int, goes_on: bool) -> LinearEdge:
        opening = 0 if goes_on else scoring.gap_open
        return LinearEdge(length, value, value - opening - scoring.gap_extend, scoring.gap_extend)

    return edge(cols, state == State.F), edge(rows, state == State.E)
