"""The traceback kernel, in Numba's simulator."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from longalign.backends.base import TraceJob
from longalign.backends.cuda.backend import CudaBackend
from longalign.backends.cuda.config import LANES
from longalign.backends.cuda.device import directions
from longalign.backends.cuda.device.directions import COLUMNS, STRIP_WIDTH
from longalign.backends.cuda.launch import traceback
from longalign.model.boundary import State
from longalign.model.scoring import Scoring
from longalign.testing.inputs import (
    mutated,
)
from longalign.testing.reference import ReferenceBackend
from longalign.testing.traces import TIES, TraceConformance, assert_same_path


class TestTraces(TraceConformance):
    """Lengths around the columns of a lane, the rows that are read together, and the width of a strip."""

    interesting_lengths = (COLUMNS, LANES, STRIP_WIDTH)
    largest_job = 520
    effort = 0.1

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> CudaBackend:
        return CudaBackend()


class TestTracesInNarrowStrips(TraceConformance):
    """Strips of one column a lane, of which few rows are swept; the simulator is slow."""

    interesting_lengths = (LANES, 2 * LANES + 1, 3 * LANES)
    largest_job = 5000
    effort = 0.05

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> Iterator[CudaBackend]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(directions, "COLUMNS", 1)
            patch.setattr(directions, "STRIP_WIDTH", LANES)
            yield CudaBackend()


def leaf(rows: int, cols: int, scoring: Scoring) -> TraceJob:
    rng = np.random.default_rng(rows)
    query = rng.integers(0, 4, rows, np.uint8)
    return TraceJob(query, mutated(query, cols, 0.2, rng), scoring, State.H, State.H)


def test_several_launches_if_memory_is_small(monkeypatch):
    monkeypatch.setattr(traceback, "_LAUNCH_BYTES", 1 << 15)
    work = [leaf(3, 300, Scoring()), leaf(5, 5, TIES), leaf(40, 9, Scoring()), leaf(33, 257, TIES)]
    counts = []
    paths = CudaBackend().trace(work, counts.append)
    assert counts == [33 * 257 + 3 * 300, 40 * 9 + 5 * 5]  # the largest first
    for job, got, want in zip(work, paths, ReferenceBackend().trace(work), strict=True):
        assert_same_path(job, got, want)
