"""Phase 2, lazy: from the end cell back, find the cell and state in which the path enters each of its chunks.

A chunk is swept in reverse from the known exit of the path. An optimal path enters at a cell of a stored
edge where the forward value plus the backward value equals the value of the exit. Where there are several
such cells, start states tell which of them counts; see `entry`. No sweep is needed where letter pairs alone
lead to the exit; see `diagonal`. Finding the path chunk by chunk is the method of ChunkedAlignment by Li,
Ranka and Sahni.

Sweeping one chunk at a time leaves most of a GPU idle. The search therefore starts not only at the end cell
but also at *likely crossings*: cells where the path probably crosses rows of the lattice. Each round sweeps,
in one call, one chunk for the path and one for each likely crossing. The predecessor of a waypoint depends
on that waypoint alone. So what was found from a likely crossing is valid if the path reaches it, and likely
crossings never change the path.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial

from longalign.backends.base import Backend, Progress, SweepJob, no_progress
from longalign.model.boundary import Waypoint
from longalign.phases import meeting
from longalign.phases.diagonal import straight_back
from longalign.phases.entry import entries, entries_by_starts
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Approach, Problem
from longalign.system.threads import calls_in_background, in_threads

#: Threads that read edges while chunks are swept. More threads read no faster, but delay the sweep's start.
_READERS = 4

#: Chunks with fewer letters together are looked at sooner than threads start.
_WORTH_THREADS = 1 << 22

#: A local path is expected to have at most this many rows for each match that its score is worth. Rows
#: further up are left out. If the path is longer after all, it takes more rounds to find.
_ROWS_OF_A_MATCH = 32


def stitch(
    lattice: StoreLattice,
    found: list[Waypoint],
    backend: Backend,
    progress: Progress = no_progress,
    report: Callable[[list[Waypoint]], None] = lambda _: None,
) -> list[Waypoint]:
    """Extend `found`, waypoints from the end cell backwards, to the start of the path.

    Returns the waypoints from the end cell to the start, and calls `report` with those found so far after
    each round. Consecutive waypoints lie in one chunk, or on one edge of the matrix, where the path is a
    single gap.

    Among equally good paths, `recurrence.direction` decides, wherever the chunks lie.
    """
    problem, path = lattice.problem, list(found)
    crossings = _likely_crossings(lattice, path[-1], backend)
    preceding: dict[Waypoint, Waypoint] = {}
    front: list[Waypoint] = []
    room = meeting.jobs_at_once(*lattice.grid.chunk_shape, backend.host_bytes_per_call)
    while not problem.is_start(path[-1]):
        front = _front(problem, path[-1], front, crossings, preceding, room)
        places = [(lattice, point) for point in front]
        preceding.update(zip(front, _go_back(places, backend, progress), strict=True))
        while path[-1] in preceding:
            path.append(preceding[path[-1]])
        report(path)
        front = [preceding[point] for point in front]
    return path


def stitch_all(
    lattices: Sequence[StoreLattice],
    ends: Sequence[Waypoint],
    backend: Backend,
    progress: Progress,
) -> list[list[Waypoint]]:
    """The path of each of many lattices, as `stitch` finds it from the end cell alone.

    A round goes back by one chunk on all paths in one call, which pays if the lattices have few chunks.
    """
    paths = [[end] for end in ends]
    while places := [
        (lattice, path)
        for lattice, path in zip(lattices, paths, strict=True)
        if not lattice.problem.is_start(path[-1])
    ]:
        tips = [(lattice, path[-1]) for lattice, path in places]
        for (_, path), point in zip(places, _go_back(tips, backend, progress), strict=True):
            path.append(point)
    return paths


def _likely_crossings(lattice: StoreLattice, end: Waypoint, backend: Backend) -> list[Waypoint]:
    """The likeliest crossing of each lattice row above the end cell, the one nearest to the end last.

    There are none if a single chunk is large enough to keep the device busy, and none in rows that a local
    path probably does not reach.
    """
    if max(lattice.grid.chunk_shape) >= backend.saturating_side:
        return []
    problem, above = lattice.problem, end.i
    if problem.has_floor:
        above = min(above, _ROWS_OF_A_MATCH * end.value // max(1, problem.scoring.highest))
    rows = [i for i in lattice.grid.row_cuts if end.i - above < i < end.i]
    return in_threads(lambda i: lattice.peak(i, end.j), rows)


def _front(
    problem: Problem,
    tip: Waypoint,
    reached: Sequence[Waypoint],
    crossings: list[Waypoint],
    known: Collection[Waypoint],
    room: int,
) -> list[Waypoint]:
    """The waypoints whose predecessors the next round finds.

    These are the tip of the path, the waypoints `reached` from earlier crossings, and new ones, taken from
    the end of their list until there are `room` waypoints. Left out are waypoints that the path can no longer
    reach, and those whose predecessor is `known`.
    """
    front = {tip: None}

    def add(point: Waypoint) -> None:
        if point.i <= tip.i and point.j <= tip.j and point not in known and not problem.is_start(point):
            front[point] = None

    for point in reached:
        add(point)
    while crossings and len(front) < room:
        add(crossings.pop())
    return list(front)


#: A waypoint, and the lattice through which its path runs.
_Place = tuple[StoreLattice, Waypoint]


def _go_back(places: Sequence[_Place], backend: Backend, progress: Progress) -> list[Waypoint]:
    """The waypoint before each of `places`."""
    inside = [(lattice, point) for lattice, point in places if point.i > 0 and point.j > 0]
    letters = sum(sum(lattice.grid.chunk_shape) for lattice, _ in inside)
    each = in_threads if letters >= _WORTH_THREADS else map  # threads overlap reads from a disk
    found_straight = each(straight_back, [lattice for lattice, _ in inside], [point for _, point in inside])
    straight = {
        place: entry for place, entry in zip(inside, found_straight, strict=True) if entry is not None
    }
    swept_back = [place for place in inside if place not in straight]
    first = [place for place in swept_back if _must_begin_here(*place)]
    later = [place for place in swept_back if not _must_begin_here(*place)]
    # Reading the edges of many chunks from a disk takes as long as sweeping them on a GPU, so both overlap.
    with calls_in_background(_approach, later, max_threads=_READERS) as approaches:
        jobs = [*map(_sweep_back, later)]
        if any(
            meeting.is_pruned(lattice.problem, job.cells, backend.min_pruned_cells)
            for (lattice, _), job in zip(later, jobs, strict=True)
        ):
            jobs = in_threads(partial(_narrow, backend.min_pruned_cells), approaches(), jobs)
        swept = backend.sweep(jobs, progress)
        found = entries(approaches(), swept, backend, progress)
    begins = entries_by_starts([*map(_approach, first)], backend, progress)
    preceding = straight | dict(zip([*later, *first], [*found, *begins], strict=True))
    return [preceding.get(place, place[0].problem.corner) for place in places]


def _sweep_back(place: _Place) -> SweepJob:
    """The sweep from a waypoint back to the corner of its chunk."""
    lattice, point = place
    return meeting.backward_sweep(lattice.problem, lattice.corner(point.i, point.j), point)


def _narrow(min_pruned_cells: int, approach: Approach, job: SweepJob) -> SweepJob:
    """The same, without cells that a pruned run can leave out, for which the chunk's edges must be known."""
    return meeting.reaching_edges(approach, (approach.i0, approach.j0), job, min_pruned_cells)


def _must_begin_here(lattice: StoreLattice, point: Waypoint) -> bool:
    """Whether the path to a waypoint must begin in the waypoint's chunk, and only start states tell where."""
    return lattice.problem.has_floor and lattice.corner(point.i, point.j) == (0, 0)


def _approach(place: _Place) -> Approach:
    """The chunk that computes a waypoint, up to the waypoint."""
    lattice, point = place
    return lattice.approach(point)
