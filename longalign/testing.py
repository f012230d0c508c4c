"""Hard sweep jobs for property tests, and the conformance suite that every back end passes.

A back end's test subclasses `SweepConformance`, gives it a fixture called `backend` and names the
lengths at which that back end changes its ways (the width of a strip, the rows between two
re-basings). The oracle is `longalign.reference`. A failure prints Python that rebuilds the job.

Only the modules `testing*` import hypothesis and pytest; nothing else in the package imports them.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from typing import ClassVar, TypeVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from longalign.backends.base import Backend, Codes, Progress, SweepJob, SweepResult
from longalign.boundary import (
    BestCell,
    Boundary,
    IntArray,
    State,
    best_of,
    entry_edges,
    join_parts,
    local_edges,
)
from longalign.errors import InputError
from longalign.reference import ReferenceBackend, encode
from longalign.scoring import LARGEST_PARAMETER, NEG_INF, UNREACHABLE, Scoring
from longalign.sequence import AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET

T = TypeVar("T")

#: The codes of an ambiguous letter: never equal, so that it never matches.
QUERY_N, TARGET_N = AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET

#: `Scoring.check_range` keeps H between these two, and so E and F above LOWEST - alpha - beta.
LOWEST, HIGHEST = NEG_INF + (1 << 27), -NEG_INF

#: The most letters that `cut_edges` puts before a rectangle on either side.
MARGIN = 9


# --- comparing results -------------------------------------------------------------------------------


def assert_same_result(job: SweepJob, got: SweepResult, want: SweepResult) -> None:
    """Both results are right if one is: the same best cell, and the same boundaries.

    Minus infinity is a range: what is below UNREACHABLE in one result is so in the other, by how much
    does not matter. `gap[0]`, outside the rectangle, is NEG_INF itself.
    """
    for problem in _differences(job, got, want):
        raise AssertionError(f"{problem} for\n{job_source(job)}")


def _differences(job: SweepJob, got: SweepResult, want: SweepResult) -> Iterator[str]:
    if got.best != want.best:
        yield f"best is {got.best}, not {want.best},"
    for side, places in (("rows", job.rows), ("cols", job.cols)):
        ours, theirs = getattr(got, side), getattr(want, side)
        if len(ours) != len(places):
            yield f"{side} holds {len(ours)} boundaries, not {len(places)},"
        for place, mine, other in zip(places, ours, theirs, strict=True):
            yield from _boundary_differences(f"boundary at {side[:-1]} {place}", mine, other)


def _boundary_differences(where: str, got: Boundary, want: Boundary) -> Iterator[str]:
    for name, ours, theirs in (("h", got.h, want.h), ("gap", got.gap, want.gap)):
        if ours.shape != theirs.shape or ours.dtype != np.int32:
            yield f"{where}: {name} is {ours.dtype}{ours.shape}, not int32{theirs.shape},"
            return
        wrong = np.flatnonzero(np.where(theirs < UNREACHABLE, ours >= UNREACHABLE, ours != theirs))
        if len(wrong):
            k = wrong[0]
            yield f"{where}: {name}[{k}] is {ours[k]}, not {theirs[k]} ({len(wrong)} values differ),"
    if got.gap[0] != NEG_INF:
        yield f"{where}: gap[0] is {got.gap[0]}, not NEG_INF,"


def job_source(job: SweepJob) -> str:
    """Python that builds the job, given numpy, SweepJob, Scoring, Boundary and `reference.encode`."""
    lines = [
        f"query={codes_source(job.query)}",
        f"target={codes_source(job.target)}",
        f"scoring={job.scoring!r}",
        f"top={_boundary_source(job.top)}",
        f"left={_boundary_source(job.left)}",
        f"local={job.local}",
        f"rows={tuple(job.rows)}",
        f"cols={tuple(job.cols)}",
        f"track_best={job.track_best}",
    ]
    return "SweepJob(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def codes_source(codes: Codes) -> str:
    text = "".join("ACGTNN"[code] for code in codes)
    return f"encode({text!r}, ambiguous={max(QUERY_N, int(codes.max()))})"


def _boundary_source(boundary: Boundary) -> str:
    h, gap = (f"np.array({values.tolist()}, np.int32)" for values in (boundary.h, boundary.gap))
    return f"Boundary({h}, {gap})"


# --- letters -----------------------------------------------------------------------------------------


def generators() -> st.SearchStrategy[np.random.Generator]:
    """A seeded source of letters: long sequences drawn letter by letter would be too slow."""
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


@st.composite
def sequences(draw: st.DrawFn, length: int, ambiguous: int = QUERY_N) -> Codes:
    """Random, repetitive or low-complexity letters, with runs of N here and there."""
    kind = draw(st.sampled_from(["spelled", "random", "tandem", "two letters"]))
    if kind == "spelled" and length <= 16:
        letters = draw(st.lists(st.integers(0, 3), min_size=length, max_size=length))
        codes = np.array(letters, np.uint8)
    elif kind == "tandem":
        unit = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
        codes = np.resize(np.array(unit, np.uint8), length)
    else:
        letters_used = 2 if kind == "two letters" else 4
        codes = draw(generators()).integers(0, letters_used, length, np.uint8)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        start = draw(st.integers(0, length - 1))
        codes[start : start + draw(st.integers(1, length))] = ambiguous
    return codes


@st.composite
def pairs(draw: st.DrawFn, rows: int, cols: int) -> tuple[Codes, Codes]:
    """A query and a target, unrelated or related, so that long alignments with gaps exist."""
    query = draw(sequences(rows, QUERY_N))
    if draw(st.booleans()):
        return query, draw(sequences(cols, TARGET_N))
    start = draw(st.sampled_from([0, rows // 2]))
    rate = draw(st.sampled_from([0.0, 0.02, 0.2]))
    return query, mutated(query[start:], cols, rate, draw(generators()))


def mutated(query: Codes, length: int, rate: float, rng: np.random.Generator) -> Codes:
    """A target of `length` letters that copies the query with substitutions, insertions and deletions.

    `rate` is the chance of a change at each letter; after the end of the query come random letters.
    """
    letters: list[int] = []
    position = 0
    while len(letters) < length and position < len(query):
        change = rng.choice(["substitute", "insert", "delete"]) if rng.random() < rate else "copy"
        if change == "delete":
            position += int(rng.geometric(0.3))
        elif change == "insert":
            letters.extend(rng.integers(0, 4, rng.geometric(0.3)))
        else:
            letters.append(int(query[position] if change == "copy" else rng.integers(0, 4)))
            position += 1
    letters.extend(rng.integers(0, 4, max(0, length - len(letters))))
    target = np.array(letters[:length], np.uint8)
    target[target == QUERY_N] = TARGET_N
    return target


# --- numbers -----------------------------------------------------------------------------------------


SCORINGS = (
    Scoring(),
    Scoring(match=2, mismatch=-3, gap_open=0, gap_extend=2),  # linear gaps
    Scoring(match=1, mismatch=-1, gap_open=4, gap_extend=0),  # a gap costs the same at any length
    Scoring(match=1, mismatch=-2, gap_open=0, gap_extend=0),  # gaps for nothing
    Scoring(match=3, mismatch=0, gap_open=1, gap_extend=1),
    Scoring(match=5, mismatch=2, gap_open=6, gap_extend=1),  # a mismatch gains
    Scoring(match=1, mismatch=-30, gap_open=1, gap_extend=1),  # never a mismatch
    Scoring(match=127, mismatch=-128, gap_open=127, gap_extend=127),
    Scoring(match=32767, mismatch=-32768, gap_open=32767, gap_extend=32767),
)


@st.composite
def scorings(draw: st.DrawFn, rows: int, cols: int) -> Scoring:
    """A scoring that sequences of these lengths may use, up to the largest one."""
    limit = largest_parameter(rows, cols)
    presets = [scoring for scoring in SCORINGS if scoring.match <= limit]
    presets.append(Scoring(match=limit, mismatch=-limit, gap_open=limit, gap_extend=limit))
    if draw(st.booleans()):
        return draw(st.sampled_from(presets))
    size = min(limit, draw(st.sampled_from([5, 200, 1 << 15, limit])))
    match = draw(st.integers(1, size))
    return Scoring(
        match=match,
        mismatch=draw(st.integers(-size, match - 1)),
        gap_open=draw(st.integers(0, size)),
        gap_extend=draw(st.integers(0, size)),
    )


def largest_parameter(rows: int, cols: int) -> int:
    """The largest power of two that may stand for all four numbers of a scoring at these lengths."""
    limit = LARGEST_PARAMETER
    while True:
        try:
            Scoring(limit, -limit, limit, limit).check_range(rows, cols)
        except InputError:
            limit //= 2
        else:
            return limit


def entry_range(scoring: Scoring, rows: int, cols: int) -> tuple[int, int]:
    """The least and the largest value at the corner of a rectangle that keep all of H in range."""
    fall = 2 * scoring.gap_open + scoring.gap_extend * (rows + cols) - min(scoring.mismatch, 0)
    return LOWEST + fall, HIGHEST - scoring.match * min(rows, cols)


# --- rectangles --------------------------------------------------------------------------------------


def edge_lengths(interesting: Sequence[int]) -> list[int]:
    """The shortest lengths, and those around each interesting one."""
    around = {size + step for size in interesting for step in (-1, 0, 1)}
    return sorted(length for length in {1, 2} | around if length > 0)


@st.composite
def shapes(draw: st.DrawFn, interesting: Sequence[int], cells: int) -> tuple[int, int]:
    """Rows and columns, often an edge length, of at most `cells` cells."""
    edges = [length for length in edge_lengths(interesting) if length <= cells]
    lengths = st.one_of(st.sampled_from(edges), st.integers(1, edges[-1]))
    long = draw(lengths)
    short = min(draw(lengths), cells // long)
    return (long, short) if draw(st.booleans()) else (short, long)


def lattices(length: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Boundary indices to ask for: none, the last, a few, or all."""
    few = st.sets(st.integers(1, length), min_size=1, max_size=6).map(lambda chosen: tuple(sorted(chosen)))
    return st.one_of(st.sampled_from([(), (length,), tuple(range(1, length + 1))]), few)


