"""Phase 2: from the end cell back, find the state in which the path enters each chunk on its way.

A chunk is swept in reverse from its known exit; where a stored edge holds forward + backward = value of
the exit, an optimal path enters. Written as a generator that yields sweeps and is sent their results, so
that many stitches (phase 3 has one for every large chunk) share one launch.

E. Myers and W. Miller, CABIOS 4:11 (1988), for meeting a forward and a reverse pass; the choice by
chunks is that of Li, Ranka and Sahni's ChunkedAlignment.
"""

from __future__ import annotations

from collections.abc import Callable, Generator

import numpy as np

from longalign.backends.base import SweepJob, SweepResult
from longalign.boundary import Boundary, State, Waypoint, entry_edges
from longalign.errors import InternalError
from longalign.lattice import Chunk, Lattice
from longalign.problem import Problem, reachable
from longalign.recurrence import join

Stitch = Generator[SweepJob, SweepResult, list[Waypoint]]


def stitch(
    problem: Problem,
    lattice: Lattice,
    found: list[Waypoint],
    report: Callable[[list[Waypoint]], None] = lambda _: None,
) -> Stitch:
    """Extend `found`, waypoints from the end cell backwards, to the start of the path.

    Yields one reverse sweep at a time and returns the waypoints from the end cell to the start; calls
    `report` with those found so far after each chunk. Consecutive waypoints lie in one chunk, or on one
    edge of the matrix, where the path is a single gap.

    Among equally good paths it takes, in each chunk: a start inside (the nearest to the exit), else an
    entry through the top edge (rightmost first, H before E), else through the left edge (lowest first,
    H before F). So the path among equals depends on where the chunks lie.
    """
    path = list(found)
    while not _at_start(problem, path[-1]):
        point = path[-1]
        if point.i == 0 or point.j == 0:
            assert problem.entry is not None  # in local mode every cell of the matrix's edge is a start
            path.append(Waypoint(0, 0, problem.entry, 0))
        else:
            chunk = lattice.chunk(point.i, point.j)
            job = _reverse_job(problem, chunk, point)
            path.append(_entry(problem, chunk, point, job, (yield job)))
        report(path)
    return path


def _at_start(problem: Problem, point: Waypoint) -> bool:
    if problem.is_local:
        return point.state == State.H and point.value == 0
    return point.i == point.j == 0


def _reverse_job(problem: Problem, chunk: Chunk, exit_: Waypoint) -> SweepJob:
    """The chunk from its exit backwards: both sequences reversed, entered in the state of the exit.

    A gap state pays for its opening on this side as well; see `recurrence.join`.
    """
    scoring = problem.scoring
    rows, cols = exit_.i - chunk.i0, exit_.j - chunk.j0
    value = 0 if exit_.state == State.H else -scoring.gap_open
    top, left = entry_edges(exit_.state, rows, cols, scoring, value)
    return SweepJob(
        query=problem.query[chunk.i0 : exit_.i][::-1].copy(),
        target=problem.target[chunk.j0 : exit_.j][::-1].copy(),
        scoring=scoring,
        top=top,
        left=left,
        local=False,
        rows=(rows,),
        cols=(cols,),
        track_best=problem.is_local,
    )


def _entry(problem: Problem, chunk: Chunk, exit_: Waypoint, job: SweepJob, result: SweepResult) -> Waypoint:
    best = result.best
    if problem.is_local and best.score == exit_.value:
        return Waypoint(exit_.i - best.i, exit_.j - best.j, State.H, 0)
    # The corner of a reverse edge is a cell of the edge that the sweep was given, where the gap state
    # that runs along it equals H (see `entry_edges`).
    top = _reversed_edge(result.rows[0], corner_gap=job.left.h[-1])
    left = _reversed_edge(result.cols[0], corner_gap=job.top.h[-1])
    alpha = problem.scoring.gap_open
    across = _meeting(chunk.top, top, State.E, exit_.value, alpha)
    if across is not None:
        offset, state, value = across
        return Waypoint(chunk.i0, chunk.j0 + offset, state, value)
    down = _meeting(chunk.left, left, State.F, exit_.value, alpha)
    if down is not None:
        offset, state, value = down
        return Waypoint(chunk.i0 + offset, chunk.j0, state, value)
    raise InternalError(
        f"internal error: no path of value {exit_.value} leads to cell ({exit_.i}, {exit_.j})"
    )


def _reversed_edge(edge: Boundary, corner_gap: int) -> Boundary:
    gap = edge.gap[::-1].copy()
    gap[-1] = corner_gap
    return Boundary(edge.h[::-1], gap)


def _meeting(
    forward: Boundary, backward: Boundary, gap: State, total: int, alpha: int
) -> tuple[int, State, int] | None:
    """The last cell of an edge at which a path of value `total` passes: its index, state and value.

    The gap state at index 0 belongs to another chunk.
    """
    candidates = []
    for state, ahead, behind, first in (
        (State.H, forward.h, backward.h, 0),
        (gap, forward.gap, backward.gap, 1),
    ):
        sums = join(ahead[first:].astype(np.int64), behind[first:].astype(np.int64), state, alpha)
        hits = np.flatnonzero((sums == total) & reachable(ahead[first:]) & reachable(behind[first:]))
        if len(hits):
            offset = int(hits[-1]) + first
            candidates.append((offset, -state, state, int(ahead[offset])))
    if not candidates:
        return None
    offset, _, state, value = max(candidates)
    return offset, state, value
