"""The kernel of start states: SIMD lanes sweep a strip of a rectangle, values and start states together.

Lanes, their staggering and the layout of the state are those of `sweep_kernel`. A lane owns neighbouring
columns. In step t, lane l computes row t - l. Lanes are laid out in reverse. Idle lanes compute meaningless
values, which never propagate into a cell of the rectangle. All numbers are 32 bits wide, which
`Scoring.check_range` proves sufficient. With a substitution matrix, a step first looks up the score of each
lane's letters, in a loop that is not vectorised.

A strip is swept in blocks of rows. Inside a block, a start is one 32-bit number, with row and column counted
from the block's corner, and costs as little as a value. On the edges of blocks, starts are 64 bits wide and
refer to the whole rectangle. A path that enters a block at a cell of its edge has the start of that cell.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from longalign.backends.cpu.config import SweepGeometry
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm, inline_by_numba
from longalign.backends.cpu.lanes import lane_counts, maximum, subtract, unroll_columns
from longalign.backends.cpu.pair_scores import compared, looked_up
from longalign.backends.cpu.raw_memory import advance, load, pointer, store
from longalign.backends.substitution_tables import PairCosts
from longalign.model.boundary import IntArray, start_code
from longalign.model.recurrence import E, F, H, make_cell, make_start_rule

#: Fewer lanes than in the sweep: a column has more state here, which should stay in a first-level cache.
START_GEOMETRY = SweepGeometry(columns=8, lanes=128, group=32, block_rows=8192)

# A start inside a block: state in the lowest bits, then column, then row.
_COLUMN_SHIFT, _ROW_SHIFT = 2, 14
_STATE_MASK, _COLUMN_MASK = (1 << _COLUMN_SHIFT) - 1, (1 << (_ROW_SHIFT - _COLUMN_SHIFT)) - 1

StartArray = NDArray[np.int64]
_number = numba.int32


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


class _Layout(NamedTuple):
    """Offsets of the rows in a strip's state, as in `sweep_kernel.StateLayout`.

    Each column has five rows; further rows hold one number for each lane.

    With a substitution matrix, `letter` holds the scores of the current step. The codes of the letters are
    then in separate rows at the end, which no other kernel writes to: lanes outside the strip look them up,
    too.
    """

    open: int
    e: int
    letter: int
    start_h: int
    start_e: int
    column_pitch: int
    last_open: int
    last_start_h: int
    f: int
    start_f: int
    diagonal: int
    start_diagonal: int
    here: int
    codes: int
    code_pitch: int
    size: int

    @classmethod
    def of(cls, geometry: SweepGeometry, has_matrix: bool) -> _Layout:
        pitch = geometry.lanes + geometry.group
        column_pitch = 5 * pitch
        last, lane = (geometry.columns - 1) * column_pitch, geometry.columns * column_pitch
        codes = lane + 5 * pitch
        return cls(
            open=0,
            e=pitch,
            letter=2 * pitch,
            start_h=3 * pitch,
            start_e=4 * pitch,
            column_pitch=column_pitch,
            last_open=last,
            last_start_h=last + 3 * pitch,
            f=lane,
            start_f=lane + pitch,
            diagonal=lane + 2 * pitch,
            start_diagonal=lane + 3 * pitch,
            here=lane + 4 * pitch,
            codes=codes if has_matrix else 2 * pitch,
            code_pitch=pitch if has_matrix else column_pitch,
            size=codes + geometry.columns * pitch,
        )


def make_scratch(geometry: SweepGeometry) -> Scratch:
    rows, cols = geometry.block_rows, geometry.strip
    lengths = (_Layout.of(geometry, True).size, rows + 2 * geometry.lanes, *(rows,) * 6, *(cols,) * 4)
    return Scratch(
        *(np.zeros(length, np.int32) for length in lengths), *(np.zeros(cols, np.int64) for _ in range(2))
    )


_start_code: Any = inline_by_llvm(start_code)


@inline_by_llvm
def _in_block(row: Any, col: Any, state: Any) -> Any:
    """The 32-bit number of a start, with row and column counted from the corner of the block."""
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


def _make_columns(geometry: SweepGeometry, rules: Any, has_matrix: bool) -> Callable[..., Any]:
    """The function that computes the cells of all columns of a lane in one row."""
    at, (cell, rule) = _Layout.of(geometry, has_matrix), rules

    @inline_by_llvm
    def pair_score(state: Any, p: int, letter: Any, costs: Any) -> Any:
        """The score, plus alpha + beta, of the row letter and the first column's letter from `state` on."""
        if has_matrix:
            return load(state, at.letter + p)
        return compared(letter, load(state, at.letter + p), costs)

    @inline_by_llvm
    def one_column(state: Any, p: int, letter: Any, carried: Any, costs: Any) -> Any:
        """Compute the cell in the first column from `state` on; `carried` comes from the column before."""
        _, _, opening, extend = costs
        diagonal_open, left, f_left, start_diagonal, start_left, start_f_left, here = carried
        up, start_up = load(state, at.open + p), load(state, at.start_h + p)
        diagonal = _number(diagonal_open + pair_score(state, p, letter, costs))
        h, e, f, _ = cell(diagonal, up, load(state, at.e + p), left, f_left, extend, _number(0))
        start_h, start_e, start_f = rule(
            h, diagonal, e, f, up, left, _number(0),
            start_diagonal, start_up, load(state, at.start_e + p), start_left, start_f_left, here,
        )  # fmt: skip
        opened = _number(h - opening)
        store(state, at.open + p, opened)
        store(state, at.e + p, e)
        store(state, at.start_h + p, start_h)
        store(state, at.start_e + p, start_e)
        return up, opened, f, start_up, start_h, start_f, _number(here + (1 << _COLUMN_SHIFT))

    return unroll_columns(one_column, geometry.columns, at.column_pitch)