@st.composite
def edges(
    draw: st.DrawFn, query: Codes, target: Codes, scoring: Scoring, local: bool
) -> tuple[Boundary, Boundary]:
    """Top and left boundary: of a whole matrix, of an entry, or of a rectangle inside a matrix."""
    rows, cols = len(query), len(target)
    kind = draw(st.sampled_from(["free", "cut"] if local else ["free", "entry", "cut"]))
    if kind == "free":
        return local_edges(rows, cols)
    if kind == "cut":
        return draw(cut_edges(query, target, scoring, local))
    return draw(_entries(rows, cols, scoring, *entry_range(scoring, rows, cols)))


@st.composite
def cut_edges(
    draw: st.DrawFn, query: Codes, target: Codes, scoring: Scoring, local: bool
) -> tuple[Boundary, Boundary]:
    """The edges a rectangle has inside a larger matrix, possibly one with much higher values.

    Adding a number to every value of a matrix leaves a matrix that obeys the recurrence; in local mode
    it must not be negative.
    """
    above, before = draw(pairs(draw(st.integers(1, MARGIN)), draw(st.integers(1, MARGIN))))
    whole_query, whole_target = np.concatenate([above, query]), np.concatenate([before, target])
    rows, cols = len(whole_query), len(whole_target)
    top, left = local_edges(rows, cols) if local else draw(_entries(rows, cols, scoring, 0, 0))
    i, j = len(above), len(before)
    above_it = SweepJob(above, whole_target, scoring, top, left.part(0, i), local, rows=(i,))
    before_it = SweepJob(whole_query, before, scoring, top.part(0, j), left, local, cols=(j,))
    bottom, right = ReferenceBackend().sweep([above_it, before_it])

    lowest, highest = entry_range(scoring, rows, cols)
    raised_by = draw(_offsets(0 if local else lowest, highest))
    return _raised(bottom.rows[0].part(j, cols), raised_by), _raised(right.cols[0].part(i, rows), raised_by)


