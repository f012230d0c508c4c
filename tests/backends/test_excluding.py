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
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs
from longalign.model.scoring import Scoring
from longalign.testing.inputs import CollectedLines
from longalign.testing.pruned_jobs import assert_between, pruned_jobs
from longalign.testing.reference import ReferenceBackend
from longalign.testing.start_states import assert_same_starts
from longalign.testing.sweep_jobs import assert_same_result, jobs, with_excluded_pairs
from longalign.testing.traces import assert_same_path, has_path, trace_jobs

CPU = excluding(CpuBackend(2))
REFERENCE = ReferenceBackend()


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Parts of at most five letters a side: short sequences then have parts of every kind."""
    monkeypatch.setattr(module, "_SIDE", 5)


@given(first=with_excluded_pairs(jobs([1, 5, 6, 11, 40], 1600)), second=with_excluded_pairs(jobs([1, 6], 50)))
def test_sweeps(first, second):
    work = [first, replace(first, excluded=NO_PAIRS), replace(second, rows=(), cols=())]
    for one, got, want in zip(work, CPU.sweep(work), REFERENCE.sweep(work), strict=True):
        assert_same_result(one, got, want)


class Watched(ReferenceBackend):
    """Uses every pair, and notes the cells of each job that it sweeps."""

    excludes_pairs = False

    def __init__(self):
        self.swept: list[int] = []

    def sweep(self, jobs, progress=no_progress):
        assert not any(len(job.excluded) for job in jobs)
        self.swept += [job.cells for job in jobs]
        return super().sweep(jobs, progress)


def test_a_back_end_sweeps_the_parts_beside_a_diagonal():
    rng = np.random.default_rng(1)
    query, target = (rng.integers(4, size=40, dtype=np.uint8) for _ in "qt")
    edge, diagonal = LinearEdge(40, 0, 0, 0), ExcludedPairs(np.arange(40), np.arange(40))
    job = SweepJob(query, target, Scoring(), edge, edge, True, rows=(40,), cols=(40,), excluded=diagonal)
    watched = Watched()
    [got] = excluding(watched).sweep([job])
    [want] = REFERENCE.sweep([job])
    assert_same_result(job, got, want)
    assert watched.swept == [side * side for side in (5, 10, 5, 20, 5, 10, 5) for _ in "ab"]


def test_the_best_of_equal_cells_is_on_the_lowest_anti_diagonal():
    query, target = np.array([0, 1], np.uint8), np.array([1, 2, 2, 2, 0], np.uint8)
    edges = LinearEdge(5, 0, 0, 0), LinearEdge(2, 0, 0, 0)
    first = ExcludedPairs(np.zeros(1, np.int64), np.zeros(1, np.int64))
    job = SweepJob(query, target, Scoring(), *edges, True, rows=(2,), cols=(5,), excluded=first)
    assert sweep_cells(job).best == BestCell(1, 2, 1)


@given(job=with_excluded_pairs(pruned_jobs([5, 6, 11, 40], 1600)))
def test_pruning(job):
    [result] = CPU.sweep([job])
    assert_between(job, result)


@given(job=with_excluded_pairs(jobs([5, 6, 11], 400)), in_threads=st.booleans())
def test_sinks(job, in_threads):
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


@given(job=with_excluded_pairs(jobs([1, 5, 6, 11, 40], 1600)))
def test_starts(job):
    work = [job, replace(job, excluded=NO_PAIRS)]
    for one, got, want in zip(work, CPU.starts(work), REFERENCE.starts(work), strict=True):
        assert_same_starts(one, got, want)


@given(job=with_excluded_pairs(trace_jobs([1, 5, 6, 20], 400)))
def test_traces(job):
    if has_path(job):
        for one, got, want in zip([job], CPU.trace([job]), REFERENCE.trace([job]), strict=True):
            assert_same_path(one, got, want)


@given(job=with_excluded_pairs(jobs([5, 6, 11], 400)))
def test_progress_counts_all_cells(job):
    cells: list[int] = []
    CPU.sweep([job], cells.append)
    assert sum(cells) == job.cells
    CPU.starts([job], cells.append)
    assert sum(cells) == 2 * job.cells
