"""The oracle itself, compared with other programs and with DP matrices worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from oracles import MODE_OF, biopython_score, parasail_score, spell
from runs import Pair

from longalign.backends.base import SweepJob, TraceJob
from longalign.model.alignment import format_cigar
from longalign.model.boundary import BestCell, State, entry_edges, local_edges
from longalign.model.mode import EXTEND, MODES
from longalign.model.scoring import NEG_INF, Scoring
from longalign.testing.inputs import (
    QUERY_N,
    SCORINGS,
    TARGET_N,
    mutated,
)
from longalign.testing.reference import ReferenceBackend, encode, matrices
from longalign.testing.sweep_jobs import whole_matrix

DEFAULT = Scoring()


def score(query, target, scoring, local):
    [result] = ReferenceBackend().sweep([whole_matrix(query, target, scoring, local)])
    return result.best.score if local else int(result.rows[0].h[-1])


def spelled(query: str, target: str, scoring: Scoring, local: bool):
    return whole_matrix(encode(query, QUERY_N), encode(target, TARGET_N), scoring, local)


def random_pair(rng):
    """Up to 60 letters each, of two, three or four kinds, related or not, with an N now and then."""
    rows, cols = rng.integers(1, 61, 2)
    query = rng.integers(0, rng.integers(2, 5), rows, np.uint8)
    query[rng.random(rows) < rng.choice([0, 0, 0.1])] = QUERY_N
    if rng.random() < 0.5:
        return query, mutated(query, cols, 0.15, rng)
    return query, rng.integers(0, 4, cols, np.uint8)


@pytest.mark.parametrize("scoring", SCORINGS, ids=str)
@pytest.mark.parametrize("local", [True, False], ids=["local", "global"])
def test_score_equals_parasail_and_biopython(scoring, local):
    rng = np.random.default_rng(SCORINGS.index(scoring))
    for _ in range(100):
        query, target = random_pair(rng)
        ours = score(query, target, scoring, local)
        assert ours == parasail_score(query, target, scoring, MODE_OF[local])
        assert ours == biopython_score(query, target, scoring, MODE_OF[local])


@pytest.mark.parametrize("mode", MODES.values(), ids=str)
def test_what_runs_are_compared_with_equals_parasail_and_biopython(mode):
    rng = np.random.default_rng(list(MODES).index(mode))
    for number in range(3 * len(SCORINGS)):
        scoring = SCORINGS[number % len(SCORINGS)]
        query, target = random_pair(rng)
        pair = Pair(spell(query), spell(target), scoring, mode)
        score = pair.truth().score
        assert score == parasail_score(query, target, scoring, mode), pair
        assert mode == EXTEND or score == biopython_score(query, target, scoring, mode), pair


def test_a_local_matrix_worked_out_by_hand():
    job = spelled("ACG", "AG", Scoring(match=2, mismatch=-1, gap_open=0, gap_extend=1), True)
    h, _, _ = matrices(job)
    assert h == [
        [0, 0, 0],
        [0, 2, 1],
        [0, 1, 1],
        [0, 0, 3],  # A matched, C deleted, G matched
    ]
    assert ReferenceBackend().sweep([job])[0].best == BestCell(3, 3, 2)


def test_a_global_matrix_worked_out_by_hand():
    job = spelled("AC", "AGC", Scoring(match=1, mismatch=-3, gap_open=3, gap_extend=2), False)
    h, e, f = matrices(job)
    assert h == [
        [0, -5, -7, -9],
        [-5, 1, -4, -6],
        [-7, -4, -2, -3],
    ]
    assert [row[1:] for row in e[1:]] == [[-10, -12, -14], [-4, -9, -11]]
    assert [row[1:] for row in f[1:]] == [[-10, -4, -6], [-12, -9, -7]]


def test_an_insertion_may_stand_next_to_a_deletion():
    scoring = Scoring(match=1, mismatch=-30, gap_open=1, gap_extend=1)
    assert score(encode("AAGAA", QUERY_N), encode("AACAA", TARGET_N), scoring, False) == 4 - 2 - 2


def test_the_boundaries_are_rows_and_columns_of_the_matrices():
    job = spelled("ACGTA", "AGTTACC", DEFAULT, True)
    h, e, f = matrices(job)
    [result] = ReferenceBackend().sweep([job])
    assert result.rows[0].h.tolist() == h[5]
    assert result.rows[0].gap.tolist() == [NEG_INF, *e[5][1:]]
    assert result.cols[0].h.tolist() == [row[7] for row in h]
    assert result.cols[0].gap.tolist() == [NEG_INF, *(row[7] for row in f[1:])]


@pytest.mark.parametrize(
    ("query", "target", "end"),
    [
        ("A", "AAA", (1, 1)),  # the lowest anti-diagonal
        ("AAA", "A", (1, 1)),
        ("AC", "CA", (1, 2)),  # on one anti-diagonal the rightmost
        ("CGA", "ACG", (2, 3)),  # the best score comes before all else
        ("A", "C", (0, 0)),  # no positive cell at all
    ],
)
def test_the_end_cell_follows_the_rule_for_ties(query, target, end):
    [result] = ReferenceBackend().sweep([spelled(query, target, DEFAULT, True)])
    assert (result.best.i, result.best.j) == end


@pytest.mark.parametrize(("query", "target"), [("", ""), ("", "ACG"), ("ACGT", "")])
def test_without_letters_there_is_one_gap_or_nothing(query, target):
    """`score` sweeps rectangles without cells; other back ends are never asked to."""
    letters = len(query + target)
    pair = encode(query, QUERY_N), encode(target, TARGET_N)
    assert score(*pair, DEFAULT, True) == 0
    worth = -(DEFAULT.gap_open + DEFAULT.gap_extend * letters) if letters else 0
    assert score(*pair, DEFAULT, False) == worth
    [(ops, lengths)] = ReferenceBackend().trace([TraceJob(*pair, DEFAULT, State.H, State.H)])
    assert format_cigar(ops, lengths) == (f"{letters}{'I' if query else 'D'}" if letters else "")


def test_ambiguous_letters_match_nothing_not_even_each_other():
    assert score(encode("NNN", QUERY_N), encode("NNN", TARGET_N), DEFAULT, True) == 0
    assert score(encode("NNN", QUERY_N), encode("NNN", TARGET_N), DEFAULT, False) == -9


@pytest.mark.parametrize(
    ("state", "bottom", "corner"),
    [
        (State.H, [-7, -4, -2], -2),  # A on A and C on T: 1 - 3
        (State.E, [-4, -5, -10], -10),  # A in the open gap (-2), a gap of its own for A (-5), C on T (-3)
        (State.F, [NEG_INF, -9, -10], -10),  # the same with the two gaps exchanged
    ],
)
def test_a_path_that_enters_in_a_gap_can_only_extend_it(state, bottom, corner):
    query, target = encode("AC", QUERY_N), encode("AT", TARGET_N)
    top, left = entry_edges(state, 2, 2, DEFAULT)
    [result] = ReferenceBackend().sweep([SweepJob(query, target, DEFAULT, top, left, False, (2,), (2,))])
    assert result.rows[0].h.tolist() == bottom
    assert result.cols[0].h[-1] == corner


def test_several_jobs_give_results_in_order_and_one_report_of_progress_each():
    jobs = [spelled(text, "ACGT", DEFAULT, True) for text in ("A", "ACG", "AC")]
    counts = []
    results = ReferenceBackend().sweep(jobs, counts.append)
    assert [result.best.score for result in results] == [1, 3, 2]
    assert counts == [4, 12, 8]


def test_letters_other_than_acgt_are_encoded_as_ambiguous():
    assert encode("ACGTNR", QUERY_N).tolist() == [0, 1, 2, 3, QUERY_N, QUERY_N]


def test_local_edges_let_an_alignment_begin_anywhere():
    top, left = local_edges(2, 3)
    assert top.h.tolist() == [0, 0, 0, 0]
    assert left.gap.tolist() == [NEG_INF] * 3
