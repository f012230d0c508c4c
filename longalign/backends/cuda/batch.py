"""The rows of one batch, swept by the lanes of a warp in step: two rows of every part a step.

The second of the two needs the first one only column by column, so the two chains of dependent instructions
run side by side.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
from numba import int32

from longalign.backends.cuda import layout
from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.best import make_note_best, make_threshold
from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.layout import high_of, low_of, pack
from longalign.backends.cuda.letters import letter_scores
from longalign.backends.cuda.numbers import NUMBERS
from longalign.backends.cuda.ptx import load_shared, store_shared
from longalign.backends.cuda.row import Edge, make_inner_edge, make_row
from longalign.backends.cuda.sync import ALL_LANES

#: What a lane hands from batch to batch: the right edges of its parts' last two rows, and opened above and
#: left of their next cells.
Carry = namedtuple("Carry", "upper lower diagonal")

#: Where a lane stands: its rectangle, the rows above its band, its number, its first column and how many
#: columns it has; the lane that holds the strip's last part, which half that is, and its last column; and
#: whether the strip ends inside that part and its right edge counts.
Place = namedtuple("Place", "job above lane first width last_lane final last_column ragged")

#: Where a warp's batch stands in shared memory: addresses of the next slot to read, the next to write, and of
#: a lane's next row letter; and the strip's profile, if there is one, with the address of the lane's part.
Desk = namedtuple("Desk", "inbox outbox letter profile lane_at")

#: The next wanted row that a lane's first part meets, its number from 0 and its index in the band; and the
#: number of the one that it met in the last step, so that the second part follows: -1 for none.
Wanted = namedtuple("Wanted", "number row met")

#: What stands left of a row's next cells, and what a lane has read of the row's letter.
Incoming = namedtuple("Incoming", "left letter")

#: What goes from step to step.
State = namedtuple("State", "carry upper lower best threshold wanted")

#: Steps of one turn of the loop over a batch, unless guarded: spares copies between registers.
_UNROLLED = 2

SLOT_BYTES, LETTER_BYTES = 8, 4


def _make_store_row(config: KernelConfig) -> Any:
    """A device function that writes a lane's part of a wanted row."""
    halves, columns = config.halves, config.columns
    value_of = NUMBERS[config.numbers].value

    @cuda.jit(device=True)
    def store(lines, opened, e, half, number, jobs, place, origin):
        opening = np.int32(jobs[place.job, layout.OPENING])
        length = jobs[place.job, layout.COLS] + 1
        at = jobs[place.job, layout.ROW_OUT_AT] + number * 2 * length + 1 + place.first
        for k in range(columns):
            if half * columns + k < place.width:
                h = np.int32(value_of(opened[k], half, origin) + opening)
                lines[at + half * columns + k] = h
                lines[at + length + half * columns + k] = value_of(e[k], half, origin)

    @cuda.jit(device=True)
    def store_wanted(lines, opened, e, row, rows, wanted, wanted_rows, jobs, place, origin):
        """Write the row that a step has ended with, if wanted; `row` is the second one of the first part."""
        met, next_row, number = np.int32(-1), wanted.row, wanted.number
        if row > 0 and min(np.int32(row + 1), rows) == next_row and row <= rows:
            met, number = number, np.int32(number + 1)
            next_row = np.int32(wanted_rows[jobs[place.job, layout.WANTED_AT] + number] - place.above)
            store(lines, opened, e, 0, met, jobs, place, origin)
        if halves == 2 and wanted.met >= 0:
            store(lines, opened, e, 1, wanted.met, jobs, place, origin)
        return Wanted(number, next_row, met)

    return store_wanted


