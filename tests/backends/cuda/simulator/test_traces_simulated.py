"""The traceback kernel, in Numba's simulator."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from related_pairs import leaf

from longalign.backends.base import TraceJob
from longalign.backends.cuda.backend import CudaBackend
from longalign.backends.cuda.config import LANES
from longalign.backends.cuda.device import directions
from longalign.backends.cuda.device.directions import COLUMNS, STRIP_WIDTH
from longalign.backends.cuda.launch import device_memory, traceback
from longalign.model.boundary import State
from longalign.model.scoring import Scoring
from longalign.testing.inputs import mutated
from longalign.testing.reference import ReferenceBackend
from longalign.testing.traces import TIES, TraceConformance, assert_same_path, with_detour


class TestTraces(TraceConformance):
    """Lengths around the columns of a lane, the rows that are read together, and the width of a strip."""

    interesting_lengths = (COLUMNS, LANES, STRIP_WIDTH)
    largest_job = 520
    effort = 0.1

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> CudaBackend:
        return CudaBackend()


def with_rubbish(place):
    """`Arena._place`, but what is placed has arbitrary values, as device memory does."""

    def placed(arena, shape, dtype):
        array = place(arena, shape, dtype)
        array[:] = np.random.default_rng(1).integers(0, 1 << 30, shape).astype(dtype)
        return array

    return placed


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
            patch.setattr(device_memory.Arena, "_place", with_rubbish(device_memory.Arena._place))
            yield CudaBackend()

    def test_most_rows_of_a_strip_are_left_out(self, backend: CudaBackend) -> None:
        rng = np.random.default_rng(5)
        work, states = [], [*product(State, repeat=2)]
        for number, (rows, more) in enumerate([(130, 0), (170, 9), (150, -12), (131, 30), (190, -31)]):
            query = rng.integers(0, 4, rows, np.uint8)
            for scoring, ends in zip((Scoring(), TIES), states[2 * number % 9 :] + states, strict=False):
                job = TraceJob(query, mutated(query, rows + more, 0.02, rng), scoring, *ends)
                work.append(with_detour(job))
        heights = [directions.strip_rows(len(job.query), *job.diagonals) for job in work]
        assert sum(height < len(job.query) for job, height in zip(work, heights, strict=True)) > len(work) / 2
        self.check(backend, work)


def test_several_launches_if_memory_is_small(monkeypatch):
    monkeypatch.setattr(traceback, "_LAUNCH_BYTES", 1 << 15)
    work = [leaf(3, 300, Scoring()), leaf(5, 5, TIES), leaf(40, 9, Scoring()), leaf(33, 257, TIES)]
    counts = []
    paths = CudaBackend().trace(work, counts.append)
    assert counts == [33 * 257 + 3 * 300, 40 * 9 + 5 * 5]  # the largest first
    for job, got, want in zip(work, paths, ReferenceBackend().trace(work), strict=True):
        assert_same_path(job, got, want)
