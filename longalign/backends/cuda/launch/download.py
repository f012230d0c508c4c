"""The download of requested boundaries, most of them while the kernel still runs.

The flags give the progress of each strip, and values that a strip has published are final (see `sync`). A
requested column is final down to the row that its strip has reached. A requested row is final as far to the
right as strips have passed it. At intervals, values that have become final are copied to pinned memory and
passed to the sinks of their job, unless they are too few to be worth a copy. Threads feed the sinks from one
half of the pinned memory while the other half is filled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import LineSink, SweepJob
from longalign.backends.cuda import numba_api
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.kernels import computed_blocks
from longalign.backends.cuda.launch.device_memory import Workspace
from longalign.backends.cuda.launch.worklist import WorkList
from longalign.model.boundary import IntArray
from longalign.system.threads import MAX_THREADS, WorkerThreads

#: The most values of one boundary array in a copy. Those of two arrays fit half of the pinned memory.
_LARGEST_SLICE = 1 << 18

#: Boundaries with fewer values than this in all are fetched together after the kernel has finished.
_WORTH_STREAMING = 1 << 22

#: Threads that feed the sinks of a download. With more, contention for the GIL costs more than they gain.
_FEEDERS = min(4, MAX_THREADS)

#: Without sinks, fewer values than this are copied directly, not through pinned memory.
_WORTH_STAGING = 1 << 22


@dataclass(slots=True)
class _Line:
    """A requested row or column. It is line `number` of `sink`.

    `at`: the index at which it begins on the device. `length`: its letters. `fetched`: the cells that have
    been fetched.
    """

    sink: LineSink
    number: int
    at: int
    length: int
    fetched: int = 0

    def slices(self, final: int) -> Iterator[tuple[int, int, int, int]]:
        """The copies that fetch the line up to cell `final`, not counting the corner.

        Each is the first cell, the indices at which its H and its gap state are on the device, and the number
        of cells.
        """
        while self.fetched < final:
            count = min(_LARGEST_SLICE, final - self.fetched)
            first = self.at + 1 + self.fetched
            yield self.fetched, first, first + self.length + 1, count
            self.fetched += count


class _Rectangle:
    """The requested lines of one rectangle, and the flags and right edges of its strips."""

    def __init__(self, job: SweepJob, fields: IntArray, strips: IntArray) -> None:
        assert job.sinks is not None
        rows, cols = len(job.query), len(job.target)
        row_at, col_at = int(fields[work_tables.ROW_OUT_AT]), int(fields[work_tables.COL_OUT_AT])
        self.rows = [
            (row, _Line(job.sinks.rows, k, row_at + k * work_tables.line_size(cols), cols))
            for k, row in enumerate(job.rows)
        ]
        _, firsts = np.unique(strips[:, work_tables.NUMBER], return_index=True)
        each = strips[firsts]  # each strip once, from any band
        wanted = np.flatnonzero(each[:, work_tables.REQUESTED_COLUMN] >= 0)
        self.cols = [
            (int(strip), _Line(job.sinks.cols, k, col_at + k * work_tables.line_size(rows), rows))
            for k, strip in enumerate(wanted)
        ]
        self._numbers, self._flags = strips[:, work_tables.NUMBER], strips[:, work_tables.FLAG]
        self._last_part_lags, self._length = each[:, work_tables.LAST_PART_LAG], rows
        self._ends = np.concatenate([[0], each[:, work_tables.FIRST_COLUMN] + each[:, work_tables.WIDTH]])

    def final(self, flags: IntArray) -> Iterator[tuple[_Line, int]]:
        """Every line, and the number of its cells that are final."""
        # For each strip, the number of rows finished on its right edge, summed over the bands. It never
        # exceeds that of the strip to its left.
        swept_rows = np.bincount(self._numbers, weights=flags[self._flags]).astype(np.int64)
        done = np.minimum.accumulate(np.clip(swept_rows - self._last_part_lags, 0, self._length))
        for row, line in self.rows:
            yield line, int(self._ends[np.count_nonzero(done >= row)])
        for strip, line in self.cols:
            yield line, int(done[strip])

    def all(self) -> list[_Line]:
        return [line for _, line in (*self.rows, *self.cols)]


#: A piece of a line in pinned memory: its first cell, H, and the gap state.
_Fetched = tuple[int, IntArray, IntArray]

#: A stretch of a line, from the cells that are fetched up to a cell. If its cells were left out, there are
#: also H and the gap state that all of them have.
_Stretch = tuple[_Line, int, tuple[np.int32, np.int32] | None]


class ComputedBlocks(NamedTuple):
    """The table of requested lines (`worklist.line_table`), and which blocks of each were computed.

    `blocks` is what `DeviceBuffers.computed_blocks` returns.
    """

    table: NDArray[np.int64]
    blocks: NDArray[np.int32]


class Download:
    """Fetches the requested boundaries of a launch from the device array `out`, guided by the array `flags`.

    If `feeds`, boundaries go to the jobs' sinks. If it also `streams`, they do so from `advance` on.
    Otherwise `finish` returns them as an array. Use it as a context manager.
    """

    def __init__(
        self, jobs: Sequence[SweepJob], work: WorkList, out: Any, flags: Any, space: Workspace,
        may_stream: bool = True,
    ) -> None:  # fmt: skip
        self.feeds = work.line_values >= _WORTH_STREAMING and all(job.sinks for job in jobs)
        self.streams = self.feeds and may_stream
        self._out, self._flags, self._space = out, flags, space
        self._values = work.line_values
        self._half = 0
        self._rectangles: list[_Rectangle] = []
        self._feeding: list[Future[None]] = []
        self._threads = WorkerThreads(_FEEDERS if self.feeds else MAX_THREADS, "lines")
        if self.feeds:
            in_order = work.strips[np.argsort(work.strips[:, work_tables.FLAG], kind="stable")]
            cuts = np.searchsorted(in_order[:, work_tables.JOB], np.arange(1, len(jobs)))
            for job, fields, strips in zip(jobs, work.jobs, np.split(in_order, cuts), strict=True):
                self._rectangles.append(_Rectangle(job, fields, strips))

    def __enter__(self) -> Download:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._threads.shutdown(cancel_futures=True)

    def advance(self, least: int) -> None:
        """Fetch what has become final while the kernel runs.

        A line is fetched if at least `least` more of its cells are final, or its last ones.
        """
        flags = self._flags.copy_to_host(stream=self._space.side_stream)
        self._space.side_stream.synchronize()
        for rectangle in self._rectangles:
            self._fetch(
                (line, end, None)
                for line, end in rectangle.final(flags)
                if end == line.length or end - line.fetched >= least
            )

    def finish(self, computed: ComputedBlocks | None = None) -> IntArray | None:
        """Fetch the rest after the kernel has finished.

        Returns the values of all lines, (line_values,) int32, or None if they have gone to sinks. With
        `computed`, only the blocks that were computed are fetched.
        """
        if self.feeds:
            lines = [line for rectangle in self._rectangles for line in rectangle.all()]
            if computed is None:
                self._fetch((line, line.length, None) for line in lines)
            else:
                self._fetch(_stretches(lines, computed))
            self._wait()
            return None
        host = np.empty(self._values, np.int32)
        if self._values >= _WORTH_STAGING:
            self._fill(host)
        elif self._values:
            numba_api.download(host, self._out, 0, self._space.side_stream)
            self._space.side_stream.synchronize()
        return host

    def _fill(self, host: IntArray) -> None:
        """Fetch all values through pinned memory, from which threads copy them to `host`.

        This is several times as fast as a direct copy to memory that is used for the first time. The threads
        share the page faults, and the driver needs no pinned memory of its own in between.
        """
        start = 0
        while start < len(host):
            room = self._space.staging(self._half)
            part = host[start : start + len(room)]
            staged = room[: len(part)]
            numba_api.download(staged, self._out, start, self._space.side_stream)
            self._space.side_stream.synchronize()
            self._wait()
            share = -(-len(part) // MAX_THREADS)
            self._feeding = [
                self._threads.submit(np.copyto, part[at : at + share], staged[at : at + share])
                for at in range(0, len(part), share)
            ]
            self._half = 1 - self._half
            start += len(part)
        self._wait()

    def _fetch(self, stretches: Iterable[_Stretch]) -> None:
        """Fetch stretches of lines. One half of the pinned memory limits a batch."""
        batch: dict[int, tuple[_Line, list[_Fetched]]] = {}
        room = self._space.staging(self._half)
        used = 0
        for line, end, level in stretches:
            if level is not None:
                h, gap = (np.broadcast_to(value, end - line.fetched) for value in level)
                batch.setdefault(id(line), (line, []))[1].append((line.fetched, h, gap))
                line.fetched = end
            for first, *sources, count in line.slices(end):
                if used + 2 * count > len(room):
                    self._feed(batch)
                    batch, room, used = {}, self._space.staging(self._half), 0
                parts = room[used : used + count], room[used + count : used + 2 * count]
                for source, part in zip(sources, parts, strict=True):
                    numba_api.download(part, self._out, source, self._space.side_stream)
                batch.setdefault(id(line), (line, []))[1].append((first, *parts))
                used += 2 * count
        self._feed(batch)

    def _feed(self, batch: dict[int, tuple[_Line, list[_Fetched]]]) -> None:
        """Pass a batch to its sinks, after these have taken the batch before."""
        if not batch:
            return
        self._space.side_stream.synchronize()
        if not self.streams:  # other threads do the same at this time
            for item in batch.values():
                _put(*item)
            return
        self._wait()
        self._feeding = [self._threads.submit(_put, *item) for item in batch.values()]
        self._half = 1 - self._half

    def _wait(self) -> None:
        for future in self._feeding:
            future.result()
        self._feeding = []


def _stretches(lines: Sequence[_Line], computed: ComputedBlocks) -> Iterator[_Stretch]:
    """The stretches of each line of which all or no blocks were computed."""
    for line, fields, blocks in zip(lines, computed.table, computed.blocks, strict=True):
        count = -(-line.length // computed_blocks.BLOCK)
        ends = [*(np.flatnonzero(np.diff(blocks[:count])) + 1).tolist(), count]
        level = np.int32(fields[work_tables.LEVEL_H]), np.int32(fields[work_tables.LEVEL_GAP])
        for end in ends:
            yield line, min(end * computed_blocks.BLOCK, line.length), None if blocks[end - 1] else level


def _put(line: _Line, fetched: list[_Fetched]) -> None:
    for first, h, gap in fetched:
        line.sink.put(line.number, first, h, gap)
