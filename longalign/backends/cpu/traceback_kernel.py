"""The kernel that traces leaves: SIMD lanes compute direction bytes, then a walk follows them back.

A *band* has up to `LANES` rows of a leaf, and those of its columns in which an optimal path can be in these
rows (see `TraceJob.detour`). Cells beside these columns have minus infinity, which is never too high. A lane
owns one row. Lanes are staggered: in step t, lane l is at column t - l. As in `sweep_kernel`, lanes are laid
out in reverse, so that an ascending loop reads the cell above before it overwrites it; the state is one
allocation with constant offsets; and it holds H - alpha - beta instead of H. Lane l of a band W lanes wide is
at p = W - 1 - l, and the row above the band is at p = W.

Only groups with a lane on a cell of the leaf are computed. Other lanes of such a group, which have not
started or have finished, compute meaningless values. These propagate only down and to the right. They
never reach a cell of the leaf, for two reasons. A lane is overwritten with the left edge in the step in which
it starts. The lane below reads the last cell of a lane before a meaningless value replaces it in that step.

All numbers are 32 bits wide, which `Scoring.check_range` proves sufficient. The direction bytes are stored at
[band, step, p], so that a step stores whole vectors.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from longalign.backends import trace_table
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm, inline_by_numba
from longalign.backends.cpu.lanes import maximum, subtract
from longalign.backends.cpu.pair_scores import compared, looked_up
from longalign.backends.cpu.raw_memory import advance, load, pointer, store
from longalign.model import recurrence
from longalign.model.boundary import IntArray, linear_h
from longalign.model.scoring import NEG_INF

#: Rows of a full band, and lanes of a group. Lanes are computed by groups, which are whole vectors.
LANES, GROUP = 256, 32

# Offsets of the rows of a band's state; each row has room for the cell above the band.
_PITCH = LANES + GROUP
_OPEN, _E, _F, _DIAGONAL, _LETTER, _SCORE = (k * _PITCH for k in range(6))

_number = numba.int32
_byte = numba.uint8
_LOWEST = np.int32(NEG_INF)


class Scratch(NamedTuple):
    """The work arrays of one thread.

    They are the state of a band; the target's letters as 32-bit numbers, with room on both sides for lanes
    outside the leaf; H - alpha - beta and E on the upper edge of the band; and the direction bytes.
    """

    state: IntArray
    letters: IntArray
    above_open: IntArray
    above_e: IntArray
    directions: NDArray[np.uint8]


def make_scratch(table: NDArray[np.int64]) -> Scratch:
    """Work arrays for the largest leaf of a table."""
    cols = int(table[:, trace_table.COLS].max())
    sizes = trace_table.ROWS, trace_table.COLS, trace_table.LOWEST_DIAGONAL, trace_table.HIGHEST_DIAGONAL
    size = max(direction_bytes(*of_leaf) for of_leaf in table[:, sizes].tolist())
    return Scratch(
        state=np.zeros(6 * _PITCH, np.int32),  # lanes outside the leaf look up scores of their letters, too
        letters=np.zeros(cols + 2 * LANES, np.int32),
        above_open=np.empty(cols + 1, np.int32),
        above_e=np.empty(cols + 1, np.int32),
        directions=np.empty(size, np.uint8),
    )


def _lanes(rows: int, cols: int) -> int:
    """Lanes of a leaf's bands: fewer for a thin leaf, where most lanes would be idle."""
    return min(LANES, -(-rows // GROUP) * GROUP, -(-cols // GROUP) * GROUP)


def _width(cols: int, lanes: int, lowest: int, highest: int) -> int:
    """Columns of a leaf's bands, if paths have no lower and no higher diagonals than these."""
    return min(cols, lanes + highest - lowest)


def direction_bytes(rows: int, cols: int, lowest: int, highest: int) -> int:
    """The bytes of a leaf's directions, whose paths have diagonals from `lowest` to `highest`."""
    lanes = _lanes(rows, cols)
    return -(-rows // lanes) * lanes * (_width(cols, lanes, lowest, highest) + lanes - 1)


_lanes_of, _width_of = inline_by_llvm(_lanes), inline_by_llvm(_width)


@inline_by_llvm
def _first_column(first: int, cols: int, width: int, lowest: int) -> int:
    """The number of columns before those of the band after `first` rows."""
    return min(max(first + lowest, 0), cols - width)


_cell: Any = inline_by_llvm(recurrence.make_cell(maximum, subtract, local=False))
_direction: Any = inline_by_llvm(recurrence.direction)
_linear_h: Any = inline_by_llvm(linear_h)


@inline_by_llvm
def _advance_lane(state: Any, p: int, score: Any, directions: Any, costs: Any) -> None:
    """Compute the next cell of the lane at p, whose letter pair has this `score`."""
    _, _, opening, extend = costs
    up, left = load(state, _OPEN + p + 1), load(state, _OPEN + p)
    diagonal = _number(load(state, _DIAGONAL + p) + score)
    e_up, f_left = load(state, _E + p + 1), load(state, _F + p)
    h, e, f, _ = _cell(diagonal, up, e_up, left, f_left, extend, _LOWEST)
    store(directions, p, _byte(_direction(h, diagonal, e, f, up, left)))
    store(state, _DIAGONAL + p, up)
    store(state, _OPEN + p, _number(h - opening))
    store(state, _E + p, e)
    store(state, _F + p, f)


@inline_by_llvm
def _advance_by_letters(state: Any, letters: Any, matrix: Any, directions: Any, costs: Any) -> None:
    """Compute the next cell of each lane of a group, scored by match and mismatch."""
    for p in range(GROUP):
        score = compared(load(state, _LETTER + p), load(letters, p), costs)
        _advance_lane(state, p, score, directions, costs)


@inline_by_llvm
def _advance_by_matrix(state: Any, letters: Any, matrix: Any, directions: Any, costs: Any) -> None:
    """Compute the next cell of each lane of a group, scored by a substitution matrix.

    The scores are loaded first, in a loop that is not vectorised.
    """
    for p in range(GROUP):
        store(state, _SCORE + p, looked_up(matrix, load(state, _LETTER + p), load(letters, p), costs))
    for p in range(GROUP):
        _advance_lane(state, p, load(state, _SCORE + p), directions, costs)


@inline_by_numba
def _opened_edge(leaf: Any, first: int, step: int, k: int) -> Any:
    """H - alpha - beta on an edge of the leaf, k letters from its corner."""
    h = _linear_h(leaf[trace_table.CORNER], leaf[first], leaf[step], k)
    return _number(h - leaf[trace_table.OPENING])


@inline_by_numba
def _load_target(target: Any, leaf: Any, scratch: Any, width: int) -> None:
    """The target's letters and the upper edge of the leaf, as far as it is above the first band."""
    for j in range(leaf[trace_table.COLS]):
        scratch.letters[LANES + j] = target[leaf[trace_table.TARGET_AT] + j]
    for j in range(leaf[trace_table.COLS] + 1):
        scratch.above_open[j] = _LOWEST
        scratch.above_e[j] = _LOWEST
    for j in range(width + 1):
        scratch.above_open[j] = _opened_edge(leaf, trace_table.TOP_FIRST, trace_table.TOP_STEP, j)


def _make_fill(has_matrix: bool) -> Callable[..., None]:
    """The function that fills in the directions of a leaf, with a substitution matrix or without."""
    advance_group = _advance_by_matrix if has_matrix else _advance_by_letters

    @inline_by_numba
    def fill_band(
        query: Any, matrix: Any, leaf: Any, scratch: Any, first: int, lanes: int, cols: int, costs: Any
    ) -> None:
        """Compute directions of the band after `first` rows; its lower edge replaces its upper edge.

        The band has `cols` columns. Its edges and letters are addressed from its first column on.
        """
        rows = min(lanes, leaf[trace_table.ROWS] - first)
        left_out = _first_column(first, leaf[trace_table.COLS], cols, leaf[trace_table.LOWEST_DIAGONAL])
        state = pointer(scratch.state)
        above_open = advance(pointer(scratch.above_open), left_out)
        above_e = advance(pointer(scratch.above_e), left_out)
        directions = advance(pointer(scratch.directions), first * (cols + lanes - 1))
        letters = advance(pointer(scratch.letters), LANES - (lanes - 1) + left_out)
        for lane in range(rows):
            store(
                state, _LETTER + lanes - 1 - lane, _number(query[leaf[trace_table.QUERY_AT] + first + lane])
            )
        corner = load(above_open, 0)
        for step in range(cols + rows - 1):
            if step < cols:
                store(state, _OPEN + lanes, load(above_open, step + 1))
                store(state, _E + lanes, load(above_e, step + 1))
            if step < rows:
                left = _LOWEST
                if left_out == 0:
                    left = _opened_edge(leaf, trace_table.LEFT_FIRST, trace_table.LEFT_STEP, first + step + 1)
                p = lanes - 1 - step
                store(state, _DIAGONAL + p, corner)
                store(state, _OPEN + p, left)
                store(state, _F + p, _LOWEST)
                corner = left
            highest_lane, lowest_lane = min(step, rows - 1), max(0, step - cols + 1)
            for group in range((lanes - 1 - highest_lane) // GROUP, (lanes - 1 - lowest_lane) // GROUP + 1):
                part, at = advance(state, group * GROUP), advance(directions, step * lanes + group * GROUP)
                part_letters = advance(letters, step + group * GROUP)
                advance_group(part, part_letters, matrix, at, costs)
            if step >= rows - 1:
                store(above_open, step - rows + 2, load(state, _OPEN + lanes - rows))
                store(above_e, step - rows + 2, load(state, _E + lanes - rows))
        store(above_open, 0, corner)

    @inline_by_numba
    def fill(query: Any, target: Any, matrices: Any, leaf: Any, scratch: Any) -> None:
        costs = (
            _number(leaf[trace_table.MATCH]),
            _number(leaf[trace_table.MISMATCH]),
            _number(leaf[trace_table.OPENING]),
            _number(leaf[trace_table.EXTEND]),
        )
        matrix = advance(pointer(matrices), leaf[trace_table.MATRIX_AT])
        lanes = _lanes_of(leaf[trace_table.ROWS], leaf[trace_table.COLS])
        width = _width_of(
            leaf[trace_table.COLS],
            lanes,
            leaf[trace_table.LOWEST_DIAGONAL],
            leaf[trace_table.HIGHEST_DIAGONAL],
        )
        _load_target(target, leaf, scratch, width)
        for first in range(0, leaf[trace_table.ROWS], lanes):
            fill_band(query, matrix, leaf, scratch, first, lanes, width, costs)

    return fill


@inline_by_llvm
def _direction_at(filled: Any, i: int, j: int) -> Any:
    """The direction byte of cell (i, j); `filled` holds the bytes, and the size of the leaf's bands."""
    directions, cols, lanes, width, lowest = filled
    band, lane = (i - 1) // lanes, (i - 1) % lanes
    column = j - 1 - _first_column(band * lanes, cols, width, lowest)
    return directions[(band * (width + lanes - 1) + column + lane) * lanes + lanes - 1 - lane]


_walk: Any = inline_by_numba(trace_table.make_walk(inline_by_llvm(recurrence.step_back), _direction_at))


def _make_trace_leaves(has_matrix: bool) -> Callable[..., None]:
    fill = _make_fill(has_matrix)

    def trace_leaves(
        query: Any, target: Any, matrices: Any, table: Any, scratch: Any, runs: Any, counts: Any
    ) -> None:
        """Trace the leaves of a table in order; `counts` receives the number of runs of each path."""
        for k in range(len(table)):
            leaf = table[k]
            rows, cols = leaf[trace_table.ROWS], leaf[trace_table.COLS]
            fill(query, target, matrices, leaf, scratch)
            lowest, lanes = leaf[trace_table.LOWEST_DIAGONAL], _lanes_of(rows, cols)
            width = _width_of(cols, lanes, lowest, leaf[trace_table.HIGHEST_DIAGONAL])
            filled = scratch.directions, cols, lanes, width, lowest
            counts[k] = _walk(filled, rows, cols, leaf[trace_table.EXIT], runs, leaf[trace_table.RUNS_END])

    return trace_leaves


@compiled_once
def leaf_tracer(has_matrix: bool) -> Callable[..., None]:
    """The compiled tracer of leaves, loaded from disk if possible. Thread-safe."""
    letters, table = np.zeros(1, np.uint8), np.zeros((1, trace_table.LEAF_FIELDS), np.int64)
    runs, counts = np.zeros(1, np.int32), np.zeros(1, np.int64)
    examples = [letters, letters, runs, table, make_scratch(table + 1), runs, counts]
    return compile_entry(_make_trace_leaves(has_matrix), f"trace {has_matrix=}", examples)
