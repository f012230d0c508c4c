"""Boundaries: cutting and joining them, the order among best cells, and edges at an entry."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.backends.base import SweepJob
from longalign.model.boundary import (
    BestCell,
    Boundary,
    LinearEdge,
    State,
    best_of,
    entry_edges,
    local_edges,
)
from longalign.model.scoring import NEG_INF, Scoring
from longalign.testing.inputs import (
    LOWEST,
    SCORINGS,
    join_parts,
)

SCORING = Scoring(match=1, mismatch=-3, gap_open=3, gap_extend=2)


@st.composite
def boundaries(draw):
    length = draw(st.integers(1, 30))
    values = st.lists(st.integers(-(2**31), 2**31 - 1), min_size=length + 1, max_size=length + 1)
    h, gap = (np.array(draw(values), np.int32) for _ in range(2))
    gap[0] = NEG_INF
    return Boundary(h, gap)


@given(boundaries(), st.data())
def test_parts_joined_are_the_whole(boundary, data):
    cuts = data.draw(st.sets(st.integers(0, len(boundary)))) | {0, len(boundary)}
    parts = [boundary.part(*span) for span in pairwise(sorted(cuts))]
    assert sum(len(part) for part in parts) == len(boundary)
    whole = join_parts(parts)
    np.testing.assert_array_equal(whole.h, boundary.h)
    np.testing.assert_array_equal(whole.gap, boundary.gap)


def test_a_part_has_its_own_corner_and_leaves_the_whole_alone():
    whole = Boundary(np.arange(5, dtype=np.int32), np.array([NEG_INF, -1, -2, -3, -4], np.int32))
    part = whole.part(2, 4)
    assert part.h.tolist() == [2, 3, 4]
    assert part.gap.tolist() == [NEG_INF, -3, -4]
    assert whole.gap.tolist() == [NEG_INF, -1, -2, -3, -4]


@given(
    st.builds(LinearEdge, st.integers(1, 30), *[st.integers(-(2**30), 2**30)] * 2, st.integers(0, 99)),
    st.data(),
)
def test_an_even_edge_is_like_one_of_its_values(edge, data):
    values = [edge.corner, *(edge.first - k * edge.step for k in range(edge.length))]
    plain = Boundary(np.array(values, np.int32), np.full(len(values), NEG_INF, np.int32))
    stop = data.draw(st.integers(1, len(edge)))
    start = data.draw(st.integers(0, stop - 1))
    places = data.draw(st.lists(st.integers(0, len(edge))))
    for got, want in ((edge, plain), (edge.part(start, stop), plain.part(start, stop))):
        assert len(got) == len(want)
        np.testing.assert_array_equal(got.h, want.h)
        np.testing.assert_array_equal(got.gap, want.gap)
        assert got.h.dtype == got.gap.dtype == np.int32
    assert edge.h_at(places).tolist() == plain.h_at(places).tolist() == [values[place] for place in places]


def test_the_length_counts_letters():
    top, left = local_edges(rows=3, cols=7)
    assert (len(top), len(left)) == (7, 3)


@pytest.mark.parametrize(("rows", "cols"), [(3, 4), (4, 5), (0, 4)])
def test_a_rectangle_has_edges_of_its_own_size(rows, cols):
    query, target = np.zeros(3, np.uint8), np.zeros(5, np.uint8)
    SweepJob(query, target, Scoring(), *local_edges(3, 5), True)
    with pytest.raises(ValueError, match=rf"of \(3, 5\) letters has edges of \({rows}, {cols}\)"):
        SweepJob(query, target, Scoring(), *local_edges(rows, cols), True)


def test_best_cells_in_order():
    in_order = [
        BestCell(),
        BestCell(5, 9, 9),
        BestCell(6, 9, 9),  # a better score before a nearer cell
        BestCell(6, 8, 9),  # a lower anti-diagonal
        BestCell(6, 9, 7),  # a still lower anti-diagonal, in a lower row
        BestCell(6, 8, 8),  # the same anti-diagonal, further right
        BestCell(6, 7, 9),
    ]
    for lower, higher in pairwise(in_order):
        assert best_of([lower, higher]) == best_of([higher, lower]) == higher


def test_the_best_of_no_cells_is_none():
    assert best_of([]) == BestCell() == BestCell(0, 0, 0)


def test_shifting_moves_a_cell_but_not_the_lack_of_one():
    assert BestCell(4, 2, 3).shifted(10, 100) == BestCell(4, 12, 103)
    assert BestCell().shifted(10, 100) == BestCell()


@given(
    st.lists(st.builds(BestCell, st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))), st.integers(0, 9)
)
def test_the_best_cell_does_not_depend_on_where_indices_start(cells, shift):
    moved = best_of([cell.shifted(shift, 2 * shift) for cell in cells])
    assert moved == best_of(cells).shifted(shift, 2 * shift)


INF = NEG_INF


@pytest.mark.parametrize(
    ("state", "top", "left"),
    [
        (State.H, [7, 2, 0, -2], [7, 2, 0]),  # 7 - 3 - 2k
        (State.E, [INF, INF, INF, INF], [INF, 5, 3]),  # 7 - 2k, down only
        (State.F, [INF, 5, 3, 1], [INF, INF, INF]),  # 7 - 2k, right only
    ],
)
def test_entry_edges_worked_out_by_hand(state, top, left):
    edges = entry_edges(state, rows=2, cols=3, scoring=SCORING, value=7)
    assert [edge.h.tolist() for edge in edges] == [top, left]
    assert [edge.gap.tolist() for edge in edges] == [[INF] * 4, [INF] * 3]


@given(
    st.sampled_from(State),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(SCORINGS),
    st.integers(-(2**30), 2**30),
)
def test_the_value_on_entry_shifts_all_that_is_finite(state, rows, cols, scoring, value):
    shifted = entry_edges(state, rows, cols, scoring, value)
    for edge, plain in zip(shifted, entry_edges(state, rows, cols, scoring), strict=True):
        finite = plain.h >= LOWEST
        np.testing.assert_array_equal(edge.h[finite], plain.h[finite] + value)
        assert (edge.h[~finite] == NEG_INF).all()
        assert edge.h.dtype == edge.gap.dtype == np.int32


def test_states_bear_the_numbers_of_the_recurrence():
    assert [(state.name, int(state)) for state in State] == [("H", 0), ("E", 1), ("F", 2)]
