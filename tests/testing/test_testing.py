"""The conformance suite detects wrong back ends, and the code in its messages can be run."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import faulty_backends
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.backends.base import Sinks, SweepJob, SweepResult, no_progress
from longalign.errors import InputError
from longalign.model.boundary import BestCell, Boundary, LinearEdge  # noqa: F401 - for the source of a job
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs  # noqa: F401 - for the source of a job
from longalign.model.pruning import Pruning, SideGains  # noqa: F401 - for the source of a job
from longalign.model.scoring import NEG_INF, UNREACHABLE, Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix  # noqa: F401 - for the source of a job
from longalign.testing.inputs import (
    entry_range,
    largest_parameter,
)
from longalign.testing.pruned_jobs import pruned_jobs
from longalign.testing.reference import ReferenceBackend, encode
from longalign.testing.sweep_jobs import (
    assert_same_result,
    job_source,
    jobs,
    whole_matrix,
    with_excluded_pairs,
)
from longalign.testing.sweeps import SweepConformance


class Faulty(ReferenceBackend):
    """A back end with one fault, in its sweep or in its results."""

    def sweep(self, jobs, progress=no_progress):
        swept = super().sweep([self.misread(job) for job in jobs], progress)
        return [self.spoil(job, result) for job, result in zip(jobs, swept, strict=True)]

    def misread(self, job):
        return job

    def spoil(self, job, result):
        return result


class ForgetsOpenGaps(Faulty):
    def misread(self, job):
        return dataclasses.replace(job, top=Boundary(job.top.h, np.full_like(job.top.gap, NEG_INF)))


class ForgetsTheCorner(Faulty):
    def misread(self, job):
        top = job.top.h.copy()
        top[0] = NEG_INF
        return dataclasses.replace(job, top=Boundary(top, job.top.gap))


class KeepsSixteenBits(Faulty):
    def spoil(self, job, result):
        rows = tuple(Boundary(row.h.astype(np.int16).astype(np.int32), row.gap) for row in result.rows)
        return dataclasses.replace(result, rows=rows)


class LeavesTheGapAtTheCorner(Faulty):
    def spoil(self, job, result):
        for boundary in result.cols:
            boundary.gap[0] = 0
        return result


class TakesTheLowestOfEqualCells(Faulty):
    def spoil(self, job, result):
        [swept] = ReferenceBackend().sweep([dataclasses.replace(job, query=job.target, target=job.query)])
        return dataclasses.replace(result, best=BestCell(swept.best.score, swept.best.j, swept.best.i))


class MatchesAmbiguousLetters(faulty_backends.MatchesAmbiguousLetters, Faulty):
    pass


class TracksBestUnasked(Faulty):
    def misread(self, job):
        return dataclasses.replace(job, track_best=True)


class MixesUpTheJobs(Faulty):
    def sweep(self, jobs, progress=no_progress):
        return super().sweep(jobs, progress)[::-1]


class MixesUpTheScorings(Faulty):
    def sweep(self, jobs, progress=no_progress):
        return super().sweep([dataclasses.replace(job, scoring=jobs[0].scoring) for job in jobs], progress)


class ReportsRowsNotCells(Faulty):
    def sweep(self, jobs, progress=no_progress):
        return super().sweep(jobs, lambda _: progress(1))


class DoesNotStop(Faulty):
    def sweep(self, jobs, progress=no_progress):
        try:
            return super().sweep(jobs, progress)
        except Exception:
            return super().sweep(jobs)


class ReturnsItsOwnBuffer(Faulty):
    buffer = np.zeros(1000, np.int32)

    def spoil(self, job, result):
        h = result.rows[0].h
        self.buffer[: len(h)] = h
        return dataclasses.replace(result, rows=(Boundary(self.buffer[: len(h)], result.rows[0].gap),))


class NeedsMoreThanTheBound(Faulty):
    def misread(self, job):
        if job.pruning is None:
            return job
        return dataclasses.replace(job, pruning=dataclasses.replace(job.pruning, bound=job.pruning.bound + 1))


class NeverPrunes(Faulty):
    def misread(self, job):
        return dataclasses.replace(job, pruning=None)


class CountsNothing(Faulty):
    def spoil(self, job, result):
        return dataclasses.replace(result, cells_left_out=0)


class UsesExcludedPairs(Faulty):
    def misread(self, job):
        return dataclasses.replace(job, excluded=NO_PAIRS)


class SpoilsWhatGoesToSinks(Faulty):
    def misread(self, job):
        if job.sinks is None:
            return job

        def put(line, start, h, gap):
            job.sinks.rows.put(line, start, h + 1, gap)

        return dataclasses.replace(job, sinks=Sinks(SimpleNamespace(put=put), job.sinks.cols))


@pytest.mark.usefixtures("first_failure_only")
@pytest.mark.parametrize(
    ("fault", "test"),
    [
        (ForgetsOpenGaps, "test_equals_the_reference"),
        (ForgetsOpenGaps, "test_tiles_glued_by_boundaries_equal_the_whole"),
        (ForgetsOpenGaps, "test_exchanging_query_and_target_exchanges_the_gap_states"),
        (ForgetsTheCorner, "test_every_pair_of_edge_lengths"),
        (KeepsSixteenBits, "test_equals_the_reference"),
        (KeepsSixteenBits, "test_values_at_both_ends_of_the_range"),
        (LeavesTheGapAtTheCorner, "test_every_pair_of_edge_lengths"),
        (TakesTheLowestOfEqualCells, "test_of_two_best_cells_on_an_anti_diagonal_the_rightmost_is_the_end"),
        (MatchesAmbiguousLetters, "test_ambiguous_letters_match_nothing"),
        (TracksBestUnasked, "test_equals_the_reference"),
        (MixesUpTheJobs, "test_every_pair_of_edge_lengths"),
        (MixesUpTheScorings, "test_a_work_list_of_different_jobs"),
        (ReportsRowsNotCells, "test_progress_adds_up_to_the_cells"),
        (DoesNotStop, "test_progress_may_stop_the_work"),
        (ReturnsItsOwnBuffer, "test_a_sweep_leaves_its_input_and_earlier_results_alone"),
        (NeedsMoreThanTheBound, "test_paths_that_just_reach_the_bound_are_exact"),
        (NeedsMoreThanTheBound, "test_a_path_through_the_corners_of_blocks_is_exact"),
        (NeverPrunes, "test_progress_counts_what_pruning_leaves_out"),
        (CountsNothing, "test_progress_counts_what_pruning_leaves_out"),
        (UsesExcludedPairs, "test_excluded_pairs_are_not_used"),
        (SpoilsWhatGoesToSinks, "test_what_goes_to_sinks_is_what_a_result_would_hold"),
    ],
)
def test_the_suite_catches_a_fault(fault, test):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(SweepConformance(), test)(fault())


class SingleCells(SweepConformance):
    effort = 0.001


def test_a_property_has_an_example_besides_the_smallest():
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        SingleCells().test_equals_the_reference(LeavesTheGapAtTheCorner())


any_job = st.one_of(jobs((4, 16), 200), pruned_jobs((4, 16), 200), with_excluded_pairs(jobs((4, 16), 200)))


@given(any_job)
def test_the_source_of_a_job_builds_the_same_job(job):
    again = eval(job_source(job))
    assert job_source(again) == job_source(job)
    assert again.of_matrix == job.of_matrix
    assert (again.pruning is None) == (job.pruning is None)
    if job.pruning is not None:
        assert (again.pruning.bound, again.pruning.rises) == (job.pruning.bound, job.pruning.rises)
        for ours, theirs in zip(
            (again.pruning.query, again.pruning.target), (job.pruning.query, job.pruning.target), strict=True
        ):
            assert ours.slope == theirs.slope
            assert all(map(np.array_equal, ours.arrays, theirs.arrays))
    assert [len(again.query), len(again.target)] == [len(job.query), len(job.target)]
    for result in ReferenceBackend().sweep([again]):
        assert_same_result(job, result, ReferenceBackend().sweep([job])[0])


@given(jobs((4, 16), 200))
def test_jobs_are_rectangles_that_a_sweep_may_be_given(job):
    job.scoring.check_range(len(job.query), len(job.target))
    assert job.top.h[0] == job.left.h[0]
    assert len(job.top) == len(job.target)
    assert len(job.left) == len(job.query)
    assert job.top.gap[0] == job.left.gap[0] == NEG_INF
    if job.scoring.matrix is None:
        assert not set(job.query) & set(job.target) - {0, 1, 2, 3}
    else:
        assert max(*job.query, *job.target) < len(job.scoring.matrix.letters)
    for places, length in ((job.rows, len(job.query)), (job.cols, len(job.target))):
        assert list(places) == sorted(set(places))
        assert all(1 <= place <= length for place in places)


def test_a_failure_says_where_and_with_which_job():
    job = whole_matrix(encode("ACGT", 4), encode("ACTT", 5), Scoring(), True)
    [want] = ReferenceBackend().sweep([job])
    [got] = ReferenceBackend().sweep([job])
    got.rows[0].h[2] += 1
    with pytest.raises(AssertionError, match=r"(?s)row 4: h\[2\] is 1, not 0 .*SweepJob\(.*encode\('ACGT'"):
        assert_same_result(job, got, want)


def test_minus_infinity_is_a_range():
    job = whole_matrix(encode("A", 4), encode("C", 5), Scoring(), True)
    want, lower, finite = (_one_row(job, value) for value in (NEG_INF, NEG_INF - 5, UNREACHABLE))
    assert_same_result(job, lower, want)
    with pytest.raises(AssertionError, match=r"gap\[1\]"):
        assert_same_result(job, finite, want)
    with pytest.raises(AssertionError, match=r"gap\[1\]"):
        assert_same_result(job, want, finite)


def _one_row(job: SweepJob, gap: int) -> SweepResult:
    row = Boundary(np.array([0, 0], np.int32), np.array([NEG_INF, gap], np.int32))
    return SweepResult((row,), ReferenceBackend().sweep([job])[0].cols, BestCell())


def test_the_largest_parameter_is_the_last_one_that_the_range_check_admits():
    assert largest_parameter(10, 10) == 1 << 24
    limit = largest_parameter(500, 500)
    Scoring(limit, -limit, limit, limit).check_range(500, 500)
    with pytest.raises(InputError, match="beyond the 32-bit limit"):
        Scoring(2 * limit, -limit, limit, 2 * limit).check_range(500, 500)


def test_the_range_of_entries_holds_zero():
    low, high = entry_range(Scoring(), 100, 100)
    assert low < 0 < high
