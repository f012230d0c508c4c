"""The conformance suite for `Backend.sweep`.

See `longalign.testing.conformance` for its use. The oracle is `longalign.testing.reference`, and the jobs are
those of `longalign.testing.sweep_jobs`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise, product
from math import isqrt

import numpy as np
import pytest
from hypothesis import strategies as st

from longalign.backends.base import Backend, Progress, Sinks, SweepJob, SweepResult
from longalign.backends.excluding import excluding
from longalign.model.boundary import BestCell, State, best_of, entry_edges
from longalign.model.pruning import Pruning, SideGains
from longalign.model.scoring import Scoring
from longalign.model.substitution_matrix import LARGEST_ALPHABET
from longalign.testing.conformance import Conformance, assert_progress_adds_up, edge_lengths
from longalign.testing.inputs import (
    QUERY_N,
    TARGET_N,
    CollectedLines,
    entry_range,
    join_parts,
    largest_parameter,
    matrix_of,
    mutated,
)
from longalign.testing.pruned_jobs import (
    assert_between,
    assert_optimal_paths_exact,
    closely_pruned_jobs,
    pruned_closely,
    pruned_jobs,
)
from longalign.testing.reference import ReferenceBackend, encode
from longalign.testing.sweep_jobs import (
    assert_same_result,
    job_source,
    jobs,
    transposed,
    whole_matrix,
    with_excluded_pairs,
)


def sweep_in_tiles(
    backend: Backend, job: SweepJob, row_cuts: Sequence[int], col_cuts: Sequence[int]
) -> SweepResult:
    """The job's bottom and right boundary and best cell, swept tile by tile, in row order.

    Each tile's edges are boundaries of its neighbours, as in a run.
    """
    rows, cols = len(job.query), len(job.target)
    best, left_out = [], 0
    above = [job.top.part(*span) for span in pairwise([0, *col_cuts, cols])]
    right_edge = []
    for i, i_end in pairwise([0, *row_cuts, rows]):
        before = job.left.part(i, i_end)
        for k, (j, j_end) in enumerate(pairwise([0, *col_cuts, cols])):
            pruning = job.pruning and job.pruning.within(i, i_end, j, j_end)
            tile = dataclasses.replace(
                job,
                query=job.query[i:i_end],
                target=job.target[j:j_end],
                top=above[k],
                left=before,
                rows=(i_end - i,),
                cols=(j_end - j,),
                pruning=pruning,
            )
            [swept] = backend.sweep([tile])
            above[k], before = swept.rows[0], swept.cols[0]
            best.append(swept.best.shifted(i, j))
            left_out += swept.cells_left_out
        right_edge.append(before)
    return SweepResult((join_parts(above),), (join_parts(right_edge),), best_of(best), left_out)


def sweep_into_sinks(backend: Backend, job: SweepJob) -> SweepResult:
    """The result of the job, whose boundaries the back end has put into sinks."""
    sinks = CollectedLines(), CollectedLines()
    [streamed] = backend.sweep([dataclasses.replace(job, sinks=Sinks(*sinks))])
    assert streamed.rows == streamed.cols == ()
    corners = job.left.h_at(job.rows).tolist(), job.top.h_at(job.cols).tolist()
    rows, cols = (sink.boundaries(at) for sink, at in zip(sinks, corners, strict=True))
    return dataclasses.replace(streamed, rows=rows, cols=cols)


class SweepConformance(Conformance[SweepJob]):
    """The suite for `Backend.sweep`.

    >>> class TestMyBackend(SweepConformance):
    ...     interesting_lengths = (32, 100)
    ...
    ...     @pytest.fixture(scope="class")
    ...     @classmethod
    ...     def backend(cls) -> Backend:
    ...         return MyBackend(strip=32, rows_between_rebasings=100)
    """

    def test_equals_the_reference(self, backend: Backend) -> None:
        self.for_all(self.jobs(), lambda job: self.check(backend, [job]))

    def test_every_pair_of_edge_lengths(self, backend: Backend) -> None:
        rng = np.random.default_rng(0)
        work = []
        for rows, cols in product(edge_lengths(self.interesting_lengths), repeat=2):
            if rows * cols <= self.largest_job:
                query = rng.integers(0, 4, rows, np.uint8)
                target = mutated(query, cols, 0.1, rng)
                work += [whole_matrix(query, target, Scoring(), local) for local in (True, False)]
        self.check(backend, work)

    def test_a_work_list_of_different_jobs(self, backend: Backend) -> None:
        lists = st.lists(self.jobs(self.largest_job // 4), min_size=2, max_size=5)
        self.for_all(lists, lambda work: self.check(backend, work), share=0.5)

    def test_what_goes_to_sinks_is_what_a_result_would_hold(self, backend: Backend) -> None:
        def check(job: SweepJob) -> None:
            [whole] = backend.sweep([job])
            assert_same_result(job, sweep_into_sinks(backend, job), whole)

        self.for_all(self.jobs(self.largest_job // 4), check, share=0.3)

    def test_an_empty_work_list(self, backend: Backend) -> None:
        assert backend.sweep([]) == []

    def test_tiles_glued_by_boundaries_equal_the_whole(self, backend: Backend) -> None:
        def check(data: st.DataObject) -> None:
            job, glued = _draw_tiles(data, backend, self.jobs())
            [whole] = backend.sweep([job])
            assert_same_result(job, glued, whole)

        self.for_all(st.data(), check, share=0.5)

    def test_exchanging_query_and_target_exchanges_the_gap_states(self, backend: Backend) -> None:
        def check(job: SweepJob) -> None:
            [plain] = backend.sweep([job])
            [mirrored] = backend.sweep([transposed(job)])
            assert mirrored.best.score == plain.best.score
            assert mirrored.best.i + mirrored.best.j == plain.best.i + plain.best.j
            # Of equals on one anti-diagonal the rightmost wins, which is not a symmetric rule.
            assert_same_result(job, SweepResult(mirrored.cols, mirrored.rows, plain.best), plain)

        self.for_all(self.jobs(), check, share=0.5)

    def test_pruning_leaves_out_no_more_than_the_reference(self, backend: Backend) -> None:
        def check(job: SweepJob) -> None:
            [result] = backend.sweep([job])
            assert_between(job, result)

        self.for_all(self.pruned_jobs(), check)

    def test_a_work_list_with_pruning_and_without(self, backend: Backend) -> None:
        def check(work: list[SweepJob]) -> None:
            results, whole = backend.sweep(work), ReferenceBackend().sweep(work)
            for job, got, want in zip(work, results, whole, strict=True):
                if job.pruning is None:
                    assert_same_result(job, got, want)
                    assert got.cells_left_out == 0
                else:
                    assert_between(job, got)

        cells = self.largest_job // 4
        any_job = st.one_of(self.jobs(cells), self.pruned_jobs(cells))
        self.for_all(st.lists(any_job, min_size=2, max_size=5), check, share=0.3)

    def test_sinks_receive_what_pruning_leaves_out(self, backend: Backend) -> None:
        some = self.pruned_jobs(self.largest_job // 4)
        self.for_all(some, lambda job: assert_between(job, sweep_into_sinks(backend, job)), share=0.3)

    def test_tiles_with_pruning_glued_by_boundaries(self, backend: Backend) -> None:
        def check(data: st.DataObject) -> None:
            assert_between(*_draw_tiles(data, backend, self.pruned_jobs()))

        self.for_all(st.data(), check, share=0.5)

    def test_paths_that_just_reach_the_bound_are_exact(self, backend: Backend) -> None:
        def check(job: SweepJob) -> None:
            [result] = backend.sweep([job])
            assert_optimal_paths_exact(job, result)

        self.for_all(closely_pruned_jobs(self.interesting_lengths, self.largest_job), check, share=0.5)

    def test_excluded_pairs_are_not_used(self, backend: Backend) -> None:
        some = with_excluded_pairs(self.jobs())
        self.for_all(some, lambda job: self.check(excluding(backend), [job]))

    def test_a_work_list_with_excluded_pairs_and_without(self, backend: Backend) -> None:
        cells = self.largest_job // 4
        any_job = st.one_of(self.jobs(cells), with_excluded_pairs(self.jobs(cells)))
        lists = st.lists(any_job, min_size=2, max_size=5)
        self.for_all(lists, lambda work: self.check(excluding(backend), work), share=0.5)

    def test_excluded_pairs_with_pruning(self, backend: Backend) -> None:
        def check(job: SweepJob) -> None:
            [result] = excluding(backend).sweep([job])
            assert_between(job, result)

        self.for_all(with_excluded_pairs(self.pruned_jobs()), check, share=0.5)

    def test_a_path_through_the_corners_of_blocks_is_exact(self, backend: Backend) -> None:
        query = np.random.default_rng(3).integers(0, 4, self.usual_length, np.uint8)
        for scoring in (Scoring(gap_open=0), Scoring()):
            job = dataclasses.replace(whole_matrix(query, query, scoring, True), of_matrix=True)
            [result] = backend.sweep([pruned_closely(job)])
            assert_optimal_paths_exact(pruned_closely(job), result)

    def test_progress_counts_what_pruning_leaves_out(self, backend: Backend) -> None:
        query = np.zeros(max(self.interesting_lengths) + 1, np.uint8)
        job = whole_matrix(query, query, Scoring(), True)
        gains = SideGains.of(np.arange(len(query), -1, -1, dtype=np.int32))
        job = dataclasses.replace(job, pruning=Pruning(len(query) + 100, gains, gains), of_matrix=True)
        found: list[SweepResult] = []
        assert_progress_adds_up(lambda progress: found.extend(backend.sweep([job], progress)), job.cells)
        assert found[0].cells_left_out > 0

    @pytest.mark.parametrize("unit", ["A", "AC", "AAC", "ACGT"])
    def test_ties_among_end_cells_in_repeats(self, backend: Backend, unit: str) -> None:
        query = np.resize(encode(unit, QUERY_N), self.usual_length + 1)
        target = np.resize(encode(unit[::-1], TARGET_N), self.usual_length + 3)
        free_gaps = Scoring(match=1, mismatch=-1, gap_open=0, gap_extend=0)
        shapes = [(query, target), (query, target[:5]), (query[:5], target)]
        work = [whole_matrix(*pair, s, True) for pair in shapes for s in (Scoring(), free_gaps)]
        self.check(backend, work)
        # The floor does not raise any value here that is above 0, but another kernel looks for the best cell.
        self.check(backend, [dataclasses.replace(job, local=False) for job in work])

    def test_of_two_best_cells_on_an_anti_diagonal_the_rightmost_is_the_end(self, backend: Backend) -> None:
        job = whole_matrix(encode("AC", QUERY_N), encode("CA", TARGET_N), Scoring(), True)
        [result] = backend.sweep([job])
        assert result.best == BestCell(1, 1, 2)

    def test_ambiguous_letters_match_nothing(self, backend: Backend) -> None:
        query, target = (np.full(self.usual_length, n, np.uint8) for n in (QUERY_N, TARGET_N))
        [result] = backend.sweep([whole_matrix(query, target, Scoring(), True)])
        assert result.best == BestCell()
        assert not result.rows[0].h.any()

    def test_matrices_of_all_sizes(self, backend: Backend) -> None:
        rng = np.random.default_rng(2)
        length, work = self.usual_length, []
        for letters, local in ((2, True), (8, False), (25, True), (LARGEST_ALPHABET, False)):
            query = rng.integers(0, letters, length, np.uint8)
            target = mutated(query, length + 1, 0.1, rng, letters)
            matrix = rng.integers(-5, 2, (letters, letters)) + 7 * np.eye(letters, dtype=int)
            # The second makes a gap's first letter and a score exceed 8 bits.
            for gap_open in (3, 118):
                scoring = Scoring(gap_open=gap_open, gap_extend=2, matrix=matrix_of(matrix))
                work.append(whole_matrix(query, target, scoring, local))
        self.check(backend, work)

    def test_values_at_both_ends_of_the_range(self, backend: Backend) -> None:
        work = []
        long, square = min(100, self.largest_job // 20), min(60, isqrt(self.largest_job))
        for rows, cols in [(long, 20), (20, long), (square, square)]:
            limit = largest_parameter(rows, cols)
            rng = np.random.default_rng(rows)
            query = rng.integers(0, 4, rows, np.uint8)
            target = mutated(query, cols, 0.05, rng)
            for size, state in product((1, 1000, limit), State):
                scoring = Scoring(match=size, mismatch=-size, gap_open=size, gap_extend=size)
                for value in entry_range(scoring, rows, cols):
                    top, left = entry_edges(state, rows, cols, scoring, value)
                    work.append(SweepJob(query, target, scoring, top, left, False, (rows,), (cols,)))
        self.check(backend, work)

    def test_a_sweep_leaves_its_input_and_earlier_results_alone(self, backend: Backend) -> None:
        job = self.some_work()[0]
        before = job_source(job)
        [first] = backend.sweep([job])
        backend.sweep([transposed(job)])
        assert job_source(job) == before
        [want] = ReferenceBackend().sweep([job])
        assert_same_result(job, first, want)

    def test_it_says_what_it_is_and_how_large_a_tile_it_takes(self, backend: Backend) -> None:
        assert backend.name
        assert backend.describe()["name"] == backend.name
        assert backend.explain(self.some_work()[0])
        for shape in [(1, 1), (10**4, 10**8), (10**8, 10**8)]:
            largest, shared = backend.tile_shape(*shape), backend.tile_shape(*shape, 3)
            assert 1 <= shared[0] <= largest[0]
            assert 1 <= shared[1] <= largest[1]

    def test_it_says_how_long_sweeps_take(self, backend: Backend) -> None:
        matrix = Scoring(gap_open=3, gap_extend=2, matrix=matrix_of([[1, 0], [0, 1]]))
        for scoring in (Scoring(), Scoring(500, -400, 9, 9), matrix):
            short, long = (backend.sweep_seconds(rows, 10**7, scoring, True) for rows in (10**6, 10**7))
            assert 0 < 5 * short < long < 20 * short

    # What the tests above share.

    def jobs(self, cells: int | None = None) -> st.SearchStrategy[SweepJob]:
        """Jobs around the back end's interesting lengths."""
        return jobs(self.interesting_lengths, cells or self.largest_job)

    def pruned_jobs(self, cells: int | None = None) -> st.SearchStrategy[SweepJob]:
        """Jobs with pruning around the back end's interesting lengths."""
        return pruned_jobs(self.interesting_lengths, cells or self.largest_job)

    def some_work(self) -> list[SweepJob]:
        """A few jobs of fixed content."""
        return [whole_matrix(*pair, Scoring(), True) for pair in self.some_pairs()]

    def compute(self, backend: Backend, work: Sequence[SweepJob], progress: Progress) -> None:
        """See `Conformance`."""
        backend.sweep(work, progress)

    def check(self, backend: Backend, work: Sequence[SweepJob]) -> None:
        """Check that one call for all of `work` gives the oracle's result for each job."""
        results = backend.sweep(work)
        assert len(results) == len(work)
        for job, got, want in zip(work, results, ReferenceBackend().sweep(work), strict=True):
            assert_same_result(job, got, want)


def _draw_tiles(
    data: st.DataObject, backend: Backend, jobs: st.SearchStrategy[SweepJob]
) -> tuple[SweepJob, SweepResult]:
    """One of the jobs, for its last row and column, and its result, swept in tiles."""
    drawn = data.draw(jobs)
    job = dataclasses.replace(drawn, rows=(len(drawn.query),), cols=(len(drawn.target),))
    cuts = [data.draw(_cuts(len(side))) for side in (job.query, job.target)]
    return job, sweep_in_tiles(backend, job, *cuts)


def _cuts(length: int) -> st.SearchStrategy[list[int]]:
    """Up to three cuts inside a side of this length."""
    if length == 1:
        return st.just([])
    return st.sets(st.integers(1, length - 1), max_size=3).map(sorted)
