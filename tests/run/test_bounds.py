"""The bound with which a run begins: whether there is one depends on what pruning saves on the devices."""

from __future__ import annotations

from dataclasses import replace
from threading import Event, current_thread
from unittest import mock

import numpy as np
import pytest
from runs import Pair, SmallTiles, found_path, result, using

from longalign.backends.base import DeviceFacts
from longalign.backends.cpu import CpuBackend
from longalign.errors import BackendError, UsageError
from longalign.events import BoundFound, ignore
from longalign.model.alignment import Op
from longalign.model.scoring import Scoring
from longalign.phases.problem import Problem
from longalign.pruning import budget, row_limits
from longalign.pruning.seeds import LowerBound
from longalign.run import bounds, pipeline
from longalign.run.outcome import Recorder
from longalign.run.three_phases import problems_of
from longalign.testing.inputs import mutated

CPU = CpuBackend(1)


def device(max_share, stored=0.0):
    found = SmallTiles(inner=CPU)
    found.max_share_pruned, found.max_share_stored = max_share, stored
    return found


#: A worker of a cluster.
FAST_WORKER = DeviceFacts(
    (1, 1), (1, 1), 1, 1, 1, 1, 1, max_share_pruned=1.0, max_share_stored=1.0, seconds=1e-6
)


@pytest.fixture(scope="module")
def pair():
    rng = np.random.default_rng(1)
    query = rng.integers(0, 4, 20_000, np.uint8)
    return Pair.of_codes(query, mutated(query, 20_000, 0.01, rng), Scoring(), "local")


def find(spec, devices, emit=ignore):
    return bounds.find_bound(spec, problems_of(spec), CPU, devices, Recorder(emit))


def bound_of(pair, *shares, strand="plus"):
    events = []
    devices = [device(share) for share in shares]
    with mock.patch.object(bounds, "MIN_CELLS", 1), mock.patch.object(budget, "_SECONDS", 1.0):
        spec = replace(pair.spec(), strand=strand)
        known = find(spec, devices, events.append)
    return known, [event for event in events if isinstance(event, BoundFound)]


def test_it_is_used_where_all_devices_save_time(pair):
    known, events = bound_of(pair, 1.0, 0.9)
    assert known is not None
    assert 0 < known.share < 0.9
    assert events == [BoundFound(known.score, known.share)]
    assert bound_of(pair, 1.0, known.share)[0] == known


def test_with_a_store_the_share_is_another_one_and_related_sequences_get_no_more_time(pair, tmp_path):
    known, _ = bound_of(pair, 1.0)
    spec = replace(pair.spec(), store=tmp_path)
    found = []
    for max_share in (known.share, known.share / 2):
        with mock.patch.multiple(bounds, MIN_CELLS=1), mock.patch.multiple(budget, _SECONDS=1.0):
            found.append(find(spec, [device(0.0001, max_share)]))
    assert found == [known, None]
    for store, affordable in ((None, True), (tmp_path, False)):
        limits = mock.patch.multiple(budget, _SECONDS=1e-9, _SHARE=0.0, _SHARE_OF_RELATED=100.0)
        with mock.patch.multiple(bounds, MIN_CELLS=1), limits:
            found_now = find(replace(spec, store=store), [device(1.0, 1.0)])
        assert (found_now is not None) == affordable


def test_it_is_not_used_where_one_device_would_take_longer(pair):
    known, _ = bound_of(pair, 1.0)
    assert bound_of(pair, 1.0, known.share / 2) == (None, [])


def test_it_is_not_looked_for_where_one_device_sweeps_everything(pair):
    with mock.patch.object(bounds, "lower_bound", side_effect=AssertionError):
        assert bound_of(pair, 1.0, 0.0) == (None, [])


