"""Which kind of row block comes next."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.device.block_kinds import (
    AMBIGUOUS,
    FAST,
    FAST_ALTERNATE_ROWS,
    MASKED,
    MASKED_STORES_ROW,
    ROW_BY_ROW,
    STORES_ROW,
)
from longalign.backends.cuda.device.letter_scores import has_blank_rows, letter_scores
from longalign.backends.cuda.device.replay import is_high
from longalign.backends.cuda.device.requested_rows import look_ahead, next_event
from longalign.backends.cuda.numba_api import jit_inlined


def make_choose_kind(config: KernelConfig) -> Any:
    """A device function that chooses the kind of a block by its place and by the requested rows it meets."""
    blank_rows, separate_store_row_code = has_blank_rows(config), config.separate_store_row_code

    @jit_inlined
    def choose(
        position, requested, start, end, last_part_lag, rows, outside, free_top, ambiguous_until,
        lists, jobs,
    ):  # fmt: skip
        """Returns the kind, and the next requested row that some part has yet to pass.

        `outside`: some part is above or below the rectangle. `free_top`: parts may sweep on above it.
        """
        masked = outside and not blank_rows
        kind = MASKED if masked else FAST
        if blank_rows and start < last_part_lag and not free_top:
            kind = MASKED_STORES_ROW
        if outside or end >= next_event(requested, rows) or position.ragged:
            lookahead = look_ahead(requested, start, end, last_part_lag, lists, jobs, position.job)
            requested = lookahead.requested
            if position.ragged or (masked and lookahead.stores_row):
                kind = MASKED_STORES_ROW
            if kind == FAST and lookahead.stores_row:
                kind = STORES_ROW if separate_store_row_code else MASKED_STORES_ROW
            # What only the way row by row can do: see `masked_blocks`.
            if lookahead.row_by_row or (kind != FAST and start < ambiguous_until):
                kind = ROW_BY_ROW
        return kind, requested

    return choose


def make_refine_kind(config: KernelConfig) -> Any:
    """A device function that replaces FAST by a kind that suits the letters and the scores so far."""
    tracks_ambiguous, may_skip_rows = letter_scores(config).add_any is not None, config.may_skip_rows

    @jit_inlined
    def refine(kind, start, ambiguous_until, best, best_elsewhere, watch_until, costs):
        if tracks_ambiguous and kind == FAST and start < ambiguous_until:
            kind = AMBIGUOUS
        if may_skip_rows and kind == FAST and start >= watch_until and is_high(
            max(best.score, best_elsewhere), costs
        ):  # fmt: skip
            kind = FAST_ALTERNATE_ROWS
        return kind

    return refine
