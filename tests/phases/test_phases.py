"""Score, stitch and recompute over tiny tiles, chunks and leaves, compared with the full DP matrix.

`Pair.check` wants the optimum, at the one right end, by an alignment that is worth it column by column.
"""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from inputs import BODY
from runs import (
    CPU,
    PLAIN_MODES,
    Geometry,
    Pair,
    SmallTiles,
    geometries,
    problems,
    sides,
    small_geometry,
    swept_lattice,
    using,
    whole_sweep,
)

from longalign.backends.base import Progress, Runs, TraceJob, no_progress
from longalign.errors import InternalError
from longalign.model.alignment import Op
from longalign.model.boundary import State, Waypoint, entry_edges
from longalign.model.mode import EXTEND, FIT, GLOBAL, LOCAL, MODES, OVERLAP, SEMIGLOBAL
from longalign.model.scoring import UNREACHABLE, Scoring
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem, Segment
from longalign.phases.recompute import cut_points, groups_of, merge, recompute, segments_of
from longalign.phases.stitch import stitch
from longalign.testing.inputs import (
    SCORINGS,
)
from longalign.testing.reference import ReferenceBackend
from longalign.testing.traces import path_value

BACKENDS = {"reference": ReferenceBackend(), "cpu": CPU}


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())
@given(problems(shortest=0), geometries)
@example(Pair(BODY[:9], BODY[3:14]), Geometry((1, 1), chunk=1, leaf=1))
def test_any_problem_in_any_geometry(backend, pair, geometry):
    pair.check(geometry.run(pair, backend))


@given(problems(shortest=0), geometries, geometries)
def test_score_and_end_do_not_depend_on_the_geometry(pair, one, other):
    assert one.run(pair, CPU).end == other.run(pair, CPU).end


@given(problems(shortest=0), geometries)
def test_the_alignment_does_not_depend_on_back_end_or_workers(pair, geometry):
    runs = [
        geometry.run(pair, ReferenceBackend()),
        geometry.run(pair, CPU),
        geometry.run(pair, CPU, ReferenceBackend()),
    ]
    found = {(run.end, run.alignment.cigar, run.alignment.query_start) for run in runs}
    assert len(found) == 1, pair


@pytest.mark.slow
@pytest.mark.parametrize("mode", PLAIN_MODES, ids=str)
@pytest.mark.parametrize("scoring", [Scoring(), SCORINGS[3]], ids=str)
def test_every_short_pair_with_every_cell_a_chunk(mode, scoring):
    """All entries and exits: each edge, each corner, and straight through.

    Exchanging A and C changes nothing, so all queries begin with A.
    """
    words = ["".join(word) for length in (1, 2, 3) for word in product("AC", repeat=length)]
    for query, target in product((word for word in words if word[0] == "A"), words):
        pair = Pair(query, target, scoring, mode)
        pair.check(Geometry((2, 2), chunk=1, leaf=1).run(pair, ReferenceBackend()))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mode", "geometry"),
    [
        *((mode, Geometry((8, 8), chunk=4, leaf=4)) for mode in (LOCAL, GLOBAL, SEMIGLOBAL)),
        *((mode, Geometry((8, 8), chunk=8, leaf=10**4)) for mode in (OVERLAP, FIT, EXTEND)),
    ],
    ids=str,
)
def test_gaps_along_and_across_every_boundary(mode, geometry):
    """A gap before any letter of two tiles. It runs along a boundary, or spans several tiles."""
    cheap = Scoring(match=5, mismatch=-4, gap_open=2, gap_extend=0)
    letters = BODY[:17]
    for place, length in product(range(len(letters) + 1), (1, 17)):
        longer = letters[:place] + "T" * length + letters[place:]
        for pair in (Pair(longer, letters, cheap, mode), Pair(letters, longer, cheap, mode)):
            pair.check(geometry.run(pair, CPU))


def test_an_insertion_may_stand_next_to_a_deletion():
    never_mismatch = Scoring(match=1, mismatch=-30, gap_open=1, gap_extend=1)
    pair = Pair("ACGTCCCCACGT", "ACGTGGGGACGT", never_mismatch, "global")
    outcome = Geometry((5, 5), chunk=2, leaf=2).run(pair, CPU)
    pair.check(outcome)
    assert sorted(outcome.alignment.cigar) == sorted("4=4I4D4=")


