"""Features of tracing that only the CPU has: batches for threads, and leaves larger than a band."""

from __future__ import annotations

import numpy as np
import pytest

from longalign.backends.base import TraceJob
from longalign.backends.cpu import CpuBackend, traceback
from longalign.model.alignment import Op
from longalign.model.boundary import State
from longalign.model.scoring import Scoring
from longalign.testing.inputs import (
    mutated,
)
from longalign.testing.reference import ReferenceBackend
from longalign.testing.traces import TIES, assert_same_path


def leaf(rows: int, cols: int, scoring: Scoring = TIES) -> TraceJob:
    rng = np.random.default_rng(rows + cols)
    query = rng.integers(0, 4, rows, np.uint8)
    return TraceJob(query, mutated(query, cols, 0.2, rng), scoring, State.H, State.H)


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


@pytest.mark.parametrize("letters", [1 << 12, 1 << 18])
def test_one_letter_against_many(letters):
    """The letter pair comes last: of equally good paths, the walk back takes the first one that it meets."""
    one, many = np.zeros(1, np.uint8), np.zeros(letters, np.uint8)
    for query, target, gap in ((one, many, Op.DELETION), (many, one, Op.INSERTION)):
        [(ops, lengths)] = CpuBackend(1).trace([TraceJob(query, target, Scoring(), State.H, State.H)])
        assert ops.tolist() == [gap, Op.DIAGONAL]
        assert lengths.tolist() == [letters - 1, 1]
