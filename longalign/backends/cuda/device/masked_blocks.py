"""Batches in which more happens than that parts begin or end: step by step where that can be, row by row
otherwise.

Step by step, two rows overlap as in other batches. A lane puts its second row aside if it is a wanted one.
Otherwise "meeting" batches are like usual ones. In "eventful" ones parts may have to be kept from what is
outside, too, as in partial ones, and strips may be ragged. Where a wanted row is the first of a step, where
several are near one another, and where something happens among ambiguous letters, there is the way row by
row. It is also the one that looks at each cell, where a batch is swept again to find the best one (see
`replay`).
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np

from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.device.best_cell import make_note_best, make_threshold
from longalign.backends.cuda.device.number_formats import NUMBERS
from longalign.backends.cuda.device.requested_rows import (
    first_wanted_below,
    make_aside,
    make_at_work,
    make_begun,
    make_store_aside,
    make_store_wanted,
    wanted_row,
)
from longalign.backends.cuda.device.row import make_inner_edge, make_row
from longalign.backends.cuda.device.row_block import (
    LOWER,
    NEXT_UPPER,
    UPPER,
    Carry,
    Kind,
    State,
    make_advance_desk,
    make_fetch,
    make_hand_on,
    make_step,
)
from longalign.backends.cuda.numba_api import cuda


def make_sweep_eventful_batch(config: KernelConfig, kind: Kind) -> Any:
    """A device function that sweeps a batch, meeting or eventful, step by step; see `batch.make_sweep_batch`.

    `wanted` is the only wanted row that a part may meet, after the second row of a step. In `memory` each
    warp has its own.
    """
    batch, maximum = config.batch, NUMBERS[config.numbers].maximum
    step, fetch, advance_desk = make_step(config, kind), make_fetch(config), make_advance_desk(config)
    aside_of, store_aside = make_aside(config), make_store_aside(config)

    @cuda.jit(device=True)
    def sweep_eventful_batch(
        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, origin, place,
        carry, threshold, wanted, jobs, lines, memory,
    ):  # fmt: skip
        upper = fetch(inbox, row_letters, desk, UPPER, carry.upper, place)
        lower = fetch(inbox, row_letters, desk, LOWER, carry.lower, place)
        state = State(carry, upper, lower, threshold, threshold)
        row, end = first_row, np.int32(first_row + batch)
        while row < end:
            below = np.int32(row + STEP_ROWS)
            aside = aside_of(memory, place.lane, np.int32(below - wanted.row))
            state = step(
                opened, e, letters, inbox, outbox, row_letters, desk, row, rows, costs, place, state, aside
            )
            row, desk = below, advance_desk(desk, np.int32(STEP_ROWS))
        if wanted.row > 0:
            cuda.syncwarp()
            store_aside(memory, lines, wanted, row, jobs, place, costs, origin)
        return state.carry, maximum(state.high, state.higher)

    return sweep_eventful_batch


def make_sweep_rows(config: KernelConfig) -> Any:
    """A device function that sweeps a batch row by row, whatever happens; wanted rows from number `wanted`
    on may be met.

    If it is `looking`, it notes the best cell, and else how high the batch has come, as the others do.
    """
    batch, columns, halves, track_best = config.batch, config.columns, config.halves, config.track_best
    halves_if, select = NUMBERS[config.numbers].halves, NUMBERS[config.numbers].select
    advance, inner_edge = make_row(config, True, True), make_inner_edge(config)
    note_best, threshold_of = make_note_best(config), make_threshold(config)
    begun_at, at_work = make_begun(config), make_at_work(config)
    fetch, hand_on, advance_desk = make_fetch(config), make_hand_on(config), make_advance_desk(config)
    store_wanted = make_store_wanted(config)

    @cuda.jit(device=True)
    def sweep_rows(
        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, origin, place, carry,
        best, looking, threshold, wanted_rows, wanted, jobs, lines,
    ):  # fmt: skip
        job, above = place.job, np.int32(first_row - STEP_ROWS)
        number = first_wanted_below(first_row, wanted, wanted_rows, jobs, job)
        of_low = wanted_row(number, wanted_rows, jobs, job)
        number = first_wanted_below(above, wanted, wanted_rows, jobs, job)
        of_high = wanted_row(number, wanted_rows, jobs, job)
        here = fetch(inbox, row_letters, desk, UPPER, carry.upper, place)
        below = fetch(inbox, row_letters, desk, LOWER, carry.lower, place)
        used = halves_if(place.width > 0, place.width > columns)
        row, j, highest = first_row, np.int32(place.first + 1), threshold
        while row < first_row + batch:
            begun, left = begun_at(row), here.left
            right, high = advance(
                opened, opened, e, e, letters, here.letter, carry.diagonal, left, highest, costs, begun, None
            )
            if place.ragged:
                right = inner_edge(opened, left, right, costs.extend_cost, place.final, place.last_column)
            high = select(at_work(row, rows), high, highest)
            hand_on(outbox, desk, right, place)
            here, below = below, fetch(inbox, row_letters, desk, NEXT_UPPER, right, place)
            if track_best and looking and high != highest:
                best = note_best(best, opened, high, highest, np.int32(row + 1), j, costs, origin)
                i = np.int32(row + 2 - STEP_ROWS * (halves - 1))
                high = threshold_of(best, np.int32(0), i, j, costs, origin, used, np.int32(0))
            highest = high
            row = np.int32(row + 1)
            if row == of_low.row and row > 0:
                store_wanted(lines, opened, e, np.int32(0), of_low.number, jobs, place, costs, origin)
                of_low = wanted_row(np.int32(of_low.number + 1), wanted_rows, jobs, job)
            if halves == 2 and row - STEP_ROWS == of_high.row and row > STEP_ROWS:
                store_wanted(lines, opened, e, np.int32(1), of_high.number, jobs, place, costs, origin)
                of_high = wanted_row(np.int32(of_high.number + 1), wanted_rows, jobs, job)
            carry = Carry(carry.lower, right, select(begun, left.open, carry.diagonal))
            desk = advance_desk(desk, np.int32(1))
        return carry, highest, best

    return sweep_rows
