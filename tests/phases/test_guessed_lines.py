"""Whatever is guessed, a run finds what one without guesses finds; and right guesses are accepted."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest import mock

import numpy as np
import pytest
from examples import share_of_examples
from hypothesis import given
from hypothesis import strategies as st
from runs import (
    CPU,
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

from longalign.backends.cpu import CpuBackend
from longalign.errors import MemoryTooSmall
from longalign.model.boundary import BestCell, Boundary
from longalign.model.mode import MODES
from longalign.model.pruning import KnownBound, Pruning, SideGains
from longalign.model.scoring import NEG_INF, Scoring
from longalign.phases import guessed_lines, score
from longalign.phases.guessed_lines import GuessedLine, ShiftedEdge, difference, guessed_line
from longalign.phases.problem import Problem
from longalign.run import pipeline, slabs
from longalign.store import DirectoryStore
from longalign.testing.inputs import mutated
from longalign.testing.reference import ReferenceBackend, matrices

BACKENDS = {"reference": ReferenceBackend(), "cpu": CPU}
SMALL = Geometry((40, 40), chunk=40, leaf=400)
PLAIN = Scoring(5, -4, 3, 2)


@pytest.fixture(autouse=True, scope="module")
def tiny():
    """Rectangles of any size are pruned in phases 2 and 3."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(CpuBackend, "min_pruned_cells", 1)
        yield


def best_path_of(pair, truth):
    """The cells of the best path in which letter pairs begin, with H."""
    i, j, cigar = walked(pair, truth.i, truth.j)
    h, cells, length = matrices(pair.whole())[0], [], ""
    for letter in cigar:
        if letter.isdigit():
            length += letter
            continue
        for _ in range(int(length)):
            if letter in "=X":
                cells.append((i, j, int(h[i][j])))
            i, j = i + (letter != "D"), j + (letter != "I")
        length = ""
    return cells


def guess_from(patched, cells, bound, repeat):
    """Let runs begin with this bound and these milestones."""
    milestones = {"plus": np.array(sorted(cells), np.int64).reshape(-1, 3)} if cells else {}
    patched.setattr(pipeline, "find_bound", lambda *_: KnownBound(bound, 0.1, milestones=milestones))
    patched.setattr(guessed_lines, "_LONGEST_REPEAT", repeat)


def resources_of(geometry, backend):
    return using(SmallTiles(geometry.tile, backend, geometry.leaf, has_parts=True))


def run(pair, geometry, backend, command="align", store=None):
    resources = resources_of(geometry, backend)
    if command == "score":
        resources = replace(resources, store_budget=None)
    with geometry.applied():
        return pair.run(resources, store, command=command)


def line_of(h, gap):
    return Boundary(np.array(h, np.int32), np.array(gap, np.int32))


def cells_inside(pair):
    return st.tuples(
        st.integers(0, len(pair.query) - 1), st.integers(0, len(pair.target) - 1), st.integers(-50, 50)
    )


belows = st.sampled_from([0, 0, 1, 5, 1000])


def guess_any(patched, data, pair, below):
    """Let runs guess from milestones near the best path and elsewhere; returns the best cell."""
    truth = pair.truth()
    too_high = data.draw(st.integers(-2, 8), "how much milestones are too high")
    cells = [(i, j, value + too_high) for i, j, value in best_path_of(pair, truth)]
    if data.draw(st.booleans(), "milestones off the path"):
        cells += data.draw(st.lists(cells_inside(pair), max_size=6))
    guess_from(patched, cells, int(truth.score) - below, data.draw(st.integers(1, 12), "repeats"))
    return truth


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())
@given(st.data(), problems(scorings=tying_scorings), geometries, belows)
def test_no_guess_changes_the_result(backend, data, pair, geometry, below):
    with pytest.MonkeyPatch.context() as patched:
        truth = guess_any(patched, data, pair, below)
        outcome = run(pair, geometry, backend)
        scored = run(pair, geometry, backend, "score")
    assert BestCell(outcome.end.value, outcome.end.i, outcome.end.j) == truth, pair
    assert found_path(outcome) == walked(pair, outcome.end.i, outcome.end.j), pair
    assert scored.end == outcome.end, pair


