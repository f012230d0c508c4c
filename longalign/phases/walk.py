"""Phase 2, eager: from the end cell back, by what phase 1 has stored.

Only the chunk in which the path ends, where it ends inside, is swept for where the path enters it; its part
below and to the right of the end is left out.
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

    Among equally good paths it is the one by `recurrence.direction`, wherever the chunks lie.
    """
    path = list(found)
    while not lattice.problem.is_start(path[-1]):
        path.append(_before(lattice, path[-1], backend, progress))
        report(path)
    return path


def _before(lattice: StoreLattice, point: Waypoint, backend: Backend, progress: Progress) -> Waypoint:
    if point.i == 0 or point.j == 0:
        return lattice.problem.corner
    start = lattice.start(point) or _start_within(lattice, point, backend, progress)
    return lattice.entry(lattice.corner(point.i, point.j), *start)


def _start_within(
    lattice: StoreLattice, point: Waypoint, backend: Backend, progress: Progress
) -> tuple[int, int, State]:
    """Where the path to a cell inside a chunk, in H as every end of a path is, enters the chunk."""
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
