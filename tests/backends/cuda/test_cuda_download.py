"""The download of boundaries while a kernel runs: only final values, and in the end all. No GPU is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longalign.backends.base import Sinks, SweepResult
from longalign.model.scoring import Scoring
from longalign.testing.inputs import CollectedLines, mutated
from longalign.testing.sweep_jobs import assert_same_result, whole_matrix

pytest.importorskip("numba_cuda")

from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.launch import download, worklist
from longalign.backends.cuda.planning.strips import ALL_ROWS
from longalign.testing.reference import ReferenceBackend

CONFIG = KernelConfig(True, True, columns=1)
POISON = -123_456_789


class OnDevice:
    """A fake device array in host memory."""

    def __init__(self, values):
        self.values = values

    def copy_to_host(self, stream):
        return self.values.copy()


@pytest.fixture(autouse=True)
def _copies_of_the_host(monkeypatch):
    def copy(to, array, start, stream):
        to[:] = array.values[start : start + len(to)]

    monkeypatch.setattr(download.numba_api, "download", copy)


class Stream:
    def synchronize(self):
        pass


class Space:
    """The part of a workspace that a download uses, with `staged` int32 in each half of pinned memory."""

    def __init__(self, staged=1 << 10):
        self.side_stream = Stream()
        self._staged = np.empty((2, staged), np.int32)

    def staging(self, half):
        return self._staged[half]


def job(length, width, **lines):
    rng = np.random.default_rng(length)
    query = rng.integers(0, 4, length, np.uint8)
    return replace(whole_matrix(query, mutated(query, width, 0.1, rng), Scoring(), True), **lines)


WORK = [
    job(50, 90, rows=(1, 17, 50), cols=(5, 32, 33, 90)),
    job(20, 10, rows=(20,), cols=()),
    job(30, 70, rows=(), cols=(40,)),
]


def right_edges(work, number, flags):
    """The strips of a rectangle, each once, and the number of finished rows of their right edges."""
    of_rectangle = work.strips[work.strips[:, work_tables.JOB] == number]
    strips = [
        of_rectangle[of_rectangle[:, work_tables.NUMBER] == k]
        for k in set(of_rectangle[:, work_tables.NUMBER])
    ]
    swept_rows = np.array([flags[strip[:, work_tables.FLAG]].sum() for strip in strips])
    once = np.array([strip[0] for strip in strips])
    return once, np.clip(
        swept_rows - once[:, work_tables.LAST_PART_LAG], 0, work.jobs[number, work_tables.ROWS]
    )


def finished_lines(work, jobs, flags):
    """The output when strips have made the progress in `flags`, POISON elsewhere; and the complete output."""
    lines, everything = (np.full(work.line_values, POISON, np.int32) for _ in range(2))
    for number, (one, swept) in enumerate(zip(jobs, ReferenceBackend().sweep(jobs), strict=True)):
        strips, done = right_edges(work, number, flags)
        for kind, boundaries, at in (
            ("row", swept.rows, work_tables.ROW_OUT_AT),
            ("col", swept.cols, work_tables.COL_OUT_AT),
        ):
            start = int(work.jobs[number, at])
            for k, boundary in enumerate(boundaries):
                size = work_tables.line_size(len(boundary))
                block = np.concatenate([boundary.h, boundary.gap])
                everything[start + k * size : start + (k + 1) * size] = block
                if kind == "row":
                    passed = strips[done >= one.rows[k]]
                    final = int(
                        (passed[:, work_tables.FIRST_COLUMN] + passed[:, work_tables.WIDTH]).max(initial=0)
                    )
                else:
                    [final] = done[strips[:, work_tables.REQUESTED_COLUMN] == k]
                for half in (0, len(boundary) + 1):
                    part = slice(start + k * size + half + 1, start + k * size + half + 1 + final)
                    lines[part] = everything[part]
    return lines, everything


def progress(work, steps):
    """Flags that grow step by step.

    No right edge is ever ahead of that of the left neighbour. Each band begins after the one above.
    """
    rng = np.random.default_rng(0)
    flags = work.flags.copy()
    for _ in range(steps):
        yield flags.copy()
        for strip in work.strips:
            at, number = strip[work_tables.FLAG], strip[work_tables.NUMBER]
            most = strip[work_tables.LAST_START] - strip[work_tables.FIRST_START]
            if (
                strip[work_tables.FIRST_START] == 0
                or flags[strip[work_tables.FLAG_ABOVE]] == strip[work_tables.DONE_ABOVE]
            ):
                before = flags[at]
                flags[at] = rng.integers(flags[at], most + 1)
                _, done = right_edges(work, strip[work_tables.JOB], flags)
                if number and done[number] > done[number - 1]:
                    flags[at] = before


def with_sinks(jobs):
    return [replace(one, sinks=Sinks(CollectedLines(), CollectedLines())) for one in jobs]


@pytest.mark.parametrize("looks", [0, 1, 80])
@pytest.mark.parametrize("slice_size", [1, 20])
@pytest.mark.parametrize("band_rows", [32, ALL_ROWS])
@pytest.mark.parametrize("staged", [pytest.param(40, marks=pytest.mark.slow), 1 << 10])
def test_only_final_values_are_fetched_and_in_the_end_all(monkeypatch, looks, slice_size, band_rows, staged):
    monkeypatch.setattr(download, "_LARGEST_SLICE", slice_size)
    monkeypatch.setattr(download, "_WORTH_STREAMING", 0)
    work, jobs = worklist.build(WORK, CONFIG, band_rows), with_sinks(WORK)
    out, flags = OnDevice(np.full(work.line_values, POISON, np.int32)), OnDevice(work.flags)
    with download.Download(jobs, work, out, flags, Space(staged)) as fetching:
        for now in progress(work, looks):
            flags.values = now
            out.values, _ = finished_lines(work, WORK, now)
            fetching.advance(slice_size)
        if looks > 1:
            assert now[work.strips[work.strips[:, work_tables.BAND].argmax(), work_tables.FLAG]] > 0
        out.values = finished_lines(work, WORK, now if looks else work.flags)[1]
        assert fetching.finish() is None
    for one, want in zip(jobs, ReferenceBackend().sweep(WORK), strict=True):
        rows = one.sinks.rows.boundaries(one.left.h[list(one.rows)])
        cols = one.sinks.cols.boundaries(one.top.h[list(one.cols)])
        assert_same_result(one, SweepResult(rows, cols, want.best), want)


def test_the_last_values_of_a_line_are_fetched_however_few(monkeypatch):
    monkeypatch.setattr(download, "_WORTH_STREAMING", 0)
    fetched = []

    class Sink:
        def __init__(self, number, side):
            self.number, self.side = number, side

        def put(self, line, start, h, gap):
            assert start == 0
            whole = getattr(swept[self.number], self.side)[line]
            np.testing.assert_array_equal([h, gap], [whole.h[1:], whole.gap[1:]])
            fetched.append((self.number, self.side, line))

    work, swept = worklist.build(WORK, CONFIG), ReferenceBackend().sweep(WORK)
    jobs = [replace(one, sinks=Sinks(Sink(k, "rows"), Sink(k, "cols"))) for k, one in enumerate(WORK)]
    flags = work.flags.copy()
    done = work.strips[
        work.strips[:, work_tables.FIRST_COLUMN] < 33
    ]  # all but the last ones of wide rectangles
    flags[done[:, work_tables.FLAG]] = done[:, work_tables.LAST_START] - done[:, work_tables.FIRST_START]
    out = OnDevice(finished_lines(work, WORK, flags)[0])
    with download.Download(jobs, work, out, OnDevice(flags), Space()) as fetching:
        fetching.advance(1 << 20)
        out.values = finished_lines(work, WORK, flags)[1]
        fetching.finish()
    first = [*((0, "cols", k) for k in range(3)), (1, "rows", 0), (2, "cols", 0)]
    assert sorted(fetched[: len(first)]) == first
    assert len(fetched) == len(set(fetched)) == sum(len(one.rows) + len(one.cols) for one in WORK)


@pytest.mark.parametrize("least", [0, 1 << 20])
@pytest.mark.parametrize("staged", [None, 40, 1 << 10, 1 << 20])
def test_boundaries_that_are_not_streamed_come_in_one_array(monkeypatch, least, staged):
    """The jobs have no sinks, or the values are few. They are copied directly, or `staged` at a time."""
    monkeypatch.setattr(download, "_WORTH_STREAMING", least)
    if staged:
        monkeypatch.setattr(download, "_WORTH_STAGING", 0)
    work, jobs = worklist.build(WORK, CONFIG), with_sinks(WORK) if least else WORK
    everything = finished_lines(work, WORK, work.flags)[1]
    with download.Download(jobs, work, OnDevice(everything), None, Space(staged or 0)) as fetching:
        assert not fetching.streams
        assert (fetching.finish() == everything).all()


def test_an_exception_of_a_sink_is_raised(monkeypatch):
    monkeypatch.setattr(download, "_WORTH_STREAMING", 0)

    class Refuses:
        def put(self, line, start, h, gap):
            raise MemoryError(line)

    work = worklist.build(WORK, CONFIG)
    jobs = [replace(one, sinks=Sinks(Refuses(), Refuses())) for one in WORK]
    everything = finished_lines(work, WORK, work.flags)[1]
    with (
        pytest.raises(MemoryError),
        download.Download(jobs, work, OnDevice(everything), None, Space()) as fetching,
    ):
        fetching.finish()