@share_of_examples(1 / 3)
@given(st.data(), problems(scorings=tying_scorings), geometries, belows)
def test_no_guess_changes_what_a_store_holds(data, pair, geometry, below):
    """Some tiles are swept again, from those beside them."""
    with pytest.MonkeyPatch.context() as patched, TemporaryDirectory() as folder:
        truth = guess_any(patched, data, pair, below)
        store = Path(folder)
        outcome = run(pair, geometry, CPU, store=store)
        tiles = sorted(store.glob("tiles/*.h5"))
        lost = data.draw(st.lists(st.sampled_from(tiles), unique=True) if tiles else st.just([]), "lost")
        for path in [*lost, store / "path.h5", *store.glob("pieces/*")]:
            path.unlink()
        with geometry.applied():
            resumed = pipeline.resume(store, resources_of(geometry, CPU))
    for found in (outcome, resumed):
        assert BestCell(found.end.value, found.end.i, found.end.j) == truth, pair
        assert found_path(found) == walked(pair, found.end.i, found.end.j), pair


def related(length=400, seed=1, rate=0.02):
    rng = np.random.default_rng(seed)
    query = rng.integers(0, 4, length, np.uint8)
    return Pair.of_codes(query, mutated(query, length, rate, rng), Scoring(), MODES["local"])


def accepted(pair, monkeypatch, too_high, repeat=20, store=None):
    """The outcome of a run, and the rows that were guessed, each with what was added if it was right."""
    found = {}

    def noted(line, *arguments):
        assert arguments[-1] == pair.scoring.gap_open
        found[line.row] = difference(line, *arguments)
        return found[line.row]

    truth = pair.truth()
    cells = [(i, j, value + too_high) for i, j, value in best_path_of(pair, truth)]
    monkeypatch.setattr(score, "difference", noted)
    guess_from(monkeypatch, cells, int(truth.score), repeat)
    outcome = run(pair, SMALL, CPU, store=store)
    assert run(pair, SMALL, CPU, "score").end == outcome.end
    assert BestCell(outcome.end.value, outcome.end.i, outcome.end.j) == truth
    assert found_path(outcome) == walked(pair, truth.i, truth.j)
    return outcome, found


@pytest.mark.slow
@pytest.mark.parametrize("too_high", [0, 1, 7])
@pytest.mark.parametrize("mode", ["local", "global", "semiglobal", "overlap", "extend"])
def test_right_guesses_are_accepted_whatever_the_constant(mode, too_high, monkeypatch):
    pair = related()
    _, found = accepted(Pair(pair.query, pair.target, mode=MODES[mode]), monkeypatch, too_high)
    assert len(found) >= 3
    assert set(found.values()) == {-too_high}


@pytest.mark.parametrize("too_high", [0, 1, 7])
def test_right_guesses_are_accepted_in_a_stored_run(too_high, monkeypatch, tmp_path):
    _, found = accepted(related(), monkeypatch, too_high, store=tmp_path)
    assert len(found) >= 3
    assert set(found.values()) == {-too_high}
    with DirectoryStore.open(tmp_path) as store:
        added = [store.get_tile(store.manifest.grid.tile(*place)).added for place in store.stored_tiles()]
    assert set(added) == {0, -too_high}


def test_no_row_of_a_long_stored_run_is_guessed(monkeypatch, tmp_path):
    """All that is below a guess would be lost if the run were stopped."""
    monkeypatch.setattr(slabs, "_LONGEST_HELD", 0.0)
    monkeypatch.setattr(score, "difference", None)
    pair = related()
    truth = pair.truth()
    guess_from(monkeypatch, best_path_of(pair, truth), int(truth.score), 20)
    outcome = run(pair, SMALL, CPU, store=tmp_path)
    assert BestCell(outcome.end.value, outcome.end.i, outcome.end.j) == truth


@pytest.mark.parametrize("is_stored", [False, True], ids=["in memory", "stored"])
def test_tiles_below_a_wrong_guess_are_swept_again(is_stored, monkeypatch, tmp_path):
    pair = related()
    outcome, found = accepted(pair, monkeypatch, too_high=-1, store=tmp_path if is_stored else None)
    assert len(found) >= 3
    assert set(found.values()) == {None}
    [phase] = [phase for phase in outcome.phases if phase.name == "score"]
    assert phase.cells == len(pair.query) * len(pair.target)
    assert 0 < phase.left_out < phase.cells


@pytest.mark.parametrize("mode", ["extend", "semiglobal"])
@pytest.mark.parametrize("low", [-40, -60, -80, -100])
def test_a_tile_below_a_right_guess_does_not_depend_on_what_a_wrong_one_left_out(mode, low, monkeypatch):
    """The first guess is so low that all tiles below it are left out, those above the second one included."""
    letters = "".join("ACGT"[code] for code in np.random.default_rng(1).integers(0, 4, 28))
    pair = Pair(letters, letters, PLAIN, MODES[mode])
    cells = [(0, 0, low), (1, 1, 5 + low), *((k, k, 5 * k) for k in range(8, 28))]
    monkeypatch.setattr(slabs, "_MAX_SLABS", 4)
    for cut in (7, 8, 9):
        guess_from(monkeypatch, cells, 140 - 5 * cut, 1)
        end = run(pair, Geometry((7, 10), chunk=7, leaf=12), ReferenceBackend()).end
        assert (end.value, end.i, end.j) == (140, 28, 28)


