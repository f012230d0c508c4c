"""Phase 2: from the end cell back, find the state in which the path enters each chunk on its way.

A chunk is swept in reverse from its known exit; where a stored edge holds forward + backward = value of
the exit, an optimal path enters. The choice by chunks is that of Li, Ranka and Sahni's ChunkedAlignment.
"""

from __future__ import annotations

from collections.abc import Callable

from longalign.backends.base import Backend, Progress, SweepJob, SweepResult, no_progress
from longalign.boundary import State, Waypoint
from longalign.errors import InternalError
from longalign.lattice import Chunk, StoreLattice
from longalign.phases.meeting import backward_job, meeting, reversed_line
from longalign.problem import Problem


def stitch(
    lattice: StoreLattice,
    found: list[Waypoint],
    backend: Backend,
    progress: Progress = no_progress,
    report: Callable[[list[Waypoint]], None] = lambda _: None,
) -> list[Waypoint]:
    """Extend `found`, waypoints from the end cell backwards, to the start of the path.

    Returns the waypoints from the end cell to the start; calls `report` with those found so far after each
    chunk. Consecutive waypoints lie in one chunk, or on one edge of the matrix, where the path is a single
    gap.

    Among equally good paths it takes, in each chunk: a start inside (the nearest to the exit), else an
    entry through the top edge (rightmost first, H before E), else through the left edge (lowest first,
    H before F). So the path among equals depends on where the chunks lie.
    """
    problem, path = lattice.problem, list(found)
    while not _at_start(problem, path[-1]):
        point = path[-1]
        if point.i == 0 or point.j == 0:
            assert problem.entry is not None  # in local mode every cell of the matrix's edge is a start
            path.append(Waypoint(0, 0, problem.entry, 0))
        else:
            chunk = lattice.chunk(point.i, point.j)
            job = _reverse_job(problem, chunk, point)
            [result] = backend.sweep([job], progress)
            path.append(_entry(problem, chunk, point, job, result))
        report(path)
    return path


def _at_start(problem: Problem, point: Waypoint) -> bool:
    if problem.is_local:
        return point.state == State.H and point.value == 0
    return point.i == point.j == 0


def _reverse_job(problem: Problem, chunk: Chunk, exit_: Waypoint) -> SweepJob:
    """The chunk from its exit backwards."""
    return backward_job(
        problem.query[chunk.i0 : exit_.i],
        problem.target[chunk.j0 : exit_.j],
        problem.scoring,
        exit_.state,
        rows=(exit_.i - chunk.i0,),
        cols=(exit_.j - chunk.j0,),
        track_best=problem.is_local,
    )


def _entry(problem: Problem, chunk: Chunk, exit_: Waypoint, job: SweepJob, result: SweepResult) -> Waypoint:
    best = result.best
    if problem.is_local and best.score == exit_.value:
        return Waypoint(exit_.i - best.i, exit_.j - best.j, State.H, 0)
    alpha = problem.scoring.gap_open
    top = reversed_line(result.rows[0], corner_gap=job.left.h[-1])
    across = meeting(chunk.top, top, State.E, exit_.value, alpha)
    if across is not None:
        offset, state, value = across
        return Waypoint(chunk.i0, chunk.j0 + offset, state, value)
    left = reversed_line(result.cols[0], corner_gap=job.top.h[-1])
    down = meeting(chunk.left, left, State.F, exit_.value, alpha)
    if down is not None:
        offset, state, value = down
        return Waypoint(chunk.i0 + offset, chunk.j0, state, value)
    raise InternalError(
        f"internal error: no path of value {exit_.value} leads to cell ({exit_.i}, {exit_.j})"
    )