def _make_lane_functions(
    geometry: SweepGeometry, rules: Any, has_matrix: bool
) -> tuple[Callable[..., None], ...]:
    """The functions that move values and starts into the state and out of it.

    `load_lane`, `load_scores` and `load_left` load the columns of a lane, the scores of a group of lanes, and
    the left edge at one row. `store_lane` and `store_row_end` store a lane's last row and a row's right end.
    """
    columns, group, (cell, rule) = geometry.columns, geometry.group, rules
    at = _Layout.of(geometry, has_matrix)

    @inline_by_numba
    def load_lane(
        state: Any, lane: int, above: Any, target: Any, first_col: int, cols: int, costs: Any
    ) -> None:
        """Load the columns of a lane; columns beyond the strip repeat its last one. `state` is the lane's."""
        for k in range(columns):
            column = min(lane * columns + k, cols - 1)
            offset = k * at.column_pitch
            store(state, at.open + offset, _number(above.h[column + 1] - costs[2]))
            store(state, at.e + offset, _number(above.gap[column + 1]))
            store(state, at.codes + k * at.code_pitch, _number(target[first_col + column]))
            store(state, at.start_h + offset, _in_block(0, column + 1, H))
            store(state, at.start_e + offset, _in_block(0, column + 1, E))
        store(state, at.diagonal, _number(above.h[lane * columns] - costs[2]))
        store(state, at.start_diagonal, _in_block(0, lane * columns, H))
        store(state, at.here, _in_block(1, lane * columns + 1, H))

    @inline_by_numba
    def load_scores(state: Any, letters: Any, matrix: Any, costs: Any) -> None:
        """Load the scores of a group of lanes in this step."""
        for k in range(columns):
            for p in range(group):
                code = load(state, at.codes + k * at.code_pitch + p)
                score = looked_up(matrix, load(letters, p), code, costs)
                store(state, at.letter + k * at.column_pitch + p, score)

    @inline_by_numba
    def load_left(scratch: Any, state: Any, width: int, row: int) -> None:
        """Load the left edge at a row of the block, where the first lane reads its left neighbour."""
        store(state, at.last_open + width, load(pointer(scratch.left_open), row))
        store(state, at.f + width, load(pointer(scratch.left_f), row))
        store(state, at.last_start_h + width, _in_block(row + 1, 0, H))
        store(state, at.start_f + width, _in_block(row + 1, 0, F))

    @inline_by_numba
    def store_lane(scratch: Any, state: Any, lane: int, cols: int) -> None:
        """Store the last row of a lane; `state` is the lane's."""
        for k in range(min(columns, cols - lane * columns)):
            column, offset = lane * columns + k, k * at.column_pitch
            scratch.bottom_open[column] = load(state, at.open + offset)
            scratch.bottom_e[column] = load(state, at.e + offset)
            scratch.bottom_start_h[column] = load(state, at.start_h + offset)
            scratch.bottom_start_e[column] = load(state, at.start_e + offset)

    @inline_by_numba
    def store_row_end(
        scratch: Any, state: Any, row: int, last_lane: int, last_columns: int, left: Any, costs: Any
    ) -> None:
        """Store the right end of a row from the last lane, which is at `last_lane` of the state.

        `last_columns` of its columns are in the strip. If that is not all, the F of the lane is beyond the
        strip. F at the strip's last column is then computed from `left`, the values to the left of the lane.
        """
        opened, f, start_h, start_f = left
        if last_columns == columns:
            f, start_f = load(state, at.f + last_lane), load(state, at.start_f + last_lane)
        else:
            for k in range(last_columns):
                h, e, f_here, _ = cell(opened, opened, f, opened, f, costs[3], _number(0))
                start_f = rule(
                    h, opened, e, f_here, opened, opened, _number(0),
                    start_h, start_h, start_h, start_h, start_f, start_h,
                )[2]  # fmt: skip
                f = f_here
                opened = load(state, k * at.column_pitch + at.open + last_lane)
                start_h = load(state, k * at.column_pitch + at.start_h + last_lane)
        last_column = (last_columns - 1) * at.column_pitch + last_lane
        scratch.right_open[row] = load(state, at.open + last_column)
        scratch.right_start_h[row] = load(state, at.start_h + last_column)
        scratch.right_f[row], scratch.right_start_f[row] = f, start_f

    return load_lane, load_scores, load_left, store_lane, store_row_end