def _make_fetch(config: KernelConfig) -> Any:
    """A device function that gets what stands left of a row, so that its latency and other work overlap."""
    from_left = NUMBERS[config.numbers].from_left

    @cuda.jit(device=True)
    def fetch(inbox, desk, offset, right, place, letter):
        """For the row `offset` rows after where the desk is, whose `letter` has been read.

        `right` is the edge that the parts have handed on; the first part's comes from the strip to the left.
        """
        from_strip = load_shared(inbox, np.int32(desk.inbox + SLOT_BYTES * offset))
        open_left = cuda.shfl_up_sync(ALL_LANES, right.open, 1)
        f_left = cuda.shfl_up_sync(ALL_LANES, right.gap, 1)
        if place.lane == 0:
            open_left, f_left = low_of(from_strip), high_of(from_strip)
        return Incoming(Edge(from_left(open_left, right.open), from_left(f_left, right.gap)), letter)

    return fetch


@cuda.jit(device=True)
def _load_letter(row_letters, desk, offset):
    return load_shared(row_letters, np.int32(desk.letter + LETTER_BYTES * offset))


@cuda.jit(device=True)
def _not_yet(some, desk, other):
    return np.int32(0)


@cuda.jit(device=True)
def _load_after_all(row_letters, desk, offset, read):
    return _load_letter(row_letters, desk, offset)


@cuda.jit(device=True)
def _already(row_letters, desk, offset, read):
    return read


def _make_letters(config: KernelConfig) -> tuple[Any, Any, Any]:
    """Device functions that read a letter of the next step: before this step, in it, and at its end.

    What is read of a profile depends on another load. Begun early, both take no time of their own; a letter
    alone is loaded late, so that no register has to hold it.
    """
    read = letter_scores(config).read
    if read is None:
        return _not_yet, _not_yet, _load_after_all

    @cuda.jit(device=True)
    def look_up(letter, desk, offset):
        return read(desk.profile, letter, desk.lane_at)

    return _load_letter, look_up, _already


@cuda.jit(device=True)
def _hand_on(outbox, desk, offset, right, place):
    """Leave a row's right edge for the strip to the right."""
    if place.lane == place.last_lane:
        store_shared(outbox, np.int32(desk.outbox + SLOT_BYTES * offset), pack(right.open, right.gap))


def _make_step(config: KernelConfig, guarded: bool, offset: int) -> Any:
    """A device function that sweeps two rows, `offset` rows after where the loop stands.

    With guards it stores a wanted row that is the second of them, or the last of the band.
    """
    columns, halves, track_best = config.columns, config.halves, config.track_best
    numbers = NUMBERS[config.numbers]
    maximum, halves_if, select = numbers.maximum, numbers.halves, numbers.select
    advance, inner_edge = make_row(config, guarded), make_inner_edge(config)
    fetch, store_wanted = _make_fetch(config), _make_store_row(config)
    letter_early, read_early, read_late = _make_letters(config)
    note_best, threshold_of = make_note_best(config), make_threshold(config)

    @cuda.jit(device=True)
    def step(
        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows,
        costs, origin, place, elsewhere, wanted_rows, jobs, lines, state,
    ):  # fmt: skip
        between = cuda.local.array(columns, int32)
        row = np.int32(first_row + offset)
        valid_above, valid, wanted = np.int32(0), np.int32(0), state.wanted
        if guarded:
            valid_above = halves_if(row >= 0 and row < rows, row >= STEP_ROWS and row < rows + STEP_ROWS)
            valid = halves_if(row >= 0 and row + 1 < rows, row >= STEP_ROWS and row + 1 < rows + STEP_ROWS)
        best, threshold, diagonal = state.best, state.threshold, state.carry.diagonal
        first_letter = letter_early(row_letters, desk, offset + 2)
        second_letter = letter_early(row_letters, desk, offset + 3)
        left, below = state.upper.left, state.lower.left
        upper, high = advance(
            opened, between, e, letters, state.upper.letter, diagonal, left, threshold, costs, valid_above
        )
        first_read = read_early(first_letter, desk, offset)
        diagonal = select(valid_above, left.open, diagonal) if guarded else left.open
        lower, higher = advance(
            between, opened, e, letters, state.lower.letter, diagonal, below, threshold, costs, valid
        )
        second_read = read_early(second_letter, desk, offset)
        diagonal = select(valid, below.open, diagonal) if guarded else below.open
        if place.ragged:
            upper = inner_edge(between, left, upper, costs.extend_cost, place.final, place.last_column)
            lower = inner_edge(opened, below, lower, costs.extend_cost, place.final, place.last_column)
        _hand_on(outbox, desk, offset, upper, place)
        _hand_on(outbox, desk, offset + 1, lower, place)
        letter = read_late(row_letters, desk, offset + 2, first_read)
        next_upper = fetch(inbox, desk, offset + 2, upper, place, letter)
        letter = read_late(row_letters, desk, offset + 3, second_read)
        next_lower = fetch(inbox, desk, offset + 3, lower, place, letter)
        if track_best and maximum(high, higher) != threshold:
            i, j = np.int32(row + 1), np.int32(place.first + 1)
            best = note_best(best, between, high, threshold, i, j, costs, origin)
            best = note_best(best, opened, higher, threshold, np.int32(i + 1), j, costs, origin)
            used = halves_if(place.width > 0, place.width > columns)
            i = np.int32(i + STEP_ROWS * (2 - halves))
            threshold = threshold_of(best, elsewhere, i, j, costs, origin, used)
        if guarded:
            row = np.int32(row + 1)
            wanted = store_wanted(lines, opened, e, row, rows, wanted, wanted_rows, jobs, place, origin)
        return State(Carry(upper, lower, diagonal), next_upper, next_lower, best, threshold, wanted)

    return step


