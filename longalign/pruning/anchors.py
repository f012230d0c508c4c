"""Anchors: stretches of diagonals that a path is to follow, from words that are unique in both sequences."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Backend, Progress
from longalign.model.alphabet import Codes
from longalign.model.mode import GLOBAL, Mode
from longalign.model.scoring import Scoring
from longalign.pruning.bridge import bridges
from longalign.pruning.budget import Budget
from longalign.pruning.chain import heaviest_chain
from longalign.pruning.fill import Anchors, Cell, Gaps, cells_of, gaps_around
from longalign.pruning.halving import cut_points, is_large
from longalign.pruning.segments import Places, Segments, find_segments
from longalign.pruning.unique_words import MOST_WORDS, word_length

#: How often large rectangles between anchors are searched for words that are unique in them, and how small
#: the shorter side of one may be.
_ROUNDS, _SHORTEST_SIDE = 3, 64


def chained(segments: Segments, shape: tuple[int, int], scoring: Scoring, mode: Mode, k: int) -> Anchors:
    """The anchors of the heaviest chain of segments in a matrix of `shape` letters, in order.

    Segments on different diagonals overlap by less than a word of `k` letters, mostly where a gap could have
    several places. Half a word less at either end leaves the place open, and room for the best one.
    """
    trim = (k - 1) // 2
    row, col, length = segments.row + trim, segments.col + trim, segments.length - 2 * trim
    row_end, col_end = row + length, col + length
    # Without a gain for a match, what counts is the loss that a pair avoids.
    extra = 0 if scoring.match > 0 else max(1, min(-scoring.mismatch, 2 * scoring.gap_extend))
    ends = mode.ends
    first = 0 * row
    if not ends.starts_anywhere:
        first = -_cost(row, col, (ends.query_start, ends.target_start), scoring)
    last = 0 * row
    if not ends.ends_anywhere:
        free = ends.query_end, ends.target_end
        last = -_cost(shape[0] - row_end, shape[1] - col_end, free, scoring)
    weight = segments.score + extra * segments.length
    chain = heaviest_chain(
        (row, col), (row_end, col_end), weight, (first, last), scoring.gap_open, scoring.gap_extend
    )
    return np.stack([row, row_end, col, col_end], axis=1)[chain]


def _cost(rows: Places, cols: Places, free: tuple[bool, bool], scoring: Scoring) -> Places:
    """The cost of the letters between a corner and cells so many rows and columns away that pair with none.

    Those of the query, or of the target, cost nothing if they are `free`.
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
    budget: Budget,
    progress: Progress,
) -> Anchors:
    """The anchors of a path from one cell to another, and more where the back end cannot trace between two.

    Where sweeps are affordable, they are cells of a good path; otherwise they are from words that are unique
    in the rectangle between two anchors, if there are any.
    """
    for _ in range(_ROUNDS):
        large = _large_gaps(query, target, scoring, anchors, ends, backend)
        is_cheap = budget.affordable_sweeps(large, scoring, backend)
        added = [_within(query, target, scoring, *gap) for gap in large[~is_cheap].tolist()]
        if not any(map(len, added)):
            break
        anchors = _inserted(anchors, added)
    large = _large_gaps(query, target, scoring, anchors, ends, backend)
    cheap = large[budget.affordable_sweeps(large, scoring, backend)]
    return _inserted(anchors, [cut_points(query, target, scoring, cheap, backend, progress)])


def _inserted(anchors: Anchors, added: list[Anchors]) -> Anchors:
    anchors = np.concatenate([anchors, *added])
    return anchors[np.lexsort((anchors[:, 2], anchors[:, 0]))]


def _large_gaps(
    query: Codes, target: Codes, scoring: Scoring, anchors: Anchors, ends: tuple[Cell, Cell], backend: Backend
) -> Gaps:
    """The rectangles between neighbouring anchors that cannot be traced, and have no good bridge."""
    gaps = gaps_around(anchors, *ends)
    gaps = gaps[cells_of(gaps) > 1]
    large = gaps[np.array([is_large(gap, backend) for gap in gaps.tolist()], np.bool_)]
    return large[~bridges(query, target, scoring, large).is_good(scoring)]


def _within(query: Codes, target: Codes, scoring: Scoring, i: int, i_end: int, j: int, j_end: int) -> Anchors:
    rows, cols = i_end - i, j_end - j
    if min(rows, cols) < _SHORTEST_SIDE:
        return np.empty((0, 4), np.int64)
    k = word_length(rows, cols)
    segments = find_segments(query[i:i_end], target[j:j_end], scoring, k, MOST_WORDS)
    anchors: Anchors = chained(segments, (rows, cols), scoring, GLOBAL, k) + np.array([i, i, j, j])
    return anchors
