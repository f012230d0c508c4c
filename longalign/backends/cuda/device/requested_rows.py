"""What happens beside the recurrence: a part begins, it is at work, it meets a requested row.

The first and the last steps of a strip find most of its parts idle. They compute all the same: a branch would
take longer. Where parts may not sweep on without letters (see `kernels.sweep`), that is garbage, and it is
not used: a half keeps its columns until it *begins*, and what it ends with has been stored before it goes on.

Lanes meet a requested row one after the other. While one stores its columns, the others wait, and so does the
strip to the right, which then takes as long itself: what that takes adds up over all strips. Where rows are
swept two at a time (see `masked_blocks`), a lane therefore only puts its numbers aside as they are, in the
warp's own memory, and all lanes make values of them at the end of the row block. Nor is there a branch for
the lane that meets the row: instructions that store something, or nothing, stand between others in each step.
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

#: A requested row: its index, not positive if there is none, and its number from 0.
RequestedRow = namedtuple("RequestedRow", "row number")

#: What a row block meets: the next requested row, whether it is met, and whether that must be row by row.
Lookahead = namedtuple("Lookahead", "requested stores_row row_by_row")


@cache
def make_started(config: KernelConfig) -> Any:
    """A device function: bits of the halves whose part has started by a given row of the first part."""
    halves_if = ARITHMETIC[config.numbers].halves

    @cuda.jit(device=True)
    def started(row):
        return halves_if(row >= 0, row >= STEP_ROWS)

    return started


@cache
def make_inside(config: KernelConfig) -> Any:
    """A device function for bits of the halves whose row is one of the rectangle's."""
    halves_if = ARITHMETIC[config.numbers].halves

    @cuda.jit(device=True)
    def inside(row, rows):
        """`row` is that of the first part."""
        row_of_high = np.int32(row - STEP_ROWS)
        return halves_if(np.uint32(row) < np.uint32(rows), np.uint32(row_of_high) < np.uint32(rows))

    return inside


@cuda.jit(device=True)
def requested_row(number, requested_rows, jobs, job):
    """The requested row of this number; there is none after the last."""
    return RequestedRow(np.int32(requested_rows[jobs[job, work_tables.REQUESTED_AT] + number]), number)


@cuda.jit(device=True)
def first_requested_below(row, number, requested_rows, jobs, job):
    """The number of the first requested row below `row`, given one that is not below it."""
    wanted_at = jobs[job, work_tables.REQUESTED_AT]
    while 0 < requested_rows[wanted_at + number] <= row:
        number = np.int32(number + 1)
    return number


@cuda.jit(device=True)
def next_event(requested, rows):
    """The row at which something is next to happen: a requested one, or the last."""
    return requested.row if requested.row > 0 else rows


@cuda.jit(device=True)
def look_ahead(requested, start, end, last_part_lag, requested_rows, jobs, job):
    """What parts of a strip meet while the first is at rows `start` to `end`; `requested` is what some part
    had yet to pass before."""
    if 0 < requested.row <= start - last_part_lag:
        number = first_requested_below(
            np.int32(start - last_part_lag), requested.number, requested_rows, jobs, job
        )
        requested = requested_row(number, requested_rows, jobs, job)
    meets, several = 0 < requested.row <= end, False
    if meets:
        several = 0 < requested_row(np.int32(requested.number + 1), requested_rows, jobs, job).row <= end
    return Lookahead(requested, meets, meets and (several or requested.row % STEP_ROWS != 0))


@cache
def make_store_requested(config: KernelConfig) -> Any:
    """A device function that writes one half of a lane's row as a requested row."""
    columns = config.columns
    value_of = ARITHMETIC[config.numbers].value

    @cuda.jit(device=True)
    def store_requested(lines, opened, e, half, number, jobs, position, costs, base):
        # What is made of these is needed rarely, and registers are scarce.
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
    """A device function for where a warp's memory for a row begins; no register is to hold that meanwhile."""
    warps, warp_values, row_buffer_at = config.warps, config.warp_values, config.row_buffer_at

    @cuda.jit(device=True)
    def at():
        warp = opaque(np.int32(cuda.blockIdx.x * warps + cuda.threadIdx.x // LANES))
        return np.int64(warp) * warp_values + row_buffer_at

    return at


@cache
def make_row_buffer(config: KernelConfig) -> Any:
    """A device function that says whether a lane is to put a row aside, and where.

    There is a place for each column of the strip, and another for its E. A lane with two parts puts aside
    both halves of its arithmetic, in the place of the part that meets the row.
    """
    columns, halves, row_buffer_at = config.columns, config.halves, _make_row_buffer_at(config)

    @cuda.jit(device=True)
    def row_buffer(memory, lane, beyond):
        """`beyond`: rows by which the row of the lane's first part is below the requested one."""
        second_meets = halves == 2 and beyond == STEP_ROWS
        part = opaque(np.int32(halves * lane + second_meets))
        return RowBuffer(memory, row_buffer_at() + part * columns, beyond == 0 or second_meets)

    return row_buffer


@cache
def make_store_row_buffer(config: KernelConfig) -> Any:
    """A device function that writes as a requested row what parts have put aside in a row block."""
    block_rows, columns, parts, halves = config.block_rows, config.columns, config.parts, config.halves
    strip_width, value_of = config.strip_width, ARITHMETIC[config.numbers].value
    row_buffer_at = _make_row_buffer_at(config)
    # Columns that a lane reads before it stores any: loads overlap. In narrow strips it has few.
    together = 2 if config.narrow else 4

    @cuda.jit(device=True)
    def store_row_buffer(memory, lines, requested, row, jobs, position, costs, base):
        """`row` is that of the lane's first part after the row block."""
        h = cuda.local.array(together, int32)
        e = cuda.local.array(together, int32)
        # Part p has just swept the rows from above - 2p, exclusive, to above - 2p + block_rows, counted from
        # the requested one.
        lane_part = np.int32(halves * position.lane)
        above = np.int32(row + STEP_ROWS * lane_part - block_rows - requested.row)
        first = max(np.int32(0), np.int32(above // STEP_ROWS + 1))
        # A requested row far below makes this so low that columns up to there could not be counted.
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
