"""The score of a letter pair by codes as a table, and the score of runs of operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Kernel
from longalign.backends.cpu.jit import compile_entry, compiled_once
from longalign.backends.substitution_tables import PITCH, lay_out
from longalign.model.alignment import Lengths, Op, Ops
from longalign.model.alphabet import Codes
from longalign.model.boundary import IntArray
from longalign.model.scoring import Scoring

_INSERTION, _DELETION = int(Op.INSERTION), int(Op.DELETION)


def table_of(scoring: Scoring) -> IntArray:
    """The scores of letter pairs, scaled: int32 of shape (PITCH * PITCH,); row = code of the query letter."""
    if scoring.table is not None:
        return lay_out([scoring])[0]
    table = np.full((PITCH, PITCH), scoring.mismatch, np.int32)
    np.fill_diagonal(table, scoring.match)
    return table.reshape(-1)


def score_of_runs(
    query: Codes, target: Codes, scoring: Scoring, start: tuple[int, int], ops: Ops, lengths: Lengths
) -> int:
    """The scaled score of runs of M, =, X, I and D from a cell of the DP matrix on, from the letters alone.

    Neighbouring operations differ. Raises ValueError if the runs leave the matrix.
    """
    [score] = scores_of_pieces(query, target, scoring, [start], ops, lengths, np.array([0, len(ops)]))
    return int(score)


def scores_of_pieces(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    starts: object,
    ops: Ops,
    lengths: Lengths,
    bounds: NDArray[np.int64],
) -> NDArray[np.int64]:
    """The scaled scores of pieces of paths. `starts` has the shape (pieces, 2).

    Piece p has the runs bounds[p] <= k < bounds[p + 1].
    """
    places = np.ascontiguousarray(np.asarray(starts, np.int64).reshape(-1, 2))
    scores = np.zeros(len(places), np.int64)
    costs = np.array([scoring.gap_open, scoring.gap_extend], np.int64)
    inside = _scorer()(query, target, table_of(scoring), costs, places, ops, lengths, bounds, scores)
    if not inside:
        raise ValueError("runs of operations leave the matrix")
    return scores


def _score(
    query: Any, target: Any, table: Any, costs: Any, starts: Any, ops: Any, lengths: Any, bounds: Any,
    scores: Any,
) -> bool:  # fmt: skip
    for piece in range(len(starts)):
        i, j, score = starts[piece, 0], starts[piece, 1], 0
        for k in range(bounds[piece], bounds[piece + 1]):
            op, length = ops[k], lengths[k]
            down, right = op != _DELETION, op != _INSERTION
            if i + down * length > len(query) or j + right * length > len(target):
                return False
            if down and right:
                for x in range(length):
                    score += table[query[i + x] * PITCH + target[j + x]]
            else:
                score -= costs[0] + length * costs[1]
            i += down * length
            j += right * length
        scores[piece] = score
    return True


@compiled_once
def _scorer() -> Callable[..., bool]:
    codes, numbers = np.zeros(1, np.uint8), np.zeros(1, np.int64)
    examples = [codes, codes, np.zeros(1, np.int32), numbers, numbers.reshape(1, 1)]
    return compile_entry(_score, "score of runs", [*examples, codes, numbers, numbers, numbers])


def kernels() -> list[Kernel]:
    """What is compiled here."""
    return [Kernel("score of runs", _scorer)]
