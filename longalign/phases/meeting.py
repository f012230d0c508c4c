"""Where a forward sweep to a line and a backward sweep from beyond it meet: there an optimal path passes.

The two halves of a path are swept towards each other; where forward + backward is what the whole path is
worth, it passes. D. Hirschberg, Comm. ACM 18:341 (1975); E. Myers and W. Miller, CABIOS 4:11 (1988).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import SweepJob
from longalign.model.alphabet import Codes
from longalign.model.boundary import Boundary, Edge, IntArray, State, entry_edges, gap_edges
from longalign.model.recurrence import join
from longalign.model.scoring import Scoring
from longalign.phases.problem import Segment, reachable
from longalign.store.codec import PackedEdge

#: What a sweep takes on the host for each letter of a rectangle: its place on the edges and the last lines,
#: in a back end's copies as well.
_BYTES_PER_LETTER = 40

#: Cells of a line that are looked at together: their values stay in a cache.
_BLOCK = 1 << 14


def bytes_needed(rows: int, cols: int) -> int:
    """Bytes that a rectangle takes while a path through it is looked for."""
    return _BYTES_PER_LETTER * (rows + cols)


def jobs_at_once(rows: int, cols: int, host_bytes_per_call: int) -> int:
    """How many such rectangles one call may have, at least one."""
    return max(1, host_bytes_per_call // max(1, bytes_needed(rows, cols)))


def calls_of(segments: Sequence[Segment], host_bytes_per_call: int, most: int) -> list[list[Segment]]:
    """Consecutive segments that take at most so many bytes together, and are at most so many."""
    calls: list[list[Segment]] = []
    room = 0
    for segment in segments:
        needed = bytes_needed(segment.rows, segment.cols)
        if not calls or needed > room or len(calls[-1]) == most:
            calls.append([])
            room = host_bytes_per_call
        calls[-1].append(segment)
        room -= needed
    return calls


@dataclass(frozen=True, slots=True, eq=False)
class Half:
    """A sweep from where every path begins to the last row or the last column, or both.

    `skipped` is how many rows and columns of the rectangle were left out before the sweep.
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
) -> Half:
    """A rectangle that every path enters at its upper left corner in the state `entry`, worth `value`.

    A path that enters in a gap takes a letter of it at once, so the sweep begins there, if anything is left.
    The edges of what is left hold no minus infinity, and a GPU sweeps that faster. Lines lack a cell then, at
    their beginning, that no path comes to.
    """
    skipped = int(entry == State.E and len(query) > 1), int(entry == State.F and len(target) > 1)
    query, target = query[skipped[0] :], target[skipped[1] :]
    size = len(query), len(target)
    if any(skipped):
        top, left = gap_edges(entry, *size, scoring, value - scoring.gap_extend)
    else:
        top, left = entry_edges(entry, *size, scoring, value)
    job = SweepJob(
        query, target, scoring, top, left, False,
        size[:1] if last_row else (), size[1:] if last_col else (), track_best,
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
) -> Half:
    """A rectangle from its lower right corner backwards, where every path leaves it in the state `exit_`.

    Both sequences come reversed (see `Problem.letters_backwards`), and rows and columns count from that
    corner. A gap state pays for its opening on this side as well; see `recurrence.join`.
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
    )


def closed(line: Boundary) -> Boundary:
    """A line that the sweep of a segment has returned, written to: at its corner the gap state equals H.

    The corner lies on the edge that the sweep was given; see `entry_edges`.
    """
    line.gap[0] = line.h[0]
    return line


def reversed_line(line: Boundary) -> Boundary:
    """A line that a backward sweep has returned, `closed`, in the order of the sequences: corner last."""
    line = closed(line)
    return Boundary(line.h[::-1], line.gap[::-1])


def meet(
    forward: Edge, backward: Boundary, gap: State, total: int, alpha: int, start: int = 0
) -> tuple[int, State, int] | None:
    """The last cell of a line at which a path of value `total` passes: its index, state and value.

    `gap` is the state of the gap that crosses the line. Of the two states at one cell, H comes first. No path
    across the line is worth more than `total`, and no gap state more than H.
    Forward values begin at the index `start`, and go on at least as far as the backward ones.
    """
    least = total - alpha
    for first, stop in _blocks(forward, backward, least, start):
        h, in_gap = forward.cells(first - start, stop - start)
        facing_h, facing_gap = backward.cells(first, stop)
        # Sums of 32 bits may wrap, but not where a path passes: those that look right are made once more.
        places = np.flatnonzero(h + facing_h >= least)
        meetings = [
            (place, -state, state, int(ahead[place]))
            for state, ahead, behind in ((State.H, h, facing_h), (gap, in_gap, facing_gap))
            for place in _last_meeting(places, ahead, behind, state, total, alpha)
        ]
        if meetings:
            place, _, state, value = max(meetings)
            return first + place, state, value
    return None


def _last_meeting(
    places: NDArray[np.int64], ahead: IntArray, behind: IntArray, state: State, total: int, alpha: int
) -> list[int]:
    """The last of some places at which two halves of a path are worth `total` together, if there is one."""
    before, after = ahead[places].astype(np.int64), behind[places].astype(np.int64)
    meets = (join(before, after, state, alpha) == total) & reachable(before) & reachable(after)
    last: list[int] = places[meets][-1:].tolist()
    return last


def _blocks(forward: Edge, backward: Boundary, least: int, start: int) -> Iterator[tuple[int, int]]:
    """Blocks of a line, from its end, in which the two H may be worth `least` together.

    Of a packed line these are few: a path passes where both are high, and away from there both fall.
    """
    end = len(backward) + 1
    if not isinstance(forward, PackedEdge):
        yield from ((max(start, stop - _BLOCK), stop) for stop in range(end, start, -_BLOCK))
        return
    begins, highest = forward.stretches()
    begins += start
    begins = begins[: np.searchsorted(begins, end)]
    together = highest[: len(begins)] + np.maximum.reduceat(backward.h, begins)
    stops = np.append(begins[1:], end)
    for k in np.flatnonzero(together >= least)[::-1]:
        yield int(begins[k]), int(stops[k])