@pytest.mark.parametrize("strand", ["plus", "both"])
@pytest.mark.parametrize("inverted", [0, 9_000])
def test_it_comes_with_what_each_strand_can_leave_out(pair, strand, inverted):
    """Also where there are no seeds on one strand, and where there are some on both."""
    turned = pair.target[:inverted][::-1].translate(str.maketrans("ACGT", "TGCA"))
    pair = replace(pair, target=turned + pair.target[inverted:])
    known, _ = bound_of(pair, 1.0, strand=strand)
    spec = replace(pair.spec(), strand=strand)
    assert set(known.prunings) == {one.query.strand for one in spec.per_strand}
    for one in spec.per_strand:
        pruning = known.prunings[one.query.strand]
        expected = Problem.of(one.query, one.target, one.scoring, one.mode).pruning_by(known.score)
        assert (pruning.bound, pruning.rises) == (known.score, True)
        assert all(map(np.array_equal, pruning.query.arrays, expected.query.arrays))
        assert all(map(np.array_equal, pruning.target.arrays, expected.target.arrays))


def test_gains_are_computed_with_anchors_where_a_sweep_takes_longer(pair):
    side = pair.spec()
    problem = Problem.of(side.query, side.target, side.scoring, side.mode)
    for letters, uses_anchors in ((1e-6, False), (1e12, True)):
        with mock.patch.object(bounds, "_LETTERS_A_SECOND", letters):
            known, _ = bound_of(pair, 1.0)
        findings = known.findings["plus"]
        assert bool(len(findings.anchors)) == uses_anchors
        expected = problem.gains(findings)
        assert all(map(np.array_equal, known.prunings["plus"].query.arrays, expected.query.arrays))
        assert all(map(np.array_equal, known.prunings["plus"].target.arrays, expected.target.arrays))


def test_anchors_are_the_letter_pairs_of_an_alignment():
    ops = np.array([Op.DIAGONAL, Op.INSERTION, Op.DIAGONAL, Op.DELETION, Op.DIAGONAL], np.uint8)
    lengths = np.array([10, 2, 20, 4, 30])
    found = LowerBound((3, 5), ops, lengths, scores=0 * lengths)
    assert found.anchors().tolist() == [[3, 13, 5, 15], [15, 35, 15, 35], [35, 65, 39, 69]]


def test_after_an_error_nothing_waits_for_gains_and_those_of_the_next_strand_are_cancelled(pair):
    first_started, release = Event(), Event()
    started, finished, threads = [], [], []

    def gains(problem):
        started.append(problem)
        threads.append(current_thread())
        first_started.set()
        release.wait(10)
        finished.append(problem)

    def fail_on_the_second_strand(*_, note_related, **__):
        note_related()
        if lower_bound.call_count == 2:
            assert first_started.wait(10)
            raise BackendError("no more")

    with (
        mock.patch.object(Problem, "gains", gains),
        mock.patch.object(bounds, "lower_bound", side_effect=fail_on_the_second_strand) as lower_bound,
        pytest.raises(BackendError, match="no more"),
    ):
        bound_of(pair, 1.0, strand="both")
    assert not finished
    release.set()
    threads[0].join(10)
    assert len(started) == len(finished) == 1


def with_long_gaps():
    """Two sequences of 39,600 letters, each of which has six stretches of 100 that the other lacks."""
    rng = np.random.default_rng(1)
    query = rng.integers(0, 4, 39_000, np.uint8)
    sides = query, mutated(query, 39_000, 0.01, rng)
    parts: tuple[list[np.ndarray], ...] = [], []
    for number in range(13):
        for side, letters in zip(parts, sides, strict=True):
            side.append(letters[3_000 * number : 3_000 * (number + 1)])
        parts[number % 2].append(rng.integers(0, 4, 100 * (number < 12), np.uint8))
    return [np.concatenate(side) for side in parts]


