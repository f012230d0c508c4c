"""A tile's file is written during the sweep: it equals one written afterwards, or does not exist."""

from __future__ import annotations

import errno
import gc
import os
import resource
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from runs import Pair

from longalign.errors import InternalError, StoreError
from longalign.model.boundary import BestCell, Boundary
from longalign.model.geometry import Grid
from longalign.model.scoring import NEG_INF
from longalign.phases.packing import Packer
from longalign.store import DirectoryStore, Manifest, TileRecord
from longalign.store import files as store_files
from longalign.store.base import DamagedTile
from longalign.store.codec import NO_LINES
from longalign.store.line_tables import DeflatingTable
from longalign.store.manifest import SequenceRecord
from longalign.store.tile_writer import TileWriter

LENGTH = 20_000
GRID = Grid((0, 1, 2, LENGTH), (0, LENGTH), (0, LENGTH), (0, LENGTH))
TILE = GRID.tile(0, 0)


@pytest.fixture
def store(tmp_path):
    pair = Pair("ACGT", "ACGT")
    manifest = Manifest(*map(SequenceRecord.of, pair.sequences()), pair.mode, pair.scoring, GRID, program="0")
    with DirectoryStore.create(tmp_path / "s", manifest, *pair.sequences()) as store:
        yield store


def line(seed: int, steepest: int = 3) -> Boundary:
    rng = np.random.default_rng(seed)
    h = rng.integers(-steepest, steepest, LENGTH + 1).cumsum().astype(np.int32)
    gap = (h - rng.integers(0, 9, LENGTH + 1)).astype(np.int32)
    gap[0] = NEG_INF
    return Boundary(h, gap)


def packer(lines: list[Boundary]) -> Packer:
    corners = np.array([line.h[0] for line in lines], np.int32)
    return Packer(range(1, len(lines) + 1), corners, LENGTH, table=DeflatingTable)


def follow(writer: TileWriter, rows: Packer) -> None:
    for name, array in rows.deflated().items():
        writer.stream(f"rows/{name}", array)


def record(packed) -> TileRecord:
    return TileRecord(packed, NO_LINES, BestCell(1, 2, 3))


def unfinished(store: DirectoryStore) -> list[Path]:
    return list((store.path / "tiles").glob(".tmp-*"))


def rows_of(store: DirectoryStore, lines: list[Boundary]) -> list[tuple[list[int], list[int]]]:
    rows = store.get_tile(TILE).rows
    parts = [rows.part(number, 0, LENGTH) for number in range(1, len(lines) + 1)]
    return [(part.h.tolist(), part.gap.tolist()) for part in parts]


@pytest.mark.parametrize("steepest", [3, 3_000], ids=["as expected", "too steep for what was begun"])
def test_blocks_are_in_the_file_before_the_sweep_ends_and_the_file_is_right(store, steepest):
    lines = [line(0), line(1, steepest)]
    rows = packer(lines)
    with store.open_writer(TILE) as writer:
        follow(writer, rows)
        assert not unfinished(store)
        rows.put(0, 0, lines[0].h[1:], lines[0].gap[1:])
        [file] = unfinished(store)
        assert file.stat().st_size > LENGTH // 4
        rows.put(1, 0, lines[1].h[1:], lines[1].gap[1:])
        assert store.stored_tiles() == set()
        store.put_tile(TILE, record(rows.packed()), writer)
    assert not unfinished(store)
    assert rows_of(store, lines) == [(row.h.tolist(), row.gap.tolist()) for row in lines]
    assert store.check_tile(TILE) == BestCell(1, 2, 3)


def test_a_piece_that_comes_twice_or_too_early_is_refused():
    rows, values = packer([line(0)]), line(0)
    rows.put(0, 0, values.h[1:101], values.gap[1:101])
    for start in (0, 99, 101):
        with pytest.raises(InternalError, match=f"cells from {start} on came after 100 cells"):
            rows.put(0, start, values.h[1:101], values.gap[1:101])


