"""Karlin-Altschul parameters, against values that NCBI publishes and against their definition."""

from __future__ import annotations

from fractions import Fraction
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.model.karlin_altschul import (
    NOT_LOCAL,
    UNKNOWN,
    Parameters,
    Significance,
    parameters_of,
    significance,
    ungapped,
)
from longalign.model.mode import GLOBAL, LOCAL
from longalign.model.published_parameters import TABLES_OF_MATRICES
from longalign.model.scoring import Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix


def with_matrix(name: str, gap_open: int = 11, gap_extend: int = 1) -> Scoring:
    return Scoring(matrix=SubstitutionMatrix.load(name), gap_open=gap_open, gap_extend=gap_extend)


def values(parameters: Parameters | None) -> tuple[float, float, float]:
    assert parameters is not None
    return parameters.lambda_, parameters.k, parameters.h


@pytest.mark.parametrize(
    ("match", "mismatch", "lambda_", "k", "h"),
    [  # what blastn prints for these rewards and penalties
        (1, -5, 1.39, 0.747, 1.38),
        (1, -4, 1.383, 0.738, 1.36),
        (1, -3, 1.374, 0.711, 1.31),
        (1, -2, 1.33, 0.621, 1.12),
        (2, -3, 0.634, 0.408, 0.912),
        (5, -4, 0.192, 0.176, 0.357),
        (1, -1, 1.10, 0.333, 0.549),
    ],
)
def test_nucleotides_without_gaps(match: int, mismatch: int, lambda_: float, k: float, h: float) -> None:
    assert values(ungapped(Scoring(match, mismatch))) == pytest.approx((lambda_, k, h), rel=4e-3)


@pytest.mark.parametrize(
    ("name", "lambda_", "k", "h"),
    [  # the first rows of the tables in blast_stat.c
        ("BLOSUM45", 0.2291, 0.0924, 0.2514),
        ("BLOSUM50", 0.2318, 0.112, 0.3362),
        ("BLOSUM62", 0.3176, 0.134, 0.4012),
        ("BLOSUM90", 0.3346, 0.190, 0.7547),
        ("PAM30", 0.3400, 0.283, 1.754),
        ("PAM70", 0.3345, 0.229, 1.029),
        ("PAM250", 0.2252, 0.0868, 0.2223),
    ],
)
def test_proteins_without_gaps(name: str, lambda_: float, k: float, h: float) -> None:
    assert values(ungapped(with_matrix(name))) == pytest.approx((lambda_, k, h), rel=5e-3)


@given(st.integers(1, 30), st.integers(-40, -1))
def test_lambda_solves_its_equation_and_k_is_a_share(match: int, mismatch: int) -> None:
    found = ungapped(Scoring(match, mismatch))
    if match + 3 * mismatch >= 0:  # the mean score
        assert found is None
    elif found is not None:
        terms = 0.25 * exp(found.lambda_ * match), 0.75 * exp(found.lambda_ * mismatch)
        assert sum(terms) == pytest.approx(1, abs=1e-9)
        assert found.h == pytest.approx(found.lambda_ * (terms[0] * match + terms[1] * mismatch))
        assert 0 < found.k < 1


@given(st.integers(1, 5), st.integers(-9, -1), st.integers(2, 6))
def test_only_lambda_depends_on_the_unit(match: int, mismatch: int, unit: int) -> None:
    one, other = ungapped(Scoring(match, mismatch)), ungapped(Scoring(unit * match, unit * mismatch))
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        assert values(other) == pytest.approx((one.lambda_ / unit, one.k, one.h))


def test_a_matrix_of_nucleotides_is_one() -> None:
    assert values(ungapped(with_matrix("NUC.4.4"))) == pytest.approx(values(ungapped(Scoring(5, -4))))


def test_scores_that_grow_with_the_length_have_no_parameters() -> None:
    assert ungapped(Scoring(3, -1)) is None
    assert ungapped(Scoring(299, -100)) is None  # the sum for K would not end


def test_a_matrix_with_other_letters_has_no_parameters() -> None:
    odd = Scoring(matrix=SubstitutionMatrix("odd", "XY", ((1, -2), (-2, 1))), gap_open=1, gap_extend=1)
    assert ungapped(odd) is None
    assert parameters_of(odd) is None


