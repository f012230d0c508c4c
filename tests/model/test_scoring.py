"""Scoring: which parameters are refused, with which messages, and the limits of 32-bit numbers."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.errors import InputError
from longalign.model.boundary import State, start_code, start_parts
from longalign.model.scoring import LARGEST_PARAMETER, NEG_INF, TOO_MANY_LETTERS, Scoring
from longalign.testing.inputs import (
    LOWEST,
    pairs,
    scorings,
)
from longalign.testing.reference import ReferenceBackend, encode
from longalign.testing.sweep_jobs import whole_matrix


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ({"match": -1, "mismatch": -2}, "match cannot be negative, not -1"),
        ({"match": 0, "mismatch": 0}, "mismatch 0 must be below match 0"),
        ({"match": 2, "mismatch": 2}, "mismatch 2 must be below match 2"),
        ({"gap_open": -1}, "gap_open is a cost and cannot be negative, not -1"),
        ({"gap_extend": -2}, "gap_extend is a cost and cannot be negative, not -2"),
        ({"match": 1.0}, "match must be a whole number, a Fraction or a Decimal, not 1.0"),
        ({"mismatch": "-3"}, "mismatch must be a whole number, a Fraction or a Decimal, not '-3'"),
        ({"gap_open": True}, "gap_open must be a whole number, a Fraction or a Decimal, not True"),
        (
            {"match": Fraction(1, 1 << 25)},
            "the numbers are multiples of 1/33554432, and the smallest unit",
        ),
        ({"match": LARGEST_PARAMETER + 1}, "match 16777217 is larger in size than 16777216"),
        ({"mismatch": -LARGEST_PARAMETER - 1}, "mismatch -16777217 is larger in size than 16777216"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(numbers, message):
    with pytest.raises(InputError, match=f"^scoring: {message}"):
        Scoring(**numbers)


def test_the_message_is_one_line():
    with pytest.raises(InputError) as caught:
        Scoring(match=1, mismatch=1)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "numbers",
    [
        {"gap_open": 0},
        {"gap_extend": 0},
        {"gap_open": 0, "gap_extend": 0},
        {"mismatch": 0},
        {"match": 5, "mismatch": 4},
        dict.fromkeys(("match", "gap_open", "gap_extend"), LARGEST_PARAMETER),
    ],
)
def test_unusual_numbers_are_allowed(numbers):
    assert Scoring(**numbers) == Scoring(**numbers)


def test_the_convention_says_what_a_gap_costs():
    assert Scoring(gap_open=3, gap_extend=2).convention == "a gap of length k costs 3 + k*2"


# The highest score that is admitted, and the lowest one without its sign.
HIGHEST, DEEPEST = 2**31 - 2**27, 2**31 - 2**28


def test_the_highest_score_is_the_match_over_the_shorter_sequence():
    scoring = Scoring(match=1 << 20, gap_open=0, gap_extend=0)
    fits = HIGHEST >> 20
    scoring.check_range(fits, 10**9)
    scoring.check_range(10**9, fits)
    with pytest.raises(InputError, match=f"match 1048576 over {fits + 1} letters could score"):
        scoring.check_range(fits + 1, 10**9)


def test_the_lowest_value_is_that_of_two_gaps():
    scoring = Scoring(match=1, mismatch=-6, gap_open=11, gap_extend=2)
    fits = (DEEPEST - 2 * 11 - 6) // 2
    scoring.check_range(1, fits - 1)
    with pytest.raises(InputError, match=r"gap costs 11 \+ k\*2 over 2 \+ \d+ letters could score -"):
        scoring.check_range(2, fits - 1)


def test_a_positive_mismatch_does_not_lower_anything():
    Scoring(match=8, mismatch=7, gap_open=0, gap_extend=2).check_range(1, DEEPEST // 2 - 1)


def test_chromosomes_with_default_scores_fit():
    Scoring().check_range(250_000_000, 250_000_000)


@given(st.data())
def test_scores_are_within_the_range_that_was_checked(data):
    """With the most extreme scoring that is admitted, on letters that reach its limits."""
    rows, cols = (data.draw(st.integers(1, 20)) for _ in range(2))
    query, target = data.draw(pairs(rows, cols))
    scoring = data.draw(scorings(rows, cols))
    [result] = ReferenceBackend().sweep([whole_matrix(query, target, scoring, False)])
    two_gaps = -2 * scoring.gap_open - scoring.gap_extend * (rows + cols)
    score = result.rows[0].h[-1]
    assert LOWEST <= two_gaps <= score <= scoring.match * min(rows, cols) <= -NEG_INF


def test_lengths_that_places_cannot_count_are_refused():
    scoring = Scoring(match=1, mismatch=-1, gap_open=0, gap_extend=0)
    scoring.check_range(TOO_MANY_LETTERS - 1, TOO_MANY_LETTERS - 1)
    last = TOO_MANY_LETTERS - 1
    assert start_parts(start_code(last, last, int(State.F))) == (last, last, State.F)
    for lengths in ((TOO_MANY_LETTERS, 1), (1, TOO_MANY_LETTERS)):
        with pytest.raises(InputError, match="a sequence of 1,073,741,824 letters is too long: at most"):
            scoring.check_range(*lengths)


def test_the_highest_score_of_all_is_reached():
    length = HIGHEST // LARGEST_PARAMETER
    scoring = Scoring(match=LARGEST_PARAMETER, mismatch=-1, gap_open=0, gap_extend=0)
    scoring.check_range(length, length)
    job = whole_matrix(encode("A" * length, 4), encode("A" * length, 5), scoring, True)
    [result] = ReferenceBackend().sweep([job])
    assert result.best.score == HIGHEST
