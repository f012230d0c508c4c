"""The substitution matrices of several scorings, laid out for compiled code."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from longalign.model.boundary import IntArray
from longalign.model.scoring import Scoring
from longalign.model.substitution_matrix import LARGEST_ALPHABET

#: Distance between the scores of one query letter and of the next, and the number of rows of a table.
PITCH = LARGEST_ALPHABET

#: The offset for a scoring without a substitution matrix.
NO_MATRIX = -1


def lay_out(scorings: Iterable[Scoring]) -> tuple[IntArray, list[int]]:
    """All substitution matrices end to end, each once, and the offset of each scoring's matrix.

    The first is int32 of shape (PITCH * PITCH * matrices,), never empty, and 0 where there are no letters.
    """
    scorings = list(scorings)
    places = {scoring.matrix: 0 for scoring in scorings if scoring.matrix is not None}
    flat = np.zeros((max(1, len(places)), PITCH, PITCH), np.int32)
    for number, matrix in enumerate(places):
        places[matrix] = number * PITCH * PITCH
        flat[number, : len(matrix.letters), : len(matrix.letters)] = matrix.scores
    begins = [NO_MATRIX if scoring.matrix is None else places[scoring.matrix] for scoring in scorings]
    return flat.reshape(-1), begins