@pytest.mark.parametrize(
    ("devices", "is_worth_it"),
    [([device(1.0)], True), ([device(1.0)] * 1_000, False), ([FAST_WORKER], False)],
    ids=["one like this process", "many", "one that is faster"],
)
def test_nothing_is_looked_for_that_takes_longer_than_the_sweep_on_all_devices(devices, is_worth_it):
    pair = Pair.of_codes(*with_long_gaps(), Scoring(), "local")
    sides = len(pair.query), len(pair.target)
    seconds = CPU.sweep_seconds(*sides, Scoring(), True)
    cheap = {"MIN_CELLS": 1, "_LETTERS_A_SECOND": 1e15, "_MAX_SHARE_FOR_LIMITS": 1.0, "_SAVED": 1.0}
    # Gains take a hundredth of a sweep by this process.
    gains = cheap | {"_LETTERS_A_SECOND": sum(sides) / (0.01 * seconds)}
    found = []
    for costs in (cheap, gains):
        units = mock.patch.object(row_limits, "_UNIT", 2_000)
        with mock.patch.multiple(bounds, **costs), units, mock.patch.object(budget, "_SECONDS", 1.0):
            found.append(find(pair.spec(), devices).findings["plus"])
    assert (len(found[0].limits) > 0) == is_worth_it
    assert (len(found[1].anchors) > 0) == is_worth_it


def resumed_without_tiles(store):
    """Sweeps the tiles again, by the row limits in the store."""
    assert (store / "row_limits.h5").exists()
    for path in [*store.glob("tiles/*.h5"), store / "left_out.h5", store / "path.h5"]:
        path.unlink()
    return pipeline.resume(store, using(SmallTiles((3_000, 3_000), CpuBackend(2), leaf=1 << 20)))


@pytest.mark.parametrize(
    "mode",
    [
        "local",
        *(
            pytest.param(mode, marks=pytest.mark.slow)
            for mode in ("global", "fit", "overlap", "extend", "semiglobal")
        ),
    ],
)
def test_row_limits_leave_out_more_cells_and_change_nothing_else(mode, tmp_path):
    pair = Pair.of_codes(*with_long_gaps(), Scoring(), mode)
    shares, outcomes = [], []
    for most, store in ((0.0, None), (1.0, None), (1.0, tmp_path)):
        events = []
        costs = {"MIN_CELLS": 1, "_LETTERS_A_SECOND": 1e12, "_MAX_SHARE_FOR_LIMITS": most, "_SAVED": 1.0}
        limits = mock.patch.multiple(bounds, **costs)
        units = mock.patch.object(row_limits, "_UNIT", 2_000)
        with limits, units, mock.patch.object(budget, "_SECONDS", 1.0):
            tiles = SmallTiles((3_000, 3_000), CpuBackend(2), leaf=1 << 20)
            outcomes.append(pair.run(using(tiles), store, events.append))
        shares += [event.share for event in events if isinstance(event, BoundFound)]
    assert shares[1] < 0.8 * shares[0]
    assert shares[2] == shares[1]
    outcomes.append(resumed_without_tiles(tmp_path))
    plain = pipeline.run(replace(pair.spec(), prune="off"), using(CPU))
    for outcome in outcomes:
        assert outcome.end == plain.end
        assert found_path(outcome) == found_path(plain)


@pytest.mark.parametrize("strand", ["plus", "minus"])
def test_the_store_of_one_strand_of_a_pruned_run_over_both_is_not_used_alone(pair, strand, tmp_path):
    """On the other strand than the better one, no alignment scores as much as the bound."""
    tiles = using(SmallTiles((6_000, 6_000), CpuBackend(2), leaf=1 << 20))
    spec = replace(pair.spec(tmp_path), strand="both")
    with mock.patch.multiple(bounds, MIN_CELLS=1), mock.patch.multiple(budget, _SECONDS=1.0):
        whole = pipeline.run(spec, tiles)
    assert whole.best.strand == "plus"
    refused = pytest.raises(UsageError, match=f"{strand}: the store of one strand of a run over both: resume")
    with refused:
        pipeline.resume(tmp_path / strand, tiles)
    with refused:
        pipeline.run(replace(pair.spec(tmp_path / strand), strand=strand), tiles)
    assert result(pipeline.resume(tmp_path, tiles)) == result(whole)


def test_no_seeds_are_looked_for_where_letters_do_not_fit_in_memory(pair):
    too_little = replace(using(CPU), memory=100 << 20)
    costs = mock.patch.multiple(bounds, MIN_CELLS=1, lower_bound=None)
    with costs, pytest.raises(UsageError, match="need about"):
        pipeline.run(pair.spec(), too_little)
