"""What happens beside the recurrence: a part begins, it is at work, it meets a wanted row.

The first and the last steps of a strip find most of its parts idle. They compute all the same: a branch would
take longer. Where parts may not sweep on without letters (see `kernel`), that is garbage, and nobody looks at
it: a half keeps its columns until it *begins*, and what it ends with has been stored before it goes on.

Lanes meet a wanted row one after the other. While one stores its columns, the others wait, and so does the
strip to the right, which then takes as long itself: what that takes adds up over all strips. Where rows are
swept two at a time (see `eventful`), a lane therefore only puts its numbers aside as they are, in the warp's
own memory, and all lanes make values of them at the end of the batch. Nor is there a branch for the lane that
meets the row: instructions that store something, or nothing, stand between others in each step.
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
from longalign.backends.cuda.device.number_formats import NUMBERS
from longalign.backends.cuda.device.ptx import here
from longalign.backends.cuda.device.row import Aside
from longalign.backends.cuda.device.sync import ALL_LANES
from longalign.backends.cuda.numba_api import cuda

#: A wanted row: its index, not positive if there is none, and its number from 0.
Wanted = namedtuple("Wanted", "row number")

#: What a batch meets: the next wanted row, whether it is met, and whether that must be row by row.
Ahead = namedtuple("Ahead", "wanted meets by_rows")


@cache
def make_begun(config: KernelConfig) -> Any:
    """A device function for bits of the halves that have begun by a row, that of the first part."""
    halves_if = NUMBERS[config.numbers].halves

    @cuda.jit(device=True)
    def begun(row):
        return halves_if(row >= 0, row >= STEP_ROWS)

    return begun


@cache
def make_at_work(config: KernelConfig) -> Any:
    """A device function for bits of the halves whose row is one of the rectangle's."""
    halves_if = NUMBERS[config.numbers].halves

    @cuda.jit(device=True)
    def at_work(row, rows):
        """`row` is that of the first part."""
        row_of_high = np.int32(row - STEP_ROWS)
        return halves_if(np.uint32(row) < np.uint32(rows), np.uint32(row_of_high) < np.uint32(rows))

    return at_work


@cuda.jit(device=True)
def wanted_row(number, wanted_rows, jobs, job):
    """The wanted row of this number; there is none after the last."""
    return Wanted(np.int32(wanted_rows[jobs[job, work_tables.WANTED_AT] + number]), number)


@cuda.jit(device=True)
def first_wanted_below(row, number, wanted_rows, jobs, job):
    """The number of the first wanted row below `row`, given one that is not below it."""
    wanted_at = jobs[job, work_tables.WANTED_AT]
    while 0 < wanted_rows[wanted_at + number] <= row:
        number = np.int32(number + 1)
    return number


@cuda.jit(device=True)
def next_event(wanted, rows):
    """The row at which something is next to happen: a wanted one, or the last."""
    return wanted.row if wanted.row > 0 else rows


@cuda.jit(device=True)
def look_ahead(wanted, start, end, behind, wanted_rows, jobs, job):
    """What parts of a strip meet while the first is at rows `start` to `end`; `wanted` is what some part had
    yet to pass before."""
    if 0 < wanted.row <= start - behind:
        number = first_wanted_below(np.int32(start - behind), wanted.number, wanted_rows, jobs, job)
        wanted = wanted_row(number, wanted_rows, jobs, job)
    meets, several = 0 < wanted.row <= end, False
    if meets:
        several = 0 < wanted_row(np.int32(wanted.number + 1), wanted_rows, jobs, job).row <= end
    return Ahead(wanted, meets, meets and (several or wanted.row % STEP_ROWS != 0))


