"""Where a forward and a backward sweep meet on a line, compared with a search of all its cells."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from runs import problems

from longalign.backends.base import SweepJob, no_progress
from longalign.model.boundary import Boundary, State, Waypoint, entry_edges
from longalign.model.mode import GLOBAL
from longalign.model.recurrence import join
from longalign.model.scoring import NEG_INF, UNREACHABLE, Scoring
from longalign.phases import meeting
from longalign.phases.halves import cut_of
from longalign.phases.meeting import backward_sweep, corner_edges, meetings, reversed_line
from longalign.phases.packing import pack
from longalign.phases.problem import Problem, Segment, reachable
from longalign.phases.recompute import cut_points, recompute
from longalign.store import codec
from longalign.testing.reference import ReferenceBackend

ALPHA = 3

#: Minus infinity, also with costs subtracted; values whose sums are large only modulo 2^32, and large sums.
VALUES = [*range(-4, 5), NEG_INF, NEG_INF - ALPHA, 1 << 29, (1 << 29) + 1, -(1 << 30), -(1 << 30) - 1]


@st.composite
def lines(draw, length):
    """Values of any kind, but no gap state above H."""
    values = st.lists(st.sampled_from(VALUES), min_size=length, max_size=length)
    h, gap = (np.array(draw(values), np.int64).astype(np.int32) for _ in range(2))
    return Boundary(h, np.minimum(h, gap))


def most(forward, backward, alpha=ALPHA):
    """The score of the best path across a line, or 0 if there is none."""
    in_h, in_gap = (State.H, forward.h, backward.h), (State.E, forward.gap, backward.gap)
    return max(
        (
            join(before, after, state, alpha)
            for state, ahead, behind in (in_h, in_gap)
            for before, after in zip(ahead.tolist(), behind.tolist(), strict=True)
            if reachable(before) and reachable(after)
        ),
        default=0,
    )


def all_meetings(forward, backward, gap, total, alpha=ALPHA):
    """All cells and states at which the sweeps meet, by a search of every cell."""
    return {
        (k, state)
        for state, ahead, behind in ((State.H, forward.h, backward.h), (gap, forward.gap, backward.gap))
        for k, (before, after) in enumerate(zip(ahead.tolist(), behind.tolist(), strict=True))
        if reachable(before) and reachable(after) and join(before, after, state, alpha) == total
    }


def found_meetings(*arguments):
    """The cells and states that `meetings` finds, each once."""
    found = [(k, state) for state, cells in meetings(*arguments) for k in cells.tolist()]
    assert len({*found}) == len(found)
    return {*found}


@given(
    st.integers(1, 12).flatmap(lambda length: st.tuples(lines(length), lines(length))),
    st.sampled_from([State.E, State.F]),
    st.sampled_from([0, 0, 1, ALPHA, 1 << 29]),
    st.integers(1, 13),
)
def test_they_meet_at_all_cells_where_they_can(both, gap, more, block):
    total = most(*both) + more
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(meeting, "_BLOCK", block)
        found = found_meetings(*both, gap, total, ALPHA)
    assert found == all_meetings(*both, gap, total)


def test_a_line_of_a_backward_sweep_is_turned_round_and_its_gap_state_at_the_corner_equals_h():
    line = Boundary(np.array([7, 1, 2], np.int32), np.array([NEG_INF, 3, 4], np.int32))
    turned = reversed_line(line)
    assert turned.h.tolist() == [2, 1, 7]
    assert turned.gap.tolist() == [4, 3, 7]


@st.composite
def walks(draw, length, step=5):
    """Like `lines`, but neighbouring values differ by little, and only sometimes by much."""
    sizes = st.one_of(st.integers(-step, step), st.integers(-100 * step, 100 * step))
    h = np.cumsum(draw(st.lists(sizes, min_size=length, max_size=length)), dtype=np.int32)
    gap = h - np.array(draw(st.lists(st.integers(0, 3), min_size=length, max_size=length)), np.int32)
    gap[0] = NEG_INF
    return Boundary(h, gap)


@given(
    st.integers(2, 40).flatmap(lambda length: st.tuples(*[st.one_of(lines(length), walks(length))] * 2)),
    st.integers(1, 8),
    st.integers(0, 39),
    st.integers(0, 2),
)
def test_on_a_packed_line_they_meet_where_they_do_on_any_other(both, stride, start, beyond):
    """Also on a part of a packed line, and if the packed line is longer than the other one."""
    forward, backward = both
    start = min(start, len(forward))
    ahead, behind = forward.part(start, len(forward)), Boundary(backward.h[start:], backward.gap[start:])
    shorter = slice(0, max(1, len(behind) + 1 - beyond))
    behind = Boundary(behind.h[shorter], behind.gap[shorter])
    shared = Boundary(ahead.h[: len(behind) + 1], ahead.gap[: len(behind) + 1])
    total = most(shared, behind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "ANCHOR_STRIDE", stride)
        packed = pack([1], [forward]).part(1, start, len(forward))
        found = found_meetings(packed, behind, State.E, total, ALPHA)
    assert found == all_meetings(shared, behind, State.E, total)


@pytest.mark.parametrize("place", [0, 1, 4095, 4096, 4097, 50_000, 99_999, 100_000])
def test_a_packed_line_is_unpacked_around_the_meeting_only(monkeypatch, place):
    away = np.abs(np.arange(100_001) - place).astype(np.int32)
    rng = np.random.default_rng(place)
    h = 1_000_000 - 2 * away - np.where(away, rng.integers(0, 3, away.size, np.int32), 0)
    forward, backward = Boundary(h, h - 3), Boundary(77 - 2 * away, 70 - 2 * away)
    forward.gap[0] = NEG_INF
    unpacked = []
    cells = codec.PackedEdge.cells
    monkeypatch.setattr(
        codec.PackedEdge, "cells", lambda edge, *span: unpacked.append(span) or cells(edge, *span)
    )
    packed = pack([1], [forward]).part(1, 0, 100_000)
    assert found_meetings(packed, backward, State.E, 1_000_077, ALPHA) == {(place, State.H)}
    assert len(unpacked) <= 4
    assert all(stop - start <= codec.ANCHOR_STRIDE for start, stop in unpacked)


@given(lines(9), lines(7))
def test_forward_values_may_go_on_further(forward, backward):
    ahead = Boundary(forward.h[:7], forward.gap[:7])
    total = most(ahead, backward)
    found = found_meetings(forward, backward, State.E, total, ALPHA)
    assert found == all_meetings(ahead, backward, State.E, total)


def last_lines(query, target, scoring, entry, value):
    """The last row and column of a rectangle swept as a whole, with the gap states at their corners."""
    size = len(query), len(target)
    edges = entry_edges(entry, *size, scoring, value)
    [swept] = ReferenceBackend().sweep(
        [SweepJob(query, target, scoring, *edges, False, size[:1], size[1:], False)]
    )
    for line in (swept.rows[0], swept.cols[0]):
        line.gap[0] = line.h[0]
    return swept.rows[0], swept.cols[0]


@given(problems(20), st.sampled_from(State), st.sampled_from(State))
def test_a_segment_is_cut_near_its_middle_on_the_path_that_a_trace_finds(pair, entry, exit_):
    query, target = pair.sequences()
    query, target = query.as_query(), target.as_target()
    rows, cols, scoring = len(query), len(target), pair.scoring
    assume(max(rows, cols) >= 2)
    bottom, right = last_lines(query, target, scoring, entry, 7)
    value = int({State.H: bottom.h, State.E: bottom.gap, State.F: right.gap}[exit_][-1])
    assume(value > UNREACHABLE)
    segment = Segment(Waypoint(0, 0, entry, 7), Waypoint(rows, cols, exit_, value))
    problem = Problem.of_codes(query, target, scoring, GLOBAL)
    [middle] = cut_points(problem, [segment], ReferenceBackend(), no_progress)
    # A path that enters in a gap takes a letter of it first, which is left out.
    gap_rows, gap_cols = int(entry == State.E and rows > 2), int(entry == State.F and cols > 2)
    is_row = rows - gap_rows >= cols - gap_cols
    along, beside = (middle.i, middle.j) if is_row else (middle.j, middle.i)
    before, length = (gap_rows, rows) if is_row else (gap_cols, cols)
    half = before + (length - before) // 2
    assert along == half or (along > half and beside <= int(entry != State.H))
    whole = recompute(problem, [segment], ReferenceBackend())
    parts = recompute(problem, segment.cut(middle), ReferenceBackend())
    assert (parts.ops.tolist(), parts.lengths.tolist()) == (whole.ops.tolist(), whole.lengths.tolist())


def test_a_long_segment_is_cut_where_parts_of_strips_end():
    for rows, cols, want in (
        (6_203, 90, (True, 3_100)), (63, 63, (True, 31)), (66, 66, (True, 32)),
        (90, 100_001, (False, 49_920)), (90, 3_071, (False, 1_535)), (90, 3_072, (False, 1_536)),
    ):  # fmt: skip
        assert cut_of(rows, cols) == want


@pytest.mark.parametrize(
    ("state", "rows", "cols", "skipped"),
    [
        (State.H, 5, 5, (0, 0)), (State.E, 5, 5, (1, 0)), (State.F, 5, 5, (0, 1)),
        (State.E, 2, 5, (0, 0)), (State.F, 5, 2, (0, 0)), (State.E, 1, 5, (0, 0)), (State.F, 5, 1, (0, 0)),
    ],
)  # fmt: skip
def test_edges_without_minus_infinity_where_more_than_two_letters_are_left(state, rows, cols, skipped):
    before, top, left = corner_edges(rows, cols, Scoring(), state, 0)
    size = rows - skipped[0], cols - skipped[1]
    assert (before, (len(left), len(top))) == (skipped, size)
    assert (reachable(top.h).all() and reachable(left.h).all()) == (state == State.H or any(skipped))
    problem = Problem.of_codes(np.zeros(rows, np.uint8), np.zeros(cols, np.uint8), Scoring(), GLOBAL)
    job = backward_sweep(problem, (0, 0), Waypoint(rows, cols, state, 0))
    assert (len(job.query), len(job.target)) == (*job.rows, *job.cols) == size
