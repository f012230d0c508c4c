"""Device memory: how much a work list needs, whether it fits, and the arrays themselves."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import SweepJob
from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.excluded_pairs import PAIR_WORDS
from longalign.backends.cuda.kernels import computed_blocks
from longalign.backends.cuda.launch.worklist import Allocate, WorkList
from longalign.backends.cuda.numba_api import configured, cuda, download, part_of, upload
from longalign.backends.cuda.planning.strips import ALL_ROWS, count_bands
from longalign.backends.substitution_tables import lay_out
from longalign.errors import BackendError
from longalign.model.boundary import IntArray
from longalign.model.pruning import table_length

_VALUE = 8  # bytes of a boundary value: two int32, or one and its tag
_LETTER = 1  # bytes of a letter
_STRIP = 4 * (work_tables.STRIP_FIELDS + work_tables.BEST_FIELDS + 1)  # bytes of a strip: tables, and a flag

#: A block of device memory: a function that returns the array of a shape and type from a byte of it on.
Block = Callable[[int, tuple[int, ...], np.dtype[Any]], Any]

#: Array objects of a block that are kept for later launches, which may need the same ones. It takes long to
#: create an array, and to pass it to a kernel for the first time.
_KEPT_ARRAYS = 256

#: Arrays begin at multiples of `_ALIGNMENT` bytes. This rounding adds at most `ROUNDING` bytes to a launch
#: that traces or finds start states.
_ALIGNMENT, ROUNDING = 256, 1 << 13

#: Arrays of fewer bytes than this are uploaded together.
_SMALL = 1 << 20

#: int32 in each half of the pinned memory through which boundaries are downloaded. Back ends that share a
#: device share this number, as it takes long to allocate; each has at least `_MIN_STAGED`.
_STAGED, _MIN_STAGED = 1 << 23, 1 << 19

#: Bytes left free for the driver, the kernels' code, the warps' own memory (up to 40 MB: see `replay` and
#: `requested_rows`), and the rounding of allocations.
_RESERVE = 256 << 20

#: A block of device memory is allocated 1 / `_ROOM_TO_GROW` larger than it must be. A later tile that is a
#: little larger can then use it, too. No block can be freed while another part of the device runs a kernel.
_ROOM_TO_GROW = 64


def bytes_needed(jobs: Sequence[SweepJob], config: KernelConfig, band_rows: int = ALL_ROWS) -> int:
    """Device bytes of a launch, rounded up a little: O(m + n), plus the requested boundaries."""
    total = 20 * _ALIGNMENT + lay_out(job.scoring for job in jobs)[0].nbytes
    for job in jobs:
        rows, cols = len(job.query), len(job.target)
        strips = -(-cols // config.strip_width) + len(job.cols) + 1
        bands = count_bands(rows, config, band_rows)
        total += (bands > 1) * strips * config.state_words * LANES * 4
        total += (rows + cols) * _LETTER + (2 * rows + cols + 1) * _VALUE
        total += (len(job.rows) * (cols + 1) + len(job.cols) * (rows + 1)) * _VALUE
        total += bands * strips * _STRIP
        total += config.prunes * (table_length(rows) + table_length(cols)) * 4
        total += PAIR_WORDS * 4 * len(job.excluded)
        total += (work_tables.JOB_FIELDS + 2 * work_tables.EDGE_FIELDS) * 8 + 4 + (len(job.rows) + 1) * 4
    return total + config.prunes * _line_bytes(jobs)


def _line_bytes(jobs: Sequence[SweepJob]) -> int:
    """Bytes of the table of requested lines, and of the result of `kernels.computed_blocks`."""
    lines = sum(len(job.rows) + len(job.cols) for job in jobs)
    longest = max(max(len(job.query), len(job.target)) for job in jobs)
    return lines * (8 * work_tables.LINE_FIELDS + 4 * _blocks(longest))


def _blocks(length: int) -> int:
    """The number of blocks of a line: see `kernels.computed_blocks`."""
    return -(-length // computed_blocks.BLOCK)


def max_boundary_cells(free_bytes: int) -> int:
    """The cells of requested boundaries that fit a quarter of the device memory.

    Letters and edges may take a half.
    """
    return free_bytes // (4 * _VALUE)


class _PinnedBytes:
    """Pinned memory that grows to the largest size requested."""

    def __init__(self) -> None:
        self._array: Any = None

    def __call__(self, size: int) -> NDArray[np.uint8]:
        """The first `size` bytes, valid until the next call."""
        if self._array is None or len(self._array) < size:
            self._array = None
            cuda.current_context().memory_manager.deallocations.clear()
            self._array = cuda.pinned_array(max(1, size), np.uint8)
        part: NDArray[np.uint8] = self._array[:size]
        return part


class Workspace:
    """What is kept for a device from launch to launch, because it takes long to create: streams and memory.

    `stream` runs the kernels. `side_stream` carries copies while a kernel runs. `started` and `finished` are
    events around a kernel. `pinned_cells` and `pinned_one` are single numbers in pinned memory: room for the
    number of cells swept so far, and a 1. `uploads` and `downloads` give pinned memory for copies.

    The block of device memory and the warps' own memory grow to the size that the largest launch needs.
    Of each device, `share` back ends are used at the same time, each with a workspace.
    """

    def __init__(self, share: int = 1) -> None:
        self.stream = cuda.stream()
        self.side_stream = cuda.stream()
        self.started, self.finished = cuda.event(), cuda.event()
        self.pinned_cells = cuda.pinned_array(1, np.int64)
        self.pinned_one = cuda.pinned_array(1, np.int32)
        self.pinned_one[0] = 1
        self._block: Block | None = None
        #: The size of the block of device memory.
        self.block_bytes = 0
        self._staging: Any = None
        self._staged = max(_MIN_STAGED, _STAGED // share)
        self.uploads, self.downloads, self._inputs = _PinnedBytes(), _PinnedBytes(), _PinnedBytes()
        self._warp_memory: Any = None

    def staging(self, half: int) -> Any:
        """One of two arrays of int32 in pinned memory, through which boundaries are downloaded."""
        if self._staging is None:
            self._staging = cuda.pinned_array((2, self._staged), np.int32)
        return self._staging[half]

    def pinned_allocator(self, size: int) -> Allocate:
        """A function that allocates arrays in pinned memory, at most `size` bytes in all.

        The arrays are valid until the next call of this method.
        """
        block, used = self._inputs(size), 0

        def take(shape: tuple[int, ...], dtype: np.dtype[Any]) -> NDArray[Any]:
            nonlocal used
            start, used = used, used + math.prod(shape) * dtype.itemsize
            part: NDArray[Any] = block[start:used].view(dtype).reshape(shape)
            return part

        return take

    def warp_memory(self, values: int) -> Any:
        """The warps' own memory, at least `values` int32; see `replay` and `requested_rows`."""
        if self._warp_memory is None or self._warp_memory.size < values:
            self._warp_memory = None
            self._warp_memory = cuda.device_array(max(1, values), np.int32)
        return self._warp_memory

    def free_bytes(self) -> int:
        """Device bytes that a launch may use in the current context, including those of the block."""
        context = cuda.current_context()
        context.memory_manager.deallocations.clear()  # Numba frees memory late
        return int(max(0, context.get_memory_info().free + self.block_bytes - _RESERVE))

    def launch_room(self, max_bytes: int) -> int:
        """Device bytes that one of several launches may take: at most `max_bytes`, and half of those free."""
        return min(max_bytes, self.free_bytes() // 2)

    def kernel_seconds(self) -> float:
        """How long the last sweep kernel ran, in seconds."""
        return float(self.started.elapsed_time(self.finished)) / 1e3

    def release_block(self) -> None:
        """Free the block of device memory. Arrays in it must no longer be used."""
        self._block, self.block_bytes = None, 0
        cuda.current_context().memory_manager.deallocations.clear()

    def block(self, needed: int, what: str) -> Block:
        """The block of device memory, at least `needed` bytes, for `what` (words for the error message).

        It waits until all earlier work on the block has ended, even after an error. Raises BackendError, with
        figures, if the device has too little memory.
        """
        for stream in (self.stream, self.side_stream):
            stream.synchronize()
        if self._block is None or needed > self.block_bytes:
            free = self.free_bytes()
            if needed > free:
                raise BackendError(
                    f"the GPU has {free / 1e9:.2f} GB of free memory, but {what} takes "
                    f"{needed / 1e9:.2f} GB: use smaller tiles, a coarser lattice or the CPU"
                )
            self.release_block()
            size = min(free, needed + needed // _ROOM_TO_GROW)
            memory = cuda.device_array(size, np.uint8)
            self._block, self.block_bytes = lru_cache(_KEPT_ARRAYS)(partial(part_of, memory)), size
        return self._block


def in_launches(order: Sequence[int], sizes: NDArray[np.int64], room: tuple[int, ...]) -> Iterator[list[int]]:
    """Divide jobs, given by their numbers in `order`, into launches.

    `sizes`, of shape (jobs, resources), is the amount of each resource that each job takes, and `room` the
    amount that a launch has. A job that takes more has a launch of its own.
    """
    taken = np.cumsum(sizes[np.array(order, np.intp)], axis=0)
    start, before = 0, np.zeros(len(room), np.int64)
    while start < len(order):
        amounts = zip(taken.T, before, room, strict=True)
        fitting = [np.searchsorted(amount, used + most, "right") for amount, used, most in amounts]
        stop = max(start + 1, int(min(fitting)))
        yield [*order[start:stop]]
        start, before = stop, taken[stop - 1]


class Arena:
    """Allocates the arrays of one launch one after another in a workspace's block."""

    def __init__(self, block: Block, workspace: Workspace) -> None:
        self._block, self._stream, self._used = block, workspace.stream, 0
        self._uploads = workspace.uploads

    def _upload(self, arrays: list[NDArray[Any]]) -> list[Any]:
        """Copy host arrays to the device; called once for each launch.

        Small arrays lie end to end on the device and are uploaded together.
        """
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
    """The arrays of one sweep launch in a workspace's block. `arguments` has the kernel's order."""

    def __init__(self, work: WorkList, block: Block, warp_memory: Any, workspace: Workspace) -> None:
        super().__init__(block, workspace)
        linear_edges = (
            work.linear_edges if len(work.linear_edges) else np.zeros((1, work_tables.EDGE_FIELDS), np.int64)
        )
        (
            jobs, strips, query, target, matrices, linear_edges, lists, self.flags, best_scores,
            tickets, self.stop, self.progress,
        ) = self._upload(
            [
                work.jobs, work.strips, work.query, work.target, work.matrices, linear_edges,
                work.lists, work.flags, np.zeros(len(work.jobs), np.int32),
                np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int64),
            ]
        )  # fmt: skip
        self._jobs = jobs
        top = self._place_edges(work.top, work.top_values)
        column = self._place_edges(work.column, work.column_values)
        #: The arguments of the kernel `fill_edges`.
        self.edges = linear_edges, top, column
        self.lines = self._place((max(1, work.line_values),), np.dtype(np.int32))
        self._best = self._place((len(work.strips), work_tables.BEST_FIELDS), np.dtype(np.int32))
        best = workspace.downloads(4 * self._best.size).view(np.int32)
        #: (strips, BEST_FIELDS) int32: the best cell of each strip. Valid from the end of the stream's work
        #: until the next launch.
        self.best: IntArray = best.reshape(self._best.shape)
        state = self._place((max(1, work.state_values),), np.dtype(np.int32))
        self.arguments = (
            jobs, strips, query, target, matrices, top, column, lists, self.flags, tickets,
            self.stop, self.progress, best_scores, self.lines, self._best, state, warp_memory,
        )  # fmt: skip

    def _place_edges(self, beginning: NDArray[np.int64], size: int) -> Any:
        """An array of `size` int64 that begins with `beginning`. The kernel `fill_edges` fills the rest."""
        start, whole = self._used, self._place((size,), beginning.dtype)
        if len(beginning):
            upload(self._part(start, beginning.shape, beginning.dtype), beginning, self._stream)
        return whole

    def computed_blocks(self, find: Any, table: NDArray[np.int64]) -> NDArray[np.int32]:
        """In which blocks of each requested line cells were computed, after the sweep kernel has ended.

        `find` is the kernel of `kernels.computed_blocks`, and `table` the table of requested lines.
        """
        lines, blocks = len(table), _blocks(int(table[:, work_tables.LINE_LENGTH].max()))
        there = self._place(table.shape, table.dtype)
        computed = self._place((lines, blocks), np.dtype(np.int32))
        upload(there, table, self._stream)
        configured(find, (blocks, lines), computed_blocks.THREADS, self._stream)(self.lines, there, computed)
        found: NDArray[np.int32] = computed.copy_to_host(stream=self._stream)
        self._stream.synchronize()
        return found

    def cells_left_out(self) -> list[int]:
        """The number for each rectangle, in kernels that leave out row blocks, after the kernel has ended."""
        # Without a stream, the copy would wait for the kernels of all other streams of the device.
        jobs = self._jobs.copy_to_host(stream=self._stream)
        self._stream.synchronize()
        cells: list[int] = jobs[:, work_tables.CELLS_LEFT_OUT].tolist()
        return cells

    def fetch_best(self) -> None:
        """Queue the download of `best`, after the work that the stream already has."""
        download(self.best, self._best, 0, self._stream)


def _rounded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
