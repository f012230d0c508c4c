"""A pruned run finds what an unpruned one finds: score, end cell and path.

The bound is the best score or less, as if seeds had found it, and everything is tiny: tiles, chunks, and the
rectangles from which phases 2 and 3 leave out cells. The reference back end leaves out single cells.
"""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import (
    CPU,
    PAIR,
    REPEATED,
    Geometry,
    Pair,
    SmallTiles,
    found_path,
    geometries,
    problems,
    tying_scorings,
    using,
    walked,
)

from longalign.backends.base import no_progress
from longalign.backends.cpu import CpuBackend
from longalign.cli.align import in_words, summary_of
from longalign.errors import InternalError, StoreError
from longalign.events import Notice
from longalign.model.boundary import BestCell
from longalign.model.geometry import Grid
from longalign.model.mode import MODES
from longalign.model.pruning import (
    NO_FINDINGS,
    SPACING,
    Findings,
    KnownBound,
    Pruning,
    SideGains,
    values_left_out,
)
from longalign.model.scoring import Scoring
from longalign.model.strand import STRANDS_OF
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.phases import entry, meeting, problem, tile_step
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem
from longalign.run import pipeline, three_phases
from longalign.run.engines import shared_store
from longalign.store import DirectoryStore, Manifest, MemoryStore
from longalign.store.base import DamagedTile
from longalign.store.files import temporary_name
from longalign.testing.gains import anchors_of, steps, true_limits
from longalign.testing.reference import ReferenceBackend


class SweepsAll(CpuBackend):
    """Leaves out tiles, but no blocks inside a tile.

    Next to a tile that was left out, values may then be too low, also at a likely crossing.
    """

    max_share_pruned = max_share_stored = 0.0

    def sweep(self, jobs, progress=no_progress):
        return super().sweep([replace(job, pruning=None) for job in jobs], progress)


BACKENDS = {"reference": ReferenceBackend(), "cpu": CPU, "sweeps all": SweepsAll(2)}


