"""The significance of local scores: Karlin-Altschul parameters, bit scores and E-values.

The best score of random sequences of m and n letters follows an extreme value distribution (Karlin and
Altschul, PNAS 87:2264, 1990). The expected number of local alignments with score S or better is
K m n exp(-lambda S). For alignments without gaps, lambda, K and H follow from the letter scores and the
frequencies of letters; `ungapped` computes them. For alignments with gaps they are only known from
simulations: `published_parameters` has the values that NCBI BLAST uses.

An E-value counts the search space of one strand, also in a run over both. So does BLAST: each strand of a
nucleotide query is a context with the search space of its own length (`BLAST_CalcEffLengths`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import exp, expm1, gcd, log

import numpy as np
from numpy.typing import NDArray

from longalign.model.mode import Mode
from longalign.model.published_parameters import TABLES_OF_MATRICES, Table, table_of_nucleotides
from longalign.model.scoring import Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.system.rationals import Number

#: Frequencies of amino acids in proteins, in thousandths (Robinson and Robinson, PNAS 88:8880, 1991).
_AMINO_ACIDS = {
    "A": 78.05, "C": 19.25, "D": 53.64, "E": 62.95, "F": 38.56, "G": 73.77, "H": 21.99, "I": 51.42,
    "K": 57.44, "L": 90.19, "M": 22.43, "N": 44.87, "P": 52.03, "Q": 42.64, "R": 51.29, "S": 71.20,
    "T": 58.41, "V": 64.41, "W": 13.30, "Y": 32.16,
}  # fmt: skip

_NUCLEOTIDES = dict.fromkeys("ACGT", 1.0)

#: By which share lambda and H may differ from published values, which have four digits.
_ROUNDING = 5e-4

#: Limits of the sum for K: its smallest term, its number of terms, and the multiplications for all of them.
_MIN_TERM, _MAX_TERMS, _MAX_WORK = 1e-7, 2_000, 1 << 29

#: Scores of letter pairs, increasing, int64 of shape (k,), and their frequencies, of the same shape.
Distribution = tuple[NDArray[np.int64], NDArray[np.float64]]

NOT_LOCAL = "only local alignments have a bit score and an E-value"
NOT_THE_BEST = "a bit score and an E-value are for the best alignment, not for one with a given end"
NOTHING_ALIGNED = "no local alignment has a positive score"
UNKNOWN = "bit score and E-value are not known for this scoring"


@dataclass(frozen=True, slots=True)
class Parameters:
    """Karlin-Altschul parameters.

    - `lambda_`: the scale of scores, in nats for a unit of score as the user gave it.
    - `k`: the constant K.
    - `h`: the relative entropy of aligned letters, in nats for a pair.
    - `gapped`: whether they are published values for alignments with gaps. If not, they were computed for
      alignments without gaps.
    - `score_step`: scores, scaled as those of `Scoring`, are rounded down to multiples of this number first.
      BLAST does so for some scorings of nucleotides.
    """

    lambda_: float
    k: float
    h: float
    gapped: bool
    score_step: int = 1


@dataclass(frozen=True, slots=True)
class Significance:
    """The significance of a local score.

    - `bit_score`: (lambda S - ln K) / ln 2.
    - `e_value`: the number of alignments with this score or a better one to be expected between two random
      sequences of the same lengths: m n / 2**bit_score; 0 below the smallest floating-point number. It is not
      corrected for the ends of the sequences, as BLAST's is: for long sequences that makes no difference.
    - `parameters`: those that were used.
    """

    bit_score: float
    e_value: float
    parameters: Parameters


def significance(
    score: Number, scoring: Scoring, mode: Mode, query_length: int, target_length: int
) -> Significance | str:
    """The significance of the best score of two sequences, or why it is not known, in words.

    `score` is in the units that the user gave, as that of an `Alignment`.
    """
    if not (mode.starts_anywhere and mode.ends_anywhere):
        return NOT_LOCAL
    if score <= 0:
        return NOTHING_ALIGNED
    parameters = parameters_of(scoring)
    if parameters is None:
        return UNKNOWN
    rounded = int(score * scoring.scale) // parameters.score_step * parameters.score_step
    nats = parameters.lambda_ * rounded / scoring.scale - log(parameters.k)
    return Significance(nats / log(2), query_length * target_length * exp(-nats), parameters)


@lru_cache
def parameters_of(scoring: Scoring) -> Parameters | None:
    """The parameters for a scoring with its gap costs, as in BLAST; None if they are not known."""
    unit, table = _table_of(scoring)
    if table is None:
        return None
    gap = scoring.gap_open / unit, scoring.gap_extend / unit
    if gap in table.rows:
        lambda_, k, h = table.rows[gap]
        step = 2 * unit if table.even else 1
        return Parameters(lambda_ / unit * scoring.scale, k, h, gapped=True, score_step=step)
    if table.beyond is not None and all(cost >= least for cost, least in zip(gap, table.beyond, strict=True)):
        return ungapped(scoring)  # gaps are so expensive that the best alignments hardly have any
    return None


def _table_of(scoring: Scoring) -> tuple[int, Table | None]:
    """The published table for the letter scores, if there is one, and the unit of its scores.

    A substitution matrix is recognised by its parameters for alignments without gaps, and not by its name:
    there are matrices of one name in different units.
    """
    if scoring.matrix is None:
        unit = gcd(scoring.match, scoring.mismatch)
        return unit, table_of_nucleotides(scoring.match // unit, scoring.mismatch // unit)
    distribution = _score_distribution(scoring)
    if distribution is not None and set(_AMINO_ACIDS) <= set(scoring.matrix.letters):
        found = _lambda_and_h(distribution)
        for (lambda_, _, h), table in TABLES_OF_MATRICES:
            expected = lambda_ / scoring.scale, h
            if found is not None and np.allclose(found, expected, rtol=_ROUNDING, atol=0):
                return scoring.scale, table
    return 1, None


def _scores_of(matrix: SubstitutionMatrix, scale: int, letters: dict[str, float]) -> NDArray[np.int64]:
    places = [matrix.letters.index(letter) for letter in letters]
    return np.array([[int(scale * matrix.scores[i][j]) for j in places] for i in places], np.int64)


@lru_cache
def ungapped(scoring: Scoring) -> Parameters | None:
    """The parameters for alignments without gaps; the gap costs do not matter.

    Letters are independent. Nucleotides are equally frequent, amino acids as in Robinson and Robinson, and
    other letters do not occur. None if a matrix has neither alphabet, if the mean score is not negative, so
    that scores grow with the length of the sequences, or if K would take too long to compute.
    """
    distribution = _score_distribution(scoring)
    found = None if distribution is None else _lambda_and_h(distribution)
    if distribution is None or found is None:
        return None
    scores, frequencies = distribution
    lambda_, h = found
    unit = int(np.gcd.reduce(scores))
    terms = _sum_of_terms(scores // unit, frequencies, lambda_ * unit)
    if terms is None:
        return None
    # Karlin and Altschul, equation 4, for scores without a common divisor.
    k = exp(-2 * terms) * lambda_ * unit / (h * -expm1(-lambda_ * unit))
    return Parameters(lambda_ * scoring.scale, k, h, gapped=False)


def _score_distribution(scoring: Scoring) -> Distribution | None:
    """The scaled scores of random pairs of letters, increasing, and the frequency of each."""
    if scoring.matrix is None:
        return np.array([scoring.mismatch, scoring.match]), np.array([0.75, 0.25])
    for letters in (_AMINO_ACIDS, _NUCLEOTIDES):
        if set(letters) <= set(scoring.matrix.letters):
            frequencies = np.array(list(letters.values())) / sum(letters.values())
            scores, places = np.unique(
                _scores_of(scoring.matrix, scoring.scale, letters), return_inverse=True
            )
            of_scores = np.zeros(len(scores))
            np.add.at(of_scores, places.ravel(), np.outer(frequencies, frequencies).ravel())
            return scores, of_scores
    return None


def _lambda_and_h(distribution: Distribution) -> tuple[float, float] | None:
    """Lambda and H; None if the mean score is not negative, or no score is positive."""
    scores, frequencies = distribution
    if float(scores @ frequencies) >= 0 or scores[-1] <= 0:
        return None
    lambda_ = _positive_root(lambda x: float(frequencies @ np.expm1(x * scores)), float(scores[-1]))
    return lambda_, lambda_ * float(scores @ (frequencies * np.exp(lambda_ * scores)))


def _positive_root(excess: Callable[[float], float], highest: float) -> float:
    """The positive root of sum(p exp(x s)) - 1, a convex function that is 0 and falls at 0; by bisection."""
    low, high = 0.0, 1 / highest
    while excess(high) <= 0:
        low, high = high, 2 * high
    while (middle := (low + high) / 2) not in (low, high):
        low, high = (middle, high) if excess(middle) <= 0 else (low, middle)
    return high


def _sum_of_terms(
    scores: NDArray[np.int64], frequencies: NDArray[np.float64], lambda_: float
) -> float | None:
    """The sum over k >= 1 of (P(S >= 0) + E(exp(lambda S); S < 0)) / k, where S is the score of k pairs.

    None if it takes too long. The distribution of S is kept on the lattice of the scores that occur.
    """
    lowest = int(scores[0])
    step = int(np.gcd.reduce(scores - lowest))
    places = (scores - lowest) // step
    if places[-1] > _MAX_TERMS:
        return None
    of_pair = np.zeros(int(places[-1]) + 1)
    of_pair[places] = frequencies
    of_sum, total, work = np.ones(1), 0.0, 0
    for count in range(1, _MAX_TERMS + 1):
        work += len(of_sum) * len(of_pair)
        if work > _MAX_WORK:
            return None
        of_sum = np.convolve(of_sum, of_pair)
        sums = count * lowest + step * np.arange(len(of_sum))
        term = float(of_sum @ np.exp(lambda_ * np.minimum(sums, 0))) / count
        total += term
        if term < _MIN_TERM:
            return total
    return None
