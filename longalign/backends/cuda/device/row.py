"""One row of a lane: its columns from left to right, in both halves where numbers are packed."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.device.letter_scores import letter_scores
from longalign.backends.cuda.device.number_formats import ARITHMETIC, Arithmetic
from longalign.backends.cuda.device.ptx import store_if
from longalign.backends.cuda.numba_api import cuda
from longalign.model.recurrence import make_cell

#: The scores of a rectangle: letter scores plus alpha + beta, and alpha + beta itself, as integers; the
#: latter as `lower` takes it, beta as `subtract` does; and the number of the floor.
LaneCosts = namedtuple("LaneCosts", "match mismatch opening opening_number extend_cost floor")

#: H - alpha - beta and the gap state beside it.
LaneEdge = namedtuple("LaneEdge", "open gap")

#: Where a lane puts a row aside if it `stores` a requested one: in `memory` from `at` on (see
#: `requested_rows`).
RowBuffer = namedtuple("RowBuffer", "memory at stores")


@cache
def _make_cell(arithmetic: Arithmetic, local: bool) -> Any:
    """The recurrence in a lane's numbers, as a device function that all rows share."""
    return cuda.jit(device=True)(make_cell(arithmetic.maximum, arithmetic.subtract, local))


@cache
def make_row(
    config: KernelConfig, any_letters: bool, guarded: bool, watched: bool = True, stores_row: bool = False
) -> Any:
    """A device function that advances a lane by one row, from opened values (H - alpha - beta) in `above` and
    E in `e_above`.

    Those of the row go to `here` and `e_here`, which may be the same arrays; where `guarded`, only in halves
    with bits in `started`. It returns the right edge, and `highest` or, where `watched`, what opened value of
    the row is higher. `any_letters`: not only A C G T in the query. `stores_row`: the row is put aside where
    `row_buffer` says, if it `stores`, number by number, as stores that come all at once wait for one another.
    Without `stores_row`, `row_buffer` is None.

    Narrow strips spare F the way through H, which makes a column's part of the chain a single instruction.
    The last column's F is handed on and stored, and must be right where it is negative, too.
    """
    columns, early_until = config.columns, config.columns - 2 if config.narrow else 0
    arithmetic, scores = ARITHMETIC[config.numbers], letter_scores(config)
    cell = _make_cell(arithmetic, config.local)
    maximum, lower, select, begin = arithmetic.maximum, arithmetic.lower, arithmetic.select, scores.begin
    add_score = scores.add_any if any_letters and scores.add_any else scores.add
    strip_width = config.strip_width

    @cuda.jit(device=True)
    def advance(
        above, here, e_above, e_here, letters, letter, diagonal, left, highest, costs, started, row_buffer
    ):
        begin(letters, letter)
        open_left, f = left.open, left.gap
        for k in range(columns):
            open_up, e_up = above[k], e_above[k]
            paired = add_score(diagonal, letters, k, columns, letter, costs.match, costs.mismatch)
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
    """A device function that finds the right edge of a strip that ends inside a part, of a row just done.

    Opened is still there, and F follows from it and from what came from the left.
    """
    columns = config.columns
    arithmetic = ARITHMETIC[config.numbers]
    maximum, subtract, select = arithmetic.maximum, arithmetic.subtract, arithmetic.select

    @cuda.jit(device=True)
    def inner_edge(opened, left, right, extend_cost, final, last_column):
        """`final` has bits for the half that is the strip's last part."""
        here, f = left.open, left.gap
        for k in range(columns):
            if k > last_column:
                break
            f = maximum(subtract(f, extend_cost), here)
            here = opened[k]
        return LaneEdge(select(final, here, right.open), select(final, f, right.gap))

    return inner_edge
