"""The conformance suite for start states, on the back ends that need no device."""

from __future__ import annotations

import pytest

from longalign.backends.base import Backend
from longalign.backends.cpu import CpuBackend, SweepGeometry
from longalign.backends.cpu.start_states_kernel import START_GEOMETRY, make_strip_starts
from longalign.testing.reference import ReferenceBackend
from longalign.testing.start_states import StartConformance, assert_walked


class TestReferenceStarts(StartConformance):
    """A start is where the walk back by `recurrence.direction` leads."""

    interesting_lengths = (4, 16)
    largest_job = 1_000

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> ReferenceBackend:
        return ReferenceBackend()

    def check(self, backend: Backend, work) -> None:
        for job, starts in zip(work, backend.starts(work), strict=True):
            assert_walked(job, starts)


class TestCpuStarts(StartConformance):
    """A geometry so small that a job has several strips, groups of lanes and blocks of rows."""

    interesting_lengths = (8, 12, 16, 32)
    effort = 0.5

    @pytest.fixture(scope="class", params=[1, 3], ids=["one thread", "three threads"])
    @classmethod
    def backend(cls, request) -> CpuBackend:
        small = SweepGeometry(columns=2, lanes=8, group=4, block_rows=12)
        return CpuBackend(request.param, start_geometry=small)


class TestCpuStartsAsUsed(StartConformance):
    """Strips are wide, so the jobs are flat."""

    interesting_lengths = (8, 256, START_GEOMETRY.strip)
    largest_job = 20_000
    effort = 0.2

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> CpuBackend:
        return CpuBackend(2)


@pytest.mark.parametrize("geometry", [SweepGeometry(lanes=512, group=64), SweepGeometry(block_rows=1 << 17)])
def test_blocks_beyond_the_bits_of_a_start_are_refused(geometry):
    with pytest.raises(ValueError, match="does not fit its 32 bits"):
        make_strip_starts(geometry, True, False)
