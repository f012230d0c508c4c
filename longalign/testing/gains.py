"""What a path can still gain from each cell on, and bounds of it, computed from their definitions.

For short sequences: whole DP matrices, and words that are looked for in texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from longalign.model.alphabet import Codes
from longalign.model.mode import LOCAL, FreeEnds, Mode
from longalign.model.pruning import NO_ANCHORS, Anchors, RowLimits
from longalign.model.scoring import Scoring
from longalign.phases.problem import Problem
from longalign.testing.reference import matrices

Values = list[list[int]]

#: Query letters and target letters before a stretch of letter pairs, and the number of these pairs.
Steps = Sequence[tuple[int, int, int]]


def steps() -> st.SearchStrategy[Steps]:
    """How to make anchors of any pair of sequences with `anchors_of`."""
    few = st.one_of(st.just(0), st.integers(0, 8))
    return st.lists(st.tuples(few, few, st.integers(1, 20)), max_size=6)


def anchors_of(steps: Steps, rows: int, cols: int) -> Anchors:
    """The stretches that `steps` make, as far as they lie in a matrix of `rows` x `cols` letters."""
    anchors, row, col = [], 0, 0
    for down, right, pairs in steps:
        row, col = row + down, col + right
        length = min(pairs, rows - row, cols - col)
        if length <= 0:
            break
        anchors.append((row, row + length, col, col + length))
        row, col = row + length, col + length
    return np.array(anchors, np.int64) if anchors else NO_ANCHORS


def true_gains(
    query: Codes, target: Codes, scoring: Scoring, ends: FreeEnds = LOCAL.ends
) -> tuple[Values, Values, Values]:
    """The most that a path in H, E and F gains from each boundary (i, j) on, to where it may end.

    Lists of m + 1 rows of n + 1 values. A path from (i, j) on, read backwards, is a path to a cell of the
    reversed sequences. The best of them has the value of H of that cell, in the mode that starts where these
    paths end. A path in E or F at (i, j) is in a gap already. Read backwards, this gap is the last one, and
    costs no alpha.
    """
    backwards = FreeEnds(
        query_start=ends.query_end, target_start=ends.target_end, starts_anywhere=ends.ends_anywhere
    )
    problem = Problem.of_codes(query[::-1], target[::-1], scoring, Mode("backwards", backwards))
    place = 0, len(query), 0, len(target)
    h, e, f = matrices(problem.rectangle(*place, problem.top, problem.left, local=problem.has_floor))

    def forward(values: Values) -> Values:
        return [row[::-1] for row in values[::-1]]

    def in_gap(gaps: Values) -> Values:
        return [
            [max(best, gap + scoring.gap_open) for best, gap in zip(*both, strict=True)]
            for both in zip(h, gaps, strict=True)
        ]

    return forward(h), forward(in_gap(e)), forward(in_gap(f))


def true_limits(
    query: Codes, target: Codes, scoring: Scoring, ends: FreeEnds, rows: Sequence[int]
) -> RowLimits:
    """The row limits of some rows, none of which could be lower."""
    in_h, _, _ = true_gains(query, target, scoring, ends)
    return np.array([(row, max(in_h[row])) for row in rows], np.int64).reshape(-1, 2)


def naive_gains(
    query: Codes, target: Codes, scoring: Scoring, text: bytes | None = None, places: int | None = None
) -> list[int]:
    """The bound of `longalign.pruning.gains` for the query, with absent words of any length.

    For scorings without a table. Words are looked for in `text`, by default the target. A word is found only
    if it begins before text[`places`]. By default, `places` is the number of letters of the target.
    """
    match, mismatch, alpha, beta = scoring.match, scoring.mismatch, scoring.gap_open, scoring.gap_extend
    rows, present = len(query), {*target.tolist()}
    text = target.tobytes() if text is None else text
    places = len(target) if places is None else places
    pairs = [[match if a == b else mismatch for b in present] for a in query.tolist()]
    letters = [max([*scores, -beta]) for scores in pairs]
    charge = min(alpha + beta, match + beta + alpha // 2)
    if len(present) > 1:
        charge = min(charge, match - mismatch)

    words, end = [], rows
    for start in reversed(range(rows)):
        if query[start] not in present:
            end = start
        elif not 0 <= text.find(query[start:end].tobytes()) < places:
            words.append((start, end, min(charge, (end - start) * (match + beta))))
            end = start

    def gain(start: int, stop: int) -> int:
        charged = sum(cost for first, last, cost in words if start <= first and last <= stop)
        return sum(letters[start:stop]) - charged

    best = [max(gain(i, stop) for stop in range(i, rows + 1)) for i in range(rows + 1)]
    most = match * min(rows, len(target))
    return [min(most, max(best[i:])) for i in range(rows + 1)]


def gains_by_diagonal(
    rows: int,
    letter_gain: int,
    words: Mapping[int, tuple[int, int | None]],
    slope: int,
    spread: tuple[int, int],
    diagonals: range,
) -> list[dict[int, int]]:
    """A(i, d) of `longalign.pruning.gains` for each row i, one of the `diagonals` after the other.

    All letters gain the same. A word is given by its first letter: its charge, and the diagonal on which it
    is placed, or None. It may extend to the next word. The diagonals are not scaled.
    """
    below, next_word = dict.fromkeys(diagonals, 0), rows
    table = [below]
    for i in reversed(range(rows)):
        here = {d: value + letter_gain for d, value in below.items()}
        if i in words:
            ends_within = letter_gain * (next_word - 1 - i)  # before its last letter, at the latest
            here = {d: max(ends_within, _with_word(here, d, *words[i], slope, spread)) for d in diagonals}
            next_word = i
        below = here
        table.append(here)
    return table[::-1]


def _with_word(
    after: dict[int, int], d: int, charge: int, placed: int | None, slope: int, spread: tuple[int, int]
) -> int:
    """The most from diagonal d on if a word is passed, given the most without it on each diagonal."""
    without_error = after[d] if placed == d else after[d] - charge
    with_gap = [
        value - charge + spread[other < d] - slope * abs(other - d)
        for other, value in after.items()
        if other != d
    ]
    moved_before = [] if placed is None else [after[placed] - slope * abs(placed - d)]
    return max(without_error, *with_gap, *moved_before)
