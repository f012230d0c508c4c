"""Whether a rectangle is needed, compared with a test of each cell of its edges."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longalign.model.boundary import Boundary, LinearEdge
from longalign.model.pruning import (
    SPACING,
    Pruning,
    SideGains,
    any_reaches,
    gain_within,
    is_needed,
    limits_at,
    table_length,
)
from longalign.phases.packing import pack
from longalign.store import codec
from longalign.testing.inputs import generators

LENGTHS = st.one_of(st.integers(1, 6), st.integers(7, 20))

#: Far below all other values, as where cells were left out.
CLIFF = -1_000_000


@st.composite
def stored_edges(draw, length):
    """H is random, and no gap state is above it."""
    rng = draw(generators())
    h = rng.integers(-20, 20, length + 1)
    return Boundary(h.astype(np.int32), (h - rng.integers(0, 5, length + 1)).astype(np.int32))


def linear_edges(length):
    values = st.integers(-20, 20), st.integers(-20, 20), st.integers(0, 3)
    return st.builds(LinearEdge, st.just(length), *values)


@st.composite
def side_gains(draw, length, slope):
    rng = draw(generators())

    def falling(count, low, high):
        return np.sort(rng.integers(low, high, count))[::-1].astype(np.int32)

    kept = length // SPACING + 1
    return SideGains(falling(length + 1, 0, 20), falling(kept, -20, 20), falling(kept, -40, 20), slope)


@st.composite
def rectangles(draw):
    """The two edges of a rectangle of at least one cell, the gains, and the cost of opening a gap."""
    rows, cols = draw(LENGTHS), draw(LENGTHS)
    slope = draw(st.integers(0, 3))
    gains = [draw(side_gains(length, slope)) for length in (rows, cols)]
    top, left = (draw(st.one_of(stored_edges(length), linear_edges(length))) for length in (cols, rows))
    return top, left, *gains, draw(st.integers(0, 3))


def gain(query, target, i, j):
    """The same as `Pruning.gain` for one boundary, from the definition."""

    def of_side(side, here, other):
        sample = here // SPACING
        return min(side.most[here], max(side.floor[sample], side.line[sample] + side.slope * other))

    return int(min(of_side(query, i, j), of_side(target, j, i)))


def highest(top, left, query, target, gap_open, i=0, j=0):
    """The highest bound that a path may reach which enters through one of the edges, which meet in (i, j)."""
    across = max(int(h) + gain(query, target, i, j + k) for k, h in enumerate(top.h))
    down = max(int(h) + gain(query, target, i + k, j) for k, h in enumerate(left.h))
    return max(across, down) + gap_open


@given(rectangles())
def test_a_rectangle_is_needed_if_a_cell_of_its_edges_reaches_the_bound(rectangle):
    top, left, query, target, gap_open = rectangle
    best = highest(*rectangle)
    for bound in (best - 1, best):
        assert Pruning(bound, query, target).needs(top, left, gap_open)
    if isinstance(top, Boundary) and isinstance(left, Boundary):
        assert not Pruning(best + 1, query, target).needs(top, left, gap_open)


@given(rectangles(), st.integers(0, 20), st.integers(0, 20), st.integers(0, 3), st.data())
def test_a_part_is_tested_with_the_gains_at_its_place(rectangle, i, j, slope, data):
    top, left, *_, gap_open = rectangle
    query, target = (data.draw(side_gains(length, slope)) for length in (len(left) + i, len(top) + j))
    best = highest(top, left, query, target, gap_open, i, j)
    assert Pruning(best, query, target).needs(top, left, gap_open, i, j)
    if isinstance(top, Boundary) and isinstance(left, Boundary):
        assert not Pruning(best + 1, query, target).needs(top, left, gap_open, i, j)


@given(st.data(), st.integers(0, 3), generators())
def test_gains_of_a_range_are_no_less_than_those_of_its_boundaries(data, slope, rng):
    rows, cols = data.draw(LENGTHS), data.draw(LENGTHS)
    query, target = (data.draw(side_gains(length, slope)) for length in (rows, cols))
    i0, i1, j0, j1 = (*np.sort(rng.integers(0, rows + 1, 2)), *np.sort(rng.integers(0, cols + 1, 2)))
    whole, part = Pruning(0, query, target), Pruning(0, query, target).within(i0, i1, j0, j1)
    most = whole.gain(i0, i1, j0, j1)
    for i in range(i0, i1 + 1):
        for j in range(j0, j1 + 1):
            assert gain(query, target, i, j) == whole.gain(i, i, j, j) <= most
            assert gain(query, target, i, j) <= gain(part.query, part.target, i - i0, j - j0)


@given(st.data(), st.integers(0, 3))
def test_a_part_that_begins_at_a_kept_number_loses_nothing(data, slope):
    query, target = (data.draw(side_gains(3 * SPACING, slope)) for _ in range(2))
    part = Pruning(0, query, target).within(SPACING, 3 * SPACING, 2 * SPACING, 3 * SPACING)
    for i in range(2 * SPACING + 1):
        for j in range(SPACING + 1):
            assert part.gain(i, i, j, j) == gain(query, target, i + SPACING, j + 2 * SPACING)


@given(LENGTHS, LENGTHS, st.integers(0, 3), st.data())
def test_compiled_code_looks_gains_up_in_a_table(length, other, slope, data):
    side = data.draw(side_gains(length, slope))
    table = np.concatenate([np.zeros(5, np.int32), *side.arrays])
    assert len(table) == 5 + table_length(length)
    for here in range(length + 1):
        for there in range(other + 1):
            assert gain_within(limits_at(table, 5, length, here), side.slope, there) == side.at(here, there)


def test_a_line_that_leaves_32_bits_is_kept_at_their_end():
    most = np.full(9, 2**31 - 1, np.int32)
    ends = np.array([2**31 - 1, -(2**31)], np.int32)
    side = SideGains(most, ends, ends, 2)
    assert side.within(0, 8, 10**9).line.tolist() == [2**31 - 1, 2 * 10**9 - 2**31]
    assert side.within(0, 8, 10**9).at(0, 0) == 2**31 - 1


@given(rectangles(), st.integers(1, 4), generators())
def test_packed_edges_need_not_be_unpacked_as_a_whole(rectangle, stride, rng):
    """Edges of a few short stretches; they begin behind an anchor, and some of them have cliffs."""
    top, left, query, target, gap_open = rectangle
    with mock.patch.object(codec, "ANCHOR_STRIDE", stride):
        packed = [packed_edge(edge, rng) for edge in (top, left)]
        best = highest(*packed, query, target, gap_open)
        assert Pruning(best, query, target).needs(*packed, gap_open)
        assert not Pruning(best + 1, query, target).needs(*packed, gap_open)


def test_an_edge_is_unpacked_first_where_its_bound_is_highest_and_nowhere_twice(monkeypatch):
    h = (1_000_000 - 2 * np.abs(np.arange(100_001) - 50_000)).astype(np.int32)
    edge = pack([1], [Boundary(h, h - 1)]).part(1, 0, 100_000)
    unpacked = []
    cells = codec.PackedEdge.cells
    monkeypatch.setattr(
        codec.PackedEdge, "cells", lambda edge, *span: unpacked.append(span) or cells(edge, *span)
    )
    for least, reaches in ((960_000, True), (1_000_000, True), (1_000_001, False)):
        unpacked.clear()
        assert any_reaches(edge, lambda first, last: 0 * first, least) == reaches
        [(start, stop)] = unpacked
        assert start <= 50_000 < stop <= start + codec.ANCHOR_STRIDE


def packed_edge(edge, rng):
    """The same edge, maybe with cliffs, as a part of a longer packed line."""
    before = rng.integers(0, 6)
    h = np.concatenate([rng.integers(-20, 20, before), edge.h]).astype(np.int32)
    if rng.integers(2):
        h[rng.random(len(h)) < 0.3] = CLIFF
    line = pack([1], [Boundary(h, h - 1)])
    return line.part(1, int(before), len(h) - 1)


@given(rectangles())
def test_a_block_is_needed_wherever_a_tile_is(rectangle):
    top, left, query, target, gap_open = rectangle
    value = int(max(edge.h.max() for edge in (top, left)))
    most = min(query.at(0, len(top)), target.at(0, len(left)))
    assert is_needed(value, most, gap_open, highest(*rectangle))


def test_a_tie_with_the_bound_is_needed():
    assert is_needed(5, 3, 2, 10)
    assert not is_needed(5, 3, 2, 11)
