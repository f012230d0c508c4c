"""What a warp publishes now and then while it sweeps a strip, and at the strip's end."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np

from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.strip_state import make_state_store
from longalign.backends.cuda.device.sync import (
    MAX_LEAD,
    REPORT_EVERY,
    let_neighbour_catch_up,
    publish_rows,
    stop_requested,
)
from longalign.backends.cuda.numba_api import cuda, jit_inlined


@cuda.jit(device=True)
def _finished_edge_rows(started, last_part_lag, rows):
    """Rows of a strip's right edge that are done when its first part has done `started` rows."""
    return min(rows, max(np.int32(0), np.int32(started - last_part_lag)))


def make_publish(config: KernelConfig) -> Any:
    """A device function that lets the right neighbour catch up, and publishes how far the strip has come.

    It is called every `REST_EVERY` row blocks and at the end of a band.
    """
    block_rows, lead = config.block_rows, config.strip_lag + MAX_LEAD * config.block_rows
    store_state, _ = make_state_store(config)

    @jit_inlined
    def publish(
        opened, e, strip_state, state, state_at, strips, strip, parameters, rows, tag, start, last_start,
        last_part_lag, column, flags, tickets, progress, lane, stop,
    ):  # fmt: skip
        """`start`: the first row that the first part has yet to sweep. Returns whether the host says stop."""
        is_last, stopped = start >= last_start, False
        passed = np.int32(start - last_part_lag - lead)
        if not is_last and 0 < passed < rows:
            let_neighbour_catch_up(
                column, parameters.column_at + passed, np.int32(tag + 1), strips[strip, work_tables.NEXT],
                tickets, lane,
            )  # fmt: skip
        if is_last or np.uint32(start) % np.uint32(REPORT_EVERY * block_rows) == 0:
            if last_start <= start < rows + last_part_lag:
                store_state(state, state_at, lane, opened, e, strip_state)
            begin = strips[strip, work_tables.FIRST_START]
            publish_rows(flags, strips[strip, work_tables.FLAG], np.int32(start - begin), lane)
            if lane == 0:
                report_rows = REPORT_EVERY * block_rows
                since = np.int32((start - 1) // report_rows * report_rows)
                before = _finished_edge_rows(max(since, begin), last_part_lag, rows)
                done = np.int64(_finished_edge_rows(start, last_part_lag, rows) - before)
                cuda.atomic.add(progress, 0, done * strips[strip, work_tables.WIDTH])
            stopped = stop_requested(stop)
        return stopped

    return publish
