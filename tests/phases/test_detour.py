"""No optimal path between two cells leaves the diagonals that a segment's values allow."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.backends.base import SweepJob, TraceJob, diagonals
from longalign.model.boundary import State, Waypoint, entry_edges
from longalign.model.scoring import LARGEST_PARAMETER, Scoring
from longalign.phases.problem import Segment
from longalign.testing.inputs import any_scorings, pairs
from longalign.testing.reference import encode, letter_score, matrices
from longalign.testing.traces import FREE_GAPS, TIES, best_value, has_path


def segment_of(job, value=0):
    """The segment of the best path of a job, which enters with this value."""
    exit_ = Waypoint(len(job.query), len(job.target), job.exit, value + best_value(job))
    return Segment(Waypoint(0, 0, job.entry, value), exit_)


def cells_of_optimal_paths(job):
    """All cells of all optimal paths, each found from the cells behind it."""
    scoring, size = job.scoring, (len(job.query), len(job.target))
    edges = entry_edges(job.entry, *size, scoring)
    h, e, f = matrices(SweepJob(job.query, job.target, scoring, *edges, local=False))
    opening, extend = scoring.gap_open + scoring.gap_extend, scoring.gap_extend
    found, todo = set(), [(*size, job.exit)]
    while todo:
        place = i, j, state = todo.pop()
        if place in found:
            continue
        found.add(place)
        if i == 0 or j == 0:  # the rest is one gap along the edge
            found |= {(k, 0, State.E) for k in range(i)} | {(0, k, State.F) for k in range(j)}
        elif state == State.H:
            pair = h[i - 1][j - 1] + letter_score(job.query[i - 1], job.target[j - 1], scoring)
            todo += [(i - 1, j - 1, State.H)] * (h[i][j] == pair)
            todo += [(i, j, State.E)] * (h[i][j] == e[i][j]) + [(i, j, State.F)] * (h[i][j] == f[i][j])
        elif state == State.E:
            todo += [(i - 1, j, State.H)] * (e[i][j] == h[i - 1][j] - opening)
            todo += [(i - 1, j, State.E)] * (e[i][j] == e[i - 1][j] - extend)
        else:
            todo += [(i, j - 1, State.H)] * (f[i][j] == h[i][j - 1] - opening)
            todo += [(i, j - 1, State.F)] * (f[i][j] == f[i][j - 1] - extend)
    return {(i, j) for i, j, _ in found}


@st.composite
def jobs(draw):
    rows, cols = draw(st.integers(1, 30)), draw(st.integers(1, 30))
    scoring = draw(st.one_of(st.sampled_from([Scoring(), TIES, FREE_GAPS]), any_scorings(rows, cols)))
    both = draw(pairs(rows, cols, scoring))
    wishes = [TraceJob(*both, scoring, *states) for states in product(State, repeat=2)]
    return draw(st.sampled_from([job for job in wishes if has_path(job)]))


@given(jobs(), st.integers(-100, 100))
def test_no_optimal_path_leaves_the_diagonals(job, value):
    rows, cols = len(job.query), len(job.target)
    lowest, highest = diagonals(rows, cols, segment_of(job, value).detour(job.scoring))
    assert {j - i for i, j in cells_of_optimal_paths(job)} <= {*range(lowest, highest + 1)}


@pytest.mark.parametrize(
    ("query", "target", "scoring", "detour"),
    [
        ("ACGTACGT", "ACGTACGT", Scoring(), 0),
        ("ACGTACGTAC", "ACGTACTTAC", Scoring(), 0),  # two gaps would cost more than a mismatch
        (
            "AACGTACGT",
            "ACGTACGTT",
            Scoring(1, -9, 0, 1),
            1,
        ),  # a letter pair costs 3 in gaps: just so much is lost
        ("AACGTACGT", "ACGTACGTT", Scoring(1, -9, 1, 1), 1),  # and the openings of two gaps
        ("ACGTACGTTTTT", "ACGTACGT", Scoring(), 0),
        ("AAAA", "CCCC", Scoring(1, -9, 0, 1), 4),
    ],
)
def test_the_detour_is_as_short_as_the_values_prove(query, target, scoring, detour):
    job = TraceJob(encode(query, 4), encode(target, 5), scoring, State.H, State.H)
    assert segment_of(job).detour(scoring) == detour


def test_where_values_could_leave_32_bits_nothing_is_left_out():
    scoring = Scoring(match=1, mismatch=-3, gap_open=3, gap_extend=LARGEST_PARAMETER)
    scoring.check_range(50, 60)
    segment = Segment(Waypoint(0, 0, State.H, 0), Waypoint(50, 60, State.H, 47 - 10 * LARGEST_PARAMETER))
    assert segment.detour(scoring) == 50
