"""Start states by a pool of threads. Each thread takes one rectangle at a time and sweeps it strip by strip.

The rectangles are chunks. A tile usually has more chunks than there are threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import wait
from itertools import pairwise
from threading import Lock

import numpy as np

from longalign.backends.base import PROGRESS_SECONDS, EdgeStarts, Progress, Rectangle
from longalign.backends.cpu.config import SweepGeometry
from longalign.backends.cpu.start_states_kernel import (
    EdgeWithStarts,
    Scratch,
    make_scratch,
    strip_starts,
)
from longalign.backends.substitution_tables import PairCosts, lay_out
from longalign.model.boundary import Edge, StartLine, edge_starts
from longalign.system.threads import WorkerThreads


def starts(
    jobs: Sequence[Rectangle], threads: int, geometry: SweepGeometry, progress: Progress
) -> list[EdgeStarts]:
    """See `longalign.backends.base.Backend`."""
    for job in jobs:
        _kernel(job, geometry)  # compiled before there are threads to wait for it
    work = _Work(jobs, geometry)
    with WorkerThreads(threads) as executor:
        try:
            pending = {executor.submit(work.run) for _ in range(min(threads, len(jobs)))}
            while pending:
                done, pending = wait(pending, PROGRESS_SECONDS)
                progress(work.news())
                for future in done:
                    future.result()
        except BaseException:
            work.stopped = True
            raise
    return [work.found[k] for k in range(len(jobs))]


class _Work:
    """The rectangles that threads take in turn, the start states found, and the number of cells swept.

    After `stopped` is set, threads end after their current strip.
    """

    def __init__(self, jobs: Sequence[Rectangle], geometry: SweepGeometry) -> None:
        self.found: dict[int, EdgeStarts] = {}
        self.stopped = False
        self._jobs = iter(enumerate(jobs))
        self._geometry = geometry
        self._cells = 0
        self._lock = Lock()

    def news(self) -> int:
        """The cells swept since the last call."""
        with self._lock:
            cells, self._cells = self._cells, 0
        return cells

    def run(self) -> None:
        """The loop of a thread."""
        scratch = make_scratch(self._geometry)
        while (taken := self._take()) is not None:
            k, job = taken
            self.found[k] = self._sweep(job, scratch)

    def _take(self) -> tuple[int, Rectangle] | None:
        with self._lock:
            return None if self.stopped else next(self._jobs, None)

    def _sweep(self, job: Rectangle, scratch: Scratch) -> EdgeStarts:
        rows, cols, strip = len(job.query), len(job.target), self._geometry.strip
        kernel, costs = _kernel(job, self._geometry), PairCosts.of(job.scoring)
        matrix, _ = lay_out([job.scoring])
        # The kernel needs writable, contiguous arrays.
        query, target = np.array(job.query), np.array(job.target)
        top, left = edge_starts(rows, cols)
        beside = _part_of_edge(job.left, left, 0, rows)
        bottom = StartLine(np.empty(cols, np.int64), np.empty(cols, np.int64))
        for start, stop in pairwise([*range(0, cols, strip), cols]):
            if self.stopped:
                break
            line = _part_of_edge(job.top, top, start, stop)
            kernel(query, target, matrix, start, stop - start, line, beside, costs, scratch)
            bottom.h[start:stop], bottom.gap[start:stop] = line.start_h[1:], line.start_gap[1:]
            with self._lock:
                self._cells += rows * (stop - start)
        return EdgeStarts(bottom, StartLine(beside.start_h[1:], beside.start_gap[1:]))


def _kernel(job: Rectangle, geometry: SweepGeometry) -> Callable[..., None]:
    return strip_starts(geometry, job.local, job.scoring.table is not None)


def _part_of_edge(values: Edge, starts: StartLine, start: int, stop: int) -> EdgeWithStarts:
    """A copy of a part of an edge, its corner included: the next strip needs the original's last cell."""
    part = slice(start, stop + 1)
    return EdgeWithStarts(
        values.h[part].copy(), values.gap[part].copy(), starts.h[part].copy(), starts.gap[part].copy()
    )
