"""Row blocks that store requested rows, exclude letter pairs, belong to ragged strips, or are replayed.

**Step by step** (STORES_ROW, MASKED_STORES_ROW and EXCLUDES_PAIRS). The two rows of a step overlap, as in
FAST blocks. If the second row of a step is requested, the lane copies it to the row buffer (see
`requested_rows`). Apart from that, STORES_ROW blocks equal FAST blocks. In MASKED_STORES_ROW blocks, parts
may also be outside the rectangle, as in MASKED blocks, and the strip may be ragged. EXCLUDES_PAIRS blocks
equal FAST blocks but for the letters that they do not pair.

**Row by row** (ROW_BY_ROW). This slower way is needed where a requested row is the first row of a step, where
a row block meets several requested rows, and where any block but a FAST one meets ambiguous letters or
excluded pairs. It also tests each cell in a replay (see `replay`).
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np

from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.device.best_cell import make_note_best, make_threshold
from longalign.backends.cuda.device.block_kinds import EXCLUDES_PAIRS
from longalign.backends.cuda.device.excluded_pairs import make_walk_down
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.requested_rows import (
    first_requested_below,
    make_inside,
    make_row_buffer,
    make_started,
    make_store_requested,
    make_store_row_buffer,
    requested_row,
)
from longalign.backends.cuda.device.row import make_inner_edge, make_row
from longalign.backends.cuda.device.row_block import (
    LOWER,
    NEXT_UPPER,
    UPPER,
    LaneCarry,
    StepState,
    make_advance_cursor,
    make_fetch_row,
    make_send_right,
    make_step,
)
from longalign.backends.cuda.numba_api import cuda


def make_sweep_storing_block(config: KernelConfig, kind: np.int32) -> Any:
    """A device function that sweeps a STORES_ROW or MASKED_STORES_ROW block step by step.

    It returns the same as that of `row_block.make_sweep_row_block`. `requested` is the only requested row
    that parts may meet in this block, and it is the second row of a step. `memory` (int32) holds the row
    buffers of all warps.
    """
    block_rows, maximum = config.block_rows, ARITHMETIC[config.numbers].maximum
    step, fetch_row = make_step(config, kind), make_fetch_row(config)
    advance_cursor = make_advance_cursor(config)
    row_buffer_of, store_row_buffer = make_row_buffer(config), make_store_row_buffer(config)

    @cuda.jit(device=True)
    def sweep_storing_block(
        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, base, position,
        carry, threshold, requested, jobs, lines, memory,
    ):  # fmt: skip
        upper = fetch_row(inbox, row_letters, cursor, UPPER, carry.upper, position)
        lower = fetch_row(inbox, row_letters, cursor, LOWER, carry.lower, position)
        state = StepState(carry, upper, lower, threshold, threshold)
        row, end = first_row, np.int32(first_row + block_rows)
        while row < end:
            below = np.int32(row + STEP_ROWS)
            row_buffer = row_buffer_of(memory, position.lane, np.int32(below - requested.row))
            state = step(
                opened, e, letters, inbox, outbox, row_letters, cursor, row, rows, costs, position, state,
                row_buffer, None, None,
            )  # fmt: skip
            row, cursor = below, advance_cursor(cursor, np.int32(STEP_ROWS))
        if requested.row > 0:
            cuda.syncwarp()
            store_row_buffer(memory, lines, requested, row, jobs, position, costs, base)
        return state.carry, maximum(state.high, state.higher)

    return sweep_storing_block


def make_sweep_excluding_block(config: KernelConfig) -> Any:
    """A device function that sweeps an EXCLUDES_PAIRS block step by step.

    It returns the same as that of `row_block.make_sweep_row_block`. `pairs` are the strip's excluded pairs,
    which `lists` holds.
    """
    block_rows, maximum = config.block_rows, ARITHMETIC[config.numbers].maximum
    step, fetch_row = make_step(config, EXCLUDES_PAIRS), make_fetch_row(config)
    advance_cursor, (begin_walk, excluded_in_row) = make_advance_cursor(config), make_walk_down(config)

    @cuda.jit(device=True)
    def sweep_excluding_block(
        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, position, carry,
        threshold, pairs, lists,
    ):  # fmt: skip
        upper = fetch_row(inbox, row_letters, cursor, UPPER, carry.upper, position)
        lower = fetch_row(inbox, row_letters, cursor, LOWER, carry.lower, position)
        state = StepState(carry, upper, lower, threshold, threshold)
        row, end = first_row, np.int32(first_row + block_rows)
        walk = begin_walk(row, pairs, lists)
        while row < end:
            excluded_upper, walk = excluded_in_row(row, walk, position, pairs, lists)
            excluded_lower, walk = excluded_in_row(np.int32(row + 1), walk, position, pairs, lists)
            state = step(
                opened, e, letters, inbox, outbox, row_letters, cursor, row, rows, costs, position, state,
                None, excluded_upper, excluded_lower,
            )  # fmt: skip
            row, cursor = np.int32(row + STEP_ROWS), advance_cursor(cursor, np.int32(STEP_ROWS))
        return state.carry, maximum(state.high, state.higher)

    return sweep_excluding_block


def make_sweep_row_by_row(config: KernelConfig) -> Any:
    """A device function that sweeps a row block of any kind row by row.

    `first_requested` is the number of the first requested row that parts may meet. In a replay (`replaying`)
    it finds the best cell. Otherwise it finds the highest opened value, as for the other kinds. `pairs` are
    the strip's excluded pairs, which only kernels that exclude pairs look at.
    """
    block_rows, columns, halves = config.block_rows, config.columns, config.halves
    track_best = config.track_best
    halves_if, select = ARITHMETIC[config.numbers].halves, ARITHMETIC[config.numbers].select
    advance, inner_edge = make_row(config, True, True, excludes=config.excludes), make_inner_edge(config)
    note_best, threshold_of = make_note_best(config), make_threshold(config)
    started_at, inside = make_started(config), make_inside(config)
    fetch_row, send_right = make_fetch_row(config), make_send_right(config)
    advance_cursor, store_requested = make_advance_cursor(config), make_store_requested(config)
    begin_walk, excluded_in_row = make_walk_down(config)

    @cuda.jit(device=True)
    def sweep_row_by_row(
        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, base, position, carry,
        best, replaying, threshold, lists, first_requested, jobs, lines, pairs,
    ):  # fmt: skip
        job, above = position.job, np.int32(first_row - STEP_ROWS)
        number = first_requested_below(first_row, first_requested, lists, jobs, job)
        of_low = requested_row(number, lists, jobs, job)
        number = first_requested_below(above, first_requested, lists, jobs, job)
        of_high = requested_row(number, lists, jobs, job)
        here = fetch_row(inbox, row_letters, cursor, UPPER, carry.upper, position)
        below = fetch_row(inbox, row_letters, cursor, LOWER, carry.lower, position)
        used = halves_if(position.width > 0, position.width > columns)
        row, j, highest = first_row, np.int32(position.first + 1), threshold
        walk = begin_walk(row, pairs, lists)
        while row < first_row + block_rows:
            started, left = started_at(row), here.left
            excluded, walk = excluded_in_row(row, walk, position, pairs, lists)
            right, high = advance(
                opened, opened, e, e, letters, here.letter, carry.diagonal, left, highest, costs, started,
                None, excluded,
            )  # fmt: skip
            if position.ragged:
                right = inner_edge(
                    opened, left, right, costs.extend_cost, position.final, position.last_column
                )
            high = select(inside(row, rows), high, highest)
            send_right(outbox, cursor, right, position)
            here, below = below, fetch_row(inbox, row_letters, cursor, NEXT_UPPER, right, position)
            if track_best and replaying and high != highest:
                best = note_best(best, opened, high, highest, np.int32(row + 1), j, costs, base)
                i = np.int32(row + 2 - STEP_ROWS * (halves - 1))
                high = threshold_of(best, np.int32(0), i, j, costs, base, used, np.int32(0))
            highest = high
            row = np.int32(row + 1)
            if row == of_low.row and row > 0:
                store_requested(lines, opened, e, np.int32(0), of_low.number, jobs, position, costs, base)
                of_low = requested_row(np.int32(of_low.number + 1), lists, jobs, job)
            if halves == 2 and row - STEP_ROWS == of_high.row and row > STEP_ROWS:
                store_requested(lines, opened, e, np.int32(1), of_high.number, jobs, position, costs, base)
                of_high = requested_row(np.int32(of_high.number + 1), lists, jobs, job)
            carry = LaneCarry(carry.lower, right, select(started, left.open, carry.diagonal))
            cursor = advance_cursor(cursor, np.int32(1))
        return carry, highest, best

    return sweep_row_by_row
