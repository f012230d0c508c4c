"""Which letters are the same: decided by codes, against a rule about letters."""

from __future__ import annotations

import pytest

from longalign.model.alignment import Alignment, Op
from longalign.model.alphabet import DNA, is_nucleotides
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.statistics import statistics
from longalign.model.substitution_matrix import SubstitutionMatrix


def with_matrix(letters: str, **rules: object) -> Scoring:
    """Every pair scores 1, so that scores tell no letters apart."""
    matrix = SubstitutionMatrix("ones", letters, ((1,) * len(letters),) * len(letters))
    return Scoring(matrix=matrix, gap_open=2, gap_extend=1, **rules)  # type: ignore[arg-type]


NUCLEOTIDES = "RYSWKMBDHVN"

SCORINGS = [
    (Scoring(), NUCLEOTIDES),
    (Scoring(ambiguous="zero"), NUCLEOTIDES),
    (Scoring(ambiguous="average"), NUCLEOTIDES),
    (with_matrix("NACGT"), "N"),
    (with_matrix("ATGCSWRYKMBVHDN"), NUCLEOTIDES),
    (with_matrix("ACGU"), ""),
    (with_matrix("ACGT", unknown="mismatch"), "BDEFHIJKLMNOPQRSVWXYZ*"),
    (with_matrix("ARNDX"), "X"),
    (with_matrix("ARNDX", unknown="x"), "X"),
    (with_matrix("ARNDX", unknown="mismatch"), "BCEFGHIJKLMOPQSTUVWXYZ*"),
    (with_matrix("AB"), ""),
    (Scoring(preset="lastz", unknown="mismatch"), "BDEFHIJKLMNOPQRSVWXYZ*"),
]


@pytest.mark.parametrize(("scoring", "ambiguous"), SCORINGS, ids=lambda value: str(value)[:60])
def test_ambiguous_letters_are_the_same_as_none(scoring: Scoring, ambiguous: str) -> None:
    alphabet = scoring.alphabet
    assert set(alphabet.ambiguous) == set(ambiguous)
    letters = alphabet.letters
    query = Sequence.from_letters("q", "".join(a for a in letters for _ in letters), alphabet=alphabet)
    target = Sequence.from_letters("t", letters * len(letters), alphabet=alphabet)
    same = alphabet.are_same(query.as_query(), target.as_target())
    has_u = scoring.matrix is None or is_nucleotides(scoring.matrix.letters)
    read_as = str.maketrans({"U": "T"} if has_u else {})
    expected = [
        a.translate(read_as) == b.translate(read_as) and a not in ambiguous for a in letters for b in letters
    ]
    assert same.tolist() == expected


def test_letters_that_were_masked_or_replaced_do_not_match() -> None:
    scoring = with_matrix("ARNDX", unknown="x", softmask=True)
    query, target = (Sequence.from_letters(name, "ArXWnD", alphabet=scoring.alphabet) for name in "qt")
    alignment = Alignment.from_runs(query, target, scoring, "global", 6, (0, 0), [Op.DIAGONAL], [6])
    alignment.check()
    assert (alignment.cigar, alignment.matches, statistics(alignment).longest_match) == ("1=4X1=", 2, 1)


def test_the_alphabet_of_nucleotides_names_its_ambiguous_letters() -> None:
    assert DNA.ambiguous == NUCLEOTIDES
