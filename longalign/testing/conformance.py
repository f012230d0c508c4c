"""The base class of the conformance suites: how the author of a back end tests it.

There is a suite for each method that computes: `sweeps.SweepConformance`, `traces.TraceConformance` and
`start_states.StartConformance`. A test module subclasses each one under a name that starts with Test, adds a
fixture `backend`, and names the lengths at which the back end changes its behaviour: the width of a strip,
the rows between two changes of base, the size of a block. Each suite compares the back end with the oracle,
`reference.ReferenceBackend`, on fixed and on drawn jobs. See `SweepConformance` for an example.

Only modules in `longalign.testing` import hypothesis or pytest.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longalign.backends.base import Backend, Progress, SweepJob, TraceJob
from longalign.model.alphabet import Codes
from longalign.testing.inputs import mutated

T = TypeVar("T")
Job = TypeVar("Job", SweepJob, TraceJob)


def edge_lengths(interesting: Sequence[int]) -> list[int]:
    """The lengths 1 and 2, and each interesting length with its two neighbours, in order."""
    around = {size + step for size in interesting for step in (-1, 0, 1)}
    return sorted(length for length in {1, 2} | around if length > 0)


class StopTheWorkError(Exception):
    """Raised by a progress callback to stop a back end."""


class Conformance(ABC, Generic[Job]):
    """Base class of the suites: the sizes at which a back end is tested, and the number of examples.

    A suite computes jobs of type `Job` with one method of the back end.
    """

    #: Lengths at which the back end changes its behaviour; the tests use them and their neighbours.
    interesting_lengths: ClassVar[tuple[int, ...]] = (8, 32)

    #: The largest number of cells of a job. The oracle sweeps about a million cells a second.
    largest_job: ClassVar[int] = 4_000

    #: The share of the examples of the hypothesis profile to run; less than 1 for a slow back end.
    effort: ClassVar[float] = 1.0

    @abstractmethod
    def some_work(self) -> list[Job]:
        """A few jobs of fixed content."""

    @abstractmethod
    def compute(self, backend: Backend, work: Sequence[Job], progress: Progress) -> None:
        """Call the method that the suite is for."""

    @abstractmethod
    def check(self, backend: Backend, work: Sequence[Job]) -> None:
        """Check that one call for all of `work` gives the oracle's result for each job."""

    @property
    def usual_length(self) -> int:
        """The largest interesting length whose square is within `largest_job`."""
        return max(length for length in self.interesting_lengths if length**2 <= self.largest_job)

    def some_pairs(self) -> list[tuple[Codes, Codes]]:
        """A few related pairs of fixed content, whose sides are the usual length or a little longer."""
        rng = np.random.default_rng(5)
        query = rng.integers(0, 4, self.usual_length, np.uint8)
        return [(query, mutated(query, self.usual_length + step, 0.1, rng)) for step in (0, 1, 5)]

    def test_progress_adds_up_to_the_cells(self, backend: Backend) -> None:
        work = self.some_work()
        assert_progress_adds_up(
            lambda progress: self.compute(backend, work, progress), sum(job.cells for job in work)
        )

    def test_progress_may_stop_the_work(self, backend: Backend) -> None:
        def progress(_: int) -> None:
            raise StopTheWorkError

        with pytest.raises(StopTheWorkError):
            self.compute(backend, self.some_work(), progress)
        self.check(backend, self.some_work())

    def for_all(self, strategy: st.SearchStrategy[T], check: Callable[[T], None], share: float = 1.0) -> None:
        """Run `check` on values that `strategy` draws, with `share` of the profile's number of examples.

        One example is added, because the first is the smallest, such as a single cell, in which few faults
        show. The test is built here, not by a decorator, because the strategy depends on the subclass.
        """
        examples = 1 + max(1, round(settings().max_examples * self.effort * share))

        def property_holds(drawn: T) -> None:
            check(drawn)

        settings(max_examples=examples, report_multiple_bugs=False)(given(strategy)(property_holds))()


def assert_progress_adds_up(run: Callable[[Progress], object], cells: int) -> None:
    """Check that `run` reports `cells` cells in all, never fewer than 0, only from the calling thread."""
    counts, threads = [], set()

    def progress(cells: int) -> None:
        counts.append(cells)
        threads.add(threading.current_thread())

    run(progress)
    assert sum(counts) == cells
    assert min(counts) >= 0
    assert threads == {threading.current_thread()}