def _raised(boundary: Boundary, by: int) -> Boundary:
    return Boundary(_raise(boundary.h, by), _raise(boundary.gap, by))


def _raise(values: IntArray, by: int) -> IntArray:
    return np.where(values < UNREACHABLE, values, values + np.int32(by))


@st.composite
def _entries(
    draw: st.DrawFn, rows: int, cols: int, scoring: Scoring, lowest: int, highest: int
) -> tuple[Boundary, Boundary]:
    return entry_edges(draw(st.sampled_from(State)), rows, cols, scoring, draw(_offsets(lowest, highest)))


def _offsets(lowest: int, highest: int) -> st.SearchStrategy[int]:
    far = [value for value in (lowest, -(1 << 30), 1 << 30, highest) if lowest <= value <= highest]
    return st.one_of(st.just(0), st.sampled_from(far), st.integers(lowest, highest))


@st.composite
def jobs(draw: st.DrawFn, interesting: Sequence[int], cells: int) -> SweepJob:
    """A rectangle of at most `cells` cells, with any letters, scoring, edges and wishes."""
    rows, cols = draw(shapes(interesting, cells))
    local = draw(st.booleans())
    query, target = draw(pairs(rows, cols))
    scoring = draw(scorings(rows + MARGIN, cols + MARGIN))
    top, left = draw(edges(query, target, scoring, local))
    return SweepJob(
        query,
        target,
        scoring,
        top,
        left,
        local,
        draw(lattices(rows)),
        draw(lattices(cols)),
        draw(st.sampled_from([True, True, True, False])),
    )


