"""What a part does beside the recurrence: it starts, it leaves the rectangle, and it stores requested rows.

**Idle parts.** In the first and last steps of a strip, most of its parts are above or below the rectangle.
They compute all the same, because a branch would take longer. Where parts may not sweep on through rows
without letters (see `kernels.sweep`), these results are meaningless and are not used. A half keeps its
columns until it *starts*, and its last row has been stored, if requested, before it sweeps on below the
rectangle.

**Requested rows.** The lanes of a strip meet a requested row one after another. If each lane stored its
columns when it meets the row, the other lanes would wait for it, and so would the strip to the right. That
strip would then be delayed by its own stores as well: the delays of all strips add up. Where rows are swept
step by step (see `masked_blocks`), a lane therefore copies its numbers unchanged to the warp's *row buffer*.
At the end of the row block, all lanes together convert them to values and write the requested row. The copy
needs no branch either: every step contains conditional stores between its other instructions, and they take
effect only in the lane that meets the row.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np
from numba import int32

from longalign.backends.cuda.config import LANES, STEP_ROWS, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.ptx import opaque
from longalign.backends.cuda.device.row import RowBuffer
from longalign.backends.cuda.device.sync import ALL_LANES
from longalign.backends.cuda.numba_api import cuda

#: A requested row of the rectangle: its row boundary index, not positive if there is none, and its number
#: among the requested rows, from 0.
RequestedRow = namedtuple("RequestedRow", "row number")

#: What the parts of a strip meet in a row block: the next requested row that some part has yet to pass,
#: whether any part meets it in this block, and whether the block must then be swept row by row.
Lookahead = namedtuple("Lookahead", "requested stores_row row_by_row")


@cache
def make_started(config: KernelConfig) -> Any:
    """A device function that returns a mask of the halves that have started, given the low half's row."""
    halves_if = ARITHMETIC[config.numbers].halves

    @cuda.jit(device=True)
    def started(row):
        return halves_if(row >= 0, row >= STEP_ROWS)

    return started


@cache
def make_inside(config: KernelConfig) -> Any:
    """A device function that returns a mask of the halves whose row is inside the rectangle."""
    halves_if = ARITHMETIC[config.numbers].halves

    @cuda.jit(device=True)
    def inside(row, rows):
        """`row` is the low half's row; the high half is a step behind."""
        row_of_high = np.int32(row - STEP_ROWS)
        return halves_if(np.uint32(row) < np.uint32(rows), np.uint32(row_of_high) < np.uint32(rows))

    return inside


@cuda.jit(device=True)
def requested_row(number, lists, jobs, job):
    """The requested row of a number. After the last one, its `row` is not positive."""
    return RequestedRow(np.int32(lists[jobs[job, work_tables.REQUESTED_AT] + number]), number)


@cuda.jit(device=True)
def first_requested_below(row, number, lists, jobs, job):
    """The number of the first requested row below `row`. The search begins at `number`."""
    requested_at = jobs[job, work_tables.REQUESTED_AT]
    while 0 < lists[requested_at + number] <= row:
        number = np.int32(number + 1)
    return number


@cuda.jit(device=True)
def next_event(requested, rows):
    """The row boundary that needs attention next: the requested row, or the rectangle's last one."""
    return requested.row if requested.row > 0 else rows


@cuda.jit(device=True)
def look_ahead(requested, start, end, last_part_lag, lists, jobs, job):
    """What the parts of a strip meet while its first part sweeps rows `start` to `end`, as a `Lookahead`.

    `requested` is what the call before has returned. All parts may have passed this row by now.
    """
    if 0 < requested.row <= start - last_part_lag:
        number = first_requested_below(np.int32(start - last_part_lag), requested.number, lists, jobs, job)
        requested = requested_row(number, lists, jobs, job)
    meets, several = 0 < requested.row <= end, False
    if meets:
        several = 0 < requested_row(np.int32(requested.number + 1), lists, jobs, job).row <= end
    return Lookahead(requested, meets, meets and (several or requested.row % STEP_ROWS != 0))


