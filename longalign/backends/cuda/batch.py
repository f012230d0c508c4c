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
from longalign.backends.cuda.row import Limits, make_inner_edge, make_row
from longalign.backends.cuda.sync import ALL_LANES

#: What a lane hands from step to step: opened and F at the right edge of its parts, and opened above and left
#: of their next cells.
Carry = namedtuple("Carry", "open_right f_right diagonal")

#: Where a lane stands: its rectangle, its number, its first column and how many columns it has; the lane that
#: holds the strip's last part, which half that is, and its last column; and whether the strip ends inside a
#: part and its right edge counts.
Place = namedtuple("Place", "job lane first width last_lane final last_column ragged")

#: Which wanted row is the next that a lane's first part meets, and which it has just passed, so that the
#: second part follows with it: numbers from 0, or -1 for none.
Wanted = namedtuple("Wanted", "next passed")

#: Rows of one turn of the loop over a batch, unless they take care: spares copies between registers.
_UNROLLED = 2


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


def make_sweep_batch(config: KernelConfig, careful: bool) -> Any:
    """A device function that sweeps the rows of a batch; see `kernel` for when it must be `careful`.

    It takes left edge and letters from shared memory, and leaves the right edge there; `mailbox` and
    `read_at` are where this warp's, or lane's, part of those begins.
    """
    batch, halves, columns, track_best = config.batch, config.halves, config.columns, config.track_best
    numbers = NUMBERS[config.numbers]
    maximum, from_left, halves_if, select = numbers.maximum, numbers.from_left, numbers.halves, numbers.select
    unrolled = 1 if careful or batch % _UNROLLED else _UNROLLED
    advance, inner_edge = make_row(config, careful), make_inner_edge(config)
    store_wanted = _make_store_row(config)
    note_best, threshold_of = make_note_best(config), make_threshold(config)

    @cuda.jit(device=True)
    def fetch(from_strip, letter, open_right, f_right, place):
        """Opened and F left of the next cells, which for the first part come from the strip to the left."""
        open_left = cuda.shfl_up_sync(ALL_LANES, open_right, 1)
        f_left = cuda.shfl_up_sync(ALL_LANES, f_right, 1)
        if place.lane == 0:
            open_left, f_left = packed_h(from_strip), packed_gap(from_strip)
        return from_left(open_left, open_right), from_left(f_left, f_right), letter

    @cuda.jit(device=True)
    def sweep_batch(
        opened, e, letters, inbox, outbox, mailbox, row_letters, read_at, start, rows,
        costs, origin, place, carry, best, threshold, wanted, wanted_rows, jobs, lines,
    ):  # fmt: skip
        open_right, f_right, diagonal = carry.open_right, carry.f_right, carry.diagonal
        used = halves_if(place.width > 0, place.width > columns)
        limits = Limits(np.int32(0), place.final, place.last_column)
        row = np.int32(start - place.lane * halves)
        first_column = np.int32(place.first + 1)
        slot = mailbox
        # What a step needs is fetched before the end of the step before, so that latencies overlap.
        open_left, f_left, letter = fetch(inbox[slot], row_letters[read_at], open_right, f_right, place)
        step = np.int32(0)  # the same in all lanes, and the assembler can see it
        while step < batch:
            step = np.int32(step + unrolled)
            for _ in range(unrolled):
                if careful:
                    limits = Limits(
                        halves_if(row >= 0 and row < rows, row >= 1 and row <= rows),
                        place.final, place.last_column,
                    )  # fmt: skip
                open_right, f_right, highest = advance(
                    opened, e, letters, letter, diagonal, open_left, f_left, costs, limits
                )
                if not careful and place.ragged:
                    open_right, f_right = inner_edge(
                        opened, open_left, f_left, open_right, f_right, costs.extend_cost, limits
                    )
                diagonal = select(limits.valid, open_left, diagonal) if careful else open_left
                if place.lane == place.last_lane:
                    outbox[slot] = pack(open_right, f_right)
                slot = np.uint32(slot + 1)
                read_at = np.uint32(read_at + 1)
                open_left, f_left, letter = fetch(
                    inbox[slot], row_letters[read_at], open_right, f_right, place
                )
                if track_best and maximum(highest, threshold) != threshold:
                    best = note_best(
                        best,
                        opened,
                        highest,
                        threshold,
                        np.int32(row + 1),
                        first_column,
                        costs,
                        origin,
                    )
                    threshold = threshold_of(
                        best, np.int32(row - halves + 2), first_column, costs, origin, used
                    )
                if careful:
                    wanted = store_wanted(lines, opened, e, row, wanted, wanted_rows, jobs, place, origin)
                row = np.int32(row + 1)
        return Carry(open_right, f_right, diagonal), best, wanted

    return sweep_batch
