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
from longalign.backends.cuda.device.letter_scores import NO_LETTER, UNAMBIGUOUS, has_blanks, letter_scores
from longalign.backends.cuda.device.number_formats import NUMBERS
from longalign.backends.cuda.device.ptx import load_shared, store_shared
from longalign.backends.cuda.device.row import Costs, Edge
from longalign.backends.cuda.device.row_block import LETTER_BYTES, Carry
from longalign.backends.cuda.device.sync import (
    ALL_LANES,
    POLL_NANOSECONDS,
    Values,
    any_missing,
    read_tagged,
    told_to_stop,
    untagged,
    write_tagged,
)
from longalign.backends.cuda.device.work_tables import high_of, low_of
from longalign.backends.cuda.numba_api import cuda

#: What a batch needs to know of its rectangle; the words are those of `layout`.
Fields = namedtuple("Fields", "match mismatch opening extend below query_at column_at")

#: What a lane reads of a row: its left edge, its letter, and that of the row on which the other half of a
#: packed number is, a step behind; of the nearest row where there is none.
Row = namedtuple("Row", "edge code above")


@cuda.jit(device=True)
def read_fields(jobs, job):
    """What is to be known of a rectangle."""
    return Fields(
        np.int32(jobs[job, work_tables.MATCH]), np.int32(jobs[job, work_tables.MISMATCH]),
        np.int32(jobs[job, work_tables.OPENING]), np.int32(jobs[job, work_tables.EXTEND]),
        np.int32(jobs[job, work_tables.BELOW]), jobs[job, work_tables.QUERY_AT],
        jobs[job, work_tables.COLUMN_AT],
    )  # fmt: skip


def make_costs(config: KernelConfig) -> Any:
    """A device function for the scores of a rectangle, in numbers above an origin."""
    numbers = NUMBERS[config.numbers]
    number, cost = numbers.number, numbers.cost

    @cuda.jit(device=True)
    def costs_of(fields, origin):
        opening = fields.opening
        return Costs(
            np.int32(fields.match + opening), np.int32(fields.mismatch + opening), opening,
            number(opening, np.int32(0)), cost(fields.extend), number(np.int32(0), origin),
        )  # fmt: skip

    return costs_of


def make_load_columns(config: KernelConfig) -> Any:
    """A device function that loads a lane's columns from the top boundary."""
    columns, halves = config.columns, config.halves
    numbers = NUMBERS[config.numbers]
    join, number, raised = numbers.join, numbers.number, numbers.raised

    @cuda.jit(device=True)
    def load_columns(opened, e, first, end, top, top_at, extend, costs, origin):
        """Returns opened above and left of the first cells.

        Beyond the strip's end, the last value goes on: `kernel` says why that does no harm.
        """
        opening, gap_open = costs.amount, np.int32(costs.amount - extend)
        diagonal = np.int32(0)
        for half in range(halves):
            for k in range(columns):
                value = top[np.uint64(top_at + min(np.int32(first + half * columns + k + 1), end))]
                h, gap = low_of(value), high_of(value)
                relative = number(np.int32(h - opening), origin)
                relative_e = number(raised(gap, h, gap_open), origin)
                opened[k] = relative if half == 0 else join(opened[k], relative)
                e[k] = relative_e if half == 0 else join(e[k], relative_e)
            value = top[top_at + min(np.int32(first + half * columns), end)]
            relative = number(np.int32(low_of(value) - opening), origin)
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
    """A device function for the row of a batch from `start` on whose left edge stands in a slot.

    Beyond the last row of the batch or of the rectangle, it is that row: so there is always one to read, and
    waited for (see `sync`).
    """
    batch, full = config.batch, config.batch % LANES == 0

    @cuda.jit(device=True)
    def nearest(start, slot, rows):
        return min(np.int32(start + (slot if full else min(slot, np.int32(batch - 1)))), np.int32(rows - 1))

    return nearest


@cache
def _make_read_letters(config: KernelConfig) -> Any:
    """A device function that reads the letters of a `Row`."""
    has_other = config.halves == 2

    @cuda.jit(device=True)
    def read_letters(query, fields, rows, row):
        """The same letter twice where numbers have one half."""
        last = np.int32(rows - 1)
        there = min(max(row, np.int32(0)), last)
        above = min(max(np.int32(row - STEP_ROWS), np.int32(0)), last)
        code = query[np.uint64(fields.query_at + there)]
        return code, query[np.uint64(fields.query_at + above)] if has_other else code

    return read_letters


