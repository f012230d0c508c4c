"""Where a forward sweep to a line and a backward sweep from beyond it meet: there an optimal path passes.

The two halves of a path are swept towards each other; where forward + backward is what the whole path is
worth, it passes. D. Hirschberg, Comm. ACM 18:341 (1975); E. Myers and W. Miller, CABIOS 4:11 (1988).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longalign.backends.base import Codes, SweepJob
from longalign.boundary import Boundary, State, entry_edges
from longalign.problem import Segment, reachable
from longalign.recurrence import join
from longalign.scoring import Scoring

#: What a sweep takes on the host for each letter of a rectangle: its place on the edges and the last lines,
#: in a back end's copies as well.
_BYTES_PER_LETTER = 64


def bytes_needed(rows: int, cols: int) -> int:
    """Bytes that a rectangle takes while a path through it is looked for."""
    return _BYTES_PER_LETTER * (rows + cols)


def jobs_at_once(rows: int, cols: int, call_bytes: int) -> int:
    """How many such rectangles one call may have, at least one."""
    return max(1, call_bytes // bytes_needed(rows, cols))


def calls_of(segments: Sequence[Segment], call_bytes: int, most: int) -> list[list[Segment]]:
    """Consecutive segments that take at most so many bytes together, and are at most so many."""
    calls: list[list[Segment]] = []
    room = 0
    for segment in segments:
        needed = bytes_needed(segment.rows, segment.cols)
        if not calls or needed > room or len(calls[-1]) == most:
            calls.append([])
            room = call_bytes
        calls[-1].append(segment)
        room -= needed
    return calls


def backward_job(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    exit_: State,
    rows: tuple[int, ...],
    cols: tuple[int, ...],
    *,
    track_best: bool = False,
) -> SweepJob:
    """A rectangle from its lower right corner backwards, where every path leaves it in the state `exit_`.

    Both sequences are reversed, and `rows` and `cols` count from that corner. A gap state pays for its
    opening on this side as well; see `recurrence.join`.
    """
    value = 0 if exit_ == State.H else -scoring.gap_open
    top, left = entry_edges(exit_, len(query), len(target), scoring, value)
    return SweepJob(
        query=query[::-1].copy(),
        target=target[::-1].copy(),
        scoring=scoring,
        top=top,
        left=left,
        local=False,
        rows=rows,
        cols=cols,
        track_best=track_best,
    )


def reversed_line(line: Boundary, corner_gap: int) -> Boundary:
    """A line of a backward sweep in the order of the sequences.

    Its corner, now the last cell, lies on the edge that the sweep was given; there the gap state equals H
    (see `entry_edges`), and `corner_gap` is that.
    """
    gap = line.gap[::-1].copy()
    gap[-1] = corner_gap
    return Boundary(line.h[::-1], gap)


def meet(
    forward: Boundary, backward: Boundary, gap: State, total: int, alpha: int
) -> tuple[int, State, int] | None:
    """The last cell of a line at which a path of value `total` passes: its index, state and value.

    `gap` is the state of the gap that crosses the line. Of the two states at one cell, H comes first.
    """
    candidates = []
    for state, ahead, behind in (
        (State.H, forward.h, backward.h),
        (gap, forward.gap, backward.gap),
    ):
        sums = join(ahead.astype(np.int64), behind.astype(np.int64), state, alpha)
        hits = np.flatnonzero((sums == total) & reachable(ahead) & reachable(behind))
        if len(hits):
            offset = int(hits[-1])
            candidates.append((offset, -state, state, int(ahead[offset])))
    if not candidates:
        return None
    offset, _, state, value = max(candidates)
    return offset, state, value