def whole_matrix(
    query: Codes, target: Codes, scoring: Scoring, local: bool, *, best: bool = True
) -> SweepJob:
    """The job that aligns two sequences: the edges of the mode, and the last row and column wanted."""
    rows, cols = len(query), len(target)
    top, left = local_edges(rows, cols) if local else entry_edges(State.H, rows, cols, scoring)
    return SweepJob(query, target, scoring, top, left, local, (rows,), (cols,), best)


# --- the suite ---------------------------------------------------------------------------------------


def sweep_in_tiles(
    backend: Backend, job: SweepJob, row_cuts: Sequence[int], col_cuts: Sequence[int]
) -> SweepResult:
    """The job's bottom and right boundary and best cell, by tiles that hand their edges on.

    This is what the engine does, in its plainest form: one tile at a time, row by row.
    """
    rows, cols = len(job.query), len(job.target)
    best = []
    above = [job.top.part(*span) for span in pairwise([0, *col_cuts, cols])]
    right_edge = []
    for i, i_end in pairwise([0, *row_cuts, rows]):
        before = job.left.part(i, i_end)
        for k, (j, j_end) in enumerate(pairwise([0, *col_cuts, cols])):
            tile = dataclasses.replace(
                job,
                query=job.query[i:i_end],
                target=job.target[j:j_end],
                top=above[k],
                left=before,
                rows=(i_end - i,),
                cols=(j_end - j,),
            )
            [swept] = backend.sweep([tile])
            above[k], before = swept.rows[0], swept.cols[0]
            best.append(swept.best.shifted(i, j))
        right_edge.append(before)
    return SweepResult((join_parts(above),), (join_parts(right_edge),), best_of(best))


def transposed(job: SweepJob) -> SweepJob:
    """The same rectangle with query and target, and with them E and F, exchanged."""
    return dataclasses.replace(
        job,
        query=job.target,
        target=job.query,
        top=job.left,
        left=job.top,
        rows=job.cols,
        cols=job.rows,
    )


class StopTheWorkError(Exception):
    """What a progress callback raises in these tests."""


class Conformance:
    """What suites share: the sizes at which a back end is tested, and how often."""

    #: Lengths at which the back end changes its ways; the tests use them and their neighbours.
    interesting_lengths: ClassVar[tuple[int, ...]] = (8, 32)

    #: The most cells of one job: the oracle does about a million a second.
    largest_job: ClassVar[int] = 4_000

    #: Share of the hypothesis profile's examples to run, for a back end that is slow to test.
    effort: ClassVar[float] = 1.0

    def for_all(self, strategy: st.SearchStrategy[T], check: Callable[[T], None], share: float = 1.0) -> None:
        """Run `check` on what `strategy` draws, with a share of the profile's number of examples.

        The test is built here, not by a decorator, because the strategy depends on the subclass.
        """
        examples = max(1, round(settings().max_examples * self.effort * share))

        def property_holds(drawn: T) -> None:
            check(drawn)

        settings(max_examples=examples, report_multiple_bugs=False)(given(strategy)(property_holds))()


def assert_progress_adds_up(run: Callable[[Progress], object], cells: int) -> None:
    """`run` reports so many cells in all, never less than none, and from the thread that called it."""
    counts, threads = [], set()

    def progress(cells: int) -> None:
        counts.append(cells)
        threads.add(threading.current_thread())

    run(progress)
    assert sum(counts) == cells
    assert min(counts) >= 0
    assert threads == {threading.current_thread()}


