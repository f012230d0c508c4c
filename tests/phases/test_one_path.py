"""Of equally good paths every run takes the same one, however the DP matrix is cut and whatever sweeps it.

The truth is a walk back through the whole DP matrix by `recurrence.direction`, in plain Python.
"""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from crossings import grids, run_on
from hypothesis import given
from hypothesis import strategies as st
from runs import (
    CPU,
    PLAIN_MODES,
    Geometry,
    Pair,
    SmallTiles,
    found_path,
    geometries,
    problems,
    using,
    walked,
)

from longalign.model.scoring import Scoring
from longalign.run import pipeline
from longalign.testing.inputs import SCORINGS, any_scorings
from longalign.testing.reference import ReferenceBackend
from longalign.testing.traces import FREE_GAPS, TIES

BACKENDS = {"reference": ReferenceBackend(), "cpu": CPU}

#: The common subsequence: no letter pair and no gap costs anything.
SUBSEQUENCE = Scoring(match=1, mismatch=0, gap_open=0, gap_extend=0)

#: Every path without mismatches is as good as none.
NOTHING = Scoring(match=0, mismatch=-1, gap_open=0, gap_extend=0)


def tying_scorings(rows: int, cols: int) -> st.SearchStrategy[Scoring]:
    """Scorings of all kinds, half of them with many equally good paths."""
    return st.one_of(
        st.sampled_from([TIES, FREE_GAPS, SUBSEQUENCE, NOTHING, *SCORINGS]), any_scorings(rows, cols)
    )


tying_problems = partial(problems, scorings=tying_scorings, shortest=0)


@pytest.mark.parametrize("backend", BACKENDS.values(), ids=BACKENDS.keys())
@given(tying_problems(), geometries)
def test_the_path_is_that_of_the_whole_matrix_in_any_geometry(backend, pair, geometry):
    outcome = geometry.run(pair, backend)
    assert found_path(outcome) == walked(pair, outcome.end.i, outcome.end.j), pair


@given(st.data())
def test_the_path_is_that_of_the_whole_matrix_on_any_lattice(data):
    pair = data.draw(problems(scorings=tying_scorings))
    start_states = data.draw(st.sampled_from(["lazy", "eager"]))
    outcome, _ = run_on(data.draw(grids(pair)), pair, CPU, data.draw(st.integers(1, 100)), start_states)
    assert found_path(outcome) == walked(pair, outcome.end.i, outcome.end.j), pair


@given(st.lists(tying_problems(longest=25), min_size=2, max_size=5))
def test_the_path_is_that_of_the_whole_matrix_in_a_batch(pairs):
    outcomes = pipeline.run_all([pair.spec() for pair in pairs], using(SmallTiles(inner=CPU, leaf=30)))
    for pair, outcome in zip(pairs, outcomes, strict=True):
        assert found_path(outcome) == walked(pair, outcome.end.i, outcome.end.j), pair


@pytest.mark.parametrize("mode", PLAIN_MODES, ids=str)
@pytest.mark.parametrize("scoring", [*SCORINGS[:4], TIES, FREE_GAPS, SUBSEQUENCE, NOTHING], ids=str)
@pytest.mark.parametrize(
    ("unit", "geometry"),
    [
        ("A", Geometry((16, 16), 8, 30)),
        ("AC", Geometry((37, 45), 1, 1)),
        ("AAC", Geometry((9, 11), 3, 4)),
    ],
    ids=str,
)
def test_repeats(unit, geometry, scoring, mode):
    """Nearly every cell has equally good predecessors, and paths run along the lines of the lattice."""
    query, target = ("".join(np.resize(list(unit), length)) for length in (23, 31))
    pair = Pair(query, target, scoring, mode)
    outcome = geometry.run(pair, CPU)
    assert found_path(outcome) == walked(pair, outcome.end.i, outcome.end.j)
