"""The rows of one batch, swept by the lanes of a warp in step: two rows of every part a step.

The second of the two needs the first one only column by column, so the two chains of dependent instructions
run side by side. Nothing here looks at what is found: without a branch between them, the end of one step and
the beginning of the next overlap as well. How high a batch has come is all that it says; see `replay`.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any, Literal

import numpy as np
from numba import int32

from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.device.letter_scores import letter_scores
from longalign.backends.cuda.device.number_formats import NUMBERS
from longalign.backends.cuda.device.ptx import load_shared, load_shared_two, store_shared, store_shared_two
from longalign.backends.cuda.device.requested_rows import make_at_work, make_begun
from longalign.backends.cuda.device.row import Edge, make_inner_edge, make_row
from longalign.backends.cuda.device.sync import ALL_LANES
from longalign.backends.cuda.numba_api import cuda

#: What a lane hands from batch to batch: the right edges of its parts' last two rows, and opened above and
#: left of their next cells.
Carry = namedtuple("Carry", "upper lower diagonal")

#: Where a lane stands: its rectangle, its number, its first column and how many columns it has; which of its
#: parts hands its edge on to others; the lane that holds the strip's last part, which half that is, and its
#: last column; and whether the strip ends inside that part and its right edge counts.
Place = namedtuple("Place", "job lane first width which last_lane final last_column ragged")

#: Where a warp's batch stands in shared memory: addresses of the next slot to read, the next to write, and of
#: a lane's next row letter; and the strip's profile, if there is one, with the address of the lane's part.
Desk = namedtuple("Desk", "inbox outbox letter profile lane_at")

#: What stands left of a row's next cells, and what a lane has read of the row's letter.
Incoming = namedtuple("Incoming", "left letter")

#: What goes from step to step; of the two rows of a step, what has been highest.
State = namedtuple("State", "carry upper lower high higher")

#: What is special about a batch. "sampled": how high it comes, it looks in every second row only; see
#: `replay`. "any letters": the query has others than A C G T, which is rare. "partial": some parts are above
#: the rectangle or below it, and must not sweep on there (see `kernel`). Strips follow one another no faster
#: than they get through such batches, at their beginnings and at their ends, so these must not be slow.
#: "meeting": parts may meet a wanted row. "eventful": both "partial" and "meeting", or more; see `eventful`.
Kind = Literal["usual", "sampled", "any letters", "partial", "meeting", "eventful"]

#: The same as numbers; and the way row by row.
USUAL, SAMPLED, ANY_LETTERS, PARTIAL, EVENTFUL, MEETING, BY_ROWS = map(np.int32, range(7))

#: Steps of one turn of the loop over a batch: spares copies between registers.
_UNROLLED = 2

#: Turns of a batch that are left when the next one's edge is asked for: as long as memory takes to answer.
#: With more, strips would follow one another less closely.
_LAST_TURNS = 2

LETTER_BYTES = 4

#: How many rows after where the desk is: the two of this step, and the first of the next. Numba compiles
#: device functions for each type of their arguments, and each literal is a type of its own: these all have
#: the same.
UPPER, LOWER, NEXT_UPPER = map(np.int32, range(3))


@cuda.jit(device=True)
def pass_on(link):
    """The link of the part that matters to the next lane, to that lane."""
    return cuda.shfl_up_sync(ALL_LANES, link, 1)


@cache
def _make_enter(config: KernelConfig) -> Any:
    """A device function that gets what stands left of a row, so that its latency and other work overlap."""
    from_link = NUMBERS[config.numbers].from_link

    @cuda.jit(device=True)
    def enter(right, link, from_strip, place, letter):
        """For a row whose `letter` has been read.

        The parts have handed on the edge `right`; `link` is what was passed on by the lane to the left.
        `from_strip`, likewise a link, comes from the strip to the left, for the first part.
        """
        if place.lane == 0:
            link = from_strip
        open_left, f_left = from_link(link, right.open, right.gap)
        return Incoming(Edge(open_left, f_left), letter)

    return enter


@cuda.jit(device=True)
def _load_letter(row_letters, desk, offset):
    return load_shared(row_letters, np.int32(desk.letter + LETTER_BYTES * offset))


@cuda.jit(device=True)
def _load_letters(row_letters, desk, offset):
    return load_shared_two(row_letters, np.int32(desk.letter + LETTER_BYTES * offset))


@cuda.jit(device=True)
def _no_letters_yet(row_letters, desk, offset):
    return np.int32(0), np.int32(0)


@cuda.jit(device=True)
def _nothing_yet(letter, desk):
    return np.int32(0)


@cuda.jit(device=True)
def _load_after_all(row_letters, desk, offset, first, second):
    return _load_letters(row_letters, desk, offset)


@cuda.jit(device=True)
def _already(row_letters, desk, offset, first, second):
    return first, second


@cuda.jit(device=True)
def _itself(letter, desk):
    return letter


@cache
def _make_look_up(config: KernelConfig) -> Any:
    """A device function for what a lane makes of a row's letter."""
    read = letter_scores(config).read

    @cuda.jit(device=True)
    def look_up(letter, desk):
        return read(desk.profile, letter, desk.lane_at)

    return look_up if read is not None else _itself


