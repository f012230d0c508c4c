"""One row block, swept by the lanes of a warp in step: two rows of every part a step.

The second of the two needs the first one only column by column, so the two chains of dependent instructions
run side by side. No code here branches on the values, so the end of one step overlaps with the beginning of
the next one. A row block reports only its highest opened value (see `replay`).
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np
from numba import int32

from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.device.block_kinds import (
    AMBIGUOUS,
    EXCLUDES_PAIRS,
    FAST,
    FAST_ALTERNATE_ROWS,
    MASKED,
    MASKED_STORES_ROW,
    STORES_ROW,
)
from longalign.backends.cuda.device.letter_scores import letter_scores
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.ptx import load_shared, load_shared_two, store_shared, store_shared_two
from longalign.backends.cuda.device.requested_rows import make_inside, make_started
from longalign.backends.cuda.device.row import LaneEdge, make_inner_edge, make_row
from longalign.backends.cuda.device.sync import ALL_LANES
from longalign.backends.cuda.numba_api import cuda

#: What a lane hands from row block to row block: the right edges of its parts' last two rows, and opened
#: above and left of their next cells.
LaneCarry = namedtuple("LaneCarry", "upper lower diagonal")

#: Where a lane stands: its rectangle, its number, its first column and how many columns it has; which of its
#: parts hands its edge on to others; the lane that holds the strip's last part, which half that is, and its
#: last column; and whether the strip ends inside that part and its right edge counts.
StripPosition = namedtuple("StripPosition", "job lane first width which last_lane final last_column ragged")

#: Where a warp's row block stands in shared memory: addresses of the next slot to read, the next to write,
#: and of a lane's next row letter; and the strip's profile, if there is one, with the address of the lane's
#: part.
SharedCursor = namedtuple("SharedCursor", "inbox outbox letter profile lane_at")

#: What stands left of a row's next cells, and what a lane has read of the row's letter.
RowInput = namedtuple("RowInput", "left letter")

#: What goes from step to step. `high` and `higher` are the highest opened values so far in the upper and in
#: the lower rows of the steps.
StepState = namedtuple("StepState", "carry upper lower high higher")

#: Steps of one pass of the loop over a row block. With two, no value is copied between registers at its end.
_UNROLLED = 2

#: Passes that remain of a row block when the next one's edge is requested: about the latency of a load. With
#: more, strips would follow one another less closely.
_LAST_PASSES = 2

LETTER_BYTES = 4

#: How many rows after where the cursor is: the two of this step, and the first of the next. Numba compiles
#: device functions for each type of their arguments, and each literal is a type of its own: these all have
#: the same.
UPPER, LOWER, NEXT_UPPER = map(np.int32, range(3))


@cuda.jit(device=True)
def shuffle_to_next_lane(link):
    """Pass a lane's link to the lane to its right; returns the one from the left."""
    return cuda.shfl_up_sync(ALL_LANES, link, 1)


@cache
def _make_join_left(config: KernelConfig) -> Any:
    """A device function that returns the `RowInput` of a row, of what has been loaded for it before.

    What it joins is loaded early, so that the latency overlaps other work.
    """
    from_link = ARITHMETIC[config.numbers].from_link

    @cuda.jit(device=True)
    def join_left(right, link, from_strip, position, letter):
        """For a row whose `letter` has been read.

        The parts have handed on the edge `right`; `link` is what was passed on by the lane to the left.
        `from_strip`, likewise a link, comes from the strip to the left, for the first part.
        """
        if position.lane == 0:
            link = from_strip
        open_left, f_left = from_link(link, right.open, right.gap)
        return RowInput(LaneEdge(open_left, f_left), letter)

    return join_left


@cuda.jit(device=True)
def _load_letter(row_letters, cursor, offset):
    return load_shared(row_letters, np.int32(cursor.letter + LETTER_BYTES * offset))


@cuda.jit(device=True)
def _load_letters(row_letters, cursor, offset):
    return load_shared_two(row_letters, np.int32(cursor.letter + LETTER_BYTES * offset))


@cuda.jit(device=True)
def _no_letters_yet(row_letters, cursor, offset):
    return np.int32(0), np.int32(0)