@pytest.mark.parametrize("name", ["steps", "gaps", "anchors"])
def test_a_buffer_that_is_changed_in_memory_is_noticed_on_reading(store, name):
    """The checksum is computed from the values as they arrive."""
    values, other = line(0), line(1)
    rows = packer([values, other])
    with store.open_writer(TILE) as writer:
        follow(writer, rows)
        rows.put(1, 0, other.h[1:], other.gap[1:])
        rows.put(0, 0, values.h[1:101], values.gap[1:101])
        getattr(rows, f"_{name}")._open_blocks[0, 0] ^= 1
        rows.put(0, 100, values.h[101:], values.gap[101:])
        store.put_tile(TILE, record(rows.packed()), writer)
    with pytest.raises(DamagedTile, match=r"r00000c00000.h5: damaged: .*CRC-32"):
        store.check_tile(TILE)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
def test_nothing_is_left_of_the_file_of_a_sweep_that_fails(store, error):
    lines = [line(0), line(1)]
    rows, late = packer(lines), packer(lines)
    write: list[Callable[[tuple[int, int]], None]] = []

    def sweep():
        with store.open_writer(TILE) as writer:
            follow(writer, rows)
            writer.stream("cols/steps", late.deflated()["steps"])
            rows.put(0, 0, lines[0].h[1:], lines[0].gap[1:])
            assert unfinished(store)
            write.extend(late.deflated()["steps"].listeners)
            raise error

    with pytest.raises(error):
        sweep()
    assert not unfinished(store)
    [write_late] = write
    write_late((0, 0))  # from a thread that still sweeps
    rows.put(1, 0, lines[1].h[1:], lines[1].gap[1:])
    assert not unfinished(store)
    assert store.stored_tiles() == set()
    store.put_tile(TILE, record(rows.packed()))
    assert rows_of(store, lines) == [(row.h.tolist(), row.gap.tolist()) for row in lines]


def test_a_disk_that_becomes_full_is_reported_at_the_end(store, monkeypatch):
    def refuse(self, data):
        self.write_error = OSError(errno.ENOSPC, "No space left on device")
        return memoryview(data).nbytes

    monkeypatch.setattr(store_files._DeferredErrorFile, "write", refuse)
    rows = packer([line(0)])
    with store.open_writer(TILE) as writer:
        follow(writer, rows)
        rows.put(0, 0, line(0).h[1:], line(0).gap[1:])
        with pytest.raises(StoreError, match=r"r00000c00000.h5: cannot be written: no space left"):
            store.put_tile(TILE, record(rows.packed()), writer)
    assert not unfinished(store)


