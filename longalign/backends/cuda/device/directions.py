"""The directions of a leaf, computed by one warp, strip by strip.

A *leaf* is a rectangle that is traced. As in the sweep kernel, each lane owns neighbouring columns and works
one row behind the lane to its left. From that lane it gets opened H (H - alpha - beta) and F by a shuffle.
The warp sweeps all strips of the leaf itself, from left to right. The edge between two strips lies in the
leaf's part of a buffer. The first lane reads it, 32 rows at a time, and the last lane overwrites it row by
row. Each row is read before it is overwritten.

Of each strip, the warp sweeps only the rows in which an optimal path can be (see `TraceJob.detour`). Cells
above and below have minus infinity, which is never too high. It does not underflow: a gap inside the swept
rows leads from the path to every cell (see `Segment.detour`).

A lane packs the directions of its columns in a row, four bits each, into one word (uint32). In each step the
words of all lanes are stored side by side: word [strip, step, lane] belongs to row step - lane of the strip.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from longalign.backends import trace_table
from longalign.backends.cuda.config import LANES
from longalign.backends.cuda.device.number_formats import INT32
from longalign.backends.cuda.device.pair_scores import SCORES, load_matrix, pair_costs, pair_score
from longalign.backends.cuda.device.sync import from_left
from longalign.backends.cuda.device.work_tables import high_of, low_of, pack
from longalign.backends.cuda.numba_api import cuda
from longalign.model import recurrence
from longalign.model.boundary import linear_h
from longalign.model.scoring import NEG_INF

#: Columns of a lane: their directions fill a word.
COLUMNS = 8
STRIP_WIDTH = COLUMNS * LANES
#: Bits of a direction.
_BITS = 4

# Fields of the table of leaves after those of `trace_table`: the indices at which the leaf's parts of the
# buffer between strips and of the words begin, and the rows of each strip.
COLUMN_AT, WORDS_AT, HEIGHT = (trace_table.LEAF_FIELDS + k for k in range(3))
TABLE_FIELDS = trace_table.LEAF_FIELDS + 3

#: What lies left of a lane's first column in a row: opened H, F, and the row's letter.
Left = namedtuple("Left", "opened f letter")

#: The directions of a leaf: the array of words, the index of its first one, the rows of the leaf and of a
#: strip, and the highest diagonal of a path.
Filled = namedtuple("Filled", "words at rows height highest")

_cell: Any = cuda.jit(device=True)(recurrence.make_cell(INT32.maximum, INT32.subtract, local=False))
_direction: Any = cuda.jit(device=True)(recurrence.direction)
_linear_h: Any = cuda.jit(device=True)(linear_h)


def strip_rows(rows: Any, lowest: Any, highest: Any) -> Any:
    """The rows of each strip of a leaf whose paths stay between these diagonals. Takes numbers or arrays.

    The first row lies above all cells of paths, so the row boundary above it is on no path.
    """
    return np.minimum(rows, STRIP_WIDTH + highest - lowest + 1)


def rows_above(first: Any, rows: Any, height: Any, highest: Any) -> Any:
    """The number of rows above those of the strip after `first` columns. `height`: see `strip_rows`."""
    return min(max(first - highest - 1, 0), rows - height)


def strip_steps(height: Any) -> Any:
    """Steps that a warp takes for a strip of `height` rows: the last lane starts LANES - 1 steps late."""
    return height + LANES - 1


def words_of(rows: Any, cols: Any, lowest: Any, highest: Any) -> Any:
    """Words (uint32) that hold the directions of a leaf whose paths have no other diagonals; or arrays."""
    return -(-cols // STRIP_WIDTH) * strip_steps(strip_rows(rows, lowest, highest)) * LANES


_steps: Any = cuda.jit(device=True)(strip_steps)
_above: Any = cuda.jit(device=True)(rows_above)


@cuda.jit(device=True)
def filled_of(words, table, leaf):
    """The `Filled` of a leaf."""
    return Filled(
        words, table[leaf, WORDS_AT], np.int32(table[leaf, trace_table.ROWS]),
        np.int32(table[leaf, HEIGHT]), np.int32(table[leaf, trace_table.HIGHEST_DIAGONAL]),
    )  # fmt: skip


@cuda.jit(device=True)
def _opened_edge(table, leaf, first, step, k):
    """Opened H on an edge of the leaf, k letters from the corner.

    `first` and `step` are the fields of the table that describe the edge.
    """
    h = _linear_h(table[leaf, trace_table.CORNER], table[leaf, first], table[leaf, step], k)
    return np.int32(h - table[leaf, trace_table.OPENING])


@cuda.jit(device=True)
def _load_columns(opened, e, letters, table, leaf, target, first, above):
    """Load the top edge of a lane's columns, which begin at `first`; returns opened H left of it.

    It is minus infinity if there are rows `above`. Columns beyond the leaf repeat its last column. Their
    results are not used.
    """
    cols = table[leaf, trace_table.COLS]
    for k in range(COLUMNS):
        column = min(first + k, cols - 1)
        letters[k] = np.int32(target[table[leaf, trace_table.TARGET_AT] + column])
        opened[k] = e[k] = np.int32(NEG_INF)
        if above == 0:
            opened[k] = _opened_edge(table, leaf, trace_table.TOP_FIRST, trace_table.TOP_STEP, column + 1)
    if above > 0:
        return np.int32(NEG_INF)
    return _opened_edge(table, leaf, trace_table.TOP_FIRST, trace_table.TOP_STEP, min(first, cols))


@cuda.jit(device=True)
def _load_row(table, leaf, query, column, row, swept, in_first_strip):
    """The `Left` of the strip's first column in a row. The strip before has ended after `swept` rows."""
    opened, f, letter = np.int32(NEG_INF), np.int32(NEG_INF), np.int32(0)
    if row < table[leaf, trace_table.ROWS]:
        letter = np.int32(query[table[leaf, trace_table.QUERY_AT] + row])
        if in_first_strip:
            opened = _opened_edge(table, leaf, trace_table.LEFT_FIRST, trace_table.LEFT_STEP, row + 1)
        elif row < swept:
            value = column[table[leaf, COLUMN_AT] + row]
            opened, f = low_of(value), high_of(value)
    return Left(opened, f, letter)


