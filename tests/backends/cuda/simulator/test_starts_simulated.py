"""The kernel of start states, in Numba's simulator."""

from __future__ import annotations

import numpy as np
import pytest

from longalign.backends.cuda.backend import CudaBackend
from longalign.backends.cuda.config import LANES
from longalign.backends.cuda.kernels.start_states import COLUMNS, STRIP_WIDTH
from longalign.backends.cuda.launch import start_states
from longalign.model.scoring import Scoring
from longalign.testing.inputs import matrix_of, mutated
from longalign.testing.reference import ReferenceBackend
from longalign.testing.start_states import StartConformance, assert_same_starts
from longalign.testing.sweep_jobs import whole_matrix
from longalign.testing.traces import TIES


class TestStarts(StartConformance):
    """Lengths around the columns of a lane."""

    interesting_lengths = (COLUMNS,)
    largest_job = 300
    effort = 0.05

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> CudaBackend:
        return CudaBackend()


#: An asymmetric matrix with ties.
MATRIX = Scoring(
    gap_open=0, gap_extend=1, matrix=matrix_of([[1, -2, 0, -1], [-2, 1, -2, 1], [-1, -2, 2, 0], [1, 0, 1, 1]])
)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("scoring", [TIES, MATRIX], ids=["letters", "matrix"])
def test_several_strips_and_row_blocks(scoring, local):
    rng = np.random.default_rng(1)
    shapes = [(1, STRIP_WIDTH - 1), (2, STRIP_WIDTH), (3, STRIP_WIDTH + 1), (LANES, 9), (2 * LANES + 1, 3)]
    work = []
    for rows, cols in shapes:
        query = rng.integers(0, 4, rows, np.uint8)
        work.append(whole_matrix(query, mutated(query, cols, 0.1, rng), scoring, local))
    for job, got, want in zip(work, CudaBackend().starts(work), ReferenceBackend().starts(work), strict=True):
        assert_same_starts(job, got, want)


def test_several_launches_if_memory_is_small(monkeypatch):
    monkeypatch.setattr(start_states, "_LAUNCH_BYTES", 1 << 13)
    rng = np.random.default_rng(0)
    work = []
    for number, (rows, cols) in enumerate([(3, 2 * STRIP_WIDTH + 9), (5, 5), (40, 9), (33, STRIP_WIDTH)]):
        query = rng.integers(0, 4, rows, np.uint8)
        scoring = (Scoring(), TIES)[number % 2]
        work.append(whole_matrix(query, mutated(query, cols, 0.2, rng), scoring, number < 3))
    counts = []
    found = CudaBackend().starts(work, counts.append)
    assert counts == [40 * 9 + 5 * 5, 3 * (2 * STRIP_WIDTH + 9), 33 * STRIP_WIDTH]
    for job, got, want in zip(work, found, ReferenceBackend().starts(work), strict=True):
        assert_same_starts(job, got, want)
