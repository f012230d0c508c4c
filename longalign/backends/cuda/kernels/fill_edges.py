"""The kernel that fills in linear edges. The host thus need not compute and upload their values."""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np
from numba import int64

from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.work_tables import pack
from longalign.backends.cuda.numba_api import cuda, jit_kernel
from longalign.model.boundary import linear_h
from longalign.model.scoring import NEG_INF

#: The types of the kernel's arguments, all C-contiguous arrays.
SIGNATURE = (int64[:, ::1], int64[::1], int64[::1])

#: About how many values a thread fills in, and the most thread blocks of a launch along y.
_VALUES_A_THREAD, _MAX_BLOCKS = 16, 1 << 15

_linear_h: Any = cuda.jit(device=True)(linear_h)


def build_kernel() -> Any:
    """The kernel, compiled at its first launch.

    The arguments are the table of linear edges, and the arrays of top and of left edges, as
    `worklist.WorkList` describes them. Thread blocks along y share the edges, threads along x the values of
    an edge.
    """

    @jit_kernel()
    def fill(edges, top, column):
        begin, step_x = cuda.grid(2)[0], cuda.gridsize(2)[0]
        untagged = np.int32(0)
        for edge in range(cuda.blockIdx.y, edges.shape[0], cuda.gridDim.y):
            at, length = edges[edge, work_tables.EDGE_AT], edges[edge, work_tables.LENGTH]
            corner, first = edges[edge, work_tables.CORNER], edges[edge, work_tables.FIRST]
            step = edges[edge, work_tables.STEP]
            if edges[edge, work_tables.SIDE] == work_tables.TOP:
                for k in range(begin, length + 1, step_x):
                    h = np.int32(_linear_h(corner, first, step, k))
                    top[at + k] = pack(h, np.int32(NEG_INF))
            else:
                for k in range(begin, length, step_x):
                    h = np.int32(_linear_h(corner, first, step, k + 1))
                    column[2 * (at + k)] = pack(h, untagged)
                    column[2 * (at + k) + 1] = pack(np.int32(NEG_INF), untagged)

    return fill


def grid_for(edges: Any, threads: int) -> tuple[int, int]:
    """The numbers of thread blocks, of `threads` threads, along x and y for a table of linear edges."""
    down = min(len(edges), _MAX_BLOCKS)
    longest = int(edges[:, work_tables.LENGTH].max()) + 1
    return -(-longest // (threads * _VALUES_A_THREAD)), down
