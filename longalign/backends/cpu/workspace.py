"""What one thread works in, and what all threads share: plain arrays, bundled and named."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longalign.backends.cpu.config import SweepGeometry
from longalign.backends.cpu.sweep_kernel import Layout
from longalign.model.alphabet import Codes
from longalign.model.boundary import IntArray
from longalign.model.substitution_matrix import LARGEST_ALPHABET

LongArray = NDArray[np.int64]
Records = NDArray[Any]

#: A job as the kernels see it: its size, mode and scoring, and where its letters and edges lie in `Work`.
#: The highest and the lowest score of a letter pair are match and mismatch where there is no matrix; a matrix
#: has so many letters, and begins at that place of `Work.matrices`.
JOB = np.dtype(
    [
        *[(name, np.int64) for name in ("rows", "cols", "local")],
        *[(name, np.int64) for name in ("highest", "lowest", "gap_open", "gap_extend")],
        *[(name, np.int64) for name in ("letters", "matrix")],
        *[(name, np.int64) for name in ("query", "target", "top", "left")],
        # The most rows a block may have; rows wanted: place of the first in `wanted` and in the output.
        *[(name, np.int64) for name in ("block_rows", "wanted", "wanted_stop", "row_output")],
    ]
)

#: A strip: its job, its columns `start`..`stop`, the ticket of the strip to its left, and where its
#: right edge goes in the output if that is wanted; NOTHING where there is none.
STRIP = np.dtype([(name, np.int64) for name in ("job", "start", "stop", "left", "output")])

#: How far a thread is: its ticket, the rows of that strip done, where the block in hand ends, the next
#: row wanted back, and the best cell it has seen in `job`.
POSITION = np.dtype(
    [(name, np.int64) for name in ("ticket", "job", "row", "stop", "wanted", "score", "i", "j")]
)

NOTHING = -1

# Places in `Work.shared`.
TICKETS, ABORT, CELLS = 0, 1, 2


class Work(NamedTuple):
    """Everything the threads share; letters and boundaries of all jobs lie end to end.

    `column_h` and `column_f` begin as the jobs' left boundaries. A strip reads its left edge there
    and overwrites it, block by block, with its right edge, which is all that its right neighbour
    needs. `done[ticket]` is how many rows of it are valid: released by the strip, acquired by its
    neighbour. `best[ticket]` holds score, i, j.
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
    wanted: LongArray
    row_h: IntArray
    row_e: IntArray
    col_h: IntArray
    col_f: IntArray
    best: LongArray
    done: LongArray
    shared: LongArray


def empty_work() -> Work:
    """No work: arrays of the right types, to compile for."""
    letters, values, numbers = np.zeros(0, np.uint8), np.zeros(0, np.int32), np.zeros(0, np.int64)
    return Work(
        jobs=np.zeros(0, JOB),
        strips=np.zeros(0, STRIP),
        query=letters,
        target=letters,
        matrices=values,
        top_h=values,
        top_e=values,
        column_h=values,
        column_f=values,
        wanted=numbers,
        row_h=values,
        row_e=values,
        col_h=values,
        col_f=values,
        best=np.zeros((0, 3), np.int64),
        done=numbers,
        shared=numbers,
    )


class Edges(NamedTuple):
    """The four edges of the block in hand, int32, each with its corner at index 0."""

    top_h: IntArray
    top_e: IntArray
    left_h: IntArray
    left_f: IntArray
    bottom_h: IntArray
    bottom_e: IntArray
    right_h: IntArray
    right_f: IntArray


class Lanes(NamedTuple):
    """The arrays of a kernel, all in its own numbers: state of the lanes, letters and edges by row.

    For a matrix also `profile`, what each letter scores against the columns of a strip, as `kernel` has it;
    `profiled`, whose ticket that strip has; and the `scores` of a step on their way into the state.
    """

    state: NDArray[Any]
    letters: NDArray[Any]
    left_h: NDArray[Any]
    left_f: NDArray[Any]
    right_h: NDArray[Any]
    right_f: NDArray[Any]
    profile: NDArray[Any]
    scores: NDArray[Any]
    profiled: LongArray


class Frame(NamedTuple):
    """A block: how many rows and columns lie before it in its rectangle, its size, where its letters
    begin in `Work`, and the numbers it is swept in (base; no value may rise above limit + highest score)."""

    row: int
    col: int
    rows: int
    cols: int
    query: int
    target: int
    base: int
    limit: int


def make_edges(geometry: SweepGeometry) -> Edges:
    across, down = geometry.strip + 1, geometry.block_rows + 1
    lengths = (across, across, down, down, across, across, down, down)
    return Edges(*(_aligned(length, np.dtype(np.int32)) for length in lengths))


def make_lanes(geometry: SweepGeometry, bits: int) -> Lanes:
    layout = Layout(geometry.columns, geometry.lanes, geometry.group)
    rows = geometry.block_rows
    profile = LARGEST_ALPHABET * geometry.strip
    lengths = layout.size, rows + 2 * geometry.lanes, rows, rows, rows, rows, profile, geometry.strip
    numbers = [_aligned(length, np.dtype(f"int{bits}")) for length in lengths]
    return Lanes._make([*numbers, np.array([NOTHING])])


def _aligned(length: int, dtype: np.dtype[Any]) -> NDArray[Any]:
    """Zeros that begin on a cache line, so that no vector of a state lies across two."""
    line = 64
    raw = np.zeros(length * dtype.itemsize + line, np.uint8)
    start = -raw.ctypes.data % line
    return raw[start : start + length * dtype.itemsize].view(dtype)
