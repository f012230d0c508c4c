"""Real paths: anchors, and the rectangles between them filled by the back end as one work list."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Backend, Progress, Runs, TraceJob
from longalign.model.alignment import Lengths, Op, Ops, merge_runs
from longalign.model.alphabet import Codes
from longalign.model.boundary import State
from longalign.model.pruning import Anchors
from longalign.model.scoring import Scoring
from longalign.pruning.bridge import BRIDGE, bridges
from longalign.pruning.budget import TimeBudget
from longalign.system.gc_pause import collector_at_rest

#: A cell of the DP matrix, by its boundary indices.
Cell = tuple[int, int]

#: Rectangles of the DP matrix, such as those between anchors, in the same form as these.
Rectangles = NDArray[np.int64]


def rectangles_around(anchors: Anchors, start: Cell, end: Cell) -> Rectangles:
    """The rectangles from `start` to the first anchor, between neighbours, and from the last one to `end`."""
    first = np.array([[start[0], start[0], start[1], start[1]]], np.int64)
    last = np.array([[end[0], end[0], end[1], end[1]]], np.int64)
    before, after = np.concatenate([first, anchors]), np.concatenate([anchors, last])
    return np.stack([before[:, 1], after[:, 0], before[:, 3], after[:, 2]], axis=1)


def cells_of(rectangles: Rectangles) -> NDArray[np.int64]:
    """The number of cells of each rectangle."""
    return (rectangles[:, 1] - rectangles[:, 0]) * (rectangles[:, 3] - rectangles[:, 2])


def can_be_traced(rectangles: Rectangles, backend: Backend) -> NDArray[np.bool_]:
    """Which rectangles the back end can trace. It is asked once about rectangles of the same shape."""
    rows, cols = rectangles[:, 1] - rectangles[:, 0], rectangles[:, 3] - rectangles[:, 2]
    shapes, which = np.unique(rows << 32 | cols, return_inverse=True)
    able = [backend.can_trace(shape >> 32, shape & 0xFFFFFFFF) for shape in shapes.tolist()]
    return np.array(able, np.bool_)[which]


def fill(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    anchors: Anchors,
    rectangles: Rectangles,
    backend: Backend,
    budget: TimeBudget,
    progress: Progress,
) -> Runs:
    """The path along all anchors and through all rectangles, those before and after the anchors included.

    Of the rectangles without a good bridge, those are traced that the back end can trace and the budget
    affords. All others are bridged.
    """
    bridged = bridges(query, target, scoring, rectangles)
    is_traced = _traced(rectangles, ~bridged.is_good(scoring), backend, budget)
    traced = _trace(query, target, scoring, rectangles[is_traced], backend, progress)
    counts, ops, lengths = _runs_of_rectangles(bridged.lengths, is_traced, traced)
    places = np.cumsum(counts)[:-1]
    return merge_runs(
        np.insert(ops, places, np.uint8(Op.DIAGONAL)),
        np.insert(lengths, places, anchors[:, 1] - anchors[:, 0]),
    )


def _runs_of_rectangles(
    bridged: NDArray[np.int64], is_traced: NDArray[np.bool_], traced: list[Runs]
) -> tuple[NDArray[np.int64], Ops, Lengths]:
    """The number of runs of each rectangle, and the runs of all rectangles, some of them empty."""
    counts = np.full(len(is_traced), len(BRIDGE))
    counts[is_traced] = [len(ops) for ops, _ in traced]
    in_trace = np.repeat(is_traced, counts)
    ops, lengths = np.empty(len(in_trace), np.uint8), np.empty(len(in_trace), np.int64)
    ops[~in_trace] = np.tile(BRIDGE, np.count_nonzero(~is_traced))
    lengths[~in_trace] = bridged[~is_traced].reshape(-1)
    if traced:
        ops[in_trace] = np.concatenate([ops for ops, _ in traced])
        lengths[in_trace] = np.concatenate([lengths for _, lengths in traced])
    return counts, ops, lengths


def _traced(
    rectangles: Rectangles, is_wanted: NDArray[np.bool_], backend: Backend, budget: TimeBudget
) -> NDArray[np.bool_]:
    """Which of the wanted rectangles are traced."""
    cells = cells_of(rectangles)
    places = np.flatnonzero(is_wanted & (cells > 0))
    places = places[can_be_traced(rectangles[places], backend)]
    is_traced = np.zeros(len(rectangles), np.bool_)
    is_traced[places] = budget.affordable_traces(cells[places])
    return is_traced


def _trace(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    rectangles: Rectangles,
    backend: Backend,
    progress: Progress,
) -> list[Runs]:
    with collector_at_rest():  # of tens of thousands of jobs, none is in a cycle
        jobs = [
            TraceJob(query[i:i_end], target[j:j_end], scoring, State.H, State.H)
            for i, i_end, j, j_end in rectangles.tolist()
        ]
        return backend.trace(jobs, progress) if jobs else []
