"""The kernel of start states: SIMD lanes sweep a strip of a rectangle, values and start states together.

Lanes, their staggering and the layout of state are those of `sweep_kernel`: a lane owns neighbouring columns,
in step t lane l works on row t - l, lanes lie in reverse, and what idle lanes compute flows nowhere. All
numbers are 32 bits wide, which needs no proof beyond `Scoring.check_range`. With a matrix, a step first looks
up what each lane's letters score: that is apart from what vectors can do, as in `traceback_kernel`.

A strip is swept in blocks of rows. Inside a block a start is one 32-bit number, with row and column counted
from the block's corner, so that it costs as little as a value. On the edges of blocks starts are 64 bits wide
and refer to the whole rectangle: a path that enters a block at a cell of its edge has the start of that cell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from longalign.backends.cpu.config import SweepGeometry
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm, inline_by_numba
from longalign.backends.cpu.lanes import maximum
from longalign.backends.cpu.pair_scores import compared, looked_up
from longalign.backends.cpu.raw_memory import advance, load, pointer, store
from longalign.model.boundary import IntArray, start_code
from longalign.model.recurrence import E, F, H, make_cell, make_start_rule
from longalign.model.scoring import Scoring

#: Fewer lanes than in the sweep, because a column has more state, which should stay in a first-level cache.
START_GEOMETRY = SweepGeometry(columns=8, lanes=128, group=32, block_rows=8192)

# A start inside a block: state in the lowest bits, then column, then row.
_COLUMN_SHIFT, _ROW_SHIFT = 2, 14
_STATE_MASK, _COLUMN_MASK = (1 << _COLUMN_SHIFT) - 1, (1 << (_ROW_SHIFT - _COLUMN_SHIFT)) - 1

StartArray = NDArray[np.int64]
_number = numba.int32


class Costs(NamedTuple):
    """Letter scores plus alpha + beta, alpha + beta, and beta, as in `pair_scores`."""

    match: int
    mismatch: int
    opening: int
    extend: int

    @classmethod
    def of(cls, scoring: Scoring) -> Costs:
        opening = scoring.gap_open + scoring.gap_extend
        return cls(scoring.match + opening, scoring.mismatch + opening, opening, scoring.gap_extend)


class EdgeWithStarts(NamedTuple):
    """Values and starts along the upper or the left edge of a strip, with its corner at index 0."""

    h: IntArray
    gap: IntArray
    start_h: StartArray
    start_gap: StartArray


class Scratch(NamedTuple):
    """The work arrays of one thread.

    They are the state of the lanes; the letters and edges of a block, int32, with starts counted from the
    block's corner; and the starts on its lower edge counted from the rectangle's corner, int64.
    """

    state: NDArray[Any]
    letters: NDArray[Any]
    left_open: NDArray[Any]
    left_f: NDArray[Any]
    right_open: NDArray[Any]
    right_f: NDArray[Any]
    right_start_h: NDArray[Any]
    right_start_f: NDArray[Any]
    bottom_open: NDArray[Any]
    bottom_e: NDArray[Any]
    bottom_start_h: NDArray[Any]
    bottom_start_e: NDArray[Any]
    below_start_h: NDArray[Any]
    below_start_e: NDArray[Any]


class _Layout:
    """Offsets of the rows in a strip's state, as in `sweep_kernel.StateLayout`.

    Each column has five rows; further rows hold one number for each lane.

    With a substitution matrix, `letter` holds the scores of the current step. The codes of the letters are
    then in separate rows at the end, which no other kernel writes to: lanes outside the strip look them up,
    too.
    """

    def __init__(self, geometry: SweepGeometry) -> None:
        self.pitch = pitch = geometry.lanes + geometry.group
        self.open, self.e, self.letter, self.start_h, self.start_e = (k * pitch for k in range(5))
        self.column_pitch = 5 * pitch
        lane = geometry.columns * self.column_pitch
        self.f, self.start_f, self.diagonal, self.start_diagonal, self.here, self.codes = (
            lane + k * pitch for k in range(6)
        )
        self.size = self.codes + geometry.columns * pitch


def make_scratch(geometry: SweepGeometry) -> Scratch:
    rows, cols = geometry.block_rows, geometry.strip
    lengths = (_Layout(geometry).size, rows + 2 * geometry.lanes, *(rows,) * 6, *(cols,) * 4)
    return Scratch(
        *(np.zeros(length, np.int32) for length in lengths), *(np.zeros(cols, np.int64) for _ in range(2))
    )


@inline_by_llvm
def _subtract(x: Any, y: Any) -> Any:
    return _number(x - y)


_start_code: Any = inline_by_llvm(start_code)


@inline_by_llvm
def _in_block(row: Any, col: Any, state: Any) -> Any:
    """A start counted from the corner of the block."""
    return _number((row << _ROW_SHIFT) | (col << _COLUMN_SHIFT) | state)


@inline_by_numba
def _in_rectangle(code: Any, above: Any, beside: Any, first_row: Any, first_col: Any) -> Any:
    """Convert a start counted from the block's corner to one of the rectangle, by the edges of the block."""
    row, col = code >> _ROW_SHIFT, (code >> _COLUMN_SHIFT) & _COLUMN_MASK
    in_gap = (code & _STATE_MASK) != H
    start = _start_code(numba.int64(first_row + row), numba.int64(first_col + col), H)
    if row == 0:
        start = above.start_gap[col] if in_gap else above.start_h[col]
    elif col == 0:
        start = beside.start_gap[first_row + row] if in_gap else beside.start_h[first_row + row]
    return start