@cache
def _make_letters(config: KernelConfig) -> tuple[Any, Any, Any]:
    """Device functions that read the letters of the next step, from an even row on: before this step, in it
    one by one, and at its end.

    What is read of a profile depends on another load. Begun early, both take no time of their own; letters
    alone are loaded late, so that no registers have to hold them, unless there are some to spare.
    """
    if letter_scores(config).read is None and not config.narrow:
        return _no_letters_yet, _nothing_yet, _load_after_all
    return _load_letters, _make_look_up(config), _already


@cache
def make_fetch(config: KernelConfig) -> Any:
    """A device function that gets what a row needs, its letter as well, where nothing has been read early."""
    enter, link_of, look_up = _make_enter(config), NUMBERS[config.numbers].link, _make_look_up(config)
    slot_bytes = config.slot_bytes

    @cuda.jit(device=True)
    def fetch(inbox, row_letters, desk, offset, right, place):
        """For the row `offset` rows after where the desk is; `right` is the edge that the parts handed on."""
        letter = look_up(_load_letter(row_letters, desk, offset), desk)
        from_strip = load_shared(inbox, np.int32(desk.inbox + slot_bytes * offset))
        passed = pass_on(link_of(right.open, right.gap, place.which))
        return enter(right, passed, from_strip, place, letter)

    return fetch


@cache
def make_hand_on(config: KernelConfig) -> Any:
    """A device function that leaves a row's right edge for the strip to the right."""
    link_of = NUMBERS[config.numbers].link

    @cuda.jit(device=True)
    def hand_on(outbox, desk, right, place):
        if place.lane == place.last_lane:
            store_shared(outbox, desk.outbox, link_of(right.open, right.gap, place.which))

    return hand_on


@cache
def make_step(config: KernelConfig, kind: Kind = "usual") -> Any:
    """A device function that sweeps two rows, from where the desk is. In meeting and eventful batches it puts
    the second one `aside` if it is wanted; in others `aside` is None.

    In partial and eventful batches a half keeps its columns until it begins, and what it finds outside does
    not count.
    """
    columns, select = config.columns, NUMBERS[config.numbers].select
    any_letters, outside = kind == "any letters", kind in ("partial", "eventful")
    advance = make_row(config, any_letters, False, watched=kind != "sampled")
    advance_again = make_row(config, any_letters, outside, meeting=kind in ("meeting", "eventful"))
    early = config.passes_early
    enter, link_of, slot_bytes = _make_enter(config), NUMBERS[config.numbers].link, config.slot_bytes
    letters_early, read_early, letters_late = _make_letters(config)
    begun_at, at_work, inner_edge = make_begun(config), make_at_work(config), make_inner_edge(config)

    @cuda.jit(device=True)
    def step(opened, e, letters, inbox, outbox, row_letters, desk, row, rows, costs, place, state, aside):
        between = cuda.local.array(columns, int32)
        e_between = cuda.local.array(columns, int32)
        left, below, diagonal = state.upper.left, state.lower.left, state.carry.diagonal
        begun = begun_at(row)
        first_letter, second_letter = letters_early(row_letters, desk, NEXT_UPPER)
        if early:
            above_next, next_too = load_shared_two(inbox, np.int32(desk.inbox + slot_bytes * NEXT_UPPER))
        first_read = read_early(first_letter, desk)
        upper, high = advance(
            opened, between, e, e_between, letters, state.upper.letter, diagonal, left, state.high, costs,
            begun, None,
        )  # fmt: skip
        if early:  # of a ragged strip's last part, too, but only parts beyond the end get that
            passed = pass_on(link_of(upper.open, upper.gap, place.which))
        lower, higher = advance_again(
            between, opened, e_between, e, letters, state.lower.letter, left.open, below, state.higher,
            costs, begun, aside,
        )  # fmt: skip
        diagonal = select(begun, below.open, diagonal) if outside else below.open
        if kind == "eventful" and place.ragged:
            cost, final, last = costs.extend_cost, place.final, place.last_column
            upper = inner_edge(between, left, upper, cost, final, last)
            lower = inner_edge(opened, below, lower, cost, final, last)
        second_read = read_early(second_letter, desk)
        upper_link = link_of(upper.open, upper.gap, place.which)
        lower_link = link_of(lower.open, lower.gap, place.which)
        if place.lane == place.last_lane:
            store_shared_two(outbox, desk.outbox, upper_link, lower_link)
        first_read, second_read = letters_late(row_letters, desk, NEXT_UPPER, first_read, second_read)
        if not early:
            above_next, next_too = load_shared_two(inbox, np.int32(desk.inbox + slot_bytes * NEXT_UPPER))
            passed = pass_on(upper_link)
        next_upper = enter(upper, passed, above_next, place, first_read)
        next_lower = enter(lower, pass_on(lower_link), next_too, place, second_read)
        if outside:
            high = select(at_work(row, rows), high, state.high)
            higher = select(at_work(np.int32(row + 1), rows), higher, state.higher)
        return State(Carry(upper, lower, diagonal), next_upper, next_lower, high, higher)

    return step