def test_a_disk_that_refuses_only_the_allocation_is_reported_at_the_end(tmp_path):
    """HDF5 also extends a file without writing to it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    with store_files._DeferredErrorFile(tmp_path / "x", "w+") as file:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
        try:
            file.truncate(10_000)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        assert file.write_error is not None
        assert file.write_error.errno == errno.EFBIG


def write_in_pieces(path: Path) -> None:
    with store_files.new_hdf5(path) as file:
        for number in range(8):
            file[f"piece {number}"] = np.arange(20_000)


def test_what_is_written_goes_to_the_disk_meanwhile(tmp_path, monkeypatch):
    flushed = threading.Event()
    sync = os.fsync

    def watched(descriptor):
        sync(descriptor)
        flushed.set()

    monkeypatch.setattr(store_files, "_FLUSH_BYTES", 200_000)
    monkeypatch.setattr(os, "fsync", watched)
    with store_files.new_hdf5(tmp_path / "x") as file:
        file["first"] = np.arange(50_000)
        assert flushed.wait(60)
        file["second"] = np.arange(50_000)
    with store_files.open_hdf5(tmp_path / "x") as file:
        assert [int(file[name][-1]) for name in ("first", "second")] == [49_999, 49_999]


def test_a_write_error_in_the_background_is_reported_at_the_end(tmp_path, monkeypatch):
    """Even if the error comes late; and only one flush runs at a time."""
    at_work, most = [], []

    def fail(descriptor):
        at_work.append(descriptor)
        most.append(len(at_work))
        time.sleep(0.3)
        at_work.pop()
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(store_files, "_FLUSH_BYTES", 200_000)
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(StoreError, match="x: cannot be written: input/output error"):
        write_in_pieces(tmp_path / "x")
    assert not at_work
    assert most == [1]
    assert not list(tmp_path.iterdir())


def test_a_file_is_not_flushed_for_every_write(tmp_path, monkeypatch):
    flushes = []
    monkeypatch.setattr(store_files, "_FLUSH_BYTES", 500_000)
    monkeypatch.setattr(os, "fsync", flushes.append)
    write_in_pieces(tmp_path / "x")
    meanwhile = len(flushes) - 2  # the file and its directory, in the end
    assert 1 <= meanwhile <= (tmp_path / "x").stat().st_size // 500_000


@pytest.mark.parametrize("error", [RuntimeError("can't start new thread"), MemoryError()])
def test_a_system_without_another_thread_writes_all_the_same(tmp_path, monkeypatch, error):
    def refuse(function, arguments):
        raise error

    monkeypatch.setattr(store_files, "_FLUSH_BYTES", 200_000)
    monkeypatch.setattr("_thread.start_new_thread", refuse)
    write_in_pieces(tmp_path / "x")
    with store_files.open_hdf5(tmp_path / "x") as file:
        assert file["piece 7"][19_999] == 19_999


def test_an_error_while_blocks_are_written_is_reported_at_the_end(store, monkeypatch):
    def fail(*_):
        raise RuntimeError("HDF5 has lost its way")

    rows = packer([line(0)])
    with store.open_writer(TILE) as writer:
        follow(writer, rows)
        with monkeypatch.context() as patch:
            patch.setattr("longalign.store.tile_writer.write_block", fail)
            rows.put(0, 0, line(0).h[1:], line(0).gap[1:])
        with pytest.raises(RuntimeError, match="lost its way"):
            store.put_tile(TILE, record(rows.packed()), writer)
    assert not unfinished(store)
    assert store.stored_tiles() == set()


def test_blocks_that_came_before_they_were_followed_are_in_the_file_too(store):
    lines = [line(0), line(1)]
    rows = packer(lines)
    with store.open_writer(TILE) as writer:
        rows.put(0, 0, lines[0].h[1:], lines[0].gap[1:])
        follow(writer, rows)
        rows.put(1, 0, lines[1].h[1:], lines[1].gap[1:])
        store.put_tile(TILE, record(rows.packed()), writer)
    assert rows_of(store, lines) == [(row.h.tolist(), row.gap.tolist()) for row in lines]


def test_lines_that_are_not_complete_are_no_tile(store):
    lines = [line(0), line(1)]
    rows = packer(lines)
    with store.open_writer(TILE) as writer:
        follow(writer, rows)
        rows.put(0, 0, lines[0].h[1:], lines[0].gap[1:])
        with pytest.raises(TypeError):
            store.put_tile(TILE, record(rows.packed()), writer)
    assert not unfinished(store)
    assert store.stored_tiles() == set()


@pytest.mark.parametrize("steepest", [3, 3_000], ids=["as begun", "anew"])
def test_what_has_been_written_does_not_stay_in_memory(store, steepest):
    values = line(0, steepest)
    rows = packer([values])
    with store.open_writer(TILE) as writer:
        follow(writer, rows)
        rows.put(0, 0, values.h[1:10_001], values.gap[1:10_001])
        rows.put(0, 10_000, values.h[10_001:], values.gap[10_001:])
        store.put_tile(TILE, record(rows.packed()), writer)
    del writer
    streams = weakref.ref(rows.deflated()["steps"].streams)
    gc.disable()
    try:
        del rows
        assert streams() is None
    finally:
        gc.enable()
