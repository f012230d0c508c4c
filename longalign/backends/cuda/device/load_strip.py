"""What a warp does when it takes a strip: it finds its columns and loads what the strip begins with."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np

from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.letter_scores import letter_scores
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.row import LaneEdge
from longalign.backends.cuda.device.row_block import LaneCarry, StripPosition
from longalign.backends.cuda.device.strip_edges import (
    make_costs,
    make_load_columns,
    make_load_letters,
    read_parameters,
)
from longalign.backends.cuda.device.strip_state import StripState
from longalign.backends.cuda.device.sync import highest_of_warp
from longalign.backends.cuda.device.work_tables import low_of
from longalign.backends.cuda.numba_api import cuda, jit_inlined


@jit_inlined
def _end_column(strips, strip):
    """The column boundary at the strip's right end."""
    width = np.int32(strips[strip, work_tables.WIDTH])
    return np.int32(strips[strip, work_tables.FIRST_COLUMN] + width)


def make_place(config: KernelConfig) -> Any:
    """A device function for a lane's columns of a strip."""
    columns, halves, arithmetic = config.columns, config.halves, ARITHMETIC[config.numbers]
    first_part, second_part, halves_if = arithmetic.first_part, arithmetic.second_part, arithmetic.halves

    @jit_inlined
    def place(strips, strip, jobs, job, lane):
        """Returns the lane's position, and what is to be known of the rectangle."""
        strip_width = np.int32(strips[strip, work_tables.WIDTH])
        first_of_strip = strips[strip, work_tables.FIRST_COLUMN]
        last_part = np.int32(strips[strip, work_tables.LAST_PART_LAG] // STEP_ROWS)
        part = np.int32(lane * halves)
        first = np.int32(first_of_strip + part * columns)
        width = min(max(np.int32(strip_width - part * columns), np.int32(0)), np.int32(halves * columns))
        last_column = np.int32((strip_width - 1) % columns)
        is_followed = np.int32(first_of_strip + strip_width) < jobs[job, work_tables.COLS]
        parameters, requested_column = read_parameters(jobs, job), strips[strip, work_tables.REQUESTED_COLUMN]
        position = StripPosition(
            job, lane, first, width, first_part if part == last_part else second_part,
            np.int32(last_part // halves),
            halves_if(part == last_part, part + 1 == last_part), last_column,
            last_column < columns - 1 and (requested_column >= 0 or is_followed),
        )  # fmt: skip
        return position, parameters

    return place


def make_load_target(config: KernelConfig) -> Any:
    """A device function that loads what a lane keeps of the target letters of its columns, or writes its part
    of the strip's profile."""
    halves, fill = config.halves, letter_scores(config).fill
    load_letters, lane_costs = make_load_letters(config), make_costs(config)

    @jit_inlined
    def write_profile(letters, profile, lane_at, strips, strip, position, parameters, jobs, target, matrices):
        end_column = _end_column(strips, strip)
        fill(profile, lane_at, matrices, target, jobs, position.job, position.first, end_column)

    @jit_inlined
    def load(letters, profile, lane_at, strips, strip, position, parameters, jobs, target, matrices):
        costs, target_at = lane_costs(parameters, np.int32(0)), jobs[position.job, work_tables.TARGET_AT]
        for half in range(halves):
            load_letters(
                letters, half, position.first, position.width, target, target_at, costs.match, costs.mismatch
            )

    return load if fill is None else write_profile


def make_load_top(config: KernelConfig) -> Any:
    """A device function for the state at a strip's upper end, from the top boundary of the rectangle."""
    number, base_below = ARITHMETIC[config.numbers].number, ARITHMETIC[config.numbers].base
    load_columns, lane_costs = make_load_columns(config), make_costs(config)
    columns, halves, prunes = config.columns, config.halves, config.prunes

    @cuda.jit(device=True)
    def highest_on_top(first, end, top, top_at):
        """The highest H on a strip's top edge, its corner included."""
        highest = low_of(top[np.uint64(top_at + min(first, end))])
        for k in range(halves * columns):
            highest = max(highest, low_of(top[np.uint64(top_at + min(np.int32(first + k + 1), end))]))
        return highest_of_warp(highest)

    @jit_inlined
    def load_top(opened, e, strips, strip, position, parameters, jobs, top):
        top_at = jobs[position.job, work_tables.TOP_AT]
        edge = low_of(top[top_at + strips[strip, work_tables.FIRST_COLUMN]])
        reference, outside = edge, np.int32(0)
        if prunes:  # where paths begin anywhere, H above the rectangle is 0, as in other kernels
            reference = highest_on_top(position.first, _end_column(strips, strip), top, top_at)
            outside = np.int32(jobs[position.job, work_tables.LEFT_OUT_H])
        base = base_below(reference, parameters.base_offset)
        costs = lane_costs(parameters, base)
        diagonal = load_columns(
            opened, e, position.first, _end_column(strips, strip), top, top_at, parameters.extend, costs, base
        )
        low = number(np.int32(outside - costs.opening), base)
        above = LaneEdge(low, low)
        return StripState(LaneCarry(above, above, diagonal), edge, base, np.int32(0), np.int32(0))

    return load_top
