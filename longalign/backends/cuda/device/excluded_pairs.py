"""Excluded letter pairs (see `model.excluded_pairs`) in the columns of a strip.

`WorkList.lists` holds those of each strip, sorted by row. A pair takes two int32: the row and the column of
the rectangle that its letters belong to. `masked_blocks` sweeps row blocks with excluded pairs. For each row
a lane asks which of its columns are excluded: only gaps lead to their cells.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np

from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.numba_api import cuda

#: The int32 of an excluded pair.
PAIR_WORDS = 2

#: The row after all excluded pairs of a strip.
NO_ROW = np.int32((1 << 31) - 1)

#: The excluded pairs of a strip: the index at which they begin in their array, and their number.
StripPairs = namedtuple("StripPairs", "at count")

#: Where a walk down the excluded pairs of a strip has come to: the number of a pair, its row and column, and
#: those of the pair after it. The latter are loaded a row before they are needed, as memory takes long.
PairWalk = namedtuple("PairWalk", "number pair after")

#: The excluded columns of a lane in a row, as sets of bits: those of its low and of its high half.
ExcludedColumns = namedtuple("ExcludedColumns", "low high")


@cuda.jit(device=True)
def contains(columns, column):
    """Whether a set of columns contains a column."""
    return (columns >> np.int32(column)) & 1 != 0


@cuda.jit(device=True)
def pairs_of_strip(strips, strip):
    """The `StripPairs` of a strip."""
    return StripPairs(strips[strip, work_tables.EXCLUDED_AT], strips[strip, work_tables.EXCLUDED])


@cuda.jit(device=True)
def row_of_pair(number, pairs, lists):
    """The row of an excluded pair of a strip, or NO_ROW after the last one."""
    return lists[np.uint64(pairs.at + PAIR_WORDS * number)] if number < pairs.count else NO_ROW


@cuda.jit(device=True)
def first_pair_from(row, pairs, lists):
    """The number of the first excluded pair of a strip in `row` or below it."""
    first, last = np.int32(0), pairs.count
    while first < last:
        middle = np.int32((first + last) // 2)
        if row_of_pair(middle, pairs, lists) < row:
            first = np.int32(middle + 1)
        else:
            last = middle
    return first


@cuda.jit(device=True)
def excluded_row_from(row, pairs, lists):
    """The first row from `row` on that has an excluded pair, or NO_ROW."""
    return row_of_pair(first_pair_from(row, pairs, lists), pairs, lists)


@cuda.jit(device=True)
def _pair(number, pairs, lists):
    """The row and the column of an excluded pair of a strip; the row is NO_ROW after the last one."""
    row = row_of_pair(number, pairs, lists)
    return row, lists[np.uint64(pairs.at + PAIR_WORDS * number + 1)] if row != NO_ROW else np.int32(0)


@cuda.jit(device=True)
def walk_from(number, pairs, lists):
    """The `PairWalk` that begins at an excluded pair of a strip."""
    return PairWalk(number, _pair(number, pairs, lists), _pair(np.int32(number + 1), pairs, lists))


@cuda.jit(device=True)
def _with_column(found, column, first, columns):
    """A set of columns and `column`, if that is one of the `columns` columns from `first` on."""
    inside = np.int32(column - first)
    if np.uint32(inside) < np.uint32(columns):
        found = np.int32(found | np.int32(1) << inside)
    return found


@cuda.jit(device=True)
def columns_in_row(row, walk, first, columns, pairs, lists):
    """The set of excluded columns in a row, and the walk from the first pair below the row on.

    The set refers to `columns` columns of the rectangle, from `first` on. `walk` is at the first pair from
    `row` on.
    """
    found = np.int32(0)
    while walk.pair[0] == row:
        found = _with_column(found, walk.pair[1], first, columns)
        number = np.int32(walk.number + 1)
        walk = PairWalk(number, walk.after, _pair(np.int32(number + 1), pairs, lists))
    return found, walk


@cuda.jit(device=True)
def columns_in_row_by_number(row, number, first, columns, pairs, lists):
    """The same with the number of a pair in place of a walk: slower, but in fewer registers."""
    found = np.int32(0)
    while row_of_pair(number, pairs, lists) == row:
        column = lists[np.uint64(pairs.at + PAIR_WORDS * number + 1)]
        found = _with_column(found, column, first, columns)
        number = np.int32(number + 1)
    return found, number


@cuda.jit(device=True)
def _none_at_all(row, pairs, lists):
    return None


@cuda.jit(device=True)
def _none_here(row, walk, position, pairs, lists):
    return None, None


@cache
def make_walk_down(config: KernelConfig) -> tuple[Any, Any]:
    """Device functions that follow the excluded pairs of a strip while a lane sweeps row after row.

    `begin(row, pairs, lists)` returns the state of a walk, given the low half's first row. For each row from
    there on, `excluded_in_row(row, walk, position, pairs, lists)` returns the lane's `ExcludedColumns` and
    the next state. In kernels that use every pair, all of these are None.
    """
    if not config.excludes:
        return _none_at_all, _none_here
    columns, halves = config.columns, config.halves

    @cuda.jit(device=True)
    def begin(row, pairs, lists):
        low = walk_from(first_pair_from(row, pairs, lists), pairs, lists)
        if halves == 1:
            return low, low
        return low, walk_from(first_pair_from(np.int32(row - STEP_ROWS), pairs, lists), pairs, lists)

    @cuda.jit(device=True)
    def excluded_in_row(row, walk, position, pairs, lists):
        low, high = walk
        of_low, low = columns_in_row(row, low, position.first, columns, pairs, lists)
        of_high = of_low
        if halves == 2:
            above, first = np.int32(row - STEP_ROWS), np.int32(position.first + columns)
            of_high, high = columns_in_row(above, high, first, columns, pairs, lists)
        return ExcludedColumns(of_low, of_high), (low, high)

    return begin, excluded_in_row
