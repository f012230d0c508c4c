"""The kernel that finds the blocks of requested lines in which anything was computed.

Where row blocks were left out, all cells have the same values. The host need not download these.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np
from numba import int32, int64

from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.numba_api import cuda, jit_kernel

#: The types of the kernel's arguments, all C-contiguous arrays.
SIGNATURE = (int32[::1], int64[:, ::1], int32[:, ::1])

#: Cells of a block.
BLOCK = 1 << 12

#: Threads that look at a block.
THREADS = 128


def build_kernel() -> Any:
    """The kernel, compiled at its first launch.

    Launch it with one thread block for each block of each line. Blocks of a line lie along x, lines along y.
    The arguments are the requested lines (`WorkList.line_values`), their table (`worklist.line_table`), and
    the result, (lines, blocks) int32, which is 0 where nothing was computed.
    """

    @jit_kernel()
    def find(values, table, computed):
        block, line = cuda.blockIdx.x, cuda.blockIdx.y
        at, length = table[line, work_tables.LINE_AT], table[line, work_tables.LINE_LENGTH]
        h, gap = table[line, work_tables.LEVEL_H], table[line, work_tables.LEVEL_GAP]
        end, differs = min((block + 1) * BLOCK, length), np.int32(0)
        for cell in range(block * BLOCK + cuda.threadIdx.x, end, THREADS):
            if values[at + cell] != h or values[at + length + 1 + cell] != gap:
                differs = np.int32(1)
        found = cuda.syncthreads_or(differs)
        if cuda.threadIdx.x == 0:
            computed[line, block] = found

    return find
