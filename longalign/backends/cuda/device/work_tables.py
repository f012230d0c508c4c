"""The columns of the tables that describe a work list to the kernel, and the packing of boundary values."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

import numpy as np

from longalign.backends.cuda.numba_api import cuda

# One row a rectangle, int64. The names that end in _AT are where the rectangle's part of an array begins.
ROWS, COLS = 0, 1
QUERY_AT, TARGET_AT, TOP_AT, COLUMN_AT = 2, 3, 4, 5
REQUESTED_AT, ROW_OUT_AT, COL_OUT_AT = 6, 7, 8
MATCH, MISMATCH, OPENING, EXTEND = 9, 10, 11, 12  # the first two mean nothing where there is a matrix
BASE_OFFSET = 13  # how far the origin of packed numbers lies below the left edge
MATRIX_AT, LETTERS = 14, 15  # where the matrix begins; how many letters the largest of all jobs has
STATE_AT = 16  # where the states of its strips begin, if bands interrupt them
FREE_TOP = 17  # whether paths begin all along its top edge, with H = 0
JOB_FIELDS = 18

# One row a strip of a band, int32: its rectangle, first column and width; its number from the left; which of
# the requested columns its right edge is, or -1; the flag that says how far it has come; its band; the row at
# which its first part begins in the band, and that at which it ends there; by how many rows its last part is
# behind; of the same strip in the band above the flag, and what that says in the end; and the ticket of its
# right neighbour, or NO_TICKET.
JOB, FIRST_COLUMN, WIDTH, NUMBER, REQUESTED_COLUMN, FLAG = 0, 1, 2, 3, 4, 5
BAND, FIRST_START, LAST_START, LAST_PART_LAG, FLAG_ABOVE, DONE_ABOVE = 6, 7, 8, 9, 10, 11
NEXT = 12
STRIP_FIELDS = 13
NO_TICKET = (1 << 31) - 1

# One row for each linear edge, int64: which side it is, where it begins, how many letters it has, and the
# numbers of `boundary.LinearEdge`.
SIDE, EDGE_AT, LENGTH, CORNER, FIRST, STEP = 0, 1, 2, 3, 4, 5
EDGE_FIELDS = 6
TOP, LEFT = 0, 1

# One row a strip, int32: the best cell in it, by the rectangle's own indices.
BEST_SCORE, BEST_I, BEST_J = 0, 1, 2
BEST_FIELDS = 3

# A requested row or column of n letters is 2n + 2 int32, as in a `Boundary`: H with its corner, then the gap
# state.


def line_size(letters: int) -> int:
    """Values of a requested row or column."""
    return 2 * (letters + 1)


# Two int32 that travel together are one int64: H and the gap state above a column, or a value and its tag.


@cuda.jit(device=True)
def pack(low, high):
    """Two int32 as one int64."""
    return (np.int64(high) << np.int64(32)) | (np.int64(low) & np.int64(0xFFFFFFFF))


@cuda.jit(device=True)
def low_of(pair):
    """The first of two: H, or a value."""
    return np.int32(pair)


@cuda.jit(device=True)
def high_of(pair):
    """The second of two: a gap state, or a tag."""
    return np.int32(pair >> np.int64(32))
