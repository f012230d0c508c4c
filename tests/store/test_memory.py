"""The store in memory: which boundaries it drops, and how many bytes it accepts."""

from __future__ import annotations

import numpy as np
import pytest

from longalign.errors import MemoryTooSmall
from longalign.model.boundary import BestCell
from longalign.model.geometry import Grid
from longalign.store import MemoryStore, TileRecord
from longalign.store.codec import PackedLines

GRID = Grid((0, 8, 16), (0, 8, 16), (0, 8, 16), (0, 8, 16))


def record(size: int) -> TileRecord:
    """A record whose rows and columns take `size` bytes each."""
    nothing = np.zeros((1, 0), np.int8)
    lines = PackedLines(np.ones(1, np.int64), nothing, np.zeros((1, size), np.int8), nothing)
    return TileRecord(lines, lines, BestCell())


def test_boundaries_that_take_more_bytes_than_allowed_are_refused():
    store = MemoryStore(max_bytes=50)
    store.put_tile(GRID.tile(0, 0), record(10))
    store.put_tile(GRID.tile(0, 1), record(15))
    with pytest.raises(MemoryTooSmall, match=r"take more than 50 bytes of memory: give more \(--mem\), or"):
        store.put_tile(GRID.tile(1, 0), record(1))


def test_boundaries_that_were_dropped_do_not_count():
    store = MemoryStore(edges_only=True, max_bytes=60)
    for place in ((0, 0), (0, 1), (1, 0), (1, 1)):
        store.put_tile(GRID.tile(*place), record(10))
    assert store.get_tile(GRID.tile(0, 0)).rows.nbytes == 0
    with pytest.raises(MemoryTooSmall):
        store.put_tile(GRID.tile(1, 1), record(30))


def test_a_tile_that_is_swept_again_counts_once():
    store = MemoryStore(max_bytes=50)
    store.put_tile(GRID.tile(0, 0), record(25))
    store.drop_tile(0, 0)
    store.drop_tile(0, 0)
    assert store.stored_tiles() == set()
    store.put_tile(GRID.tile(0, 0), record(25))
    with pytest.raises(MemoryTooSmall):
        store.put_tile(GRID.tile(0, 1), record(1))


def test_rows_that_are_kept_stay_whatever_is_stored_below():
    store = MemoryStore(edges_only=True, kept={0})
    for place in ((1, 0), (0, 0), (0, 1), (1, 1)):
        store.put_tile(GRID.tile(*place), record(10))
    assert [store.get_tile(GRID.tile(0, col)).rows.nbytes for col in range(2)] == [10, 10]
    assert store.get_tile(GRID.tile(0, 0)).cols.nbytes == 0
