"""Sweeps, start states and traces of rectangles with excluded letter pairs, on top of any back end.

Excluded pairs are those of alignments found before, so they lie along a few paths. For a back end that uses
every pair, a rectangle is halved in both directions until a part has no excluded pair or is small. The back
end sweeps the former parts. A plain kernel computes the cells of the latter: for a path of L letter pairs,
about L * `_SIDE` cells. There are as many small parts without excluded pairs, which are swept one after the
other. That suits no GPU: its kernels leave out excluded pairs themselves.

Paths through rectangles with excluded pairs are traced here, for every back end. So are start states, for a
back end that uses every pair. Both need memory for each cell, so the rectangles are small: `can_trace` and
`phases.entry` see to that.

With pruning, only cells of the parts without excluded pairs are left out: the gains hold there, too, as
excluded pairs only lower what a path can gain, and a gap needs no pair.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, TypeVar, cast

import numpy as np

from longalign.backends.base import (
    Backend,
    EdgeStarts,
    Progress,
    Rectangle,
    Runs,
    Sinks,
    SweepJob,
    SweepResult,
    TraceJob,
    no_progress,
)
from longalign.backends.cpu.masked_kernel import compute_cells, start_states, sweep_cells
from longalign.backends.trace_table import make_walk, paths_of
from longalign.model.boundary import (
    BestCell,
    Boundary,
    IntArray,
    best_of,
    entry_edges,
)
from longalign.model.excluded_pairs import ExcludedPairs
from longalign.model.recurrence import step_back
from longalign.model.scoring import NEG_INF

Job = TypeVar("Job", SweepJob, Rectangle, TraceJob)
Result = TypeVar("Result")

#: The largest side of a rectangle with excluded pairs that the plain kernel computes in a sweep.
_SIDE = 512

#: The most cells of a rectangle with excluded pairs that is traced: each takes 13 bytes.
_TRACED_CELLS = 1 << 21


def excluding(backend: Backend) -> Backend:
    """`backend`, able to compute jobs with excluded pairs."""
    return cast("Backend", _ExcludingBackend(backend))


class _ExcludingBackend:
    """Passes everything on to another back end, except jobs with excluded pairs that it cannot compute."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def __getattr__(self, name: str) -> Any:
        return getattr(self._backend, name)

    def sweep(self, jobs: Sequence[SweepJob], progress: Progress = no_progress) -> list[SweepResult]:
        """See `longalign.backends.base.Backend`."""
        if self._backend.excludes_pairs:
            return self._backend.sweep(jobs, progress)
        return _in_order(
            jobs,
            lambda plain: self._backend.sweep(plain, progress),
            lambda job: _DividedSweep(job, self._backend, progress).run(),
        )

    def starts(self, jobs: Sequence[Rectangle], progress: Progress = no_progress) -> list[EdgeStarts]:
        """See `longalign.backends.base.Backend`. With excluded pairs a cell takes 37 bytes."""
        if self._backend.excludes_pairs:
            return self._backend.starts(jobs, progress)
        return _in_order(
            jobs,
            lambda plain: self._backend.starts(plain, progress),
            lambda job: _start_states(job, progress),
        )

    def can_trace(self, rows: int, cols: int, detour: int | None = None) -> bool:
        """See `longalign.backends.base.Backend`: with excluded pairs, all cells are computed."""
        return rows * cols == 1 or (rows * cols <= _TRACED_CELLS and self._backend.can_trace(rows, cols))

    def trace(self, jobs: Sequence[TraceJob], progress: Progress = no_progress) -> list[Runs]:
        """See `longalign.backends.base.Backend`."""
        return _in_order(
            jobs, lambda plain: self._backend.trace(plain, progress), lambda job: _trace(job, progress)
        )


