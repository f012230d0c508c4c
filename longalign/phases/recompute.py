"""Phase 3: compute the path between waypoints. The segments are independent of one another.

Each round cuts all segments in two that are too large to be traced. When none is left, one call traces all
segments. A segment whose path is a single gap, or a single diagonal, is neither cut nor traced. A cut halves
the number of cells of a segment, so the number of rounds is logarithmic in that number, and all rounds
together cost about as much as two sweeps of the segments.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice, pairwise

import numpy as np

from longalign.backends.base import Backend, Progress, no_progress
from longalign.model.alignment import Op, merge_runs, span
from longalign.model.boundary import Waypoint
from longalign.phases import meeting
from longalign.phases.diagonal import is_straight
from longalign.phases.entry import middles
from longalign.phases.halves import halves_of
from longalign.phases.problem import Problem, Segment
from longalign.store import Piece
from longalign.system.gc_pause import collector_at_rest

#: The largest number of segments in a group, and the most host bytes that sweeping them may take. One
#: step of phase 3 computes and stores one group.
GROUP_SEGMENTS, GROUP_BYTES = 256, 1 << 30


def segments_of(path: Sequence[Waypoint]) -> list[Segment]:
    """The segments between `path`, waypoints from the end backwards, in the order of the sequences."""
    forward = list(path)[::-1]
    return [Segment(entry, exit_) for entry, exit_ in pairwise(forward)]


def groups_of(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Groups of consecutive segments. The piece of a group is computed and stored in one step.

    The groups depend on the segments alone, so a resumed run forms the same groups.
    """
    return meeting.calls_of(segments, GROUP_BYTES, GROUP_SEGMENTS)


def spans(piece: Piece, segments: Sequence[Segment]) -> bool:
    """Whether a piece covers exactly as many query and target letters as consecutive segments do."""
    first, last = segments[0].entry, segments[-1].exit
    return span(piece.ops, piece.lengths) == (last.i - first.i, last.j - first.j)


def recompute(
    problem: Problem,
    segments: Sequence[Segment],
    backend: Backend,
    progress: Progress = no_progress,
) -> Piece:
    """The alignment of consecutive segments as one piece."""
    [piece] = recompute_all([(problem, segments)], backend, progress)
    return piece


def recompute_all(
    parts: Sequence[tuple[Problem, Sequence[Segment]]],
    backend: Backend,
    progress: Progress,
) -> list[Piece]:
    """The piece of each of many problems, given its consecutive segments.

    Large segments are cut one problem after the other. One call traces the segments of all problems.
    """
    with collector_at_rest():  # thousands of rectangles have about ten objects each, none in a cycle
        small = [(problem, _small_parts(problem, segments, backend, progress)) for problem, segments in parts]
        traced = iter(
            _trace([(problem, part) for problem, of_one in small for part in of_one], backend, progress)
        )
        return [merge([*islice(traced, len(of_one))]) for _, of_one in small]


#: A segment, or its path if that is known without a trace.
_Part = Segment | Piece


def _known_first(problem: Problem, segments: Iterable[Segment]) -> list[_Part]:
    """The segments in their order, or their pieces: those that are a single gap or a single diagonal."""
    parts: list[_Part] = []
    for segment in segments:
        if segment.cells == 0:
            op = Op.DELETION if segment.rows == 0 else Op.INSERTION
            parts.append(_run(op, segment.rows + segment.cols))
        else:
            parts.append(_run(Op.DIAGONAL, segment.rows) if is_straight(problem, segment) else segment)
    return parts


def _small_parts(
    problem: Problem, segments: Iterable[Segment], backend: Backend, progress: Progress
) -> list[_Part]:
    """The parts of the segments, cut until none is too large to be traced."""
    parts = _known_first(problem, segments)
    while any(_is_large(part, problem, backend) for part in parts):
        parts = _cut_large(problem, parts, backend, progress)
    return parts


def _run(op: Op, length: int) -> Piece:
    return Piece(np.array([op], np.uint8), np.array([length], np.int64))


def _is_large(part: _Part, problem: Problem, backend: Backend) -> bool:
    """Whether a part is a segment that is too large to be traced."""
    if isinstance(part, Piece):
        return False
    return not backend.can_trace(part.rows, part.cols, part.detour(problem.scoring))


def _cut_large(problem: Problem, parts: Sequence[_Part], backend: Backend, progress: Progress) -> list[_Part]:
    """The parts in their order, each large segment replaced by its two halves."""
    large = [part for part in parts if isinstance(part, Segment) and _is_large(part, problem, backend)]
    halves: dict[_Part, list[_Part]] = {
        segment: _known_first(problem, segment.cut(middle))
        for call in meeting.calls_of(large, backend.host_bytes_per_call, len(large))
        for segment, middle in zip(call, cut_points(problem, call, backend, progress), strict=True)
    }
    return [half for part in parts for half in halves.get(part, [part])]


def cut_points(
    problem: Problem, segments: Sequence[Segment], backend: Backend, progress: Progress
) -> list[Waypoint]:
    """A waypoint near the middle of each segment, between its entry and its exit, by one call for the sweeps.

    A segment must have a side of 2 letters or more. The waypoint lies on the cut, or beyond it on an edge
    along which the path comes from the entry by a gap.
    """
    approaches = [meeting.approach_of(problem, segment) for segment in segments]
    return middles(halves_of(approaches, backend.min_pruned_cells), backend, progress)


def _trace(parts: Sequence[tuple[Problem, _Part]], backend: Backend, progress: Progress) -> list[Piece]:
    """The path through each part; one call traces all segments."""
    jobs = [part.trace_job(problem) for problem, part in parts if isinstance(part, Segment)]
    paths = iter(backend.trace(jobs, progress))
    return [Piece(*next(paths)) if isinstance(part, Segment) else part for _, part in parts]


def merge(pieces: Sequence[Piece]) -> Piece:
    """Concatenate pieces. Adjacent runs of the same operation become one run."""
    ops = [piece.ops for piece in pieces] or [np.empty(0, np.uint8)]
    lengths = [piece.lengths for piece in pieces] or [np.empty(0, np.int64)]
    return Piece(*merge_runs(np.concatenate(ops), np.concatenate(lengths)))
