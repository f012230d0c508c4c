"""If the system refuses threads, runs store the same boundaries and find the same alignment."""

from __future__ import annotations

import random
import threading

import numpy as np
import pytest
from runs import Pair, SmallTiles, small_geometry, using

from longalign.backends.cpu import CpuBackend, backend
from longalign.model.scoring import Scoring
from longalign.store import DirectoryStore
from longalign.testing.sweep_jobs import whole_matrix


def related(length: int) -> Pair:
    rng = random.Random(7)
    query = "".join(rng.choices("ACGT", k=length))
    target = "".join(letter for letter in query if rng.random() > 0.05)
    return Pair(query, target)


PAIR = related(900)
ARRAYS = "index", "anchors", "steps", "gaps"


def align(store):
    with small_geometry(40):
        outcome = PAIR.run(using(SmallTiles((300, 300), CpuBackend(2), leaf=400)), store)
    return outcome.end, outcome.alignment.cigar


def stored_boundaries(path):
    """All arrays of all tiles. Raises DamagedTile if one has another checksum than its values."""
    store = DirectoryStore.attach(path)
    tiles = store.manifest.grid.tiles()
    for tile in tiles:
        store.check_tile(tile)
    lines = [(store.get_tile(tile).rows, store.get_tile(tile).cols) for tile in tiles]
    return [getattr(side, name)[:] for pair in lines for side in pair for name in ARRAYS]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    path = tmp_path_factory.mktemp("undisturbed") / "store"
    return align(path), stored_boundaries(path)


@pytest.mark.parametrize("granted", [0, 1, 2, 3, 5, 8, "some"])
def test_a_run_with_few_threads_stores_the_same_boundaries(monkeypatch, tmp_path, undisturbed, granted):
    """`granted` threads can be started in total, or each one with a probability of one half."""
    start, started, rng = threading.Thread.start, [], random.Random(1)

    def limited(thread):
        if rng.random() < 0.5 if granted == "some" else len(started) >= granted:
            raise RuntimeError("can't start new thread")
        started.append(thread)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    found = align(tmp_path / "store")
    monkeypatch.undo()
    alignment, boundaries = undisturbed
    assert found == alignment
    for got, want in zip(stored_boundaries(tmp_path / "store"), boundaries, strict=True):
        np.testing.assert_array_equal(got, want)


def test_a_helper_thread_that_fails_in_any_way_ends_the_sweep(monkeypatch):
    """Otherwise the other threads would wait for its strip."""
    run, calling = backend._Worker.run, threading.current_thread()

    def failing(worker, *arguments):
        if threading.current_thread() is not calling:
            raise MemoryError("no room for a strip")
        return run(worker, *arguments)

    monkeypatch.setattr(backend._Worker, "run", failing)
    job = whole_matrix(*(np.random.default_rng(1).integers(0, 4, (2, 5000), np.uint8)), Scoring(), True)
    with pytest.raises(MemoryError, match="no room for a strip"):
        CpuBackend(2).sweep([job])
