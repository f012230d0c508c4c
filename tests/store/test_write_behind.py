"""Tiles are written while others are swept, and read from memory until then. A failed write is reported."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from threading import Event
from unittest import mock

import numpy as np
import pytest

from longalign.errors import MemoryTooSmall, StoreError
from longalign.model.boundary import BestCell, Boundary, State, Waypoint
from longalign.model.geometry import Grid
from longalign.phases.packing import pack
from longalign.store import MemoryStore, Piece, TileRecord
from longalign.store.base import NONE_FOUND
from longalign.store.files import NotWritten
from longalign.store.write_behind import WriteBehind

GRID = Grid((0, 4, 8, 12), (0, 4), (0, 4, 8, 12), (0, 4))
TILES = GRID.tiles()
PLACES = {(tile.row, tile.col) for tile in TILES}


def record(tile):
    line = Boundary(np.full(5, tile.row, np.int32), np.full(5, -tile.row, np.int32))
    return TileRecord(pack([4], [line]), pack([4], [line]), BestCell(1, tile.i1, tile.j1))


class Slow(MemoryStore):
    """Waits with every write for `may_write`; fails at the tile rows `failing`."""

    def __init__(self, failing=()):
        super().__init__()
        self.may_write = Event()
        self.failing = failing

    def put_tile(self, tile, record, writer=None):
        assert self.may_write.wait(60)
        if tile.row in self.failing:
            raise StoreError(f"disk full at {tile.row}")
        super().put_tile(tile, record)


def willing(failing=()):
    """A store that writes at once."""
    store = Slow(failing)
    store.may_write.set()
    return store


def test_a_tile_is_read_from_memory_until_it_is_written():
    store, tile = Slow(), TILES[0]
    with WriteBehind(store, devices=1) as behind:
        assert behind.stored_tiles() == set()
        behind.put_tile(tile, swept := record(tile))
        assert behind.stored_tiles() == {(0, 0)}
        assert store.stored_tiles() == set()
        assert behind.get_tile(tile) is swept
        store.may_write.set()
        behind.flush()
        assert store.get_tile(tile) is behind.get_tile(tile) is swept


def test_a_tile_that_arrives_while_the_store_is_listed_is_not_missed():
    class ListedTooEarly(Slow):
        """Has listed its tiles when the one on its way arrives."""

        def stored_tiles(self):
            found = super().stored_tiles()
            self.may_write.set()
            behind.flush()
            return found

    store = ListedTooEarly()
    with WriteBehind(store, devices=1) as behind:
        behind.put_tile(TILES[0], record(TILES[0]))
        assert behind.stored_tiles() == {(0, 0)}


def test_tiles_on_their_way_and_tiles_that_have_arrived_are_listed_together():
    store = Slow()
    with WriteBehind(store, devices=2) as behind:
        store.may_write.set()
        behind.put_tile(TILES[0], record(TILES[0]))
        behind.flush()
        store.may_write.clear()
        for tile in TILES[1:]:
            behind.put_tile(tile, record(tile))
        assert store.stored_tiles() == {(0, 0)}
        assert behind.stored_tiles() == PLACES
        store.may_write.set()
        behind.flush()
        assert behind.stored_tiles() == store.stored_tiles() == PLACES


def test_leaving_waits_for_what_is_on_its_way_whatever_was_raised():
    store = willing()
    behind = WriteBehind(store, devices=3)
    for tile in TILES:
        behind.put_tile(tile, record(tile))
    behind.__exit__(KeyboardInterrupt, KeyboardInterrupt(), None)
    assert store.stored_tiles() == PLACES


def test_a_write_starts_immediately_and_its_result_is_not_kept_in_memory():
    store = Slow()
    with WriteBehind(store, devices=1) as behind:
        behind.put_tile(TILES[0], record(TILES[0]))
        assert behind._unwritten
        store.may_write.set()
        behind.flush()
        assert store.stored_tiles() == {(0, 0)}
        assert not behind._unwritten


def test_a_path_is_stored_when_the_tiles_are():
    store = Slow()
    path, piece = [Waypoint(1, 1, State.H, 0)], Piece(np.array([0], np.uint8), np.array([1]))
    with WriteBehind(store, devices=1) as behind:
        behind.put_tile(TILES[0], record(TILES[0]))
        behind.put_path(path, complete=True)
        behind.put_piece(0, piece)
        path.clear()  # what was given is kept
        assert (store.get_path(), store.get_piece(0)) == (([], False), None)
        store.may_write.set()
        behind.flush()
        assert store.stored_tiles() == {(0, 0)}
        assert store.get_path() == ([Waypoint(1, 1, State.H, 0)], True)
        assert store.get_piece(0) is piece


def test_a_flush_waits_for_results():
    class SlowPaths(Slow):
        def put_path(self, waypoints, complete):
            assert self.may_write.wait(60)
            super().put_path(waypoints, complete)

    store = SlowPaths()
    with WriteBehind(store, devices=1) as behind, ThreadPoolExecutor(1) as flushing:
        behind.put_path([Waypoint(1, 1, State.H, 0)], complete=True)
        flushed = flushing.submit(behind.flush)
        wait([flushed], 0.2)
        too_early = flushed.done()
        store.may_write.set()
        assert flushed.result(60) is None
        assert not too_early
        assert store.get_path()[1]


def test_there_is_no_path_through_tiles_that_cannot_be_written():
    store = willing(failing=[0])
    behind = WriteBehind(store, devices=1)
    store.may_write.clear()
    behind.put_tile(TILES[0], record(TILES[0]))
    behind.put_path([Waypoint(1, 1, State.H, 0)], complete=True)
    store.may_write.set()
    with pytest.raises(StoreError, match="disk full at 0"):
        behind.flush()
    with pytest.raises(StoreError, match="disk full at 0"):
        behind.put_piece(0, Piece(np.array([0], np.uint8), np.array([1])))
    assert (store.get_path(), store.get_piece(0)) == (([], False), None)


def test_tiles_after_one_that_cannot_be_written_are_written():
    store = Slow(failing=[0])
    behind = WriteBehind(store, devices=3)
    for tile in TILES:
        behind.put_tile(tile, record(tile))
    behind.put_left_out([(0, 1)])
    store.may_write.set()
    with pytest.raises(StoreError, match="disk full at 0"):
        behind.__exit__(None, None, None)
    assert store.stored_tiles() == PLACES - {(0, 0)}
    assert store.get_left_out() == set()


def test_the_list_of_tiles_left_out_follows_the_tiles():
    store, left_out = Slow(), {(5, 5)}
    with WriteBehind(store, devices=1) as behind:
        behind.put_tile(TILES[0], record(TILES[0]))
        behind.put_left_out(left_out)
        left_out.clear()  # what was given is kept
        assert store.get_left_out() == set()
        store.may_write.set()
        behind.flush()
        assert store.get_left_out() == {(5, 5)}


def test_next_best_alignments_are_not_called_refused_if_a_piece_before_them_was():
    store = willing()
    behind = WriteBehind(store, devices=1)
    with mock.patch.object(store, "put_piece", side_effect=NotWritten("no room for a piece")):
        behind.put_piece(0, Piece(np.array([0], np.uint8), np.array([1])))
        with pytest.raises(StoreError, match="no room for a piece") as raised:
            behind.put_next_best(NONE_FOUND)
    assert not isinstance(raised.value, NotWritten)


def test_a_result_that_cannot_be_written_is_reported():
    store = willing()
    behind = WriteBehind(store, devices=1)
    with mock.patch.object(store, "put_path", side_effect=StoreError("no path")):
        behind.put_path([Waypoint(1, 1, State.H, 0)], complete=True)
        with pytest.raises(StoreError, match="no path"):
            behind.__exit__(None, None, None)


def test_one_tile_a_device_is_on_its_way():
    store = willing()
    with WriteBehind(store, devices=1) as behind:
        for before, tile in zip([None, *TILES], TILES, strict=False):
            behind.put_tile(tile, record(tile))
            assert before is None or (before.row, before.col) in store.stored_tiles()


def test_several_devices_have_no_more_than_one_tile_each_on_its_way():
    store = Slow()
    with WriteBehind(store, devices=2) as behind, ThreadPoolExecutor(3) as sweeping:
        puts = [sweeping.submit(behind.put_tile, tile, record(tile)) for tile in TILES]
        deadline = time.monotonic() + 60
        while sum(put.done() for put in puts) < 2 and time.monotonic() < deadline:
            time.sleep(0.01)
        done, _ = wait(puts, 0.2)
        on_their_way = len(behind._unwritten)
        store.may_write.set()
    assert len(done) == on_their_way == 2


@pytest.mark.parametrize("row", [0, 1, 2])
def test_a_write_that_fails_is_reported_whatever_is_asked_for_next(row):
    store = willing(failing=[row])
    behind = WriteBehind(store, devices=1)
    with pytest.raises(StoreError, match=f"disk full at {row}"):
        put_all(behind)
    assert (row, 0) not in behind.stored_tiles()
    with pytest.raises(StoreError, match=f"disk full at {row}"):
        behind.get_tile(TILES[0])
    with pytest.raises(StoreError, match=f"disk full at {row}"):
        behind.__exit__(None, None, None)


def test_held_tiles_are_written_at_the_end():
    store = willing()
    with WriteBehind(store, devices=1) as behind:
        behind.put_tile(TILES[0], record(TILES[0]))
        behind.flush()
        with behind.held():
            for tile in TILES[1:]:
                behind.put_tile(tile, record(tile))
            changed = replace(behind.get_tile(TILES[2]), added=-5)
            behind.put_tile(TILES[2], changed)
            behind.drop_tile(1, 0)
            behind.flush()
            assert store.stored_tiles() == {(0, 0)}
            assert behind.stored_tiles() == {(0, 0), (2, 0)}
            assert behind.check_tile(TILES[2]) == changed.best
        behind.flush()
        assert store.get_tile(TILES[2]) is changed
        behind.put_tile(TILES[1], record(TILES[1]))
        behind.flush()
        assert store.stored_tiles() == PLACES


def stopped_after(tile, behind):
    with behind.held():
        behind.put_tile(tile, record(tile))
        raise KeyboardInterrupt


def test_held_tiles_take_no_more_memory_than_was_planned():
    one = sum(lines.nbytes for lines in (record(TILES[0]).rows, record(TILES[0]).cols))
    store = willing()
    with WriteBehind(store, 1, max_held=2 * one) as behind:
        with behind.held():
            for tile in (TILES[0], TILES[1], TILES[1]):  # a tile that is swept again counts once
                behind.put_tile(tile, record(tile))
            behind.drop_tile(TILES[0].row, TILES[0].col)
            behind.put_tile(TILES[2], record(TILES[2]))
            with pytest.raises(MemoryTooSmall, match=r"give more .*, or resume the run"):
                behind.put_tile(TILES[0], record(TILES[0]))
        assert behind.stored_tiles() == PLACES - {(0, 0)}


def test_held_tiles_are_lost_when_the_run_is_stopped():
    store = willing()
    with WriteBehind(store, devices=1) as behind:
        with pytest.raises(KeyboardInterrupt):
            stopped_after(TILES[0], behind)
        assert behind.stored_tiles() == set()
        behind.put_tile(TILES[1], record(TILES[1]))  # by a sweep that has not heard of it
    assert store.stored_tiles() == set()


def stop(behind, noticed):
    with behind:
        with behind.held():
            for tile in TILES:
                behind.put_tile(tile, record(tile))
        assert not noticed
        raise KeyboardInterrupt


def test_a_stopped_run_says_how_many_tiles_are_still_to_be_written():
    store, noticed = Slow(), []

    def notice(event):
        noticed.append(event.text)
        store.may_write.set()

    with pytest.raises(KeyboardInterrupt):
        stop(WriteBehind(store, 1, notice), noticed)
    assert noticed == ["3 tiles are still to be written; an interrupt would lose them"]
    assert store.stored_tiles() == PLACES


def test_a_notice_that_fails_does_not_keep_tiles_from_being_written():
    def broken(event):
        store.may_write.set()
        raise BrokenPipeError

    store = Slow()
    with pytest.raises(BrokenPipeError):
        stop(WriteBehind(store, 1, broken), [])
    assert store.stored_tiles() == PLACES


def put_all(behind):
    for tile in TILES:
        behind.put_tile(tile, record(tile))
    behind.flush()


def test_a_tile_that_is_dropped_on_its_way_is_gone():
    store, tile = willing(), TILES[0]
    with WriteBehind(store, devices=1) as behind:
        behind.put_tile(tile, record(tile))
        behind.drop_tile(tile.row, tile.col)
        assert behind.stored_tiles() == set()
