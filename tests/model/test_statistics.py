"""Statistics of alignments, against a loop over their columns."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import numpy as np
import pytest
from alignments import LETTERS, Case, cases
from hypothesis import given
from hypothesis import strategies as st

from longalign.model.alignment import Alignment, Op
from longalign.model.karlin_altschul import NOT_LOCAL, NOT_THE_BEST, NOTHING_ALIGNED, UNKNOWN, Significance
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.statistics import _mismatches, statistics
from longalign.model.substitution_matrix import SubstitutionMatrix

PURINES, PYRIMIDINES = set("AG"), set("CT")


def kind(a: str, b: str) -> str:
    if "-" in (a, b):
        return "insertion" if b == "-" else "deletion"
    if a == b and a in "ACGT":
        return "match"
    if not {a, b} <= set("ACGT"):
        return "ambiguous"
    return "transition" if {a, b} in (PURINES, PYRIMIDINES) else "transversion"


@given(cases())
def test_everything_agrees_with_a_loop_over_the_columns(case: Case) -> None:
    found = statistics(case.alignment())
    kinds = [kind(a, b) for a, b in case.columns()]
    runs = [(name, len(list(run))) for name, run in groupby(kinds)]
    gaps = [(name, length) for name, length in runs if name in ("insertion", "deletion")]
    count = kinds.count
    mismatches = count("transition") + count("transversion") + count("ambiguous")
    assert (found.columns, found.matches, found.mismatches) == (len(kinds), count("match"), mismatches)
    assert found.transitions == count("transition")
    assert found.transversions == count("transversion")
    assert found.ambiguous_pairs == count("ambiguous")
    assert found.insertions == len([name for name, _ in gaps if name == "insertion"])
    assert found.deletions == len([name for name, _ in gaps if name == "deletion"])
    assert (found.inserted_letters, found.deleted_letters) == (count("insertion"), count("deletion"))
    assert found.longest_match == max((length for name, length in runs if name == "match"), default=0)
    assert found.longest_gap == max((length for _, length in gaps), default=0)
    pairs = count("match") + mismatches
    assert found.identity == count("match") / len(kinds)
    assert found.identity_without_gaps == (count("match") / pairs if pairs else 0)
    assert found.identity_gap_compressed == count("match") / (pairs + len(gaps))
    assert found.query_coverage == (len(kinds) - count("deletion")) / case.query.length if pairs else True
    assert found.target_coverage == (len(kinds) - count("insertion")) / case.target.length if pairs else True


@given(cases(), st.integers(1, 5))
def test_mismatches_are_the_same_however_they_are_cut(case: Case, chunk: int) -> None:
    alignment = case.alignment()
    parts = list(_mismatches(alignment, chunk))
    assert all(len(query) == len(target) == chunk for query, target in parts[:-1])
    pairs = [pair for part in parts for pair in zip(*part, strict=True)]
    code_of = dict(zip(b"ACGTU", (0, 1, 2, 3, 3), strict=True))
    expected = []
    i, j = case.start
    for op in case.operations():
        if op == "X":
            letters = case.query.strand_letters[i], case.target.letters[j]
            expected.append(tuple(code_of.get(letter, 4) for letter in letters))
        i, j = i + (op != "D"), j + (op != "I")
    assert pairs == expected


def test_letters_in_either_case_and_u_are_known() -> None:
    assert set(LETTERS.upper()) > set("ACGTUN")
    query, target = Sequence.from_letters("q", "uCgA"), Sequence.from_letters("t", "cUtn")
    alignment = Alignment.from_runs(query, target, Scoring(), "global", -12, (0, 0), [Op.DIAGONAL], [4])
    found = statistics(alignment)
    assert (found.transitions, found.transversions, found.ambiguous_pairs) == (2, 1, 1)


def test_an_empty_alignment_has_statistics() -> None:
    query, target = Sequence.from_letters("q", ""), Sequence.from_letters("t", "")
    found = statistics(Alignment.from_runs(query, target, Scoring(), "global", 0, (0, 0), [], []))
    assert (found.columns, found.matches, found.insertions, found.longest_gap, found.longest_match) == (
        0,
    ) * 5
    assert (found.identity, found.identity_without_gaps, found.query_coverage) == (0, 0, 0)


def protein(gap_open: int, mode: str = "local") -> Alignment:
    scoring = Scoring(matrix=SubstitutionMatrix.load("BLOSUM62"), gap_open=gap_open, gap_extend=1)
    query, target = (Sequence.from_letters(name, "MKVW", alphabet=scoring.alphabet) for name in "qt")
    return Alignment.from_runs(query, target, scoring, mode, 25, (0, 0), [Op.DIAGONAL], [4])  # type: ignore[arg-type]


def test_a_matrix_of_nucleotides_has_transitions_too() -> None:
    """Whatever the order of its letters, and with letters that it lacks."""
    pair = "AAAACCCCNGGGTTTTAAAACCCC", "AAAACTCCGGCGTTTTAACACCCC"
    for name in ("HOXD70", "NUC.4.4"):
        matrix = SubstitutionMatrix.load(name)
        scoring = Scoring(matrix=matrix, gap_open=400, gap_extend=30, unknown="mismatch")
        query, target = (Sequence.from_letters("s", side, alphabet=scoring.alphabet) for side in pair)
        runs = [Op.DIAGONAL], [len(query.letters)]
        found = statistics(Alignment.from_runs(query, target, scoring, "global", 0, (0, 0), *runs))
        assert (found.transitions, found.transversions, found.ambiguous_pairs) == (1, 2, 1)


def test_proteins_have_no_transitions() -> None:
    found = statistics(protein(11))
    assert (found.transitions, found.transversions, found.ambiguous_pairs) == (None, None, None)


def test_significance_is_that_of_the_best_local_alignment() -> None:
    found = statistics(protein(11)).significance
    assert isinstance(found, Significance)
    assert found.bit_score == pytest.approx((0.267 * 25 - np.log(0.041)) / np.log(2))
    assert found.e_value == pytest.approx(4 * 4 / 2**found.bit_score)


def test_why_significance_is_not_known() -> None:
    assert statistics(protein(11, "global")).significance == NOT_LOCAL
    assert statistics(protein(5)).significance == UNKNOWN
    given_end = protein(11)
    object.__setattr__(given_end, "end_given", True)
    assert statistics(given_end).significance == NOT_THE_BEST
    ends = dict.fromkeys(("query_start", "query_end", "target_start", "target_end"), 0)
    nothing = replace(protein(11), ops=np.empty(0, np.uint8), lengths=np.empty(0, np.int64), score=0, **ends)
    assert statistics(nothing).significance == NOTHING_ALIGNED
