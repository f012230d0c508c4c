"""The fields of the tables that describe a work list to the kernel, and the packing of boundary values."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

import numpy as np

from longalign.backends.cuda.numba_api import cuda

# The table of rectangles ("jobs"), int64, one row for each. A field that ends in _AT is the index at which
# the rectangle's part of an array begins. COLUMN_AT and EDGE_AT of a left edge count rows, of two int64 each.
ROWS, COLS = 0, 1
QUERY_AT, TARGET_AT, TOP_AT, COLUMN_AT = 2, 3, 4, 5
REQUESTED_AT, ROW_OUT_AT, COL_OUT_AT = 6, 7, 8  # the list of requested rows; the output of rows and columns
MATCH, MISMATCH, OPENING, EXTEND = 9, 10, 11, 12  # the first two unused with a matrix; alpha + beta; beta
BASE_OFFSET = 13  # how far the base of packed numbers lies below H on the left edge, or, of rectangles that
# are pruned, below the highest value around a row block
MATRIX_AT, LETTERS = 14, 15  # LETTERS: the letters of the largest alphabet in the work list
STATE_AT = 16  # where the states of its strips begin, if bands interrupt them
FREE_TOP = 17  # 1 if H is 0 all along the top edge and no gap is open there, else 0
# Of rectangles that are pruned (see `left_out_blocks`); 0 for others. Their gains are in the array of
# requested rows. CELLS_LEFT_OUT is an output, without the row blocks at the ends of strips.
QUERY_GAIN_AT, TARGET_GAIN_AT, BOUND, BOUND_RISES, LEFT_OUT_H, LEFT_OUT_GAP = 18, 19, 20, 21, 22, 23
REACH = 24  # how far below the highest value around a row block others are raised
CELLS_LEFT_OUT = 25
JOB_FIELDS = 26

# The table of strips, int32, one row for each strip of each band:
# JOB: the number of its rectangle.
# FIRST_COLUMN, WIDTH: its columns.
# NUMBER: its number among the strips of the rectangle, from the left, from 0.
# REQUESTED_COLUMN: the number of the requested column that is its right edge, or -1.
# FLAG: the index of its flag, which counts the rows that its first part has swept in the band.
# BAND: the number of the band.
# FIRST_START, LAST_START: the rows at which its first part begins and ends the band.
# LAST_PART_LAG: the rows by which its last part is behind its first one.
# FLAG_ABOVE, DONE_ABOVE: the index of its flag in the band above, and the value of that flag at the end.
# NEXT: the ticket of its right neighbour in the band, or NO_TICKET.
# EXCLUDED_AT, EXCLUDED: the index of its first excluded pair in `WorkList.lists`, and how many it
# has (see `excluded_pairs`): none in kernels that use every pair.
JOB, FIRST_COLUMN, WIDTH, NUMBER, REQUESTED_COLUMN, FLAG = 0, 1, 2, 3, 4, 5
BAND, FIRST_START, LAST_START, LAST_PART_LAG, FLAG_ABOVE, DONE_ABOVE = 6, 7, 8, 9, 10, 11
NEXT, EXCLUDED_AT, EXCLUDED = 12, 13, 14
STRIP_FIELDS = 15
NO_TICKET = (1 << 31) - 1

# The table of linear edges, int64, one row for each: its side, the index at which it begins in the array of
# top or of left edges, its number of letters, and the fields of `boundary.LinearEdge`.
SIDE, EDGE_AT, LENGTH, CORNER, FIRST, STEP = 0, 1, 2, 3, 4, 5
EDGE_FIELDS = 6
TOP, LEFT = 0, 1

# The table of requested lines, int64, one row for each: the index of H of its first cell after the corner,
# its number of letters, and H and the gap state in cells that were left out.
LINE_AT, LINE_LENGTH, LEVEL_H, LEVEL_GAP = 0, 1, 2, 3
LINE_FIELDS = 4

# The table of best cells, int32, one row for each strip of each band. Coordinates count within the rectangle.
BEST_SCORE, BEST_I, BEST_J = 0, 1, 2
BEST_FIELDS = 3

# A requested row or column of n letters takes 2n + 2 int32, as in a `Boundary`: H with its corner, then the
# gap state with its corner.


def line_size(letters: int) -> int:
    """Values (int32) of a requested row or column."""
    return 2 * (letters + 1)


# Two int32 that are read or written together form one int64: H and the gap state of a column on the top edge,
# or a value and its tag.


@cuda.jit(device=True)
def pack(low, high):
    """Two int32 as one int64, `low` in the low half."""
    return (np.int64(high) << np.int64(32)) | (np.int64(low) & np.int64(0xFFFFFFFF))


@cuda.jit(device=True)
def low_of(pair):
    """The low half of a pair, an int32: H, or a value."""
    return np.int32(pair)


@cuda.jit(device=True)
def high_of(pair):
    """The high half of a pair, an int32: the gap state, or a tag."""
    return np.int32(pair >> np.int64(32))
