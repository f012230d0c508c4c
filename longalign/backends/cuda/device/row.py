"""The sweep of one row by a lane: its columns from left to right, in both halves where numbers are packed."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.device.excluded_pairs import contains
from longalign.backends.cuda.device.letter_scores import letter_scores
from longalign.backends.cuda.device.number_formats import ARITHMETIC, Arithmetic
from longalign.backends.cuda.device.ptx import store_if
from longalign.backends.cuda.numba_api import cuda
from longalign.model.recurrence import make_cell

#: The scores of a rectangle. As int32: `match` and `mismatch`, each plus alpha + beta, and `opening`, alpha +
#: beta. In the format of the kernel's numbers: `opening_number`, alpha + beta for `Arithmetic.lower`;
#: `extend_cost`, beta for `Arithmetic.subtract`; and `floor`, the number of 0.
LaneCosts = namedtuple("LaneCosts", "match mismatch opening opening_number extend_cost floor")

#: A row's edge between parts: opened H (H - alpha - beta) and the gap state, as numbers.
LaneEdge = namedtuple("LaneEdge", "open gap")

#: Whether a lane copies its row to the warp's row buffer (`stores`), and where: in `memory`, from index `at`
#: on (see `requested_rows`).
RowBuffer = namedtuple("RowBuffer", "memory at stores")


@cache
def _make_cell(arithmetic: Arithmetic, local: bool) -> Any:
    """The recurrence in a lane's numbers, as a device function. It is cached, so that all rows share it."""
    return cuda.jit(device=True)(make_cell(arithmetic.maximum, arithmetic.subtract, local))


@cache
def make_row(
    config: KernelConfig,
    any_letters: bool,
    guarded: bool,
    watched: bool = True,
    stores_row: bool = False,
    excludes: bool = False,
) -> Any:
    """A device function that advances a lane by one row.

    It takes opened values (H - alpha - beta) in `above` and E in `e_above`, and writes those of the row to
    `here` and `e_here`, which may be the same arrays. It returns the right edge as a `LaneEdge`, and the
    maximum of `highest` and, if `watched`, the opened values of the row.

    `any_letters`: the query may have letters other than A, C, G and T. `guarded`: a half is written only if
    the mask `started` contains it. `stores_row`: the row is also copied to `row_buffer`, if that `stores`.
    Each number is copied as soon as it is known, since stores that are issued all at once wait for one
    another. Without `stores_row`, `row_buffer` is None. `excludes`: the letters of some columns
    are not paired with this row's letter. `excluded` says which (see `excluded_pairs`); otherwise it is None.

    In narrow strips F is opened from H without F (see `recurrence.make_cell`), so that a column adds a single
    instruction to the chain of dependent ones. The last two columns are excepted: F of the last column is
    passed on and stored, and must be correct even where it is negative.
    """
    columns, early_until = config.columns, config.columns - 2 if config.narrow else 0
    arithmetic, scores = ARITHMETIC[config.numbers], letter_scores(config)
    cell = _make_cell(arithmetic, config.local)
    maximum, lower, select, begin = arithmetic.maximum, arithmetic.lower, arithmetic.select, scores.begin
    halves_if, lowest = arithmetic.halves, arithmetic.lowest
    add_score = scores.add_any if any_letters and scores.add_any else scores.add
    strip_width = config.strip_width

    @cuda.jit(device=True)
    def advance(
        above, here, e_above, e_here, letters, letter, diagonal, left, highest, costs, started, row_buffer,
        excluded,
    ):  # fmt: skip
        begin(letters, letter)
        open_left, f = left.open, left.gap
        for k in range(columns):
            open_up, e_up = above[k], e_above[k]
            paired = add_score(diagonal, letters, k, columns, letter, costs.match, costs.mismatch)
            if excludes:
                unpaired = halves_if(contains(excluded.low, k), contains(excluded.high, k))
                paired = select(unpaired, lowest, paired)
            h, e, f, but_for_f = cell(paired, open_up, e_up, open_left, f, costs.extend_cost, costs.floor)
            diagonal, opened = open_up, lower(h, costs.opening_number)
            open_left = lower(but_for_f, costs.opening_number) if k < early_until else opened
            here[k] = select(started, opened, here[k]) if guarded else opened
            e_here[k] = select(started, e, e_here[k]) if guarded else e
            if stores_row:
                store_if(row_buffer.stores, row_buffer.memory, row_buffer.at + k, here[k])
                store_if(row_buffer.stores, row_buffer.memory, row_buffer.at + strip_width + k, e_here[k])
            if watched:
                highest = maximum(highest, opened)
        return LaneEdge(open_left, f), highest

    return advance


@cache
def make_inner_edge(config: KernelConfig) -> Any:
    """A device function that returns the right edge of a ragged strip, for the row just swept.

    The opened values of the row are still in `opened`. F is computed again from them and the left edge.
    """
    columns, select = config.columns, ARITHMETIC[config.numbers].select
    cell = _make_cell(ARITHMETIC[config.numbers], config.local)

    @cuda.jit(device=True)
    def inner_edge(opened, left, right, extend_cost, final, last_column):
        """`final` is a mask of the half that is the strip's last part. Other halves keep the edge `right`."""
        here, f = left.open, left.gap
        for k in range(columns):
            if k > last_column:
                break
            # Only F is used, which depends on `here`, `f` and the cost. The other arguments are stand-ins.
            f = cell(here, here, f, here, f, extend_cost, here)[2]
            here = opened[k]
        return LaneEdge(select(final, here, right.open), select(final, f, right.gap))

    return inner_edge
