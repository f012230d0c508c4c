"""The conformance suite for `Backend.starts`: of equally good paths, every back end follows the same one.

See `longalign.testing.conformance` for its use. The jobs are those of `longalign.testing.sweep_jobs`.
`assert_walked` checks the oracle itself: a walk back through its DP matrices, letter by letter, ends at its
start states.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import strategies as st

from longalign.backends.base import Backend, EdgeStarts, Progress, SweepJob
from longalign.backends.excluding import excluding
from longalign.model.boundary import State, entry_edges, start_parts
from longalign.model.scoring import UNREACHABLE, Scoring
from longalign.model.substitution_matrix import LARGEST_ALPHABET
from longalign.testing.conformance import Conformance, edge_lengths
from longalign.testing.inputs import SCORINGS, entry_range, largest_parameter, matrix_of, mutated
from longalign.testing.reference import ReferenceBackend, matrices, walk_back
from longalign.testing.sweep_jobs import job_source, jobs, whole_matrix, with_excluded_pairs
from longalign.testing.traces import FREE_GAPS, TIES


def assert_same_starts(job: SweepJob, got: EdgeStarts, want: EdgeStarts) -> None:
    """Check that both are equal, except where a value is minus infinity: its start is undefined."""
    [swept] = ReferenceBackend().sweep([_with_edges(job)])
    for side, values in (("bottom", swept.rows[0]), ("right", swept.cols[0])):
        for name in ("h", "gap"):
            ours, theirs = (getattr(getattr(starts, side), name) for starts in (got, want))
            assert (ours.dtype, ours.shape) == (np.int64, theirs.shape)
            wrong = np.flatnonzero((ours != theirs) & (getattr(values, name)[1:] >= UNREACHABLE))
            if len(wrong):
                k = int(wrong[0])
                here, there = (tuple(map(int, start_parts(codes[k]))) for codes in (ours, theirs))
                raise AssertionError(
                    f"{side} edge, cell {k + 1}: the start of {name} is {here}, not {there} "
                    f"({len(wrong)} starts differ), for\n{job_source(job)}"
                )


def _with_edges(job: SweepJob) -> SweepJob:
    rows, cols = (len(job.query),), (len(job.target),)
    return replace(job, rows=rows, cols=cols)


def assert_walked(job: SweepJob, starts: EdgeStarts) -> None:
    """Check that the start states are those of walks back from the edges."""
    values = matrices(job)
    rows, cols = len(job.query), len(job.target)
    ends = [
        *((rows, j, State.H, code) for j, code in enumerate(starts.bottom.h.tolist(), start=1)),
        *((rows, j, State.E, code) for j, code in enumerate(starts.bottom.gap.tolist(), start=1)),
        *((i, cols, State.H, code) for i, code in enumerate(starts.right.h.tolist(), start=1)),
        *((i, cols, State.F, code) for i, code in enumerate(starts.right.gap.tolist(), start=1)),
    ]
    for i, j, state, code in ends:
        if values[state][i][j] >= UNREACHABLE:
            *start, _ = walk_back(job, values, i, j, int(state))
            assert start_parts(code) == tuple(start), f"from {(i, j, state)} of\n{job_source(job)}"


class StartConformance(Conformance[SweepJob]):
    """The suite for `Backend.starts`; for its use see `longalign.testing.conformance`."""

    def test_finds_the_starts_of_the_reference(self, backend: Backend) -> None:
        self.for_all(self.start_jobs(), lambda job: self.check(backend, [job]))

    def test_every_pair_of_edge_lengths(self, backend: Backend) -> None:
        rng = np.random.default_rng(0)
        work = []
        for number, (rows, cols) in enumerate(product(edge_lengths(self.interesting_lengths), repeat=2)):
            if rows * cols <= self.largest_job:
                query = rng.integers(0, 4, rows, np.uint8)
                scoring = (Scoring(), TIES)[number // 2 % 2]
                work.append(whole_matrix(query, mutated(query, cols, 0.1, rng), scoring, bool(number % 2)))
        self.check(backend, work)

    @pytest.mark.parametrize("local", [True, False])
    def test_ties_in_repeats(self, backend: Backend, local: bool) -> None:
        length = self.usual_length
        query = np.resize(np.array([0, 1], np.uint8), length)
        target = np.resize(np.array([1, 0, 0], np.uint8), length + 3)
        shapes = [(query, target), (query, target[:5]), (query[:5], target)]
        self.check(
            backend,
            [whole_matrix(*pair, s, local) for pair in shapes for s in (Scoring(), TIES, FREE_GAPS)],
        )

    def test_every_state_on_entry(self, backend: Backend) -> None:
        rng = np.random.default_rng(1)
        length = self.usual_length
        query = rng.integers(0, 4, length, np.uint8)
        target = mutated(query, length + 2, 0.2, rng)
        work = []
        for scoring, state in product((*SCORINGS[:4], TIES), State):
            top, left = entry_edges(state, length, length + 2, scoring)
            work.append(SweepJob(query, target, scoring, top, left, False))
        self.check(backend, work)

    def test_values_at_both_ends_of_the_range(self, backend: Backend) -> None:
        rows, cols = 40, 20
        limit = largest_parameter(rows, cols)
        rng = np.random.default_rng(2)
        query = rng.integers(0, 4, rows, np.uint8)
        scoring = Scoring(match=limit, mismatch=-limit, gap_open=limit, gap_extend=limit)
        work = []
        for value, state in product(entry_range(scoring, rows, cols), State):
            top, left = entry_edges(state, rows, cols, scoring, value)
            target = mutated(query, cols, 0.05, rng)
            work.append(SweepJob(query, target, scoring, top, left, False))
        self.check(backend, work)

    def test_matrices_of_all_sizes(self, backend: Backend) -> None:
        rng = np.random.default_rng(6)
        length, work = self.usual_length, []
        for letters, local in ((2, True), (8, False), (25, True), (LARGEST_ALPHABET, False)):
            query = rng.integers(0, letters, length, np.uint8)
            target = mutated(query, length + 2, 0.2, rng, letters)
            scores = rng.integers(-3, 4, (letters, letters)) + 2 * np.eye(letters, dtype=int)
            work.append(
                whole_matrix(
                    query, target, Scoring(gap_open=1, gap_extend=2, matrix=matrix_of(scores)), local
                )
            )
        self.check(backend, work)

    def test_a_list_of_different_jobs(self, backend: Backend) -> None:
        lists = st.lists(self.start_jobs(self.largest_job // 4), min_size=2, max_size=6)
        self.for_all(lists, lambda work: self.check(backend, work), share=0.5)

    def test_excluded_pairs_are_not_used(self, backend: Backend) -> None:
        cells = self.largest_job // 4
        any_job = st.one_of(self.start_jobs(cells), with_excluded_pairs(self.start_jobs(cells)))
        lists = st.lists(any_job, min_size=1, max_size=4)
        self.for_all(lists, lambda work: self.check(excluding(backend), work))

    def test_an_empty_list(self, backend: Backend) -> None:
        assert backend.starts([]) == []

    def test_it_leaves_its_input_and_earlier_results_alone(self, backend: Backend) -> None:
        first, second = self.some_work()[:2]
        before = job_source(first)
        [starts] = backend.starts([first])
        backend.starts([second])
        assert job_source(first) == before
        assert_same_starts(first, starts, ReferenceBackend().starts([first])[0])

    # What the tests above share.

    def start_jobs(self, cells: int | None = None) -> st.SearchStrategy[SweepJob]:
        """Jobs around the back end's interesting lengths."""
        return jobs(self.interesting_lengths, cells or self.largest_job)

    def some_work(self) -> list[SweepJob]:
        """A few jobs of fixed content."""
        return [whole_matrix(*pair, Scoring(), True) for pair in self.some_pairs()]

    def compute(self, backend: Backend, work: Sequence[SweepJob], progress: Progress) -> None:
        """See `Conformance`."""
        backend.starts(work, progress)

    def check(self, backend: Backend, work: Sequence[SweepJob]) -> None:
        """Check that one call for all of `work` finds the start states of the oracle for each job."""
        found = backend.starts(work)
        assert len(found) == len(work)
        for job, got, want in zip(work, found, ReferenceBackend().starts(work), strict=True):
            assert_same_starts(job, got, want)
