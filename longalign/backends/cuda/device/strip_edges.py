"""What comes into a strip and what leaves it, between 32-bit boundary values and a lane's numbers."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np

from longalign.backends.cuda.config import LANES, STEP_ROWS, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.letter_scores import NO_LETTER, UNAMBIGUOUS, has_blank_rows, letter_scores
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.ptx import load_shared, store_shared
from longalign.backends.cuda.device.row import LaneCosts, LaneEdge
from longalign.backends.cuda.device.row_block import LETTER_BYTES, LaneCarry
from longalign.backends.cuda.device.sync import (
    ALL_LANES,
    POLL_NANOSECONDS,
    Values,
    any_missing,
    read_tagged,
    stop_requested,
    untagged,
    write_tagged,
)
from longalign.backends.cuda.device.work_tables import high_of, low_of
from longalign.backends.cuda.numba_api import cuda

#: What a row block needs to know of its rectangle; the words are those of `work_tables`.
JobParameters = namedtuple("JobParameters", "match mismatch opening extend base_offset query_at column_at")

#: What a lane reads of a row: its left edge, its letter, and that of the row on which the other half of a
#: packed number is, a step behind; of the nearest row where there is none.
IncomingRow = namedtuple("IncomingRow", "edge code above")


@cuda.jit(device=True)
def read_parameters(jobs, job):
    """What is to be known of a rectangle."""
    return JobParameters(
        np.int32(jobs[job, work_tables.MATCH]), np.int32(jobs[job, work_tables.MISMATCH]),
        np.int32(jobs[job, work_tables.OPENING]), np.int32(jobs[job, work_tables.EXTEND]),
        np.int32(jobs[job, work_tables.BASE_OFFSET]), jobs[job, work_tables.QUERY_AT],
        jobs[job, work_tables.COLUMN_AT],
    )  # fmt: skip


def make_costs(config: KernelConfig) -> Any:
    """A device function for the scores of a rectangle, in numbers above a base."""
    arithmetic = ARITHMETIC[config.numbers]
    number, cost = arithmetic.number, arithmetic.cost

    @cuda.jit(device=True)
    def lane_costs(parameters, base):
        opening = parameters.opening
        return LaneCosts(
            np.int32(parameters.match + opening), np.int32(parameters.mismatch + opening), opening,
            number(opening, np.int32(0)), cost(parameters.extend), number(np.int32(0), base),
        )  # fmt: skip

    return lane_costs


def make_load_columns(config: KernelConfig) -> Any:
    """A device function that loads a lane's columns from the top boundary."""
    columns, halves = config.columns, config.halves
    arithmetic = ARITHMETIC[config.numbers]
    join, number, raised = arithmetic.join, arithmetic.number, arithmetic.raised

    @cuda.jit(device=True)
    def load_columns(opened, e, first, end, top, top_at, extend, costs, base):
        """Returns opened above and left of the first cells.

        Beyond the strip's end, the last value goes on: `kernels.sweep` says why that does no harm.
        """
        opening, gap_open = costs.opening, np.int32(costs.opening - extend)
        diagonal = np.int32(0)
        for half in range(halves):
            for k in range(columns):
                value = top[np.uint64(top_at + min(np.int32(first + half * columns + k + 1), end))]
                h, gap = low_of(value), high_of(value)
                relative = number(np.int32(h - opening), base)
                relative_e = number(raised(gap, h, gap_open), base)
                opened[k] = relative if half == 0 else join(opened[k], relative)
                e[k] = relative_e if half == 0 else join(e[k], relative_e)
            value = top[top_at + min(np.int32(first + half * columns), end)]
            relative = number(np.int32(low_of(value) - opening), base)
            diagonal = relative if half == 0 else join(diagonal, relative)
        return diagonal

    return load_columns


def make_load_letters(config: KernelConfig) -> Any:
    """A device function that loads what a lane keeps of the target letters of one half's columns."""
    columns = config.columns
    scores = letter_scores(config)
    column_letter, background = scores.column, scores.background

    @cuda.jit(device=True)
    def load_letters(letters, half, first, width, target, target_at, match, mismatch):
        """The lane has `width` columns from `first` on."""
        for k in range(columns):
            column = half * columns + k
            code = target[np.uint64(target_at + first + column)] if column < width else np.uint8(NO_LETTER)
            if column_letter is not None:
                letters[column] = column_letter(code, match, mismatch)
            if background is not None:
                letters[columns + k] = background(code, mismatch)

    return load_letters


@cache
def _make_nearest(config: KernelConfig) -> Any:
    """A device function for the row of a row block from `start` on whose left edge stands in a slot.

    Beyond the last row of the row block or of the rectangle, it is that row: so there is always one to read,
    and waited for (see `sync`).
    """
    block_rows, full = config.block_rows, config.block_rows % LANES == 0

    @cuda.jit(device=True)
    def nearest(start, slot, rows):
        return min(
            np.int32(start + (slot if full else min(slot, np.int32(block_rows - 1)))), np.int32(rows - 1)
        )

    return nearest


