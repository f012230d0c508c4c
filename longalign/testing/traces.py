"""The conformance suite for `Backend.trace`: of equally good paths, every back end finds the same one.

See `longalign.testing.conformance` for its use. The oracle, `longalign.testing.reference`, walks back through
whole DP matrices. The suite also checks that the oracle's paths are valid and optimal, by scoring them letter
by letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, product
from math import isqrt

import numpy as np
import pytest
from hypothesis import strategies as st

from longalign.backends.base import Backend, Progress, Runs, SweepJob, TraceJob
from longalign.model.alignment import Op
from longalign.model.boundary import State, Waypoint, entry_edges
from longalign.model.scoring import Scoring
from longalign.phases.problem import Segment
from longalign.testing.conformance import Conformance, edge_lengths
from longalign.testing.inputs import (
    QUERY_N,
    TARGET_N,
    any_scorings,
    largest_parameter,
    mutated,
    pairs,
    scoring_source,
)
from longalign.testing.reference import ReferenceBackend, encode, letter_score
from longalign.testing.sweep_jobs import codes_source, shapes

#: A mismatch costs as much as two gaps, and a gap as much as several: many paths are equally good.
TIES = Scoring(match=1, mismatch=-2, gap_open=0, gap_extend=1)
FREE_GAPS = Scoring(match=1, mismatch=-1, gap_open=0, gap_extend=0)
_USUAL = (Scoring(), TIES)

#: The operation of the gap that is open in a gap state.
_OP_OF_GAP = {State.E: Op.INSERTION, State.F: Op.DELETION}


def has_path(job: TraceJob) -> bool:
    """Whether there is any path.

    There is none in a single row from E to E, or in a single column from F to F: the only query letter, or
    target letter, would be needed by the gap on entry and again by the one on exit, after letters between.
    """
    if job.entry == job.exit == State.E:
        return len(job.query) > 1
    if job.entry == job.exit == State.F:
        return len(job.target) > 1
    return True


def path_value(job: TraceJob, runs: Runs) -> int:
    """The score of a path, letter by letter; a gap that is open on entry is not opened again.

    Raises AssertionError if it is not a path from the entry to the exit.
    """
    ops, lengths = (numbers.tolist() for numbers in runs)
    assert ops[0] == _OP_OF_GAP.get(job.entry, ops[0]), "it does not go on with the gap on entry"
    assert ops[-1] == _OP_OF_GAP.get(job.exit, ops[-1]), "it does not end in the gap on exit"
    scoring, value, i, j = job.scoring, 0, 0, 0
    for number, (op, length) in enumerate(zip(ops, lengths, strict=True)):
        if op == Op.DIAGONAL:
            value += sum(letter_score(job.query[i + k], job.target[j + k], scoring) for k in range(length))
        elif number > 0 or job.entry == State.H:
            value -= scoring.gap_open
        if op != Op.DIAGONAL:
            value -= scoring.gap_extend * length
        i, j = i + length * (op != Op.DELETION), j + length * (op != Op.INSERTION)
    assert (i, j) == (len(job.query), len(job.target)), "it does not end at the lower right corner"
    return value


def best_value(job: TraceJob) -> int:
    """The score of the best path, by the oracle's sweep."""
    rows, cols = len(job.query), len(job.target)
    edges = entry_edges(job.entry, rows, cols, job.scoring)
    sweep = SweepJob(job.query, job.target, job.scoring, *edges, local=False, rows=(rows,), cols=(cols,))
    [swept] = ReferenceBackend().sweep([sweep])
    row, col = swept.rows[0], swept.cols[0]
    return int({State.H: row.h, State.E: row.gap, State.F: col.gap}[job.exit][-1])


def with_detour(job: TraceJob) -> TraceJob:
    """The job with the detour that the value of its best path allows."""
    exit_ = Waypoint(len(job.query), len(job.target), job.exit, best_value(job))
    return replace(job, detour=Segment(Waypoint(0, 0, job.entry, 0), exit_).detour(job.scoring))


def trace_source(job: TraceJob) -> str:
    """Python that builds the job, given numpy, TraceJob, Scoring, SubstitutionMatrix, State and
    `reference.encode`."""
    lines = [
        f"query={codes_source(job.query)}",
        f"target={codes_source(job.target)}",
        f"scoring={scoring_source(job.scoring)}",
        f"entry={job.entry}",
        f"exit={job.exit}",
        f"detour={job.detour}",
    ]
    return "TraceJob(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def assert_same_path(job: TraceJob, got: Runs, want: Runs) -> None:
    """Both paths consist of the same runs."""
    assert [numbers.dtype for numbers in got] == [np.uint8, np.int64]
    ours, theirs = (list(zip(*(numbers.tolist() for numbers in runs), strict=True)) for runs in (got, want))
    if ours != theirs:
        raise AssertionError(f"the path is {ours}, not {theirs}, for\n{trace_source(job)}")


@st.composite
def trace_jobs(draw: st.DrawFn, interesting: Sequence[int], cells: int) -> TraceJob:
    """A rectangle of at most `cells` cells with a path, with any letters, scoring and states."""
    rows, cols = draw(shapes(interesting, cells))
    scoring = draw(st.one_of(st.sampled_from([TIES, FREE_GAPS]), any_scorings(rows, cols)))
    query, target = draw(pairs(rows, cols, scoring))
    states = product(State, repeat=2)
    jobs = [TraceJob(query, target, scoring, *pair) for pair in states]
    return draw(st.sampled_from([job for job in jobs if has_path(job)]))


