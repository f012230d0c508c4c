"""Sweeps of a band stage by stage find the same best scores as sweeps of whole rectangles."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from examples import share_of_examples
from hypothesis import given
from hypothesis import strategies as st
from related_pairs import related_pairs

from longalign.backends.base import SweepJob
from longalign.backends.cpu import CpuBackend
from longalign.model.boundary import State, entry_edges, local_edges
from longalign.model.mode import FIT, LOCAL
from longalign.model.pruning import Pruning
from longalign.model.scoring import NEG_INF, Scoring
from longalign.pruning import band_sweep
from longalign.pruning.band_sweep import best_scores
from longalign.pruning.gains import gains
from longalign.testing.inputs import SCORINGS
from longalign.testing.pruned_jobs import pruned_closely
from longalign.testing.reference import ReferenceBackend

REFERENCE = ReferenceBackend()


def job_of(query, target, scoring, *, anywhere):
    """A sweep of paths that start anywhere in the first row, and end in the last one or anywhere."""
    top, _ = local_edges(len(query), len(target))
    _, left = entry_edges(State.H, len(query), len(target), scoring)
    rows = () if anywhere else (len(query),)
    return SweepJob(query, target, scoring, top, left, False, rows, (), anywhere, of_matrix=True)


def best_of(job):
    """The best score by a sweep of all cells."""
    [result] = REFERENCE.sweep([job])
    return result.best.score if job.track_best else result.rows[0].h.max()


def pruned(job, bound):
    """The same with a bound."""
    ends = LOCAL.ends if job.track_best else FIT.ends
    most = gains(job.query, job.target, job.scoring, ends=ends)
    return replace(job, pruning=Pruning(bound, most.query, most.target))


@given(
    st.lists(st.tuples(related_pairs(120), st.booleans(), st.sampled_from([0, 1, 9, 60])), max_size=2),
    st.sampled_from([scoring for scoring in SCORINGS if scoring.gap_extend > 0]),
    st.sampled_from([8, 16, 56]),
)
@share_of_examples(2)
def test_scores_that_reach_the_bound_are_those_of_whole_sweeps(inputs, scoring, rows):
    jobs = [
        (job_of(*pair, scoring, anywhere=anywhere), below)
        for pair, anywhere, below in inputs
        if min(map(len, pair))
    ]
    best = [best_of(job) for job, _ in jobs]
    bounds = [score - below for score, (_, below) in zip(best, jobs, strict=True)]
    with mock.patch.object(band_sweep, "_ROWS", rows):
        found = best_scores(
            [pruned(job, bound) for (job, _), bound in zip(jobs, bounds, strict=True)], REFERENCE
        )
        out_of_reach = best_scores(
            [pruned(job, score + 1) for (job, _), score in zip(jobs, best, strict=True)], REFERENCE
        )
    assert found == best
    assert all(score <= true for score, true in zip(out_of_reach, best, strict=True))


def swept_with_needless_left_edges(jobs, progress):
    """The results. No path of interest goes down the left edge of a stage that begins inside a rectangle."""
    for job in jobs:
        if job.left.h[-1] == NEG_INF:
            assert job.top.h[0] + job.pruning.gain(0, 0, 0, 0) < job.pruning.bound - job.scoring.gap_open
    return REFERENCE.sweep(jobs, progress)


@pytest.mark.parametrize("turned", [False, True], ids=["more columns", "more rows"])
def test_a_long_gap_crosses_stages(turned):
    rng = np.random.default_rng(1)
    longer, more = rng.integers(0, 4, 60, np.uint8), rng.integers(0, 4, 25, np.uint8)
    sides = longer, np.concatenate([longer[:30], more, longer[30:]])
    job = job_of(*(sides[::-1] if turned else sides), Scoring(5, -4, 2, 1), anywhere=True)
    backend = SimpleNamespace(sweep=swept_with_needless_left_edges)
    with mock.patch.object(band_sweep, "_ROWS", 8):
        assert best_scores([pruned_closely(job)], backend) == [best_of(job)]


def test_stages_have_few_cells_beside_the_band():
    query = np.random.default_rng(1).integers(0, 4, 8_000, np.uint8)
    job = job_of(query, query.copy(), Scoring(), anywhere=False)
    cells = []
    with mock.patch.object(band_sweep, "_ROWS", 800):
        assert best_scores([pruned(job, 8_000)], CpuBackend(1), cells.append) == [8_000]
    assert sum(cells) < 0.3 * job.cells
