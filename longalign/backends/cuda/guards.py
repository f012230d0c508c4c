"""Batches that need care: where a band ends, and where ambiguous query letters begin or end.

A row is swept as anywhere else, but one at a time, and lanes with no half at work take no part in it. The two
halves of a packed number are at work together but for a step at either end of the band, and then one of them
is *idle*: it computes garbage. So each half remembers how its columns end, as it remembers how they begin
(see `events`), and recalls that after a step in which it was idle.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np

from longalign.backends.cuda import layout
from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.batch import Carry, advance_desk, hand_on, make_fetch
from longalign.backends.cuda.best import make_note_best, make_threshold
from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.events import Habits, make_habits, make_happen, make_remember
from longalign.backends.cuda.letters import LETTER_SCORES, NO_LETTER
from longalign.backends.cuda.numbers import NUMBERS
from longalign.backends.cuda.ptx import here
from longalign.backends.cuda.row import make_inner_edge, make_row


def make_load_letters(config: KernelConfig) -> Any:
    """A device function that loads what a lane keeps of the target letters of one half's columns."""
    columns = config.columns
    scores = LETTER_SCORES[config.numbers, config.letters]
    column_letter, background, masked_letter = scores.column, scores.background, scores.masked

    @cuda.jit(device=True)
    def load_letters(letters, half, masked, first, width, target, target_at, match, mismatch):
        """The lane has `width` columns from `first` on; `masked` if the query letter is ambiguous."""
        first, width = here(first), here(width)
        for k in range(columns):
            column = half * columns + k
            code = target[np.uint64(target_at + first + column)] if column < width else np.uint8(NO_LETTER)
            letter = column_letter(code, match, mismatch)
            if masked_letter is not None and masked and column < width:
                letter = masked_letter(mismatch)
            letters[column] = letter
            if background is not None:
                letters[columns + k] = background(code, mismatch)

    return load_letters


def _make_exchange(config: KernelConfig) -> Any:
    """A device function that fits what a lane keeps of the target to the query letter of a row."""
    halves = config.halves
    ambiguity = LETTER_SCORES[config.numbers, config.letters].ambiguity
    load_letters = make_load_letters(config)

    @cuda.jit(device=True)
    def exchange(letters, letter, masked, place, target, jobs, costs):
        """Returns which halves' letters are masked now, as two bits."""
        wanted = ambiguity(letter)
        if wanted != masked:
            target_at = jobs[place.job, layout.TARGET_AT]
            for half in range(halves):
                if (wanted ^ masked) & (1 << half):
                    load_letters(
                        letters, half, wanted & (1 << half), place.first, place.width, target, target_at,
                        costs.match, costs.mismatch,
                    )  # fmt: skip
        return wanted

    return exchange


def _make_guarded_row(config: KernelConfig) -> Any:
    """A device function that sweeps a row of the lanes that have a half at work in it."""
    halves_if, select = NUMBERS[config.numbers].halves, NUMBERS[config.numbers].select
    advance, inner_edge, exchange = make_row(config), make_inner_edge(config), _make_exchange(config)
    remember, recall, _ = make_remember(config)

    @cuda.jit(device=True)
    def at_work(row, rows):
        """Bits of the halves whose row is one of the band's; `row` is that of the first part."""
        return halves_if(0 <= row < rows, STEP_ROWS <= row < rows + STEP_ROWS)

    @cuda.jit(device=True)
    def guarded_row(
        opened, e, letters, memory, memory_at, row, rows, costs, place, carry, incoming, threshold, masked,
        target, jobs,
    ):  # fmt: skip
        """Returns the right edge, opened above and left of the next row, the highest, and `masked`."""
        working = at_work(row, rows)
        right, diagonal, high = carry.upper, carry.diagonal, threshold
        if working:
            masked = exchange(letters, incoming.letter, masked, place, target, jobs, costs)
            left = incoming.left
            right, high = advance(
                opened, opened, e, letters, incoming.letter, diagonal, left, threshold, costs
            )
            if place.ragged:
                right = inner_edge(opened, left, right, costs.extend_cost, place.final, place.last_column)
            diagonal = select(working, left.open, diagonal)
            high = select(working, high, threshold)
            last = halves_if(row == rows - 1, row - STEP_ROWS == rows - 1)
            if last:
                remember(opened, e, memory, memory_at, place.lane, last)
        if row & 1:
            idle = np.int32(~working)
            if idle and at_work(np.int32(row - 1), rows):
                recall(opened, e, memory, memory_at, place.lane, idle)
        return right, diagonal, high, masked

    return guarded_row


def make_sweep_guarded_batch(config: KernelConfig) -> Any:
    """A device function that sweeps the rows of a batch, one by one; see `batch.make_sweep_batch`.

    `by` is the cost by which the origin has moved since the last batch.
    """
    batch, columns, halves, track_best = config.batch, config.columns, config.halves, config.track_best
    based, halves_if = config.numbers == "packed", NUMBERS[config.numbers].halves
    guarded_row, fetch, happen = _make_guarded_row(config), make_fetch(config), make_happen(config)
    read_habits, write_habits = make_habits(config)
    note_best, threshold_of = make_note_best(config), make_threshold(config)
    _, _, rebase = make_remember(config)

    @cuda.jit(device=True)
    def sweep_guarded_batch(
        opened, e, letters, inbox, outbox, row_letters, memory, memory_at, desk, first_row, rows, by, costs,
        origin, place, elsewhere, carry, best, threshold, wanted_rows, target, jobs, lines,
    ):  # fmt: skip
        if based:
            rebase(memory, memory_at, place.lane, by)
        habits = read_habits(memory, memory_at, place.lane)
        here = fetch(inbox, row_letters, desk, 0, carry.upper, place)
        below = fetch(inbox, row_letters, desk, 1, carry.lower, place)
        row, j = first_row, np.int32(place.first + 1)
        while row < first_row + batch:
            right, diagonal, high, masked = guarded_row(
                opened, e, letters, memory, memory_at, row, rows, costs, place, carry, here, threshold,
                habits.masked, target, jobs,
            )  # fmt: skip
            habits = Habits(masked, habits.number, habits.row, habits.met)
            hand_on(outbox, desk, 0, right, place)
            here, below = below, fetch(inbox, row_letters, desk, 2, right, place)
            carry = Carry(carry.lower, right, diagonal)
            if track_best and high != threshold:
                best = note_best(best, opened, high, threshold, high, np.int32(row + 1), j, costs, origin)
                used = halves_if(place.width > 0, place.width > columns)
                i = np.int32(row + 2 - STEP_ROWS * (halves - 1))
                threshold = threshold_of(best, elsewhere, i, j, costs, origin, used)
            if row & 1:
                diagonal, threshold, habits = happen(
                    opened, e, memory, memory_at, np.int32(row - 1), rows, diagonal, best, threshold,
                    elsewhere, habits, costs, origin, place, wanted_rows, jobs, lines,
                )  # fmt: skip
                carry = Carry(carry.upper, carry.lower, diagonal)
            row = np.int32(row + 1)
            desk = advance_desk(desk, 1)
        write_habits(memory, memory_at, place.lane, habits)
        return carry, best

    return sweep_guarded_batch