def _make_steps(config: KernelConfig, guarded: bool, count: int, offset: int = 0) -> Any:
    """A device function that sweeps `count` steps, without a loop."""
    step = _make_step(config, guarded, offset)
    if count == 1:
        return step
    others = _make_steps(config, guarded, count - 1, offset + STEP_ROWS)

    @cuda.jit(device=True)
    def steps(
        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows,
        costs, origin, place, elsewhere, wanted_rows, jobs, lines, state,
    ):  # fmt: skip
        state = step(
            opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows,
            costs, origin, place, elsewhere, wanted_rows, jobs, lines, state,
        )  # fmt: skip
        return others(
            opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows,
            costs, origin, place, elsewhere, wanted_rows, jobs, lines, state,
        )  # fmt: skip

    return steps


def make_sweep_batch(config: KernelConfig, guarded: bool) -> Any:
    """A device function that sweeps the rows of a batch; see `kernel` for when with guards.

    It takes left edge and letters from shared memory, and leaves the right edge there: `desk` says where.
    """
    batch = config.batch
    count = 1 if guarded or batch % (_UNROLLED * STEP_ROWS) else _UNROLLED
    steps = _make_steps(config, guarded, count)
    stride, fetch = count * STEP_ROWS, _make_fetch(config)
    letter_early, read_early, read_late = _make_letters(config)

    @cuda.jit(device=True)
    def sweep_batch(
        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows,
        costs, origin, place, elsewhere, carry, best, threshold, wanted, wanted_rows, jobs, lines,
    ):  # fmt: skip
        read = read_early(letter_early(row_letters, desk, 0), desk, 0)
        upper = fetch(inbox, desk, 0, carry.upper, place, read_late(row_letters, desk, 0, read))
        read = read_early(letter_early(row_letters, desk, 1), desk, 1)
        lower = fetch(inbox, desk, 1, carry.lower, place, read_late(row_letters, desk, 1, read))
        state = State(carry, upper, lower, best, threshold, wanted)
        row, swept = first_row, np.int32(0)
        while swept < batch:
            state = steps(
                opened, e, letters, inbox, outbox, row_letters, desk, row, rows,
                costs, origin, place, elsewhere, wanted_rows, jobs, lines, state,
            )  # fmt: skip
            swept, row = np.int32(swept + stride), np.int32(row + stride)
            desk = Desk(
                np.int32(desk.inbox + SLOT_BYTES * stride), np.int32(desk.outbox + SLOT_BYTES * stride),
                np.int32(desk.letter + LETTER_BYTES * stride), desk.profile, desk.lane_at,
            )  # fmt: skip
        return state.carry, state.best, state.wanted

    return sweep_batch
