"""What a warp does when it takes a strip: it finds its columns and loads what the strip begins with."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np

from longalign.backends.cuda.config import LANES, STEP_ROWS, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.letter_scores import has_blank_rows, letter_scores
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.row import LaneEdge
from longalign.backends.cuda.device.row_block import LaneCarry, StripPosition
from longalign.backends.cuda.device.strip_edges import (
    make_costs,
    make_load_columns,
    make_load_letters,
    make_load_rows,
)
from longalign.backends.cuda.device.strip_state import StripState, make_state_store
from longalign.backends.cuda.device.sync import wait_for_band
from longalign.backends.cuda.device.work_tables import low_of
from longalign.backends.cuda.numba_api import cuda


def _make_place(config: KernelConfig) -> Any:
    """A device function for a lane's columns of a strip."""
    columns, halves, arithmetic = config.columns, config.halves, ARITHMETIC[config.numbers]
    first_part, second_part, halves_if = arithmetic.first_part, arithmetic.second_part, arithmetic.halves

    @cuda.jit(device=True)
    def place(job, lane, first_of_strip, strip_width, last_part_lag, end_counts):
        """`end_counts`: the strip's right edge is requested, or another strip follows."""
        last_part = np.int32(last_part_lag // STEP_ROWS)
        part = np.int32(lane * halves)
        first = np.int32(first_of_strip + part * columns)
        width = min(max(np.int32(strip_width - part * columns), np.int32(0)), np.int32(halves * columns))
        last_column = np.int32((strip_width - 1) % columns)
        return StripPosition(
            job, lane, first, width, first_part if part == last_part else second_part,
            np.int32(last_part // halves),
            halves_if(part == last_part, part + 1 == last_part), last_column,
            last_column < columns - 1 and end_counts,
        )  # fmt: skip

    return place


def _make_load_target(config: KernelConfig) -> Any:
    """A device function that loads what a lane keeps of the target letters of its columns, or writes its part
    of the strip's profile."""
    halves, fill = config.halves, letter_scores(config).fill
    load_letters, lane_costs = make_load_letters(config), make_costs(config)

    @cuda.jit(device=True)
    def write_profile(letters, profile, lane_at, position, end_column, parameters, jobs, target, matrices):
        fill(profile, lane_at, matrices, target, jobs, position.job, position.first, end_column)

    @cuda.jit(device=True)
    def load(letters, profile, lane_at, position, end_column, parameters, jobs, target, matrices):
        costs, target_at = lane_costs(parameters, np.int32(0)), jobs[position.job, work_tables.TARGET_AT]
        for half in range(halves):
            load_letters(
                letters, half, position.first, position.width, target, target_at, costs.match, costs.mismatch
            )

    return load if fill is None else write_profile


def make_load_strip(config: KernelConfig) -> Any:
    """A device function that loads a strip: target letters, and the state in which its sweep begins."""
    span, blank_rows, state_words = config.span, has_blank_rows(config), config.state_words
    arithmetic = ARITHMETIC[config.numbers]
    number, base_below = arithmetic.number, arithmetic.base
    place, load_target = _make_place(config), _make_load_target(config)
    load_columns, lane_costs = make_load_columns(config), make_costs(config)
    (_, load_letters_again), (_, load_state) = make_load_rows(config), make_state_store(config)

    @cuda.jit(device=True)
    def load_top(opened, e, first_of_strip, end_column, position, parameters, jobs, top):
        """The state at the strip's upper end, from the top boundary of the rectangle."""
        top_at = jobs[position.job, work_tables.TOP_AT]
        edge = low_of(top[top_at + first_of_strip])
        base = base_below(edge, parameters.base_offset)
        costs = lane_costs(parameters, base)
        diagonal = load_columns(
            opened, e, position.first, end_column, top, top_at, parameters.extend, costs, base
        )
        low = number(np.int32(-costs.opening), base)
        above = LaneEdge(low, low)
        return StripState(LaneCarry(above, above, diagonal), edge, base, np.int32(0), np.int32(0))

    @cuda.jit(device=True)
    def load_strip(
        opened, e, letters, row_letters, letter_ring_at, profile, lane_at, strips, strip, jobs, parameters,
        rows, requested_column, query, target, matrices, top, state, flags, stop, lane,
    ):  # fmt: skip
        """Returns the strip's position and state, and whether the host says stop: both are invalid then."""
        job, first_start = strips[strip, work_tables.JOB], strips[strip, work_tables.FIRST_START]
        strip_width = np.int32(strips[strip, work_tables.WIDTH])
        first_of_strip = strips[strip, work_tables.FIRST_COLUMN]
        end_column = np.int32(first_of_strip + strip_width)
        end_counts = requested_column >= 0 or end_column < jobs[job, work_tables.COLS]
        last_part_lag = strips[strip, work_tables.LAST_PART_LAG]
        position = place(job, lane, first_of_strip, strip_width, last_part_lag, end_counts)
        load_target(letters, profile, lane_at, position, end_column, parameters, jobs, target, matrices)
        stopped = False
        if first_start == 0:
            strip_state = load_top(opened, e, first_of_strip, end_column, position, parameters, jobs, top)
        else:
            number_from_left = np.int64(strips[strip, work_tables.NUMBER])
            state_at = jobs[job, work_tables.STATE_AT] + number_from_left * state_words * LANES
            stopped = wait_for_band(
                flags, strips[strip, work_tables.FLAG_ABOVE], strips[strip, work_tables.DONE_ABOVE], stop
            )
            strip_state = load_state(state, state_at, lane, opened, e)
        # Above the rectangle, only parts that sweep on there read letters.
        if blank_rows or first_start > 0:
            load_letters_again(
                row_letters, letter_ring_at, query, parameters, rows, np.int32(first_start - span),
                first_start, lane,
            )  # fmt: skip
        return position, strip_state, stopped

    return load_strip
