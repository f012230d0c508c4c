"""What a path can still gain from each cell on, and bounds of it, computed from their definitions.

For short sequences: whole DP matrices, and words that are looked for in texts.
"""

from __future__ import annotations

from longalign.backends.base import Rectangle
from longalign.model.alphabet import Codes
from longalign.model.boundary import local_edges
from longalign.model.scoring import Scoring
from longalign.testing.reference import letter_score, matrices

Values = list[list[int]]


def true_gains(query: Codes, target: Codes, scoring: Scoring) -> tuple[Values, Values, Values]:
    """The most that a path in H, E and F gains from each boundary (i, j) on, wherever it ends.

    Lists of m + 1 rows of n + 1 values, all at least 0. A path from (i, j) on, read backwards, is a path to a
    cell of the reversed sequences. The best of them is H of that cell in local mode. In a gap that is open
    already, the last gap of the reversed path, its first one here, does not have to pay alpha.
    """
    rows, cols = len(query), len(target)
    h, e, f = matrices(Rectangle(query[::-1], target[::-1], scoring, *local_edges(rows, cols), local=True))

    def forward(values: Values) -> Values:
        return [row[::-1] for row in values[::-1]]

    def in_gap(gaps: Values) -> Values:
        return [
            [max(best, gap + scoring.gap_open) for best, gap in zip(*both, strict=True)]
            for both in zip(h, gaps, strict=True)
        ]

    return forward(h), forward(in_gap(e)), forward(in_gap(f))


def plain_gains(query: Codes, target: Codes, scoring: Scoring) -> list[int]:
    """The most that the query's letters from each place on can gain, each letter by itself."""
    gains = [0]
    for a in query[::-1]:
        best = max((letter_score(int(a), int(b), scoring) for b in {*target.tolist()}), default=0)
        gains.append(gains[-1] + max(0, best))
    return gains[::-1]
