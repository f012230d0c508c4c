"""Wanted boundaries on their way to the host, most of them while the kernel still runs.

The flags say how far each strip has come, and what a strip has published is final (see `sync`): a wanted
column as far down as its strip has come, a wanted row as far right as strips have passed it. What has become
final since the last look is copied, unless it is too little to be worth a copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from longalign.backends.base import SweepJob
from longalign.backends.cuda import layout
from longalign.backends.cuda.worklist import WorkList
from longalign.boundary import IntArray

#: Values of one boundary array in a copy, at least, until the kernel has finished.
_SLICE = 1 << 17

#: Boundaries of fewer values in all are not fetched before the kernel has finished.
_WORTH_FETCHING = 1 << 22


class _Line:
    """A wanted row or column: where its two arrays begin, how long they are, and how much is on the host."""

    def __init__(self, at: int, length: int) -> None:
        self.starts = (at, at + length + 1)
        self.length = length
        self.fetched = 0


class _Rectangle:
    """The wanted lines of one rectangle, and where its strips' flags and right edges are."""

    def __init__(self, job: SweepJob, fields: IntArray, strips: IntArray) -> None:
        rows, cols = len(job.query), len(job.target)
        row_at, col_at = int(fields[layout.ROW_OUT_AT]), int(fields[layout.COL_OUT_AT])
        self.rows = [
            (row, _Line(row_at + k * layout.line_size(cols), cols)) for k, row in enumerate(job.rows)
        ]
        first_band = strips[strips[:, layout.BAND] == 0]
        wanted = np.flatnonzero(first_band[:, layout.WANTED_COLUMN] >= 0)
        self.cols = [
            (int(number), _Line(col_at + k * layout.line_size(rows), rows)) for k, number in enumerate(wanted)
        ]
        self._flags = strips[:, layout.FLAG].reshape(-1, len(first_band))
        self._ends = np.concatenate([[0], first_band[:, layout.FIRST_COLUMN] + first_band[:, layout.WIDTH]])

    def final(self, flags: IntArray) -> Iterator[tuple[_Line, int]]:
        """Every line, and how many of its values are final."""
        # Rows that the strips of all bands have done: never more than their left neighbours.
        done = np.minimum.accumulate(flags[self._flags].sum(axis=0))
        for row, line in self.rows:
            yield line, int(self._ends[np.count_nonzero(done >= row)])
        for number, line in self.cols:
            yield line, int(done[number])


class Download:
    """Fetches the wanted boundaries of a launch from `out` on the device, guided by `flags` there."""

    def __init__(self, jobs: Sequence[SweepJob], work: WorkList, out: Any, flags: Any, stream: Any) -> None:
        self._out, self._flags, self._stream = out, flags, stream
        self._host = np.empty(work.line_values, np.int32)
        self._rectangles: list[_Rectangle] = []
        self._begun = False
        self.worth_an_early_start = work.line_values >= _WORTH_FETCHING
        if self.worth_an_early_start:
            in_order = work.strips[np.argsort(work.strips[:, layout.FLAG], kind="stable")]
            cuts = np.searchsorted(in_order[:, layout.JOB], np.arange(1, len(jobs)))
            for job, fields, strips in zip(jobs, work.jobs, np.split(in_order, cuts), strict=True):
                self._rectangles.append(_Rectangle(job, fields, strips))

    def advance(self) -> None:
        """Fetch what has become final, while the kernel runs."""
        self._begun = True
        flags = self._flags.copy_to_host(stream=self._stream)
        self._stream.synchronize()
        for line, final in self._final(flags):
            if final - line.fetched >= _SLICE:
                self._fetch(line, final)

    def finish(self) -> IntArray:
        """All values of all lines, after the kernel has finished."""
        if not self._begun and len(self._host):
            self._out[: len(self._host)].copy_to_host(self._host, stream=self._stream)
        for rectangle in self._rectangles if self._begun else ():
            for _, line in (*rectangle.rows, *rectangle.cols):
                self._fetch(line, line.length)
        self._stream.synchronize()
        return self._host

    def _final(self, flags: IntArray) -> Iterator[tuple[_Line, int]]:
        for rectangle in self._rectangles:
            yield from rectangle.final(flags)

    def _fetch(self, line: _Line, final: int) -> None:
        """Values are those after the corner, which the host knows."""
        if final == line.fetched:
            return
        for start in line.starts:
            part = slice(start + 1 + line.fetched, start + 1 + final)
            self._out[part].copy_to_host(self._host[part], stream=self._stream)
        line.fetched = final
