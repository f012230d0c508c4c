"""Cut each of many segments at a waypoint near its middle, through which an optimal path passes.

A segment is cut across its longer side. Its first half is swept forward from its entry, and its second half
backward from its exit. The values of both sweeps are compared at the cut. One call sweeps the halves of all
segments, and keeps one line of each half.
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
    """A waypoint in each segment, between its entry and its exit.

    A segment must have a side of 2 letters or more. Among equally good paths, the one that crosses the cut
    furthest to the right is chosen (the lowest one, where the cut lies between columns). At one cell, H is
    preferred to a gap state.
    """
    halves = [*chain.from_iterable(_halves(problem, segment) for segment in segments)]
    swept = backend.sweep([half.job for half in halves], progress)
    return [*map(_middle, segments, halves[::2], swept[::2], swept[1::2])]


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


def _halves(problem: Problem, segment: Segment) -> tuple[Half, Half]:
    """The sweep from the entry to the cut, and the one from the exit back to the cut."""
    between_rows, cut = _cut(segment)
    entry, exit_ = segment.entry, segment.exit
    i, j = (entry.i + cut, exit_.j) if between_rows else (exit_.i, entry.j + cut)
    first = entry.i, i, entry.j, j
    i, j = (entry.i + cut, entry.j) if between_rows else (entry.i, entry.j + cut)
    second = i, exit_.i, j, exit_.j
    # Only phase 2 needs the best cell. Tracking it here as well lets both phases use the same kernels, each
    # of which takes seconds to compile on a new machine.
    scoring, best, between_cols = problem.scoring, problem.has_floor, not between_rows
    return (
        forward_half(
            *problem.letters(*first),
            scoring,
            entry.state,
            last_row=between_rows,
            last_col=between_cols,
            track_best=best,
            excluded=problem.excluded.within(*first),
        ),
        backward_half(
            *problem.letters_backwards(*second),
            scoring,
            exit_.state,
            last_row=between_rows,
            last_col=between_cols,
            track_best=best,
            excluded=problem.excluded_backwards(*second),
        ),
    )


def _middle(
    segment: Segment, forward: Half, forward_result: SweepResult, backward_result: SweepResult
) -> Waypoint:
    """The waypoint at the cut of a segment, given the sweeps of its halves."""
    between_rows, cut = _cut(segment)
    rows_skipped, cols_skipped = forward.skipped
    if between_rows:
        gap, start = State.E, cols_skipped
        forward_line, backward_line = forward_result.rows[0], backward_result.rows[0]
    else:
        gap, start = State.F, rows_skipped
        forward_line, backward_line = forward_result.cols[0], backward_result.cols[0]
    entry, exit_ = segment.entry, segment.exit
    # The value on entry in a gap state includes the cost of opening the gap, which is not charged again here.
    total, alpha = exit_.value - entry.value, forward.job.scoring.gap_open
    found = meet(closed(forward_line), reversed_line(backward_line), gap, total, alpha, start)
    if found is None:
        raise InternalError(f"no path from {entry} to {exit_} accounts for the difference of their values")
    offset, state, value = found
    i, j = (cut, offset) if between_rows else (offset, cut)
    return Waypoint(entry.i + i, entry.j + j, state, entry.value + value)
