"""Sweep jobs for tests: hypothesis strategies, a comparison of results, and source text.

`assert_same_result` is the comparison. The message of a failure contains Python code that builds the job
(`job_source`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
from hypothesis import strategies as st

from longalign.backends.base import SweepJob, SweepResult, TraceJob
from longalign.model.alphabet import Codes
from longalign.model.boundary import Boundary, Edge, IntArray, State, entry_edges, local_edges
from longalign.model.excluded_pairs import ExcludedPairs
from longalign.model.pruning import SideGains
from longalign.model.scoring import NEG_INF, UNREACHABLE, Scoring
from longalign.testing.conformance import edge_lengths
from longalign.testing.inputs import (
    QUERY_N,
    TARGET_N,
    any_scorings,
    edge_source,
    entry_range,
    pairs,
    scoring_source,
)
from longalign.testing.reference import ReferenceBackend

Job = TypeVar("Job", SweepJob, TraceJob)

#: The largest number of letters that `cut_edges` puts before a rectangle on either side.
MARGIN = 9


# --- comparing results -------------------------------------------------------------------------------


def assert_same_result(job: SweepJob, got: SweepResult, want: SweepResult) -> None:
    """Check that two results have the same best cell and the same boundaries.

    All values below UNREACHABLE stand for minus infinity, and are equal. `gap[0]`, which belongs to a cell
    outside the rectangle, must be NEG_INF itself.
    """
    for problem in _differences(job, got, want):
        raise AssertionError(f"{problem} for\n{job_source(job)}")


def _differences(job: SweepJob, got: SweepResult, want: SweepResult) -> Iterator[str]:
    if got.best != want.best:
        yield f"best is {got.best}, not {want.best},"
    for side, places in (("rows", job.rows), ("cols", job.cols)):
        ours, theirs = getattr(got, side), getattr(want, side)
        if len(ours) != len(places):
            yield f"{side} holds {len(ours)} boundaries, not {len(places)},"
        for place, mine, other in zip(places, ours, theirs, strict=True):
            yield from _boundary_differences(f"boundary at {side[:-1]} {place}", mine, other)


def _boundary_differences(where: str, got: Boundary, want: Boundary) -> Iterator[str]:
    for name, ours, theirs in (("h", got.h, want.h), ("gap", got.gap, want.gap)):
        if ours.shape != theirs.shape or ours.dtype != np.int32:
            yield f"{where}: {name} is {ours.dtype}{ours.shape}, not int32{theirs.shape},"
            return
        wrong = np.flatnonzero(np.where(theirs < UNREACHABLE, ours >= UNREACHABLE, ours != theirs))
        if len(wrong):
            k = wrong[0]
            yield f"{where}: {name}[{k}] is {ours[k]}, not {theirs[k]} ({len(wrong)} values differ),"
    if got.gap[0] != NEG_INF:
        yield f"{where}: gap[0] is {got.gap[0]}, not NEG_INF,"


def job_source(job: SweepJob) -> str:
    """Python that builds the job, given numpy, SweepJob, Scoring, SubstitutionMatrix, Boundary, LinearEdge,
    ExcludedPairs, Pruning, SideGains and `reference.encode`. `sinks` are left out."""
    lines = [
        f"query={codes_source(job.query)}",
        f"target={codes_source(job.target)}",
        f"scoring={scoring_source(job.scoring)}",
        f"top={edge_source(job.top)}",
        f"left={edge_source(job.left)}",
        f"local={job.local}",
        f"rows={tuple(job.rows)}",
        f"cols={tuple(job.cols)}",
        f"track_best={job.track_best}",
    ]
    if len(job.excluded):
        indices = (f"np.array({side.tolist()})" for side in (job.excluded.query, job.excluded.target))
        lines.append(f"excluded=ExcludedPairs({', '.join(indices)})")
    if job.of_matrix:
        lines.append("of_matrix=True")
    if job.pruning is not None:
        sides = ", ".join(_gains_source(side) for side in (job.pruning.query, job.pruning.target))
        lines.append(f"pruning=Pruning({job.pruning.bound}, {sides}, {job.pruning.rises})")
    return "SweepJob(\n" + "".join(f"    {line},\n" for line in lines) + ")"


def _gains_source(side: SideGains) -> str:
    arrays = ", ".join(f"np.array({values.tolist()}, np.int32)" for values in side.arrays)
    return f"SideGains({arrays}, {side.slope})"


def codes_source(codes: Codes) -> str:
    if len({*codes.tolist()} - {0, 1, 2, 3}) > 1 or codes.max() > TARGET_N:
        return f"np.array({codes.tolist()}, np.uint8)"
    text = "".join("ACGTNN"[code] for code in codes)
    return f"encode({text!r}, ambiguous={max(QUERY_N, int(codes.max()))})"


# --- rectangles --------------------------------------------------------------------------------------


@st.composite
def shapes(draw: st.DrawFn, interesting: Sequence[int], cells: int) -> tuple[int, int]:
    """Rows and columns, often an edge length, of at most `cells` cells."""
    edges = [length for length in edge_lengths(interesting) if length <= cells]
    lengths = st.one_of(st.sampled_from(edges), st.integers(1, edges[-1]))
    long = draw(lengths)
    short = min(draw(lengths), cells // long)
    return (long, short) if draw(st.booleans()) else (short, long)


def lattices(length: int) -> st.SearchStrategy[tuple[int, ...]]:
    """Boundary indices to request: none, the last, a few, or all."""
    few = st.sets(st.integers(1, length), min_size=1, max_size=6).map(lambda chosen: tuple(sorted(chosen)))
    return st.one_of(st.sampled_from([(), (length,), tuple(range(1, length + 1))]), few)


@st.composite
def edges(draw: st.DrawFn, query: Codes, target: Codes, scoring: Scoring, local: bool) -> tuple[Edge, Edge]:
    """Top and left boundary: of a whole matrix, of an entry, or of a rectangle inside a matrix."""
    rows, cols = len(query), len(target)
    kind = draw(st.sampled_from(["free", "cut"] if local else ["free", "entry", "cut"]))
    if kind == "free":
        return draw(free_edges(rows, cols, scoring, local))
    if kind == "cut":
        return draw(cut_edges(query, target, scoring, local))
    return draw(_entries(rows, cols, scoring, *entry_range(scoring, rows, cols)))


@st.composite
def cut_edges(
    draw: st.DrawFn, query: Codes, target: Codes, scoring: Scoring, local: bool
) -> tuple[Boundary, Boundary]:
    """The edges of a rectangle inside a larger DP matrix, possibly one with much higher values.

    A number may be added to every value of a DP matrix, because the result obeys the recurrence, too. In
    local mode the number must not be negative.
    """
    above, before = draw(pairs(draw(st.integers(1, MARGIN)), draw(st.integers(1, MARGIN)), scoring))
    whole_query, whole_target = np.concatenate([above, query]), np.concatenate([before, target])
    rows, cols = len(whole_query), len(whole_target)
    free = free_edges(rows, cols, scoring, local)
    top, left = draw(free if local else st.one_of(free, _entries(rows, cols, scoring, 0, 0)))
    i, j = len(above), len(before)
    above_it = SweepJob(above, whole_target, scoring, top, left.part(0, i), local, rows=(i,))
    before_it = SweepJob(whole_query, before, scoring, top.part(0, j), left, local, cols=(j,))
    bottom, right = ReferenceBackend().sweep([above_it, before_it])

    lowest, highest = entry_range(scoring, rows, cols)
    raised_by = draw(_offsets(0 if local else lowest, highest))
    return _raised(bottom.rows[0].part(j, cols), raised_by), _raised(right.cols[0].part(i, rows), raised_by)


def _raised(boundary: Boundary, by: int) -> Boundary:
    return Boundary(_raise(boundary.h, by), _raise(boundary.gap, by))


def _raise(values: IntArray, by: int) -> IntArray:
    return np.where(values < UNREACHABLE, values, values + np.int32(by))


@st.composite
def free_edges(draw: st.DrawFn, rows: int, cols: int, scoring: Scoring, local: bool) -> tuple[Edge, Edge]:
    """The edges of a whole matrix: with a floor both are 0, without one each may be, as in `FreeEnds`."""
    (free_top, free_left), (top, left) = local_edges(rows, cols), entry_edges(State.H, rows, cols, scoring)
    is_free = (True, True) if local else draw(st.tuples(st.booleans(), st.booleans()))
    return free_top if is_free[0] else top, free_left if is_free[1] else left


@st.composite
def _entries(
    draw: st.DrawFn, rows: int, cols: int, scoring: Scoring, lowest: int, highest: int
) -> tuple[Edge, Edge]:
    return entry_edges(draw(st.sampled_from(State)), rows, cols, scoring, draw(_offsets(lowest, highest)))


def _offsets(lowest: int, highest: int) -> st.SearchStrategy[int]:
    far = [value for value in (lowest, -(1 << 30), 1 << 30, highest) if lowest <= value <= highest]
    return st.one_of(st.just(0), st.sampled_from(far), st.integers(lowest, highest))


@st.composite
def jobs(draw: st.DrawFn, interesting: Sequence[int], cells: int) -> SweepJob:
    """A rectangle of at most `cells` cells, with any letters, scoring, edges and requests."""
    rows, cols = draw(shapes(interesting, cells))
    local = draw(st.booleans())
    scoring = draw(any_scorings(rows + MARGIN, cols + MARGIN))
    query, target = draw(pairs(rows, cols, scoring))
    top, left = draw(edges(query, target, scoring, local))
    return SweepJob(
        query,
        target,
        scoring,
        top,
        left,
        local,
        draw(lattices(rows)),
        draw(lattices(cols)),
        draw(st.sampled_from([True, True, True, False])),
    )


@st.composite
def with_excluded_pairs(draw: st.DrawFn, jobs: st.SearchStrategy[Job]) -> Job:
    """A job with some excluded pairs: those of diagonals, as alignments leave them, and any others."""
    job = draw(jobs)
    rows, cols = len(job.query), len(job.target)
    rng = np.random.default_rng(draw(st.integers(0, 1 << 32)))
    shifts = draw(st.lists(st.integers(1 - rows, cols - 1), max_size=3))
    found = {(i, i + shift) for shift in shifts for i in range(rows) if 0 <= i + shift < cols}
    scattered = draw(st.integers(0 if found else 1, 40))
    found |= {(int(rng.integers(rows)), int(rng.integers(cols))) for _ in range(scattered)}
    query, target = np.array(sorted(found), np.int64).T
    return dataclasses.replace(job, excluded=ExcludedPairs(query, target))


def whole_matrix(
    query: Codes, target: Codes, scoring: Scoring, local: bool, *, best: bool = True
) -> SweepJob:
    """The job that aligns two sequences: the edges of the mode, and the last row and column requested."""
    rows, cols = len(query), len(target)
    top, left = local_edges(rows, cols) if local else entry_edges(State.H, rows, cols, scoring)
    return SweepJob(query, target, scoring, top, left, local, (rows,), (cols,), best)


def transposed(job: SweepJob) -> SweepJob:
    """The same rectangle with query and target, and with them E and F, exchanged."""
    matrix = job.scoring.matrix
    if matrix is not None:
        matrix = dataclasses.replace(matrix, scores=tuple(zip(*matrix.scores, strict=True)))
    return dataclasses.replace(
        job,
        scoring=dataclasses.replace(job.scoring, matrix=matrix),
        query=job.target,
        target=job.query,
        top=job.left,
        left=job.top,
        rows=job.cols,
        cols=job.rows,
    )
