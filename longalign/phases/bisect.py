"""A point in the middle of each of many segments through which an optimal path passes.

A segment is cut across its longer side. Its first half is swept forward from its entry, its second half
backward from its exit, and they meet at the cut. All halves of all segments are swept in one call, which
keeps no more than one line of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from longalign.backends.base import Backend, Codes, Progress, SweepJob, SweepResult
from longalign.boundary import State, Waypoint, entry_edges
from longalign.errors import InternalError
from longalign.phases.meeting import backward_job, closed, meet, reversed_line
from longalign.problem import Problem, Segment


def bisect(
    problem: Problem, segments: Sequence[Segment], backend: Backend, progress: Progress
) -> list[Waypoint]:
    """A waypoint in each segment, between its entry and its exit; each has a side of 2 letters at least.

    Among equally good paths it takes the one that crosses the cut furthest right, or lowest down, and there
    in H before a gap.
    """
    jobs = [*chain.from_iterable(_halves(problem, segment) for segment in segments)]
    results = backend.sweep(jobs, progress)
    return [*map(_middle, segments, jobs[::2], results[::2], results[1::2])]


def _halves(problem: Problem, segment: Segment) -> tuple[SweepJob, SweepJob]:
    """The sweep from the entry to the cut, and the one from the exit back to it; each wants its last line."""
    query, target = segment.letters(problem)
    across = segment.rows >= segment.cols
    if across:
        cut = segment.rows // 2
        first, second = (query[:cut], target), (query[cut:], target)
    else:
        cut = segment.cols // 2
        first, second = (query, target[:cut]), (query, target[cut:])
    top, left = entry_edges(segment.entry.state, len(first[0]), len(first[1]), problem.scoring)
    forward = SweepJob(
        *first, problem.scoring, top, left, False, *_last_line(*first, across), track_best=False
    )
    return forward, backward_job(*second, problem.scoring, segment.exit.state, *_last_line(*second, across))


def _last_line(query: Codes, target: Codes, across: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The last row or the last column of a rectangle, as a sweep is asked for it."""
    return ((len(query),), ()) if across else ((), (len(target),))


def _middle(segment: Segment, forward: SweepJob, ahead: SweepResult, behind: SweepResult) -> Waypoint:
    if forward.rows:
        line, facing = closed(ahead.rows[0]), reversed_line(behind.rows[0])
        gap, cut = State.E, len(forward.query)
    else:
        line, facing = closed(ahead.cols[0]), reversed_line(behind.cols[0])
        gap, cut = State.F, len(forward.target)
    entry, exit_ = segment.entry, segment.exit
    # A gap that was open on entry has paid for its opening: value there is that of its state alone.
    found = meet(line, facing, gap, exit_.value - entry.value, forward.scoring.gap_open)
    if found is None:
        raise InternalError(f"internal error: no path from {entry} to {exit_} is worth the difference")
    offset, state, value = found
    i, j = (cut, offset) if forward.rows else (offset, cut)
    return Waypoint(entry.i + i, entry.j + j, state, entry.value + value)
