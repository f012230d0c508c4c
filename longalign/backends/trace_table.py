"""Rectangles to trace (*leaves*) as a table for compiled code, and the walk back through a leaf.

How a back end computes and lays out the direction bytes is its own concern. This module holds everything else
about a leaf: where its letters are, which values are on its edges, and how a path becomes runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Runs, TraceJob
from longalign.backends.substitution_tables import PairCosts, lay_out
from longalign.model.alignment import Op
from longalign.model.alphabet import Codes
from longalign.model.boundary import IntArray, State, entry_edges
from longalign.model.scoring import Scoring

# The columns of the table, which is int64 and has a row for each leaf. A name ending in _AT is the index at
# which the leaf's part of an array begins. RUNS_END is the index at which its part of the runs ends: runs are
# written from there downwards.
ROWS, COLS, QUERY_AT, TARGET_AT, RUNS_END, EXIT, MATRIX_AT = 0, 1, 2, 3, 4, 5, 6
MATCH, MISMATCH, OPENING, EXTEND = 7, 8, 9, 10  # those of `PairCosts`
CORNER, TOP_FIRST, TOP_STEP, LEFT_FIRST, LEFT_STEP = 11, 12, 13, 14, 15
LOWEST_DIAGONAL, HIGHEST_DIAGONAL = 16, 17  # of the path: see `TraceJob.diagonals`
LEAF_FIELDS = 18

_PAIR, _INSERTION, _DELETION = int(Op.DIAGONAL), int(Op.INSERTION), int(Op.DELETION)

#: A run is one number: its length, shifted left by RUN_SHIFT bits, plus its operation.
RUN_SHIFT = 2
_OPERATION = (1 << RUN_SHIFT) - 1


def shapes_of(jobs: Sequence[TraceJob]) -> NDArray[np.int64]:
    """Rows, columns, and the lowest and highest diagonal of paths, of shape (leaves, 4)."""
    rows = np.array([len(job.query) for job in jobs], np.int64)
    cols = np.array([len(job.target) for job in jobs], np.int64)
    shapes = np.stack([rows, cols, -rows, cols], axis=1)
    for k, job in enumerate(jobs):
        if job.detour is not None:
            shapes[k, 2:] = job.diagonals
    return shapes


def leaf_table(jobs: Sequence[TraceJob]) -> NDArray[np.int64]:
    """The table of some jobs, of shape (leaves, LEAF_FIELDS). Their letters and runs lie end to end."""
    table = np.empty((len(jobs), LEAF_FIELDS), np.int64)
    table[:, [ROWS, COLS, LOWEST_DIAGONAL, HIGHEST_DIAGONAL]] = shapes_of(jobs)
    table[:, RUNS_END] = np.cumsum(table[:, ROWS] + table[:, COLS])
    for side, at in ((ROWS, QUERY_AT), (COLS, TARGET_AT)):
        table[:, at] = np.cumsum(table[:, side]) - table[:, side]
    table[:, EXIT] = [job.exit for job in jobs]
    table[:, MATRIX_AT] = lay_out(job.scoring for job in jobs)[1]
    # By identity: there are few scorings, and a hash of one takes a microsecond.
    kinds = {(id(job.scoring), job.entry): (job.scoring, job.entry) for job in jobs}
    places = {kind: place for place, kind in enumerate(kinds)}
    numbers = np.array([_numbers(*kind) for kind in kinds.values()], np.int64)
    table[:, MATCH:LOWEST_DIAGONAL] = numbers[[places[id(job.scoring), job.entry] for job in jobs]]
    return table


@cache
def _numbers(scoring: Scoring, entry: State) -> tuple[int | np.int32, ...]:
    """The fields from MATCH to LEFT_STEP: the costs, and the edges, which are those of `entry_edges`."""
    top, left = entry_edges(entry, 1, 1, scoring)
    return (*PairCosts.of(scoring), top.corner, top.first, top.step, left.first, left.step)


def inputs_of(jobs: Sequence[TraceJob]) -> tuple[Codes, Codes, IntArray]:
    """All query letters, all target letters and all substitution matrices, as indexed by the table."""
    # `concatenate` always copies. A reversed array of one element is contiguous but has a negative stride.
    query, target = np.concatenate([job.query for job in jobs]), np.concatenate([job.target for job in jobs])
    return query, target, lay_out(job.scoring for job in jobs)[0]


def trace_by_kind(
    jobs: Sequence[TraceJob], trace: Callable[[bool, list[TraceJob]], list[Runs]]
) -> list[Runs]:
    """The paths of all jobs, in order. `trace` is called for the jobs without and with a substitution matrix.

    Its first argument says whether the jobs have a substitution matrix.
    """
    paths: dict[int, Runs] = {}
    for has_matrix in (False, True):
        places = [k for k, job in enumerate(jobs) if (job.scoring.table is not None) == has_matrix]
        if places:
            paths.update(zip(places, trace(has_matrix, [jobs[k] for k in places]), strict=True))
    return [paths[k] for k in range(len(jobs))]


def make_walk(step_back: Callable[..., Any], direction_at: Callable[..., Any]) -> Callable[..., int]:
    """The walk back through a leaf, for a back end to compile.

    `step_back` is the compiled `recurrence.step_back`. `direction_at(directions, i, j)` returns the direction
    byte of cell (i, j). The walk writes runs from `runs[end - 1]` downwards and returns their number.
    """

    def walk(directions: Any, rows: int, cols: int, state: int, runs: Any, end: int) -> int:
        i, j, at = rows, cols, end
        op, length = _PAIR, 0
        while i > 0 or j > 0:
            if i > 0 and j > 0:
                letters = 1
                down, right, state = step_back(state, direction_at(directions, i, j))
            else:  # the rest of the path is one gap along an edge
                letters = i + j
                down, right = (1, 0) if i > 0 else (0, 1)
            here = (1 - right) * _INSERTION + (1 - down) * _DELETION
            if here != op:
                if length > 0:
                    at -= 1
                    runs[at] = (length << RUN_SHIFT) + op
                op, length = here, 0
            length += letters
            i -= down * letters
            j -= right * letters
        at -= 1
        runs[at] = (length << RUN_SHIFT) + op
        return end - at

    return walk


def paths_of(runs: NDArray[np.int32], ends: Sequence[int], counts: Sequence[int]) -> list[Runs]:
    """The paths of leaves, given the end of each leaf's runs in `runs` and their number."""
    ops, lengths = (runs & _OPERATION).astype(np.uint8), (runs >> RUN_SHIFT).astype(np.int64)
    parts = [slice(end - count, end) for end, count in zip(ends, counts, strict=True)]
    return [(ops[part], lengths[part]) for part in parts]
