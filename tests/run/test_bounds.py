"""The bound with which a run begins: whether there is one depends on what pruning saves on the devices."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from runs import Pair, SmallTiles

from longalign.backends.cpu import CpuBackend
from longalign.events import BoundFound
from longalign.model.scoring import Scoring
from longalign.phases.problem import Problem
from longalign.pruning import budget
from longalign.run import bounds
from longalign.run.outcome import Recorder
from longalign.testing.inputs import mutated

CPU = CpuBackend(1)


def device(most_share):
    found = SmallTiles(inner=CPU)
    found.most_share_pruned = most_share
    return found


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(1)
    query = rng.integers(0, 4, 20_000, np.uint8)
    return Pair.of_codes(query, mutated(query, 20_000, 0.01, rng), Scoring(), "local")


def bound_of(pair, *shares):
    events = []
    devices = [device(share) for share in shares]
    with mock.patch.object(bounds, "LEAST_CELLS", 1), mock.patch.object(budget, "_SECONDS", 1.0):
        known = bounds.find_bound(pair.spec(), CPU, devices, Recorder(events.append))
    return known, [event for event in events if isinstance(event, BoundFound)]


def test_it_is_used_where_all_devices_save_time(pair):
    known, events = bound_of(pair, 1.0, 0.9)
    assert known is not None
    assert 0 < known.share < 0.9
    assert events == [BoundFound(known.score, known.share)]
    assert bound_of(pair, 1.0, known.share)[0] == known


def test_it_is_not_used_where_one_device_would_take_longer(pair):
    known, _ = bound_of(pair, 1.0)
    assert bound_of(pair, 1.0, known.share / 2) == (None, [])


def test_it_is_not_looked_for_where_one_device_sweeps_everything(pair):
    with mock.patch.object(bounds, "lower_bound", side_effect=AssertionError):
        assert bound_of(pair, 1.0, 0.0) == (None, [])


def test_it_comes_with_what_each_strand_can_leave_out(pair):
    known, _ = bound_of(pair, 1.0)
    [(strand, pruning)] = known.prunings.items()
    spec = pair.spec()
    expected = Problem.of(spec.query, spec.target, spec.scoring, spec.mode).pruning_by(known.score)
    assert (strand, pruning.bound, pruning.rises) == ("plus", known.score, True)
    np.testing.assert_array_equal(pruning.query_gain, expected.query_gain)
    np.testing.assert_array_equal(pruning.target_gain, expected.target_gain)
