"""What enters and leaves a strip: letters, and edges, converted between 32-bit values and a lane's numbers.

These arguments mean the same in all functions. `parameters` is a `JobParameters`. `inbox` and `outbox` are
the mailboxes in shared memory; each has a slot for the link of every row of a row block. The inbox holds the
left edge, the outbox the right edge. `row_letters` is the ring of row letters. `inbox_at`, `outbox_at` and
`letter_ring_at` are the addresses of the warp's part of these arrays. `column` holds the tagged edges between
strips (see `sync`), `lines` the requested rows and columns.
"""

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

#: The fields of a rectangle that its row blocks need, as in `work_tables`.
JobParameters = namedtuple("JobParameters", "match mismatch opening extend base_offset query_at column_at")

#: What a lane reads for a row: its values on the strip's left edge, as `Tagged` or `Values`; the code of its
#: letter; and the code of the letter a step above, where the high half of a packed number is at work. For a
#: row outside the rectangle, these are those of the nearest row inside.
IncomingRow = namedtuple("IncomingRow", "edge code above")


@cuda.jit(device=True)
def read_parameters(jobs, job):
    """The `JobParameters` of a rectangle."""
    return JobParameters(
        np.int32(jobs[job, work_tables.MATCH]), np.int32(jobs[job, work_tables.MISMATCH]),
        np.int32(jobs[job, work_tables.OPENING]), np.int32(jobs[job, work_tables.EXTEND]),
        np.int32(jobs[job, work_tables.BASE_OFFSET]), jobs[job, work_tables.QUERY_AT],
        jobs[job, work_tables.COLUMN_AT],
    )  # fmt: skip