class SweepConformance(Conformance):
    """What every back end must pass. A subclass, named Test..., adds a fixture `backend`.

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

    def test_an_empty_work_list(self, backend: Backend) -> None:
        assert backend.sweep([]) == []

    def test_tiles_glued_by_boundaries_equal_the_whole(self, backend: Backend) -> None:
        def check(data: st.DataObject) -> None:
            drawn = data.draw(self.jobs())
            job = dataclasses.replace(drawn, rows=(len(drawn.query),), cols=(len(drawn.target),))
            cuts = [data.draw(_cuts(len(side))) for side in (job.query, job.target)]
            [whole] = backend.sweep([job])
            assert_same_result(job, sweep_in_tiles(backend, job, *cuts), whole)

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

    @pytest.mark.parametrize("unit", ["A", "AC", "AAC", "ACGT"])
    def test_ties_among_end_cells_in_repeats(self, backend: Backend, unit: str) -> None:
        longest = max(length for length in self.interesting_lengths if length**2 <= self.largest_job)
        query = np.resize(encode(unit, QUERY_N), longest + 1)
        target = np.resize(encode(unit[::-1], TARGET_N), longest + 3)
        free_gaps = Scoring(match=1, mismatch=-1, gap_open=0, gap_extend=0)
        shapes = [(query, target), (query, target[:5]), (query[:5], target)]
        self.check(backend, [whole_matrix(*pair, s, True) for pair in shapes for s in (Scoring(), free_gaps)])

    def test_of_two_best_cells_on_an_anti_diagonal_the_rightmost_is_the_end(self, backend: Backend) -> None:
        job = whole_matrix(encode("AC", QUERY_N), encode("CA", TARGET_N), Scoring(), True)
        [result] = backend.sweep([job])
        assert result.best == BestCell(1, 1, 2)

    def test_ambiguous_letters_match_nothing(self, backend: Backend) -> None:
        length = max(length for length in self.interesting_lengths if length**2 <= self.largest_job)
        job = whole_matrix(
            np.full(length, QUERY_N, np.uint8), np.full(length, TARGET_N, np.uint8), Scoring(), True
        )
        [result] = backend.sweep([job])
        assert result.best == BestCell()
        assert not result.rows[0].h.any()

    def test_values_at_both_ends_of_the_range(self, backend: Backend) -> None:
        work = []
        for rows, cols in [(100, 20), (20, 100), (60, 60)]:
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

    def test_progress_adds_up_to_the_cells(self, backend: Backend) -> None:
        work = self.some_work()
        assert_progress_adds_up(
            lambda progress: backend.sweep(work, progress), sum(job.cells for job in work)
        )

    def test_progress_may_stop_the_sweep(self, backend: Backend) -> None:
        def progress(_: int) -> None:
            raise StopTheWorkError

        with pytest.raises(StopTheWorkError):
            backend.sweep(self.some_work(), progress)
        self.check(backend, self.some_work())

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

    # What the tests above share.

    def jobs(self, cells: int | None = None) -> st.SearchStrategy[SweepJob]:
        """Jobs around the back end's interesting lengths."""
        return jobs(self.interesting_lengths, cells or self.largest_job)

    def some_work(self) -> list[SweepJob]:
        """A few jobs of fixed content."""
        rng = np.random.default_rng(1)
        length = max(length for length in self.interesting_lengths if length**2 <= self.largest_job)
        query = rng.integers(0, 4, length, np.uint8)
        targets = [mutated(query, length + step, 0.1, rng) for step in (0, 1, 5)]
        return [whole_matrix(query, target, Scoring(), True) for target in targets]

    def check(self, backend: Backend, work: Sequence[SweepJob]) -> None:
        """One call for all the work gives what the oracle gives for each job."""
        results = backend.sweep(work)
        assert len(results) == len(work)
        for job, got, want in zip(work, results, ReferenceBackend().sweep(work), strict=True):
            assert_same_result(job, got, want)


def _cuts(length: int) -> st.SearchStrategy[list[int]]:
    """Up to three places to cut a side of this length."""
    if length == 1:
        return st.just([])
    return st.sets(st.integers(1, length - 1), max_size=3).map(sorted)