@cuda.jit(device=True)
def _nothing_yet(letter, cursor):
    return np.int32(0)


@cuda.jit(device=True)
def _load_after_all(row_letters, cursor, offset, first, second):
    return _load_letters(row_letters, cursor, offset)


@cuda.jit(device=True)
def _already(row_letters, cursor, offset, first, second):
    return first, second


@cuda.jit(device=True)
def _itself(letter, cursor):
    return letter


@cache
def _make_look_up(config: KernelConfig) -> Any:
    """A device function that turns a row letter into what `LetterScores.add` takes."""
    read = letter_scores(config).read

    @cuda.jit(device=True)
    def look_up(letter, cursor):
        return read(cursor.profile, letter, cursor.lane_at)

    return look_up if read is not None else _itself


@cache
def _make_letters(config: KernelConfig) -> tuple[Any, Any, Any]:
    """Device functions that read the letters of the next step, from an even row on: before this step, in it
    one by one, and at its end.

    A profile is read at a place that depends on the letter. If the letter and then the profile are read
    early, neither takes time of its own. Letters alone are read late, so that no registers have to hold them,
    unless there are some to spare.
    """
    if letter_scores(config).read is None and not config.narrow:
        return _no_letters_yet, _nothing_yet, _load_after_all
    return _load_letters, _make_look_up(config), _already


@cache
def make_fetch_row(config: KernelConfig) -> Any:
    """A device function that gets what a row needs, its letter as well, where nothing has been read early."""
    join_left, link_of, look_up = (
        _make_join_left(config),
        ARITHMETIC[config.numbers].link,
        _make_look_up(config),
    )
    slot_bytes = config.slot_bytes

    @cuda.jit(device=True)
    def fetch_row(inbox, row_letters, cursor, offset, right, position):
        """For the row `offset` rows after where the cursor is; `right` is the edge that the parts handed
        on."""
        letter = look_up(_load_letter(row_letters, cursor, offset), cursor)
        from_strip = load_shared(inbox, np.int32(cursor.inbox + slot_bytes * offset))
        shuffled = shuffle_to_next_lane(link_of(right.open, right.gap, position.which))
        return join_left(right, shuffled, from_strip, position, letter)

    return fetch_row


@cache
def make_send_right(config: KernelConfig) -> Any:
    """A device function that leaves a row's right edge for the strip to the right."""
    link_of = ARITHMETIC[config.numbers].link

    @cuda.jit(device=True)
    def send_right(outbox, cursor, right, position):
        if position.lane == position.last_lane:
            store_shared(outbox, cursor.outbox, link_of(right.open, right.gap, position.which))

    return send_right


