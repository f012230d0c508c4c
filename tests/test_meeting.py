"""Where a forward and a backward sweep meet on a line, against all its cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.boundary import Boundary, State
from longalign.phases import meeting
from longalign.phases.meeting import meet, reversed_line
from longalign.problem import reachable
from longalign.recurrence import join
from longalign.scoring import NEG_INF

ALPHA = 3

#: Minus infinity, as it is and lowered; values whose sums are equal modulo 2^32 to others' or to its own.
VALUES = [*range(-4, 5), NEG_INF, NEG_INF - ALPHA, 1 << 30, (1 << 30) + 1, -(1 << 30), -(1 << 30) - 1]


@st.composite
def lines(draw, length):
    values = st.lists(st.sampled_from(VALUES), min_size=length, max_size=length)
    return Boundary(*(np.array(draw(values), np.int64).astype(np.int32) for _ in range(2)))


def all_meetings(forward, backward, gap, total):
    """Every cell and state at which they meet, the one to take first."""
    found = []
    for state, ahead, behind in ((State.H, forward.h, backward.h), (gap, forward.gap, backward.gap)):
        for k, (before, after) in enumerate(zip(ahead.tolist(), behind.tolist(), strict=True)):
            if reachable(before) and reachable(after) and join(before, after, state, ALPHA) == total:
                found.append((k, state, before))
    return sorted(found, key=lambda item: (-item[0], item[1]))


@given(
    st.integers(1, 12).flatmap(lambda length: st.tuples(lines(length), lines(length))),
    st.sampled_from([State.E, State.F]),
    st.one_of(
        st.integers(-9, 9), st.sampled_from([-(1 << 31), 1 << 31, (1 << 31) + 1, 2 * NEG_INF + (1 << 32)])
    ),
    st.integers(1, 13),
)
def test_they_meet_at_the_last_cell_where_they_can_and_there_in_h_first(both, gap, total, block):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meeting, "_BLOCK", block)
        found = meet(*both, gap, total, ALPHA)
    assert found == next(iter(all_meetings(*both, gap, total)), None)


def test_a_line_of_a_backward_sweep_is_turned_round_and_its_gap_state_at_the_corner_equals_h():
    line = Boundary(np.array([7, 1, 2], np.int32), np.array([NEG_INF, 3, 4], np.int32))
    turned = reversed_line(line)
    assert turned.h.tolist() == [2, 1, 7]
    assert turned.gap.tolist() == [4, 3, 7]