@cache
def _make_read_letters(config: KernelConfig) -> Any:
    """A device function that reads the letters of a `IncomingRow`."""
    has_other = config.halves == 2

    @cuda.jit(device=True)
    def read_letters(query, parameters, rows, row):
        """The same letter twice where numbers have one half."""
        last = np.int32(rows - 1)
        there = min(max(row, np.int32(0)), last)
        above = min(max(np.int32(row - STEP_ROWS), np.int32(0)), last)
        code = query[np.uint64(parameters.query_at + there)]
        return code, query[np.uint64(parameters.query_at + above)] if has_other else code

    return read_letters


def make_receive(config: KernelConfig) -> tuple[Any, Any]:
    """A device function that reads a row block's left edge, as it happens to be, and its letters; and one
    that waits until the edge is complete.

    The first is called a row block before the second, or just long enough before for other things to be done
    while memory answers; see `KernelConfig.ahead`.
    """
    loads, nearest = -(-config.block_rows // LANES), _make_nearest(config)
    read_letters = _make_read_letters(config)

    @cuda.jit(device=True)
    def read_edges(column, parameters, rows, start, lane):
        first = read_tagged(column, parameters.column_at + nearest(start, lane, rows))
        second = first
        if loads > 1:
            row = nearest(start, np.int32(lane + LANES), rows)
            second = read_tagged(column, parameters.column_at + row)
        return first, second

    @cuda.jit(device=True)
    def begin(query, column, parameters, rows, start, lane):
        """Both rows of the lane."""
        one, other = read_edges(column, parameters, rows, start, lane)
        code, above = read_letters(query, parameters, rows, np.int32(start + lane))
        first = IncomingRow(one, code, above)
        second = first
        if loads > 1:
            code, above = read_letters(query, parameters, rows, np.int32(start + lane + LANES))
            second = IncomingRow(other, code, above)
        return first, second

    @cuda.jit(device=True)
    def receive(incoming, column, parameters, rows, tag, start, lane, stop):
        """What `begin` has returned, with H and F of the edges in place of what is tagged; and whether the
        host says stop instead."""
        first, second = incoming
        one, other = first.edge, second.edge
        stopped = False
        while not stopped and any_missing(one, other, tag):
            cuda.nanosleep(POLL_NANOSECONDS)  # others have work
            one, other = read_edges(column, parameters, rows, start, lane)
            stopped = stop_requested(stop)
        return (
            IncomingRow(untagged(one), first.code, first.above),
            IncomingRow(untagged(other), second.code, second.above), stopped,
        )  # fmt: skip

    return begin, receive


def make_load_rows(config: KernelConfig) -> tuple[Any, Any]:
    """A device function that puts a row block's left edge and row letters into shared memory, and one that
    puts earlier letters there."""
    block_rows, ring_slots, loads = config.block_rows, config.ring_slots, -(-config.block_rows // LANES)
    arithmetic, scores, slot_bytes = ARITHMETIC[config.numbers], letter_scores(config), config.slot_bytes
    number, raised, link_of, first_part = (
        arithmetic.number,
        arithmetic.raised,
        arithmetic.link,
        arithmetic.first_part,
    )
    row_letter, plain_letter = scores.row, scores.plain_row or scores.row
    tracks_ambiguous, full = scores.add_any is not None, config.block_rows % LANES == 0
    read_letters = _make_read_letters(config)
    blank_rows, blank = has_blank_rows(config), scores.blank

    @cuda.jit(device=True)
    def blank_outside(letter, row, rows):
        """A row letter, without one in a half that is above the rectangle or below it, if parts sweep on."""
        if not blank_rows:
            return letter
        above, last = np.int32(row - STEP_ROWS), np.uint32(rows - 1)
        return blank(letter, np.uint32(row) > last, np.uint32(above) > last)

    @cuda.jit(device=True)
    def store_letter(row_letters, letter_ring_at, row, letter):
        in_ring = np.int32(letter_ring_at + LETTER_BYTES * (row & (ring_slots - 1)))
        store_shared(row_letters, in_ring, letter)
        store_shared(row_letters, np.int32(in_ring + LETTER_BYTES * ring_slots), letter)

    @cuda.jit(device=True)
    def load_row(
        inbox, inbox_at, row_letters, letter_ring_at, read, ambiguous, parameters, rows, start, slot, outside,
        base,
    ):  # fmt: skip
        row, opening = np.int32(start + slot), parameters.opening
        gap_open = np.int32(opening - parameters.extend)
        if full or slot < block_rows:
            code, above = read.code, read.above
            letter = row_letter(code, above) if ambiguous else plain_letter(code, above)
            if outside:
                letter = blank_outside(letter, row, rows)
            store_letter(row_letters, letter_ring_at, row, letter)
            here = read.edge.h
            gap = raised(read.edge.gap, here, gap_open)
            opened = number(np.int32(here - opening), base)
            link = link_of(opened, number(gap, base), first_part)
            store_shared(inbox, np.int32(inbox_at + slot_bytes * slot), link)

    @cuda.jit(device=True)
    def load_rows(
        inbox,
        inbox_at,
        row_letters,
        letter_ring_at,
        first,
        second,
        parameters,
        rows,
        start,
        lane,
        outside,
        base,
    ):
        """Returns H on the edge of the row block's last row, and whether the kernel must mind ambiguous
        letters in it, or in the two rows above. `outside`: some part is above the rectangle or below it."""
        # No letter of these is ambiguous if none has a bit from UNAMBIGUOUS, a power of two, on.
        codes = first.code | first.above | second.code | second.above
        ambiguous = tracks_ambiguous and cuda.any_sync(ALL_LANES, codes >= UNAMBIGUOUS)
        load_row(
            inbox, inbox_at, row_letters, letter_ring_at, first, ambiguous, parameters, rows, start, lane,
            outside, base,
        )  # fmt: skip
        if loads > 1:
            load_row(
                inbox, inbox_at, row_letters, letter_ring_at, second, ambiguous, parameters, rows, start,
                np.int32(lane + LANES), outside, base,
            )  # fmt: skip
        edge = second.edge.h if loads > 1 else first.edge.h
        return cuda.shfl_sync(ALL_LANES, edge, (block_rows - 1) % LANES), ambiguous

    @cuda.jit(device=True)
    def load_letters_again(row_letters, letter_ring_at, query, parameters, rows, start, end, lane):
        """The letters of rows `start` to `end`, of which the first may be negative."""
        for each in range(start + lane, end, LANES):
            row = np.int32(each)
            code, above = read_letters(query, parameters, rows, row)
            store_letter(row_letters, letter_ring_at, row, blank_outside(row_letter(code, above), row, rows))

    return load_rows, load_letters_again


def make_store_edge(config: KernelConfig) -> Any:
    """A device function that moves a row block's right edge from shared memory to where others read it."""
    block_rows, loads, full = (
        config.block_rows,
        -(-config.block_rows // LANES),
        config.block_rows % LANES == 0,
    )
    unlink, slot_bytes = ARITHMETIC[config.numbers].unlink, config.slot_bytes

    @cuda.jit(device=True)
    def read(outbox, outbox_at, slot, parameters, base):
        """What is in a slot; beyond the row block, in its last one."""
        nearest = slot if full else min(slot, np.int32(block_rows - 1))
        opened, gap = unlink(load_shared(outbox, np.int32(outbox_at + slot_bytes * nearest)), base)
        return Values(np.int32(opened + parameters.opening), gap)

    @cuda.jit(device=True)
    def store_edge(
        outbox,
        outbox_at,
        column,
        lines,
        jobs,
        job,
        parameters,
        rows,
        tag,
        requested_column,
        first,
        lane,
        base,
    ):
        """The slots hold rows from `first` on, which may be negative."""
        # Both are read before either is written: loads overlap.
        one = read(outbox, outbox_at, lane, parameters, base)
        other = read(outbox, outbox_at, np.int32(lane + LANES), parameters, base) if loads > 1 else one
        row, below = np.int32(first + lane), np.int32(first + lane + LANES)
        has_one = (full or lane < block_rows) and np.uint32(row) < np.uint32(rows)
        has_other = loads > 1 and (full or lane + LANES < block_rows) and np.uint32(below) < np.uint32(rows)
        if has_one:
            write_tagged(column, parameters.column_at + row, one.h, one.gap, tag)
        if has_other:
            write_tagged(column, parameters.column_at + below, other.h, other.gap, tag)
        if requested_column >= 0:
            length = rows + 1
            line_at = jobs[job, work_tables.COL_OUT_AT] + requested_column * 2 * length + 1
            if has_one:
                lines[np.uint64(line_at + row)] = one.h
                lines[np.uint64(line_at + length + row)] = one.gap
            if has_other:
                lines[np.uint64(line_at + below)] = other.h
                lines[np.uint64(line_at + length + below)] = other.gap

    return store_edge


def make_rebase(config: KernelConfig) -> Any:
    """A device function that moves all numbers of a lane to another base."""
    columns = config.columns
    subtract = ARITHMETIC[config.numbers].subtract

    @cuda.jit(device=True)
    def rebase(opened, e, carry, by):
        for k in range(columns):
            opened[k] = subtract(opened[k], by)
            e[k] = subtract(e[k], by)
        upper, lower = carry.upper, carry.lower
        return LaneCarry(
            LaneEdge(subtract(upper.open, by), subtract(upper.gap, by)),
            LaneEdge(subtract(lower.open, by), subtract(lower.gap, by)),
            subtract(carry.diagonal, by),
        )

    return rebase
