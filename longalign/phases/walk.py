"""Phase 2, eager: follow the path from the end cell back by the start states that phase 1 has stored.

A path may end inside a chunk, where no start state is stored. Only then is that chunk swept, from its upper
left corner to the end cell, to find where the path enters it.
"""

from __future__ import annotations

from collections.abc import Callable

from longalign.backends.base import Backend, Progress, Rectangle, no_progress
from longalign.errors import InternalError
from longalign.model.boundary import State, Waypoint, start_parts
from longalign.phases.lattice import StoreLattice


def walk(
    lattice: StoreLattice,
    found: list[Waypoint],
    backend: Backend,
    progress: Progress = no_progress,
    report: Callable[[list[Waypoint]], None] = lambda _: None,
) -> list[Waypoint]:
    """Extend `found`, waypoints from the end cell backwards, to the start of the path, as `stitch` does.

    Among equally good paths, `recurrence.direction` decides, and where the chunks lie makes no difference.
    """
    path = list(found)
    while not lattice.problem.is_start(path[-1]):
        path.append(_preceding(lattice, path[-1], backend, progress))
        report(path)
    return path


def _preceding(lattice: StoreLattice, point: Waypoint, backend: Backend, progress: Progress) -> Waypoint:
    """The waypoint where the path to `point` enters the chunk that computes it."""
    if point.i == 0 or point.j == 0:
        return lattice.problem.corner
    start = lattice.start(point) or _start_within(lattice, point, backend, progress)
    return lattice.entry(lattice.corner(point.i, point.j), *start)


def _start_within(
    lattice: StoreLattice, point: Waypoint, backend: Backend, progress: Progress
) -> tuple[int, int, State]:
    """Where the path to an end cell inside a chunk enters the chunk. A path ends in H, never in a gap."""
    if point.state != State.H:
        raise InternalError(f"a path ends in cell ({point.i}, {point.j}) in a gap")
    problem, chunk = lattice.problem, lattice.chunk(point.i, point.j)
    rectangle = Rectangle(
        problem.query[chunk.i0 : point.i],
        problem.target[chunk.j0 : point.j],
        problem.scoring,
        chunk.top,
        chunk.left,
        problem.has_floor,
    )
    [starts] = backend.starts([rectangle], progress)
    row, col, state = start_parts(int(starts.bottom.h[-1]))
    return chunk.i0 + row, chunk.j0 + col, State(state)
