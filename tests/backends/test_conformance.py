"""The conformance suite on the back ends that need no device."""

from __future__ import annotations

import pytest

from longalign.backends.cpu import CpuBackend, SweepGeometry
from longalign.backends.cpu.traceback_kernel import GROUP, LANES
from longalign.testing.reference import ReferenceBackend
from longalign.testing.sweeps import SweepConformance
from longalign.testing.traces import TraceConformance


class TestReference(SweepConformance):
    """The oracle against itself. This tests tiles, boundaries and the suite more than the oracle's cells."""

    interesting_lengths = (4, 16)

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> ReferenceBackend:
        return ReferenceBackend()


class CpuConformance(SweepConformance):
    """A geometry so small that a job has several strips, groups of lanes and blocks of rows."""

    geometry = SweepGeometry(columns=2, lanes=8, group=4, block_rows=12, min_rows=5)
    interesting_lengths = (8, 12, 16, 32)


class TestCpuOnOneThread(CpuConformance):
    """Numbers of each width."""

    @pytest.fixture(scope="class", params=[None, (8, 16), (16,), ()], ids=["general", "8", "16", "32"])
    @classmethod
    def backend(cls, request) -> CpuBackend:
        return CpuBackend(1, cls.geometry, request.param)


class TestCpuOnThreeThreads(CpuConformance):
    """Strips wait for one another."""

    @pytest.fixture(scope="class", params=[None, (8, 16)], ids=["general", "8"])
    @classmethod
    def backend(cls, request) -> CpuBackend:
        return CpuBackend(3, cls.geometry, request.param)


class TestCpu(SweepConformance):
    """The default geometry, with general and specialised kernels. Strips are wide, so jobs are flat."""

    interesting_lengths = (64, 2048)
    largest_job = 20_000
    effort = 0.2

    @pytest.fixture(scope="class", params=[None, (8, 16)], ids=["general", "best"])
    @classmethod
    def backend(cls, request) -> CpuBackend:
        return CpuBackend(2, widths=request.param)


class TestReferenceTraces(TraceConformance):
    """The oracle against itself. Each path has the score of the sweep: see `TraceConformance.check`."""

    interesting_lengths = (4, 16)

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> ReferenceBackend:
        return ReferenceBackend()


class TestCpuTraces(TraceConformance):
    """Lengths around the sizes of groups of lanes and of bands of rows."""

    interesting_lengths = (GROUP, LANES)
    largest_job = 20_000

    @pytest.fixture(scope="class", params=[1, 3], ids=["one thread", "three threads"])
    @classmethod
    def backend(cls, request) -> CpuBackend:
        return CpuBackend(request.param)
