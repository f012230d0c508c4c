"""The CUDA kernel in numba's simulator, with narrow strips and short batches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longalign.backends.cuda.backend import CudaBackend
from longalign.backends.cuda.config import Letters
from longalign.backends.cuda.letters import STRATEGIES, letters_for
from longalign.reference import ReferenceBackend
from longalign.scoring import Scoring
from longalign.testing import SweepConformance, assert_same_result, mutated, whole_matrix


class TestSimulatedCuda(SweepConformance):
    """Strips of 64 columns, flags every 16 rows."""

    interesting_lengths = (16, 64)
    largest_job = 500
    effort = 0.07

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> CudaBackend:
        return CudaBackend(columns=2, batch=16, warps=1)


@pytest.mark.parametrize("letters", STRATEGIES)
def test_every_way_to_score_letters(letters: Letters):
    rng = np.random.default_rng(0)
    query = rng.integers(0, 4, 20, np.uint8)
    job = whole_matrix(query, mutated(query, 100, 0.1, rng), Scoring(), True)
    job = replace(job, rows=(7, 20), cols=(3, 100))
    assert letters_for([job], letters) == letters
    [got] = CudaBackend(columns=3, batch=32, warps=1, letters=letters).sweep([job])
    [want] = ReferenceBackend().sweep([job])
    assert_same_result(job, got, want)
