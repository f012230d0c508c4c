"""Kernels for requested lines of rectangles in which cells are left out, before and after the sweep.

The first fills the lines with the values of cells that were left out. The sweep then stores only what it
computes. The second finds the blocks of lines in which anything was computed. The host need not download the
others.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numba import int32, int64

from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.numba_api import cuda, jit_kernel

#: The types of the kernels' arguments, all C-contiguous arrays.
FILL_SIGNATURE = (int32[::1], int64[:, ::1])
FIND_SIGNATURE = (int32[::1], int64[:, ::1], int32[:, ::1])

#: Cells of a block.
BLOCK = 1 << 12

#: Threads that look at a block.
THREADS = 128


@cuda.jit(device=True)
def _cells_of_block(table, line, block):
    """The index of H of the first cell of a line, its number of cells, and the cells that a block has."""
    length = table[line, work_tables.LINE_LENGTH]
    return table[line, work_tables.LINE_AT], length, block * BLOCK, min((block + 1) * BLOCK, length)


@cache
def build_fill() -> Any:
    """The first kernel, compiled at its first launch.

    Launch either with one thread block for each block of each line. Blocks of a line lie along x, lines along
    y. The arguments are the requested lines (`WorkList.line_values`) and their table (`worklist.line_table`).
    """

    @jit_kernel()
    def fill(values, table):
        at, length, begin, end = _cells_of_block(table, cuda.blockIdx.y, cuda.blockIdx.x)
        h = table[cuda.blockIdx.y, work_tables.LEVEL_H]
        gap = table[cuda.blockIdx.y, work_tables.LEVEL_GAP]
        for cell in range(begin + cuda.threadIdx.x, end, THREADS):
            values[at + cell] = h
            values[at + length + 1 + cell] = gap

    return fill


@cache
def build_find() -> Any:
    """The second kernel. It has one more argument, the result.

    The result, (lines, blocks) int32, is 0 where nothing was computed.
    """

    @jit_kernel()
    def find(values, table, computed):
        block, line = cuda.blockIdx.x, cuda.blockIdx.y
        at, length, begin, end = _cells_of_block(table, line, block)
        h, gap = table[line, work_tables.LEVEL_H], table[line, work_tables.LEVEL_GAP]
        differs = np.int32(0)
        for cell in range(begin + cuda.threadIdx.x, end, THREADS):
            if values[at + cell] != h or values[at + length + 1 + cell] != gap:
                differs = np.int32(1)
        found = cuda.syncthreads_or(differs)
        if cuda.threadIdx.x == 0:
            computed[line, block] = found

    return find
