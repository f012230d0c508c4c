"""Where an optimal path crosses a line, from a forward sweep to the line and a backward sweep to it.

An optimal path crosses where the forward value plus the backward value equals the value of the path.
D. Hirschberg, Comm. ACM 18:341 (1975); E. Myers and W. Miller, CABIOS 4:11 (1988).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import SweepJob, in_calls
from longalign.model.alphabet import Codes
from longalign.model.boundary import Boundary, Edge, LinearEdge, State, Waypoint, entry_edges, gap_edges
from longalign.model.pruning import Pruning
from longalign.model.recurrence import join
from longalign.model.scoring import Scoring
from longalign.phases.problem import Approach, Problem, Segment, reachable
from longalign.pruning.gains import gains

#: Host bytes for each letter of a rectangle of which a sweep or start states are asked for: its cells on the
#: edges and on the last row and column, and a back end's copies of them.
_BYTES_PER_LETTER = 40

#: A rectangle with no more rows than this keeps its first row; likewise for columns.
_MIN_SIDE = 2

#: Cells of a line that are compared in one NumPy operation. Their values stay in a cache.
_BLOCK = 1 << 14


def bytes_needed(rows: int, cols: int) -> int:
    """Host bytes that one rectangle needs while it is swept."""
    return _BYTES_PER_LETTER * (rows + cols)


def jobs_at_once(rows: int, cols: int, host_bytes_per_call: int) -> int:
    """The number of rectangles of this size in one call of at most `host_bytes_per_call`; at least one."""
    return max(1, host_bytes_per_call // max(1, bytes_needed(rows, cols)))


#: What is computed as one rectangle.
Part = TypeVar("Part", Segment, Approach)


def calls_of(parts: Sequence[Part], host_bytes_per_call: int, max_parts: int) -> list[list[Part]]:
    """Groups of consecutive parts, each within the bytes and the number of parts given.

    A part that is too large for `host_bytes_per_call` forms a group of its own.
    """
    needed = [bytes_needed(part.rows, part.cols) for part in parts]
    return in_calls(parts, needed, host_bytes_per_call, max_parts)


def corner_edges(
    rows: int, cols: int, scoring: Scoring, entry: State, value: int
) -> tuple[tuple[int, int], Edge, Edge]:
    """The edges of a rectangle whose paths all enter at its upper left corner, in state `entry` with `value`.

    A path that enters in a gap state first takes one letter of the gap. If there are enough rows, or columns,
    the one with that letter is left out: the edges of the rest hold no minus infinity, and a GPU sweeps them
    faster. Lines that cross it then lack their first cell, which no path reaches. Returns the numbers of rows
    and columns left out, and the top and the left edge of the rest.
    """
    before = int(entry == State.E and rows > _MIN_SIDE), int(entry == State.F and cols > _MIN_SIDE)
    size = rows - before[0], cols - before[1]
    if any(before):
        return before, *gap_edges(entry, *size, scoring, value - scoring.gap_extend)
    return before, *entry_edges(entry, *size, scoring, value)


def approach_of(problem: Problem, segment: Segment) -> Approach:
    """The rectangle of a segment. Its path comes from the upper left corner, or along an edge from there."""
    entry, exit_ = segment.entry, segment.exit
    size = segment.rows, segment.cols
    (rows, cols), top, left = corner_edges(*size, problem.scoring, entry.state, entry.value)
    i0, j0 = entry.i + rows, entry.j + cols
    rectangle = problem.rectangle(i0, exit_.i, j0, exit_.j, top, left, local=False)
    return Approach(problem, i0, j0, rectangle, exit_)


def backward_sweep(problem: Problem, corner: tuple[int, int], exit_: Waypoint) -> SweepJob:
    """The sweep back from the exit of a path to this corner, with the last row and the last column.

    Rows and columns count from the exit. A gap state pays for its opening in the forward and in the backward
    sweep; see `recurrence.join`. In phase 3, the best cell is not needed. It is asked for wherever phase 2
    asks for it, so that both use the same kernels, each of which takes seconds to compile on a new machine.
    """
    place, scoring = (corner[0], exit_.i, corner[1], exit_.j), problem.scoring
    value = 0 if exit_.state == State.H else -scoring.gap_open
    query, target = problem.letters_backwards(*place)
    all_rows, all_cols = len(query), len(target)
    (rows, cols), top, left = corner_edges(all_rows, all_cols, scoring, exit_.state, value)
    excluded = problem.excluded_backwards(*place).within(rows, all_rows, cols, all_cols)
    query, target = query[rows:], target[cols:]
    return SweepJob(
        query, target, scoring, top, left, False,
        (len(query),), (len(target),), problem.has_floor,
        excluded=excluded,
    )  # fmt: skip


def is_pruned(problem: Problem, cells: int, min_pruned_cells: int) -> bool:
    """Whether a sweep of `cells` cells leaves some out; for `min_pruned_cells`, see `Backend`."""
    return problem.pruning is not None and cells >= min_pruned_cells


def reaching_exit(approach: Approach, job: SweepJob, min_pruned_cells: int) -> SweepJob:
    """The sweep `job` from the corner of an approach.

    Cells may be left out that lie on no path to the exit with its value. All cells are
    swept if the problem is not pruned, or if there are fewer than `min_pruned_cells`.
    """
    if not is_pruned(approach.problem, job.cells, min_pruned_cells):
        return job
    return _reaching(job, approach.exit.value, approach.rectangle.query, approach.rectangle.target)


def reaching_edges(
    approach: Approach, corner: tuple[int, int], job: SweepJob, min_pruned_cells: int
) -> SweepJob:
    """A `backward_sweep` to `corner` in an approach.

    Cells may be left out that lie on no path from the edges of the approach to its exit, with the values
    there. On an edge, such a path has at most the highest value there. It gains the rest of the exit's value
    between the edge and the exit, and `recurrence.join` adds at most one alpha. All cells are swept if the
    problem is not pruned, or if there are fewer than `min_pruned_cells`.
    """
    problem, edges = approach.problem, (approach.rectangle.top, approach.rectangle.left)
    if not is_pruned(problem, job.cells, min_pruned_cells):
        return job
    highest = max(int(edge.h.max()) for edge in edges)
    bound = approach.exit.value - highest - problem.scoring.gap_open
    i1, j1 = corner[0] + len(job.query), corner[1] + len(job.target)
    return _reaching(job, bound, *problem.letters_backwards(approach.i0, i1, approach.j0, j1))


def _reaching(job: SweepJob, bound: int, query: Codes, target: Codes) -> SweepJob:
    """The same sweep. It may leave out cells off all paths that end with at least `bound`.

    `query` and `target` are the letters from the job's upper left corner to where these paths end at the
    latest: those of the job, and maybe more.
    """
    found = gains(query, target, job.scoring, threads=1)
    pruning = Pruning(bound, found.query, found.target).within(0, len(job.query), 0, len(job.target))
    return replace(job, pruning=pruning, of_matrix=True)


def reversed_line(line: Boundary) -> Boundary:
    """A line that a backward sweep has returned, in the order of the sequences. Changes the line itself.

    The line's first cell lies on an edge of the sweep, where its gap state is defined to equal H; see
    `entry_edges`. A path may leave the rectangle along that edge.
    """
    line.gap[0] = line.h[0]
    return Boundary(line.h[::-1], line.gap[::-1])


def meetings(
    forward: Edge, backward: Boundary, gap: State, total: int, alpha: int
) -> Iterator[tuple[State, NDArray[np.int64]]]:
    """All cells and states of a line in which a path of value `total` passes: states, and indices of cells.

    `gap` is the state of a gap that crosses the line. `forward` may be longer than `backward`. Requires that
    no path across the line has a value above `total`, and no gap state one above H.
    """
    threshold = total - alpha
    for first, stop in _blocks(forward, backward, threshold):
        forward_h, forward_gap = forward.cells(first, stop)
        backward_h, backward_gap = backward.cells(first, stop)
        # These 32-bit sums may wrap around, but not where a path passes. Candidates are checked with 64 bits.
        candidates = np.flatnonzero(forward_h + backward_h >= threshold)
        if not len(candidates):
            continue
        for state, ahead, behind in ((State.H, forward_h, backward_h), (gap, forward_gap, backward_gap)):
            before, after = (values[candidates].astype(np.int64) for values in (ahead, behind))
            meets = (join(before, after, state, alpha) == total) & reachable(before) & reachable(after)
            if meets.any():
                yield state, first + candidates[meets]


def _blocks(forward: Edge, backward: Boundary, threshold: int) -> Iterator[tuple[int, int]]:
    """Spans of a line in which forward H plus backward H may reach `threshold`.

    A packed line has few of them, since both values are high near a path and fall with the distance from it.
    """
    end = len(backward) + 1
    if isinstance(forward, Boundary | LinearEdge):
        yield from ((start, min(start + _BLOCK, end)) for start in range(0, end, _BLOCK))
        return
    firsts, highest = forward.stretches()
    firsts = firsts[: np.searchsorted(firsts, end)]
    upper_bounds = highest[: len(firsts)] + np.maximum.reduceat(backward.h, firsts)
    stops = np.append(firsts[1:], end)
    for k in np.flatnonzero(upper_bounds >= threshold):
        yield int(firsts[k]), int(stops[k])
