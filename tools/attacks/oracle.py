"""An independent oracle: scores and end cells by NumPy along anti-diagonals, and re-scored alignments.

It shares no arithmetic with longalign. Paths to the cell H[i, j] use the first i query and j target letters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from longalign.model.mode import Mode
from longalign.model.scoring import Scoring

_UNREACHABLE = -(1 << 60)


@dataclass(frozen=True)
class End:
    """The optimal score and the end cell of its alignment; all 0 if nothing aligns in a mode that ends in
    any cell."""

    score: int
    i: int
    j: int


def pair_score(a: str, b: str, scoring: Scoring) -> int:
    """The score of two upper-case letters. U equals T, and ambiguous letters match nothing."""
    if scoring.matrix is not None:
        letters = scoring.matrix.letters
        return int(scoring.matrix.scores[letters.index(a)][letters.index(b)])
    a, b = a.replace("U", "T"), b.replace("U", "T")
    return int(scoring.match if a == b and a in "ACGT" else scoring.mismatch)


def gap_cost(length: int, scoring: Scoring) -> int:
    return int(scoring.gap_open + length * scoring.gap_extend) if length else 0


def find_end(query: str, target: str, scoring: Scoring, mode: Mode) -> End:
    """The end cell: of all cells with the optimal score, that with the lowest i + j, then the largest j."""
    m, n, ends, local = len(query), len(target), mode.ends, mode.starts_anywhere
    scores = _Scores(query, target, scoring)
    opening, extending = scoring.gap_open + scoring.gap_extend, scoring.gap_extend
    costs = np.arange(m + n + 1, dtype=np.int64) * extending + scoring.gap_open

    def outer(length: int, is_free: bool) -> int:
        return 0 if is_free or length == 0 else -int(costs[length])

    def may_end(i: int, j: int) -> bool:
        return (i == m or (ends.query_end and j == n)) and (j == n or (ends.target_end and i == m))

    best = End(0, 0, 0) if ends.ends_anywhere or may_end(0, 0) else None
    # Indexed by row i: H on the anti-diagonals d - 1 and d - 2, and E and F on d - 1. E is the vertical gap
    # (a query letter against a gap), F the horizontal one.
    h1, h2, e, f = (np.full(m + 1, _UNREACHABLE, np.int64) for _ in range(4))
    h1[0] = 0
    for d in range(1, m + n + 1):
        low, high = max(1, d - n), min(m, d - 1)
        rows, above = slice(low, high + 1), slice(low - 1, high)
        new_e = np.maximum(h1[above] - opening, e[above] - extending)
        new_f = np.maximum(h1[rows] - opening, f[rows] - extending)
        h = np.maximum(np.maximum(new_e, new_f), h2[above] + scores.along(d, low, high))
        if local:
            np.maximum(h, 0, out=h)
        e[rows], f[rows] = new_e, new_f
        h2, h1 = h1, np.full(m + 1, _UNREACHABLE, np.int64)
        h1[rows] = h
        if d <= n:
            h1[0], e[0] = outer(d, ends.target_start), _UNREACHABLE
        if d <= m:
            h1[d], e[d], f[d] = outer(d, ends.query_start), _UNREACHABLE, _UNREACHABLE
        if ends.ends_anywhere:
            candidates = [low + int(h.argmax())] if len(h) else []
        else:
            candidates = [i for i in {d - n, m} if 0 <= i <= d and may_end(i, d - i)]
        for i in sorted(candidates):  # the largest j first
            if best is None or h1[i] > best.score:
                best = End(int(h1[i]), i, d - i)
    assert best is not None
    return best


class _Scores:
    """The scores of the letter pairs along an anti-diagonal."""

    def __init__(self, query: str, target: str, scoring: Scoring) -> None:
        letters = sorted({*query, *target})
        table = [[pair_score(a, b, scoring) for b in letters] for a in letters]
        self._table = np.array(table, np.int64)
        self._query, self._target = (_places(text, letters) for text in (query, target))

    def along(self, d: int, low: int, high: int) -> NDArray[np.int64]:
        rows = self._query[low - 1 : high]
        cols = self._target[d - high - 1 : d - low][::-1]
        return self._table[rows, cols]


def _places(text: str, letters: list[str]) -> NDArray[np.intp]:
    table = np.zeros(256, np.intp)
    table[np.frombuffer("".join(letters).encode(), np.uint8)] = range(len(letters))
    return table[np.frombuffer(text.encode(), np.uint8)]


@dataclass(frozen=True)
class Path:
    """The score of an alignment, and its end cell."""

    score: int
    i: int
    j: int


def follow(query: str, target: str, start: tuple[int, int], cigar: str, scoring: Scoring) -> Path:
    """Re-score a CIGAR of =, X, I and D letter by letter. Raises ValueError if it contradicts the letters."""
    (i, j), score = start, 0
    columns = [(int(length), op) for length, op in re.findall(r"(\d+)(.)", cigar)]
    if "".join(f"{length}{op}" for length, op in columns) != cigar:
        raise ValueError(f"not a CIGAR: {cigar[:60]}")
    for op, runs in groupby(columns, key=lambda column: column[1]):
        length = sum(run for run, _ in runs)
        if op in "ID":
            score -= gap_cost(length, scoring)
            i, j = i + length * (op == "I"), j + length * (op == "D")
            continue
        for a, b in zip(query[i : i + length], target[j : j + length], strict=True):
            score += pair_score(a, b, scoring)
            if _same(a, b, scoring) != (op == "="):
                raise ValueError(f"{op} for {a} and {b} before ({i}, {j})")
        i, j = i + length, j + length
    if i > len(query) or j > len(target):
        raise ValueError(f"the alignment ends in ({i}, {j}), outside the DP matrix")
    return Path(score, i, j)


def _same(a: str, b: str, scoring: Scoring) -> bool:
    """Whether two letters are the same. Ambiguous ones are not: those of DNA, and X of proteins."""
    if scoring.matrix is not None:
        return a == b != "X"
    a, b = a.replace("U", "T"), b.replace("U", "T")
    return a == b and a in "ACGT"
