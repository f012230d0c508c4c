"""Anchors: stretches of diagonals that a path is to follow, from words that are unique in both sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Backend, Progress
from longalign.model.alphabet import Codes
from longalign.model.mode import GLOBAL, Mode
from longalign.model.pruning import NO_ANCHORS, Anchors
from longalign.model.scoring import Scoring
from longalign.pruning.bridge import bridges
from longalign.pruning.budget import TimeBudget
from longalign.pruning.chain import heaviest_chain
from longalign.pruning.fill import Cell, Rectangles, can_be_traced, cells_of, rectangles_around
from longalign.pruning.halving import are_large, cut_points
from longalign.pruning.segments import Places, Segments, find_segments
from longalign.pruning.unique_words import word_length

#: Large rectangles between anchors are searched for words that are unique in them: this many times, if the
#: shorter side has at least this many letters.
_ROUNDS, _SHORTEST_SIDE = 3, 64


def chained(segments: Segments, shape: tuple[int, int], scoring: Scoring, mode: Mode, k: int) -> Anchors:
    """The anchors of the heaviest chain of segments in a matrix of `shape` letters, in order.

    Where a gap has several possible places, the segments on both sides of it overlap, by fewer than `k`
    letters. Each segment is cut by half a word at both ends. Then the two no longer overlap, and the best
    place of the gap can be found between them.
    """
    trim = (k - 1) // 2
    row, col, length = segments.row + trim, segments.col + trim, segments.length - 2 * trim
    row_end, col_end = row + length, col + length
    # A match that scores 0 still avoids a mismatch or two letters in gaps.
    extra = 0 if scoring.highest > 0 else max(1, min(-scoring.lowest, 2 * scoring.gap_extend))
    ends = mode.ends
    first, last = np.zeros_like(row), np.zeros_like(row)
    if not ends.starts_anywhere:
        first = -_cost_to_corner(row, col, (ends.query_start, ends.target_start), scoring)
    if not ends.ends_anywhere:
        free = ends.query_end, ends.target_end
        last = -_cost_to_corner(shape[0] - row_end, shape[1] - col_end, free, scoring)
    weight = segments.score + extra * segments.length
    chain = heaviest_chain(
        (row, col), (row_end, col_end), weight, (first, last), scoring.gap_open, scoring.gap_extend
    )
    return np.stack([row, row_end, col, col_end], axis=1)[chain]


def _cost_to_corner(rows: Places, cols: Places, free: tuple[bool, bool], scoring: Scoring) -> Places:
    """The least cost of gaps between a corner of the matrix and cells `rows` and `cols` letters away from it.

    As many letters as possible are paired. The others are in one gap. Query letters in it cost nothing if
    free[0], target letters if free[1].
    """
    unpaired = np.where(rows > cols, 0 if free[0] else rows - cols, 0 if free[1] else cols - rows)
    cost: NDArray[np.int64] = scoring.gap_extend * unpaired + scoring.gap_open * (unpaired > 0)
    return cost


def refined(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    anchors: Anchors,
    ends: tuple[Cell, Cell],
    backend: Backend,
    budget: TimeBudget,
    progress: Progress,
) -> Anchors:
    """The anchors of a path between the cells `ends`, and more where the rectangle between two is large.

    If the budget affords sweeps of such a rectangle, the new anchors are cells of a good path through it.
    Otherwise, if it cannot be traced, they come from words that are unique in it.
    """
    for _ in range(_ROUNDS):
        large = _large_rectangles(query, target, scoring, anchors, ends, backend)
        is_cheap = budget.affordable_sweeps(large, scoring, backend)
        searched = large[~is_cheap & ~can_be_traced(large, backend)]
        added = [_anchors_within(query, target, scoring, *rectangle) for rectangle in searched.tolist()]
        if not any(map(len, added)):
            break
        anchors = _inserted(anchors, added)
    large = _large_rectangles(query, target, scoring, anchors, ends, backend)
    cheap = large[budget.affordable_sweeps(large, scoring, backend)]
    return _inserted(anchors, [cut_points(query, target, scoring, cheap, backend, progress)])


def _inserted(anchors: Anchors, added: list[Anchors]) -> Anchors:
    """All anchors, in order."""
    anchors = np.concatenate([anchors, *added])
    return anchors[np.lexsort((anchors[:, 2], anchors[:, 0]))]


def _large_rectangles(
    query: Codes, target: Codes, scoring: Scoring, anchors: Anchors, ends: tuple[Cell, Cell], backend: Backend
) -> Rectangles:
    """The large rectangles around the anchors that have no good bridge."""
    rectangles = rectangles_around(anchors, *ends)
    rectangles = rectangles[cells_of(rectangles) > 1]
    large = rectangles[are_large(rectangles, backend)]
    return large[~bridges(query, target, scoring, large).is_good(scoring)]


def _anchors_within(
    query: Codes, target: Codes, scoring: Scoring, i: int, i_end: int, j: int, j_end: int
) -> Anchors:
    """Anchors from words that are unique in a rectangle."""
    rows, cols = i_end - i, j_end - j
    if min(rows, cols) < _SHORTEST_SIDE:
        return NO_ANCHORS
    k = word_length(rows, cols)
    segments = find_segments(query[i:i_end], target[j:j_end], scoring, k)
    anchors: Anchors = chained(segments, (rows, cols), scoring, GLOBAL, k) + np.array([i, i, j, j])
    return anchors
