"""Cut each of many segments at a waypoint near its middle, through which its path passes.

A segment is cut across its longer side. Its first half is swept forward from its entry, and its second half
backward from its exit. The forward values on the cut are the values on an edge of the second half, so the
waypoint is where the path enters the second half (see `entry`). One call sweeps the halves of all segments.
D. Hirschberg, Comm. ACM 18:341 (1975); E. Myers and W. Miller, CABIOS 4:11 (1988).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from longalign.backends.base import Backend, Progress, SweepJob, SweepResult
from longalign.model.boundary import Waypoint
from longalign.phases.entry import entries
from longalign.phases.meeting import Half, backward_sweep, forward_half, reaching
from longalign.phases.problem import Approach, Problem, Segment
from longalign.system.threads import in_threads


def bisect(
    problem: Problem, segments: Sequence[Segment], backend: Backend, progress: Progress
) -> list[Waypoint]:
    """A waypoint in each segment, between its entry and its exit.

    A segment must have a side of 2 letters or more. The waypoint lies on the cut, or beyond it on an edge of
    the first half that goes on, along which the path has a gap.
    """
    firsts = [_first_half(problem, segment) for segment in segments]
    corners = [_corner(segment, first) for segment, first in zip(segments, firsts, strict=True)]
    backs = [
        backward_sweep(problem, corner, segment.exit)
        for segment, corner in zip(segments, corners, strict=True)
    ]
    if problem.pruning is not None:
        firsts = in_threads(partial(_narrow_first, problem), segments, firsts)
        backs = in_threads(partial(_narrow_back, problem), segments, corners, backs)
    jobs = [job for first, back in zip(firsts, backs, strict=True) for job in (first.job, back)]
    swept = backend.sweep(jobs, progress)
    seconds = [
        _second_half(problem, segment, corner, first, result)
        for segment, corner, first, result in zip(segments, corners, firsts, swept[::2], strict=True)
    ]
    return entries(seconds, swept[1::2], backend, progress)


#: Cuts lie at multiples of these. Back ends sweep rows in pairs, and columns in groups of 8, 16 or 24.
_ROW_STEP, _COLUMN_STEP = 2, 96

#: The middle is rounded down to a multiple only if it holds this many steps, so the halves stay about equal.
_MIN_STEPS = 16


def _cut(segment: Segment) -> tuple[bool, int]:
    """Whether a segment is cut between rows (else between columns), and after how many of them."""
    between_rows = segment.rows >= segment.cols
    length, step = (segment.rows, _ROW_STEP) if between_rows else (segment.cols, _COLUMN_STEP)
    middle = length // 2
    return between_rows, middle // step * step if middle >= _MIN_STEPS * step else middle


def _first_half(problem: Problem, segment: Segment) -> Half:
    """The sweep from the entry to the cut."""
    between_rows, cut = _cut(segment)
    entry, exit_ = segment.entry, segment.exit
    i1, j1 = (entry.i + cut, exit_.j) if between_rows else (exit_.i, entry.j + cut)
    place = entry.i, i1, entry.j, j1
    return forward_half(
        *problem.letters(*place),
        problem.scoring,
        entry.state,
        entry.value,
        last_row=between_rows,
        last_col=not between_rows,
        track_best=problem.has_floor,
        excluded=problem.excluded.within(*place),
    )


def _narrow_first(problem: Problem, segment: Segment, first: Half) -> Half:
    """The first half, which leaves out cells from where the exit cannot be reached with its value."""
    (rows, cols), entry, exit_ = first.skipped, segment.entry, segment.exit
    letters = problem.letters(entry.i + rows, exit_.i, entry.j + cols, exit_.j)
    return replace(first, job=reaching(first.job, exit_.value, *letters))


def _narrow_back(problem: Problem, segment: Segment, corner: tuple[int, int], back: SweepJob) -> SweepJob:
    """The second half backwards, which leaves out cells from where the entry cannot be reached with enough.

    `recurrence.join` adds at most one alpha to what both halves of a path have.
    """
    entry, i1, j1 = segment.entry, corner[0] + len(back.query), corner[1] + len(back.target)
    letters = problem.letters_backwards(entry.i, i1, entry.j, j1)
    return reaching(back, segment.exit.value - entry.value - problem.scoring.gap_open, *letters)


def _corner(segment: Segment, first: Half) -> tuple[int, int]:
    """The upper left corner of the second half. Rows or columns that the first half skips are left out."""
    between_rows, cut = _cut(segment)
    rows, cols = (cut, first.skipped[1]) if between_rows else (first.skipped[0], cut)
    return segment.entry.i + rows, segment.entry.j + cols


def _second_half(
    problem: Problem, segment: Segment, corner: tuple[int, int], first: Half, swept: SweepResult
) -> Approach:
    """The part of a segment after the cut. One of its edges is the cut, the other goes on from the entry."""
    (i0, j0), exit_ = corner, segment.exit
    top, left = first.job.top, first.job.left
    if swept.rows:
        top, left = swept.rows[0], left.part(len(left), len(left) + exit_.i - i0)
    else:
        top, left = top.part(len(top), len(top) + exit_.j - j0), swept.cols[0]
    rectangle = problem.rectangle(i0, exit_.i, j0, exit_.j, top, left, local=False)
    return Approach(i0, j0, rectangle, exit_, problem.has_floor)
