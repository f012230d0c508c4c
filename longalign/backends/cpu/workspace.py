"""The arrays that all threads share, and those of each thread, as named tuples for the kernels."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longalign.backends.cpu.config import SweepGeometry
from longalign.backends.cpu.sweep_kernel import StateLayout
from longalign.model.alphabet import Codes
from longalign.model.boundary import IntArray
from longalign.model.substitution_matrix import LARGEST_ALPHABET

LongArray = NDArray[np.int64]
Records = NDArray[Any]

#: A job as the kernels read it: its size, mode and scoring. A field ending in _at is an index into the arrays
#: of `WorkList`. `highest` and `lowest` are the scores of letter pairs: match and mismatch without a
#: substitution matrix. `letters` is the number of letters of a substitution matrix.
JOB = np.dtype(
    [
        *[(name, np.int64) for name in ("rows", "cols", "local")],
        *[(name, np.int64) for name in ("highest", "lowest", "gap_open", "gap_extend")],
        *[(name, np.int64) for name in ("letters", "matrix_at")],
        *[(name, np.int64) for name in ("query_at", "target_at", "top_at", "left_at")],
        # The most rows of a block; the range of the job's `requested_rows`; where the first is output.
        *[(name, np.int64) for name in ("block_rows", "requests_at", "requests_end", "row_out_at")],
        # Pruning; `query_gain_at` is NOTHING without it. Then the values of cells that were left out.
        *[(name, np.int64) for name in ("query_gain_at", "target_gain_at", "bound", "bound_rises")],
        *[(name, np.int64) for name in ("left_out_h", "left_out_gap")],
    ]
)

#: A strip: its job, its columns start <= column < stop, the ticket of its left neighbour, and where its right
#: edge is output if that was requested. NOTHING stands for no neighbour and no output.
STRIP = np.dtype([(name, np.int64) for name in ("job", "start", "stop", "left_ticket", "col_out_at")])

#: The position of a thread: the ticket of its strip, the rows of the strip that are done, the row at which
#: the current block ends, whether the block above was left out, the index of the next requested row, and the
#: best cell that it has found in `job`.
POSITION = np.dtype(
    [
        *[(name, np.int64) for name in ("ticket", "job", "row", "block_end", "top_left_out")],
        *[(name, np.int64) for name in ("next_request", "score", "i", "j")],
    ]
)

NOTHING = -1

# Indices into `WorkList.counters`.
TICKETS, ABORT, CELLS = 0, 1, 2


class WorkList(NamedTuple):
    """Everything that the threads share. Letters and boundaries of all jobs lie end to end.

    `column_h` and `column_f` hold the left boundaries of the jobs at first. A strip reads its left edge there
    and overwrites it, block by block, with its right edge, which its right neighbour reads.
    `rows_done[ticket]` is the number of rows that are valid: the strip stores it with release semantics, and
    its neighbour loads it with acquire semantics. `row_h`, `row_e`, `col_h` and `col_f` are the requested
    boundaries. `best[ticket]` holds the score, i and j of the best cell that the thread of this strip had
    found in the job. `gains` are the tables of the jobs that are pruned, end to end.
    `cells_left_out` has one element for each job.
    """

    jobs: Records
    strips: Records
    query: Codes
    target: Codes
    matrices: IntArray
    top_h: IntArray
    top_e: IntArray
    column_h: IntArray
    column_f: IntArray
    requested_rows: LongArray
    row_h: IntArray
    row_e: IntArray
    col_h: IntArray
    col_f: IntArray
    gains: IntArray
    cells_left_out: LongArray
    best: LongArray
    rows_done: LongArray
    counters: LongArray


def empty_work_list() -> WorkList:
    """A work list without jobs, whose types the compiler needs."""
    letters, values, numbers = np.zeros(0, np.uint8), np.zeros(0, np.int32), np.zeros(0, np.int64)
    return WorkList(
        jobs=np.zeros(0, JOB),
        strips=np.zeros(0, STRIP),
        query=letters,
        target=letters,
        matrices=values,
        top_h=values,
        top_e=values,
        column_h=values,
        column_f=values,
        requested_rows=numbers,
        row_h=values,
        row_e=values,
        col_h=values,
        col_f=values,
        gains=values,
        cells_left_out=numbers,
        best=np.zeros((0, 3), np.int64),
        rows_done=numbers,
        counters=numbers,
    )


class BlockEdges(NamedTuple):
    """The four edges of the current block, int32, each with its corner at index 0."""

    top_h: IntArray
    top_e: IntArray
    left_h: IntArray
    left_f: IntArray
    bottom_h: IntArray
    bottom_e: IntArray
    right_h: IntArray
    right_f: IntArray


class LaneBuffers(NamedTuple):
    """The arrays of a kernel in its number type: the state of the lanes, and letters and edges by row.

    With a substitution matrix also `profile`, the scores of each letter against the columns of a strip (see
    `sweep_kernel`), `profile_ticket`, the ticket of that strip, and `scores`, a buffer for the scores of a
    step.
    """

    state: NDArray[Any]
    letters: NDArray[Any]
    left_h: NDArray[Any]
    left_f: NDArray[Any]
    right_h: NDArray[Any]
    right_f: NDArray[Any]
    profile: NDArray[Any]
    scores: NDArray[Any]
    profile_ticket: LongArray


class Block(NamedTuple):
    """A block: its first row and column in the rectangle, its size, the indices of its letters in `WorkList`,
    and its numbers: the base, and the limit that no H may exceed (see `number_widths`)."""

    row: int
    col: int
    rows: int
    cols: int
    query_at: int
    target_at: int
    base: int
    limit: int


def make_block_edges(geometry: SweepGeometry) -> BlockEdges:
    across, down = geometry.strip + 1, geometry.block_rows + 1
    lengths = (across, across, down, down, across, across, down, down)
    return BlockEdges(*(_aligned(length, np.dtype(np.int32)) for length in lengths))


def make_lane_buffers(geometry: SweepGeometry, bits: int) -> LaneBuffers:
    layout = StateLayout.of(geometry.columns, geometry.lanes, geometry.group)
    rows = geometry.block_rows
    profile = LARGEST_ALPHABET * geometry.strip
    lengths = layout.size, rows + 2 * geometry.lanes, rows, rows, rows, rows, profile, geometry.strip
    numbers = [_aligned(length, np.dtype(f"int{bits}")) for length in lengths]
    return LaneBuffers._make([*numbers, np.array([NOTHING])])


def _aligned(length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros aligned to a cache line, so that no vector of the state straddles two lines."""
    line = 64
    raw = np.zeros(length * dtype.itemsize + line, np.uint8)
    start = -raw.ctypes.data % line
    return raw[start : start + length * dtype.itemsize].view(dtype)
