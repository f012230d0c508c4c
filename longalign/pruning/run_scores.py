"""The score of each run of operations of a path, from the letters alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Kernel
from longalign.backends.cpu.jit import compile_entry, compiled_once
from longalign.backends.substitution_tables import PITCH, table_of
from longalign.model.alignment import Lengths, Op, Ops, letters_of_runs
from longalign.model.alphabet import Codes
from longalign.model.scoring import Scoring
from longalign.system.threads import in_threads

#: About how many letters of runs are scored in one call.
_LETTERS_A_CALL = 1 << 20

_INSERTION, _DELETION = int(Op.INSERTION), int(Op.DELETION)


def scores_of_runs(
    query: Codes, target: Codes, scoring: Scoring, start: tuple[int, int], ops: Ops, lengths: Lengths
) -> NDArray[np.int64]:
    """The scaled scores of runs of M, =, X, I and D, the first of which begins in the cell `start`.

    No run is empty, and no gap is in two runs. Raises ValueError if the runs leave the matrix.
    """
    scores, table, scorer = np.zeros(len(ops), np.int64), table_of(scoring), _scorer()
    down, right = letters_of_runs(ops, lengths)
    rows, cols = start[0] + np.cumsum(down), start[1] + np.cumsum(right)

    def score(first: int, end: int) -> bool:
        i, j = (rows[first - 1], cols[first - 1]) if first else start
        numbers = np.array([i, j, scoring.gap_open, scoring.gap_extend], np.int64)
        return scorer(query, target, table, numbers, ops[first:end], lengths[first:end], scores[first:end])

    ends = np.cumsum(lengths)
    shares = np.arange(_LETTERS_A_CALL, int(lengths.sum()), _LETTERS_A_CALL)
    cuts = [0, *np.unique(np.searchsorted(ends, shares)).tolist(), len(ops)]
    if not all(in_threads(score, cuts[:-1], cuts[1:])):
        raise ValueError("runs of operations leave the matrix")
    return scores


def _score(query: Any, target: Any, table: Any, numbers: Any, ops: Any, lengths: Any, scores: Any) -> bool:
    i, j = numbers[0], numbers[1]
    for k in range(len(ops)):
        op, length = ops[k], lengths[k]
        down, right = op != _DELETION, op != _INSERTION
        if i + down * length > len(query) or j + right * length > len(target):
            return False
        score = -(numbers[2] + length * numbers[3])
        if down and right:
            score = 0
            for x in range(length):
                score += table[query[i + x] * PITCH + target[j + x]]
        scores[k] = score
        i += down * length
        j += right * length
    return True


@compiled_once
def _scorer() -> Callable[..., bool]:
    codes, numbers = np.zeros(1, np.uint8), np.zeros(1, np.int64)
    examples = [codes, codes, np.zeros(1, np.int32), numbers, codes, numbers, numbers]
    return compile_entry(_score, "scores of runs", examples)


def kernels() -> list[Kernel]:
    """What is compiled here."""
    return [Kernel("scores of runs", _scorer)]
