"""A point in the middle of each of many segments through which an optimal path passes.

A segment is cut across its longer side. Its first half is swept forward from its entry, its second half
backward from its exit, and they meet at the cut. All halves of all segments are swept in one call, which
keeps no more than one line of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from longalign.backends.base import Backend, Progress, SweepResult
from longalign.errors import InternalError
from longalign.model.boundary import State, Waypoint
from longalign.phases.meeting import Half, backward_half, closed, forward_half, meet, reversed_line
from longalign.phases.problem import Problem, Segment


def bisect(
    problem: Problem, segments: Sequence[Segment], backend: Backend, progress: Progress
) -> list[Waypoint]:
    """A waypoint in each segment, between its entry and its exit; each has a side of 2 letters at least.

    Among equally good paths it takes the one that crosses the cut furthest right, or lowest down, and there
    in H before a gap.
    """
    halves = [*chain.from_iterable(_halves(problem, segment) for segment in segments)]
    swept = backend.sweep([half.job for half in halves], progress)
    return [*map(_middle, segments, halves[::2], swept[::2], swept[1::2])]


#: What cuts between rows and between columns are best multiples of: back ends sweep rows in pairs, and
#: columns in parts of 8, 16 or 24. So many steps from the ends, that is near enough to the middle.
_ROW_STEP, _COLUMN_STEP, _FAR = 2, 96, 16


def _cut(segment: Segment) -> tuple[bool, int]:
    """Whether a segment is cut between two rows, and after how many rows or columns."""
    across = segment.rows >= segment.cols
    length, step = (segment.rows, _ROW_STEP) if across else (segment.cols, _COLUMN_STEP)
    middle = length // 2
    return across, middle // step * step if middle >= _FAR * step else middle


def _halves(problem: Problem, segment: Segment) -> tuple[Half, Half]:
    """The sweep from the entry to the cut, and the one from the exit back to it; each wants its last line."""
    across, cut = _cut(segment)
    entry, exit_ = segment.entry, segment.exit
    i, j = (entry.i + cut, exit_.j) if across else (exit_.i, entry.j + cut)
    ahead = problem.letters(entry.i, i, entry.j, j)
    i, j = (entry.i + cut, entry.j) if across else (entry.i, entry.j + cut)
    behind = problem.letters_backwards(i, exit_.i, j, exit_.j)
    # Only phase 2 needs the best cell. Asked for it, both phases take the same kernels, each of which takes
    # seconds to compile on a new machine.
    scoring, best = problem.scoring, problem.has_floor
    return (
        forward_half(*ahead, scoring, entry.state, last_row=across, last_col=not across, track_best=best),
        backward_half(*behind, scoring, exit_.state, last_row=across, last_col=not across, track_best=best),
    )


def _middle(segment: Segment, forward: Half, ahead: SweepResult, behind: SweepResult) -> Waypoint:
    across, cut = _cut(segment)
    rows_skipped, cols_skipped = forward.skipped
    if across:
        line, facing, gap, start = ahead.rows[0], behind.rows[0], State.E, cols_skipped
    else:
        line, facing, gap, start = ahead.cols[0], behind.cols[0], State.F, rows_skipped
    entry, exit_ = segment.entry, segment.exit
    # A gap that was open on entry has paid for its opening: value there is that of its state alone.
    total, alpha = exit_.value - entry.value, forward.job.scoring.gap_open
    found = meet(closed(line), reversed_line(facing), gap, total, alpha, start)
    if found is None:
        raise InternalError(f"no path from {entry} to {exit_} is worth the difference")
    offset, state, value = found
    i, j = (cut, offset) if across else (offset, cut)
    return Waypoint(entry.i + i, entry.j + j, state, entry.value + value)
