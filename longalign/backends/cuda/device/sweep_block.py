"""The sweep of one row block, by the code of its kind."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.device.block_kinds import (
    AMBIGUOUS,
    EXCLUDES_PAIRS,
    FAST_ALTERNATE_ROWS,
    MASKED,
    MASKED_STORES_ROW,
    ROW_BY_ROW,
    STORES_ROW,
)
from longalign.backends.cuda.device.letter_scores import has_blank_rows, letter_scores
from longalign.backends.cuda.device.masked_blocks import (
    make_sweep_excluding_block,
    make_sweep_row_by_row,
    make_sweep_storing_block,
)
from longalign.backends.cuda.device.row_block import make_sweep_and_receive, make_sweep_row_block
from longalign.backends.cuda.numba_api import jit_inlined


def make_sweep_block(config: KernelConfig, begin_receive: Any) -> Any:
    """A device function that sweeps a row block of any kind.

    It returns the lane's carry, the highest opened value or the threshold (see `replay`), the best cell,
    which only ROW_BY_ROW changes, and `incoming`, which only an early receive changes.
    """
    tracks_ambiguous, blank_rows = letter_scores(config).add_any is not None, has_blank_rows(config)
    may_skip_rows, receive_edge_early = config.may_skip_rows, config.receive_edge_early
    separate_store_row_code, excludes = config.separate_store_row_code, config.excludes
    sweep_fast, sweep_and_receive = (
        make_sweep_row_block(config), make_sweep_and_receive(config, begin_receive)
    )  # fmt: skip
    sweep_alternate_rows = make_sweep_row_block(config, FAST_ALTERNATE_ROWS)
    sweep_ambiguous, sweep_masked = (make_sweep_row_block(config, kind) for kind in (AMBIGUOUS, MASKED))
    sweep_store_row, sweep_masked_store_row = (
        make_sweep_storing_block(config, kind) for kind in (STORES_ROW, MASKED_STORES_ROW)
    )
    sweep_row_by_row, sweep_excluding = make_sweep_row_by_row(config), make_sweep_excluding_block(config)

    @jit_inlined
    def sweep_block(
        kind, opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, base, position,
        carry, best, replaying, threshold, lists, first_requested, requested, jobs, lines, memory,
        incoming, query, column, parameters, end, pairs,
    ):  # fmt: skip
        # In this order: with FAST first, the assembler makes slower loops of long sweeps.
        if kind == ROW_BY_ROW:
            carry, highest, best = sweep_row_by_row(
                opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, base,
                position, carry, best, replaying, threshold, lists, first_requested, jobs, lines,
                pairs,
            )  # fmt: skip
        elif excludes and kind == EXCLUDES_PAIRS:
            carry, highest = sweep_excluding(
                opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, position,
                carry, threshold, pairs, lists,
            )  # fmt: skip
        elif separate_store_row_code and kind == STORES_ROW:
            carry, highest = sweep_store_row(
                opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, base,
                position, carry, threshold, requested, jobs, lines, memory,
            )  # fmt: skip
        elif kind == MASKED_STORES_ROW:
            carry, highest = sweep_masked_store_row(
                opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, base,
                position, carry, threshold, requested, jobs, lines, memory,
            )  # fmt: skip
        elif not blank_rows and kind == MASKED:
            carry, highest = sweep_masked(
                opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, position,
                carry, threshold,
            )  # fmt: skip
        elif tracks_ambiguous and kind == AMBIGUOUS:
            carry, highest = sweep_ambiguous(
                opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, position,
                carry, threshold,
            )  # fmt: skip
        elif may_skip_rows and kind == FAST_ALTERNATE_ROWS:
            carry, highest = sweep_alternate_rows(
                opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, position,
                carry, threshold,
            )  # fmt: skip
        elif receive_edge_early:
            carry, highest, incoming = sweep_and_receive(
                opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, position,
                carry, threshold, query, column, parameters, end,
            )  # fmt: skip
        else:
            carry, highest = sweep_fast(
                opened, e, letters, inbox, outbox, row_letters, cursor, first_row, rows, costs, position,
                carry, threshold,
            )  # fmt: skip
        return carry, highest, best, incoming

    return sweep_block
