"""Phase 3: the path between waypoints, all segments independent of one another.

A segment that is too large to be traced is a problem of its own: one sweep with a finer lattice
and a stitch through it, until the pieces are small. Many segments share each call of the back end.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil, isqrt

import numpy as np

from longalign.alignment import Op, merge_runs, uses_query, uses_target
from longalign.backends.base import Backend, Progress, SweepResult, no_progress
from longalign.boundary import State, Waypoint
from longalign.geometry import BYTES_PER_CELL, even_cuts, stored_cells
from longalign.lattice import SweepLattice
from longalign.phases.batch import run_together
from longalign.phases.stitch import Stitch, stitch
from longalign.problem import Problem, Segment, check_value
from longalign.store import Piece

#: Rectangles of at most this many cells are traced.
LEAF_CELLS = 512 * 512

#: Bytes of finer lattices that may be in hand at once.
LATTICE_BYTES = 256 << 20

#: Segments in a group, at most; a group is what one step of phase 3 computes and stores.
GROUP_SEGMENTS = 256


def segments_of(path: Sequence[Waypoint]) -> list[Segment]:
    """The segments between waypoints given from the end backwards, in the order of the sequences."""
    forward = list(path)[::-1]
    return [Segment(entry, exit_) for entry, exit_ in pairwise(forward)]


def groups_of(segments: Sequence[Segment]) -> list[list[Segment]]:
    """Consecutive segments whose finer lattices fit in memory together.

    Depends on the segments alone, so a resumed run finds the same groups.
    """
    groups: list[list[Segment]] = []
    room = 0
    for segment in segments:
        needed = _lattice_bytes(segment)
        if not groups or needed > room or len(groups[-1]) == GROUP_SEGMENTS:
            groups.append([])
            room = LATTICE_BYTES
        groups[-1].append(segment)
        room -= needed
    return groups


def spans(piece: Piece, segments: Sequence[Segment]) -> bool:
    """Whether a piece has as many query and target letters as consecutive segments."""
    letters = (
        int(piece.lengths[uses_query(piece.ops)].sum()),
        int(piece.lengths[uses_target(piece.ops)].sum()),
    )
    first, last = segments[0].entry, segments[-1].exit
    return letters == (last.i - first.i, last.j - first.j)


def recompute(
    problem: Problem,
    segments: Sequence[Segment],
    backend: Backend,
    progress: Progress = no_progress,
) -> Piece:
    """The alignment of consecutive segments as one piece.

    Each round replaces segments that are too large by smaller ones; a segment shrinks by a factor of
    its lattice each time, so there are few rounds.
    """
    pieces = list(segments)
    while any(_is_large(segment) for segment in pieces):
        refined: list[Segment] = []
        for group in groups_of(pieces):
            large = [segment for segment in group if _is_large(segment)]
            paths = iter(run_together([_refine(problem, segment) for segment in large], backend, progress))
            for segment in group:
                refined.extend(segments_of(next(paths)) if _is_large(segment) else [segment])
        pieces = refined
    return merge(_trace(problem, pieces, backend, progress))


def _is_large(segment: Segment) -> bool:
    return segment.cells > LEAF_CELLS


def _refine(problem: Problem, segment: Segment) -> Stitch:
    """Sweep one segment with a finer lattice and stitch it: its waypoints, from its exit backwards."""
    part = segment.problem(problem)
    row_cuts, col_cuts = _finer_cuts(segment)
    result = yield part.sweep_job(row_cuts[1:], col_cuts[1:])
    end = Waypoint(segment.rows, segment.cols, segment.exit.state, _corner_value(result, segment.exit.state))
    # A gap that was open on entry has paid for its opening: value there is that of its state alone.
    check_value(end.value, segment.exit.value - segment.entry.value, f"the path to {segment.exit}")
    inner = yield from stitch(part, SweepLattice(part, row_cuts, col_cuts, result), [end])
    entry = segment.entry
    return [Waypoint(p.i + entry.i, p.j + entry.j, p.state, p.value + entry.value) for p in inner]


def _corner_value(result: SweepResult, state: State) -> int:
    """The value of a state at the lower right corner."""
    row, col = result.rows[-1], result.cols[-1]
    return int({State.H: row.h, State.E: row.gap, State.F: col.gap}[state][-1])


def _finer_cuts(segment: Segment) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Cuts at the side of a leaf, or as fine as a single segment may use of the memory; at least one."""
    affordable = 2 * segment.cells * BYTES_PER_CELL // LATTICE_BYTES
    halves = ceil(max(segment.rows, segment.cols) / 2)
    side = max(isqrt(LEAF_CELLS), min(affordable, halves))
    return even_cuts(segment.rows, side), even_cuts(segment.cols, side)


def _lattice_bytes(segment: Segment) -> int:
    if not _is_large(segment):
        return 0
    row_cuts, col_cuts = _finer_cuts(segment)
    return BYTES_PER_CELL * stored_cells(segment.rows, segment.cols, len(row_cuts) - 1, len(col_cuts) - 1)


def _trace(
    problem: Problem, segments: Sequence[Segment], backend: Backend, progress: Progress
) -> list[Piece]:
    jobs = [segment.trace_job(problem) for segment in segments if segment.cells > 0]
    paths = iter(backend.trace(jobs, progress))
    return [Piece(*next(paths)) if segment.cells > 0 else _gap(segment) for segment in segments]


def _gap(segment: Segment) -> Piece:
    op, length = (Op.DELETION, segment.cols) if segment.rows == 0 else (Op.INSERTION, segment.rows)
    return Piece(np.array([op], np.uint8), np.array([length], np.int64))


def merge(pieces: Sequence[Piece]) -> Piece:
    """Pieces end to end as one; runs of one operation that meet become one run."""
    ops = [piece.ops for piece in pieces] or [np.empty(0, np.uint8)]
    lengths = [piece.lengths for piece in pieces] or [np.empty(0, np.int64)]
    return Piece(*merge_runs(np.concatenate(ops), np.concatenate(lengths)))