@pytest.mark.parametrize(
    ("pair", "cigar"),
    [
        (Pair("A", "A"), "1="),
        (Pair("CAC", "GAG"), "1="),
        (Pair("AAAA", "CCCC"), ""),
        (Pair("A", "C"), ""),
        (Pair("NNNNN", "NNNNN"), ""),
        (Pair("N", "N", mode="global"), "1X"),
        (Pair("NN", "NN", mode="global"), "2X"),
        (Pair("A", "C", mode="global"), "1X"),
        (Pair("A", "CCCA", mode="global"), "3D1="),
        (Pair("CCCA", "A", mode="global"), "3I1="),
        (Pair(BODY, BODY), f"{len(BODY)}="),
        (Pair(BODY, BODY, mode="global"), f"{len(BODY)}="),
        (Pair("A", "T" * 100, mode="global"), None),
        (Pair("A" * 100, "T", mode="global"), None),
        (Pair("ACAC" * 12, "CACA" * 11), None),
        (Pair("A" * 50, "A" * 37, SCORINGS[3], "global"), None),
        (Pair("AAAA", "CCCC", mode="semiglobal"), ""),
        (Pair("AAAA", "CCCC", mode="overlap"), ""),
        (Pair("AAAA", "CCCC", mode="extend"), ""),
        (Pair("A", "C", mode="fit"), "1X"),
        (Pair("CA", "AG", mode="overlap"), "1="),
        (Pair("AG", "CA", mode="semiglobal"), "1="),
        (Pair("AG", "CA", mode="overlap"), ""),
        (Pair("ACGT", "TTACGTTT", mode="fit"), "4="),
        (Pair("ACGTCC", "ACGTGG", mode="extend"), "4="),
        (Pair("CACGT", "ACGTG", mode="extend"), ""),
        (Pair("CCACGT", "ACGT", mode="semiglobal:query-start"), "4="),
        (Pair("CCACGT", "ACGT", mode="semiglobal:query-end"), "2I4="),
        # Of an alignment with score 0 and none, the one that ends first.
        (Pair("AC" + "G" * 40, "AG", Scoring(1, -1), "semiglobal:query-start,query-end,target-end"), "1=1X"),
    ],
    ids=str,
)
def test_corner_cases(pair, cigar):
    outcome = Geometry((7, 9), chunk=3, leaf=4).run(pair, CPU)
    pair.check(outcome)
    assert cigar in (None, outcome.alignment.cigar)
    assert outcome.is_empty == (cigar == "")


@pytest.mark.parametrize("mode", MODES)
def test_the_score_alone_is_the_score_of_the_alignment(mode):
    pair = Pair(BODY * 2, BODY + "ACGT" + BODY, mode=mode)
    backend = SmallTiles((9, 9), CPU)
    with small_geometry():
        outcome = pair.run(replace(using(backend), store_budget=None), command="score")
    assert outcome.alignment is None
    assert [phase.name for phase in outcome.phases] == ["score"]
    assert outcome.end == Geometry((9, 9), 5, 5).run(pair, CPU).end


# --- the steps one by one


def test_a_lattice_that_contradicts_the_exit_is_an_internal_error():
    lattice = swept_lattice(Pair("ACGT", "ACGT", mode="global"))
    with pytest.raises(InternalError, match=r"no path of value 5 leads to cell \(4, 4\)"):
        stitch(lattice, [Waypoint(4, 4, State.H, 5)], ReferenceBackend())


class Misled(SmallTiles):
    """Traces a path that uses all letters but is not the best one."""

    def trace(self, jobs: list[TraceJob], progress: Progress = no_progress) -> list[Runs]:
        ops = np.array([Op.INSERTION, Op.DELETION], np.uint8)
        return [(ops, np.array([len(job.query), len(job.target)])) for job in jobs]


@pytest.mark.parametrize("stored", [False, True], ids=["in memory", "in a store"])
def test_an_alignment_that_is_not_worth_its_score_is_an_internal_error(tmp_path, stored):
    pair = Pair(BODY * 2, BODY + BODY[2:])  # with a gap, as nothing is traced along a diagonal
    with small_geometry(), pytest.raises(InternalError, match=r"re-scores to -?\d+, not to the reported"):
        pair.run(using(Misled()), tmp_path / "s" if stored else None)


class Counting(SmallTiles):
    """Counts the calls, not the rectangles; says what it says about small chunks."""

    def __init__(self, saturating_side):
        super().__init__(inner=CPU)
        self.saturating_side = saturating_side
        self.calls = 0

    def sweep(self, jobs, progress=no_progress):
        self.calls += 1
        return super().sweep(jobs, progress)


SERIAL, GUESSING = 1, 10**6


