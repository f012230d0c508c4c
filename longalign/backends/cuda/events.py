"""What happens after some rows of a part: it begins, it meets a wanted row, it ends.

The first and the last steps of a strip find most of its parts idle. Lanes without a part at work take no part
in a row. The two halves of a packed number are at work together but for a step at either end of the band, and
then one of them computes garbage, which nobody looks at: the second half finds the columns that it begins
with in shared memory, the *memory* of the warp, which follows the origin from batch to batch; and what the
first half ends with has been stored by then.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np

from longalign.backends.cuda import layout
from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.config import LANES, STEP_ROWS, KernelConfig
from longalign.backends.cuda.layout import pack
from longalign.backends.cuda.numbers import NUMBERS
from longalign.backends.cuda.ptx import here, load_shared, store_shared

#: What a lane knows from one eventful batch to the next: which halves' letters are masked, as two bits; the
#: next wanted row that each half meets, its number from 0 and its index in the band.
Habits = namedtuple("Habits", "masked number row number_of_high row_of_high")

_SLOT_BYTES = 4
_NEVER = np.int32((1 << 31) - 1)


def memory_slots(config: KernelConfig) -> int:
    """int32 in shared memory that a warp needs: a lane's columns, the diagonal, and `Habits`."""
    return LANES * (2 * config.columns + 1 + len(Habits._fields))


@cuda.jit(device=True)
def _slot(at, number, lane):
    """The address of a lane's slot of this number, in the memory that begins at `at`."""
    return np.int32(at + _SLOT_BYTES * (LANES * number + lane))


@cache
def make_at_work(config: KernelConfig) -> Any:
    """A device function for bits of the halves whose row is one of the band's."""
    halves_if = NUMBERS[config.numbers].halves

    @cuda.jit(device=True)
    def at_work(row, rows):
        """`row` is that of the first part."""
        return halves_if(0 <= row < rows, STEP_ROWS <= row < rows + STEP_ROWS)

    return at_work


@cache
def make_habits(config: KernelConfig) -> tuple[Any, Any]:
    """Device functions that read and write a lane's habits."""
    first = 2 * config.columns + 1

    @cuda.jit(device=True)
    def read_habits(memory, at, lane):
        return Habits(
            load_shared(memory, _slot(at, first, lane)), load_shared(memory, _slot(at, first + 1, lane)),
            load_shared(memory, _slot(at, first + 2, lane)), load_shared(memory, _slot(at, first + 3, lane)),
            load_shared(memory, _slot(at, first + 4, lane)),
        )  # fmt: skip

    @cuda.jit(device=True)
    def write_habits(memory, at, lane, habits):
        store_shared(memory, _slot(at, first, lane), habits.masked)
        store_shared(memory, _slot(at, first + 1, lane), habits.number)
        store_shared(memory, _slot(at, first + 2, lane), habits.row)
        store_shared(memory, _slot(at, first + 3, lane), habits.number_of_high)
        store_shared(memory, _slot(at, first + 4, lane), habits.row_of_high)

    return read_habits, write_habits


def make_begin(config: KernelConfig) -> Any:
    """A device function for the start of a strip: remembers how the lane's columns begin."""
    columns, (_, write_habits) = config.columns, make_habits(config)

    @cuda.jit(device=True)
    def begin(opened, e, memory, at, diagonal, place, wanted_above, wanted_rows, jobs):
        for k in range(columns):
            store_shared(memory, _slot(at, k, place.lane), opened[k])
            store_shared(memory, _slot(at, columns + k, place.lane), e[k])
        store_shared(memory, _slot(at, 2 * columns, place.lane), diagonal)
        row = np.int32(wanted_rows[jobs[place.job, layout.WANTED_AT] + wanted_above] - place.above)
        write_habits(memory, at, place.lane, Habits(np.int32(0), wanted_above, row, wanted_above, row))

    return begin


@cache
def make_rebase_memory(config: KernelConfig) -> Any:
    """A device function that moves what a lane remembers to another origin."""
    numbers, subtract = 2 * config.columns + 1, NUMBERS[config.numbers].subtract

    @cuda.jit(device=True)
    def rebase_memory(memory, at, lane, by):
        for k in range(numbers):
            slot = _slot(at, k, lane)
            store_shared(memory, slot, subtract(load_shared(memory, slot), by))

    return rebase_memory


