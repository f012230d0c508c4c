"""The kernel that traces a list of leaves.

A warp computes the directions of a leaf, and one of its lanes walks back through them.

Each leaf has room for its longest possible path, but most paths have far fewer runs. A warp that knows the
number of its runs reserves as many places in a common array and moves them there. The common array has no
gaps, and only its used part is copied to the host. The order of the paths in it is the order in which warps
finish.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np
from numba import int32, int64, uint8, uint32

from longalign.backends import trace_table
from longalign.backends.cuda.config import LANES
from longalign.backends.cuda.device.directions import direction_at, filled_of, make_fill
from longalign.backends.cuda.device.sync import ALL_LANES
from longalign.backends.cuda.numba_api import cuda, jit_kernel
from longalign.model import recurrence

# The fields of the results, int32, one row for each leaf: the index of its first run, and the number of runs.
FOUND_AT, FOUND_RUNS = 0, 1
FOUND_FIELDS = 2

#: The types of the kernel's arguments, all C-contiguous arrays.
SIGNATURE = (
    int64[:, ::1], uint8[::1], uint8[::1], int32[::1], int64[::1], uint32[::1], int32[::1], int32[::1],
    int32[::1], int32[:, ::1],
)  # fmt: skip

_step_back: Any = cuda.jit(device=True)(recurrence.step_back)
_walk: Any = cuda.jit(device=True)(trace_table.make_walk(_step_back, direction_at))


def build_kernel(has_matrix: bool) -> Any:
    """The kernel, compiled at its first launch.

    Launch it with a thread block of one warp for each leaf. Either all leaves have a matrix or none has. The
    arguments are

    - `table`, (leaves, TABLE_FIELDS); `query` and `target`, the letters of all leaves; `matrices`;
    - `column`, `words`, `runs`: memory for the edges between strips, the directions, and each leaf's runs;
    - output: `packed_runs`, the runs of all leaves; `used`, their number, 0 before the launch; and `found`,
      (leaves, FOUND_FIELDS).
    """

    fill = make_fill(has_matrix)

    @jit_kernel()
    def trace(table, query, target, matrices, column, words, runs, packed_runs, used, found):
        leaf = cuda.blockIdx.x
        if leaf >= table.shape[0]:
            return
        lane = np.int32(cuda.threadIdx.x)
        fill(table, leaf, query, target, matrices, column, words, lane)
        cuda.syncwarp()
        rows, end = table[leaf, trace_table.ROWS], table[leaf, trace_table.RUNS_END]
        count, at = np.int32(0), np.int32(0)
        if lane == 0:
            count = np.int32(
                _walk(
                    filled_of(words, table, leaf), rows, table[leaf, trace_table.COLS],
                    table[leaf, trace_table.EXIT], runs, end,
                )
            )  # fmt: skip
            at = np.int32(cuda.atomic.add(used, 0, count))
            found[leaf, FOUND_AT], found[leaf, FOUND_RUNS] = at, count
        cuda.syncwarp()
        count, at = cuda.shfl_sync(ALL_LANES, count, 0), cuda.shfl_sync(ALL_LANES, at, 0)
        for k in range(lane, count, LANES):
            packed_runs[at + k] = runs[end - count + k]

    return trace