def test_expected_scores_follow_the_theory() -> None:
    """The best scores of random sequences without gaps are distributed as the parameters say."""
    rng, length, repeats = np.random.default_rng(1), 400, 60
    best = []
    for _ in range(repeats):
        query, target = rng.integers(0, 4, (2, length))
        scores = np.where(query[:, None] == target, 1, -2)
        row, top = np.zeros(length + 1, int), 0
        for of_row in scores:
            row[1:] = np.maximum(0, row[:-1] + of_row)
            top = max(top, int(row.max()))
        best.append(top)
    found = ungapped(Scoring(1, -2))
    assert found is not None
    # A score S or better occurs with this probability; the mean of whole numbers is the sum over all S >= 1.
    expected = sum(1 - exp(-found.k * length**2 * exp(-found.lambda_ * score)) for score in range(1, 100))
    assert np.mean(best) == pytest.approx(expected, abs=0.4)


@pytest.mark.parametrize(
    ("scoring", "lambda_", "k"),
    [
        (with_matrix("BLOSUM62"), 0.267, 0.041),
        (with_matrix("BLOSUM62", 9, 2), 0.279, 0.058),
        (with_matrix("PAM30", 9, 1), 0.294, 0.11),
        (Scoring(1, -2, 1, 2), 1.30, 0.52),
        (Scoring(2, -4, 2, 4), 0.65, 0.52),  # the same in half units
        (Scoring(1, -3, 3, 2), 1.374, 0.711),  # beyond the table
        (Scoring(2, -6, 0, 7), 0.687, 0.711),  # megablast's linear gaps
        (Scoring(1, -4, 2, 2), 1.383, 0.738),
        (Scoring(5, -4, 8, 6), 0.146, 0.039),
        (Scoring(preset="megablast"), 1.28, 0.46),  # held in half units
        (Scoring(preset="blastn"), 0.625, 0.41),
        (Scoring(Fraction(1, 2), -1, Fraction(1, 2), 1), 2.6, 0.52),
    ],
)
def test_parameters_with_gaps(scoring: Scoring, lambda_: float, k: float) -> None:
    found = values(parameters_of(scoring))
    assert found[:2] == pytest.approx((lambda_, k), rel=1e-3)


@pytest.mark.parametrize(
    "scoring",
    [
        with_matrix("BLOSUM62", 5, 1),
        with_matrix("BLOSUM80"),  # Biopython has it in other units than BLAST
        Scoring(7, -9, 5, 3),
        Scoring(1, -3, 1, 3),
        Scoring(1, -3, 0, 1),
        Scoring(preset="edit"),
        Scoring(preset="lastz"),
    ],
)
def test_scorings_without_published_parameters(scoring: Scoring) -> None:
    assert parameters_of(scoring) is None
    assert significance(50, scoring, LOCAL, 100, 100) == UNKNOWN


def test_every_gap_costs_some_significance() -> None:
    for (lambda_, k, h), table in TABLES_OF_MATRICES:
        assert all(row[0] < lambda_ and row[1] < k and row[2] < 1.05 * h for row in table.rows.values())


def test_odd_scores_are_rounded_down_where_blast_does() -> None:
    odd, even = (significance(score, Scoring(2, -3, 5, 2), LOCAL, 1000, 1000) for score in (51, 50))
    assert odd == even
    assert isinstance(odd, Significance)
    assert odd.bit_score == pytest.approx((0.625 * 50 - log(0.41)) / log(2))
    one, other = (significance(score, Scoring(4, -6, 10, 4), LOCAL, 1000, 1000) for score in (102, 100))
    assert one == other
    assert isinstance(one, Significance)
    assert one.bit_score == pytest.approx(odd.bit_score)


def test_scores_in_other_units_are_as_significant() -> None:
    whole = significance(40, Scoring(1, -2, 1, 2), LOCAL, 1000, 1000)
    halves = significance(20, Scoring(Fraction(1, 2), -1, Fraction(1, 2), 1), LOCAL, 1000, 1000)
    assert isinstance(whole, Significance)
    assert isinstance(halves, Significance)
    assert whole.bit_score == pytest.approx(halves.bit_score)
    assert ungapped(Scoring(Fraction(1, 2), -1)).lambda_ == pytest.approx(
        2 * ungapped(Scoring(1, -2)).lambda_
    )  # type: ignore[union-attr]


def test_bit_scores_of_whole_chromosomes_are_numbers() -> None:
    found = significance(10**8, Scoring(), LOCAL, 10**9, 10**9)
    assert isinstance(found, Significance)
    assert found.e_value == 0
    assert found.bit_score == pytest.approx(1.37406 * 1e8 / log(2), rel=1e-4)


def test_global_scores_have_no_significance() -> None:
    assert significance(50, Scoring(), GLOBAL, 100, 100) == NOT_LOCAL