class TraceConformance(Conformance[TraceJob]):
    """The suite for `Backend.trace`; for its use see `longalign.testing.conformance`."""

    def test_finds_the_path_of_the_reference(self, backend: Backend) -> None:
        self.for_all(self.trace_jobs(), lambda job: self.check(backend, [job]))

    def test_cells_that_no_optimal_path_visits_may_be_left_out(self, backend: Backend) -> None:
        self.for_all(self.trace_jobs(), lambda job: self.check(backend, [with_detour(job)]), share=0.5)

    def test_every_pair_of_edge_lengths(self, backend: Backend) -> None:
        rng = np.random.default_rng(0)
        wishes = cycle(product(_USUAL, State, State))
        work = []
        for rows, cols in product(edge_lengths(self.interesting_lengths), repeat=2):
            if rows * cols <= self.largest_job:
                query = rng.integers(0, 4, rows, np.uint8)
                target = mutated(query, cols, 0.1, rng)
                work.append(TraceJob(query, target, *next(wishes)))
        self.check(backend, [job for job in work if has_path(job)])

    def test_every_entry_and_exit(self, backend: Backend) -> None:
        rng = np.random.default_rng(1)
        length = self.usual_length
        query = rng.integers(0, 4, length, np.uint8)
        shapes = [(query, mutated(query, length, 0.2, rng)), (query, query[:2]), (query[:2], query)]
        wishes = product(shapes, _USUAL, State, State)
        self.check(backend, [TraceJob(*pair, *wish) for pair, *wish in wishes])

    def test_long_and_thin(self, backend: Backend) -> None:
        rng = np.random.default_rng(2)
        long = rng.integers(0, 4, self.largest_job, np.uint8)
        work = []
        for thin in (1, 2):
            few, many = long[-thin:], long[: self.largest_job // thin]
            work += [TraceJob(few, many, Scoring(), State.H, State.H)]
            work += [TraceJob(many, few, Scoring(), State.E, State.E)]
        self.check(backend, work)

    @pytest.mark.parametrize("unit", ["A", "AC", "AAC", "ACGT"])
    def test_ties_in_repeats(self, backend: Backend, unit: str) -> None:
        query = np.resize(encode(unit, QUERY_N), self.usual_length)
        target = np.resize(encode(unit[::-1], TARGET_N), self.usual_length + 3)
        shapes = [(query, target), (query, target[:5]), (query[:5], target)]
        states = [(State.H, State.H), (State.E, State.F)]
        wishes = list(product((Scoring(), TIES, FREE_GAPS), states))
        self.check(backend, [TraceJob(*pair, scoring, *ends) for pair in shapes for scoring, ends in wishes])

    def test_ambiguous_letters_match_nothing(self, backend: Backend) -> None:
        query, target = (np.full(self.usual_length, n, np.uint8) for n in (QUERY_N, TARGET_N))
        job = TraceJob(query, target, FREE_GAPS, State.H, State.H)
        [(ops, _)] = backend.trace([job])
        assert Op.DIAGONAL not in ops
        self.check(backend, [job])

    def test_values_at_both_ends_of_the_range(self, backend: Backend) -> None:
        rng = np.random.default_rng(3)
        work = []
        long, square = min(100, self.largest_job // 20), min(60, isqrt(self.largest_job))
        for rows, cols in [(long, 20), (20, long), (square, square)]:
            limit = largest_parameter(rows, cols)
            query = rng.integers(0, 4, rows, np.uint8)
            alike, unlike = mutated(query, cols, 0.05, rng), rng.integers(0, 4, cols, np.uint8)
            scoring = Scoring(match=limit, mismatch=-limit, gap_open=limit, gap_extend=limit)
            work += [
                TraceJob(query, target, scoring, state, state)
                for target in (alike, unlike)
                for state in State
            ]
        self.check(backend, work)

    def test_a_list_of_different_jobs(self, backend: Backend) -> None:
        lists = st.lists(self.trace_jobs(self.largest_job // 4), min_size=2, max_size=6)
        self.for_all(lists, lambda work: self.check(backend, work), share=0.5)

    def test_what_it_can_trace(self, backend: Backend) -> None:
        assert backend.can_trace(1, 1)
        assert not backend.can_trace(10**6, 10**6)

    def test_an_empty_list(self, backend: Backend) -> None:
        assert backend.trace([]) == []

    def test_a_single_letter_of_a_reversed_array(self, backend: Backend) -> None:
        """NumPy calls it contiguous, with a negative stride."""
        letter = encode("ACGT", QUERY_N)[:1][::-1]
        self.check(backend, [TraceJob(letter, letter, Scoring(), State.H, State.H)])

    def test_a_trace_leaves_its_input_and_earlier_results_alone(self, backend: Backend) -> None:
        first, second = self.some_work()[:2]
        before = trace_source(first)
        [path] = backend.trace([first])
        backend.trace([second])
        assert trace_source(first) == before
        assert_same_path(first, path, ReferenceBackend().trace([first])[0])

    # What the tests above share.

    def trace_jobs(self, cells: int | None = None) -> st.SearchStrategy[TraceJob]:
        """Jobs around the back end's interesting lengths."""
        return trace_jobs(self.interesting_lengths, cells or self.largest_job)

    def some_work(self) -> list[TraceJob]:
        """A few jobs of fixed content."""
        return [TraceJob(*pair, Scoring(), State.H, State.H) for pair in self.some_pairs()]

    def compute(self, backend: Backend, work: Sequence[TraceJob], progress: Progress) -> None:
        """See `Conformance`."""
        backend.trace(work, progress)

    def check(self, backend: Backend, work: Sequence[TraceJob]) -> None:
        """Check that one call for all of `work` finds the oracle's path for each job, an optimal one."""
        paths = backend.trace(work)
        assert len(paths) == len(work)
        for job, got, want in zip(work, paths, ReferenceBackend().trace(work), strict=True):
            assert path_value(job, want) == best_value(job)
            assert_same_path(job, got, want)