@cache
def make_store_requested(config: KernelConfig) -> Any:
    """A device function that writes the columns of one half of a lane to a requested row in `lines`."""
    columns = config.columns
    value_of = ARITHMETIC[config.numbers].value

    @cuda.jit(device=True)
    def store_requested(lines, opened, e, half, number, jobs, position, costs, base):
        # Registers are scarce: `opaque` keeps values that are needed rarely from being computed in advance.
        first, width = opaque(position.first), opaque(position.width)
        length = jobs[position.job, work_tables.COLS] + 1
        at = jobs[position.job, work_tables.ROW_OUT_AT] + number * 2 * length + 1 + first
        for k in range(columns):
            if half * columns + k < width:
                h = np.int32(value_of(opened[k], half, base) + costs.opening)
                lines[np.uint64(at + half * columns + k)] = h
                lines[np.uint64(at + length + half * columns + k)] = value_of(e[k], half, base)

    return store_requested


@cache
def _make_row_buffer_at(config: KernelConfig) -> Any:
    """A device function that returns the index in `memory` at which the warp's row buffer begins.

    It is computed anew at each call, so that no register holds it in the meantime.
    """
    warps, warp_values, row_buffer_at = config.warps, config.warp_values, config.row_buffer_at

    @cuda.jit(device=True)
    def at():
        warp = opaque(np.int32(cuda.blockIdx.x * warps + cuda.threadIdx.x // LANES))
        return np.int64(warp) * warp_values + row_buffer_at

    return at


@cache
def make_row_buffer(config: KernelConfig) -> Any:
    """A device function that returns a `RowBuffer`: whether a lane copies its row, and to which place.

    The row buffer holds a number (int32) for each column of the strip, and then another for E of each column.
    A lane with two parts copies whole numbers, both halves, to the place of the part that meets the row.
    """
    columns, halves, row_buffer_at = config.columns, config.halves, _make_row_buffer_at(config)

    @cuda.jit(device=True)
    def row_buffer(memory, lane, beyond):
        """`beyond`: the rows by which the lane's first part is below the requested row."""
        second_meets = halves == 2 and beyond == STEP_ROWS
        part = opaque(np.int32(halves * lane + second_meets))
        return RowBuffer(memory, row_buffer_at() + part * columns, beyond == 0 or second_meets)

    return row_buffer


@cache
def make_store_row_buffer(config: KernelConfig) -> Any:
    """A device function that converts a row buffer to values and writes them to a requested row in `lines`.

    It writes the columns of those parts that met the row in the row block just swept.
    """
    block_rows, columns, parts, halves = config.block_rows, config.columns, config.parts, config.halves
    strip_width, value_of = config.strip_width, ARITHMETIC[config.numbers].value
    row_buffer_at = _make_row_buffer_at(config)
    # The number of columns that a lane loads before it stores any, so that loads overlap. Narrow strips have
    # few columns for each lane.
    together = 2 if config.narrow else 4

    @cuda.jit(device=True)
    def store_row_buffer(memory, lines, requested, row, jobs, position, costs, base):
        """`row` is the row of the lane's first part after the row block."""
        h = cuda.local.array(together, int32)
        e = cuda.local.array(together, int32)
        # Relative to the requested row, part p has just swept the row boundaries from above - 2p (exclusive)
        # to above - 2p + block_rows (inclusive). It has met the row if 0 is among these.
        lane_part = np.int32(halves * position.lane)
        above = np.int32(row + STEP_ROWS * lane_part - block_rows - requested.row)
        first = max(np.int32(0), np.int32(above // STEP_ROWS + 1))
        # At least -1: if the requested row is far below, the product with `columns` would overflow.
        last = min(np.int32(parts - 1), max(np.int32(-1), np.int32((above + block_rows) // STEP_ROWS)))
        first_of_strip = np.int32(position.first - lane_part * columns)
        strip_end = cuda.shfl_sync(ALL_LANES, np.int32(position.first + position.width), position.last_lane)
        end = min(np.int32((last + 1) * columns), np.int32(strip_end - first_of_strip))
        length = jobs[position.job, work_tables.COLS] + 1
        to = jobs[position.job, work_tables.ROW_OUT_AT] + requested.number * 2 * length + 1 + first_of_strip
        at, column = row_buffer_at(), np.int32(first * columns + position.lane)
        while column < end:
            for k in range(together):
                nearest = np.int32(min(column + k * LANES, end - 1))
                half = np.int32(nearest // columns % halves)
                h[k] = value_of(memory[np.uint64(at + nearest)], half, base)
                e[k] = value_of(memory[np.uint64(at + strip_width + nearest)], half, base)
            for k in range(together):
                if column + k * LANES < end:
                    lines[np.uint64(to + column + k * LANES)] = np.int32(h[k] + costs.opening)
                    lines[np.uint64(to + length + column + k * LANES)] = e[k]
            column = np.int32(column + together * LANES)

    return store_row_buffer
