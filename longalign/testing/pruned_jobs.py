"""Sweep jobs with pruning for tests: hypothesis strategies, and a check of their results.

What a back end leaves out is its own choice, so a result is held between two others (`assert_between`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from longalign.backends.base import SweepJob, SweepResult
from longalign.model.boundary import Boundary, IntArray
from longalign.model.pruning import SPACING, Pruning, SideGains
from longalign.model.scoring import UNREACHABLE, Scoring
from longalign.testing.gains import true_gains
from longalign.testing.inputs import any_scorings, generators, pairs
from longalign.testing.reference import ReferenceBackend, matrices
from longalign.testing.sweep_jobs import (
    cut_edges,
    free_edges,
    job_source,
    jobs,
    lattices,
    shapes,
    whole_matrix,
)

#: Gains and bounds stay between these, so that they fit int32 with everything that is added to them.
_LARGEST = 1 << 30


def assert_between(job: SweepJob, got: SweepResult) -> None:
    """Check a back end's result of a job with pruning against the oracle's.

    Every value is at least that of the oracle, which tests each cell by itself, and at most that without
    pruning. This holds for any `SideGains`, true or not, and for any bound. If a back end
    leaves out a block, the oracle leaves out each of its cells: the values before a cell are no higher, and
    its gains no larger, than those with which the block was tested. All other values are maxima of sums of
    values before them. So by induction none is lower than the oracle's. If the oracle's best cell is that of
    the whole matrix, so is the back end's, whose values lie between. A back end need not look for it if it is
    below the bound.

    If the best cell is tracked, the oracle's bound is the best score: no back end can raise its own further.
    """
    [whole] = ReferenceBackend().sweep([without_pruning(job)])
    [least] = ReferenceBackend().sweep([_most_pruned(job, whole)])
    assert job.pruning is not None
    if whole.best.score < job.pruning.bound:
        assert got.best.score <= whole.best.score, f"best is {got.best}, for\n{job_source(job)}"
    elif least.best == whole.best:
        assert got.best == whole.best, f"best is {got.best}, not {whole.best}, for\n{job_source(job)}"
    assert 0 <= got.cells_left_out <= least.cells_left_out, job_source(job)
    for side in ("rows", "cols"):
        lines = zip(*(getattr(result, side) for result in (least, got, whole)), strict=True)
        for place, line in zip(getattr(job, side), lines, strict=True):
            _check_line(f"{side[:-1]} {place}", job, *line)


def _check_line(where: str, job: SweepJob, least: Boundary, got: Boundary, whole: Boundary) -> None:
    for name in ("h", "gap"):
        low, value, high = (_floored(getattr(line, name)) for line in (least, got, whole))
        wrong = np.flatnonzero((value < low) | (value > high))
        for k in wrong[:1].tolist():
            raise AssertionError(
                f"{where}: {name}[{k}] is {value[k]}, not in {low[k]} to {high[k]}, for\n{job_source(job)}"
            )


def _floored(values: IntArray) -> IntArray:
    """The values; all that stand for minus infinity are equal."""
    return np.maximum(values, UNREACHABLE)


def without_pruning(job: SweepJob) -> SweepJob:
    return dataclasses.replace(job, pruning=None)


def _most_pruned(job: SweepJob, whole: SweepResult) -> SweepJob:
    pruning = job.pruning
    assert pruning is not None
    bound = max(pruning.bound, int(whole.best.score)) if pruning.rises and job.track_best else pruning.bound
    return dataclasses.replace(job, pruning=dataclasses.replace(pruning, bound=bound))


@st.composite
def pruned_jobs(draw: st.DrawFn, interesting: Sequence[int], cells: int) -> SweepJob:
    """A job with pruning: any bound, from far too low to above the best score, and any gains."""
    job = draw(jobs(interesting, cells))
    if draw(st.sampled_from([True, True, False])):
        parts = cut_edges(job.query, job.target, job.scoring, job.local)
        whole = free_edges(len(job.query), len(job.target), job.scoring, job.local)
        top, left = draw(st.one_of(parts, whole))
        job = dataclasses.replace(job, top=top, left=left, of_matrix=True)
    lengths = len(job.query), len(job.target)
    gains = draw(_gains(*lengths, job.scoring)), draw(_gains(*lengths[::-1], job.scoring))
    highest = max(map(max, matrices(without_pruning(job))[0]))
    fractions = st.floats(0, 1.2).map(lambda share: int(highest * share))
    bound = draw(st.one_of(st.sampled_from([-_LARGEST, 0, highest, highest + 1]), fractions))
    bound = max(-_LARGEST, min(bound, _LARGEST))
    pruning = Pruning(bound, gains[0], gains[1], draw(st.booleans()))
    return dataclasses.replace(job, pruning=pruning)


@st.composite
def _gains(draw: st.DrawFn, length: int, other_length: int, scoring: Scoring) -> SideGains:
    """Gains for one side: the best letter score times the letters left, or random lower ones.

    Those of a path that lags behind are random as well, or no less.
    """
    rng, highest = draw(generators()), max(0, scoring.highest)
    gains = highest * np.arange(length, -1, -1, dtype=np.int64)
    if draw(st.booleans()):
        gains = np.sort((gains * rng.random(length + 1)).astype(np.int64))[::-1]
    most = np.minimum(gains, _LARGEST).astype(np.int32)
    if draw(st.booleans()):
        return SideGains.of(most)
    floor = most[::SPACING] - draw(st.sampled_from([0, highest, highest * length // 4, _LARGEST]))
    ahead = rng.integers(0, other_length + 1, len(floor))  # where the line is as high as `most`
    line = most[::SPACING] - scoring.gap_extend * np.sort(ahead)
    return SideGains(most, floor, np.maximum(line, -_LARGEST).astype(np.int32), scoring.gap_extend)


@st.composite
def closely_pruned_jobs(draw: st.DrawFn, interesting: Sequence[int], cells: int) -> SweepJob:
    """A whole matrix in local mode with the smallest true gains, and the best score as the bound.

    Often gaps cost nothing to open. An optimal path then just reaches the bound wherever it passes.
    """
    rows, cols = draw(shapes(interesting, cells))
    scoring = draw(any_scorings(rows, cols))
    if draw(st.booleans()):
        scoring = dataclasses.replace(scoring, gap_open=0)
    query, target = draw(pairs(rows, cols, scoring))
    job = whole_matrix(query, target, scoring, True)
    job = dataclasses.replace(job, rows=draw(lattices(rows)), cols=draw(lattices(cols)), of_matrix=True)
    return pruned_closely(job)


def pruned_closely(job: SweepJob) -> SweepJob:
    """A job in local mode with the smallest gains that are true, and its best score as the bound."""
    ahead, slope = _gains_in_h(job), job.scoring.gap_extend
    gains = _smallest(ahead, slope), _smallest(ahead.T, slope)
    return dataclasses.replace(job, pruning=Pruning(int(ahead.max()), *gains, True))


def _smallest(ahead: NDArray[np.int64], slope: int) -> SideGains:
    """The smallest gains of one side that are true, without a floor.

    `ahead` holds the most that a path gains, by the place in this sequence and in the other one.
    """

    def from_here_on(values: NDArray[np.int64]) -> IntArray:
        return np.maximum.accumulate(values[::-1])[::-1].astype(np.int32)

    line = from_here_on((ahead - slope * np.arange(ahead.shape[1])).max(axis=1))[::SPACING]
    return SideGains(from_here_on(ahead.max(axis=1)), np.full_like(line, -_LARGEST), line, slope)


def assert_optimal_paths_exact(job: SweepJob, got: SweepResult) -> None:
    """Check that the best cell, and H in all cells of optimal paths, are as without pruning."""
    [whole] = ReferenceBackend().sweep([without_pruning(job)])
    assert got.best == whole.best, f"best is {got.best}, not {whole.best}, for\n{job_source(job)}"
    ahead = _gains_in_h(job)
    lines = [
        *zip(got.rows, whole.rows, ahead[list(job.rows)], strict=True),
        *zip(got.cols, whole.cols, ahead[:, list(job.cols)].T, strict=True),
    ]
    for mine, other, gain in lines:
        on_path = other.h + gain == whole.best.score
        assert (mine.h[on_path] == other.h[on_path]).all(), job_source(job)


def _gains_in_h(job: SweepJob) -> NDArray[np.int64]:
    """The most that a path in H at each boundary (i, j) gains from there on, of shape (m + 1, n + 1)."""
    return np.array(true_gains(job.query, job.target, job.scoring)[0], np.int64)