@cache
def make_store_wanted(config: KernelConfig) -> Any:
    """A device function that writes one half of a lane's row as a wanted row."""
    columns = config.columns
    value_of = NUMBERS[config.numbers].value

    @cuda.jit(device=True)
    def store_wanted(lines, opened, e, half, number, jobs, place, costs, origin):
        # What is made of these is needed rarely, and registers are scarce.
        first, width = here(place.first), here(place.width)
        length = jobs[place.job, work_tables.COLS] + 1
        at = jobs[place.job, work_tables.ROW_OUT_AT] + number * 2 * length + 1 + first
        for k in range(columns):
            if half * columns + k < width:
                h = np.int32(value_of(opened[k], half, origin) + costs.amount)
                lines[np.uint64(at + half * columns + k)] = h
                lines[np.uint64(at + length + half * columns + k)] = value_of(e[k], half, origin)

    return store_wanted


@cache
def _make_aside_at(config: KernelConfig) -> Any:
    """A device function for where a warp's memory for a row begins; no register is to hold that meanwhile."""
    warps, warp_values, aside_at = config.warps, config.warp_values, config.aside_at

    @cuda.jit(device=True)
    def at():
        warp = here(np.int32(cuda.blockIdx.x * warps + cuda.threadIdx.x // LANES))
        return np.int64(warp) * warp_values + aside_at

    return at


@cache
def make_aside(config: KernelConfig) -> Any:
    """A device function that says whether a lane is to put a row aside, and where.

    There is a place for each column of the strip, and another for its E. A lane with two parts puts aside
    both halves of its numbers, in the place of the part that meets the row.
    """
    columns, halves, aside_at = config.columns, config.halves, _make_aside_at(config)

    @cuda.jit(device=True)
    def aside(memory, lane, beyond):
        """`beyond`: rows by which the row of the lane's first part is below the wanted one."""
        second_meets = halves == 2 and beyond == STEP_ROWS
        part = here(np.int32(halves * lane + second_meets))
        return Aside(memory, aside_at() + part * columns, beyond == 0 or second_meets)

    return aside


@cache
def make_store_aside(config: KernelConfig) -> Any:
    """A device function that writes as a wanted row what parts have put aside in a batch."""
    batch, columns, parts, halves = config.batch, config.columns, config.parts, config.halves
    strip_width, value_of = config.strip_width, NUMBERS[config.numbers].value
    aside_at = _make_aside_at(config)
    # Columns that a lane reads before it stores any: loads overlap. In narrow strips it has few.
    together = 2 if config.narrow else 4

    @cuda.jit(device=True)
    def store_aside(memory, lines, wanted, row, jobs, place, costs, origin):
        """`row` is that of the lane's first part after the batch."""
        h = cuda.local.array(together, int32)
        e = cuda.local.array(together, int32)
        # Part p has just swept the rows from above - 2p, exclusive, to above - 2p + batch, counted from the
        # wanted one.
        lane_part = np.int32(halves * place.lane)
        above = np.int32(row + STEP_ROWS * lane_part - batch - wanted.row)
        first = max(np.int32(0), np.int32(above // STEP_ROWS + 1))
        # A wanted row far below makes this so low that columns up to there could not be counted.
        last = min(np.int32(parts - 1), max(np.int32(-1), np.int32((above + batch) // STEP_ROWS)))
        first_of_strip = np.int32(place.first - lane_part * columns)
        strip_end = cuda.shfl_sync(ALL_LANES, np.int32(place.first + place.width), place.last_lane)
        end = min(np.int32((last + 1) * columns), np.int32(strip_end - first_of_strip))
        length = jobs[place.job, work_tables.COLS] + 1
        to = jobs[place.job, work_tables.ROW_OUT_AT] + wanted.number * 2 * length + 1 + first_of_strip
        at, column = aside_at(), np.int32(first * columns + place.lane)
        while column < end:
            for k in range(together):
                nearest = np.int32(min(column + k * LANES, end - 1))
                half = np.int32(nearest // columns % halves)
                h[k] = value_of(memory[np.uint64(at + nearest)], half, origin)
                e[k] = value_of(memory[np.uint64(at + strip_width + nearest)], half, origin)
            for k in range(together):
                if column + k * LANES < end:
                    lines[np.uint64(to + column + k * LANES)] = np.int32(h[k] + costs.amount)
                    lines[np.uint64(to + length + column + k * LANES)] = e[k]
            column = np.int32(column + together * LANES)

    return store_aside