@cache
def make_begin_high(config: KernelConfig) -> Any:
    """A device function that gives a lane's second half the columns that it begins with."""
    columns, join = config.columns, NUMBERS[config.numbers].join

    @cuda.jit(device=True)
    def begin_high(opened, e, memory, at, lane, diagonal):
        """Returns opened above and left of the next cells."""
        for k in range(columns):
            opened[k] = join(opened[k], load_shared(memory, _slot(at, k, lane)))
            e[k] = join(e[k], load_shared(memory, _slot(at, columns + k, lane)))
        return join(diagonal, load_shared(memory, _slot(at, 2 * columns, lane)))

    return begin_high


def _make_store_row(config: KernelConfig) -> tuple[Any, Any]:
    """Device functions that write one half of a lane's row: as a wanted row, and for the band below."""
    columns = config.columns
    value_of = NUMBERS[config.numbers].value

    @cuda.jit(device=True)
    def store_wanted(lines, opened, e, half, number, jobs, place, origin):
        opening = np.int32(jobs[place.job, layout.OPENING])
        length = jobs[place.job, layout.COLS] + 1
        first, width = here(place.first), here(place.width)
        at = jobs[place.job, layout.ROW_OUT_AT] + number * 2 * length + 1 + first
        for k in range(columns):
            if half * columns + k < width:
                h = np.int32(value_of(opened[k], half, origin) + opening)
                lines[np.uint64(at + half * columns + k)] = h
                lines[np.uint64(at + length + half * columns + k)] = value_of(e[k], half, origin)

    @cuda.jit(device=True)
    def store_below(top, below_at, opened, e, half, jobs, place, origin):
        opening = np.int32(jobs[place.job, layout.OPENING])
        first, width = here(place.first), here(place.width)
        for k in range(columns):
            if half * columns + k < width:
                h = np.int32(value_of(opened[k], half, origin) + opening)
                at = below_at + first + half * columns + k + 1
                top[np.uint64(at)] = pack(h, value_of(e[k], half, origin))

    return store_wanted, store_below


@cuda.jit(device=True)
def _sooner(due, candidate, row):
    """The sooner of two rows after `row`."""
    return candidate if row < candidate < due else due


@cache
def make_next_due(config: KernelConfig) -> Any:
    """A device function for the next row, of a lane's first part, after which something happens."""
    halves = config.halves

    @cuda.jit(device=True)
    def next_due(row, rows, habits):
        due = _sooner(_NEVER, np.int32(rows - 1), row)
        due = _sooner(due, np.int32(habits.row - 1), row)
        if halves == 2:
            due = _sooner(due, np.int32(STEP_ROWS + rows - 1), row)
            due = _sooner(due, np.int32(STEP_ROWS + habits.row_of_high - 1), row)
        return due

    return next_due


@cache
def make_happen(config: KernelConfig) -> Any:
    """A device function for what happens after a row that is due."""
    halves, (store_wanted, store_below) = config.halves, _make_store_row(config)

    @cuda.jit(device=True)
    def after(wanted_rows, jobs, place, number):
        """The wanted row of this number, as an index in the band."""
        return np.int32(wanted_rows[jobs[place.job, layout.WANTED_AT] + number] - place.above)

    @cuda.jit(device=True)
    def happen(opened, e, row, rows, habits, origin, place, wanted_rows, jobs, lines, top, below_at):
        """After `row` of the first part; returns the lane's habits."""
        number, wanted = habits.number, habits.row
        if row + 1 == wanted and 0 < wanted <= rows:
            store_wanted(lines, opened, e, 0, number, jobs, place, origin)
            number = np.int32(number + 1)
            wanted = after(wanted_rows, jobs, place, number)
        number_of_high, wanted_of_high = habits.number_of_high, habits.row_of_high
        if halves == 2 and row + 1 - STEP_ROWS == wanted_of_high and 0 < wanted_of_high <= rows:
            store_wanted(lines, opened, e, 1, number_of_high, jobs, place, origin)
            number_of_high = np.int32(number_of_high + 1)
            wanted_of_high = after(wanted_rows, jobs, place, number_of_high)
        if below_at >= 0 and row == rows - 1:
            store_below(top, below_at, opened, e, 0, jobs, place, origin)
        if halves == 2 and below_at >= 0 and row == rows - 1 + STEP_ROWS:
            store_below(top, below_at, opened, e, 1, jobs, place, origin)
        return Habits(habits.masked, number, wanted, number_of_high, wanted_of_high)

    return happen
