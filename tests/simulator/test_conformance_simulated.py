"""The conformance suite on the CUDA kernel in numba's simulator, with narrow strips and short batches."""

from __future__ import annotations

import pytest

from longalign.backends.cuda.backend import CudaBackend
from longalign.testing import SweepConformance


class TestSimulatedCuda(SweepConformance):
    """Strips of 64 columns, flags every 16 rows."""

    interesting_lengths = (16, 64)
    largest_job = 300
    effort = 0.06

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> CudaBackend:
        return CudaBackend(columns=2, batch=16, warps=1)