def make_strip_starts(geometry: SweepGeometry, local: bool, has_matrix: bool) -> Callable[..., None]:
    """The kernel `strip_starts` for one geometry, mode and kind of scoring, not yet compiled."""
    columns, group, block_rows = geometry.columns, geometry.group, geometry.block_rows
    if geometry.strip > _COLUMN_MASK or block_rows >= 1 << (31 - _ROW_SHIFT):
        raise ValueError(f"a start in a block of {geometry} does not fit its 32 bits")
    at = _Layout(geometry)
    open_at, e_at, letter_at, start_h_at, start_e_at = at.open, at.e, at.letter, at.start_h, at.start_e
    f_at, start_f_at, diagonal_at, start_diagonal_at = at.f, at.start_f, at.diagonal, at.start_diagonal
    here_at, column_pitch = at.here, at.column_pitch
    codes_at, code_pitch = (at.codes, at.pitch) if has_matrix else (at.letter, at.column_pitch)
    last = (columns - 1) * column_pitch
    last_open_at, last_start_h_at = last + open_at, last + start_h_at
    cell: Any = inline_by_llvm(make_cell(maximum, _subtract, local))
    rule: Any = inline_by_llvm(make_start_rule(local))

    @inline_by_llvm
    def pair_score(state: Any, p: int, letter: Any, costs: Any) -> Any:
        """The score, plus alpha + beta, of the row letter and the first column's letter from `state` on."""
        if has_matrix:
            return load(state, letter_at + p)
        return compared(letter, load(state, letter_at + p), costs)

    @inline_by_llvm
    def one_column(state: Any, p: int, letter: Any, here: Any, carried: Any, costs: Any) -> Any:
        """Compute the cell in the first column from `state` on; `carried` comes from the column before."""
        _, _, opening, extend = costs
        diagonal_open, left, f_left, start_diagonal, start_left, start_f_left = carried
        up, start_up = load(state, open_at + p), load(state, start_h_at + p)
        diagonal = _number(diagonal_open + pair_score(state, p, letter, costs))
        h, e, f, _ = cell(diagonal, up, load(state, e_at + p), left, f_left, extend, _number(0))
        start_h, start_e, start_f = rule(
            h, diagonal, e, f, up, left, _number(0),
            start_diagonal, start_up, load(state, start_e_at + p), start_left, start_f_left, here,
        )  # fmt: skip
        opened = _number(h - opening)
        store(state, open_at + p, opened)
        store(state, e_at + p, e)
        store(state, start_h_at + p, start_h)
        store(state, start_e_at + p, start_e)
        return up, opened, f, start_up, start_h, start_f

    @cache
    def make_columns(count: int) -> Callable[..., Any]:
        """Unroll `count` columns of a lane as two halves, which makes few functions to compile."""
        if count == 1:
            return one_column
        half = count // 2
        left_half, right_half = make_columns(half), make_columns(count - half)
        offset, further = half * column_pitch, half << _COLUMN_SHIFT

        @inline_by_llvm
        def columns_of_lane(state: Any, p: int, letter: Any, here: Any, carried: Any, costs: Any) -> Any:
            carried = left_half(state, p, letter, here, carried, costs)
            right = advance(state, offset)
            return right_half(right, p, letter, _number(here + further), carried, costs)

        return columns_of_lane

    all_columns = make_columns(columns)

    @inline_by_numba
    def load_lane(
        state: Any, lane: int, above: Any, target: Any, first_col: int, cols: int, costs: Any
    ) -> None:
        """Load the columns of a lane; columns beyond the strip repeat its last one. `state` is the lane's."""
        for k in range(columns):
            column = min(lane * columns + k, cols - 1)
            at = k * column_pitch
            store(state, open_at + at, _number(above.h[column + 1] - costs[2]))
            store(state, e_at + at, _number(above.gap[column + 1]))
            store(state, codes_at + k * code_pitch, _number(target[first_col + column]))
            store(state, start_h_at + at, _in_block(0, column + 1, H))
            store(state, start_e_at + at, _in_block(0, column + 1, E))
        store(state, diagonal_at, _number(above.h[lane * columns] - costs[2]))
        store(state, start_diagonal_at, _in_block(0, lane * columns, H))
        store(state, here_at, _in_block(1, lane * columns + 1, H))

    @inline_by_numba
    def load_scores(state: Any, letters: Any, matrix: Any, costs: Any) -> None:
        """Load the scores of a group of lanes in this step."""
        for k in range(columns):
            for p in range(group):
                code = load(state, codes_at + k * code_pitch + p)
                score = looked_up(matrix, load(letters, p), code, costs)
                store(state, letter_at + k * column_pitch + p, score)

    @inline_by_numba
    def load_rows(
        scratch: Any, query: Any, beside: Any, first_row: int, rows: int, width: int, costs: Any
    ) -> None:
        """The block's query letters and left edge."""
        for r in range(rows):
            scratch.letters[width - 1 + r] = query[first_row + r]
            scratch.left_open[r] = beside.h[first_row + r + 1] - costs[2]
            scratch.left_f[r] = beside.gap[first_row + r + 1]

    @inline_by_numba
    def store_row_end(
        scratch: Any, state: Any, row: int, right: int, right_columns: int, left: Any, costs: Any
    ) -> None:
        """Store the right end of a row from the last lane; `right_columns` of its columns are in the strip.

        If not all its columns are, the F of the lane is beyond the strip. F at the strip's last column is
        then computed from `left`, the values to the left of the lane.
        """
        opened, f, start_h, start_f = left
        if right_columns == columns:
            f, start_f = load(state, f_at + right), load(state, start_f_at + right)
        else:
            for k in range(right_columns):
                h, e, f_here, _ = cell(opened, opened, f, opened, f, costs[3], _number(0))
                start_f = rule(
                    h, opened, e, f_here, opened, opened, _number(0),
                    start_h, start_h, start_h, start_h, start_f, start_h,
                )[2]  # fmt: skip
                f = f_here
                opened = load(state, k * column_pitch + open_at + right)
                start_h = load(state, k * column_pitch + start_h_at + right)
        last_column = (right_columns - 1) * column_pitch + right
        scratch.right_open[row] = load(state, open_at + last_column)
        scratch.right_start_h[row] = load(state, start_h_at + last_column)
        scratch.right_f[row], scratch.right_start_f[row] = f, start_f

    @inline_by_numba
    def store_lane(scratch: Any, state: Any, lane: int, cols: int) -> None:
        """Store the last row of a lane; `state` is the lane's."""
        for k in range(min(columns, cols - lane * columns)):
            column, at = lane * columns + k, k * column_pitch
            scratch.bottom_open[column] = load(state, open_at + at)
            scratch.bottom_e[column] = load(state, e_at + at)
            scratch.bottom_start_h[column] = load(state, start_h_at + at)
            scratch.bottom_start_e[column] = load(state, start_e_at + at)

    @inline_by_numba
    def sweep_rows(
        scratch: Any,
        above: Any,
        target: Any,
        matrix: Any,
        first_col: int,
        cols: int,
        rows: int,
        costs: Any,
    ) -> None:
        """Sweep a block; its right and lower edge are stored in `scratch`."""
        used = (cols + columns - 1) // columns
        width = (used + group - 1) // group * group
        right, right_columns = width - used, cols - (used - 1) * columns
        state, letters = pointer(scratch.state), pointer(scratch.letters)
        left_open, left_f = pointer(scratch.left_open), pointer(scratch.left_f)
        for step in range(rows + used - 1):
            first_lane, last_lane = max(0, step - rows + 1), min(step, used - 1)
            if step < rows:
                store(state, last_open_at + width, load(left_open, step))
                store(state, f_at + width, load(left_f, step))
                store(state, last_start_h_at + width, _in_block(step + 1, 0, H))
                store(state, start_f_at + width, _in_block(step + 1, 0, F))
            if step < used:
                load_lane(advance(state, width - 1 - step), step, above, target, first_col, cols, costs)
            before_last = (
                load(state, last_open_at + right + 1), load(state, f_at + right + 1),
                load(state, last_start_h_at + right + 1), load(state, start_f_at + right + 1),
            )  # fmt: skip
            for g in range((width - 1 - last_lane) // group, (width - 1 - first_lane) // group + 1):
                part, part_letters = advance(state, g * group), advance(letters, step + g * group)
                if has_matrix:
                    load_scores(part, part_letters, matrix, costs)
                for p in range(group):
                    left, start_left = load(part, last_open_at + p + 1), load(part, last_start_h_at + p + 1)
                    f, start_f = load(part, f_at + p + 1), load(part, start_f_at + p + 1)
                    diagonal, start_diagonal = load(part, diagonal_at + p), load(part, start_diagonal_at + p)
                    here = load(part, here_at + p)
                    store(part, diagonal_at + p, left)
                    store(part, start_diagonal_at + p, start_left)
                    store(part, here_at + p, _number(here + (1 << _ROW_SHIFT)))
                    carried = diagonal, left, f, start_diagonal, start_left, start_f
                    carried = all_columns(part, p, load(part_letters, p), here, carried, costs)
                    store(part, f_at + p, carried[2])
                    store(part, start_f_at + p, carried[5])
            if step >= used - 1:
                store_row_end(scratch, state, step - used + 1, right, right_columns, before_last, costs)
            if step >= rows - 1:
                store_lane(scratch, advance(state, width - 1 - first_lane), first_lane, cols)

    @inline_by_numba
    def move_edges(
        scratch: Any,
        above: Any,
        beside: Any,
        first_row: int,
        first_col: int,
        rows: int,
        cols: int,
        costs: Any,
    ) -> None:
        """Replace the upper and left edge of the block by its lower and right edge.

        Starts are converted to those of the rectangle by the old edges. No path to a cell of the right edge
        has entered the block below that cell, so rows are replaced from the last one up: every value is read
        first.
        """
        opening = costs[2]
        for k in range(cols):
            scratch.below_start_h[k] = _in_rectangle(
                scratch.bottom_start_h[k], above, beside, first_row, first_col
            )
            scratch.below_start_e[k] = _in_rectangle(
                scratch.bottom_start_e[k], above, beside, first_row, first_col
            )
        corner, start_corner = beside.h[first_row + rows], beside.start_h[first_row + rows]
        for r in range(rows - 1, -1, -1):
            start_h = _in_rectangle(scratch.right_start_h[r], above, beside, first_row, first_col)
            start_f = _in_rectangle(scratch.right_start_f[r], above, beside, first_row, first_col)
            beside.h[first_row + r + 1] = scratch.right_open[r] + opening
            beside.gap[first_row + r + 1] = scratch.right_f[r]
            beside.start_h[first_row + r + 1], beside.start_gap[first_row + r + 1] = start_h, start_f
        above.h[0], above.start_h[0] = corner, start_corner
        for k in range(cols):
            above.h[k + 1] = scratch.bottom_open[k] + opening
            above.gap[k + 1] = scratch.bottom_e[k]
            above.start_h[k + 1], above.start_gap[k + 1] = scratch.below_start_h[k], scratch.below_start_e[k]

    def strip_starts(
        query: Any,
        target: Any,
        matrix: Any,
        first_col: int,
        cols: int,
        above: Any,
        beside: Any,
        costs: Any,
        scratch: Any,
    ) -> None:
        """Sweep a strip of `cols` columns; its lower and right edge replace `above` and `beside`.

        `query`, `target` and the starts on the edges are those of the rectangle. `matrix` is laid out as by
        `substitution_tables`, and is not read without one. `beside` has a cell for each row of the rectangle
        and a corner, which is not read; `above` has a cell for each column of the strip and its corner.
        """
        used = (cols + columns - 1) // columns
        width = (used + group - 1) // group * group
        numbers = _number(costs[0]), _number(costs[1]), _number(costs[2]), _number(costs[3])
        for first_row in range(0, len(query), block_rows):
            rows = min(block_rows, len(query) - first_row)
            load_rows(scratch, query, beside, first_row, rows, width, costs)
            sweep_rows(scratch, above, target, pointer(matrix), first_col, cols, rows, numbers)
            move_edges(scratch, above, beside, first_row, first_col, rows, cols, costs)

    return strip_starts


@compiled_once
def strip_starts(geometry: SweepGeometry, local: bool, has_matrix: bool) -> Callable[..., None]:
    """The compiled kernel of `make_strip_starts`, from disk if it is there. Thread-safe."""
    letters, values, starts = np.zeros(1, np.uint8), np.zeros(2, np.int32), np.zeros(2, np.int64)
    line = EdgeWithStarts(values, values, starts, starts)
    examples = letters, letters, values, 0, 0, line, line, Costs(0, 0, 0, 0), make_scratch(geometry)
    kernel = make_strip_starts(geometry, local, has_matrix)
    return compile_entry(kernel, f"starts {geometry} {local=} {has_matrix=}", examples)