def make_costs(config: KernelConfig) -> Any:
    """A device function that returns the `LaneCosts` of a rectangle, for numbers relative to a base."""
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
        """The lane's columns begin at `first`; those from `end` on are beyond the strip.

        Beyond the strip, the last value is repeated. `kernels.sweep` says why that does no harm. Returns the
        opened value above and left of the first cell, for each half.
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
    """A device function that loads what a lane keeps of the target letters of one half's columns.

    `letter_scores.LetterScores` says what that is.
    """
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
    """A device function that returns the row whose left edge belongs in a slot of the inbox.

    The row block begins at row `start`. Beyond the last row of the row block or of the rectangle, the result
    is that last row. A lane thus always has a row to read and to wait for (see `sync`).
    """
    block_rows, full = config.block_rows, config.fills_lanes

    @cuda.jit(device=True)
    def nearest(start, slot, rows):
        return min(
            np.int32(start + (slot if full else min(slot, np.int32(block_rows - 1)))), np.int32(rows - 1)
        )

    return nearest


@cache
def _make_read_letters(config: KernelConfig) -> Any:
    """A device function that reads the two letters of an `IncomingRow`."""
    has_other = config.halves == 2

    @cuda.jit(device=True)
    def read_letters(query, parameters, rows, row):
        """Where numbers have one half, both letters are that of the row."""
        last = np.int32(rows - 1)
        there = min(max(row, np.int32(0)), last)
        above = min(max(np.int32(row - STEP_ROWS), np.int32(0)), last)
        code = query[np.uint64(parameters.query_at + there)]
        return code, query[np.uint64(parameters.query_at + above)] if has_other else code

    return read_letters


def make_receive(config: KernelConfig) -> tuple[Any, Any]:
    """Device functions that begin and complete the receipt of a row block's left edge and letters.

    The first reads both, whether the edge is complete or not. The second waits until the edge is complete.
    The first is called early, so that other work overlaps with the latency of memory: a whole row block
    early, or only some rows (see `KernelConfig.prefetch_edge`).
    """
    loads, nearest = config.rows_per_lane, _make_nearest(config)
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
        """Returns the lane's two rows as `IncomingRow`s with `Tagged` edges.

        They are the same row twice where a row block has no more rows than lanes.
        """
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
        """Returns the two rows that `begin` has returned (`incoming`), with `Values` as their edges.

        The third result is whether the host has set `stop` while this warp waited. The rows are invalid then.
        """
        first, second = incoming
        one, other = first.edge, second.edge
        stopped = False
        while not stopped and any_missing(one, other, tag):
            cuda.nanosleep(POLL_NANOSECONDS)  # leaves the issue slots to other warps
            one, other = read_edges(column, parameters, rows, start, lane)
            stopped = stop_requested(stop)
        return (
            IncomingRow(untagged(one), first.code, first.above),
            IncomingRow(untagged(other), second.code, second.above), stopped,
        )  # fmt: skip

    return begin, receive


def make_load_rows(config: KernelConfig) -> tuple[Any, Any]:
    """Device functions that fill the inbox and the letter ring in shared memory.

    The first writes the left edge and the letters of a row block. The second writes letters of earlier rows.
    """
    block_rows, ring_slots, loads = config.block_rows, config.ring_slots, config.rows_per_lane
    arithmetic, scores, slot_bytes = ARITHMETIC[config.numbers], letter_scores(config), config.slot_bytes
    number, raised = arithmetic.number, arithmetic.raised
    link_of, first_part = arithmetic.link, arithmetic.first_part
    row_letter, plain_letter = scores.row, scores.plain_row or scores.row
    tracks_ambiguous, full = scores.add_any is not None, config.fills_lanes
    read_letters = _make_read_letters(config)
    blank_rows, blank = has_blank_rows(config), scores.blank

    @cuda.jit(device=True)
    def blank_outside(letter, row, rows):
        """The row letter with a blank in each half that is outside the rectangle, if parts sweep on there."""
        if not blank_rows:
            return letter
        above, last = np.int32(row - STEP_ROWS), np.uint32(rows - 1)
        return blank(letter, np.uint32(row) > last, np.uint32(above) > last)

    @cuda.jit(device=True)
    def store_letter(row_letters, letter_ring_at, row, letter):
        # Twice, `ring_slots` apart, so that the letters of a row block are contiguous in the ring.
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
        inbox, inbox_at, row_letters, letter_ring_at, first, second, parameters, rows, start, lane, outside,
        base,
    ):  # fmt: skip
        """`first` and `second` are the rows that `receive` has returned.

        `outside`: some part is above the rectangle or below it. Returns H of the row block's last row on the
        edge, and whether the block, or one of the two rows above it, has an ambiguous letter that the kernel
        must treat separately.
        """
        # UNAMBIGUOUS is a power of two: no letter is ambiguous if none has that bit or a higher one.
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
        """The letters of rows `start` to `end`. `start` may be negative."""
        for each in range(start + lane, end, LANES):
            row = np.int32(each)
            code, above = read_letters(query, parameters, rows, row)
            store_letter(row_letters, letter_ring_at, row, blank_outside(row_letter(code, above), row, rows))

    return load_rows, load_letters_again


def make_write_edge(config: KernelConfig) -> Any:
    """A device function that writes a lane's two rows of a right edge, each `Values`, to global memory.

    It passes the edge on to the strip to the right. If the edge is a requested column, it writes that, too.
    """
    block_rows, loads = config.block_rows, config.rows_per_lane
    full = config.fills_lanes

    @cuda.jit(device=True)
    def write_edge(
        one, other, column, lines, jobs, job, parameters, rows, tag, requested_column, first, lane
    ):  # fmt: skip
        """The arguments are those of `make_store_edge`."""
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

    return write_edge


def make_store_edge(config: KernelConfig) -> Any:
    """A device function that writes the right edge of a row block from the outbox to global memory.

    `make_write_edge` says where.
    """
    block_rows, loads = config.block_rows, config.rows_per_lane
    full, write_edge = config.fills_lanes, make_write_edge(config)
    unlink, slot_bytes = ARITHMETIC[config.numbers].unlink, config.slot_bytes

    @cuda.jit(device=True)
    def read(outbox, outbox_at, slot, parameters, base):
        """H and F in a slot, as `Values`. For slots beyond the row block they are those of the last slot."""
        nearest = slot if full else min(slot, np.int32(block_rows - 1))
        opened, gap = unlink(load_shared(outbox, np.int32(outbox_at + slot_bytes * nearest)), base)
        return Values(np.int32(opened + parameters.opening), gap)

    @cuda.jit(device=True)
    def store_edge(
        outbox, outbox_at, column, lines, jobs, job, parameters, rows, tag, requested_column, first, lane,
        base,
    ):  # fmt: skip
        """The slots hold rows from `first` on. Rows outside the rectangle are not stored; `first` may be < 0.

        `tag` is that of the values passed on. `requested_column` is the number of the requested column that
        this edge is, or -1.
        """
        # Both rows are read before either is written, so that the loads overlap.
        one = read(outbox, outbox_at, lane, parameters, base)
        other = read(outbox, outbox_at, np.int32(lane + LANES), parameters, base) if loads > 1 else one
        write_edge(one, other, column, lines, jobs, job, parameters, rows, tag, requested_column, first, lane)

    return store_edge


def make_rebase(config: KernelConfig) -> Any:
    """A device function that moves all numbers of a lane to another base.

    `by` is the difference of the bases, new minus old, as `Arithmetic.cost` returns it.
    """
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
