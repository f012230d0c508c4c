"""Start states of a list of rectangles on the GPU, in launches limited by memory and time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import EdgeStarts, Progress, Rectangle
from longalign.backends.cuda.config import LANES
from longalign.backends.cuda.device.excluded_pairs import PAIR_WORDS
from longalign.backends.cuda.kernels import start_states as kernel
from longalign.backends.cuda.launch.device_memory import ROUNDING, Arena, Block, Workspace, in_launches
from longalign.backends.cuda.numba_api import configured
from longalign.backends.cuda.planning.strips import excluded_by_strip
from longalign.backends.substitution_tables import PairCosts, lay_out
from longalign.model.boundary import Edge, IntArray, StartLine

#: The most cells of a launch of several rectangles. It takes about a second, and progress is reported after
#: it.
_LAUNCH_CELLS = 1 << 39

#: The most bytes of device memory of a launch.
_LAUNCH_BYTES = 8 << 30

#: The most thread blocks, of one warp each, that a multiprocessor runs at a time.
_WARPS = 32

# Device bytes for each letter of a side (the letter and the edges beside it), strip, and rectangle.
_EDGE, _STRIP, _JOB = 1 + 3 * 8, 4 * kernel.STRIP_FIELDS + 4, 8 * kernel.JOB_FIELDS + 3 * 8


def starts(
    jobs: Sequence[Rectangle],
    kernel_of: Callable[[bool, bool, bool], Any],
    multiprocessors: int,
    workspace: Workspace,
    progress: Progress,
) -> list[EdgeStarts]:
    """The start states of all rectangles, in order. `progress` is called after each launch.

    `kernel_of(local, has_matrix, excludes)` returns the kernel for the rectangles of a launch.
    """
    found: dict[int, EdgeStarts] = {}
    room = workspace.launch_room(_LAUNCH_BYTES)
    kinds = [(job.local, job.scoring.table is not None, len(job.excluded) > 0) for job in jobs]
    for kind in dict.fromkeys(kinds):
        members = [k for k, its_kind in enumerate(kinds) if its_kind == kind]
        for batch in _launches([jobs[k] for k in members], room):
            places = [members[k] for k in batch]
            work = [jobs[k] for k in places]
            swept = _launch(work, kernel_of(*kind), multiprocessors * _WARPS, workspace)
            found.update(zip(places, swept, strict=True))
            progress(sum(job.cells for job in work))
    return [found[k] for k in range(len(jobs))]


def _launches(jobs: Sequence[Rectangle], room: int) -> Iterator[list[int]]:
    """The jobs of each launch. Jobs with many rows come first, so that the last warps have short strips."""
    sizes = np.array([(_device_bytes(job), job.cells) for job in jobs], np.int64)
    order = sorted(range(len(jobs)), key=lambda k: len(jobs[k].query), reverse=True)
    return in_launches(order, sizes, (room, _LAUNCH_CELLS))


def _device_bytes(job: Rectangle) -> int:
    """The device bytes of a rectangle."""
    rows, cols = len(job.query), len(job.target)
    strips, pairs = -(-cols // kernel.STRIP_WIDTH) * _STRIP, 4 * PAIR_WORDS * len(job.excluded)
    return (rows + cols) * _EDGE + _JOB + strips + pairs


def _launch(
    jobs: Sequence[Rectangle], compiled: Any, max_warps: int, workspace: Workspace
) -> list[EdgeStarts]:
    matrices = lay_out(job.scoring for job in jobs)[0]
    needed = sum(map(_device_bytes, jobs)) + matrices.nbytes + ROUNDING
    what = f"start states of {len(jobs)} rectangle(s) of {sum(job.cells for job in jobs):.3g} cells"
    buffers = _Buffers(jobs, matrices, workspace.block(needed, what), workspace)
    blocks = min(buffers.strips, max_warps)
    configured(compiled, blocks, LANES, workspace.stream)(*buffers.arguments)
    return buffers.results()


class _Buffers(Arena):
    """The arrays of one launch. `arguments` has the kernel's order."""

    def __init__(
        self, jobs: Sequence[Rectangle], matrices: IntArray, block: Block, workspace: Workspace
    ) -> None:
        super().__init__(block, workspace)
        self._table = table(jobs)
        strips, pairs = strip_table(jobs, self._table)
        self.strips = len(strips)
        *inputs, pairs_there, flags, tickets = self._upload(
            [
                self._table,
                strips,
                np.concatenate([job.query for job in jobs]),
                np.concatenate([job.target for job in jobs]),
                matrices,
                np.concatenate([_opened(job, job.top) for job in jobs]),
                np.concatenate([_opened(job, job.left)[1:] for job in jobs]),
                pairs,
                np.zeros(self.strips, np.int32),
                np.zeros(1, np.int32),
            ]
        )
        rows, cols = (int(self._table[:, side].sum()) for side in (kernel.ROWS, kernel.COLS))
        self._right = [self._place((rows,), np.dtype(np.int64)) for _ in range(2)]
        self._bottom = [self._place((cols + len(jobs),), np.dtype(np.int64)) for _ in range(2)]
        self.arguments = (*inputs, *self._right, *self._bottom, pairs_there, flags, tickets)

    def results(self) -> list[EdgeStarts]:
        """Wait for the kernel, and return the start states of each rectangle."""
        edges = [array.copy_to_host(stream=self._stream) for array in (*self._bottom, *self._right)]
        self._stream.synchronize()
        bottom_h, bottom_e, right_h, right_f = edges
        found = []
        for fields in self._table.tolist():
            across = slice(fields[kernel.TOP_AT] + 1, fields[kernel.TOP_AT] + 1 + fields[kernel.COLS])
            down = slice(fields[kernel.COLUMN_AT], fields[kernel.COLUMN_AT] + fields[kernel.ROWS])
            bottom, right = (bottom_h[across], bottom_e[across]), (right_h[down], right_f[down])
            found.append(EdgeStarts(StartLine(*bottom), StartLine(*right)))
        return found


