"""Phase 2, lazy: from the end cell back, find the state in which the path enters each chunk on its way.

A chunk is swept in reverse from its known exit; where a stored edge holds forward + backward = value of
the exit, an optimal path enters. The choice by chunks is that of Li, Ranka and Sahni's ChunkedAlignment.

One chunk after the other leaves most of a GPU idle. So the search begins not only at the end cell, but at
guesses too, where the path may well cross rows of the lattice: all of them go back at once, a chunk in each
round. What precedes a waypoint depends on that waypoint alone, so whatever was found behind a guess holds if
the path comes there, and the path is the same as without guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from longalign.backends.base import Backend, Progress, SweepResult, no_progress
from longalign.errors import InternalError
from longalign.model.boundary import State, Waypoint
from longalign.phases import meeting
from longalign.phases.lattice import Chunk, StoreLattice
from longalign.phases.problem import Problem
from longalign.system.threads import calls_in_background, in_threads

#: Threads that read edges while chunks are swept. More read no faster, but keep the sweep from beginning.
_READERS = 4


def stitch(
    lattice: StoreLattice,
    found: list[Waypoint],
    backend: Backend,
    progress: Progress = no_progress,
    report: Callable[[list[Waypoint]], None] = lambda _: None,
) -> list[Waypoint]:
    """Extend `found`, waypoints from the end cell backwards, to the start of the path.

    Returns the waypoints from the end cell to the start; calls `report` with those found so far after each
    round. Consecutive waypoints lie in one chunk, or on one edge of the matrix, where the path is a single
    gap.

    Among equally good paths it takes, in each chunk: a start inside (the nearest to the exit), else an
    entry through the top edge (rightmost first, H before E), else through the left edge (lowest first,
    H before F). So the path among equals depends on where the chunks lie.
    """
    problem, path = lattice.problem, list(found)
    guesses = _guesses(lattice, path[-1], backend)
    preceding: dict[Waypoint, Waypoint] = {}
    front: list[Waypoint] = []
    room = meeting.jobs_at_once(*lattice.grid.chunk_shape, backend.host_bytes_per_call)
    while not problem.is_start(path[-1]):
        front = _front(problem, path[-1], front, guesses, preceding, room)
        preceding.update(zip(front, _go_back(lattice, front, backend, progress), strict=True))
        while path[-1] in preceding:
            path.append(preceding[path[-1]])
        report(path)
        front = [preceding[point] for point in front]
    return path


def _guesses(lattice: StoreLattice, end: Waypoint, backend: Backend) -> list[Waypoint]:
    """Where the path may cross the rows of the lattice, the one nearest to its end last."""
    if max(lattice.grid.chunk_shape) >= backend.saturating_side:
        return []
    return in_threads(lambda i: lattice.peak(i, end.j), [i for i in lattice.grid.row_cuts if 0 < i < end.i])


def _front(
    problem: Problem,
    tip: Waypoint,
    reached: Sequence[Waypoint],
    guesses: list[Waypoint],
    known: Collection[Waypoint],
    room: int,
) -> list[Waypoint]:
    """The waypoints to go back from in the next round: the tip of the path, what others have reached, and as
    many guesses, taken from the end of their list, as there is room for.

    Left out are those that the path can no longer come to, and those from which the way is known.
    """
    front = {tip: None}

    def add(point: Waypoint) -> None:
        if point.i <= tip.i and point.j <= tip.j and point not in known and not problem.is_start(point):
            front[point] = None

    for point in reached:
        add(point)
    while guesses and len(front) < room:
        add(guesses.pop())
    return list(front)


def _go_back(
    lattice: StoreLattice, points: Sequence[Waypoint], backend: Backend, progress: Progress
) -> list[Waypoint]:
    """The waypoint before each of some others, by one call of the back end."""
    problem = lattice.problem
    inside = [point for point in points if point.i > 0 and point.j > 0]
    corners = [lattice.corner(point.i, point.j) for point in inside]
    # It takes as long to read the edges of many chunks from a disk as a GPU needs to sweep them.
    with calls_in_background(lambda point: lattice.chunk(point.i, point.j), inside, most=_READERS) as chunks:
        halves = [*map(partial(_from_exit, problem), corners, inside)]
        swept = backend.sweep([half.job for half in halves], progress)
        entries = [*map(partial(_entry, problem), chunks(), inside, halves, swept)]
    before = dict(zip(inside, entries, strict=True))
    return [before.get(point, problem.corner) for point in points]


def _from_exit(problem: Problem, corner: tuple[int, int], exit_: Waypoint) -> meeting.Half:
    """The chunk with this upper left corner from its exit backwards."""
    i0, j0 = corner
    return meeting.backward_half(
        *problem.letters_backwards(i0, exit_.i, j0, exit_.j),
        problem.scoring,
        exit_.state,
        last_row=True,
        last_col=True,
        track_best=problem.has_floor,
    )


def _entry(
    problem: Problem, chunk: Chunk, exit_: Waypoint, half: meeting.Half, swept: SweepResult
) -> Waypoint:
    best, alpha = swept.best.shifted(*half.skipped), problem.scoring.gap_open
    if problem.has_floor and best.score == exit_.value:
        return Waypoint(exit_.i - best.i, exit_.j - best.j, State.H, 0)
    top = meeting.reversed_line(swept.rows[0])
    across = meeting.meet(chunk.top, top, State.E, exit_.value, alpha)
    if across is not None:
        offset, state, value = across
        return Waypoint(chunk.i0, chunk.j0 + offset, state, value)
    left = meeting.reversed_line(swept.cols[0])
    down = meeting.meet(chunk.left, left, State.F, exit_.value, alpha)
    if down is not None:
        offset, state, value = down
        return Waypoint(chunk.i0 + offset, chunk.j0, state, value)
    raise InternalError(f"no path of value {exit_.value} leads to cell ({exit_.i}, {exit_.j})")
