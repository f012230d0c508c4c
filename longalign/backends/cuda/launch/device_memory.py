"""Device memory: what a work list takes, whether it fits, and the arrays themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import SweepJob
from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.launch.worklist import Take, WorkList
from longalign.backends.cuda.numba_api import cuda, download, part_of, upload
from longalign.backends.cuda.planning.strips import ALL_ROWS, count_bands
from longalign.backends.substitution_tables import lay_out
from longalign.errors import BackendError
from longalign.model.boundary import IntArray

_VALUE = 8  # bytes of a boundary value: two numbers, or one and its tag
_LETTER = 1
_STRIP = 4 * (work_tables.STRIP_FIELDS + work_tables.BEST_FIELDS + 1)

#: Device memory, as a function that gives an array in it: from a byte on, of a shape and a type.
Block = Callable[[int, tuple[int, ...], np.dtype[Any]], Any]

#: Arrays of a block that are kept: the next launch may have the same ones, and each takes long to make and to
#: pass to a kernel for the first time.
_KEPT_ARRAYS = 256

#: Arrays begin at multiples of this, which adds at most so many bytes to a launch that traces or finds start
#: states.
_ALIGNMENT, ROUNDING = 256, 1 << 13

#: Arrays of fewer bytes are uploaded together.
_SMALL = 1 << 20

#: Values in pinned memory that are copied before others are waited for.
_STAGED = 1 << 23

#: Left free for the driver, the kernels' code, what warps keep (up to 40 MB: see `replay` and `events`) and
#: the rounding of allocations.
_RESERVE = 256 << 20


def bytes_needed(jobs: Sequence[SweepJob], config: KernelConfig, band_rows: int = ALL_ROWS) -> int:
    """Device bytes of a launch, rounded up a little: O(m + n) and the requested boundaries."""
    total = 20 * _ALIGNMENT + lay_out(job.scoring for job in jobs)[0].nbytes
    for job in jobs:
        rows, cols = len(job.query), len(job.target)
        strips = -(-cols // config.strip_width) + len(job.cols) + 1
        bands = count_bands(rows, config, band_rows)
        total += (bands > 1) * strips * config.state_words * LANES * 4
        total += (rows + cols) * _LETTER + (2 * rows + cols + 1) * _VALUE
        total += (len(job.rows) * (cols + 1) + len(job.cols) * (rows + 1)) * _VALUE
        total += bands * strips * _STRIP
        total += (work_tables.JOB_FIELDS + 2 * work_tables.EDGE_FIELDS) * 8 + 4 + (len(job.rows) + 1) * 4
    return total


def max_boundary_cells(free_bytes: int) -> int:
    """Cells of wanted boundaries in a quarter of the device memory: a half is for letters and their edges."""
    return free_bytes // (4 * _VALUE)


class _PinnedBytes:
    """Pinned memory that grows to what the largest use needed."""

    def __init__(self) -> None:
        self._array: Any = None

    def first(self, size: int) -> NDArray[np.uint8]:
        """So many bytes, which are good until this is called again."""
        if self._array is None or len(self._array) < size:
            self._array = None
            cuda.current_context().memory_manager.deallocations.clear()
            self._array = cuda.pinned_array(max(1, size), np.uint8)
        part: NDArray[np.uint8] = self._array[:size]
        return part


class Workspace:
    """What a device keeps from sweep to sweep, because it takes long to get: streams, and memory.

    A block of it, and what warps keep of batches, grow to what the largest launch needed.
    """

    def __init__(self) -> None:
        self.stream = cuda.stream()
        self.talk = cuda.stream()
        self.started, self.finished = cuda.event(), cuda.event()
        self.swept = cuda.pinned_array(1, np.int64)
        self.yes = cuda.pinned_array(1, np.int32)
        self.yes[0] = 1
        self._block: Block | None = None
        self._size = 0
        self._staging: Any = None
        self._inputs, self._uploads, self._downloads = _PinnedBytes(), _PinnedBytes(), _PinnedBytes()
        self._own: Any = None

    def staging(self, half: int) -> Any:
        """One of two arrays of int32 in pinned memory, for boundaries on their way."""
        if self._staging is None:
            self._staging = cuda.pinned_array((2, _STAGED), np.int32)
        return self._staging[half]

    def take_pinned(self, size: int) -> Take:
        """Gives parts of so many bytes of pinned memory, which are good until this is called again."""
        block, used = self._inputs.first(size), 0

        def take(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
            nonlocal used
            start, used = used, used + math.prod(shape) * dtype.itemsize
            part: NDArray[Any] = block[start:used].view(dtype).reshape(shape)
            return part

        return take

    def uploads(self, size: int) -> NDArray[np.uint8]:
        """So many bytes of pinned memory for what is on its way to the device, until this is called again."""
        return self._uploads.first(size)

    def downloads(self, size: int) -> NDArray[np.uint8]:
        """So many bytes of pinned memory for what comes back from the device, until this is called again."""
        return self._downloads.first(size)

    def memory_of_warps(self, values: int) -> Any:
        """Room for at least so many int32, for the warps' own use; see `replay` and `events`."""
        if self._own is None or self._own.size < values:
            self._own = None
            self._own = cuda.device_array(max(1, values), np.int32)
        return self._own

    def free_bytes(self) -> int:
        """Device bytes that may be planned with, in the current context: this block's are among them."""
        context = cuda.current_context()
        context.memory_manager.deallocations.clear()  # what numba has not given back yet
        return int(max(0, context.get_memory_info().free + self._size - _RESERVE))

    def launch_room(self, most: int) -> int:
        """Device bytes that one of several launches may take: `most`, or half of those that are free."""
        return min(most, self.free_bytes() // 2)

    def kernel_seconds(self) -> float:
        """How long the last kernel ran."""
        return float(self.started.elapsed_time(self.finished)) / 1e3

    def block(self, needed: int, what: str) -> Block:
        """Device memory of that many bytes for `what`. Raises BackendError, with figures, if too little.

        What has been begun with the block before is over then, even if an error came in between.
        """
        for stream in (self.stream, self.talk):
            stream.synchronize()
        if self._block is None or needed > self._size:
            free = self.free_bytes()
            if needed > free:
                raise BackendError(
                    f"the GPU has {free / 1e9:.2f} GB of free memory, but {what} takes "
                    f"{needed / 1e9:.2f} GB: use smaller tiles, a coarser lattice or the CPU"
                )
            self._block, self._size = None, 0
            cuda.current_context().memory_manager.deallocations.clear()
            memory = cuda.device_array(needed, np.uint8)
            self._block, self._size = lru_cache(_KEPT_ARRAYS)(partial(part_of, memory)), needed
        return self._block


def in_launches(
    order: Iterable[int], sizes: Sequence[tuple[int, ...]], room: tuple[int, ...]
) -> Iterator[list[int]]:
    """Jobs, by their numbers and in this order, in lists for a launch each.

    `sizes[k]` is what job k takes of several things, and `room` how much a launch has of them. A job that
    takes more has a launch of its own.
    """
    batch: list[int] = []
    left = room
    for k in order:
        if batch and any(size > rest for size, rest in zip(sizes[k], left, strict=True)):
            yield batch
            batch, left = [], room
        batch.append(k)
        left = tuple(rest - size for size, rest in zip(sizes[k], left, strict=True))
    if batch:
        yield batch


class Arena:
    """Arrays laid out one after the other in a workspace's block, for one launch."""

    def __init__(self, block: Block, workspace: Workspace) -> None:
        self._block, self._stream, self._used = block, workspace.stream, 0
        self._uploads = workspace.uploads

    def _upload(self, arrays: list[NDArray[Any]]) -> list[Any]:
        """Copies on the device, once a launch. Those of small arrays lie end to end and travel together."""
        placed = {}
        for array in arrays:
            if array.nbytes >= _SMALL:
                placed[id(array)] = self._place(array.shape, array.dtype)
                upload(placed[id(array)], array, self._stream)
        start = self._used
        staged = self._uploads(sum(_rounded(array.nbytes) for array in arrays if array.nbytes < _SMALL))
        for array in arrays:
            if array.nbytes < _SMALL:
                at = self._used - start
                staged[at : at + array.nbytes] = array.reshape(-1).view(np.uint8)
                placed[id(array)] = self._place(array.shape, array.dtype)
        upload(self._part(start, staged.shape, staged.dtype), staged, self._stream)
        return [placed[id(array)] for array in arrays]

    def _place(self, shape: tuple[int, ...], dtype: Any) -> Any:
        part = self._part(self._used, shape, dtype)
        self._used += _rounded(math.prod(shape) * dtype.itemsize)
        return part

    def _part(self, start: int, shape: tuple[int, ...], dtype: Any) -> Any:
        return self._block(start, shape, np.dtype(dtype))


class DeviceBuffers(Arena):
    """The arrays of one launch, laid out in a workspace's block; `arguments` in the kernel's order."""

    def __init__(self, work: WorkList, block: Block, own: Any, workspace: Workspace) -> None:
        super().__init__(block, workspace)
        linear_edges = (
            work.linear_edges if len(work.linear_edges) else np.zeros((1, work_tables.EDGE_FIELDS), np.int64)
        )
        (
            jobs, strips, query, target, matrices, linear_edges, wanted_rows, self.flags, best_scores,
            tickets, self.stop, self.progress,
        ) = self._upload(
            [
                work.jobs, work.strips, work.query, work.target, work.matrices, linear_edges,
                work.wanted_rows, work.flags, np.zeros(len(work.jobs), np.int32),
                np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int64),
            ]
        )  # fmt: skip
        top, column = self._begun(work.top, work.top_values), self._begun(work.column, work.column_values)
        #: The arguments of `edge_kernel`.
        self.edges = linear_edges, top, column
        self.lines = self._place((max(1, work.line_values),), np.dtype(np.int32))
        self._best = self._place((len(work.strips), work_tables.BEST_FIELDS), np.dtype(np.int32))
        best = workspace.downloads(4 * self._best.size).view(np.int32)
        #: The best cell of each strip when the stream is done, until the next launch.
        self.best: IntArray = best.reshape(self._best.shape)
        state = self._place((max(1, work.state_values),), np.dtype(np.int32))
        self.arguments = (
            jobs, strips, query, target, matrices, top, column, wanted_rows, self.flags, tickets, self.stop,
            self.progress, best_scores, self.lines, self._best, state, own,
        )  # fmt: skip

    def _begun(self, beginning: NDArray[np.int64], size: int) -> Any:
        """An array of so many values of which the first are these."""
        start, whole = self._used, self._place((size,), beginning.dtype)
        if len(beginning):
            upload(self._part(start, beginning.shape, beginning.dtype), beginning, self._stream)
        return whole

    def fetch_best(self) -> None:
        """Begin to fill `best`, after what the stream has been given to do."""
        download(self.best, self._best, 0, self._stream)


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