@cache
def make_step(config: KernelConfig, kind: np.int32 = FAST) -> Any:
    """A device function that sweeps two rows, from where the cursor is. In STORES_ROW and MASKED_STORES_ROW
    blocks it puts the second one into `row_buffer` if it is requested; in others `row_buffer` is None. In
    EXCLUDES_PAIRS blocks `excluded_upper` and `excluded_lower` are the `ExcludedColumns` of the two rows; in
    others these are None.

    In MASKED and MASKED_STORES_ROW blocks a half keeps its columns until it begins, and what it finds outside
    does not count.
    """
    columns, select = config.columns, ARITHMETIC[config.numbers].select
    any_letters, masked = bool(kind == AMBIGUOUS), kind in (MASKED, MASKED_STORES_ROW)
    stores_row, may_be_ragged = kind in (STORES_ROW, MASKED_STORES_ROW), bool(kind == MASKED_STORES_ROW)
    excludes = bool(kind == EXCLUDES_PAIRS)
    advance = make_row(
        config, any_letters, False, watched=bool(kind != FAST_ALTERNATE_ROWS), excludes=excludes
    )
    advance_again = make_row(config, any_letters, masked, stores_row=stores_row, excludes=excludes)
    early = config.send_edge_early
    join_left, link_of, slot_bytes = (
        _make_join_left(config),
        ARITHMETIC[config.numbers].link,
        config.slot_bytes,
    )
    letters_early, read_early, letters_late = _make_letters(config)
    started_at, inside, inner_edge = make_started(config), make_inside(config), make_inner_edge(config)

    @cuda.jit(device=True)
    def step(
        opened, e, letters, inbox, outbox, row_letters, cursor, row, rows, costs, position, state, row_buffer,
        excluded_upper, excluded_lower,
    ):  # fmt: skip
        between = cuda.local.array(columns, int32)
        e_between = cuda.local.array(columns, int32)
        left, below, diagonal = state.upper.left, state.lower.left, state.carry.diagonal
        started = started_at(row)
        first_letter, second_letter = letters_early(row_letters, cursor, NEXT_UPPER)
        if early:
            above_next, next_too = load_shared_two(inbox, np.int32(cursor.inbox + slot_bytes * NEXT_UPPER))
        first_read = read_early(first_letter, cursor)
        upper, high = advance(
            opened, between, e, e_between, letters, state.upper.letter, diagonal, left, state.high, costs,
            started, None, excluded_upper,
        )  # fmt: skip
        if early:  # of a ragged strip's last part, too, but only parts beyond the end get that
            shuffled = shuffle_to_next_lane(link_of(upper.open, upper.gap, position.which))
        lower, higher = advance_again(
            between, opened, e_between, e, letters, state.lower.letter, left.open, below, state.higher,
            costs, started, row_buffer, excluded_lower,
        )  # fmt: skip
        diagonal = select(started, below.open, diagonal) if masked else below.open
        if may_be_ragged and position.ragged:
            cost, final, last = costs.extend_cost, position.final, position.last_column
            upper = inner_edge(between, left, upper, cost, final, last)
            lower = inner_edge(opened, below, lower, cost, final, last)
        second_read = read_early(second_letter, cursor)
        upper_link = link_of(upper.open, upper.gap, position.which)
        lower_link = link_of(lower.open, lower.gap, position.which)
        if position.lane == position.last_lane:
            store_shared_two(outbox, cursor.outbox, upper_link, lower_link)
        first_read, second_read = letters_late(row_letters, cursor, NEXT_UPPER, first_read, second_read)
        if not early:
            above_next, next_too = load_shared_two(inbox, np.int32(cursor.inbox + slot_bytes * NEXT_UPPER))
            shuffled = shuffle_to_next_lane(upper_link)
        next_upper = join_left(upper, shuffled, above_next, position, first_read)
        next_lower = join_left(lower, shuffle_to_next_lane(lower_link), next_too, position, second_read)
        if masked:
            high = select(inside(row, rows), high, state.high)
            higher = select(inside(np.int32(row + 1), rows), higher, state.higher)
        return StepState(LaneCarry(upper, lower, diagonal), next_upper, next_lower, high, higher)

    return step


@cache
def make_advance_cursor(config: KernelConfig) -> Any:
    """A device function that moves the cursor down by a number of rows."""
    slot_bytes = config.slot_bytes

    @cuda.jit(device=True)
    def advance_cursor(cursor, rows):
        return SharedCursor(
            np.int32(cursor.inbox + slot_bytes * rows), np.int32(cursor.outbox + slot_bytes * rows),
            np.int32(cursor.letter + LETTER_BYTES * rows), cursor.profile, cursor.lane_at,
        )  # fmt: skip

    return advance_cursor


def rows_of_pass(config: KernelConfig, kind: np.int32 = FAST) -> int:
    """Rows that one pass of the loop over a row block sweeps; see `make_sweep_row_block`."""
    steps = _UNROLLED if config.block_rows % (_UNROLLED * STEP_ROWS) == 0 and kind != AMBIGUOUS else 1
    return steps * STEP_ROWS


