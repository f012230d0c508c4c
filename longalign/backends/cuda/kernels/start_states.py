"""The kernel of start states: warps sweep strips of many rectangles and pass start states along.

As in the sweep kernel, each lane owns neighbouring columns and works one row behind the lane to its left.
From that lane it gets opened H (H - alpha - beta), F and their starts by a shuffle. Warps take strips in the
order of their tickets. The strips of a rectangle pass their right edges on through one buffer. Each strip
reads it, LANES rows at a time, and overwrites it row by row; `sync` explains how they are synchronised. After
the last strip, the buffer holds the right edge of the rectangle.

All values are 32 bits wide. A start is an int64 of `boundary.start_code`. In the last strip of a rectangle,
columns beyond its end pass on what lies left of them. Its right edge therefore leaves through the last lane,
too.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
from numba import int32, int64, uint8

from longalign.backends.cuda.config import LANES
from longalign.backends.cuda.device.excluded_pairs import StripPairs, columns_in_row_by_number, contains
from longalign.backends.cuda.device.number_formats import INT32
from longalign.backends.cuda.device.pair_scores import SCORES, load_matrix, pair_costs, pair_score
from longalign.backends.cuda.device.sync import from_left, publish_rows, take_ticket, wait_for_rows
from longalign.backends.cuda.device.work_tables import high_of, low_of, pack
from longalign.backends.cuda.numba_api import cuda, jit_kernel
from longalign.model import recurrence
from longalign.model.boundary import start_code

#: Columns of a lane. With twice as many, large lists of rectangles take a seventh less time. But lazy runs
#: ask for few rectangles at a time, and the rows of these take longer.
COLUMNS = 4
STRIP_WIDTH = COLUMNS * LANES

# The table of rectangles, int64, one row for each: its size; the indices at which its letters, its part of
# the arrays along the top edge (TOP_AT) and along the left edge (COLUMN_AT), and its matrix begin; and its
# `PairCosts`.
ROWS, COLS, QUERY_AT, TARGET_AT, TOP_AT, COLUMN_AT, MATRIX_AT = 0, 1, 2, 3, 4, 5, 6
MATCH, MISMATCH, OPENING, EXTEND = 7, 8, 9, 10
JOB_FIELDS = 11

# The table of strips, int32, one row for each: the number of its rectangle, its first column, the ticket of
# its left neighbour, or NO_STRIP, where its excluded pairs begin, and how many there are (see
# `excluded_pairs`).
JOB, FIRST_COLUMN, LEFT, EXCLUDED_AT, EXCLUDED = 0, 1, 2, 3, 4
STRIP_FIELDS = 5
NO_STRIP = -1

#: The types of the kernel's arguments, all C-contiguous arrays.
SIGNATURE = (
    int64[:, ::1], int32[:, ::1], uint8[::1], uint8[::1], int32[::1], int64[::1], int64[::1], int64[::1],
    int64[::1], int64[::1], int64[::1], int32[::1], int32[::1], int32[::1],
)  # fmt: skip

#: What lies left of a lane's first column in a row: opened H, F, the row's letter, and the starts of H and F.
_Left = namedtuple("_Left", "opened f letter start_h start_f")

_start_code: Any = cuda.jit(device=True)(start_code)


@cuda.jit(device=True)
def _code(row, col, state):
    return _start_code(np.int64(row), np.int64(col), np.int64(state))


@cuda.jit(device=True)
def _nothing():
    return _Left(np.int32(0), np.int32(0), np.int32(0), np.int64(0), np.int64(0))


@cuda.jit(device=True)
def _load_columns(opened, e, letters, starts_h, starts_e, jobs, job, target, top, first):
    """Load the top edge of a lane's columns, which begin at `first`.

    Columns beyond the rectangle repeat its last column.
    """
    cols = np.int32(jobs[job, COLS])
    for k in range(COLUMNS):
        column = min(np.int32(first + k), np.int32(cols - 1))
        letters[k] = np.int32(target[jobs[job, TARGET_AT] + column])
        value = top[jobs[job, TOP_AT] + column + 1]
        opened[k], e[k] = low_of(value), high_of(value)
        starts_h[k] = _code(0, column + 1, recurrence.H)
        starts_e[k] = _code(0, column + 1, recurrence.E)


@cuda.jit(device=True)
def _load_row(jobs, job, query, column, column_h, column_f, row, in_first_strip):
    """The `_Left` of the strip's first column in a row; arbitrary below the rectangle."""
    if row >= jobs[job, ROWS]:
        return _nothing()
    at = jobs[job, COLUMN_AT] + row
    value, letter = column[at], np.int32(query[jobs[job, QUERY_AT] + row])
    start_h, start_f = _code(row + 1, 0, recurrence.H), _code(row + 1, 0, recurrence.F)
    if not in_first_strip:
        start_h, start_f = column_h[at], column_f[at]
    return _Left(low_of(value), high_of(value), letter, start_h, start_f)


