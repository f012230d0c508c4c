"""The best cell: what outranks it, and where in a row it is."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np

from longalign.backends.cuda.config import LANES, STEP_ROWS, KernelConfig
from longalign.backends.cuda.device.number_formats import ARITHMETIC
from longalign.backends.cuda.device.sync import ALL_LANES
from longalign.backends.cuda.numba_api import cuda
from longalign.model import recurrence

#: A score and where it is, by boundary indices; all 0 for no cell with a positive score. While it is known
#: only in which row block the cell is (see `replay`), i and j are those of one below and right of all there,
#: and the score may be too low by the slack.
Best = namedtuple("Best", "score i j")


@cuda.jit(device=True)
def no_best():
    """What a strip begins with."""
    return Best(np.int32(0), np.int32(0), np.int32(0))


_outranks = cuda.jit(device=True)(recurrence.outranks)


@cuda.jit(device=True)
def best_of_warp(best):
    """The highest-ranking cell of all lanes, in every lane."""
    distance = LANES // 2
    while distance > 0:
        score = cuda.shfl_down_sync(ALL_LANES, best.score, distance)
        i = cuda.shfl_down_sync(ALL_LANES, best.i, distance)
        j = cuda.shfl_down_sync(ALL_LANES, best.j, distance)
        if _outranks(score, i, j, best.score, best.i, best.j):
            best = Best(score, i, j)
        distance //= 2
    return Best(
        cuda.shfl_sync(ALL_LANES, best.score, 0), cuda.shfl_sync(ALL_LANES, best.i, 0),
        cuda.shfl_sync(ALL_LANES, best.j, 0),
    )  # fmt: skip


@cache
def make_threshold(config: KernelConfig) -> Any:
    """A device function for what an opened value must exceed to be looked at."""
    arithmetic = ARITHMETIC[config.numbers]
    number, select, highest = arithmetic.number, arithmetic.select, arithmetic.highest

    @cuda.jit(device=True)
    def threshold(best, best_elsewhere, i, j, costs, base, used, slack):
        """Cells from row i and column j on follow; ties matter while one could outrank `best`, and so do
        cells that are lower by up to `slack`.

        `best_elsewhere` is a score found elsewhere in the rectangle, in an unknown cell: ties matter.
        Halves without a bit in `used` are right of the strip: nothing there exceeds `highest`.
        """
        tie = np.int32(1 if np.int32(i + j) <= np.int32(best.i + best.j) else 0)
        score = max(np.int32(best.score - tie), np.int32(best_elsewhere - 1))
        return select(used, number(np.int32(score - slack - costs.opening), base), highest)

    return threshold


@cache
def make_note_best(config: KernelConfig) -> Any:
    """A device function that looks at a row which exceeds the threshold."""
    arithmetic, halves, columns = ARITHMETIC[config.numbers], np.int32(config.halves), config.columns
    part, value = arithmetic.part, arithmetic.value

    @cuda.jit(device=True)
    def first_column(opened, half, sought):
        """The lowest index of a value that is there."""
        found = np.int32(0)
        for k in range(columns):
            if part(opened[columns - 1 - k], half) == sought:
                found = np.int32(columns - 1 - k)
        return found

    @cuda.jit(device=True)
    def note(best, opened, highest, threshold, i, j, costs, base):
        """`best`, or a cell of the row that outranks it; i and j are those of the first part."""
        for half in range(halves):
            sought = part(highest, half)
            if sought > part(threshold, half):
                score = np.int32(value(highest, half, base) + costs.opening)
                column = np.int32(j + half * columns + first_column(opened, half, sought))
                row = np.int32(i - STEP_ROWS * half)
                if _outranks(score, row, column, best.score, best.i, best.j):
                    best = Best(score, row, column)
        return best

    return note