def stitched(lattice, end, saturating_side):
    """The path, and the number of calls of the back end."""
    backend = Counting(saturating_side)
    return stitch(lattice, [end], backend), backend.calls


@given(problems(), sides, st.sampled_from([1, 20_000, 256 << 20]))
def test_guesses_do_not_change_the_path(pair, chunk, group):
    lattice, best = swept_lattice(pair, chunk), pair.truth()
    end = Waypoint(best.i, best.j, State.H, best.score)
    with small_geometry(group=group):
        assert stitched(lattice, end, GUESSING)[0] == stitched(lattice, end, SERIAL)[0], pair


@pytest.mark.parametrize("mode", ["local", "global"])
def test_guesses_spare_rounds(mode):
    """Most of the many chunks along a path with few changes are swept together."""
    letters = "".join(np.random.default_rng(0).choice(list("ACGT"), 400))
    pair = Pair(letters, letters[:150] + letters[155:300] + "A" + letters[301:], mode=mode)
    lattice, best = swept_lattice(pair, 20), pair.truth()
    end = Waypoint(best.i, best.j, State.H, best.score)
    (path, serial), (same, guessing) = stitched(lattice, end, 20), stitched(lattice, end, GUESSING)
    assert path == same
    assert serial == len(path) - 1 > 20
    assert guessing < 8


@pytest.mark.slow
@pytest.mark.parametrize(("mode", "count"), [("local", 2), ("global", 52)])
def test_nothing_is_guessed_in_rows_that_a_local_path_does_not_reach(mode, count, monkeypatch):
    """After 1,000 unrelated letters, 60 score 58 matches less a gap, or 51. Every 20th row is stored."""
    monkeypatch.setattr("longalign.phases.stitch._ROWS_OF_A_MATCH", 1)
    before, after, shared = ("".join(word) for word in np.random.default_rng(3).choice([*"ACGT"], (3, 1000)))
    pair = Pair(before + shared[:60], after + shared[:30] + shared[32:60], mode=mode)
    lattice, best = swept_lattice(pair, 20), pair.truth()
    rows, peak = [], StoreLattice.peak

    def noted(self, i, stop):
        rows.append(i)
        return peak(self, i, stop)

    monkeypatch.setattr(StoreLattice, "peak", noted)
    stitched(lattice, Waypoint(best.i, best.j, State.H, best.score), GUESSING)
    assert len(rows) == count


class Kinds(SmallTiles):
    """Records the kinds of rectangles that it sweeps, since a back end may have a kernel for each kind."""

    def __init__(self):
        super().__init__(leaf=4)
        self.kinds = set()

    def sweep(self, jobs, progress=no_progress):
        self.kinds.update((job.local, job.track_best) for job in jobs)
        return super().sweep(jobs, progress)


@pytest.mark.parametrize(
    ("mode", "wants_best"), [("local", True), ("global", False), ("semiglobal", False), ("extend", False)]
)
def test_phases_2_and_3_sweep_one_kind_of_rectangles(mode, wants_best):
    pair = Pair(BODY * 2, BODY + BODY[2:], mode=mode)  # with a gap, as nothing is swept along a diagonal
    lattice, best = swept_lattice(pair, 7), pair.truth()
    stitching, recomputing = Kinds(), Kinds()
    path = stitch(lattice, [Waypoint(best.i, best.j, State.H, best.score)], stitching)
    recompute(lattice.problem, segments_of(path), recomputing)
    assert stitching.kinds == recomputing.kinds == {(False, wants_best)}


def test_waypoints_that_contradict_each_other_are_an_internal_error():
    problem = Problem.of(*Pair("ACGT", "ACGT").sequences(), Scoring(), GLOBAL)
    segment = Segment(Waypoint(0, 0, State.H, 0), Waypoint(4, 4, State.H, 5))
    with pytest.raises(InternalError, match=r"no path of value 5 leads to cell \(4, 4\)"):
        cut_points(problem, [segment], ReferenceBackend(), no_progress)


@pytest.fixture
def without_shortcuts(monkeypatch):
    """Segments are traced even where they are known to be a diagonal."""
    monkeypatch.setattr("longalign.phases.recompute.is_straight", lambda *_: False)