@cuda.jit(device=True)
def _from_left(own, loaded, step, lane):
    """The `_Left` of a lane's next row. Lane `step` has loaded that of the first lane."""
    return _Left(
        from_left(own.opened, loaded.opened, step, lane), from_left(own.f, loaded.f, step, lane),
        from_left(own.letter, loaded.letter, step, lane),
        from_left(own.start_h, loaded.start_h, step, lane),
        from_left(own.start_f, loaded.start_f, step, lane),
    )  # fmt: skip


def _make_advance(local: bool, has_matrix: bool, excludes: bool, ragged: bool) -> Any:
    """A device function that sweeps a lane's next row and returns the `_Left` of the lane to the right.

    If `ragged`, only the first `width` columns of the lane are inside the rectangle. If `excludes`, those in
    the set `excluded` pair their letters with none of this row.
    """
    cell: Any = cuda.jit(device=True)(recurrence.make_cell(INT32.maximum, INT32.subtract, local))
    rule: Any = cuda.jit(device=True)(recurrence.make_start_rule(local))
    score_of, lowest = pair_score(has_matrix), INT32.lowest

    @cuda.jit(device=True)
    def advance(
        opened, e, letters, starts_h, starts_e, matrix, diagonal, start_diagonal,
        left, row, first, width, costs, excluded,
    ):  # fmt: skip
        opened_left, f, start_left, start_f = left.opened, left.f, left.start_h, left.start_f
        zero = np.int32(0)
        for k in range(COLUMNS):
            if not ragged or k < width:
                opened_up, start_up = opened[k], starts_h[k]
                paired = np.int32(diagonal + score_of(matrix, left.letter, letters[k], costs))
                if excludes and contains(excluded, k):
                    paired = lowest
                h, e_here, f, _ = cell(paired, opened_up, e[k], opened_left, f, costs.extend, zero)
                start_h, start_e, start_f = rule(
                    h, paired, e_here, f, opened_up, opened_left, zero,
                    start_diagonal, start_up, starts_e[k], start_left, start_f,
                    _code(row + 1, first + k + 1, recurrence.H),
                )  # fmt: skip
                diagonal, start_diagonal = opened_up, start_up
                opened_left, start_left = np.int32(h - costs.opening), start_h
                opened[k], e[k], starts_h[k], starts_e[k] = opened_left, e_here, start_h, start_e
        return _Left(opened_left, f, left.letter, start_left, start_f)

    return advance


