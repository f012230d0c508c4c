"""Scores by independent programs (parasail, Biopython), with which the recurrence is compared.

Both charge a gap of length k `open + (k - 1) * extend`, so open is gap_open + gap_extend here. Of
parasail only the serial and the `scan` kernels are used: `striped` is wrong where open == extend.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import parasail
from Bio.Align import PairwiseAligner
from Bio.Align.substitution_matrices import Array
from Bio.Seq import Seq

from longalign.model.alphabet import Codes
from longalign.model.mode import GLOBAL, LOCAL, FreeEnds, Mode
from longalign.model.scoring import Scoring

# Letters of codes 0-5. Ambiguous is N in a query and R in a target: two letters, so they never match.
LETTERS = "ACGTNR"

#: The mode of a rectangle that is a whole matrix, by its flag `local`.
MODE_OF = {True: LOCAL, False: GLOBAL}


def spell(codes: Codes, scoring: Scoring | None = None) -> str:
    """Codes as letters that longalign and both oracles read: DNA, or those of a matrix."""
    letters = LETTERS if scoring is None or scoring.matrix is None else scoring.matrix.letters
    return "".join(letters[code] for code in codes)


def reverse_complement(letters: str) -> str:
    """The other strand of DNA with IUPAC letters, by Biopython."""
    return str(Seq(letters).reverse_complement())


def parasail_score(query: Codes, target: Codes, scoring: Scoring, mode: Mode, kernel: str = "") -> int:
    """The score by a parasail kernel: serial, or "scan_32"; of sequences with letters."""
    texts = spell(query, scoring), spell(target, scoring)
    costs = scoring.gap_open + scoring.gap_extend, scoring.gap_extend, _parasail_matrix(scoring)

    def aligned(name: str) -> parasail.Result:
        result = getattr(parasail, "_".join(filter(None, [name, kernel])))(*texts, *costs)
        assert not result.saturated
        return result

    if mode.starts_anywhere:
        return aligned("sw").score
    name, ends = _parasail_name(mode.ends), mode.ends
    # parasail does not look for the end on the edges on which paths start.
    on_edges = [0] if mode.ends_anywhere else []
    if ends.target_end:
        on_edges.append(0 if ends.query_start else -scoring.gap_open - len(query) * scoring.gap_extend)
    if ends.query_end:
        on_edges.append(0 if ends.target_start else -scoring.gap_open - len(target) * scoring.gap_extend)
    if not mode.ends_anywhere and hasattr(parasail, name):
        return max([aligned(name).score, *on_edges])
    # Three free ends, or an end anywhere: parasail has no function that looks for it, but the whole matrix.
    result = aligned(
        f"{_parasail_name(replace(ends, query_end=False, target_end=False, ends_anywhere=False))}_table"
    )
    h = result.score_table
    candidates = [h if ends.ends_anywhere else h[-1, -1]]
    candidates += [h[-1]] * ends.target_end + [h[:, -1]] * ends.query_end
    return max(int(np.max(np.hstack([cells.ravel() for cells in candidates]))), *on_edges)


def _parasail_name(ends: FreeEnds) -> str:
    """The name of parasail's function for free ends; it has none for three of them."""
    kinds = {(False, False): "", (True, False): "b", (False, True): "e", (True, True): "x"}
    query, target = kinds[ends.query_start, ends.query_end], kinds[ends.target_start, ends.target_end]
    if (query, target) == ("x", "x"):
        return "sg"
    parts = [f"q{query}"] * bool(query) + [f"d{target}"] * bool(target)
    return "_".join(["sg", *parts]) if parts else "nw"


@cache
def _parasail_matrix(scoring: Scoring) -> parasail.Matrix:
    """parasail's own copy of a named substitution matrix, or a matrix of match and mismatch."""
    if scoring.matrix is not None:
        return parasail.Matrix(scoring.matrix.name.lower())
    assert scoring.ambiguous != "average"
    matrix = parasail.matrix_create(LETTERS, scoring.match, scoring.mismatch)
    if scoring.ambiguous == "zero":
        everywhere, ambiguous = slice(0, matrix.size), slice(4, matrix.size)
        matrix[everywhere, ambiguous] = matrix[ambiguous, everywhere] = 0
    return matrix


def biopython_score(query: Codes, target: Codes, scoring: Scoring, mode: Mode) -> int:
    """The score by Biopython's PairwiseAligner, which computes in floating point, and has no extension."""
    assert mode.starts_anywhere or not mode.ends_anywhere
    aligner = PairwiseAligner(
        mode="local" if mode.starts_anywhere else "global",
        open_gap_score=-(scoring.gap_open + scoring.gap_extend),
        extend_gap_score=-scoring.gap_extend,
    )
    if not mode.starts_anywhere:
        for end, side in (("start", "left"), ("end", "right")):
            for sequence, gap in (("query", "insertion"), ("target", "deletion")):
                if getattr(mode.ends, f"{sequence}_{end}"):
                    setattr(aligner, f"{side}_{gap}_score", 0)
    if scoring.matrix is None:
        aligner.match_score, aligner.mismatch_score = scoring.match, scoring.mismatch
    else:  # its rows are letters of the sequence that is given first
        scores = np.array(scoring.matrix.scores, float).T
        aligner.substitution_matrix = Array(scoring.matrix.letters, dims=2, data=scores)
    # `aligner.score` is wrong for linear gaps with free ends (Biopython 1.88).
    return round(aligner.align(spell(target, scoring), spell(query, scoring)).score)