@pytest.mark.usefixtures("without_shortcuts")
def test_recomputing_takes_few_calls_of_the_back_end(monkeypatch):
    """For any number of segments: one call for each halving of the largest one, and one to trace all."""
    letters = BODY * 4
    problem = Problem.of(*Pair(letters, letters).sequences(), Scoring(), GLOBAL)
    path = [Waypoint(k, k, State.H, k) for k in range(0, len(letters) + 1, 16)]
    calls = []
    backend = SmallTiles(leaf=16)
    for name in ("sweep", "trace"):
        monkeypatch.setattr(backend, name, counted(getattr(backend, name), name, calls))
    piece = recompute(problem, segments_of(path[::-1]), backend)
    assert calls == ["sweep"] * 2 + ["trace"]
    assert (piece.ops.tolist(), piece.lengths.tolist()) == ([0], [len(letters)])


@pytest.mark.usefixtures("without_shortcuts")
def test_recomputing_searches_for_no_garbage_and_leaves_none(monkeypatch):
    """Thousands of rectangles are tens of thousands of objects, which would trigger full collections."""
    letters = BODY * 4
    problem = Problem.of(*Pair(letters, letters).sequences(), Scoring(), GLOBAL)
    end = Waypoint(len(letters), len(letters), State.H, len(letters))
    backend = SmallTiles(leaf=16)
    lines = []

    def sweep(jobs, progress):
        assert not gc.isenabled()
        swept = SmallTiles.sweep(backend, jobs, progress)
        lines.extend(weakref.ref(line.h) for result in swept for line in (*result.rows, *result.cols))
        return swept

    monkeypatch.setattr(backend, "sweep", sweep)
    recompute(problem, [Segment(Waypoint(0, 0, State.H, 0), end)], backend)
    assert lines
    assert not any(line() for line in lines)


def counted(function, name, calls):
    return lambda *arguments: calls.append(name) or function(*arguments)


@pytest.mark.parametrize("span", [(0, 5, 0, 7), (1, 4, 2, 3), (4, 5, 6, 7), (0, 1, 0, 1)])
def test_letters_backwards_lie_as_a_back_end_wants_them(span):
    codes = np.arange(5, dtype=np.uint8), np.arange(7, dtype=np.uint8)
    problem = Problem.of_codes(*codes, Scoring(), LOCAL)
    for ahead, back in zip(problem.letters(*span), problem.letters_backwards(*span), strict=True):
        assert back.tolist() == ahead.tolist()[::-1]
        assert back.strides == (1,)


def test_segments_go_forward():
    path = [Waypoint(9, 8, State.H, 5), Waypoint(4, 4, State.E, 2), Waypoint(0, 1, State.H, 0)]
    assert segments_of(path) == [Segment(path[2], path[1]), Segment(path[1], path[0])]
    assert segments_of(path[:1]) == segments_of([]) == []


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=30), st.integers(1, 9000))
def test_groups_keep_the_order_and_share_the_memory(shapes, group):
    path = [Waypoint(0, 0, State.H, 0)]
    for rows, cols in shapes:
        path.append(Waypoint(path[-1].i + rows, path[-1].j + cols, State.H, 0))
    segments = segments_of(path[::-1])
    with small_geometry(group=group):
        groups = groups_of(segments)
    assert [segment for part in groups for segment in part] == segments
    assert all(groups)
    letters = [sum(segment.rows + segment.cols for segment in part) for part in groups]
    assert all(40 * size <= group for size, part in zip(letters, groups, strict=True) if len(part) > 1)


@given(problems(30), st.sampled_from(State), st.sampled_from(State), st.integers(1, 50))
@example(Pair("AC", "CA"), State.F, State.E, 1)
def test_a_segment_in_any_state_is_worth_what_the_matrix_says(pair, entry, exit_, leaf):
    """From a corner entered in H, E or F to a corner left in H, E or F, if there is such a path."""
    pair = replace(pair, mode="global")
    query, target = pair.sequences()
    whole = Problem.of(query, target, pair.scoring, GLOBAL)
    top, left = entry_edges(entry, query.length, target.length, pair.scoring)
    part = replace(whole, top=top, left=left)
    [result] = ReferenceBackend().sweep([whole_sweep(part, (query.length,), (target.length,))])
    row, col = result.rows[0], result.cols[0]
    value = int({State.H: row.h, State.E: row.gap, State.F: col.gap}[exit_][-1])
    assume(value > UNREACHABLE)
    segment = Segment(Waypoint(0, 0, entry, 7), Waypoint(query.length, target.length, exit_, 7 + value))
    piece = recompute(whole, [segment], SmallTiles(inner=CPU, leaf=leaf))
    job = TraceJob(whole.query, whole.target, pair.scoring, entry, exit_)
    assert path_value(job, (piece.ops, piece.lengths)) == value, (pair, entry, exit_)


def test_nothing_merges_to_nothing():
    assert merge([]).ops.size == 0