def test_tiles_below_guesses_are_not_stored_before_these_are_checked(monkeypatch, tmp_path):
    """A run that is stopped leaves neither tiles nor temporary files; one that goes on finds the same."""

    def stop(*_):
        raise KeyboardInterrupt

    pair = related()
    truth = pair.truth()
    guess_from(monkeypatch, best_path_of(pair, truth), int(truth.score), 20)
    with mock.patch.object(score, "difference", stop), pytest.raises(KeyboardInterrupt):
        run(pair, SMALL, CPU, store=tmp_path)
    assert [*(tmp_path / "tiles").iterdir()] == []
    outcome = run(pair, SMALL, CPU, store=tmp_path)
    assert BestCell(outcome.end.value, outcome.end.i, outcome.end.j) == truth
    assert found_path(outcome) == walked(pair, truth.i, truth.j)


def test_tiles_below_guesses_take_only_the_memory_that_is_there(monkeypatch, tmp_path):
    pair = related()
    truth = pair.truth()
    guess_from(monkeypatch, best_path_of(pair, truth), int(truth.score), 20)
    with (
        mock.patch.object(pipeline, "max_kept_bytes", return_value=100),
        pytest.raises(MemoryTooSmall, match=r"give more \(--mem\), or resume the run"),
    ):
        run(pair, SMALL, CPU, store=tmp_path)
    assert [*(tmp_path / "tiles").iterdir()] == []
    with mock.patch.object(pipeline, "max_kept_bytes", return_value=100):
        outcome = pipeline.resume(tmp_path, using(CPU))
    assert found_path(outcome) == walked(pair, truth.i, truth.j)


def test_a_path_that_begins_below_a_guess(monkeypatch):
    """In global mode it may begin with a long gap, along the left edge."""
    pair = Pair("AATTTTTTTTTTAAAAAAAA", "AAAAAA", Scoring(5, -4, 10, Decimal("0.5")), MODES["global"])
    cells = [(0, 0, -10), (17, 3, 66), (18, 4, 76), (19, 5, 26), (19, 5, 86)]
    monkeypatch.setattr(slabs, "rows_to_guess", lambda *_: (6, 12))
    monkeypatch.setattr(guessed_lines, "_MARGIN", 1)
    guess_from(monkeypatch, cells, 26, 0)
    outcome = run(pair, Geometry((2, 21), chunk=8, leaf=25, group=2000), ReferenceBackend())
    assert found_path(outcome) == walked(pair, 20, 6)


losses = st.lists(st.integers(0, 3), min_size=40, max_size=40)


@given(losses, losses, st.integers(0, 4), st.integers(0, 60), st.integers(0, 20), st.integers(0, 24))
def test_half_the_width_of_a_band(query_losses, target_losses, beta, slack, margin, last):
    """The same from the definition, for an alignment on a diagonal that gains 1 a letter."""
    gain, other = (np.cumsum([0, *of_one])[::-1].astype(np.int32) for of_one in (query_losses, target_losses))
    row, cells = 25, [(i, i + 2, i) for i in range(0, last + 1, 2)]
    bound = row + int(min(gain[row], other[row + 2])) - slack
    pruning = Pruning(bound, SideGains.of(gain), SideGains.of(other))

    def reaches(value, column):
        return value + min(gain[row], other[column]) >= pruning.bound - margin

    right = [d for d in range(39 - row) if reaches(row - beta * d, row + 2 + d)]
    below = [row - i for i, column, value in cells if reaches(value - beta * (row - i), column)]
    half_width = guessed_lines._half_width(
        pruning, np.array(cells, np.int64), row, margin, Scoring(1, -4, 6, beta)
    )
    assert half_width == max([0, *right, *below])


@pytest.mark.parametrize(
    ("query_slack", "target_slack", "distance"),
    [(20, 20, 10), (320, 20, 31), (20, 320, 31), (320, 320, 116), (-9, -9, 0)],
)
def test_a_guess_reaches_as_far_as_paths_of_interest(query_slack, target_slack, distance, monkeypatch):
    """The alignment is the diagonal. A letter off it costs one sequence 3, the other 1. The margin is 10."""
    monkeypatch.setattr(guessed_lines, "_LONGEST_REPEAT", 0)
    monkeypatch.setattr(guessed_lines, "_MARGIN", 200)
    side, row = 1000, 500
    letters = np.zeros(side, np.uint8)
    problem = Problem.of_codes(letters, letters, Scoring(2, -4, 3, 1), MODES["global"])
    to_end = np.arange(2 * side, -1, -2, dtype=np.int32)
    pruning = Pruning(2 * side, *(SideGains.of(to_end + slack) for slack in (query_slack, target_slack)))
    milestones = np.array([(k, k, 2 * k) for k in range(side)], np.int64)
    line = guessed_line(replace(problem, pruning=pruning), milestones, row, ReferenceBackend())
    assert (line.first, len(line.line)) == (row - distance, 2 * distance)


