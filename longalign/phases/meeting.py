"""Where an optimal path crosses a line, from a forward sweep to the line and a backward sweep to it.

An optimal path crosses where the forward value plus the backward value equals the value of the path.
D. Hirschberg, Comm. ACM 18:341 (1975); E. Myers and W. Miller, CABIOS 4:11 (1988).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import SweepJob
from longalign.model.alphabet import Codes
from longalign.model.boundary import Boundary, Edge, IntArray, State, entry_edges, gap_edges
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs
from longalign.model.recurrence import join
from longalign.model.scoring import Scoring
from longalign.phases.problem import Segment, reachable
from longalign.store.codec import PackedEdge

#: Host bytes for each letter of a swept rectangle: its cells on the edges and on the last row and column,
#: and a back end's copies of them.
_BYTES_PER_LETTER = 40

#: Cells of a line that are compared in one NumPy operation. Their values stay in a cache.
_BLOCK = 1 << 14


def bytes_needed(rows: int, cols: int) -> int:
    """Host bytes that one rectangle needs while it is swept."""
    return _BYTES_PER_LETTER * (rows + cols)


def jobs_at_once(rows: int, cols: int, host_bytes_per_call: int) -> int:
    """The number of rectangles of this size in one call of at most `host_bytes_per_call`; at least one."""
    return max(1, host_bytes_per_call // max(1, bytes_needed(rows, cols)))


def calls_of(segments: Sequence[Segment], host_bytes_per_call: int, max_segments: int) -> list[list[Segment]]:
    """Groups of consecutive segments, each within the bytes and the number of segments given.

    A segment that is too large for `host_bytes_per_call` forms a group of its own.
    """
    calls: list[list[Segment]] = []
    room = 0
    for segment in segments:
        needed = bytes_needed(segment.rows, segment.cols)
        if not calls or needed > room or len(calls[-1]) == max_segments:
            calls.append([])
            room = host_bytes_per_call
        calls[-1].append(segment)
        room -= needed
    return calls


@dataclass(frozen=True, slots=True, eq=False)
class Half:
    """A sweep of one half of a path: from the corner where every path begins to the last row, column or both.

    `skipped` is the number of rows and of columns at the corner that the sweep leaves out.
    """

    job: SweepJob
    skipped: tuple[int, int]


def forward_half(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    entry: State,
    value: int = 0,
    *,
    last_row: bool,
    last_col: bool,
    track_best: bool = False,
    excluded: ExcludedPairs = NO_PAIRS,
) -> Half:
    """The sweep of a rectangle whose paths all enter at its upper left corner, in state `entry` with `value`.

    A path that enters in a gap state first takes one letter of the gap. The sweep skips that row or column,
    unless it is the only one. The edges of the rest hold no minus infinity, which a GPU sweeps faster. The
    returned lines that cross the skipped row or column then lack their first cell, which no path reaches.
    """
    skipped = int(entry == State.E and len(query) > 1), int(entry == State.F and len(target) > 1)
    rows, cols = len(query), len(target)
    query, target = query[skipped[0] :], target[skipped[1] :]
    size = len(query), len(target)
    if any(skipped):
        top, left = gap_edges(entry, *size, scoring, value - scoring.gap_extend)
    else:
        top, left = entry_edges(entry, *size, scoring, value)
    job = SweepJob(
        query, target, scoring, top, left, False,
        size[:1] if last_row else (), size[1:] if last_col else (), track_best,
        excluded=excluded.within(skipped[0], rows, skipped[1], cols),
    )  # fmt: skip
    return Half(job, skipped)


def backward_half(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    exit_: State,
    *,
    last_row: bool,
    last_col: bool,
    track_best: bool = False,
    excluded: ExcludedPairs = NO_PAIRS,
) -> Half:
    """The backward sweep of a rectangle whose paths all leave at its lower right corner, in state `exit_`.

    The caller reverses both sequences, and the excluded pairs (see `Problem.letters_backwards`).
    Rows and columns count from the lower right corner. A gap state pays for its opening in both halves; see
    `recurrence.join`.
    """
    return forward_half(
        query,
        target,
        scoring,
        exit_,
        0 if exit_ == State.H else -scoring.gap_open,
        last_row=last_row,
        last_col=last_col,
        track_best=track_best,
        excluded=excluded,
    )


def closed(line: Boundary) -> Boundary:
    """Set the gap state to H at the first cell of a line that the sweep of a segment has returned; in place.

    That cell lies on the edge that the sweep was given, on which this gap state is defined to equal H; see
    `entry_edges`.
    """
    line.gap[0] = line.h[0]
    return line


def reversed_line(line: Boundary) -> Boundary:
    """A line that a backward sweep has returned, `closed`, in the order of the sequences."""
    line = closed(line)
    return Boundary(line.h[::-1], line.gap[::-1])


def meet(
    forward: Edge, backward: Boundary, gap: State, total: int, alpha: int, start: int = 0
) -> tuple[int, State, int] | None:
    """The last cell of a line where a path of value `total` passes: its index, state and forward value.

    `gap` is the state of a gap that crosses the line. H is preferred where both states of a cell qualify.
    Requires that no path across the line has a value above `total`, and no gap state one above H.
    `forward` begins at the index `start`, and ends where `backward` does or later. Returns None if there is
    no such cell.
    """
    threshold = total - alpha
    for first, stop in _blocks(forward, backward, threshold, start):
        forward_h, forward_gap = forward.cells(first - start, stop - start)
        backward_h, backward_gap = backward.cells(first, stop)
        # These 32-bit sums may wrap around, but not where a path passes. Candidates are checked with 64 bits.
        candidates = np.flatnonzero(forward_h + backward_h >= threshold)
        meetings = [
            (place, -state, state, int(before[place]))
            for state, before, after in (
                (State.H, forward_h, backward_h),
                (gap, forward_gap, backward_gap),
            )
            for place in _last_meeting(candidates, before, after, state, total, alpha)
        ]
        if meetings:
            place, _, state, value = max(meetings)
            return first + place, state, value
    return None


def _last_meeting(
    candidates: NDArray[np.int64],
    forward: IntArray,
    backward: IntArray,
    state: State,
    total: int,
    alpha: int,
) -> list[int]:
    """The last candidate at which both halves of a path add up to `total`, as a list of one or no index."""
    before, after = forward[candidates].astype(np.int64), backward[candidates].astype(np.int64)
    meets = (join(before, after, state, alpha) == total) & reachable(before) & reachable(after)
    last: list[int] = candidates[meets][-1:].tolist()
    return last


def _blocks(forward: Edge, backward: Boundary, threshold: int, start: int) -> Iterator[tuple[int, int]]:
    """Spans of a line, the last one first, in which forward H plus backward H may reach `threshold`.

    A packed line has few of them, since both values are high near a path and fall with the distance from it.
    """
    end = len(backward) + 1
    if not isinstance(forward, PackedEdge):
        yield from ((max(start, stop - _BLOCK), stop) for stop in range(end, start, -_BLOCK))
        return
    firsts, highest = forward.stretches()
    firsts += start
    firsts = firsts[: np.searchsorted(firsts, end)]
    upper_bounds = highest[: len(firsts)] + np.maximum.reduceat(backward.h, firsts)
    stops = np.append(firsts[1:], end)
    for k in np.flatnonzero(upper_bounds >= threshold)[::-1]:
        yield int(firsts[k]), int(stops[k])
