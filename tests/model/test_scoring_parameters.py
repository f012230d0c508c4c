"""Scorings as people give them: conventions, presets, fractions, and rules for letters."""

from __future__ import annotations

import copy
import json
import pickle
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.errors import InputError
from longalign.model.alphabet import AMBIGUITIES, DNA
from longalign.model.presets import PRESETS
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.testing.inputs import matrix_of

BLOSUM62 = SubstitutionMatrix.load("BLOSUM62")
HALF = Fraction(1, 2)


def pair_score(scoring: Scoring, a: str, b: str) -> Fraction:
    """What two letters score, in the units that were given, from the codes of a sequence."""
    query = Sequence.from_letters("a", a, alphabet=scoring.alphabet).as_query()[0]
    target = Sequence.from_letters("b", b, alphabet=scoring.alphabet).as_target()[0]
    if scoring.table is None:
        return scoring.unscaled(scoring.match if query == target else scoring.mismatch)
    return scoring.unscaled(scoring.table.scores[query][target])


# --- gap costs in either convention


@given(st.integers(0, 50), st.integers(0, 50))
def test_both_conventions_mean_the_same(alpha: int, beta: int) -> None:
    assert Scoring(gap_first=alpha + beta, gap_next=beta) == Scoring(gap_open=alpha, gap_extend=beta)


def test_half_a_convention_keeps_the_other_half() -> None:
    assert Scoring(gap_first=7) == Scoring(gap_open=5, gap_extend=2)
    assert Scoring(gap_next=1) == Scoring(gap_open=4, gap_extend=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"gap_open": 1, "gap_next": 1},
            "gap_open and gap_extend are one convention, gap_first and gap_next",
        ),
        ({"gap_first": 1, "gap_next": 2}, "gap_first 1 must be at least gap_next 2"),
        ({"gap_first": 1, "gap_next": -2}, "gap_next is a cost and cannot be negative, not -2"),
        ({"gap_extend": 0.5}, "gap_extend must be a whole number, a Fraction or a Decimal, not 0.5"),
        (
            {"match": Fraction(1 << 24, 3) + HALF},
            "match 33554435/6 is larger in size than 16777216 in units of",
        ),
        ({"preset": "blast"}, "there is no preset 'blast': choose from cudalign, "),
        ({"preset": "lastz", "match": 1}, "match and mismatch replace the matrix of preset 'lastz' together"),
        ({"ambiguous": "n"}, "ambiguous must be one of 'mismatch', 'zero', 'average', not 'n'"),
        ({"softmask": 1}, "softmask must be one of False, True, not 1"),
        ({"unknown": "x"}, "unknown is for letters that a substitution matrix lacks"),
        ({"preset": "lastz", "ambiguous": "zero"}, "ambiguous has no effect beside a matrix"),
        ({"preset": "lastz", "unknown": "x"}, "unknown 'x': matrix HOXD70 has no letter X"),
        ({"preset": "blastn", "matrix": BLOSUM62}, "a substitution matrix needs gap_open and gap_extend"),
        ({"preset": "lastz", "softmask": True}, "softmask: matrix HOXD70 has no letter N"),
        ({"scale": 0}, "scale must be a whole number from 1"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=f"^scoring: {message}"):
        Scoring(**arguments)


# --- presets


@pytest.mark.parametrize(
    ("name", "scoring"),
    [
        ("cudalign", Scoring(1, -3, 3, 2)),
        ("megablast", Scoring(1, -2, gap_first=Decimal("2.5"), gap_next=Decimal("2.5"))),
        ("blastn", Scoring(2, -3, gap_first=7, gap_next=2)),
        ("lastz", Scoring(matrix=SubstitutionMatrix.load("HOXD70"), gap_first=430, gap_next=30)),
        ("minimap2-asm5", Scoring(1, -19, 39, 3)),
        ("minimap2-asm20", Scoring(1, -4, 6, 2)),
        ("edit", Scoring(0, -1, 0, 1)),
    ],
)
def test_presets_are_what_their_programs_use(name: str, scoring: Scoring) -> None:
    assert Scoring(preset=name) == scoring == Scoring(preset=name.upper())