def _make_sweep_rows(geometry: SweepGeometry, local: bool, has_matrix: bool) -> Callable[..., None]:
    """The function `sweep_rows`, which sweeps one block of a strip."""
    columns, group, at = geometry.columns, geometry.group, _Layout.of(geometry, has_matrix)
    cell, rule = make_cell(maximum, subtract, local), make_start_rule(local)
    rules = inline_by_llvm(cell), inline_by_llvm(rule)
    all_columns = _make_columns(geometry, rules, has_matrix)
    load_lane, load_scores, load_left, store_lane, store_row_end = _make_lane_functions(
        geometry, rules, has_matrix
    )

    @inline_by_numba
    def advance_group(state: Any, letters: Any, matrix: Any, costs: Any) -> None:
        """Compute the next row of a group of lanes; `state` and `letters` are those of the group."""
        if has_matrix:
            load_scores(state, letters, matrix, costs)
        for p in range(group):
            left, start_left = load(state, at.last_open + p + 1), load(state, at.last_start_h + p + 1)
            f, start_f = load(state, at.f + p + 1), load(state, at.start_f + p + 1)
            diagonal, start_diagonal = load(state, at.diagonal + p), load(state, at.start_diagonal + p)
            here = load(state, at.here + p)
            store(state, at.diagonal + p, left)
            store(state, at.start_diagonal + p, start_left)
            store(state, at.here + p, _number(here + (1 << _ROW_SHIFT)))
            carried = diagonal, left, f, start_diagonal, start_left, start_f, here
            carried = all_columns(state, p, load(letters, p), carried, costs)
            store(state, at.f + p, carried[2])
            store(state, at.start_f + p, carried[5])

    @inline_by_numba
    def sweep_rows(
        scratch: Any, above: Any, target: Any, matrix: Any, first_col: int, cols: int, rows: int, costs: Any
    ) -> None:
        """Sweep a block; its right and lower edge are stored in `scratch`."""
        used, width = lane_counts(cols, columns, group)
        last_lane, last_columns = width - used, cols - (used - 1) * columns
        state, letters = pointer(scratch.state), pointer(scratch.letters)
        for step in range(rows + used - 1):
            first, last = max(0, step - rows + 1), min(step, used - 1)
            if step < rows:
                load_left(scratch, state, width, step)
            if step < used:
                load_lane(advance(state, width - 1 - step), step, above, target, first_col, cols, costs)
            left = (
                load(state, at.last_open + last_lane + 1), load(state, at.f + last_lane + 1),
                load(state, at.last_start_h + last_lane + 1), load(state, at.start_f + last_lane + 1),
            )  # fmt: skip
            for g in range((width - 1 - last) // group, (width - 1 - first) // group + 1):
                advance_group(advance(state, g * group), advance(letters, step + g * group), matrix, costs)
            if step >= used - 1:
                store_row_end(scratch, state, step - used + 1, last_lane, last_columns, left, costs)
            if step >= rows - 1:
                store_lane(scratch, advance(state, width - 1 - first), first, cols)

    return sweep_rows


@inline_by_numba
def _load_rows(
    scratch: Any, query: Any, beside: Any, first_row: int, rows: int, width: int, costs: Any
) -> None:
    """Load the query letters and the left edge of a block."""
    for r in range(rows):
        scratch.letters[width - 1 + r] = query[first_row + r]
        scratch.left_open[r] = beside.h[first_row + r + 1] - costs[2]
        scratch.left_f[r] = beside.gap[first_row + r + 1]


@inline_by_numba
def _move_edges(
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

    Starts are converted to those of the rectangle by the old edges. No path to a cell of the right edge has
    entered the block below that cell, so rows are replaced from the last one up: every value is read first.
    """
    opening = costs[2]
    for k in range(cols):
        start_h, start_e = scratch.bottom_start_h[k], scratch.bottom_start_e[k]
        scratch.below_start_h[k] = _in_rectangle(start_h, above, beside, first_row, first_col)
        scratch.below_start_e[k] = _in_rectangle(start_e, above, beside, first_row, first_col)
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


def make_strip_starts(geometry: SweepGeometry, local: bool, has_matrix: bool) -> Callable[..., None]:
    """The kernel `strip_starts` for one geometry, mode and kind of scoring, not yet compiled.

    Raises ValueError if a start in a block does not fit 32 bits.
    """
    columns, group, block_rows = geometry.columns, geometry.group, geometry.block_rows
    if geometry.strip > _COLUMN_MASK or block_rows >= 1 << (31 - _ROW_SHIFT):
        raise ValueError(f"a start in a block of {geometry} does not fit its 32 bits")
    sweep_rows = _make_sweep_rows(geometry, local, has_matrix)

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
        _, width = lane_counts(cols, columns, group)
        numbers = _number(costs[0]), _number(costs[1]), _number(costs[2]), _number(costs[3])
        for first_row in range(0, len(query), block_rows):
            rows = min(block_rows, len(query) - first_row)
            _load_rows(scratch, query, beside, first_row, rows, width, costs)
            sweep_rows(scratch, above, target, pointer(matrix), first_col, cols, rows, numbers)
            _move_edges(scratch, above, beside, first_row, first_col, rows, cols, costs)

    return strip_starts


@compiled_once
def strip_starts(geometry: SweepGeometry, local: bool, has_matrix: bool) -> Callable[..., None]:
    """The compiled kernel of `make_strip_starts`, loaded from disk if possible. Thread-safe."""
    letters, values, starts = np.zeros(1, np.uint8), np.zeros(2, np.int32), np.zeros(2, np.int64)
    line = EdgeWithStarts(values, values, starts, starts)
    examples = letters, letters, values, 0, 0, line, line, PairCosts(0, 0, 0, 0), make_scratch(geometry)
    kernel = make_strip_starts(geometry, local, has_matrix)
    return compile_entry(kernel, f"starts {geometry} {local=} {has_matrix=}", examples)
