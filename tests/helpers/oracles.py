"""Scores by independent programs (parasail, Biopython), with which the recurrence is compared.

Both charge a gap of length k `open + (k - 1) * extend`, so open is gap_open + gap_extend here. Of
parasail only the serial and the `scan` kernels are used: `striped` is wrong where open == extend.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import parasail
from Bio.Align import PairwiseAligner
from Bio.Align.substitution_matrices import Array

from longalign.model.alphabet import Codes
from longalign.model.scoring import Scoring

# Letters of codes 0-5. Ambiguous is N in a query and R in a target: two letters, so they never match.
LETTERS = "ACGTNR"


def spell(codes: Codes, scoring: Scoring | None = None) -> str:
    """Codes as letters that longalign and both oracles read: DNA, or those of a matrix."""
    letters = LETTERS if scoring is None or scoring.matrix is None else scoring.matrix.letters
    return "".join(letters[code] for code in codes)


def parasail_score(query: Codes, target: Codes, scoring: Scoring, local: bool, kernel: str = "") -> int:
    """The score by a parasail kernel: serial, or "scan_32"."""
    align = getattr(parasail, "_".join(filter(None, ["sw" if local else "nw", kernel])))
    opening = scoring.gap_open + scoring.gap_extend
    matrix = _parasail_matrix(scoring)
    result = align(spell(query, scoring), spell(target, scoring), opening, scoring.gap_extend, matrix)
    assert not result.saturated
    return result.score


@cache
def _parasail_matrix(scoring: Scoring) -> parasail.Matrix:
    """parasail's own copy of a named substitution matrix, or a matrix of match and mismatch."""
    if scoring.matrix is not None:
        return parasail.Matrix(scoring.matrix.name.lower())
    return parasail.matrix_create(LETTERS, scoring.match, scoring.mismatch)


def biopython_score(query: Codes, target: Codes, scoring: Scoring, local: bool) -> int:
    """The score by Biopython's PairwiseAligner, which computes in floating point."""
    aligner = PairwiseAligner(
        mode="local" if local else "global",
        open_gap_score=-(scoring.gap_open + scoring.gap_extend),
        extend_gap_score=-scoring.gap_extend,
    )
    if scoring.matrix is None:
        aligner.match_score, aligner.mismatch_score = scoring.match, scoring.mismatch
    else:  # its rows are letters of the sequence that is given first
        scores = np.array(scoring.matrix.scores, float).T
        aligner.substitution_matrix = Array(scoring.matrix.letters, dims=2, data=scores)
    return round(aligner.score(spell(target, scoring), spell(query, scoring)))