def test_every_preset_is_tested_and_has_a_source() -> None:
    assert len(PRESETS) == 7
    assert all(preset.source for preset in PRESETS.values())


def test_what_is_given_replaces_parts_of_a_preset() -> None:
    assert Scoring(preset="blastn", match=1) == Scoring(1, -3, 5, 2)
    assert Scoring(preset="blastn", gap_next=1) == Scoring(2, -3, gap_first=7, gap_next=1)
    assert Scoring(preset="lastz", match=1, mismatch=-1) == Scoring(1, -1, 400, 30)
    asked = Scoring(preset="blastn", matrix=BLOSUM62, gap_open=10, gap_extend=1)
    assert asked == Scoring(matrix=BLOSUM62, gap_open=10, gap_extend=1)


# --- fractions

#: The common denominator of a few of them is small enough for the range of parameters.
numbers = st.builds(Fraction, st.integers(0, 400), st.sampled_from([1, 2, 3, 4, 5, 8, 10, 12]))


@given(numbers, numbers, numbers, numbers)
def test_fractions_are_scaled_exactly(
    match: Fraction, below: Fraction, alpha: Fraction, beta: Fraction
) -> None:
    scoring = Scoring(match, match - below - 1, alpha, beta)
    assert scoring.given() == {
        "match": match,
        "mismatch": match - below - 1,
        "gap_open": alpha,
        "gap_extend": beta,
    }
    whole = [scoring.match, scoring.mismatch, scoring.gap_open, scoring.gap_extend]
    assert [type(number) for number in whole] == [int] * 4
    assert Fraction(scoring.match, scoring.scale) == match
    assert Scoring.from_json(json.loads(json.dumps(scoring.to_json()))) == scoring
    assert eval(repr(scoring)) == scoring


def test_a_scale_is_as_small_as_it_can_be() -> None:
    assert Scoring(gap_extend=Decimal("2.0")) == Scoring()
    assert Scoring(2, -6, 6, 4, scale=2) == Scoring()
    assert Scoring(gap_extend=HALF).scale == 2
    with pytest.raises(InputError, match=r"^scoring\.scale: must be 1 for these numbers, not 2"):
        Scoring.from_json({"match": 2, "mismatch": -6, "gap_open": 6, "gap_extend": 4, "scale": 2})


def test_a_matrix_is_scaled_with_the_costs() -> None:
    scoring = Scoring(matrix=BLOSUM62, gap_open=10, gap_extend=HALF, unknown="mismatch", softmask=True)
    assert (scoring.scale, scoring.highest, scoring.lowest) == (2, 22, -8)
    assert pair_score(scoring, "W", "W") == 11
    for again in (
        Scoring.from_json(json.loads(json.dumps(scoring.to_json()))),
        pickle.loads(pickle.dumps(scoring)),
        copy.deepcopy(scoring),
        replace(scoring),
    ):
        assert again == scoring
        assert (again.table, again.alphabet) == (scoring.table, scoring.alphabet)
    fractional = SubstitutionMatrix("made", "AC", ((Decimal("1.5"), 0), (Fraction(1, 3), 2)))
    scoring = Scoring(matrix=fractional, gap_open=1, gap_extend=1)
    assert (scoring.scale, scoring.table.scores) == (6, ((9, 0), (2, 12)))
    assert Scoring.from_json(scoring.to_json()) == scoring


def test_older_stores_know_nothing_of_what_is_new() -> None:
    assert Scoring().to_json() == {"match": 1, "mismatch": -3, "gap_open": 3, "gap_extend": 2}
    assert set(Scoring(matrix=BLOSUM62, gap_open=10, gap_extend=1).to_json()) == {
        "matrix",
        "gap_open",
        "gap_extend",
    }


def test_a_scoring_is_shown_in_short() -> None:
    scoring = Scoring(matrix=BLOSUM62, gap_open=10, gap_extend=HALF)
    shown = f"SubstitutionMatrix('BLOSUM62', 24 letters, {BLOSUM62.digest})"
    assert repr(scoring) == f"Scoring(gap_open=10, gap_extend=Fraction(1, 2), matrix={shown})"
    assert scoring.convention == "a gap of length k costs 10 + k*0.5"
    assert Scoring(ambiguous="zero").letter_scores == "match 1, mismatch -3, ambiguous zero"