def make_receive(config: KernelConfig) -> tuple[Any, Any]:
    """A device function that reads a batch's left edge, as it happens to be, and its letters; and one that
    waits until the edge is complete.

    The first is called a batch before the second, or just long enough before for other things to be done
    while memory answers; see `KernelConfig.ahead`.
    """
    loads, nearest = -(-config.batch // LANES), _make_nearest(config)
    read_letters = _make_read_letters(config)

    @cuda.jit(device=True)
    def read_edges(column, fields, rows, start, lane):
        first = read_tagged(column, fields.column_at + nearest(start, lane, rows))
        second = first
        if loads > 1:
            row = nearest(start, np.int32(lane + LANES), rows)
            second = read_tagged(column, fields.column_at + row)
        return first, second

    @cuda.jit(device=True)
    def begin(query, column, fields, rows, start, lane):
        """Both rows of the lane."""
        one, other = read_edges(column, fields, rows, start, lane)
        code, above = read_letters(query, fields, rows, np.int32(start + lane))
        first = Row(one, code, above)
        second = first
        if loads > 1:
            code, above = read_letters(query, fields, rows, np.int32(start + lane + LANES))
            second = Row(other, code, above)
        return first, second

    @cuda.jit(device=True)
    def receive(coming, column, fields, rows, tag, start, lane, stop):
        """What `begin` has returned, with H and F of the edges in place of what is tagged; and whether the
        host says stop instead."""
        first, second = coming
        one, other = first.edge, second.edge
        stopped = False
        while not stopped and any_missing(one, other, tag):
            cuda.nanosleep(POLL_NANOSECONDS)  # others have work
            one, other = read_edges(column, fields, rows, start, lane)
            stopped = told_to_stop(stop)
        return (
            Row(untagged(one), first.code, first.above), Row(untagged(other), second.code, second.above),
            stopped,
        )  # fmt: skip

    return begin, receive


def make_load_rows(config: KernelConfig) -> tuple[Any, Any]:
    """A device function that puts a batch's left edge and row letters into shared memory, and one that puts
    earlier letters there."""
    batch, ring, loads = config.batch, config.ring, -(-config.batch // LANES)
    numbers, scores, slot_bytes = NUMBERS[config.numbers], letter_scores(config), config.slot_bytes
    number, raised, link_of, first_part = numbers.number, numbers.raised, numbers.link, numbers.first_part
    row_letter, plain_letter = scores.row, scores.plain_row or scores.row
    minds_ambiguous, full = scores.add_any is not None, config.batch % LANES == 0
    read_letters = _make_read_letters(config)
    blanks, blank = has_blanks(config), scores.blank

    @cuda.jit(device=True)
    def inside(letter, row, rows):
        """A row letter, without one in a half that is above the rectangle or below it, if parts sweep on."""
        if not blanks:
            return letter
        above, last = np.int32(row - STEP_ROWS), np.uint32(rows - 1)
        return blank(letter, np.uint32(row) > last, np.uint32(above) > last)

    @cuda.jit(device=True)
    def store_letter(row_letters, ring_at, row, letter):
        in_ring = np.int32(ring_at + LETTER_BYTES * (row & (ring - 1)))
        store_shared(row_letters, in_ring, letter)
        store_shared(row_letters, np.int32(in_ring + LETTER_BYTES * ring), letter)

    @cuda.jit(device=True)
    def load_row(
        inbox, inbox_at, row_letters, ring_at, read, ambiguous, fields, rows, start, slot, outside, origin
    ):  # fmt: skip
        row, opening = np.int32(start + slot), fields.opening
        gap_open = np.int32(opening - fields.extend)
        if full or slot < batch:
            code, above = read.code, read.above
            letter = row_letter(code, above) if ambiguous else plain_letter(code, above)
            if outside:
                letter = inside(letter, row, rows)
            store_letter(row_letters, ring_at, row, letter)
            here = read.edge.h
            gap = raised(read.edge.gap, here, gap_open)
            opened = number(np.int32(here - opening), origin)
            link = link_of(opened, number(gap, origin), first_part)
            store_shared(inbox, np.int32(inbox_at + slot_bytes * slot), link)

    @cuda.jit(device=True)
    def load_rows(
        inbox, inbox_at, row_letters, ring_at, first, second, fields, rows, start, lane, outside, origin
    ):
        """Returns H on the edge of the batch's last row, and whether the kernel must mind ambiguous letters
        in it, or in the two rows above. `outside`: some part is above the rectangle or below it."""
        # No letter of these is ambiguous if none has a bit from UNAMBIGUOUS, a power of two, on.
        codes = first.code | first.above | second.code | second.above
        ambiguous = minds_ambiguous and cuda.any_sync(ALL_LANES, codes >= UNAMBIGUOUS)
        load_row(
            inbox, inbox_at, row_letters, ring_at, first, ambiguous, fields, rows, start, lane, outside,
            origin,
        )  # fmt: skip
        if loads > 1:
            load_row(
                inbox, inbox_at, row_letters, ring_at, second, ambiguous, fields, rows, start,
                np.int32(lane + LANES), outside, origin,
            )  # fmt: skip
        edge = second.edge.h if loads > 1 else first.edge.h
        return cuda.shfl_sync(ALL_LANES, edge, (batch - 1) % LANES), ambiguous

    @cuda.jit(device=True)
    def load_letters_again(row_letters, ring_at, query, fields, rows, start, end, lane):
        """The letters of rows `start` to `end`, of which the first may be negative."""
        for each in range(start + lane, end, LANES):
            row = np.int32(each)
            code, above = read_letters(query, fields, rows, row)
            store_letter(row_letters, ring_at, row, inside(row_letter(code, above), row, rows))

    return load_rows, load_letters_again


def make_store_edge(config: KernelConfig) -> Any:
    """A device function that moves a batch's right edge from shared memory to where others read it."""
    batch, loads, full = config.batch, -(-config.batch // LANES), config.batch % LANES == 0
    unlink, slot_bytes = NUMBERS[config.numbers].unlink, config.slot_bytes

    @cuda.jit(device=True)
    def read(outbox, outbox_at, slot, fields, origin):
        """What is in a slot; beyond the batch, in its last one."""
        nearest = slot if full else min(slot, np.int32(batch - 1))
        opened, gap = unlink(load_shared(outbox, np.int32(outbox_at + slot_bytes * nearest)), origin)
        return Values(np.int32(opened + fields.opening), gap)

    @cuda.jit(device=True)
    def store_edge(
        outbox, outbox_at, column, lines, jobs, job, fields, rows, tag, wanted_column, first, lane, origin
    ):
        """The slots hold rows from `first` on, which may be negative."""
        # Both are read before either is written: loads overlap.
        one = read(outbox, outbox_at, lane, fields, origin)
        other = read(outbox, outbox_at, np.int32(lane + LANES), fields, origin) if loads > 1 else one
        row, below = np.int32(first + lane), np.int32(first + lane + LANES)
        has_one = (full or lane < batch) and np.uint32(row) < np.uint32(rows)
        has_other = loads > 1 and (full or lane + LANES < batch) and np.uint32(below) < np.uint32(rows)
        if has_one:
            write_tagged(column, fields.column_at + row, one.h, one.gap, tag)
        if has_other:
            write_tagged(column, fields.column_at + below, other.h, other.gap, tag)
        if wanted_column >= 0:
            length = rows + 1
            line_at = jobs[job, work_tables.COL_OUT_AT] + wanted_column * 2 * length + 1
            if has_one:
                lines[np.uint64(line_at + row)] = one.h
                lines[np.uint64(line_at + length + row)] = one.gap
            if has_other:
                lines[np.uint64(line_at + below)] = other.h
                lines[np.uint64(line_at + length + below)] = other.gap

    return store_edge


def make_rebase(config: KernelConfig) -> Any:
    """A device function that moves all numbers of a lane to another origin."""
    columns = config.columns
    subtract = NUMBERS[config.numbers].subtract

    @cuda.jit(device=True)
    def rebase(opened, e, carry, by):
        for k in range(columns):
            opened[k] = subtract(opened[k], by)
            e[k] = subtract(e[k], by)
        upper, lower = carry.upper, carry.lower
        return Carry(
            Edge(subtract(upper.open, by), subtract(upper.gap, by)),
            Edge(subtract(lower.open, by), subtract(lower.gap, by)),
            subtract(carry.diagonal, by),
        )

    return rebase