@cuda.jit(device=True)
def _from_left(own, loaded, step, lane):
    """The `Left` of a lane's next row. Lane `step` has loaded that of the first lane."""
    return Left(
        from_left(own.opened, loaded.opened, step, lane), from_left(own.f, loaded.f, step, lane),
        from_left(own.letter, loaded.letter, step, lane),
    )  # fmt: skip


def make_fill(has_matrix: bool) -> Any:
    """A device function that computes the directions of leaves, with or without a substitution matrix."""
    score_of = pair_score(has_matrix)

    @cuda.jit(device=True)
    def advance(opened, e, letters, matrix, diagonal, left, costs):
        """Sweep a lane's next row. Returns the `Left` of the lane to the right, and the row's word."""
        opened_left, f, word = left.opened, left.f, np.uint32(0)
        for k in range(COLUMNS):
            opened_up = opened[k]
            paired = np.int32(diagonal + score_of(matrix, left.letter, letters[k], costs))
            h, e_here, f, _ = _cell(paired, opened_up, e[k], opened_left, f, costs.extend, np.int32(NEG_INF))
            bits = np.uint32(_direction(h, paired, e_here, f, opened_up, opened_left))
            word = np.uint32(word | np.uint32(bits << np.uint32(_BITS * k)))
            diagonal, e[k] = opened_up, e_here
            opened_left = np.int32(h - costs.opening)
            opened[k] = opened_left
        return Left(opened_left, f, left.letter), word

    @cuda.jit(device=True)
    def fill(table, leaf, query, target, matrices, column, words, lane):
        """Store the directions of a leaf in `words`; all lanes of a warp together."""
        opened = cuda.local.array(COLUMNS, np.int32)
        e = cuda.local.array(COLUMNS, np.int32)
        letters = cuda.local.array(COLUMNS, np.int32)
        cols, filled = np.int32(table[leaf, trace_table.COLS]), filled_of(words, table, leaf)
        costs, matrix = pair_costs(table, leaf, trace_table.MATCH), matrices
        if has_matrix:
            matrix = cuda.shared.array(SCORES, np.int32)
            load_matrix(matrix, matrices, table[leaf, trace_table.MATRIX_AT], costs.opening, lane)
        height, steps, swept = filled.height, _steps(filled.height), np.int32(0)
        word_at, column_at = filled.at + lane, table[leaf, COLUMN_AT]
        for first_of_strip in range(0, cols, STRIP_WIDTH):
            cuda.syncwarp()  # makes the edge that the last lane stored visible to all lanes
            first = first_of_strip + lane * COLUMNS
            above = np.int32(_above(first_of_strip, filled.rows, height, filled.highest))
            diagonal = _load_columns(opened, e, letters, table, leaf, target, first, above)
            right = Left(np.int32(0), np.int32(0), np.int32(0))
            for start in range(0, steps, LANES):
                loaded = _load_row(
                    table, leaf, query, column, above + start + lane, swept, first_of_strip == 0
                )
                for step in range(LANES):
                    left = _from_left(right, loaded, step, lane)
                    row = np.int32(start + step - lane)
                    if row >= 0 and row < height:
                        right, word = advance(opened, e, letters, matrix, diagonal, left, costs)
                        diagonal = left.opened
                        words[word_at + (start + step) * LANES] = word
                        if lane == LANES - 1:
                            column[column_at + above + row] = pack(right.opened, right.f)
            word_at += steps * LANES
            swept = np.int32(above + height)

    return fill


@cuda.jit(device=True)
def direction_at(filled, i, j):
    """The direction byte of cell (i, j), counted from 1 within the leaf."""
    strip, column = (j - 1) // STRIP_WIDTH, (j - 1) % STRIP_WIDTH
    lane = column // COLUMNS
    row = i - 1 - _above(strip * STRIP_WIDTH, filled.rows, filled.height, filled.highest)
    word = filled.words[filled.at + (strip * _steps(filled.height) + row + lane) * LANES + lane]
    return np.int32((word >> np.uint32(_BITS * (column % COLUMNS))) & np.uint32((1 << _BITS) - 1))