def _make_sweep(local: bool, has_matrix: bool, excludes: bool, ragged: bool) -> Any:
    """A device function that sweeps a strip, with all lanes of a warp."""
    advance = _make_advance(local, has_matrix, excludes, ragged)

    @cuda.jit(device=True)
    def sweep(
        strips, ticket, jobs, query, target, matrix, top, column, column_h, column_f, bottom_h, bottom_e,
        pairs, flags, lane,
    ):  # fmt: skip
        opened = cuda.local.array(COLUMNS, int32)
        e = cuda.local.array(COLUMNS, int32)
        letters = cuda.local.array(COLUMNS, int32)
        starts_h = cuda.local.array(COLUMNS, int64)
        starts_e = cuda.local.array(COLUMNS, int64)
        job, left_strip = strips[ticket, JOB], strips[ticket, LEFT]
        rows, cols = np.int32(jobs[job, ROWS]), np.int32(jobs[job, COLS])
        costs = pair_costs(jobs, job, MATCH)
        first = np.int32(strips[ticket, FIRST_COLUMN] + lane * COLUMNS)
        width = min(np.int32(COLUMNS), max(np.int32(0), np.int32(cols - first)))
        top_at, column_at = jobs[job, TOP_AT], jobs[job, COLUMN_AT]
        _load_columns(opened, e, letters, starts_h, starts_e, jobs, job, target, top, first)
        corner = min(first, cols)
        diagonal, start_diagonal = low_of(top[top_at + corner]), _code(0, corner, recurrence.H)
        right, steps = _nothing(), np.int32(rows + LANES - 1)
        of_strip = StripPairs(strips[ticket, EXCLUDED_AT], strips[ticket, EXCLUDED])
        excluded, next_pair = np.int32(0), np.int32(0)
        for start in range(0, steps, LANES):
            if left_strip != NO_STRIP:
                wait_for_rows(flags, left_strip, min(np.int32(start + LANES), rows))
            loaded = _load_row(
                jobs, job, query, column, column_h, column_f, np.int32(start + lane), left_strip == NO_STRIP
            )
            for step in range(LANES):
                left = _from_left(right, loaded, step, lane)
                row = np.int32(start + step - lane)
                if row >= 0 and row < rows:
                    if excludes:
                        excluded, next_pair = columns_in_row_by_number(
                            row, next_pair, first, COLUMNS, of_strip, pairs
                        )
                    right = advance(
                        opened, e, letters, starts_h, starts_e, matrix, diagonal, start_diagonal,
                        left, row, first, width, costs, excluded,
                    )  # fmt: skip
                    diagonal, start_diagonal = left.opened, left.start_h
                    if lane == LANES - 1:
                        column[column_at + row] = pack(right.opened, right.f)
                        column_h[column_at + row], column_f[column_at + row] = right.start_h, right.start_f
            publish_rows(flags, ticket, min(np.int32(start + 1), rows), lane)
        for k in range(COLUMNS):
            if k < width:
                bottom_h[top_at + first + k + 1] = starts_h[k]
                bottom_e[top_at + first + k + 1] = starts_e[k]

    return sweep


def build_kernel(local: bool, has_matrix: bool, excludes: bool) -> Any:
    """The kernel for local or global rectangles, with or without a matrix, compiled at its first launch.

    It uses all letter pairs, or, if `excludes`, those that are not excluded.

    Launch it with any number of thread blocks of one warp. Either all rectangles have a matrix or none has.
    The arguments are

    - `jobs`, (rectangles, JOB_FIELDS), and `strips`, (strips, STRIP_FIELDS), each strip after its left
      neighbour;
    - `query` and `target`, the letters of all rectangles, and `matrices`;
    - `top`: pairs of opened H and E along the top edges, corners included;
    - `column`: pairs of opened H and F along the left edges, without corners, which become those along the
      right edges;
    - `column_h`, `column_f`: output, the starts of H and F along the right edges, without corners;
    - `bottom_h`, `bottom_e`: output, the starts of H and E along the bottom edges, with room for corners;
    - `pairs`: the excluded pairs of all strips;
    - `flags`, one for each strip, and `tickets`, a counter; all 0.
    """
    sweep, sweep_ragged = (_make_sweep(local, has_matrix, excludes, ragged) for ragged in (False, True))

    @jit_kernel()
    def starts(
        jobs, strips, query, target, matrices, top, column, column_h, column_f, bottom_h, bottom_e, pairs,
        flags, tickets,
    ):  # fmt: skip
        lane, matrix = np.int32(cuda.threadIdx.x), matrices
        if has_matrix:
            matrix = cuda.shared.array(SCORES, int32)
        ticket = take_ticket(tickets, lane)
        while ticket < strips.shape[0]:
            job = strips[ticket, JOB]
            if has_matrix:
                opening = np.int32(jobs[job, OPENING])
                load_matrix(matrix, matrices, jobs[job, MATRIX_AT], opening, lane)
            beyond = strips[ticket, FIRST_COLUMN] + STRIP_WIDTH > jobs[job, COLS]
            if beyond:
                sweep_ragged(
                    strips, ticket, jobs, query, target, matrix, top, column, column_h, column_f, bottom_h,
                    bottom_e, pairs, flags, lane,
                )  # fmt: skip
            else:
                sweep(
                    strips, ticket, jobs, query, target, matrix, top, column, column_h, column_f, bottom_h,
                    bottom_e, pairs, flags, lane,
                )  # fmt: skip
            ticket = take_ticket(tickets, lane)

    return starts