def _in_order(
    jobs: Sequence[Job], compute_plain: Callable[[list[Job]], list[Result]], compute: Callable[[Job], Result]
) -> list[Result]:
    """The results of all jobs, in order. Those without excluded pairs are computed in one call."""
    plain = [job for job in jobs if not len(job.excluded)]
    results = iter(compute_plain(plain) if plain else ())
    return [compute(job) if len(job.excluded) else next(results) for job in jobs]


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The rows i0 < i <= i1 and columns j0 < j <= j1 of a rectangle, and the excluded pairs among them."""

    i0: int
    i1: int
    j0: int
    j1: int
    excluded: ExcludedPairs

    def leaves(self, side: int) -> Iterator[_Part]:
        """Parts without excluded pairs, or with sides up to `side`, each after those on which it depends."""
        if not len(self.excluded) or max(self.i1 - self.i0, self.j1 - self.j0) <= side:
            yield self
            return
        for rows, cols in product(_halves(self.i0, self.i1, side), _halves(self.j0, self.j1, side)):
            local = rows[0] - self.i0, rows[1] - self.i0, cols[0] - self.j0, cols[1] - self.j0
            yield from _Part(*rows, *cols, self.excluded.within(*local)).leaves(side)


def _halves(start: int, stop: int, side: int) -> list[tuple[int, int]]:
    if stop - start <= side:
        return [(start, stop)]
    middle = (start + stop) // 2
    return [(start, middle), (middle, stop)]


class _DividedSweep:
    """The sweep of one job part by part.

    `_row_h` and `_row_e` hold, for each column, the values in the last row that is computed there; `_col_h`
    and `_col_f` hold, for each row, those in the last column. `_corners` holds H in the corners of all parts:
    the upper left corner of a part is always a corner of the part above it or of the part beside it.
    """

    def __init__(self, job: SweepJob, backend: Backend, progress: Progress) -> None:
        self._job, self._backend, self._progress = job, backend, progress
        self._row_h, self._row_e = job.top.h.copy(), job.top.gap.copy()
        self._col_h, self._col_f = job.left.h.copy(), job.left.gap.copy()
        self._corners: dict[tuple[int, int], int] = {}

    def run(self) -> SweepResult:
        job = self._job
        rows = _Lines(job.left.h_at(job.rows), len(job.target))
        cols = _Lines(job.top.h_at(job.cols), len(job.query))
        sinks = job.sinks or Sinks(rows, cols)
        best, left_out = BestCell(), 0
        for part in _Part(0, len(job.query), 0, len(job.target), job.excluded).leaves(_SIDE):
            swept = self._sweep(self._part_job(part))
            self._keep(part, swept, sinks)
            best = best_of([best, swept.best.shifted(part.i0, part.j0)])
            left_out += swept.cells_left_out
        lines = ((), ()) if job.sinks else (rows.lines, cols.lines)
        return SweepResult(*lines, best, left_out)

    def _part_job(self, part: _Part) -> SweepJob:
        """The sweep of a part: the rows and columns that the job asks for, followed by the part's last ones.

        The parts on which it depends must have been kept.
        """
        i0, i1, j0, j1 = part.i0, part.i1, part.j0, part.j1
        corner = self._corner(i0, j0)
        return SweepJob(
            self._job.query[i0:i1],
            self._job.target[j0:j1],
            self._job.scoring,
            _edge(corner, self._row_h[j0 + 1 : j1 + 1], self._row_e[j0 + 1 : j1 + 1]),
            _edge(corner, self._col_h[i0 + 1 : i1 + 1], self._col_f[i0 + 1 : i1 + 1]),
            self._job.local,
            _wanted(self._job.rows, i0, i1),
            _wanted(self._job.cols, j0, j1),
            self._job.track_best,
            of_matrix=self._job.of_matrix,
            excluded=part.excluded,
            pruning=self._job.pruning and self._job.pruning.within(i0, i1, j0, j1),
        )

    def _sweep(self, job: SweepJob) -> SweepResult:
        if len(job.excluded):
            swept = sweep_cells(job)
            self._progress(job.cells)
            return swept
        [swept] = self._backend.sweep([job], self._progress)
        return swept

    def _keep(self, part: _Part, swept: SweepResult, sinks: Sinks) -> None:
        """Keep the edges of a part for those that follow, and hand the lines that the job asks for on."""
        i0, i1, j0, j1 = part.i0, part.i1, part.j0, part.j1
        self._corners[i1, j0] = int(self._col_h[i1])
        self._corners[i0, j1] = int(self._row_h[j1])
        bottom, right = swept.rows[-1], swept.cols[-1]
        self._corners[i1, j1] = int(bottom.h[-1])
        self._row_h[j0 + 1 : j1 + 1], self._row_e[j0 + 1 : j1 + 1] = bottom.h[1:], bottom.gap[1:]
        self._col_h[i0 + 1 : i1 + 1], self._col_f[i0 + 1 : i1 + 1] = right.h[1:], right.gap[1:]
        for sink, indices, start, stop, lines, along in (
            (sinks.rows, self._job.rows, i0, i1, swept.rows, j0),
            (sinks.cols, self._job.cols, j0, j1, swept.cols, i0),
        ):
            first, last = np.searchsorted(indices, (start, stop), side="right")
            for number, line in zip(range(first, last), lines, strict=False):
                sink.put(number, along, line.h[1:], line.gap[1:])

    def _corner(self, i: int, j: int) -> int:
        if i == 0:
            return int(self._job.top.h_at([j])[0])
        if j == 0:
            return int(self._job.left.h_at([i])[0])
        return self._corners[i, j]


def _edge(corner: int, h: IntArray, gap: IntArray) -> Boundary:
    return Boundary(
        np.concatenate([np.array([corner], np.int32), h]),
        np.concatenate([np.array([NEG_INF], np.int32), gap]),
    )


def _wanted(indices: Sequence[int], start: int, stop: int) -> tuple[int, ...]:
    """The indices start < k <= stop, and `stop` itself, counted from `start`."""
    return (*(k - start for k in indices if start < k < stop), stop - start)


class _Lines:
    """A `LineSink` that joins the pieces of boundaries whose first cells are given."""

    def __init__(self, corners: IntArray, length: int) -> None:
        self.lines = tuple(
            Boundary(np.full(length + 1, corner, np.int32), np.full(length + 1, NEG_INF, np.int32))
            for corner in corners
        )

    def put(self, line: int, start: int, h: IntArray, gap: IntArray) -> None:
        """See `LineSink`."""
        stop = start + 1 + len(h)
        self.lines[line].h[start + 1 : stop] = h
        self.lines[line].gap[start + 1 : stop] = gap


def _start_states(job: Rectangle, progress: Progress) -> EdgeStarts:
    """The start states of a small rectangle, by the plain kernel."""
    found = start_states(compute_cells(job, job.top, job.left, job.local), job.local)
    progress(job.cells)
    return found


def _trace(job: TraceJob, progress: Progress) -> Runs:
    """The path through a small rectangle, followed back through the directions of the plain kernel."""
    rows, cols = len(job.query), len(job.target)
    edges = entry_edges(job.entry, rows, cols, job.scoring)
    cells = compute_cells(job, *edges, False)
    runs = np.empty(rows + cols, np.int32)
    count = _walk(cells.directions, rows, cols, int(job.exit), runs, len(runs))
    progress(job.cells)
    [path] = paths_of(runs, [len(runs)], [count])
    return path


_walk = make_walk(step_back, lambda directions, i, j: int(directions[i, j]))
