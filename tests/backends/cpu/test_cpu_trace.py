"""Features of tracing that only the CPU has: batches for threads, and leaves larger than a band."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from related_pairs import leaf

from longalign.backends.base import TraceJob
from longalign.backends.cpu import CpuBackend, traceback
from longalign.model.alignment import Op
from longalign.model.boundary import State, Waypoint
from longalign.model.mode import GLOBAL
from longalign.model.scoring import Scoring
from longalign.phases.problem import Problem, Segment
from longalign.testing.inputs import SCORINGS, letters_of, mutated
from longalign.testing.reference import ReferenceBackend
from longalign.testing.traces import FREE_GAPS, TIES, assert_same_path, has_path, path_value


@pytest.mark.parametrize("threads", [1, 3])
def test_many_batches_come_back_in_order(monkeypatch, threads):
    monkeypatch.setattr(traceback, "_MIN_BATCH_CELLS", 1)
    work = [leaf(1 + k % 37, 40 - k % 39) for k in range(100)]
    counts = []
    paths = CpuBackend(threads).trace(work, counts.append)
    for job, got, want in zip(work, paths, ReferenceBackend().trace(work), strict=True):
        assert_same_path(job, got, want)
    assert len(counts) > threads
    assert sum(counts) == sum(job.cells for job in work)


def test_progress_that_raises_stops_the_batches_that_have_not_started(monkeypatch):
    started = []
    trace_batch = traceback._trace_batch
    monkeypatch.setattr(traceback, "_MIN_BATCH_CELLS", 1)
    monkeypatch.setattr(traceback, "_BATCHES_PER_THREAD", 1 << 30)

    def note(tracer, jobs):
        started.append(jobs)
        return trace_batch(tracer, jobs)

    monkeypatch.setattr(traceback, "_trace_batch", note)

    def stop(cells):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        CpuBackend(2).trace([leaf(200, 300) for _ in range(500)], stop)
    assert 1 <= len(started) < 500


@pytest.mark.parametrize(("rows", "cols"), [(600, 700), (1025, 33), (31, 2000)])
def test_leaves_of_several_bands(rows, cols):
    job = leaf(rows, cols)
    [got], [want] = CpuBackend(1).trace([job]), ReferenceBackend().trace([job])
    assert_same_path(job, got, want)


@given(
    st.integers(1, 900),
    st.integers(-60, 60),
    st.sampled_from([0.0, 0.01, 0.05]),
    st.sampled_from([Scoring(), TIES, FREE_GAPS, SCORINGS[-1]]),
    st.sampled_from([*product(State, repeat=2)]),
    st.integers(0, 1 << 32),
)
def test_a_leaf_of_few_diagonals_has_the_path_of_the_whole_leaf(rows, more, rate, scoring, states, seed):
    """The band leaves out columns of most leaves with more rows than lanes."""
    rng = np.random.default_rng(seed)
    letters = letters_of(scoring)
    query = rng.integers(0, letters, rows, np.uint8)
    target = mutated(query, max(1, rows + more), rate, rng, letters)
    whole = TraceJob(query, target, scoring, *states)
    assume(has_path(whole))
    backend = CpuBackend(1)
    [want] = backend.trace([whole])
    exit_ = Waypoint(rows, len(target), whole.exit, path_value(whole, want))
    detour = Segment(Waypoint(0, 0, whole.entry, 0), exit_).detour(scoring)
    narrow = replace(whole, detour=detour)
    event("leaves out columns" if narrow.diagonals[1] - narrow.diagonals[0] + 32 < len(target) else "none")
    [got] = backend.trace([narrow])
    assert_same_path(narrow, got, want)


def test_a_leaf_of_few_diagonals_may_be_large():
    rng = np.random.default_rng(0)
    query = rng.integers(0, 4, 20_000, np.uint8)
    target = mutated(query, 20_010, 0.001, rng)
    backend = CpuBackend(2)
    problem = Problem.of_codes(query, target, Scoring(), GLOBAL)
    segment = Segment(problem.corner, Waypoint(*(len(query), len(target)), State.H, 19_000))
    assert not backend.can_trace(len(query), len(target))
    assert backend.can_trace(len(query), len(target), segment.detour(problem.scoring))


@pytest.mark.parametrize("letters", [1 << 12, 1 << 18])
def test_one_letter_against_many(letters):
    """The letter pair comes last: of equally good paths, the walk back takes the first one that it meets."""
    one, many = np.zeros(1, np.uint8), np.zeros(letters, np.uint8)
    for query, target, gap in ((one, many, Op.DELETION), (many, one, Op.INSERTION)):
        [(ops, lengths)] = CpuBackend(1).trace([TraceJob(query, target, Scoring(), State.H, State.H)])
        assert ops.tolist() == [gap, Op.DIAGONAL]
        assert lengths.tolist() == [letters - 1, 1]
