"""Row blocks that are left out because no path of interest can meet them (see `longalign.model.pruning`).

A row block is a staircase here: each part of the strip is a step above its left neighbour. What can be
gained is looked up for the rectangle around it, from the first row of the strip's last part to the last row
of its first part.

**The test.** All cells from which a path enters a row block are at hand. The lanes hold the row above their
next cells, their left neighbours hand on two more, and the left edge has just been received. A block is left
out if none of these values reaches the bound with what can still be gained. Where parts have not started, the
row above their cells is the top edge.

**What is left behind.** On the right edge and in requested rows there are the values of
`pruning.values_left_out`. The lanes keep what they hold, but it no longer counts: the base of the strip
becomes LEFT_OUT_BASE. Further blocks that are left out therefore only look at the left edge. H on the left
edge above the next row is kept, since a path may enter the next block there.

**A block that is swept.** Values of cells that were left out may be far below those beside them, or minus
infinity. Values below a floor are therefore raised to it, before the base is moved. `planning.raised_range`
proves that the floor is never above the true values, and that 16 bits then hold all numbers of the block.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from longalign.backends.cuda.config import LANES, STEP_ROWS, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.letter_scores import UNAMBIGUOUS, letter_scores
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.requested_rows import first_requested_below, requested_row
from longalign.backends.cuda.device.row import LaneEdge
from longalign.backends.cuda.device.row_block import LaneCarry
from longalign.backends.cuda.device.strip_edges import IncomingRow, make_write_edge
from longalign.backends.cuda.device.sync import ALL_LANES, Values
from longalign.backends.cuda.numba_api import cuda
from longalign.model import pruning as model

#: The base of a strip whose last row block was left out. No other base is as low.
LEFT_OUT_BASE = np.int32(-(1 << 31))

#: The fields of a rectangle that its row blocks need, as in `work_tables`: the bound, whether the best score
#: raises it, alpha, H and the gap state in cells that were left out, and how far the floor lies below the
#: highest value around a row block.
JobPruning = namedtuple("JobPruning", "bound rises gap_open h gap reach")

#: What bounds the gains of a strip's row blocks: where the query's table begins, the target's limits at the
#: strip's first column boundary (`model.limits_at`), and the strip's last column boundary.
StripGains = namedtuple("StripGains", "query_at target last")

_is_needed = cuda.jit(device=True)(model.is_needed)
_limits_at = cuda.jit(device=True)(model.limits_at)
_gain_within = cuda.jit(device=True)(model.gain_within)


@cuda.jit(device=True)
def read_pruning(jobs, job):
    """The `JobPruning` of a rectangle."""
    opening, extend = np.int32(jobs[job, work_tables.OPENING]), np.int32(jobs[job, work_tables.EXTEND])
    return JobPruning(
        np.int32(jobs[job, work_tables.BOUND]), jobs[job, work_tables.BOUND_RISES] != 0,
        np.int32(opening - extend), np.int32(jobs[job, work_tables.LEFT_OUT_H]),
        np.int32(jobs[job, work_tables.LEFT_OUT_GAP]), np.int32(jobs[job, work_tables.REACH]),
    )  # fmt: skip


@cuda.jit(device=True)
def read_gains(jobs, job, strips, strip, lists):
    """The `StripGains` of a strip."""
    first = np.int64(strips[strip, work_tables.FIRST_COLUMN])
    last = np.int32(first + strips[strip, work_tables.WIDTH])
    target_at, cols = jobs[job, work_tables.TARGET_GAIN_AT], jobs[job, work_tables.COLS]
    target = _limits_at(lists, target_at, cols, first)
    return StripGains(jobs[job, work_tables.QUERY_GAIN_AT], target, last)


@cuda.jit(device=True)
def query_limits(row, gains, jobs, job, lists):
    """`model.limits_at` of the query, at a row boundary, or the nearest one inside the rectangle."""
    rows = jobs[job, work_tables.ROWS]
    row = min(max(np.int64(row), np.int64(0)), rows)
    return _limits_at(lists, gains.query_at, rows, row)


@cuda.jit(device=True)
def is_left_out(highest, limits, gains, end, slope, pruning, best_score):
    """Whether a row block may be left out; the same in all lanes.

    `highest` is the highest value around the block that this lane knows. `limits` are those of the query at
    the block's first row boundary. `end` is the block's last row boundary, or one below. `slope` is beta.
    """
    bound = max(pruning.bound, best_score) if pruning.rises else pruning.bound
    by_row = _gain_within(limits, np.int64(slope), gains.last)
    by_column = _gain_within(gains.target, np.int64(slope), end)
    needed = _is_needed(
        np.int64(highest), min(by_row, by_column), np.int64(pruning.gap_open), np.int64(bound)
    )
    return not cuda.any_sync(ALL_LANES, needed)


@cuda.jit(device=True)
def raise_row(incoming, floor):
    """An `IncomingRow` whose H is at least `floor`."""
    edge = incoming.edge
    return IncomingRow(Values(max(edge.h, floor), edge.gap), incoming.code, incoming.above)


def make_highest_around(config: KernelConfig) -> Any:
    """A device function that returns the highest value from which a path enters a row block by this lane.

    `edge` is H on the left edge above the block. `one` and `other` are the rows that `receive` has returned.
    """
    columns, halves = config.columns, config.halves
    maximum, value = ARITHMETIC[config.numbers].maximum, ARITHMETIC[config.numbers].value

    @cuda.jit(device=True)
    def highest_around(opened, e, carry, base, edge, one, other, opening, pruning):
        found = max(max(pruning.h, edge), max(one.edge.h, other.edge.h))
        found = max(found, max(one.edge.gap, other.edge.gap))
        if base != LEFT_OUT_BASE:
            h = maximum(carry.diagonal, maximum(carry.upper.open, carry.lower.open))
            gap = maximum(carry.upper.gap, carry.lower.gap)
            for k in range(columns):
                h, gap = maximum(h, opened[k]), maximum(gap, e[k])
            for half in range(halves):
                found = max(found, np.int32(value(h, np.int32(half), base) + opening))
                found = max(found, value(gap, np.int32(half), base))
        return found

    return highest_around


def make_enter_block(config: KernelConfig) -> Any:
    """A device function that raises what a lane holds to `floor`, and moves it to the base `new_base`.

    It returns the lane's carry. `edge` is H on the left edge above the row block.
    """
    columns, arithmetic = config.columns, ARITHMETIC[config.numbers]
    maximum, number, moved, join = arithmetic.maximum, arithmetic.number, arithmetic.moved, arithmetic.join

    @cuda.jit(device=True)
    def begin_anew(opened, e, edge, opening, pruning, floor, base, lane):
        """After a row block that was left out."""
        h = max(pruning.h, floor)
        open_number = number(np.int32(h - opening), base)
        gap_number = number(max(pruning.gap, np.int32(h - pruning.gap_open)), base)
        for k in range(columns):
            opened[k], e[k] = open_number, gap_number
        corner = number(np.int32(max(edge, floor) - opening), base)
        above = LaneEdge(open_number, gap_number)
        return LaneCarry(above, above, join(corner, open_number) if lane == 0 else open_number)

    @cuda.jit(device=True)
    def move(opened, e, carry, by, lowest, lowest_gap):
        for k in range(columns):
            opened[k] = maximum(moved(opened[k], by), lowest)
            e[k] = maximum(moved(e[k], by), lowest_gap)
        upper, lower = carry.upper, carry.lower
        return LaneCarry(
            LaneEdge(maximum(moved(upper.open, by), lowest), maximum(moved(upper.gap, by), lowest_gap)),
            LaneEdge(maximum(moved(lower.open, by), lowest), maximum(moved(lower.gap, by), lowest_gap)),
            maximum(moved(carry.diagonal, by), lowest),
        )

    @cuda.jit(device=True)
    def enter_block(opened, e, carry, base, new_base, edge, opening, pruning, floor, lane):
        if base == LEFT_OUT_BASE:
            carry = begin_anew(opened, e, edge, opening, pruning, floor, new_base, lane)
        else:
            lowest = number(np.int32(floor - opening), new_base)
            lowest_gap = number(np.int32(floor - pruning.gap_open), new_base)
            carry = move(opened, e, carry, np.int64(new_base) - base, lowest, lowest_gap)
        return carry

    return enter_block


def make_leave_out(config: KernelConfig) -> Any:
    """A device function that stores the right edge of a row block that is left out.

    Returns H of the block's last row on the left edge, and whether it has an ambiguous letter that the kernel
    must treat separately.
    """
    last_row, loads = config.block_rows - 1, config.rows_per_lane
    tracks_ambiguous, write_edge = letter_scores(config).add_any is not None, make_write_edge(config)

    @cuda.jit(device=True)
    def leave_out(
        one, other, column, lines, jobs, job, parameters, pruning, rows, tag, requested_column, first, lane
    ):  # fmt: skip
        """The arguments are those of `strip_edges.make_store_edge`."""
        values = Values(pruning.h, pruning.gap)
        write_edge(
            values, values, column, lines, jobs, job, parameters, rows, tag, requested_column, first, lane
        )
        codes = one.code | one.above | other.code | other.above
        ambiguous = tracks_ambiguous and cuda.any_sync(ALL_LANES, codes >= UNAMBIGUOUS)
        edge = other.edge.h if loads > 1 else one.edge.h
        return cuda.shfl_sync(ALL_LANES, edge, last_row % LANES), ambiguous

    return leave_out


def make_store_left_out(config: KernelConfig) -> Any:
    """A device function that stores what a row block that is left out leaves behind in requested rows.

    `requested` is the requested row that some part had yet to pass before an earlier row block. Returns the
    one that some part had yet to pass before this row block.

    Each lane writes its own columns, which is slow but rare: the strips beside it do not wait for requested
    rows, only for its right edge.
    """
    columns, halves, block_rows = config.columns, config.halves, np.int32(config.block_rows)

    @cuda.jit(device=True)
    def store_part(lines, position, half, number, jobs, pruning):
        first, length = np.int32(position.first + half * columns), jobs[position.job, work_tables.COLS] + 1
        at = jobs[position.job, work_tables.ROW_OUT_AT] + number * 2 * length + 1 + first
        for k in range(np.int32(min(columns, position.width - half * columns))):
            lines[np.uint64(at + k)] = pruning.h
            lines[np.uint64(at + length + k)] = pruning.gap

    @cuda.jit(device=True)
    def store_left_out(lines, position, requested, start, last_part_lag, lists, jobs, pruning):
        job, passed = position.job, np.int32(start - last_part_lag)
        number = first_requested_below(passed, requested.number, lists, jobs, job)
        first = each = requested_row(number, lists, jobs, job)
        while 0 < each.row <= start + block_rows:
            for half in range(halves):
                swept = np.int32(start - STEP_ROWS * (halves * position.lane + half))
                if swept < each.row <= swept + block_rows:
                    store_part(lines, position, np.int32(half), each.number, jobs, pruning)
            each = requested_row(np.int32(each.number + 1), lists, jobs, job)
        return first

    return store_left_out
