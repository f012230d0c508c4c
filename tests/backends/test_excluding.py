"""Jobs with excluded letter pairs, divided into parts, against the reference implementation."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.backends import base
from longalign.backends import excluding as module
from longalign.backends.base import Sinks, SweepJob, SweepResult, no_progress
from longalign.backends.cpu import CpuBackend
from longalign.backends.cpu.masked_kernel import sweep_cells
from longalign.backends.excluding import excluding
from longalign.model.boundary import BestCell, LinearEdge
from longalign.model.excluded_pairs import ExcludedPairs
from longalign.model.scoring import Scoring
from longalign.testing.inputs import CollectedLines
from longalign.testing.pruned_jobs import assert_between, pruned_jobs
from longalign.testing.reference import ReferenceBackend
from longalign.testing.start_states import assert_same_starts
from longalign.testing.sweeps import assert_same_result, jobs
from longalign.testing.traces import assert_same_path, has_path, trace_jobs

CPU = excluding(CpuBackend(2))
REFERENCE = ReferenceBackend()


@st.composite
def excluded_pairs(draw: st.DrawFn, rows: int, cols: int) -> ExcludedPairs:
    """Some pairs of a rectangle: a diagonal, as an alignment leaves it, or any."""
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    if draw(st.booleans()):
        shift = draw(st.integers(1 - rows, cols - 1))
        pairs = [(i, i + shift) for i in range(rows) if 0 <= i + shift < cols]
    else:
        pairs = [(int(rng.integers(rows)), int(rng.integers(cols))) for _ in range(draw(st.integers(1, 40)))]
    ordered = np.array(sorted({*pairs}), np.int64).reshape(-1, 2)
    return ExcludedPairs(ordered[:, 0], ordered[:, 1])


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of at most five letters a side: short sequences then have parts of every kind.

    The CPU back end takes parts of such a size from other back ends, but no larger ones.
    """
    monkeypatch.setattr(module, "_SIDE", 5)
    monkeypatch.setattr(module, "_CPU_CELLS", 5 * 5)


@pytest.mark.parametrize("backend", [CPU, excluding(REFERENCE)], ids=["cpu", "reference"])
@given(data=st.data())
def test_sweeps(backend, data):
    job = data.draw(jobs([1, 5, 6, 11, 40], 1600))
    work = [
        replace(job, excluded=data.draw(excluded_pairs(len(job.query), len(job.target)))),
        job,
        replace(job, rows=(), cols=(), excluded=data.draw(excluded_pairs(len(job.query), len(job.target)))),
    ]
    for one, got, want in zip(work, backend.sweep(work), REFERENCE.sweep(work), strict=True):
        assert_same_result(one, got, want)


class Watched(ReferenceBackend):
    """Notes the cells of each job of each call."""

    def __init__(self):
        self.swept: list[list[int]] = []
        self.started: list[list[int]] = []

    def sweep(self, jobs, progress=no_progress):
        self.swept.append([job.cells for job in jobs])
        return super().sweep(jobs, progress)

    def starts(self, jobs, progress=no_progress):
        self.started.append([job.cells for job in jobs])
        return super().starts(jobs, progress)


def test_other_back_ends_get_large_parts_only_and_both_beside_a_diagonal_in_one_call():
    rng = np.random.default_rng(1)
    query, target = (rng.integers(4, size=40, dtype=np.uint8) for _ in "qt")
    edge, diagonal = LinearEdge(40, 0, 0, 0), ExcludedPairs(np.arange(40), np.arange(40))
    job = SweepJob(query, target, Scoring(), edge, edge, True, rows=(40,), cols=(40,), excluded=diagonal)
    watched = Watched()
    [got], [starts] = (compute([job]) for compute in (excluding(watched).sweep, excluding(watched).starts))
    [want], [starts_wanted] = REFERENCE.sweep([job]), REFERENCE.starts([job])
    assert_same_result(job, got, want)
    assert_same_starts(job, starts, starts_wanted)
    assert watched.started == [[10 * 10] * 2, [20 * 20] * 2, [10 * 10] * 2]
    assert watched.swept == 2 * watched.started


def test_the_threads_beside_another_back_end_are_as_many_as_asked_for():
    threads: list[int] = []

    class Counted(CpuBackend):
        def __init__(self, count):
            threads.append(count)
            super().__init__(count)

    with mock.patch.object(module, "CpuBackend", Counted):
        excluding(Watched(), 3)
    assert threads == [3]


def test_the_best_of_equal_cells_is_on_the_lowest_anti_diagonal():
    query, target = np.array([0, 1], np.uint8), np.array([1, 2, 2, 2, 0], np.uint8)
    edges = LinearEdge(5, 0, 0, 0), LinearEdge(2, 0, 0, 0)
    first = ExcludedPairs(np.zeros(1, np.int64), np.zeros(1, np.int64))
    job = SweepJob(query, target, Scoring(), *edges, True, rows=(2,), cols=(5,), excluded=first)
    assert sweep_cells(job).best == BestCell(1, 2, 1)


@given(data=st.data())
def test_pruning(data):
    job = data.draw(pruned_jobs([5, 6, 11, 40], 1600))
    job = replace(job, excluded=data.draw(excluded_pairs(len(job.query), len(job.target))))
    [result] = CPU.sweep([job])
    assert_between(job, result)


@given(data=st.data(), in_threads=st.booleans())
def test_sinks(data, in_threads):
    job = data.draw(jobs([5, 6, 11], 400))
    job = replace(job, excluded=data.draw(excluded_pairs(len(job.query), len(job.target))))
    rows, cols = CollectedLines(), CollectedLines()
    with mock.patch.object(base, "_WORTH_THREADS", 0 if in_threads else 1 << 30):
        [got] = CPU.sweep([replace(job, sinks=Sinks(rows, cols))])
    [want] = REFERENCE.sweep([job])
    assert (got.rows, got.cols) == ((), ())
    collected = (
        lines.boundaries([int(boundary.h[0]) for boundary in boundaries])
        for lines, boundaries in ((rows, want.rows), (cols, want.cols))
    )
    assert_same_result(job, SweepResult(*collected, got.best), want)


@pytest.mark.parametrize("backend", [CPU, excluding(REFERENCE)], ids=["cpu", "reference"])
@given(data=st.data())
def test_starts(backend, data):
    job = data.draw(jobs([1, 5, 6, 11, 40], 1600))
    work = [replace(job, excluded=data.draw(excluded_pairs(len(job.query), len(job.target)))), job]
    for one, got, want in zip(work, backend.starts(work), REFERENCE.starts(work), strict=True):
        assert_same_starts(one, got, want)


@given(data=st.data())
def test_traces(data):
    job = data.draw(trace_jobs([1, 5, 6, 20], 400))
    job = replace(job, excluded=data.draw(excluded_pairs(len(job.query), len(job.target))))
    if has_path(job):
        for one, got, want in zip([job], CPU.trace([job]), REFERENCE.trace([job]), strict=True):
            assert_same_path(one, got, want)


@given(data=st.data())
def test_progress_counts_all_cells(data):
    job = data.draw(jobs([5, 6, 11], 400))
    job = replace(job, excluded=data.draw(excluded_pairs(len(job.query), len(job.target))))
    cells: list[int] = []
    CPU.sweep([job], cells.append)
    assert sum(cells) == job.cells
    CPU.starts([job], cells.append)
    assert sum(cells) == 2 * job.cells
