"""Tracing lists of leaves on the GPU. Memory for their directions limits the leaves of a launch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends import trace_table
from longalign.backends.base import Progress, Runs, TraceJob, diagonals
from longalign.backends.cuda.config import LANES
from longalign.backends.cuda.device.directions import (
    COLUMN_AT,
    HEIGHT,
    TABLE_FIELDS,
    WORDS_AT,
    strip_rows,
    words_of,
)
from longalign.backends.cuda.kernels.traceback import FOUND_AT, FOUND_FIELDS, FOUND_RUNS
from longalign.backends.cuda.launch.device_memory import ROUNDING, Arena, Block, Workspace, in_launches
from longalign.backends.cuda.numba_api import configured
from longalign.backends.substitution_tables import lay_out

#: The most words of directions and the most letters of a leaf. A warp takes some hundredths of a second for
#: the largest leaf. The further rounds of halving that a lower limit requires would take longer. The limit on
#: letters bounds the walk back, which takes them one by one.
_LEAF_WORDS, _LEAF_LETTERS = 1 << 22, 1 << 16

#: The most bytes of device memory of a launch.
_LAUNCH_BYTES = 16 << 30

_DIAGONALS = trace_table.LOWEST_DIAGONAL, trace_table.HIGHEST_DIAGONAL

# Bytes of a word of directions, of a run, and of a row's edge between strips.
_WORD, _RUN, _EDGE = 4, 4, 8


@lru_cache(1 << 16)  # phase 3 asks about the same rectangles in each of its rounds
def can_trace(rows: int, cols: int, detour: int | None = None) -> bool:
    """See `longalign.backends.base.Backend`."""
    words = words_of(rows, cols, *diagonals(rows, cols, detour))
    return bool(words <= _LEAF_WORDS) and rows + cols <= _LEAF_LETTERS


def trace(jobs: Sequence[TraceJob], kernel: Any, workspace: Workspace, progress: Progress) -> list[Runs]:
    """The paths through all leaves, in order. `progress` is called after each launch."""
    paths: dict[int, Runs] = {}
    shapes = trace_table.shapes_of(jobs)
    sizes, cells = _device_bytes(shapes), shapes[:, 0] * shapes[:, 1]
    for batch in _launches(sizes, workspace.launch_room(_LAUNCH_BYTES)):
        size, swept = int(sizes[batch].sum()), int(cells[batch].sum())
        what = f"tracing {len(batch)} rectangle(s) of {swept:.3g} cells"
        found = _launch([jobs[k] for k in batch], size, what, kernel, workspace)
        paths.update(zip(batch, found, strict=True))
        progress(swept)
    return [paths[k] for k in range(len(jobs))]


def _launches(sizes: NDArray[np.int64], room: int) -> Iterator[list[int]]:
    """The leaves of each launch, given the device bytes of each leaf.

    Large ones come first, so that the last warps have small ones.
    """
    order: list[int] = np.argsort(-sizes, kind="stable").tolist()
    return in_launches(order, sizes[:, np.newaxis], (room,))


def _device_bytes(shapes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The device bytes of each leaf; `shapes` are those of `trace_table.shapes_of`."""
    rows, cols, lowest, highest = shapes.T
    words = words_of(rows, cols, lowest, highest)
    fields = TABLE_FIELDS * 8 + FOUND_FIELDS * 4
    sizes: NDArray[np.int64] = fields + rows + cols + rows * _EDGE + words * _WORD + 2 * (rows + cols) * _RUN
    return sizes


class _Buffers(Arena):
    """The arrays of one launch. `arguments` has the kernel's order."""

    def __init__(self, jobs: Sequence[TraceJob], block: Block, workspace: Workspace) -> None:
        super().__init__(block, workspace)
        table = _table(jobs)
        letters = int(table[-1, trace_table.RUNS_END])
        rows, words = int(table[:, trace_table.ROWS].sum()), int(_words(table).sum())
        counter = np.zeros(1, np.int32)
        *inputs, used = self._upload([table, *trace_table.inputs_of(jobs), counter])
        column = self._place((rows,), np.dtype(np.int64))
        filled = self._place((words,), np.dtype(np.uint32))
        runs, self._runs = (self._place((letters,), np.dtype(np.int32)) for _ in range(2))
        self._found = self._place((len(jobs), FOUND_FIELDS), np.dtype(np.int32))
        self.arguments = (*inputs, column, filled, runs, self._runs, used, self._found)

    def paths(self) -> list[Runs]:
        """Wait for the kernel, and return the path of each leaf."""
        found = self._found.copy_to_host(stream=self._stream)
        self._stream.synchronize()
        at, counts = found[:, FOUND_AT], found[:, FOUND_RUNS]
        runs = self._runs[: int(counts.sum())].copy_to_host(stream=self._stream)
        self._stream.synchronize()
        return trace_table.paths_of(runs, (at + counts).tolist(), counts.tolist())


def _table(jobs: Sequence[TraceJob]) -> NDArray[np.int64]:
    """The table (leaves, TABLE_FIELDS) int64: that of `trace_table`, and the fields of `directions`."""
    table = np.empty((len(jobs), TABLE_FIELDS), np.int64)
    table[:, : trace_table.LEAF_FIELDS] = trace_table.leaf_table(jobs)
    rows, lowest, highest = table[:, [trace_table.ROWS, *_DIAGONALS]].T
    table[:, HEIGHT] = strip_rows(rows, lowest, highest)
    for field, sizes in ((COLUMN_AT, rows), (WORDS_AT, _words(table))):
        table[:, field] = np.cumsum(sizes) - sizes
    return table


def _words(table: NDArray[np.int64]) -> NDArray[np.int64]:
    """The words of each leaf of a table."""
    words: NDArray[np.int64] = words_of(*table[:, [trace_table.ROWS, trace_table.COLS, *_DIAGONALS]].T)
    return words


def _launch(jobs: Sequence[TraceJob], size: int, what: str, kernel: Any, workspace: Workspace) -> list[Runs]:
    """The paths through the leaves of one launch, which take `size` bytes on the device."""
    matrices, _ = lay_out(job.scoring for job in jobs)
    needed = size + matrices.nbytes + ROUNDING
    buffers = _Buffers(jobs, workspace.block(needed, what), workspace)
    configured(kernel, len(jobs), LANES, workspace.stream)(*buffers.arguments)
    return buffers.paths()
