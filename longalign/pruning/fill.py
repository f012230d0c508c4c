"""Real paths: anchors, and the rectangles between them filled by the back end as one work list."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Backend, Progress, Runs, TraceJob
from longalign.model.alignment import Lengths, Op, Ops
from longalign.model.alphabet import Codes
from longalign.model.boundary import State
from longalign.model.scoring import Scoring
from longalign.pruning.bridge import BRIDGE, bridges
from longalign.pruning.budget import Budget
from longalign.pruning.letter_scores import scores_of_pieces
from longalign.system.gc_pause import collector_at_rest

#: A cell of the DP matrix, by its boundary indices.
Cell = tuple[int, int]

#: Stretches of a diagonal on the path: first and last row boundary, then columns; int64, shape (anchors, 4).
Anchors = NDArray[np.int64]

#: Rectangles between anchors, in the same form.
Gaps = NDArray[np.int64]


class Pieces(NamedTuple):
    """A path in pieces: gap, anchor, gap, ..., anchor, gap. Gaps may be empty.

    `starts` and `scores`, int64 of shape (pieces, 2) and (pieces,), are the cells where they begin and their
    scaled scores. Piece p has the runs bounds[p] <= k < bounds[p + 1] of `ops` and `lengths`.
    """

    starts: NDArray[np.int64]
    scores: NDArray[np.int64]
    ops: Ops
    lengths: Lengths
    bounds: NDArray[np.int64]


def gaps_around(anchors: Anchors, start: Cell, end: Cell) -> Gaps:
    """The rectangles from a cell to the first anchor, between neighbours, and from the last one to a cell."""
    first = np.array([[start[0], start[0], start[1], start[1]]], np.int64)
    last = np.array([[end[0], end[0], end[1], end[1]]], np.int64)
    before, after = np.concatenate([first, anchors]), np.concatenate([anchors, last])
    return np.stack([before[:, 1], after[:, 0], before[:, 3], after[:, 2]], axis=1)


def cells_of(gaps: Gaps) -> NDArray[np.int64]:
    """The number of cells of each rectangle."""
    return (gaps[:, 1] - gaps[:, 0]) * (gaps[:, 3] - gaps[:, 2])


def fill(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    anchors: Anchors,
    gaps: Gaps,
    backend: Backend,
    budget: Budget,
    progress: Progress,
) -> Pieces:
    """The path along all anchors and through all gaps.

    Rectangles are bridged where that is good. Of the others, those are traced that the back end can trace and
    the budget affords.
    """
    bridged = bridges(query, target, scoring, gaps)
    is_traced = _traced(gaps, ~bridged.is_good(scoring), backend, budget)
    traced = _trace(query, target, scoring, gaps[is_traced], backend, progress)
    count = np.full(len(gaps), len(BRIDGE))
    count[is_traced] = [len(ops) for ops, _ in traced]
    counts = np.ones(2 * len(anchors) + 1, np.int64)
    counts[::2] = count
    bounds = np.concatenate([[0], np.cumsum(counts)])
    ops, lengths = np.empty(bounds[-1], np.uint8), np.empty(bounds[-1], np.int64)
    of_anchor = np.zeros(len(counts), np.bool_)
    of_anchor[1::2] = True
    of_bridge = np.zeros(len(counts), np.bool_)
    of_bridge[::2] = ~is_traced
    in_anchor, in_bridge = np.repeat(of_anchor, counts), np.repeat(of_bridge, counts)
    ops[in_anchor], lengths[in_anchor] = Op.DIAGONAL, anchors[:, 1] - anchors[:, 0]
    ops[in_bridge] = np.tile(BRIDGE, np.count_nonzero(~is_traced))
    lengths[in_bridge] = bridged.lengths[~is_traced].reshape(-1)
    if traced:
        rest = ~(in_anchor | in_bridge)
        ops[rest] = np.concatenate([ops for ops, _ in traced])
        lengths[rest] = np.concatenate([lengths for _, lengths in traced])
    starts = np.empty((len(counts), 2), np.int64)
    starts[::2], starts[1::2] = gaps[:, ::2], anchors[:, ::2]
    kept = lengths > 0
    bounds = np.concatenate([[0], np.cumsum(kept)])[bounds]
    ops, lengths = ops[kept], lengths[kept]
    scores = scores_of_pieces(query, target, scoring, starts, ops, lengths, bounds)
    return Pieces(starts, scores, ops, lengths, bounds)


def _traced(gaps: Gaps, is_wanted: NDArray[np.bool_], backend: Backend, budget: Budget) -> NDArray[np.bool_]:
    """Which of the wanted rectangles are traced."""
    cells = cells_of(gaps)
    places = np.flatnonzero(is_wanted & (cells > 0))
    able = [backend.can_trace(i_end - i, j_end - j) for i, i_end, j, j_end in gaps[places].tolist()]
    places = places[np.array(able, np.bool_)]
    is_traced = np.zeros(len(gaps), np.bool_)
    is_traced[places] = budget.affordable_traces(cells[places])
    return is_traced


def _trace(
    query: Codes, target: Codes, scoring: Scoring, gaps: Gaps, backend: Backend, progress: Progress
) -> list[Runs]:
    with collector_at_rest():  # of tens of thousands of jobs, none is in a cycle
        jobs = [
            TraceJob(query[i:i_end], target[j:j_end], scoring, State.H, State.H)
            for i, i_end, j, j_end in gaps.tolist()
        ]
        return backend.trace(jobs, progress) if jobs else []
