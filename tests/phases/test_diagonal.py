"""Stretches of a path that letter pairs alone account for, compared with a walk through the whole matrix."""

from __future__ import annotations

import re

from hypothesis import assume, given
from hypothesis import strategies as st
from runs import pair_score, problems, swept_lattice, tying_scorings, walked

from longalign.model.boundary import State, Waypoint
from longalign.phases.diagonal import is_straight, straight_back
from longalign.phases.problem import Segment
from longalign.testing.reference import matrices


def pairs_at_the_end(cigar):
    """The letter pairs after the last gap of a path."""
    return sum(int(length) for length in re.findall(r"(\d+)[=X]", re.split(r"\d+[ID]", cigar)[-1]))


@st.composite
def cells(draw):
    """A pair, a lattice of its matrix, a cell of it in H that is no start, and H of all cells."""
    pair = draw(problems(scorings=tying_scorings))
    lattice = swept_lattice(pair, draw(st.integers(1, 20)))
    i, j = draw(st.integers(1, len(pair.query))), draw(st.integers(1, len(pair.target)))
    h = matrices(pair.whole())[0]
    point = Waypoint(i, j, State.H, h[i][j])
    assume(not lattice.problem.is_start(point))
    return pair, lattice, point, h


@given(cells())
def test_a_path_comes_straight_down_a_diagonal_if_and_only_if_it_does(found):
    pair, lattice, point, h = found
    begin_i, begin_j, cigar = walked(pair, point.i, point.j)
    i0, j0 = lattice.corner(point.i, point.j)
    straight = min(pairs_at_the_end(cigar), point.i - i0, point.j - j0)
    i, j = point.i - straight, point.j - straight
    want = None
    if straight and (i in (0, i0) or j in (0, j0) or (i, j) == (begin_i, begin_j)):
        want = Waypoint(i, j, State.H, h[i][j])
    got = straight_back(lattice, point)
    gain = point.value - (want.value if want else 0)
    assert got == want or (got is None and gain <= 0)


@given(cells(), st.integers(1, 30), st.integers(0, 2))
def test_a_segment_is_straight_if_pairs_account_for_its_values(found, length, more):
    pair, lattice, point, h = found
    length = min(length, point.i, point.j)
    i, j = point.i - length, point.j - length
    entry = Waypoint(i, j, State.H, h[i][j])
    gain = sum(pair_score(pair.query[i + k], pair.target[j + k], pair.scoring) for k in range(length))
    expected = entry.value + gain == point.value
    assert is_straight(lattice.problem, Segment(entry, point)) == expected
    lower = Waypoint(point.i, point.j, State.H, entry.value + gain + more)
    assert is_straight(lattice.problem, Segment(entry, lower)) == (more == 0)
    for states in ((State.H, State.E), (State.F, State.H)):
        ends = (
            Waypoint(at.i, at.j, state, at.value) for at, state in zip((entry, point), states, strict=True)
        )
        assert not is_straight(lattice.problem, Segment(*ends))
