"""Batches in which something happens: step by step where that can be, row by row otherwise.

A right neighbour waits for the first and the last batches of a strip, so they must not be slow: a lane only
asks after each step whether something is due, and two rows overlap as in other batches. After the first row
of a step nothing can happen there but the end of a rectangle whose last row nobody wants. For anything else,
and where something happens among ambiguous letters, there is the way row by row.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np

from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.batch import Carry, State, advance_desk, hand_on, make_fetch_all, make_step
from longalign.backends.cuda.best import make_note_best, make_threshold
from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.events import (
    make_at_work,
    make_begun,
    make_happen,
    make_next_due,
    read_habits,
    write_habits,
)
from longalign.backends.cuda.numbers import NUMBERS
from longalign.backends.cuda.row import make_inner_edge, make_row


def make_sweep_eventful_batch(config: KernelConfig) -> Any:
    """A device function that sweeps a batch step by step; see `batch.make_sweep_batch`."""
    batch = config.batch
    step, fetch, happen = make_step(config, eventful=True), make_fetch_all(config), make_happen(config)
    next_due = make_next_due(config)

    @cuda.jit(device=True)
    def sweep_eventful_batch(
        opened, e, letters, inbox, outbox, row_letters, memory, memory_at, desk, first_row, rows, costs,
        origin, place, elsewhere, carry, best, threshold, wanted_rows, jobs, lines,
    ):  # fmt: skip
        habits = read_habits(memory, memory_at, place.lane)
        upper = fetch(inbox, row_letters, desk, 0, carry.upper, place)
        lower = fetch(inbox, row_letters, desk, 1, carry.lower, place)
        state = State(carry, upper, lower, best, threshold)
        row, end = first_row, np.int32(first_row + batch)
        due = next_due(np.int32(row - 1), habits)
        while row < end:
            state = step(
                opened, e, letters, inbox, outbox, row_letters, desk, row, rows, costs, origin, place,
                elsewhere, state,
            )  # fmt: skip
            row = np.int32(row + STEP_ROWS)
            while due < row:
                habits = happen(opened, e, due, habits, origin, place, wanted_rows, jobs, lines)
                due = next_due(due, habits)
            desk = advance_desk(desk, STEP_ROWS)
        write_habits(memory, memory_at, place.lane, habits)
        return state.carry, state.best

    return sweep_eventful_batch


def make_sweep_rows(config: KernelConfig) -> Any:
    """A device function that sweeps a batch row by row, whatever happens."""
    batch, columns, halves, track_best = config.batch, config.columns, config.halves, config.track_best
    halves_if, select = NUMBERS[config.numbers].halves, NUMBERS[config.numbers].select
    advance, inner_edge = make_row(config, any_letters=True, guarded=True), make_inner_edge(config)
    note_best, threshold_of = make_note_best(config), make_threshold(config)
    begun_at, at_work = make_begun(config), make_at_work(config)
    fetch, happen, next_due = make_fetch_all(config), make_happen(config), make_next_due(config)

    @cuda.jit(device=True)
    def sweep_rows(
        opened, e, letters, inbox, outbox, row_letters, memory, memory_at, desk, first_row, rows, costs,
        origin, place, elsewhere, carry, best, threshold, wanted_rows, jobs, lines,
    ):  # fmt: skip
        habits = read_habits(memory, memory_at, place.lane)
        here = fetch(inbox, row_letters, desk, 0, carry.upper, place)
        below = fetch(inbox, row_letters, desk, 1, carry.lower, place)
        row, j = first_row, np.int32(place.first + 1)
        due = next_due(np.int32(row - 1), habits)
        while row < first_row + batch:
            begun, left = begun_at(row), here.left
            right, high = advance(
                opened, opened, e, e, letters, here.letter, carry.diagonal, left, threshold, costs, begun
            )
            if place.ragged:
                right = inner_edge(opened, left, right, costs.extend_cost, place.final, place.last_column)
            high = select(at_work(row, rows), high, threshold)
            hand_on(outbox, desk, 0, right, place)
            here, below = below, fetch(inbox, row_letters, desk, 2, right, place)
            if track_best and high != threshold:
                best = note_best(best, opened, high, threshold, high, np.int32(row + 1), j, costs, origin)
                used = halves_if(place.width > 0, place.width > columns)
                i = np.int32(row + 2 - STEP_ROWS * (halves - 1))
                threshold = threshold_of(best, elsewhere, i, j, costs, origin, used)
            if row == due:
                habits = happen(opened, e, row, habits, origin, place, wanted_rows, jobs, lines)
                due = next_due(row, habits)
            carry = Carry(carry.lower, right, select(begun, left.open, carry.diagonal))
            row = np.int32(row + 1)
            desk = advance_desk(desk, 1)
        write_habits(memory, memory_at, place.lane, habits)
        return carry, best

    return sweep_rows
