"""What happens after some rows of a part: it begins, it meets a wanted row, it ends.

The first and the last steps of a strip find most of its parts idle. They compute all the same, garbage that
nobody looks at: a branch would take longer. A half keeps its columns until it *begins*, and what it ends with
has been stored before it goes on.
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
from longalign.backends.cuda.numbers import NUMBERS
from longalign.backends.cuda.ptx import here, load_shared, store_shared

#: What a lane knows from one eventful batch to the next: the next wanted row that each half meets, its number
#: from 0 and its index.
Habits = namedtuple("Habits", "number row number_of_high row_of_high")

#: int32 in shared memory that a warp needs for the habits of its lanes: its *memory*.
MEMORY_SLOTS = LANES * len(Habits._fields)

_SLOT_BYTES = 4
_NEVER = np.int32((1 << 31) - 1)


@cuda.jit(device=True)
def _slot(at, number, lane):
    """The address of a lane's slot of this number, in the memory that begins at `at`."""
    return np.int32(at + _SLOT_BYTES * (LANES * number + lane))


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
    """A device function for bits of the halves whose row is one of the band's."""
    halves_if = NUMBERS[config.numbers].halves

    @cuda.jit(device=True)
    def at_work(row, rows):
        """`row` is that of the first part."""
        return halves_if(0 <= row < rows, STEP_ROWS <= row < rows + STEP_ROWS)

    return at_work


@cuda.jit(device=True)
def read_habits(memory, at, lane):
    return Habits(
        load_shared(memory, _slot(at, 0, lane)), load_shared(memory, _slot(at, 1, lane)),
        load_shared(memory, _slot(at, 2, lane)), load_shared(memory, _slot(at, 3, lane)),
    )  # fmt: skip


@cuda.jit(device=True)
def write_habits(memory, at, lane, habits):
    store_shared(memory, _slot(at, 0, lane), habits.number)
    store_shared(memory, _slot(at, 1, lane), habits.row)
    store_shared(memory, _slot(at, 2, lane), habits.number_of_high)
    store_shared(memory, _slot(at, 3, lane), habits.row_of_high)


@cuda.jit(device=True)
def first_habits(wanted_rows, jobs, job):
    """At the top of a strip, where the first wanted row is the next."""
    row = np.int32(wanted_rows[jobs[job, layout.WANTED_AT]])
    return Habits(np.int32(0), row, np.int32(0), row)


def _make_store_wanted(config: KernelConfig) -> Any:
    """A device function that writes one half of a lane's row as a wanted row."""
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

    return store_wanted


@cuda.jit(device=True)
def _sooner(due, wanted, behind, row):
    """The sooner of `due` and the last row above a wanted one, for a half `behind`, if after `row`.

    After the last wanted row comes one that is not positive.
    """
    candidate = np.int32(wanted - 1 + behind)
    return candidate if wanted > 0 and row < candidate < due else due


@cache
def make_next_due(config: KernelConfig) -> Any:
    """A device function for the next row, of a lane's first part, after which something happens."""
    halves = config.halves

    @cuda.jit(device=True)
    def next_due(row, habits):
        due = _sooner(_NEVER, habits.row, 0, row)
        if halves == 2:
            due = _sooner(due, habits.row_of_high, STEP_ROWS, row)
        return due

    return next_due


@cache
def make_happen(config: KernelConfig) -> Any:
    """A device function for what happens after a row that is due."""
    halves, store_wanted = config.halves, _make_store_wanted(config)

    @cuda.jit(device=True)
    def happen(opened, e, row, habits, origin, place, wanted_rows, jobs, lines):
        """After `row` of the first part; returns the lane's habits."""
        wanted_at = jobs[place.job, layout.WANTED_AT]
        number, wanted = habits.number, habits.row
        if row + 1 == wanted and wanted > 0:
            store_wanted(lines, opened, e, 0, number, jobs, place, origin)
            number = np.int32(number + 1)
            wanted = np.int32(wanted_rows[wanted_at + number])
        number_of_high, wanted_of_high = habits.number_of_high, habits.row_of_high
        if halves == 2 and row + 1 - STEP_ROWS == wanted_of_high and wanted_of_high > 0:
            store_wanted(lines, opened, e, 1, number_of_high, jobs, place, origin)
            number_of_high = np.int32(number_of_high + 1)
            wanted_of_high = np.int32(wanted_rows[wanted_at + number_of_high])
        return Habits(number, wanted, number_of_high, wanted_of_high)

    return happen
