"""Scores by other people's programs, to hold the recurrence itself against.

Both charge a gap of length k `open + (k - 1) * extend`, so open is gap_open + gap_extend here. Of
parasail only the serial and the `scan` kernels are used: `striped` is wrong where open == extend.
"""

from __future__ import annotations

from functools import cache

import parasail
from Bio.Align import PairwiseAligner

from longalign.backends.base import Codes
from longalign.scoring import Scoring

# Letters of codes 0-5. Ambiguous is N in a query and R in a target: two letters, so they never match.
LETTERS = "ACGTNR"


def spell(codes: Codes) -> str:
    """Codes as letters that longalign and both oracles read."""
    return "".join(LETTERS[code] for code in codes)


def parasail_score(query: Codes, target: Codes, scoring: Scoring, local: bool, kernel: str = "") -> int:
    """The score by a parasail kernel: serial, or "scan_32"."""
    align = getattr(parasail, "_".join(filter(None, ["sw" if local else "nw", kernel])))
    opening = scoring.gap_open + scoring.gap_extend
    matrix = _parasail_matrix(scoring.match, scoring.mismatch)
    result = align(spell(query), spell(target), opening, scoring.gap_extend, matrix)
    assert not result.saturated
    return result.score


@cache
def _parasail_matrix(match: int, mismatch: int) -> parasail.Matrix:
    return parasail.matrix_create(LETTERS, match, mismatch)


def biopython_score(query: Codes, target: Codes, scoring: Scoring, local: bool) -> int:
    """The score by Biopython's PairwiseAligner, which computes in floating point."""
    aligner = PairwiseAligner(
        mode="local" if local else "global",
        match_score=scoring.match,
        mismatch_score=scoring.mismatch,
        open_gap_score=-(scoring.gap_open + scoring.gap_extend),
        extend_gap_score=-scoring.gap_extend,
    )
    return round(aligner.score(spell(target), spell(query)))
