"""The list of stored tiles: every kind of store gives the same, and only whole tiles are in it."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from runs import PAIR, SmallTiles, small_geometry, using

from longalign.errors import StoreError
from longalign.model.boundary import BestCell, Boundary
from longalign.model.geometry import Grid
from longalign.model.mode import LOCAL
from longalign.phases.packing import pack
from longalign.run.damage import drop_damaged
from longalign.store import DirectoryStore, Manifest, MemoryStore, Store, TileRecord
from longalign.store.files import temporary_name
from longalign.store.layout import TILE_NAME, tile_name
from longalign.store.manifest import SequenceRecord
from longalign.store.write_behind import WriteBehind

GRID = Grid((0, 16, 33), (0, 16, 34), (0, 16, 33), (0, 16, 34))
PLACES = {(0, 0), (0, 1), (1, 0), (1, 1)}


@pytest.fixture
def store(tmp_path):
    sequences = PAIR.sequences()
    manifest = Manifest(*map(SequenceRecord.of, sequences), PAIR.mode, PAIR.scoring, GRID, program="0")
    with DirectoryStore.create(tmp_path / "s", manifest, *sequences) as store:
        yield store


def put(store: Store, *places: tuple[int, int]) -> None:
    for place in places:
        tile = GRID.tile(*place)
        row, col = (Boundary(*np.zeros((2, n + 1), np.int32)) for n in (tile.j1 - tile.j0, tile.i1 - tile.i0))
        rows, cols = (
            pack([*kept], [line for _ in kept])
            for line, kept in zip((row, col), GRID.kept_lines(tile, LOCAL), strict=True)
        )
        store.put_tile(tile, TileRecord(rows, cols, BestCell()))


def test_all_stores_agree_on_what_they_hold(store):
    memory = MemoryStore()
    with ExitStack() as stack:
        behind = [stack.enter_context(WriteBehind(inner, 2)) for inner in (MemoryStore(), store)]
        for one in (memory, *behind):
            assert one.stored_tiles() == set()
            put(one, (1, 0), (0, 1), (0, 0), (1, 1))
            assert one.stored_tiles() == PLACES
            put(one, (1, 0))
            one.drop_tile(0, 1)
            one.drop_tile(0, 1)
            assert one.stored_tiles() == PLACES - {(0, 1)}
    assert store.stored_tiles() == DirectoryStore.attach(store.path).stored_tiles() == PLACES - {(0, 1)}


def test_a_tile_is_listed_when_its_file_is_whole(store):
    with store.open_writer(GRID.tile(0, 0)) as writer:
        writer._opened()
        assert list((store.path / "tiles").iterdir())
        assert store.stored_tiles() == set()
        put(store, (0, 0))
    assert store.stored_tiles() == {(0, 0)}


def test_a_list_belongs_to_its_caller(store):
    put(store, (0, 0))
    memory = MemoryStore()
    put(memory, (0, 0))
    for one in (store, memory):
        one.stored_tiles().clear()
        assert one.stored_tiles() == {(0, 0)}


def test_only_names_of_tiles_in_the_grid_are_listed(store):
    put(store, (0, 0))
    names = "r00002c00000.h5", "r00000c00002.h5", "r000001c00000.h5", "r1c0.h5", "r00001c00000.h5~", "note"
    for name in (*names, temporary_name("r00001c00000.h5")):
        (store.path / "tiles" / name).touch()
    (store.path / "tiles" / "old").mkdir()
    assert store.stored_tiles() == {(0, 0)}


@pytest.mark.parametrize("place", [(0, 0), (12, 345), (99_999, 100_000), (1_234_567, 9)])
def test_a_name_tells_the_place_of_its_tile(place):
    match = TILE_NAME.fullmatch(Path(tile_name(*place)).name)
    assert match is not None
    assert (int(match[1]), int(match[2])) == place


def test_links_to_files_are_listed_unless_they_lead_nowhere(store, tmp_path):
    put(store, (0, 0), (0, 1))
    for col in (0, 1):
        path = store.tile_path(0, col)
        shutil.move(path, tmp_path / path.name)
        path.symlink_to(tmp_path / path.name)
    (tmp_path / "r00000c00001.h5").unlink()
    assert store.stored_tiles() == {(0, 0)}


def test_without_a_folder_there_are_no_tiles(store):
    (store.path / "tiles").rmdir()
    assert store.stored_tiles() == set()
    (store.path / "tiles").touch()
    assert store.stored_tiles() == set()


def test_a_folder_that_cannot_be_listed_is_one_line(store):
    (store.path / "tiles").rmdir()
    (store.path / "tiles").symlink_to("tiles")
    with pytest.raises(StoreError, match="tiles: cannot be read: too many levels of symbolic links"):
        store.stored_tiles()


def test_a_damaged_tile_is_listed_until_it_is_dropped(store):
    put(store, *PLACES)
    store.tile_path(0, 1).write_bytes(b"rubbish")
    store.tile_path(1, 0).unlink()
    assert store.stored_tiles() == PLACES - {(1, 0)}
    notices: list[object] = []
    drop_damaged(store, GRID, notices.append)
    assert len(notices) == 1
    assert store.stored_tiles() == {(0, 0), (1, 1)}


def test_a_run_looks_up_the_file_of_a_tile_only_when_it_has_written_it(tmp_path, monkeypatch):
    """With many tiles, of which a pruned run stores few, that would take longer than all else."""
    asked: list[Path] = []
    look_up = os.stat

    def stat(path, **options):
        asked.append(Path(os.fspath(path)) if not isinstance(path, int) else Path())
        return look_up(path, **options)

    monkeypatch.setattr(os, "stat", stat)
    with small_geometry():
        for _ in range(2):
            PAIR.check(PAIR.run(using(SmallTiles((17, 17))), tmp_path / "s"))
    times = Counter(path.name for path in asked if path.parent.name == "tiles")
    assert set(times.values()) == {1}
