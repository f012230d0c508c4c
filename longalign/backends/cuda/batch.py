"""The rows of one batch, swept by the lanes of a warp in step."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from longalign.backends.cuda import layout
from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.best import make_note_best, make_threshold
from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.layout import pack, packed_gap, packed_h
from longalign.backends.cuda.numbers import NUMBERS
from longalign.backends.cuda.ptx import load_shared, store_shared
from longalign.backends.cuda.row import Limits, make_inner_edge, make_row
from longalign.backends.cuda.sync import ALL_LANES

#: What a lane hands from step to step: opened and F at the right edge of its parts, and opened above and left
#: of their next cells.
Carry = namedtuple("Carry", "open_right f_right diagonal")

#: Where a lane stands: its rectangle, its number, its first column and how many columns it has; the lane that
#: holds the strip's last part, which half that is, and its last column.
Place = namedtuple("Place", "job lane first width last_lane final last_column")

#: Where a warp's batch stands in shared memory: addresses of the next slot to read, the next to write, and of
#: a lane's next row letter.
Desk = namedtuple("Desk", "inbox outbox letter")

#: Which wanted row is the next that a lane's first part meets, and which it has just passed, so that the
#: second part follows with it: numbers from 0, or -1 for none.
Wanted = namedtuple("Wanted", "next passed")

#: What goes from row to row: a carry, what the next row has to its left, its letter, and the best cell so far.
State = namedtuple("State", "open_right f_right diagonal open_left f_left letter best threshold wanted")

#: Rows of one turn of the loop over a batch, unless they take care: spares copies between registers.
_UNROLLED = 4

SLOT_BYTES, LETTER_BYTES = 8, 4


def _make_store_row(config: KernelConfig) -> Any:
    """A device function that writes a lane's part of wanted rows."""
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
    def store_wanted(lines, opened, e, row, wanted, wanted_rows, jobs, place, origin):
        """Write what is wanted of the rows just finished; `row` is that of the first part."""
        passed = np.int32(-1)
        if row >= 0 and row + 1 == wanted_rows[jobs[place.job, layout.WANTED_AT] + wanted.next]:
            passed = wanted.next
            store(lines, opened, e, 0, passed, jobs, place, origin)
        if halves == 2 and wanted.passed >= 0:
            store(lines, opened, e, 1, wanted.passed, jobs, place, origin)
        return Wanted(np.int32(wanted.next + (1 if passed >= 0 else 0)), passed)

    return store_wanted


def _make_fetch(config: KernelConfig) -> Any:
    """A device function that gets what a row needs, so that its latency and the row before overlap."""
    from_left = NUMBERS[config.numbers].from_left

    @cuda.jit(device=True)
    def fetch(inbox, row_letters, desk, offset, open_right, f_right, place):
        """Opened and F left of the next cells, and their letter, `offset` rows from where the desk is.

        For the first part the edge comes from the strip to the left.
        """
        from_strip = load_shared(inbox, np.int32(desk.inbox + SLOT_BYTES * offset))
        letter = load_shared(row_letters, np.int32(desk.letter + LETTER_BYTES * offset))
        open_left = cuda.shfl_up_sync(ALL_LANES, open_right, 1)
        f_left = cuda.shfl_up_sync(ALL_LANES, f_right, 1)
        if place.lane == 0:
            open_left, f_left = packed_h(from_strip), packed_gap(from_strip)
        return from_left(open_left, open_right), from_left(f_left, f_right), letter

    return fetch


