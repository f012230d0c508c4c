"""Start states by a pool of threads: each takes a rectangle at a time, and sweeps it strip by strip."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from threading import Lock

import numpy as np

from longalign.backends.base import EdgeStarts, Progress, Rectangle
from longalign.backends.cpu.config import SweepGeometry
from longalign.backends.cpu.start_kernel import Costs, Line, make_scratch, strip_starts
from longalign.boundary import Boundary, StartLine, edge_starts

#: Seconds between two calls of `progress`.
_PROGRESS_INTERVAL = 0.1


def starts(
    jobs: Sequence[Rectangle], threads: int, geometry: SweepGeometry, progress: Progress
) -> list[EdgeStarts]:
    """See `longalign.backends.base.Backend`."""
    for local in {job.local for job in jobs}:
        strip_starts(geometry, local)  # compiled before there are threads to wait for it
    tally = _Tally()
    with ThreadPoolExecutor(threads) as executor:
        futures = [executor.submit(partial(_sweep, job, geometry, tally)) for job in jobs]
        try:
            pending = set(futures)
            while pending:
                _, pending = wait(pending, _PROGRESS_INTERVAL)
                progress(tally.take())
            return [future.result() for future in futures]
        except BaseException:
            tally.stopped = True
            executor.shutdown(cancel_futures=True)
            raise


@dataclass
class _Tally:
    """Cells that threads have swept, and whether they are to stop."""

    cells: int = 0
    stopped: bool = False

    def __post_init__(self) -> None:
        self._lock = Lock()

    def add(self, cells: int) -> None:
        with self._lock:
            self.cells += cells

    def take(self) -> int:
        with self._lock:
            cells, self.cells = self.cells, 0
            return cells


def _sweep(job: Rectangle, geometry: SweepGeometry, tally: _Tally) -> EdgeStarts:
    rows, cols = len(job.query), len(job.target)
    kernel, costs, scratch = strip_starts(geometry, job.local), Costs.of(job.scoring), make_scratch(geometry)
    query, target = np.array(job.query), np.array(job.target)  # writable, and contiguous whatever they were
    top, left = edge_starts(rows, cols)
    beside = _line(job.left, left, 0, rows)
    bottom = StartLine(np.empty(cols, np.int64), np.empty(cols, np.int64))
    for start, stop in pairwise([*range(0, cols, geometry.strip), cols]):
        if tally.stopped:
            raise CancelledError
        line = _line(job.top, top, start, stop)  # a copy, because the next strip needs its last cell
        kernel(query, target, start, stop - start, line, beside, costs, scratch)
        bottom.h[start:stop], bottom.gap[start:stop] = line.start_h[1:], line.start_gap[1:]
        tally.add(rows * (stop - start))
    return EdgeStarts(bottom, StartLine(beside.start_h[1:], beside.start_gap[1:]))


def _line(values: Boundary, starts: StartLine, start: int, stop: int) -> Line:
    """A copy of a part of an edge, its corner included."""
    part = slice(start, stop + 1)
    return Line(
        values.h[part].copy(), values.gap[part].copy(), starts.h[part].copy(), starts.gap[part].copy()
    )
