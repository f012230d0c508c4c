"""Phases 2 and 3 on lattices of all kinds: entries into chunks, gaps along and across lines, and ties."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from crossings import CROSSINGS, entries, grids, planned, regular, run_on
from hypothesis import given
from hypothesis import strategies as st
from oracles import parasail_score
from runs import CPU, Geometry, Pair, SmallTiles, problems, score_columns, small_geometry

from longalign.model.boundary import State
from longalign.model.geometry import smallest_budget
from longalign.model.scoring import Scoring
from longalign.run.planner import plan
from longalign.run.request import Request, Resources
from longalign.testing.inputs import SCORINGS, any_scorings
from longalign.testing.reference import ReferenceBackend
from longalign.testing.traces import FREE_GAPS, TIES

BACKENDS = {"reference": ReferenceBackend(), "cpu": CPU}
backends = pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())


# --- any lattice, any budget


@given(st.data())
def test_any_problem_on_any_lattice(data):
    pair = data.draw(problems(scorings=any_scorings))
    outcome, _ = run_on(data.draw(grids(pair)), pair, CPU, data.draw(st.integers(1, 100)))
    pair.check(outcome)


@given(
    problems(scorings=any_scorings, shortest=0),
    st.tuples(st.integers(3, 30), st.integers(3, 30)),
    st.floats(1, 20),
    st.sampled_from(["lazy", "eager"]),
)
def test_any_problem_in_any_budget(pair, tile, times, start_states):
    lengths = len(pair.query), len(pair.target)
    cell_bytes = 2.5 * pair.scoring.difference_bytes + (18 if start_states == "eager" else 0)
    budget = int(smallest_budget(*lengths, tile, bytes_per_cell=cell_bytes) * times)
    using = Resources([SmallTiles(tile, CPU)], 1 << 40, budget)
    with small_geometry(chunk=1):
        pair.check(pair.run(using, start_states=start_states))


# --- every kind of entry


@backends
@pytest.mark.parametrize("start_states", ["lazy", "eager"])
@pytest.mark.parametrize("leaf", [1, 20, 10**4])
@pytest.mark.parametrize("crossing", CROSSINGS, ids=str)
def test_a_path_enters_where_it_should(crossing, leaf, start_states, backend):
    grid = regular(crossing.pair, 8, 16)
    outcome, path = run_on(grid, crossing.pair, backend, leaf, start_states)
    crossing.pair.check(outcome)
    assert (crossing.place, crossing.state) in entries(grid, path)


def test_no_kind_of_entry_is_left_out():
    """A gap crosses a line in its gap state: E crosses a row, and F crosses a column."""
    places = {(crossing.place, crossing.state) for crossing in CROSSINGS}
    corners = [("upper right corner", State.E), ("lower left corner", State.F)]
    in_h = ["upper left corner", "upper right corner", "lower left corner", "top", "left", "inside"]
    assert places == {("top", State.E), ("left", State.F), *corners, *((place, State.H) for place in in_h)}


# --- long gaps


@given(planned())
def test_gaps_along_lines_and_across_tiles(made):
    outcome, _ = run_on(made.grid, made.pair, CPU)
    assert outcome.end.value == score_columns(outcome.alignment) == made.score, made
    assert outcome.alignment.cigar == made.cigar, made


FLANK, GAP = 20_000, 300_000


@cache
def flanks_and_gap() -> tuple[str, str]:
    """Letters around a gap, and those in it. They differ at the ends of the gap, so it cannot be shifted."""
    rng = np.random.default_rng(0)
    flanks, gap = ("".join(rng.choice(list("ACGT"), length)) for length in (2 * FLANK, GAP))
    first = "A" if flanks[FLANK] != "A" else "C"
    last = "A" if flanks[FLANK - 1] != "A" else "C"
    return flanks, first + gap[1:-1] + last


@pytest.mark.slow
@pytest.mark.parametrize("op", ["D", "I"])
@pytest.mark.parametrize("on_a_line", [True, False])
@pytest.mark.parametrize(
    ("mode", "scoring"),
    [("global", Scoring()), ("local", Scoring(gap_open=50, gap_extend=0))],
    ids=["global", "local, cheap gaps"],
)
def test_a_gap_of_300_000_letters_across_tiles(mode, scoring, on_a_line, op):
    """A gap along a lattice line or between two. All letters around it match, so other paths score less."""
    tile, lengths = (15_000, 70_000), (2 * FLANK, 2 * FLANK + GAP)
    if op == "I":
        tile, lengths = tile[::-1], lengths[::-1]
    using = Resources([SmallTiles(tile, CPU, leaf=1 << 20)], 1 << 40, 40 << 20)
    grid = plan(Request(*lengths, "align", None), using)
    cuts = grid.row_cuts if op == "D" else grid.col_cuts
    line = min(cuts, key=lambda cut: abs(cut - FLANK))
    assert 0 < line < 2 * FLANK
    assert sorted(grid.shape) == [3, 5]
    at = line if on_a_line else line + 777
    flanks, gap = flanks_and_gap()
    flanks = flanks[FLANK - at :] + flanks[: FLANK - at]
    longer = flanks[:at] + gap + flanks[at:]
    pair = Pair(*((flanks, longer) if op == "D" else (longer, flanks)), scoring, mode)
    outcome = pair.run(using)
    assert outcome.alignment.cigar == f"{at}={GAP}{op}{2 * FLANK - at}="
    worth = 2 * FLANK * scoring.match - scoring.gap_open - GAP * scoring.gap_extend
    assert outcome.end.value == score_columns(outcome.alignment) == worth


# --- ties


@pytest.mark.parametrize("mode", ["local", "global"])
@pytest.mark.parametrize("scoring", [*SCORINGS, TIES, FREE_GAPS], ids=str)
@pytest.mark.parametrize(
    ("unit", "geometry"),
    [
        ("A", Geometry((16, 16), 8, 30)),
        ("AC", Geometry((9, 11), 3, 4)),
        ("AAC", Geometry((16, 16), 8, 30)),
        ("ACGT", Geometry((37, 45), 1, 1)),
    ],
    ids=str,
)
def test_tandem_repeats_with_ties(unit, geometry, scoring, mode):
    """Of many equally good paths it takes one, which is worth what parasail says."""
    query, target = np.resize(list(unit), 37), np.resize(list(unit[::-1]), 45)
    pair = Pair("".join(query), "".join(target), scoring, mode)
    codes = (np.array(["ACGT".index(letter) for letter in letters], np.uint8) for letters in (query, target))
    want = parasail_score(*codes, scoring, pair.mode)
    outcome = geometry.run(pair, CPU)
    assert outcome.end.value == want
    pair.check(outcome)