def _make_step(config: KernelConfig, careful: bool, ragged: bool, offset: int) -> Any:
    """A device function that sweeps the row `offset` rows after where the loop stands."""
    numbers = NUMBERS[config.numbers]
    halves, columns, track_best = config.halves, config.columns, config.track_best
    halves_if, select = numbers.halves, numbers.select
    advance, inner_edge = make_row(config, careful), make_inner_edge(config)
    fetch, store_wanted = _make_fetch(config), _make_store_row(config)
    note_best, threshold_of = make_note_best(config), make_threshold(config)

    @cuda.jit(device=True)
    def step(
        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows,
        costs, origin, place, elsewhere, wanted_rows, jobs, lines, state,
    ):  # fmt: skip
        row = np.int32(first_row + offset)
        valid = np.int32(0)
        if careful:
            valid = halves_if(row >= 0 and row < rows, row >= 1 and row <= rows)
        limits = Limits(valid, place.final, place.last_column)
        best, threshold, wanted, open_left, f_left = (
            state.best, state.threshold, state.wanted, state.open_left, state.f_left,
        )  # fmt: skip
        open_right, f_right, highest = advance(
            opened, e, letters, state.letter, state.diagonal, open_left, f_left, threshold, costs, limits
        )
        if ragged:
            open_right, f_right = inner_edge(
                opened, open_left, f_left, open_right, f_right, costs.extend_cost, limits
            )
        diagonal = select(valid, open_left, state.diagonal) if careful else open_left
        if place.lane == place.last_lane:
            store_shared(outbox, np.int32(desk.outbox + SLOT_BYTES * offset), pack(open_right, f_right))
        open_left, f_left, letter = fetch(
            inbox, row_letters, desk, offset + 1, open_right, f_right, place
        )
        if track_best and highest != threshold:
            first_column = np.int32(place.first + 1)
            best = note_best(
                best, opened, highest, threshold, np.int32(row + 1), first_column, costs, origin
            )
            used = halves_if(place.width > 0, place.width > columns)
            threshold = threshold_of(
                best, elsewhere, np.int32(row - halves + 2), first_column, costs, origin, used
            )
        if careful:
            wanted = store_wanted(lines, opened, e, row, wanted, wanted_rows, jobs, place, origin)
        return State(open_right, f_right, diagonal, open_left, f_left, letter, best, threshold, wanted)

    return step


def _make_steps(config: KernelConfig, careful: bool, ragged: bool, count: int, offset: int = 0) -> Any:
    """A device function that sweeps `count` rows, without a loop."""
    step = _make_step(config, careful, ragged, offset)
    if count == 1:
        return step
    others = _make_steps(config, careful, ragged, count - 1, offset + 1)

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


def make_sweep_batch(config: KernelConfig, careful: bool = False, ragged: bool = False) -> Any:
    """A device function that sweeps the rows of a batch; see `kernel` for when it must be careful or ragged.

    It takes left edge and letters from shared memory, and leaves the right edge there: `desk` says where.
    """
    batch, columns = config.batch, config.columns
    halves_if = NUMBERS[config.numbers].halves
    count = 1 if careful or ragged or batch % _UNROLLED else _UNROLLED
    fetch, steps = _make_fetch(config), _make_steps(config, careful, ragged, count)

    @cuda.jit(device=True)
    def sweep_batch(
        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows,
        costs, origin, place, elsewhere, carry, best, threshold, wanted, wanted_rows, jobs, lines,
    ):  # fmt: skip
        open_left, f_left, letter = fetch(
            inbox, row_letters, desk, 0, carry.open_right, carry.f_right, place
        )
        state = State(
            carry.open_right, carry.f_right, carry.diagonal, open_left, f_left, letter, best, threshold, wanted
        )
        row, swept = first_row, np.int32(0)
        while swept < batch:
            state = steps(
                opened, e, letters, inbox, outbox, row_letters, desk, row, rows,
                costs, origin, place, elsewhere, wanted_rows, jobs, lines, state,
            )  # fmt: skip
            swept, row = np.int32(swept + count), np.int32(row + count)
            desk = Desk(
                np.int32(desk.inbox + SLOT_BYTES * count), np.int32(desk.outbox + SLOT_BYTES * count),
                np.int32(desk.letter + LETTER_BYTES * count),
            )  # fmt: skip
        return Carry(state.open_right, state.f_right, state.diagonal), state.best, state.wanted

    return sweep_batch