def table(jobs: Sequence[Rectangle]) -> NDArray[np.int64]:
    """The kernel's table of rectangles, (rectangles, JOB_FIELDS) int64."""
    rows, cols = [len(job.query) for job in jobs], [len(job.target) for job in jobs]
    down, across = (list(accumulate(lengths, initial=0))[:-1] for lengths in (rows, cols))
    _, matrix_at = lay_out(job.scoring for job in jobs)
    records = []
    for k, job in enumerate(jobs):
        # Each top edge has a corner besides its letters, hence the + k.
        places = down[k], across[k], across[k] + k, down[k], matrix_at[k]
        records.append((rows[k], cols[k], *places, *PairCosts.of(job.scoring)))
    return np.array(records, np.int64)


def strip_table(jobs: Sequence[Rectangle], rectangles: NDArray[np.int64]) -> tuple[IntArray, IntArray]:
    """The kernel's table of strips, (strips, STRIP_FIELDS) int32, in the order of their tickets.

    The second result holds their excluded pairs, int32, end to end: at least one element.

    First come the first strips of all rectangles, then all second ones, and so on. Warps then rarely wait
    for a left neighbour. With few rectangles, their strips follow one another closely.
    """
    counts = -(-rectangles[:, kernel.COLS] // kernel.STRIP_WIDTH)
    numbers = np.concatenate([np.arange(count) for count in counts])
    rectangle, first = np.repeat(np.arange(len(counts)), counts), numbers * kernel.STRIP_WIDTH
    order = np.lexsort((rectangle, numbers))
    tickets = np.empty(len(order), np.int64)
    tickets[order] = np.arange(len(order))
    before = np.where(numbers > 0, np.roll(tickets, 1), kernel.NO_STRIP)
    pairs, excluded = excluded_by_strip(jobs, rectangle, first)
    excluded_at = PAIR_WORDS * (np.cumsum(excluded) - excluded)
    strips = np.stack([rectangle, first, before, excluded_at, excluded], axis=1)
    words = pairs.reshape(-1) if len(pairs) else np.zeros(1, np.int32)
    return np.ascontiguousarray(strips[order], np.int32), words


def _opened(job: Rectangle, edge: Edge) -> NDArray[np.int64]:
    """An edge with its corner, as int64 pairs of opened H (low) and the gap state (high)."""
    opening = np.int32(job.scoring.opening)
    pairs = np.stack([edge.h - opening, edge.gap], axis=1)
    return np.ascontiguousarray(pairs, np.int32).view(np.int64).reshape(-1)
