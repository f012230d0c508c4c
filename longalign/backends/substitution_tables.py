"""The costs of a scoring, and the tables of letter scores of several scorings, for compiled code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from longalign.model.boundary import IntArray
from longalign.model.scoring import Scoring
from longalign.model.substitution_matrix import LARGEST_ALPHABET

#: The number of rows and of columns of a table, whatever the size of its alphabet. A row holds the scores of
#: one query letter.
PITCH = LARGEST_ALPHABET


class PairCosts(NamedTuple):
    """`match` and `mismatch`, each plus alpha + beta, which count only without a table; alpha + beta; beta.

    Kernels that keep H - alpha - beta instead of H add alpha + beta to the scores of letter pairs.
    """

    match: int | np.int32
    mismatch: int | np.int32
    opening: int | np.int32
    extend: int | np.int32

    @classmethod
    def of(cls, scoring: Scoring) -> PairCosts:
        opening = scoring.opening
        return cls(scoring.match + opening, scoring.mismatch + opening, opening, scoring.gap_extend)


def table_of(scoring: Scoring) -> IntArray:
    """The scaled scores of all letter pairs: int32 of shape (PITCH * PITCH,). A row is a query letter's.

    A scoring without a table gets one of match and mismatch.
    """
    if scoring.table is not None:
        return lay_out([scoring])[0]
    table = np.full((PITCH, PITCH), scoring.mismatch, np.int32)
    np.fill_diagonal(table, scoring.match)
    return table.reshape(-1)


def lay_out(scorings: Iterable[Scoring]) -> tuple[IntArray, list[int]]:
    """All different tables end to end, and the offset of each scoring's table.

    The array is int32 of shape (PITCH * PITCH * tables,), and has room for one table if there is none. It is
    0 outside the alphabets. The offset is 0 for a scoring without a table, which needs none.
    """
    scorings = list(scorings)
    places = {scoring.table: 0 for scoring in scorings if scoring.table is not None}
    flat = np.zeros((max(1, len(places)), PITCH, PITCH), np.int32)
    for number, table in enumerate(places):
        places[table] = number * PITCH * PITCH
        flat[number, : len(table), : len(table)] = table.scores
    return flat.reshape(-1), [0 if scoring.table is None else places[scoring.table] for scoring in scorings]
