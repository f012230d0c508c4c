"""Whether a rectangle is needed, compared with a test of each cell of its edges."""

from __future__ import annotations

from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from longalign.model.boundary import Boundary, LinearEdge
from longalign.model.pruning import Pruning, is_needed
from longalign.store import codec
from longalign.testing.inputs import generators

LENGTHS = st.integers(1, 6)

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
def rectangles(draw):
    """The two edges of a rectangle of at least one cell, the gains, and the cost of opening a gap."""
    rows, cols, rng = draw(LENGTHS), draw(LENGTHS), draw(generators())
    gains = [np.sort(rng.integers(0, 20, length + 1))[::-1].astype(np.int32) for length in (rows, cols)]
    top, left = (draw(st.one_of(stored_edges(length), linear_edges(length))) for length in (cols, rows))
    return top, left, *gains, draw(st.integers(0, 3))


def highest(top, left, query_gain, target_gain, gap_open):
    """The highest bound that a path may reach which enters through one of the edges."""
    across = top.h.astype(int) + np.minimum(target_gain, query_gain[0])
    down = left.h.astype(int) + np.minimum(query_gain, target_gain[0])
    return int(max(across.max(), down.max())) + gap_open


@given(rectangles())
def test_a_rectangle_is_needed_if_a_cell_of_its_edges_reaches_the_bound(rectangle):
    top, left, query_gain, target_gain, gap_open = rectangle
    best = highest(*rectangle)
    for bound in (best - 1, best):
        assert Pruning(bound, query_gain, target_gain).needs(top, left, gap_open)
    if isinstance(top, Boundary) and isinstance(left, Boundary):
        assert not Pruning(best + 1, query_gain, target_gain).needs(top, left, gap_open)


@given(rectangles(), st.integers(1, 4), generators())
def test_packed_edges_need_not_be_unpacked_as_a_whole(rectangle, stride, rng):
    """Edges of a few short stretches; they begin behind an anchor, and some of them have cliffs."""
    top, left, query_gain, target_gain, gap_open = rectangle
    with mock.patch.object(codec, "ANCHOR_STRIDE", stride):
        packed = [packed_edge(edge, rng) for edge in (top, left)]
        best = highest(*packed, query_gain, target_gain, gap_open)
        assert Pruning(best, query_gain, target_gain).needs(*packed, gap_open)
        assert not Pruning(best + 1, query_gain, target_gain).needs(*packed, gap_open)


def packed_edge(edge, rng):
    """The same edge, maybe with cliffs, as a part of a longer packed line."""
    before = rng.integers(0, 6)
    h = np.concatenate([rng.integers(-20, 20, before), edge.h]).astype(np.int32)
    if rng.integers(2):
        h[rng.random(len(h)) < 0.3] = CLIFF
    line = codec.pack([1], [Boundary(h, h - 1)])
    return line.part(1, int(before), len(h) - 1)


@given(rectangles())
def test_a_block_is_needed_wherever_a_tile_is(rectangle):
    top, left, query_gain, target_gain, gap_open = rectangle
    value = int(max(edge.h.max() for edge in (top, left)))
    assert is_needed(value, int(query_gain[0]), int(target_gain[0]), gap_open, highest(*rectangle))


def test_a_tie_with_the_bound_is_needed():
    assert is_needed(5, 3, 4, 2, 10)
    assert not is_needed(5, 3, 4, 2, 11)
