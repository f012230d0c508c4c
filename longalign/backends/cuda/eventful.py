"""A batch in which something happens, row by row.

What is rare costs little here, as a right neighbour waits for the first and the last batches of a strip: a
lane asks after each row whether it is the one after which something is due.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np

from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.batch import Carry, advance_desk, hand_on, make_fetch
from longalign.backends.cuda.best import make_note_best, make_threshold
from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.events import (
    Habits,
    make_at_work,
    make_habits,
    make_happen,
    make_next_due,
    make_rebase_memory,
)
from longalign.backends.cuda.masks import make_exchange
from longalign.backends.cuda.row import make_inner_edge, make_row


def make_sweep_eventful_batch(config: KernelConfig) -> Any:
    """A device function that sweeps the rows of a batch with events, ambiguous letters or a ragged strip.

    `by` is the cost by which the origin has moved since the last batch; `below_at` says where a band's last
    row goes in `top`, -1 if nobody needs it. See `batch.make_sweep_batch` for the others.
    """
    batch, halves, track_best, based = (
        config.batch, config.halves, config.track_best, config.numbers == "packed",
    )  # fmt: skip
    advance, inner_edge, exchange = make_row(config), make_inner_edge(config), make_exchange(config)
    note_best, threshold_of, at_work = make_note_best(config), make_threshold(config), make_at_work(config)
    fetch, happen, rebase_memory = make_fetch(config), make_happen(config), make_rebase_memory(config)
    (read_habits, write_habits), next_due = make_habits(config), make_next_due(config)

    @cuda.jit(device=True)
    def sweep_eventful_batch(
        opened, e, letters, inbox, outbox, row_letters, memory, memory_at, desk, first_row, rows, by, costs,
        origin, place, elsewhere, carry, best, threshold, wanted_rows, target, jobs, lines, top, below_at,
    ):  # fmt: skip
        if based:
            rebase_memory(memory, memory_at, place.lane, by)
        habits = read_habits(memory, memory_at, place.lane)
        here = fetch(inbox, row_letters, desk, 0, carry.upper, place)
        below = fetch(inbox, row_letters, desk, 1, carry.lower, place)
        row, j = first_row, np.int32(place.first + 1)
        due = next_due(np.int32(row - 1), rows, habits)
        while row < first_row + batch:
            masked = exchange(letters, here.letter, row, rows, habits.masked, place, target, jobs, costs)
            left = here.left
            right, high = advance(
                opened, opened, e, letters, here.letter, carry.diagonal, left, threshold, costs
            )
            if place.ragged:
                right = inner_edge(opened, left, right, costs.extend_cost, place.final, place.last_column)
            hand_on(outbox, desk, 0, right, place)
            here, below = below, fetch(inbox, row_letters, desk, 2, right, place)
            if track_best and high != threshold:
                best = note_best(best, opened, high, threshold, high, np.int32(row + 1), j, costs, origin)
                used = at_work(np.int32(row + 1), rows, place.width)
                i = np.int32(row + 2 - STEP_ROWS * (halves - 1))
                threshold = threshold_of(best, elsewhere, i, j, costs, origin, used)
            habits = Habits(masked, habits.number, habits.row, habits.number_of_high, habits.row_of_high)
            diagonal = left.open
            if row == due:
                diagonal, threshold, habits = happen(
                    opened, e, memory, memory_at, row, rows, diagonal, best, threshold, elsewhere, habits,
                    costs, origin, place, wanted_rows, jobs, lines, top, below_at,
                )  # fmt: skip
                due = next_due(row, rows, habits)
            carry = Carry(carry.lower, right, diagonal)
            row = np.int32(row + 1)
            desk = advance_desk(desk, 1)
        write_habits(memory, memory_at, place.lane, habits)
        return carry, best

    return sweep_eventful_batch