@pytest.fixture(autouse=True, scope="module")
def tiny():
    """Rectangles of any size are pruned and cut in phases 2 and 3."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CpuBackend, "min_pruned_cells", 1)
        patched.setattr(entry, "_MAX_CELLS", 4)
        yield


def known(monkeypatch, score, share=1.0, findings=NO_FINDINGS):
    """Let runs begin with this bound and these findings on each strand; None for no pruning."""
    bound = (
        None
        if score is None
        else KnownBound(score, share, findings=dict.fromkeys(STRANDS_OF["both"], findings))
    )
    monkeypatch.setattr(pipeline, "find_bound", lambda *_: bound)


def findings_of(pair, steps, groups):
    """Anchors of any quality, and the true limits of the first rows of some groups of `SPACING` rows."""
    whole, rows = pair.whole(), len(pair.query)
    at = [SPACING * group for group in sorted(groups) if SPACING * group < rows]
    limits = true_limits(whole.query, whole.target, pair.scoring, pair.mode.ends, at)
    return Findings(anchors_of(steps, rows, len(pair.target)), limits)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())
@given(
    problems(scorings=tying_scorings, shortest=0),
    geometries,
    st.sampled_from([0, 0, 1, 5, 1000]),
    steps(),
    st.sets(st.integers(0, 5)),
)
def test_any_problem_in_any_geometry(backend, pair, geometry, below, steps, groups):
    truth = pair.truth()
    findings = findings_of(pair, steps, groups)
    with pytest.MonkeyPatch.context() as patched:
        known(patched, int(truth.score) - below, findings=findings)
        outcome = geometry.run(pair, backend)
    assert BestCell(outcome.end.value, outcome.end.i, outcome.end.j) == truth, pair
    assert found_path(outcome) == walked(pair, outcome.end.i, outcome.end.j), pair


@given(problems(scorings=tying_scorings), geometries, st.sampled_from([0, 1, 5]))
def test_a_tile_between_two_that_were_left_out_is_tested_like_any_other(pair, geometry, below):
    is_needed, tested = tile_step._is_needed, []

    def same(lattice, tile):
        edges = lattice.edges(tile.i0, tile.i1, tile.j0, tile.j1)
        level, _ = values_left_out(pair.scoring, lattice.problem.has_floor)
        i, j = np.ix_(range(tile.i0, tile.i1 + 1), range(tile.j0, tile.j1 + 1))
        inside = int(lattice.problem.pruning.gain(i, i, j, j).max())
        begins = level + inside + pair.scoring.gap_open >= lattice.bound
        whole = replace(lattice.problem.pruning, bound=lattice.bound)
        tested.append(begins or whole.needs(*edges, pair.scoring.gap_open, tile.i0, tile.j0))
        assert is_needed(lattice, tile) == tested[-1]
        return tested[-1]

    with pytest.MonkeyPatch.context() as patched:
        known(patched, int(pair.truth().score) - below)
        patched.setattr(tile_step, "_is_needed", same)
        geometry.run(pair, CPU)
    assert tested


def test_a_tile_in_which_a_path_of_interest_begins_is_needed():
    """By these gains, only a path in its lower right corner reaches the bound. Its edges are all 0."""
    letters, kept = np.zeros(16, np.uint8), np.ones(3, np.int32)
    side = SideGains(np.full(17, 100, np.int32), -1000 * kept, 68 * kept, 2)
    one_problem = Problem.of_codes(letters, letters, Scoring(), MODES["local"])
    lattice = StoreLattice(
        replace(one_problem, pruning=Pruning(100, side, side)),
        Grid((0, 16), (0, 16), (0, 16), (0, 16)),
        MemoryStore(),
    )
    tile = lattice.grid.tile(0, 0)
    assert not lattice.problem.pruning.needs(*lattice.edges(0, 16, 0, 16), 3)
    assert tile_step._is_needed(lattice, tile)


def test_a_guess_beside_a_tile_that_was_left_out(monkeypatch):
    """The best cell of row 17 is reached along the last row of a tile that no path of interest visits."""
    scores = ((200, 59, -199, -192), (81, 53, 63, -69), (-58, 187, -84, -135), (120, 137, -5, 48))
    scoring = Scoring(gap_open=0, gap_extend=2, matrix=SubstitutionMatrix("made", "ABCD", scores))
    query, target = "CADCABDDDBABDCDBADBCACADDCCA", "ABDBDDABCADCBDA"
    pair = Pair(query, target, scoring, MODES["semiglobal:target-end"])
    known(monkeypatch, int(pair.truth().score))
    outcome = Geometry((7, 5), chunk=5, leaf=50, group=2000).run(pair, SweepsAll(2))
    assert found_path(outcome) == walked(pair, outcome.end.i, outcome.end.j)


@given(problems(scorings=tying_scorings), geometries)
def test_large_rectangles_with_ties_are_cut_without_pruning_as_well(pair, geometry):
    outcome = geometry.run(pair, CPU)
    assert found_path(outcome) == walked(pair, outcome.end.i, outcome.end.j), pair


def test_tiles_are_left_out_and_the_store_says_which(monkeypatch, tmp_path):
    geometry = Geometry((5, 5), chunk=5, leaf=10**4)
    known(monkeypatch, None)
    with geometry.applied():
        whole = REPEATED.run(using(SmallTiles((5, 5), CPU)))
    known(monkeypatch, int(whole.end.value), share=0.5)
    with geometry.applied():
        first = REPEATED.run(using(SmallTiles((5, 5), CPU)), tmp_path / "s")
        with pipeline.DirectoryStore.open(tmp_path / "s") as store:
            grid, left_out, stored = store.manifest.grid, store.get_left_out(), store.stored_tiles()
            assert left_out
            assert not left_out & stored
            assert left_out | stored == {(tile.row, tile.col) for tile in grid.tiles()}
        backend = SmallTiles((5, 5), CPU)
        again = pipeline.resume(tmp_path / "s", using(backend))
    assert found_path(first) == found_path(again) == found_path(whole)
    assert backend.swept == 0
    [phase] = [phase for phase in first.phases if phase.name == "score"]
    assert 0 < phase.left_out < phase.cells == grid.cells


def test_what_was_left_out_is_listed_although_phase_1_met_a_damaged_tile(monkeypatch, tmp_path):
    score, damages = three_phases.score, [DamagedTile(0, 0, "a first read failed")]

    def damaged_once(*arguments):
        end = score(*arguments)
        if damages:
            raise damages.pop()
        return end

    monkeypatch.setattr(three_phases, "score", damaged_once)
    known(monkeypatch, int(REPEATED.truth().score), share=0.5)
    with Geometry((5, 5), chunk=5, leaf=10**4).applied():
        REPEATED.run(using(SmallTiles((5, 5), CPU)), tmp_path)
    store = DirectoryStore.attach(tmp_path)
    left_out, tiles = store.get_left_out(), store.manifest.grid.tiles()
    assert left_out
    assert left_out | store.stored_tiles() == {(tile.row, tile.col) for tile in tiles}


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["list", "tile", "both"])
def test_what_is_lost_of_a_pruned_store_is_made_again(monkeypatch, tmp_path, lost):
    geometry = Geometry((5, 5), chunk=5, leaf=10**4)
    known(monkeypatch, int(REPEATED.truth().score), share=0.5)
    with geometry.applied():
        first = REPEATED.run(using(SmallTiles((5, 5), CPU)), tmp_path)
        if lost != "tile":
            (tmp_path / "left_out.h5").write_bytes(b"damaged")
        if lost != "list":
            sorted(tmp_path.glob("tiles/*.h5"))[3].unlink()
        again = pipeline.resume(tmp_path, using(SmallTiles((5, 5), CPU)))
        with pipeline.DirectoryStore.open(tmp_path) as store:
            assert store.get_left_out()
    assert (again.end, found_path(again)) == (first.end, found_path(first))


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["seeds.h5", "row_limits.h5"])
def test_a_resumed_run_and_the_workers_of_a_cluster_know_the_findings(monkeypatch, tmp_path, lost):
    geometry = Geometry((5, 5), chunk=5, leaf=10**4)
    anchors = np.array([[0, 20, 0, 20], [20, 30, 22, 32]])
    findings = findings_of(REPEATED, [], {0, 1})._replace(anchors=anchors)
    known(monkeypatch, int(REPEATED.truth().score), share=0.5, findings=findings)
    used, gains = [], problem.gains

    def noted(*codes_and_scoring, findings, ends):
        used.append([findings.anchors.tolist(), findings.limits.tolist()])
        return gains(*codes_and_scoring, findings=findings, ends=ends)

    monkeypatch.setattr(problem, "gains", noted)
    with geometry.applied():
        first = REPEATED.run(using(SmallTiles((5, 5), CPU)), tmp_path / "s")
        again = pipeline.resume(tmp_path / "s", using(SmallTiles((5, 5), CPU)))
        with DirectoryStore.open(tmp_path / "s") as store, store.marked() as mark:
            lattice = shared_store._lattice.__wrapped__(store.path, mark)
        (tmp_path / "s" / lost).write_bytes(b"damaged")
        with DirectoryStore.open(tmp_path / "s") as store, store.marked() as mark:
            shared_store._lattice.__wrapped__(store.path, mark)
        events = []
        without = pipeline.resume(tmp_path / "s", using(SmallTiles((5, 5), CPU)), emit=events.append)
    everything = [findings.anchors.tolist(), findings.limits.tolist()]
    left = [[], everything[1]] if lost == "seeds.h5" else [everything[0], []]
    assert used == [everything] * 3 + [left] * 2
    in_worker, expected = lattice.problem.pruning, lattice.problem.gains(findings)
    assert all(map(np.array_equal, in_worker.query.arrays, expected.query.arrays))
    assert found_path(first) == found_path(again) == found_path(without)
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert any(f"{lost}: damaged" in text and "more cells are computed" in text for text in notices)


@pytest.mark.slow
def test_a_store_of_a_program_that_kept_no_row_limits_is_resumed(monkeypatch, tmp_path):
    known(monkeypatch, int(REPEATED.truth().score), findings=findings_of(REPEATED, [], {0, 1}))
    first = REPEATED.run(using(SmallTiles((5, 5), CPU)), tmp_path)
    for path in (tmp_path / "row_limits.h5", *tmp_path.glob("tiles/*.h5")):
        path.unlink()
    events = []
    again = pipeline.resume(tmp_path, using(SmallTiles((5, 5), CPU)), emit=events.append)
    assert found_path(again) == found_path(first)
    assert not [event for event in events if isinstance(event, Notice)]


def test_each_strand_has_its_own_findings(monkeypatch, tmp_path):
    own = {
        strand: Findings(np.array([[k, 10 + k, 0, 10]]), np.array([[8 * k, 90]]))
        for k, strand in enumerate(STRANDS_OF["both"])
    }
    bound = KnownBound(int(PAIR.truth().score), 1.0, findings=own)
    monkeypatch.setattr(pipeline, "find_bound", lambda *_: bound)
    pipeline.run(replace(PAIR.spec(tmp_path / "s"), strand="both"), using())
    for strand, findings in own.items():
        found, _ = DirectoryStore.attach(tmp_path / "s" / strand).get_findings()
        assert found.anchors.tolist() == findings.anchors.tolist()
        assert found.limits.tolist() == findings.limits.tolist()


@pytest.mark.parametrize("name", ["seeds.h5", "row_limits.h5"])
def test_a_new_store_has_no_findings_of_one_whose_creation_was_interrupted(monkeypatch, tmp_path, name):
    findings = Findings(np.array([[0, 10, 0, 10]]), np.array([[0, 100]]))
    known(monkeypatch, int(PAIR.truth().score), findings=findings)
    interrupted = mock.patch.object(Manifest, "write", side_effect=KeyboardInterrupt)
    with interrupted, pytest.raises(KeyboardInterrupt):
        PAIR.run(store=tmp_path / "s")
    assert (tmp_path / "s" / name).exists()
    (tmp_path / "s" / temporary_name(name)).touch()
    known(monkeypatch, None)
    PAIR.run(store=tmp_path / "s")
    assert not [*(tmp_path / "s").glob(f"*{name}")]


def test_a_pruned_store_is_for_pruned_runs(monkeypatch, tmp_path):
    known(monkeypatch, int(PAIR.truth().score))
    PAIR.run(store=tmp_path)
    for change, complaint in (
        ({"prune": "off"}, "pruning is on in the store and off now"),
        ({"top": 2}, "leaves out cells that alignments after the best one need: begin a new one"),
        ({"top": 2, "query": PAIR.spec().target}, "another run: the query is .* in the store, and .* now"),
        ({"start_states": "eager"}, "another run: start_states is lazy in the store and eager now"),
    ):
        with pytest.raises(StoreError, match=complaint):
            pipeline.run(replace(PAIR.spec(tmp_path), **change), using())


def test_a_bound_above_the_best_score_is_an_error(monkeypatch):
    known(monkeypatch, int(PAIR.truth().score) + 1)
    with pytest.raises(InternalError, match="phase 1 has not found the score that seeds have found"):
        PAIR.run()


def test_a_strand_that_cannot_be_the_better_one_has_no_score(monkeypatch):
    spec = replace(PAIR.spec(), strand="both")
    known(monkeypatch, None)
    whole = pipeline.run(spec, using())
    known(monkeypatch, int(whole.end.value))
    pruned = pipeline.run(spec, using())
    assert [*whole.strand_scores] == ["plus", "minus"]
    assert (pruned.end, pruned.alignment.cigar) == (whole.end, whole.alignment.cigar)
    assert pruned.strand_scores == {"plus": whole.strand_scores["plus"], "minus": None}
    assert summary_of(pruned)["strand_scores"] == pruned.strand_scores
    assert "on the plus strand (less on minus)," in in_words(pruned)


def test_small_rectangles_are_swept_whole(monkeypatch):
    """No time is spent on what could be left out in phases 2 and 3."""
    monkeypatch.setattr(CpuBackend, "min_pruned_cells", 1 << 40)
    monkeypatch.setattr(meeting, "gains", None)
    pair = Pair("ACGT" * 30, "ACGT" * 14 + "T" + "ACGT" * 16, Scoring(), MODES["local"])
    known(monkeypatch, int(pair.truth().score))
    assert found_path(Geometry((60, 60), 30, 100).run(pair, CPU)) == walked(pair, 120, 121)


def lowered(side, less):
    """All gains of one side, lower by `less`."""
    numbers = (np.maximum(values.astype(np.int64) - less, -(2**31)) for values in side.arrays)
    return SideGains(*(values.astype(np.int32) for values in numbers), side.slope)


def test_too_small_a_bound_fails(monkeypatch, first_failure_only):
    """Gains that are too small by more than alpha, which the test of a block adds, lose optimal paths."""
    right = meeting.gains

    def too_small(*codes_and_scoring, **options):
        found, scoring = right(*codes_and_scoring, **options), codes_and_scoring[2]
        less = scoring.gap_open + 1
        return replace(found, query=lowered(found.query, less), target=lowered(found.target, less))

    monkeypatch.setattr("longalign.phases.problem.gains", too_small)

    def check(pair, geometry):
        test_any_problem_in_any_geometry.hypothesis.inner_test(
            BACKENDS["reference"], pair, geometry, 0, [], set()
        )

    with pytest.raises((AssertionError, InternalError)):
        given(problems(shortest=0), geometries)(check)()