def _make_steps(config: KernelConfig, kind: np.int32, count: int) -> Any:
    """A device function that sweeps `count` steps, without a loop."""
    step = make_step(config, kind)
    if count == 1:
        return step
    others, advance_cursor = _make_steps(config, kind, count - 1), make_advance_cursor(config)

    @cuda.jit(device=True)
    def steps(
        opened, e, letters, inbox, outbox, row_letters, cursor, row, rows, costs, position, state, row_buffer,
        excluded_upper, excluded_lower,
    ):  # fmt: skip
        state = step(
            opened, e, letters, inbox, outbox, row_letters, cursor, row, rows, costs, position, state,
            row_buffer, excluded_upper, excluded_lower,
        )  # fmt: skip
        return others(
            opened, e, letters, inbox, outbox, row_letters, advance_cursor(cursor, np.int32(STEP_ROWS)),
            np.int32(row + STEP_ROWS), rows, costs, position, state, row_buffer, excluded_upper,
            excluded_lower,
        )  # fmt: skip

    return steps


@cache
def _make_passes(config: KernelConfig, kind: np.int32) -> Any:
    """A device function that sweeps `count` rows, a multiple of `rows_of_pass`.

    It returns the state, the row and the cursor after them.
    """
    stride = rows_of_pass(config, kind)
    steps, advance_cursor = _make_steps(config, kind, stride // STEP_ROWS), make_advance_cursor(config)

    @cuda.jit(device=True)
    def passes(
        opened, e, letters, inbox, outbox, row_letters, cursor, row, rows, costs, position, state, count
    ):  # fmt: skip
        swept = np.int32(0)
        while swept < count:
            state = steps(
                opened, e, letters, inbox, outbox, row_letters, cursor, row, rows, costs, position, state,
                None, None, None,
            )  # fmt: skip
            swept, row = np.int32(swept + stride), np.int32(row + stride)
            cursor = advance_cursor(cursor, np.int32(stride))
        return state, row, cursor

    return passes


def make_sweep_row_block(config: KernelConfig, kind: np.int32 = FAST) -> Any:
    """A device function that sweeps a row block without requested rows and excluded pairs.

    For others see `masked_blocks`. It takes left edge and letters from shared memory, and leaves the right
    edge there: `cursor` says where. Returns the `LaneCarry`, and the highest opened value of the watched
    cells, at least `threshold`.
    """
    block_rows, maximum = np.int32(config.block_rows), ARITHMETIC[config.numbers].maximum
    passes, fetch_row = _make_passes(config, kind), make_fetch_row(config)

    @cuda.jit(device=True)
    def sweep_row_block(
        opened,
        e,
        letters,
        inbox,
        outbox,
        row_letters,
        cursor,
        first_row,
        rows,
        costs,
        position,
        carry,
        threshold,
    ):
        upper = fetch_row(inbox, row_letters, cursor, UPPER, carry.upper, position)
        lower = fetch_row(inbox, row_letters, cursor, LOWER, carry.lower, position)
        state = StepState(carry, upper, lower, threshold, threshold)
        state, _, _ = passes(
            opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, position, state,
            block_rows,
        )  # fmt: skip
        return state.carry, maximum(state.high, state.higher)

    return sweep_row_block


def make_sweep_and_receive(config: KernelConfig, begin_receive: Any) -> Any:
    """The same for FAST row blocks, where the next row block's edge is asked for some rows before the end, so
    that memory has answered when it is needed. Returns it as well, as `begin_receive` does (see
    `strip_edges`)."""
    passes, fetch_row = _make_passes(config, FAST), make_fetch_row(config)
    maximum = ARITHMETIC[config.numbers].maximum
    last = np.int32(min(config.block_rows, _LAST_PASSES * rows_of_pass(config)))
    others = np.int32(config.block_rows - last)

    @cuda.jit(device=True)
    def sweep_and_receive(
        opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, position, carry,
        threshold, query, column, parameters, end,
    ):  # fmt: skip
        upper = fetch_row(inbox, row_letters, cursor, UPPER, carry.upper, position)
        lower = fetch_row(inbox, row_letters, cursor, LOWER, carry.lower, position)
        state = StepState(carry, upper, lower, threshold, threshold)
        state, row, cursor = passes(
            opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, position, state,
            others,
        )  # fmt: skip
        incoming = begin_receive(query, column, parameters, rows, end, position.lane)
        state, _, _ = passes(
            opened, e, letters, inbox, outbox, row_letters, cursor, row, rows, costs, position, state, last
        )  # fmt: skip
        return state.carry, maximum(state.high, state.higher), incoming

    return sweep_and_receive
