"""The share of a matrix that a pruned sweep is expected to compute, beside what it does compute."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from related_pairs import mutated_copy, related_pairs
from runs import whole_sweep

from longalign.backends.cpu import CpuBackend, SweepGeometry
from longalign.model.mode import GLOBAL, LOCAL, MODES
from longalign.model.pruning import Pruning
from longalign.model.scoring import Scoring
from longalign.phases.problem import Problem
from longalign.pruning import budget, expected
from longalign.pruning.expected import expected_share
from longalign.pruning.gains import gains
from longalign.pruning.seeds import lower_bound
from longalign.testing.inputs import SCORINGS, mutated

CPU = CpuBackend(1)

#: Leaves out blocks of a few cells. Blocks of the usual size are swept whole beside a narrow band.
SMALL_BLOCKS = CpuBackend(1, geometry=SweepGeometry(columns=2, lanes=8, group=4, block_rows=12))

#: Neither a match nor a letter in a gap changes the score.
NO_LOSS = Scoring(match=0, mismatch=-2, gap_open=1, gap_extend=0)


def share_of(query, target, scoring, mode):
    """The expected share with the bound of seeds; None without a bound."""
    with mock.patch.object(budget, "_SECONDS", 1.0):
        found = lower_bound(query, target, scoring, mode, CPU)
    if found is None:
        return None
    ahead = gains(query, target, scoring, threads=1)
    pruning = Pruning(found.score, ahead.query, ahead.target)
    return expected_share(scoring, pruning, found, mode.starts_anywhere)


@given(related_pairs(300), st.sampled_from([*SCORINGS, NO_LOSS]), st.sampled_from([*MODES.values()]))
def test_it_is_a_share(pair, scoring, mode):
    share = share_of(*pair, scoring, mode)
    assert share is None or 0 <= share <= 1


@given(related_pairs(300), st.sampled_from([*SCORINGS, NO_LOSS]), st.sampled_from([1, 7, 50]))
def test_gains_are_counted_in_pieces(pair, scoring, piece):
    whole = share_of(*pair, scoring, LOCAL)
    with mock.patch.object(expected, "_PIECE", piece):
        assert share_of(*pair, scoring, LOCAL) == whole


def test_where_gaps_lose_nothing_all_cells_are_needed():
    query, target = mutated_copy(1_000, 0.0, 1)
    assert share_of(query, target, NO_LOSS, GLOBAL) == 1


@pytest.mark.parametrize("mode", MODES.values(), ids=str)
def test_it_is_small_for_equal_sequences_and_grows_with_the_slack(mode):
    query = np.random.default_rng(1).integers(0, 4, 20_000, np.uint8)
    ahead = gains(query, query, Scoring(), threads=1)
    with mock.patch.object(budget, "_SECONDS", 1.0):
        found = lower_bound(query, query, Scoring(), mode, CPU)
    assert found is not None
    shares = [
        expected_share(Scoring(), Pruning(bound, ahead.query, ahead.target), found, mode.starts_anywhere)
        for bound in (20_000, 19_000, 15_000)
    ]
    assert shares[0] < 0.001
    assert shares == sorted(set(shares))


def shares(query, target, scoring, mode):
    """The expected share, and the one that is computed in one sweep."""
    problem = Problem.of_codes(query, target, scoring, mode)
    found = lower_bound(query, target, scoring, mode, CPU)
    pruning = problem.pruning_by(found.score)
    expected = expected_share(scoring, pruning, found, problem.has_floor)
    job = replace(whole_sweep(problem, (len(query),), ()), pruning=pruning, of_matrix=True)
    [swept] = SMALL_BLOCKS.sweep([job])
    return expected, 1 - swept.cells_left_out / job.cells


@pytest.mark.parametrize("mode", [LOCAL, GLOBAL], ids=str)
@pytest.mark.parametrize("rate", [0.0, 0.01, 0.1])
def test_about_as_much_as_is_computed(mode, rate):
    rng = np.random.default_rng(1)
    query = rng.integers(0, 4, 20_000, np.uint8)
    target = mutated(query, 20_000, rate, rng)
    expected, computed = shares(query, target, Scoring(), mode)
    assert 0 <= expected <= 1
    assert computed / 1.5 - 0.002 < expected < 1.5 * computed


def test_where_many_alignments_may_begin_the_corner_counts():
    rng = np.random.default_rng(2)
    query, target = (rng.integers(0, 4, 20_000, np.uint8) for _ in range(2))
    target[5_000:10_000] = query[10_000:15_000]
    expected, computed = shares(query, target, Scoring(), LOCAL)
    assert expected == pytest.approx(computed, rel=0.25)
    assert expected > 0.3
