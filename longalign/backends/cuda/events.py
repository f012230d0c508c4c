"""What happens between two steps: a part begins, a part has met a wanted row.

The first steps of a strip find most of its parts idle. They compute garbage, as that costs nothing, and each
half of a lane gets the columns that it begins with when its first row comes: until then they are in shared
memory, the *memory* of the warp, which follows the origin from batch to batch. An idle half has the threshold
`highest`, so that no garbage is noted as best.

A wanted row is the second of its step, or the last of its band: all its values are there when the step is
done.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from longalign.backends.cuda import layout
from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.best import make_threshold
from longalign.backends.cuda.config import LANES, STEP_ROWS, KernelConfig
from longalign.backends.cuda.numbers import NUMBERS
from longalign.backends.cuda.ptx import here, load_shared, store_shared

#: Which halves' letters are masked, as two bits; the next wanted row that a lane's first part meets, its
#: number from 0 and its index in the band; and the number of the one that it met in the last step, so that
#: the second part follows: -1 for none.
Habits = namedtuple("Habits", "masked number row met")

_SLOT_BYTES = 4


def memory_slots(config: KernelConfig) -> int:
    """int32 in shared memory that a warp needs: a lane's columns, the diagonal, and `Habits`."""
    return LANES * (2 * config.columns + 1 + len(Habits._fields))


@cuda.jit(device=True)
def _slot(at, number, lane):
    """The address of a lane's slot of this number."""
    return np.int32(at + _SLOT_BYTES * (LANES * number + lane))


def make_habits(config: KernelConfig) -> tuple[Any, Any]:
    """Device functions that read and write what a lane knows from one guarded batch to the next."""
    columns = config.columns

    @cuda.jit(device=True)
    def read_habits(memory, at, lane):
        first = 2 * columns + 1
        return Habits(
            load_shared(memory, _slot(at, first, lane)), load_shared(memory, _slot(at, first + 1, lane)),
            load_shared(memory, _slot(at, first + 2, lane)), load_shared(memory, _slot(at, first + 3, lane)),
        )  # fmt: skip

    @cuda.jit(device=True)
    def write_habits(memory, at, lane, habits):
        first = 2 * columns + 1
        store_shared(memory, _slot(at, first, lane), habits.masked)
        store_shared(memory, _slot(at, first + 1, lane), habits.number)
        store_shared(memory, _slot(at, first + 2, lane), habits.row)
        store_shared(memory, _slot(at, first + 3, lane), habits.met)

    return read_habits, write_habits


def make_remember(config: KernelConfig) -> tuple[Any, Any, Any]:
    """Device functions that store a lane's columns in the memory, get them back, and move their origin.

    The first two act on halves with bits in a mask. A warp's memory begins at the address `at`.
    """
    columns, select, subtract = (
        config.columns, NUMBERS[config.numbers].select, NUMBERS[config.numbers].subtract,
    )  # fmt: skip

    @cuda.jit(device=True)
    def remember(opened, e, memory, at, lane, mask):
        for k in range(columns):
            for_opened, for_e = _slot(at, k, lane), _slot(at, columns + k, lane)
            store_shared(memory, for_opened, select(mask, opened[k], load_shared(memory, for_opened)))
            store_shared(memory, for_e, select(mask, e[k], load_shared(memory, for_e)))

    @cuda.jit(device=True)
    def recall(opened, e, memory, at, lane, mask):
        for k in range(columns):
            opened[k] = select(mask, load_shared(memory, _slot(at, k, lane)), opened[k])
            e[k] = select(mask, load_shared(memory, _slot(at, columns + k, lane)), e[k])

    @cuda.jit(device=True)
    def rebase(memory, at, lane, by):
        for k in range(2 * columns + 1):
            slot = _slot(at, k, lane)
            store_shared(memory, slot, subtract(load_shared(memory, slot), by))

    return remember, recall, rebase


def make_begin(config: KernelConfig) -> Any:
    """A device function for the start of a strip: remembers how the lane's columns begin."""
    columns, (_, write_habits), (remember, _, _) = config.columns, make_habits(config), make_remember(config)

    @cuda.jit(device=True)
    def begin(opened, e, memory, memory_at, diagonal, place, wanted_above, wanted_rows, jobs):
        remember(opened, e, memory, memory_at, place.lane, np.int32(-1))
        store_shared(memory, _slot(memory_at, 2 * columns, place.lane), diagonal)
        next_row = np.int32(wanted_rows[jobs[place.job, layout.WANTED_AT] + wanted_above] - place.above)
        write_habits(memory, memory_at, place.lane, Habits(np.int32(0), wanted_above, next_row, np.int32(-1)))

    return begin


def _make_store_wanted(config: KernelConfig) -> Any:
    """A device function that writes a wanted row that a step has ended with."""
    halves, columns = config.halves, config.columns
    value_of = NUMBERS[config.numbers].value

    @cuda.jit(device=True)
    def store(lines, opened, e, half, number, jobs, place, origin):
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
    def store_wanted(lines, opened, e, row, rows, habits, wanted_rows, jobs, place, origin):
        """`row` is the second one of the first part."""
        met, next_row, number = np.int32(-1), habits.row, habits.number
        if row > 0 and min(np.int32(row + 1), rows) == next_row and row <= rows:
            met, number = number, np.int32(number + 1)
            next_row = np.int32(wanted_rows[jobs[place.job, layout.WANTED_AT] + number] - place.above)
            store(lines, opened, e, 0, met, jobs, place, origin)
        if halves == 2 and habits.met >= 0:
            store(lines, opened, e, 1, habits.met, jobs, place, origin)
        return Habits(habits.masked, number, next_row, met)

    return store_wanted


def make_happen(config: KernelConfig) -> Any:
    """A device function for what happens after a step, in batches where something may."""
    columns = config.columns
    halves_if, select = NUMBERS[config.numbers].halves, NUMBERS[config.numbers].select
    (_, recall, _), store_wanted = make_remember(config), _make_store_wanted(config)
    threshold_of = make_threshold(config)

    @cuda.jit(device=True)
    def happen(
        opened, e, memory, memory_at, row, rows, diagonal, best, threshold, elsewhere, habits, costs, origin,
        place, wanted_rows, jobs, lines,
    ):  # fmt: skip
        """`row` is the first one of the step, of the first part. Returns diagonal, threshold and habits."""
        begins = halves_if(row == -STEP_ROWS, row == 0)
        if begins:
            recall(opened, e, memory, memory_at, place.lane, begins)
            remembered = load_shared(memory, _slot(memory_at, 2 * columns, place.lane))
            diagonal = select(begins, remembered, diagonal)
            used = halves_if(place.width > 0, place.width > columns)
            i, j = np.int32(1), np.int32(place.first + 1)
            threshold = select(begins, threshold_of(best, elsewhere, i, j, costs, origin, used), threshold)
        row = np.int32(row + 1)
        habits = store_wanted(lines, opened, e, row, rows, habits, wanted_rows, jobs, place, origin)
        return diagonal, threshold, habits

    return happen