# --- edges


def test_a_shifted_edge_is_its_edge_but_for_the_constant_and_the_floor():
    edge = line_of([10, 0, 2, 30], [NEG_INF, -5, NEG_INF, 24])
    shifted = ShiftedEdge(edge, -4, 0)
    assert shifted.h.tolist() == [6, 0, 0, 26]
    assert shifted.gap.tolist() == [NEG_INF, -5, NEG_INF, 20]
    assert shifted.h_at([3, 0]).tolist() == [26, 6]
    assert shifted.part(2, 3).h.tolist() == [0, 26]
    assert [part.tolist() for part in shifted.stretches()] == [[0], [26]]
    assert ShiftedEdge(line_of([NEG_INF], [NEG_INF]), -4, NEG_INF).h.tolist() == [NEG_INF]


def test_around_a_guessed_line_cells_are_left_out():
    line = GuessedLine(9, 3, line_of([7, 8], [NEG_INF, 6]), -33, (0, -5))
    assert line.part(0, 5).h.tolist() == [-33, 0, 0, 7, 8, 0]
    assert line.part(0, 5).gap.tolist() == [NEG_INF, -5, -5, NEG_INF, 6, -5]
    assert line.part(4, 5).h.tolist() == [8, 0]
    assert line.part(5, 9).h.tolist() == [0, 0, 0, 0, 0]
    assert line.part(0, 2).h.tolist() == [-33, 0, 0]


def test_limits_beyond_32_bits():
    """The value that differs is of interest, as more can be gained from its cell than 31 bits hold."""
    gains = SideGains.of(np.array([2 * 10**9, 2 * 10**9, 10], np.int32))
    line = GuessedLine(0, 0, line_of([0, 5, 7], [NEG_INF] * 3), 0, (NEG_INF, NEG_INF))
    true = [line_of([0, 1, 7], [NEG_INF] * 3)]
    assert difference(line, true, (0, 2), Pruning(-(10**9), gains, gains), 3) is None


# --- the check of one line, whose cells 10..14 of 0..20 were guessed; all gains are 0, and alpha is 3

BOUND, FIRST = 100, 10
PRUNING = Pruning(BOUND, *(SideGains.of(np.zeros(length + 1, np.int32)) for length in (1, 20)))


GUESS = GuessedLine(0, FIRST, line_of([50, 104, 109, 60, 40], [NEG_INF, 101, 60, 55, 30]), 0, (0, -5))


def true_line(changes=(), gap_changes=()):
    """What makes the guess right, 4 too high, in two pieces: columns 0 to 8 and 8 to 20."""
    h, gap = np.zeros(21, np.int32), np.full(21, -5, np.int32)
    h[FIRST : FIRST + 5], gap[FIRST : FIRST + 5] = [46, 100, 105, 56, 36], [-5, 97, 56, 51, 26]
    for values, changed in ((h, changes), (gap, gap_changes)):
        for column, value in dict(changed).items():
            values[column] = value
    whole = Boundary(h, gap)
    return [whole.part(0, 8), whole.part(8, 20)]


def checked(*changes):
    return difference(GUESS, true_line(*changes), (0, 8, 20), PRUNING, gap_open=3)


def test_the_constant_is_found():
    assert checked() == -4


@pytest.mark.parametrize("column", [*range(1, 11), *range(13, 21)])
def test_another_value_matters_only_if_it_is_of_interest(column):
    assert checked({column: 96}) == -4
    assert checked({column: 97}) is None


def test_every_value_of_interest_matters():
    assert checked({11: 99}) is None
    assert checked({12: 104}) is None
    assert checked({}, {11: 96}) is None
    assert checked({}, {12: 96}) == -4
    assert checked({}, {12: 97}) is None


def test_a_constant_above_0_is_refused():
    assert difference(GUESS, true_line({11: 105, 12: 110}, {11: 102}), (0, 8, 20), PRUNING, 3) is None


def test_a_line_without_values_of_interest_is_refused():
    assert difference(GUESS, true_line({11: 90, 12: 95}, {11: 87}), (0, 8, 20), PRUNING, 3) is None