# --- letters


BASES_OF = {base: base for base in "ACGT"} | AMBIGUITIES


@pytest.mark.parametrize("numbers", [(1, -3), (5, -4), (0, -1), (1, Fraction(-1, 2))])
def test_averages_are_means_over_all_bases(numbers: tuple[int, int]) -> None:
    scoring = Scoring(*numbers, ambiguous="average")
    for a, bases_a in BASES_OF.items():
        for b, bases_b in BASES_OF.items():
            each = [Fraction(numbers[x != y]) for x in bases_a for y in bases_b]
            assert pair_score(scoring, a, b) == sum(each) / len(each)
    assert pair_score(scoring, "u", "T") == numbers[0]


@pytest.mark.parametrize(("ambiguous", "score"), [("mismatch", -3), ("zero", 0)])
def test_ambiguous_letters_score_like_mismatches_or_nothing(ambiguous: str, score: int) -> None:
    scoring = Scoring(ambiguous=ambiguous)
    assert {pair_score(scoring, "N", letter) for letter in "ACGTNRU"} == {score}
    assert (pair_score(scoring, "A", "A"), pair_score(scoring, "A", "C")) == (1, -3)


@pytest.mark.parametrize("ambiguous", ["mismatch", "zero", "average"])
def test_an_ambiguous_letter_equals_no_letter(ambiguous: str) -> None:
    sequence = Sequence.from_letters("x", "".join(BASES_OF), alphabet=Scoring(ambiguous=ambiguous).alphabet)
    equal = sequence.as_query()[:, None] == sequence.as_target()[None]
    assert equal.nonzero()[0].tolist() == equal.nonzero()[1].tolist() == [0, 1, 2, 3]


def test_letters_that_a_matrix_lacks() -> None:
    costs = {"gap_open": 10, "gap_extend": 1, "matrix": BLOSUM62}
    as_x, as_mismatch = Scoring(**costs, unknown="x"), Scoring(**costs, unknown="mismatch")
    assert Sequence.from_letters("x", "AuOJ*", alphabet=as_x.alphabet).letters.tobytes() == b"AXXX*"
    assert Sequence.from_letters("x", "AuOJ*", alphabet=as_mismatch.alphabet).letters.tobytes() == b"AUOJ*"
    assert {pair_score(as_mismatch, "U", letter) for letter in "ARUO"} == {-4}
    assert pair_score(as_mismatch, "W", "W") == 11
    with pytest.raises(InputError, match="--unknown mismatch admits such letters"):
        Sequence.from_letters("x", "AU", alphabet=Scoring(**costs).alphabet)
    large = matrix_of([[1] * 31] * 31)
    with pytest.raises(InputError, match="need a matrix of at most 30"):
        Scoring(matrix=large, gap_open=1, gap_extend=1, unknown="mismatch")


def test_lower_case_letters_are_masked_where_asked_for() -> None:
    masked = Scoring(softmask=True).alphabet
    protein = Scoring(matrix=BLOSUM62, gap_open=10, gap_extend=1, softmask=True).alphabet
    lastz = Scoring(preset="lastz", unknown="mismatch", softmask=True).alphabet
    assert Sequence.from_letters("x", "ACgtN", alphabet=masked).letters.tobytes() == b"ACNNN"
    assert Sequence.from_letters("x", "MKva", alphabet=protein).letters.tobytes() == b"MKXX"
    assert Sequence.from_letters("x", "ACgt", alphabet=lastz).letters.tobytes() == b"ACNN"
    assert masked != DNA
    with pytest.raises(InputError, match=r"treat lower-case letters differently: read"):
        Sequence.from_letters("x", "ACgt").under(masked)
    again = Sequence.from_letters("x", "ACgt", alphabet=masked)
    with pytest.raises(InputError, match=r"treat lower-case letters differently: read"):
        again.under(DNA)
    assert again.under(masked) is again


def test_a_protein_without_a_matrix_is_told_what_it_needs() -> None:
    with pytest.raises(InputError, match=r"is 'L', .*; a protein needs --matrix BLOSUM62 --gap-open 10"):
        Sequence.from_letters("x", "MKL")
