"""Phase 2, eager: follow the path from the end cell back by the start states that phase 1 has stored.

A path may end inside a chunk, where no start state is stored. Only then is that chunk swept, from its upper
left corner to the end cell, to find where the path enters it.
"""

from __future__ import annotations

from collections.abc import Callable

from longalign.backends.base import Backend, Progress, no_progress
from longalign.model.boundary import Waypoint
from longalign.phases.entry import entries_by_starts
from longalign.phases.lattice import StoreLattice


def walk(
    lattice: StoreLattice,
    found: list[Waypoint],
    backend: Backend,
    progress: Progress = no_progress,
    report: Callable[[list[Waypoint]], None] = lambda _: None,
) -> list[Waypoint]:
    """Extend `found`, waypoints from the end cell backwards, to the start of the path, as `stitch` does."""
    path = list(found)
    while not lattice.problem.is_start(path[-1]):
        path.append(_preceding(lattice, path[-1], backend, progress))
        report(path)
    return path


def _preceding(lattice: StoreLattice, point: Waypoint, backend: Backend, progress: Progress) -> Waypoint:
    """The waypoint where the path to `point` enters the chunk that computes it."""
    if point.i == 0 or point.j == 0:
        return lattice.problem.corner
    start = lattice.start(point)
    if start is not None:
        return lattice.entry(lattice.corner(point.i, point.j), *start)
    [entry] = entries_by_starts([lattice.approach(point)], backend, progress)
    return entry
