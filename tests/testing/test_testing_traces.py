"""The suite for traces detects wrong back ends, and the code in its messages can be run."""

from __future__ import annotations

import dataclasses

import faulty_backends
import numpy as np
import pytest
from hypothesis import given

from longalign.backends.base import TraceJob, no_progress
from longalign.model.alignment import Op
from longalign.model.boundary import State
from longalign.model.scoring import UNREACHABLE, Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix  # noqa: F401 - for the source of a job
from longalign.testing.reference import ReferenceBackend, encode
from longalign.testing.traces import (
    TraceConformance,
    assert_same_path,
    best_value,
    has_path,
    path_value,
    trace_jobs,
    trace_source,
)

EXCHANGED = np.array([Op.DIAGONAL, Op.DELETION, Op.INSERTION], np.uint8)
MIRRORED = {State.H: State.H, State.E: State.F, State.F: State.E}


class Faulty(ReferenceBackend):
    """A back end with one fault, in its traces or in its results."""

    def trace(self, jobs, progress=no_progress):
        paths = super().trace([self.misread(job) for job in jobs], progress)
        return [self.spoil(job, path) for job, path in zip(jobs, paths, strict=True)]

    def misread(self, job):
        return job

    def spoil(self, job, path):
        return path


class PrefersHorizontalGaps(Faulty):
    def misread(self, job):
        return TraceJob(job.target, job.query, job.scoring, MIRRORED[job.entry], MIRRORED[job.exit])

    def spoil(self, job, path):
        return EXCHANGED[path[0]], path[1]


class ForgetsTheEntry(Faulty):
    def misread(self, job):
        return dataclasses.replace(job, entry=State.H)


class ForgetsTheExit(Faulty):
    def misread(self, job):
        return dataclasses.replace(job, exit=State.H)


class MatchesAmbiguousLetters(faulty_backends.MatchesAmbiguousLetters, Faulty):
    pass


class SplitsLongRuns(Faulty):
    def spoil(self, job, path):
        ops, lengths = path
        if lengths[0] < 3:
            return path
        rest = np.concatenate([[2, lengths[0] - 2], lengths[1:]])
        return np.concatenate([ops[:1], ops]), rest


class CountsInThirtyTwoBits(Faulty):
    def spoil(self, job, path):
        return path[0], path[1].astype(np.int32)


class OpensGapsForNothing(Faulty):
    def misread(self, job):
        return dataclasses.replace(job, scoring=dataclasses.replace(job.scoring, gap_open=0))


class MixesUpTheJobs(Faulty):
    def trace(self, jobs, progress=no_progress):
        return super().trace(jobs, progress)[::-1]


class MixesUpTheScorings(Faulty):
    def trace(self, jobs, progress=no_progress):
        return super().trace([dataclasses.replace(job, scoring=jobs[0].scoring) for job in jobs], progress)


class ReportsJobsNotCells(Faulty):
    def trace(self, jobs, progress=no_progress):
        return super().trace(jobs, lambda _: progress(1))


class DoesNotStop(Faulty):
    def trace(self, jobs, progress=no_progress):
        try:
            return super().trace(jobs, progress)
        except Exception:
            return super().trace(jobs)


class ReturnsItsOwnBuffer(Faulty):
    buffer = np.zeros(10_000, np.int64)

    def spoil(self, job, path):
        ops, lengths = path
        self.buffer[: len(lengths)] = lengths
        return ops, self.buffer[: len(lengths)]


@pytest.mark.usefixtures("first_failure_only")
@pytest.mark.parametrize(
    ("fault", "test"),
    [
        (PrefersHorizontalGaps, "test_finds_the_path_of_the_reference"),
        (PrefersHorizontalGaps, "test_every_pair_of_edge_lengths"),
        (ForgetsTheEntry, "test_every_entry_and_exit"),
        (ForgetsTheEntry, "test_finds_the_path_of_the_reference"),
        (ForgetsTheExit, "test_every_entry_and_exit"),
        (MatchesAmbiguousLetters, "test_ambiguous_letters_match_nothing"),
        (MatchesAmbiguousLetters, "test_finds_the_path_of_the_reference"),
        (SplitsLongRuns, "test_long_and_thin"),
        (CountsInThirtyTwoBits, "test_every_pair_of_edge_lengths"),
        (OpensGapsForNothing, "test_values_at_both_ends_of_the_range"),
        (MixesUpTheJobs, "test_every_pair_of_edge_lengths"),
        (MixesUpTheScorings, "test_a_list_of_different_jobs"),
        (ReportsJobsNotCells, "test_progress_adds_up_to_the_cells"),
        (DoesNotStop, "test_progress_may_stop_the_work"),
        (ReturnsItsOwnBuffer, "test_a_trace_leaves_its_input_and_earlier_results_alone"),
    ],
)
def test_the_suite_catches_a_fault(fault, test):
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        getattr(TraceConformance(), test)(fault())


@given(trace_jobs((4, 16), 200))
def test_the_source_of_a_job_builds_the_same_job(job):
    again = eval(trace_source(job))
    assert trace_source(again) == trace_source(job)
    assert_same_path(job, ReferenceBackend().trace([again])[0], ReferenceBackend().trace([job])[0])


@given(trace_jobs((2, 4), 20))
def test_jobs_have_a_path(job):
    assert best_value(job) > UNREACHABLE


def test_a_gap_that_must_go_on_sideways_has_no_path():
    row = TraceJob(encode("A", 4), encode("ACG", 5), Scoring(), State.E, State.E)
    column = TraceJob(encode("ACG", 4), encode("A", 5), Scoring(), State.F, State.F)
    for job in (row, column):
        assert not has_path(job)
        assert best_value(job) < UNREACHABLE


@pytest.mark.parametrize(
    ("entry", "exit_", "ops", "value"),
    [
        (State.H, State.H, [0], 1 - 3),
        (State.H, State.E, [2, 1], -7 - 7),
        (State.E, State.F, [1, 2], -4 - 7),
    ],
)
def test_the_value_of_a_path(entry, exit_, ops, value):
    job = TraceJob(encode("AC", 4), encode("AT", 5), Scoring(), entry, exit_)
    assert path_value(job, (np.array(ops, np.uint8), np.full(len(ops), 2))) == value


@pytest.mark.parametrize(
    ("entry", "exit_", "ops"), [(State.E, State.H, [0]), (State.H, State.F, [0]), (State.H, State.H, [1])]
)
def test_what_is_no_path(entry, exit_, ops):
    job = TraceJob(encode("AC", 4), encode("AT", 5), Scoring(), entry, exit_)
    with pytest.raises(AssertionError):
        path_value(job, (np.array(ops, np.uint8), np.full(len(ops), 2)))


def test_a_failure_says_which_path_of_which_job():
    job = TraceJob(encode("ACGT", 4), encode("ACT", 5), Scoring(), State.H, State.H)
    [(ops, lengths)] = ReferenceBackend().trace([job])
    with pytest.raises(AssertionError, match=r"(?s)\[\(0, 2\), \(2, 1\).*TraceJob\(.*encode\('ACGT'"):
        assert_same_path(job, (EXCHANGED[ops], lengths), (ops, lengths))
