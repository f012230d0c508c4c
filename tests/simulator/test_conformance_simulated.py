"""The CUDA kernel in numba's simulator, with narrow strips and short batches."""

from __future__ import annotations

import pytest

from longalign.backends.cuda.backend import CudaBackend
from longalign.testing import SweepConformance


class SimulatedCuda(SweepConformance):
    largest_job = 500
    effort = 0.07


class TestPacked(SimulatedCuda):
    """Packed numbers where they are exact: strips of 128 columns, flags every 16 rows."""

    interesting_lengths = (16, 128)

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> CudaBackend:
        return CudaBackend(columns=2, batch=16, warps=1)


class TestInt32(SimulatedCuda):
    """Strips of 64 columns, flags every 16 rows."""

    interesting_lengths = (16, 64)

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> CudaBackend:
        return CudaBackend(numbers="int32", columns=2, batch=16, warps=1)