@cache
def make_advance_desk(config: KernelConfig) -> Any:
    """A device function for the desk so many rows further on."""
    slot_bytes = config.slot_bytes

    @cuda.jit(device=True)
    def advance_desk(desk, rows):
        return Desk(
            np.int32(desk.inbox + slot_bytes * rows), np.int32(desk.outbox + slot_bytes * rows),
            np.int32(desk.letter + LETTER_BYTES * rows), desk.profile, desk.lane_at,
        )  # fmt: skip

    return advance_desk


def rows_of_turn(config: KernelConfig, kind: Kind = "usual") -> int:
    """Rows that one turn of the loop over a batch sweeps; see `make_sweep_batch`."""
    steps = _UNROLLED if config.batch % (_UNROLLED * STEP_ROWS) == 0 and kind != "any letters" else 1
    return steps * STEP_ROWS


def _make_steps(config: KernelConfig, kind: Kind, count: int) -> Any:
    """A device function that sweeps `count` steps, without a loop."""
    step = make_step(config, kind)
    if count == 1:
        return step
    others, advance_desk = _make_steps(config, kind, count - 1), make_advance_desk(config)

    @cuda.jit(device=True)
    def steps(opened, e, letters, inbox, outbox, row_letters, desk, row, rows, costs, place, state, aside):
        state = step(
            opened, e, letters, inbox, outbox, row_letters, desk, row, rows, costs, place, state, aside
        )
        return others(
            opened, e, letters, inbox, outbox, row_letters, advance_desk(desk, np.int32(STEP_ROWS)),
            np.int32(row + STEP_ROWS), rows, costs, place, state, aside,
        )  # fmt: skip

    return steps


@cache
def _make_turns(config: KernelConfig, kind: Kind) -> Any:
    """A device function that sweeps `count` rows, whole turns; it returns where it has come to."""
    stride = rows_of_turn(config, kind)
    steps, advance_desk = _make_steps(config, kind, stride // STEP_ROWS), make_advance_desk(config)

    @cuda.jit(device=True)
    def turns(
        opened, e, letters, inbox, outbox, row_letters, desk, row, rows, costs, place, state, count
    ):  # fmt: skip
        swept = np.int32(0)
        while swept < count:
            state = steps(
                opened, e, letters, inbox, outbox, row_letters, desk, row, rows, costs, place, state, None
            )  # fmt: skip
            swept, row = np.int32(swept + stride), np.int32(row + stride)
            desk = advance_desk(desk, np.int32(stride))
        return state, row, desk

    return turns


def make_sweep_batch(config: KernelConfig, kind: Kind = "usual") -> Any:
    """A device function that sweeps the rows of a batch in which nothing happens but that parts begin or end
    (see `eventful` for others).

    It takes left edge and letters from shared memory, and leaves the right edge there: `desk` says where.
    Returns what it carries on, and `threshold` or what opened value of the watched cells is higher.
    """
    batch, maximum = np.int32(config.batch), NUMBERS[config.numbers].maximum
    turns, fetch = _make_turns(config, kind), make_fetch(config)

    @cuda.jit(device=True)
    def sweep_batch(
        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, place, carry, threshold
    ):
        upper = fetch(inbox, row_letters, desk, UPPER, carry.upper, place)
        lower = fetch(inbox, row_letters, desk, LOWER, carry.lower, place)
        state = State(carry, upper, lower, threshold, threshold)
        state, _, _ = turns(
            opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, place, state, batch
        )  # fmt: skip
        return state.carry, maximum(state.high, state.higher)

    return sweep_batch


def make_sweep_and_receive(config: KernelConfig, begin_to_receive: Any) -> Any:
    """The same for usual batches, where the next batch's edge is asked for some rows before the end, so that
    memory has answered when it is needed. Returns it as well, as `begin_to_receive` does (see `edges`)."""
    turns, fetch = _make_turns(config, "usual"), make_fetch(config)
    maximum = NUMBERS[config.numbers].maximum
    last = np.int32(min(config.batch, _LAST_TURNS * rows_of_turn(config)))
    others = np.int32(config.batch - last)

    @cuda.jit(device=True)
    def sweep_and_receive(
        opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, place, carry, threshold,
        query, column, fields, end,
    ):  # fmt: skip
        upper = fetch(inbox, row_letters, desk, UPPER, carry.upper, place)
        lower = fetch(inbox, row_letters, desk, LOWER, carry.lower, place)
        state = State(carry, upper, lower, threshold, threshold)
        state, row, desk = turns(
            opened, e, letters, inbox, outbox, row_letters, desk, first_row, rows, costs, place, state, others
        )  # fmt: skip
        coming = begin_to_receive(query, column, fields, rows, end, place.lane)
        state, _, _ = turns(
            opened, e, letters, inbox, outbox, row_letters, desk, row, rows, costs, place, state, last
        )  # fmt: skip
        return state.carry, maximum(state.high, state.higher), coming

    return sweep_and_receive
