"""The store: results come back unchanged, files are complete, one process owns it, damage is detected."""

from __future__ import annotations

import dataclasses
import errno
import gc
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import nullcontext
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import numpy as np
import psutil
import pytest
from forgeries import write_manifest
from hypothesis import given
from hypothesis import strategies as st
from processes import unprivileged
from runs import NEXT_BEST, PAIR, Pair, SmallTiles, problems, small_geometry, using

from longalign.backends.cpu.line_differences import line_differences
from longalign.errors import StoreError
from longalign.events import Notice, TileFinished
from longalign.fasta import read_sequence
from longalign.model.boundary import BestCell, Boundary, State, Waypoint, entry_edges
from longalign.model.geometry import Grid, Tile
from longalign.model.mode import LOCAL
from longalign.model.narrow_values import NarrowValues
from longalign.model.pruning import KnownBound
from longalign.model.scoring import NEG_INF, Scoring
from longalign.model.sequence import Sequence
from longalign.phases.lattice import StoreLattice
from longalign.phases.packing import Packer, pack
from longalign.phases.problem import Problem
from longalign.run import pipeline
from longalign.run.spec import RunSpec
from longalign.store import (
    DirectoryStore,
    Manifest,
    MemoryStore,
    Piece,
    TileRecord,
    codec,
    hdf5_filters,
    line_tables,
)
from longalign.store import deflated as deflated_arrays
from longalign.store import files as store_files
from longalign.store.base import DamagedFile, DamagedTile, NextBest
from longalign.store.datasets import APART_WORDS, write
from longalign.store.files import atomic_path, temporary_name
from longalign.store.manifest import SequenceRecord
from longalign.system.threads import in_threads
from longalign.testing.reference import ReferenceBackend, matrices
from longalign.testing.sweep_jobs import whole_matrix

GRID = Grid((0, 8, 16, 24, 32, 33), (0, 8, 16, 34), (0, 16, 33), (0, 16, 34))


def new_store(path: Path, pair: Pair = PAIR, **fields: Any) -> DirectoryStore:
    query, target = pair.sequences()
    records = SequenceRecord.of(query), SequenceRecord.of(target)
    manifest = Manifest(*records, pair.mode, pair.scoring, GRID, program="0", **fields)
    return DirectoryStore.create(path, manifest, query, target)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a whole run."""
    path = tmp_path_factory.mktemp("finished") / "store"
    with small_geometry():
        PAIR.run(using(SmallTiles((17, 17))), path)
    return path


# --- packed boundaries


steps = st.one_of(st.integers(-5, 5), st.integers(-(2**7), 2**7), st.integers(-(2**20), 2**20))
cliffs = st.sampled_from([NEG_INF, NEG_INF + 7, 0, 2**31 - 2**27])


@st.composite
def boundaries(draw: st.DrawFn, length: int) -> Boundary:
    """Walks of small or large steps, broken by minus infinity, large values, and level stretches."""
    h = np.cumsum(draw(st.lists(steps, min_size=length + 1, max_size=length + 1)), dtype=np.int32)
    gap = h - np.array(draw(st.lists(steps, min_size=length + 1, max_size=length + 1)), np.int32)
    for values in (h, gap):
        for at in draw(st.sets(st.integers(0, length), max_size=3)):
            values[at] = draw(cliffs)
    for start in draw(st.lists(st.integers(0, length), max_size=2)):
        stop = draw(st.integers(start, length)) + 1
        h[start:stop], gap[start:stop] = draw(cliffs), draw(cliffs)
    gap[0] = NEG_INF
    return Boundary(h, gap)


TABLES = (
    line_tables.PlainTable, line_tables.DeflatingTable,
    line_tables.BandTable, line_tables.PatchedDeflatingTable,
)  # fmt: skip


def as_steps(values: np.ndarray) -> NarrowValues:
    """The values as steps of a line, for a table of bytes."""
    line = np.cumsum(values, dtype=np.int32)
    steps, _ = line_differences(np.zeros(1, np.int32), line, line, 0, 1)
    return steps


def same(a: Boundary, b: Boundary) -> bool:
    return np.array_equal(a.h, b.h) and np.array_equal(a.gap, b.gap) and a.h.dtype == b.h.dtype == np.int32


@given(st.integers(1, 30), st.integers(1, 8), st.data())
def test_every_part_of_every_packed_line_comes_back(length, stride, data):
    lines = data.draw(st.lists(boundaries(length), min_size=1, max_size=3))
    index = sorted(data.draw(st.sets(st.integers(1, 99), min_size=len(lines), max_size=len(lines))))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "ANCHOR_STRIDE", stride)
        packed = pack(index, lines)
        for place, line in zip(index, lines, strict=True):
            for start in range(length + 1):
                for stop in range(start, length + 1):
                    assert same(packed.part(place, start, stop), line.part(start, stop)), (line, start, stop)


@given(st.integers(1, 30), st.integers(1, 8), st.data())
def test_every_cell_of_a_part_comes_back_alone_and_no_stretch_is_higher_than_it_says(length, stride, data):
    line = data.draw(boundaries(length))
    start = data.draw(st.integers(0, length))
    stop = data.draw(st.integers(start, length))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "ANCHOR_STRIDE", stride)
        whole, want = pack([3], [line]).part(3, start, stop), line.part(start, stop)
        assert len(whole) == len(want)
        for first in range(len(want) + 1):
            for end in range(first + 1, len(want) + 2):
                assert same(Boundary(*whole.cells(first, end)), Boundary(*want.cells(first, end)))
            for end in range(first, len(want) + 1):
                assert same(whole.part(first, end), want.part(first, end))
        begins, highest = whole.stretches()
    assert begins[0] == 0
    assert (np.diff(begins) > 0).all()
    assert begins[-1] <= len(want)
    for here, there, most in zip(begins, [*begins[1:], len(want) + 1], highest, strict=True):
        assert there - here <= stride
        assert want.h[here:there].max() <= most
    assert whole.h_at([0, len(want)]).tolist() == want.h_at([0, len(want)]).tolist()


@pytest.mark.parametrize(
    ("before", "after"), [(0, 2**30), (2**30, 0), (NEG_INF, 2**31 - 2**27), (2**31 - 2**27, NEG_INF)]
)
def test_a_cliff_spoils_the_bounds_of_its_own_stretch_alone(before, after):
    """The step of some of these cliffs wraps, so that a rise looks like a fall."""
    stride = codec.ANCHOR_STRIDE
    h = np.full(4 * stride + 1, before, np.int32)
    h[stride + 7 :] = after
    edge = pack([1], [Boundary(h, np.full_like(h, NEG_INF))]).part(1, 0, len(h) - 1)
    begins, highest = edge.stretches()
    assert begins.tolist() == [stride * k for k in range(5)]
    assert highest.tolist() == [before, 2**31 - 1, after, after, after]


@given(
    st.integers(1, 30), st.integers(1, 8), st.integers(1, 12), st.sampled_from(TABLES), st.integers(0, 3),
    st.sampled_from([1, 2, 4]), st.integers(-7, 7), st.integers(0, 3), st.data(),
)  # fmt: skip
def test_lines_that_come_in_pieces_are_packed_as_whole_ones(
    length, stride, block, table, patches, width, level, few, data
):
    lines = data.draw(st.lists(boundaries(length), min_size=1, max_size=3))
    index = range(1, len(lines) + 1)
    cuts = [sorted({0, length, *data.draw(st.lists(st.integers(1, length), max_size=5))}) for _ in lines]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "ANCHOR_STRIDE", stride)
        patch.setattr(hdf5_filters, "BLOCK_LENGTH", block)
        patch.setattr(line_tables, "_MIN_BLOCK_LENGTH", 1)
        patch.setattr(line_tables, "_PATCHES", patches)
        patch.setattr(line_tables, "_FEW", few)
        corners = np.array([line.h[0] for line in lines], np.int32)
        packer = Packer(index, corners, length, width=width, table=table, level_gap=level)
        for number, line in reversed([*enumerate(lines)]):  # lines come in any order
            for start, stop in pairwise(cuts[number]):
                packer.put(number, start, line.h[start + 1 : stop + 1], line.gap[start + 1 : stop + 1])
        pieces, whole = packer.packed(), pack(index, lines)
        parts = [*combinations(range(length + 1), 2)]
        for place, line in zip(index, lines, strict=True):
            assert all(same(pieces.part(place, *ends), line.part(*ends)) for ends in parts), (lines, cuts)
    if table is line_tables.BandTable:
        return
    if table is line_tables.PatchedDeflatingTable:
        for values in (pieces.steps, pieces.gaps):
            kept, listed = line_tables.stored_form(values)
            patches = line_tables.patches_of(listed, kept.shape)
            again = line_tables.PatchedArray(kept, patches, {})
            assert all(
                np.array_equal(again[k, a:b], values[k, a:b]) for k in range(len(lines)) for a, b in parts
            )
        return
    for field in dataclasses.fields(whole):
        got, want = getattr(pieces, field.name), getattr(whole, field.name)
        if field.name in ("steps", "gaps"):
            want = want.astype(max(want.dtype, np.dtype(f"i{width}")))
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        assert np.array_equal(got[:], want), (field.name, lines, cuts)


@given(problems(20))
def test_neighbours_on_a_line_are_no_further_apart_than_the_scoring_says(pair):
    query, target = pair.sequences()
    job = whole_matrix(query.as_query(), target.as_target(), pair.scoring, pair.mode == "local")
    rows, cols = range(1, query.length + 1), range(1, target.length + 1)
    [swept] = ReferenceBackend().sweep([dataclasses.replace(job, rows=(*rows,), cols=(*cols,))])
    gap_cost = pair.scoring.gap_open + pair.scoring.gap_extend
    furthest = 0
    for line in (*swept.rows, *swept.cols):
        steps, below = np.diff(line.h.astype(np.int64)), (line.h - line.gap.astype(np.int64))[1:]
        assert -gap_cost <= steps.min()
        assert steps.max() <= gap_cost + pair.scoring.highest
        furthest = max(furthest, below.max())
    assert furthest <= 2 * gap_cost + pair.scoring.highest < 1 << (8 * pair.scoring.difference_bytes - 1)


def test_parts_around_the_anchors_of_a_long_line():
    rng = np.random.default_rng(0)
    h = np.cumsum(rng.integers(-3, 2, 20_001), dtype=np.int32)
    line = Boundary(h, h - rng.integers(0, 9, h.size, np.int32))
    line.gap[0] = NEG_INF
    packed = pack([7], [line])
    around = [place + step for place in (0, 4096, 8192, 20_000) for step in (-1, 0, 1)]
    places = [place for place in around if 0 <= place <= 20_000]
    for start in places:
        for stop in (place for place in places if place >= start):
            assert same(packed.part(7, start, stop), line.part(start, stop)), (start, stop)


@given(st.integers(1, 30), st.data())
def test_the_highest_cell_of_a_line_with_one_anchor(length, data):
    line = data.draw(boundaries(length))
    stop = data.draw(st.integers(0, length))
    cell, value = pack([3], [line]).highest(3, stop)
    assert value == line.h[: stop + 1].max() == line.h[cell]
    assert (line.h[cell + 1 : stop + 1] < value).all()


@pytest.mark.parametrize("peak", [0, 1, 4095, 4096, 4097, 10_000, 20_000])
@pytest.mark.parametrize("slope", [1, 100])
def test_the_peak_of_a_long_line_is_found_between_anchors(peak, slope):
    rng = np.random.default_rng(peak)
    h = (5 * slope - slope * np.abs(np.arange(20_001) - peak)).astype(np.int32)
    elsewhere = rng.integers(-6_000 * slope, -5_000 * slope, h.size, np.int32)
    h = np.maximum(h, elsewhere)
    packed = pack([7], [Boundary(h, np.full_like(h, NEG_INF))])
    assert packed.highest(7, 20_000) == (peak, 5 * slope)


@pytest.mark.parametrize("inside", [("h",), ("gap",), ("h", "gap"), ()])
def test_a_piece_that_is_level_only_at_its_ends(inside):
    line = Boundary(np.full(6, 5, np.int32), np.full(6, 2, np.int32))
    for name in inside:
        getattr(line, name)[3] += 4
    packer = Packer([1], line.h[:1], 5)
    packer.put(0, 0, line.h[1:], line.gap[1:])
    part = packer.packed().part(1, 0, 5)
    assert part.h.tolist() == line.h.tolist()
    assert part.gap[1:].tolist() == line.gap[1:].tolist()


@pytest.mark.parametrize(("largest", "dtype"), [(127, np.int8), (128, np.int16), (32768, np.int32)])
def test_differences_take_the_narrowest_integers(largest, dtype):
    line = Boundary(np.array([0, largest], np.int32), np.array([NEG_INF, 0], np.int32))
    packed = pack([1], [line])
    assert (packed.steps.dtype, packed.gaps.dtype) == (dtype, dtype)


def test_a_line_in_memory_keeps_no_cells_left_out_and_the_jumps_beside_them_apart(monkeypatch):
    monkeypatch.setattr(line_tables, "_FEW", 100)
    h = np.zeros(10_001, np.int32)
    h[4_000:6_000] = 21_000_000 + np.arange(2_000) % 5
    line = Boundary(h, h - 5)
    packer = Packer([7], h[:1], 10_000, table=line_tables.BandTable, level_gap=5)
    for start, stop in pairwise([0, 3_000, 5_000, 10_000]):
        packer.put(0, start, line.h[start + 1 : stop + 1], line.gap[start + 1 : stop + 1])
    packed = packer.packed()
    assert packed.steps.narrow.dtype == np.int8
    assert [(begin, len(values)) for begin, values in packed.steps.narrow.stretches[0]] == [(3_999, 2_001)]
    assert packed.gaps.stretches == [[]]
    assert {number: places.tolist() for number, (places, _) in packed.steps.patches.items()} == {
        0: [3_999, 5_999]
    }
    assert packed.gaps.dtype == np.int8
    for start, stop in [(0, 10_000), (0, 3_999), (3_999, 4_000), (4_000, 6_000), (5_000, 6_001)]:
        assert np.array_equal(packed.part(7, start, stop).h, h[start : stop + 1])


def test_a_line_in_memory_keeps_what_is_between_long_level_parts_and_no_more(monkeypatch):
    monkeypatch.setattr(line_tables, "_FEW", 10)
    table = line_tables.BandTable(2, 100, np.dtype(np.int8))
    values = np.zeros(100, np.int32)
    values[20:30], values[38:40], values[60:70] = 1, 2, 3
    for line, cuts in enumerate(([0, 100], [0, 25, 50, 100])):
        for start, stop in pairwise(cuts):
            table.put(line, start, as_steps(values[start:stop]))
    whole, in_pieces = table.values().stretches
    assert [(begin, len(part)) for begin, part in whole] == [(20, 50)]
    assert [(begin, len(part)) for begin, part in in_pieces] == [(20, 20), (60, 10)]
    for _, part in (*whole, *in_pieces):
        assert part.base is None or part.base.size == part.size  # no longer array is kept with it
    assert all(np.array_equal(table.values()[line, 0:100], values) for line in range(2))
    assert table.values().nbytes == 50 + 20 + 10


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
@given(
    st.lists(st.lists(st.tuples(st.integers(0, 90), st.integers(1, 20)), max_size=4), min_size=1, max_size=3),
    st.integers(-3, 3),
)
def test_a_band_is_deflated_as_it_is_read(block, spans, level):
    """Blocks without other values than the level are deflated once, the last one of a line by itself."""
    rng, stretches = np.random.default_rng(1), []
    for line in spans:
        ends = np.cumsum([0, *(gap + length for gap, length in line)])
        begins = [int(end) + gap for end, (gap, _) in zip(ends, line, strict=False)]
        parts = [rng.integers(-9, 9, length, np.int8) for _, length in line]
        stretches.append([*zip(begins, parts, strict=True)])
    band = line_tables.BandArray((len(spans), 450), np.dtype(np.int8), level, stretches)
    with mock.patch.object(hdf5_filters, "BLOCK_LENGTH", block):
        deflated = band.deflated()
    for line in range(len(spans)):
        assert np.array_equal(deflated[line, 0:450], band[line, 0:450])
    empty = line_tables.BandArray((2, 450), np.dtype(np.int8), level, [[], []])
    length = mock.patch.object(hdf5_filters, "BLOCK_LENGTH", block)
    with length, mock.patch.object(deflated_arrays, "deflate", wraps=hdf5_filters.deflate) as deflate:
        empty.deflated()
    assert deflate.call_count == 1 + (450 % min(block, 450) > 0)


@pytest.mark.parametrize(
    "repeated", [np.full, lambda count, value, _: np.broadcast_to(np.int32(value), count)]
)
def test_a_constant_piece_is_level_only_if_cells_left_out_have_its_value(repeated):
    packer = Packer([1], np.zeros(1, np.int32), 8, table=line_tables.BandTable, level_gap=5)
    packer.put(0, 0, repeated(4, 0, np.int32), repeated(4, -5, np.int32))
    packer.put(0, 4, repeated(4, 0, np.int32), repeated(4, -7, np.int32))
    packed = packer.packed()
    assert [(begin, len(part)) for begin, part in packed.gaps.stretches[0]] == [(4, 4)]
    assert packed.part(1, 0, 8).gap[1:].tolist() == [-5] * 4 + [-7] * 4


def test_a_sixteenth_of_a_long_piece_may_be_wide_and_a_line_with_more_is_kept_whole():
    table = line_tables.BandTable(2, 3_200, np.dtype(np.int8))
    for line, count in enumerate((200, 201)):
        values = np.zeros(3_200, np.int32)
        values[:count] = 21_000_000
        table.put(line, 0, as_steps(values))
    kept = table.values()
    assert (set(kept.patches), set(kept.wide)) == ({0}, {1})
    assert (kept[0, 0:3_200] > 0).sum() == 200
    assert (kept[1, 0:3_200] > 0).sum() == 201


def test_a_line_in_memory_with_many_wide_values_is_kept_apart_as_a_whole():
    """It must not decide in which type the values of other lines are kept."""
    length, place = 300, 150
    many = Boundary(np.zeros(length + 1, np.int32), np.full(length + 1, -1_000, np.int32))
    few = Boundary(np.zeros(length + 1, np.int32), np.full(length + 1, -5, np.int32))
    few.h[place:], few.gap[place:] = 21_000_000, 21_000_000 - 5
    few.gap[place] = 0
    packer = Packer([1, 2], np.zeros(2, np.int32), length, table=line_tables.BandTable, level_gap=5)
    for start, stop in pairwise([0, 50, 200, length]):
        for number, line in enumerate([many, few]):
            packer.put(number, start, line.h[start + 1 : stop + 1], line.gap[start + 1 : stop + 1])
    packed = packer.packed()
    assert set(packed.gaps.wide) == {0}
    assert packed.gaps.narrow.stretches[0] == []  # nothing is kept twice
    assert set(packed.steps.patches) == {1}
    for index, line in ((1, many), (2, few)):
        part = packed.part(index, 0, length)
        assert np.array_equal(part.h, line.h)
        assert np.array_equal(part.gap[1:], line.gap[1:])


@pytest.mark.parametrize("state", State)
def test_the_edges_of_an_entry_come_back(state):
    for edge in entry_edges(state, 5, 9, Scoring()):
        assert same(pack([3], [edge]).part(3, 0, len(edge)), edge)


# --- wide values that are listed apart

BOUND = KnownBound(5, 0.5)


def with_cliffs(tile: Tile) -> TileRecord:
    """A record with values as beside cells that were left out."""
    lines = {}
    for side, length in (("rows", tile.j1 - tile.j0), ("cols", tile.i1 - tile.i0)):
        h = np.zeros(length + 1, np.int32)
        h[3:6] = 21_000_000
        packer = Packer([8, 16], np.zeros(2, np.int32), length, table=line_tables.PatchedDeflatingTable)
        for line, values in enumerate((h, np.zeros_like(h))):
            packer.put(line, 0, values[1:], values[1:] - 5)
        lines[side] = packer.packed()
    return TileRecord(lines["rows"], lines["cols"], BestCell())


def test_a_pruned_store_lists_wide_values_apart(tmp_path):
    tile = GRID.tile(0, 0)
    with new_store(tmp_path, pruned_with=BOUND) as store:
        store.put_tile(tile, with_cliffs(tile))
        here = store.get_tile(tile)
        there = DirectoryStore.attach(tmp_path).get_tile(tile)
        for record in (here, there):
            for lines in (record.rows, record.cols):
                h = lines.part(8, 0, 10).h
                assert h.tolist() == [0, 0, 0, *[21_000_000] * 3, 0, 0, 0, 0, 0]
                assert lines.part(8, 4, 7).h.tolist() == [21_000_000] * 2 + [0, 0]
                assert not lines.part(16, 0, 10).h.any()
                assert (lines.part(8, 0, 10).gap[1:] == h[1:] - 5).all()
        assert store.check_tile(tile) == BestCell()
        with h5py.File(store.tile_path(0, 0)) as file:
            assert file["rows/steps"].dtype == np.int8
            jumps = [[0, 2, 21_000_000], [0, 5, -21_000_000]]
            assert file["apart"][:].T.tolist() == [[k, *jump] for k in (0, 2) for jump in jumps]


@pytest.mark.parametrize(
    "listed",
    [
        [[0, 2, 0, 9]], [[0, -1, 0, 9]], [[0, 0, 16, 9]], [[0, 0, -1, 9]], [[0, 0, 3, 9], [0, 0, 3, 9]],
        [[0, 0, 3, 9], [0, 0, 2, 9]], [[0, 1, 0, 9], [0, 0, 3, 9]], [[0, 0, 0, 1 << 31]], [[4, 0, 0, 9]],
        [[-1, 0, 0, 9]], [[1, 0, 3, 9], [0, 0, 3, 9]],
    ],
)  # fmt: skip
def test_lists_of_wide_values_that_cannot_be_those_of_a_tile_are_refused(tmp_path, listed):
    tile = GRID.tile(0, 0)
    with new_store(tmp_path, pruned_with=BOUND) as store:
        store.put_tile(tile, with_cliffs(tile))
        with h5py.File(store.tile_path(0, 0), "r+", libver="latest") as file:
            del file["apart"]
            write(file, "apart", np.array(listed, np.int64).T, *APART_WORDS)
        with pytest.raises(DamagedTile, match=r"apart|wide values"):
            store.get_tile(tile)


def test_a_list_of_wide_values_that_is_gone_is_missed(tmp_path):
    tile = GRID.tile(0, 0)
    with new_store(tmp_path, pruned_with=BOUND) as store:
        store.put_tile(tile, with_cliffs(tile))
        with h5py.File(store.tile_path(0, 0), "r+", libver="latest") as file:
            del file["apart"]
        with pytest.raises(DamagedTile, match="apart is missing"):
            store.get_tile(tile)


# --- round trips


def tile_record(rng: np.random.Generator, tile: Tile) -> tuple[TileRecord, dict[str, list[Boundary]]]:
    """A record of random lines, and those lines."""
    lines = {}
    for side, count, length in (("rows", 2, tile.j1 - tile.j0), ("cols", 2, tile.i1 - tile.i0)):
        lines[side] = [
            Boundary(rng.integers(-99, 99, length + 1, np.int32), rng.integers(-99, 99, length + 1, np.int32))
            for _ in range(count)
        ]
        for line in lines[side]:
            line.gap[0] = NEG_INF
    packed = {side: pack([8, 16], lines[side]) for side in lines}
    return TileRecord(packed["rows"], packed["cols"], BestCell(12, 20, 14)), lines


def in_numbers(found: NextBest) -> tuple[object, ...]:
    paths = [(one.end, one.runs.ops.tolist(), one.runs.lengths.tolist()) for one in found.paths]
    return paths, found.are_all


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_tiles_paths_and_pieces_come_back(tmp_path, kind):
    store = MemoryStore() if kind == "memory" else new_store(tmp_path / "s")
    tile = GRID.tile(1, 0)
    assert store.stored_tiles() == set()
    assert store.get_path() == ([], False)
    assert store.get_piece(0) is None

    record, lines = tile_record(np.random.default_rng(0), tile)
    store.put_tile(tile, record)
    got = store.get_tile(tile)
    assert got.best == record.best
    for side in ("rows", "cols"):
        for place, line in zip((8, 16), lines[side], strict=True):
            assert same(getattr(got, side).part(place, 2, 11), line.part(2, 11))
    assert store.stored_tiles() == {(1, 0)}
    store.drop_tile(tile.row, tile.col)
    assert store.stored_tiles() == set()

    path = [Waypoint(9, 8, State.H, 5), Waypoint(7, 8, State.E, -3), Waypoint(0, 2, State.F, 2**31 - 1)]
    store.put_path(path, complete=False)
    assert store.get_path() == (path, False)
    store.put_path(path[:1], complete=True)
    assert store.get_path() == (path[:1], True)

    store.put_piece(3, Piece(np.array([0, 2], np.uint8), np.array([20, 1], np.int64)))
    piece = store.get_piece(3)
    assert (piece.ops.tolist(), piece.lengths.tolist()) == ([0, 2], [20, 1])
    assert (piece.ops.dtype, piece.lengths.dtype) == (np.uint8, np.int64)

    assert in_numbers(store.get_next_best()) == ([], False)
    for found in NextBest(NEXT_BEST.paths[:1], True), NEXT_BEST, NextBest():
        store.put_next_best(found)
        assert in_numbers(store.get_next_best()) == in_numbers(found)


def test_an_empty_path_and_an_empty_piece_come_back(tmp_path):
    with new_store(tmp_path / "s") as store:
        store.put_path([], complete=True)
        assert store.get_path() == ([], True)
        store.put_piece(0, Piece(np.empty(0, np.uint8), np.empty(0, np.int64)))
        assert store.get_piece(0).ops.size == 0


def test_manifest_and_sequences_come_back(tmp_path):
    with new_store(tmp_path / "s") as store:
        manifest = store.manifest
    with DirectoryStore.open(tmp_path / "s") as store:
        assert store.manifest == manifest
        letters = [sequence.letters.tobytes().decode() for sequence in store.sequences()]
        assert letters == [PAIR.query, PAIR.target]


# --- for a reader with nothing but h5py


def datasets(folder: Path) -> Iterator[tuple[Path, str, h5py.Dataset]]:
    for path in sorted(folder.rglob("*.h5")):
        with h5py.File(path) as file:
            found: list[str] = []
            file.visititems(
                lambda name, item, found=found: found.append(name) if hasattr(item, "shape") else None
            )
            for name in found:
                yield path, name, file[name]


def test_every_dataset_says_what_it_is(finished):
    names = set()
    for path, name, dataset in datasets(finished):
        assert dataset.attrs["description"], (path, name)
        assert dataset.attrs["units"], (path, name)
        names.add(name)
    assert {"rows/steps", "cols/anchors", "query", "value", "ops"} <= names


def test_a_plain_reader_can_rebuild_h_and_gap_from_the_descriptions(finished):
    manifest = json.loads((finished / "manifest.json").read_text())
    query, target = PAIR.sequences()
    h, e, f = map(np.array, matrices(whole_matrix(query.as_query(), target.as_target(), PAIR.scoring, True)))
    lines = 0
    for path in (finished / "tiles").iterdir():
        with h5py.File(path) as file:
            i0, i1, j0, j1 = (file.attrs[name] for name in ("i0", "i1", "j0", "j1"))
            for side, (h_line, gap_line) in {"rows": (h, e), "cols": (h.T, f.T)}.items():
                across, along = ((i0, slice(j0, j1 + 1)), (j0, slice(i0, i1 + 1)))[side == "cols"]
                for k, index in enumerate(file[f"{side}/index"]):
                    rebuilt = np.cumsum([file[f"{side}/anchors"][k, 0], *file[f"{side}/steps"][k]])
                    assert np.array_equal(rebuilt, h_line[across + index, along])
                    gap = rebuilt[1:] - file[f"{side}/gaps"][k]
                    assert np.array_equal(gap, gap_line[across + index, along][1:])
                    lines += 1
    rows, cols = (len(manifest["grid"][name]) - 1 for name in ("row_cuts", "col_cuts"))
    tiles_down, tiles_across = (len(manifest["grid"][name]) - 1 for name in ("tile_rows", "tile_cols"))
    assert lines == (rows - 1) * tiles_across + (cols - 1) * tiles_down  # none on the matrix's far edges


# --- whole files


def fail_while_writing(path: Path, cause: BaseException) -> None:
    with atomic_path(path) as temporary:
        temporary.write_text("new")
        raise cause


@pytest.mark.parametrize("cause", [ZeroDivisionError(), KeyboardInterrupt()])
def test_a_write_that_fails_leaves_what_was_there(tmp_path, cause):
    path = tmp_path / "x"
    with pytest.raises(type(cause)):
        fail_while_writing(path, cause)
    assert not list(tmp_path.iterdir())
    path.write_text("old")
    with pytest.raises(type(cause)):
        fail_while_writing(path, cause)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_flushed_before_it_has_its_name_and_its_name_after(tmp_path, monkeypatch):
    path, flushed = tmp_path / "x", []

    def fsync(descriptor):
        flushed.append((stat.S_ISDIR(os.fstat(descriptor).st_mode), path.exists()))

    monkeypatch.setattr(os, "fsync", fsync)
    with atomic_path(path) as temporary:
        temporary.write_text("new")
    assert flushed == [(False, False), (True, True)]


def test_a_reader_of_a_file_that_is_replaced_reads_the_old_one_to_its_end(tmp_path):
    path = tmp_path / "x"
    path.write_text("old")
    with path.open() as reader:
        with atomic_path(path) as temporary:
            temporary.write_text("new")
        assert reader.read() == "old"
    assert path.read_text() == "new"


def test_a_file_system_that_turns_read_only_is_one_line(tmp_path, monkeypatch):
    """Then the temporary file cannot be removed either."""

    def refuse(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(StoreError, match=r"x: cannot be written: read-only file system"):
        fail_while_writing(tmp_path / "x", OSError(errno.EROFS, os.strerror(errno.EROFS)))


def test_a_tile_is_stored_though_no_more_files_can_be_opened_to_look_at_it(tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    tile = GRID.tile(1, 0)
    record, _ = tile_record(np.random.default_rng(0), tile)
    with new_store(tmp_path / "s") as store:
        with monkeypatch.context() as patch:
            patch.setattr("longalign.store.file_reader.open_regular_file", refuse)
            store.put_tile(tile, record)
            with pytest.raises(StoreError, match="cannot be read: too many open files"):
                store.get_tile(tile)
        assert store.check_tile(tile) == record.best


@pytest.mark.parametrize("name", ["rows/steps", "cols/gaps"])
def test_damage_is_noticed_where_memory_shares_lines_with_a_file(tmp_path, name):
    tile = GRID.tile(1, 0)
    record, _ = tile_record(np.random.default_rng(0), tile)
    memory = MemoryStore()
    with new_store(tmp_path / "s") as store:
        store.put_tile(tile, record)
        memory.put_tile(tile, DirectoryStore.attach(store.path).get_tile(tile))
        assert memory.check_tile(tile) == record.best
        path = store.tile_path(1, 0)
        with h5py.File(path) as file:
            at = file[name].id.get_chunk_info(0).byte_offset
        image = bytearray(path.read_bytes())
        image[at] ^= 4
        path.write_bytes(image)
        with pytest.raises(DamagedTile, match=r"r00001c00000\.h5: damaged"):
            memory.check_tile(tile)


@pytest.mark.parametrize("writer", [True, False])
def test_a_tile_is_read_without_hdf5_by_the_process_that_stored_it(tmp_path, monkeypatch, writer):
    tile = GRID.tile(1, 0)
    record, lines = tile_record(np.random.default_rng(0), tile)
    with new_store(tmp_path / "s") as store:
        with store.open_writer(tile) if writer else nullcontext() as opened:
            store.put_tile(tile, record, opened)
        monkeypatch.setattr("longalign.store.file_reader.open_hdf5", None)
        got = store.get_tile(tile)
        assert got.best == record.best
        assert same(got.cols.part(16, 0, 12), lines["cols"][1].part(0, 12))
        with pytest.raises(DamagedTile, match="not callable"):
            DirectoryStore.attach(store.path).get_tile(tile)


def test_a_tile_that_is_replaced_after_it_was_stored_is_read_anew(tmp_path):
    """As by the worker of another process."""
    tile = GRID.tile(1, 0)
    with new_store(tmp_path / "s") as store:
        for seed in (0, 1):
            one, other = (tile_record(np.random.default_rng(2 * seed + k), tile) for k in (0, 1))
            store.put_tile(tile, one[0])
            DirectoryStore.attach(store.path).put_tile(tile, other[0])
            assert same(store.get_tile(tile).rows.part(8, 0, 12), other[1]["rows"][0].part(0, 12))


def test_a_tile_that_is_gone_as_soon_as_it_is_stored_is_missing(tmp_path, monkeypatch):
    tile = GRID.tile(1, 0)
    record, _ = tile_record(np.random.default_rng(0), tile)
    flush = store_files._flush

    def flush_and_lose(path):
        flush(path)
        if path.is_dir():
            store.tile_path(1, 0).unlink()

    with new_store(tmp_path / "s") as store:
        monkeypatch.setattr(store_files, "_flush", flush_and_lose)
        store.put_tile(tile, record)
        with pytest.raises(DamagedTile, match="it is missing"):
            store.get_tile(tile)


def test_leftovers_of_killed_writes_are_removed(tmp_path):
    path = tmp_path / "s"
    new_store(path).close()
    leftovers = [
        path / temporary_name(),
        path / temporary_name("path.h5"),
        path / "tiles" / temporary_name("r00000c00000.h5"),
        path / "pieces" / temporary_name("p000000.h5"),
    ]
    for leftover in leftovers:
        leftover.write_text("half")
    DirectoryStore.open(path).close()
    assert not any(leftover.exists() for leftover in leftovers)


def test_a_store_that_was_killed_while_being_made_is_made_again(tmp_path):
    path = tmp_path / "s"
    new_store(path).close()
    leftover = path / temporary_name("manifest.json")
    (path / "manifest.json").rename(leftover)
    with new_store(path) as store:
        assert store.sequences()[0].length == len(PAIR.query)
    assert not leftover.exists()


def test_a_store_without_its_empty_folders_is_gone_on_with(tmp_path):
    """As after a copy by a tool that copies only files."""
    path = tmp_path / "s"
    new_store(path).close()
    for folder in ("tiles", "pieces"):
        (path / folder).rmdir()
    DirectoryStore.attach(path)
    assert not (path / "tiles").exists()
    with small_geometry():
        PAIR.check(PAIR.run(using(SmallTiles((17, 17))), path))


@pytest.mark.parametrize("name", ["notes.txt", "path.h5", "tiles/r00000c00000.h5", "pieces/p000000.h5"])
def test_a_directory_with_something_else_in_it_is_refused_and_left_alone(tmp_path, name):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text("precious")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(StoreError, match=f"neither empty nor a store: it holds {name.split('/')[0]}"):
        new_store(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_file_cannot_be_a_store(tmp_path):
    (tmp_path / "s").write_text("")
    with pytest.raises(StoreError, match="a file, not a directory: it cannot hold a store"):
        new_store(tmp_path / "s")
    with pytest.raises(StoreError, match="not a store"):
        DirectoryStore.open(tmp_path / "s")


@pytest.fixture
def read_only() -> Iterator[Path]:
    """A directory that all users may read; `tmp_path` is readable for its owner only."""
    with tempfile.TemporaryDirectory() as name:
        yield Path(name)
        Path(name).chmod(0o700)


def test_a_read_only_directory_is_one_line(read_only):
    new_store(read_only / "s").close()
    (read_only / "s").chmod(0o555)
    read_only.chmod(0o555)
    with unprivileged():
        with pytest.raises(StoreError, match="permission denied"):
            new_store(read_only / "t")
        with DirectoryStore.open(read_only / "s") as store:
            assert not store.is_writable
            with pytest.raises(StoreError, match="s: cannot be written: permission denied"):
                store.put_path([], complete=True)
        assert DirectoryStore.attach(read_only / "s").manifest.mode == "local"
    (read_only / "s").chmod(0o755)


def test_a_directory_that_may_not_be_looked_into_is_one_line(read_only):
    read_only.chmod(0o000)
    with unprivileged(), pytest.raises(StoreError, match="permission denied"):
        PAIR.run(store=read_only / "s")


# --- a full disk


LIMITED = """
import resource, signal, sys
from pathlib import Path
from longalign.errors import StoreError
from runs import Pair, SmallTiles, problems, small_geometry, using
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]),) * 2)
with small_geometry():
    try:
        Pair(*sys.argv[3:]).run(using(SmallTiles((17, 17))), Path(sys.argv[1]))
    except StoreError as error:
        print(error)
"""


@pytest.mark.slow
@pytest.mark.parametrize("limit", [0, 1000, 3000])
def test_a_file_that_cannot_grow_is_one_line_and_the_run_goes_on_later(tmp_path, limit):
    """HDF5 crashes the whole process if it meets this itself."""
    path = tmp_path / "s"
    arguments = [sys.executable, "-c", LIMITED, str(path), str(limit), PAIR.query, PAIR.target]
    here = Path(__file__).parents[1] / "helpers"
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=here, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert "file too large" in done.stdout
    assert not list(path.rglob(".tmp-*"))
    with small_geometry():
        PAIR.check(PAIR.run(using(SmallTiles((17, 17))), path))


REFUSED = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from longalign.errors import StoreError
from longalign.store import hdf5_filters
from longalign.store.blocks import write_blocks
from longalign.store.files import new_hdf5

def put():
    with new_hdf5(path) as file:
        for name in "abc":
            write_blocks(file, f"group/{name}", values)

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
path, hdf5_filters.BLOCK_LENGTH = Path(sys.argv[1]) / "x.h5", 32
values = np.random.default_rng(0).integers(-99, 99, (4, 8_000)).astype(np.int8)
put()
size = path.stat().st_size
path.unlink()
for limit in (*range(0, 3_000, 500), *range(3_000, size, size // 20), size - 1):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, -1))
    try:
        put()
    except StoreError as error:
        assert str(error).endswith("x.h5: cannot be written: file too large"), error
    else:
        raise AssertionError(f"written in spite of {limit}")
    assert not list(path.parent.iterdir())
"""


@pytest.mark.slow
def test_wherever_a_file_of_many_blocks_cannot_grow_nothing_is_left_of_it(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", REFUSED, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "file", ["sequences.h5", "manifest.json", "r00001c00000.h5", "path.h5", "p000000.h5"]
)
def test_a_full_disk_at_any_file_is_one_line_and_the_run_goes_on_later(tmp_path, monkeypatch, file):
    path = tmp_path / "s"

    rename = Path.replace

    def full(self: Path, target: Path) -> Path:
        if target.name == file:
            raise OSError(errno.ENOSPC, "No space left on device")
        return rename(self, target)

    with small_geometry():
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", full)
            with pytest.raises(StoreError, match=f"{file}: cannot be written: no space left"):
                PAIR.run(using(SmallTiles((17, 17))), path)
        assert not list(path.rglob(".tmp-*"))
        PAIR.check(PAIR.run(using(SmallTiles((17, 17))), path))


# --- one owner


HOLD = """
import sys, time
from pathlib import Path
from longalign.store import DirectoryStore
store = DirectoryStore.open(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_a_store_has_one_owner_who_may_die(tmp_path):
    new_store(tmp_path / "s").close()
    command = [sys.executable, "-c", HOLD, str(tmp_path / "s")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout.readline() == "held\n"
        try:
            with pytest.raises(StoreError, match=f"the store is in use by process {holder.pid} on "):
                DirectoryStore.open(tmp_path / "s")
            assert DirectoryStore.attach(tmp_path / "s").manifest.program == "0"
        finally:
            holder.send_signal(signal.SIGKILL)
    DirectoryStore.open(tmp_path / "s").close()


def test_the_lock_is_free_again_after_a_failure(tmp_path, monkeypatch):
    path = tmp_path / "s"
    with monkeypatch.context() as patch:
        patch.setattr(Manifest, "write", lambda self, path, check: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            new_store(path)
    new_store(path).close()
    DirectoryStore.open(path).close()


def test_a_mark_tells_a_store_from_another_of_the_same_name(tmp_path):
    """As on two machines that do not share the directory."""
    with new_store(tmp_path / "s") as store:
        with store.marked() as mark:
            assert DirectoryStore.attach(tmp_path / "s", mark).manifest == store.manifest
            shutil.move(tmp_path / "s", tmp_path / "elsewhere")
            new_store(tmp_path / "s").close()
            with pytest.raises(StoreError, match="s: another directory than the one of this name"):
                DirectoryStore.attach(tmp_path / "s", mark)
            shutil.rmtree(tmp_path / "s")
            with pytest.raises(StoreError, match="s: not a store"):
                DirectoryStore.attach(tmp_path / "s", mark)
            shutil.move(tmp_path / "elsewhere", tmp_path / "s")
        with pytest.raises(StoreError, match="another directory"):
            DirectoryStore.attach(tmp_path / "s", mark)
    assert not list((tmp_path / "s").rglob(".tmp-*"))


# --- what a store belongs to


def rewritten(path: Path, **changes: Any) -> None:
    """A manifest with some fields changed, and the right SHA-256 for them."""
    write_manifest(path, {**json.loads((path / "manifest.json").read_text()), **changes})


def test_a_manifest_without_the_fields_that_were_added_is_read(tmp_path):
    new_store(tmp_path).close()
    data = json.loads((tmp_path / "manifest.json").read_text())
    before = Manifest.read(tmp_path / "manifest.json")
    for name in ("summary", "output_format", "top", "min_score", "strand", "pruning"):
        del data[name]
    write_manifest(tmp_path, {**data, "version": 3})
    with DirectoryStore.open(tmp_path) as store:
        assert (store.manifest, store.manifest.run) == (before, before.run)
        store.note_request(dataclasses.replace(before, summary="x.json", output_format="tsv"))
    manifest = DirectoryStore.attach(tmp_path).manifest
    assert (manifest.summary, manifest.output_format) == ("x.json", "tsv")


def test_a_pruned_store_of_before_wide_values_were_listed_is_refused(tmp_path):
    new_store(tmp_path, pruned_with=BOUND).close()
    rewritten(tmp_path, version=3)
    with pytest.raises(StoreError, match="a pruned store of version 3, which this program does not read"):
        DirectoryStore.open(tmp_path)


@pytest.mark.parametrize("version", [1, 2, 5, True, "4"])
def test_other_versions_are_refused(tmp_path, version):
    new_store(tmp_path).close()
    rewritten(tmp_path, version=version)
    with pytest.raises(StoreError, match=f"version {version!r}; this program reads 3 and 4"):
        DirectoryStore.open(tmp_path)


def test_other_formats_are_refused(tmp_path):
    new_store(tmp_path).close()
    rewritten(tmp_path, format="zarr")
    with pytest.raises(StoreError, match="not the manifest of a longalign store"):
        DirectoryStore.open(tmp_path)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "\udce9", '{"format": "longalign-store", "version": 4}']
)
def test_what_is_no_manifest_is_refused(tmp_path, text):
    new_store(tmp_path).close()
    (tmp_path / "manifest.json").write_text(text, errors="surrogateescape")
    with pytest.raises(StoreError, match=r"manifest\.json: "):
        DirectoryStore.open(tmp_path)


def test_a_manifest_with_relative_sources_is_that_of_the_same_run(tmp_path, monkeypatch):
    """Older programs stored relative paths, which are resolved in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name, letters in (("query", PAIR.query), ("target", PAIR.target)):
        Path(f"{name}.fa").write_text(f">{name}\n{letters}\n")
    with monkeypatch.context() as patch:
        patch.setattr("longalign.store.manifest.with_absolute_path", lambda spec: spec)
        sequences = [read_sequence(f"{name}.fa") for name in ("query", "target")]
        spec = RunSpec(*sequences, PAIR.scoring, PAIR.mode, store=tmp_path / "s")
        pipeline.run(spec, using())
    events = []
    PAIR.check(pipeline.resume(tmp_path / "s", using(), emit=events.append))
    assert not [event for event in events if isinstance(event, Notice | TileFinished)]
    PAIR.check(pipeline.run(spec, using(), events.append))
    assert not [event for event in events if isinstance(event, Notice | TileFinished)]
    assert DirectoryStore.attach(tmp_path / "s").manifest.query.source == "query.fa"


@pytest.mark.parametrize("source", ["memory", "-", "-:a:b:3-5", "a database", "none.fa:x"])
def test_a_source_that_is_no_file_is_noted_as_it_is(tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    Path("memory").touch()
    assert SequenceRecord.of(Sequence.from_letters("x", "ACGT", source=source)).source == source


def test_a_changed_digit_in_the_manifest_is_noticed(tmp_path):
    new_store(tmp_path).close()
    path = tmp_path / "manifest.json"
    path.write_text(path.read_text().replace('"gap_open": 3', '"gap_open": 2'))
    with pytest.raises(StoreError, match=r"manifest\.json: damaged: its SHA-256"):
        DirectoryStore.open(tmp_path)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (
            {"query": "ACGTTACGGATCAGGCATTACGACGATTACAGC"},
            ["the letters of the query 'query' of memory differ from those in the store"],
        ),
        (
            {"target": "ACGT"},
            ["the target is 'target' with 34 letters in the store, and 'target' of memory with 4 "],
        ),
        ({"mode": "global"}, ["mode is local in the store and global now"]),
        ({"scoring": Scoring(2, -3, 4, 2)}, ["match is 1 in the store and 2", "gap_open is 3 in the store"]),
    ],
)
def test_another_run_is_refused_with_every_field_that_differs(tmp_path, change, named):
    new_store(tmp_path).close()
    other = dataclasses.replace(PAIR, **change)
    with pytest.raises(StoreError, match="the store belongs to another run") as caught:
        other.run(store=tmp_path)
    for text in named:
        assert text in str(caught.value)
    assert str(caught.value).count(" in the store") == len(named)
    DirectoryStore.open(tmp_path).close()


# --- damage


FILES = ["tiles/r00001c00001.h5", "path.h5", "pieces/p000000.h5", "sequences.h5", "manifest.json"]


def content(path: Path, name: str) -> object:
    """The content of one file of a store as plain values. Raises what the store raises."""
    store = DirectoryStore.attach(path)
    if name.startswith("tiles"):
        tile = store.manifest.grid.tile(1, 1)
        best = store.check_tile(tile)
        record = store.get_tile(tile)
        fields = [field.name for field in dataclasses.fields(record.rows)]
        arrays = [getattr(lines, field)[:] for lines in (record.rows, record.cols) for field in fields]
        return best, [array.tolist() for array in arrays]
    if name.startswith("pieces"):
        piece = store.get_piece(0)
        return piece.ops.tolist(), piece.lengths.tolist()
    if name == "sequences.h5":
        return [sequence.letters.tobytes() for sequence in store.sequences()]
    return store.get_path() if name == "path.h5" else store.manifest


def damaged_copies(good: bytes, rng: random.Random) -> Iterator[bytes]:
    """A bit flipped, the end lost, blocks of zeros, blocks of noise."""
    for _ in range(60):
        at, length = rng.randrange(len(good)), rng.choice([1, 8, 64, 512, 4096])
        rest = good[at + length :]
        lost = len(good) - at - len(rest)
        yield good[:at] + bytes([good[at] ^ 1 << rng.randrange(8)]) + good[at + 1 :]
        yield good[:at]
        yield good[:at] + bytes(lost) + rest
        yield good[:at] + rng.randbytes(lost) + rest


def assert_noticed_or_harmless(path: Path, name: str, want: object) -> None:
    """The file reads as before, or the one line that refuses it names it."""
    try:
        got = content(path, name)
    except StoreError as error:
        complaint = str(error)
        assert str(path / name) in complaint
        assert "\n" not in complaint
    else:
        assert got == want


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A finished store to damage."""
    path = tmp_path / "store"
    subprocess.run(["cp", "-r", finished, path], check=True)
    return path


@pytest.mark.parametrize("name", FILES)
def test_damage_is_noticed_or_harmless(copy, name):
    good, want = (copy / name).read_bytes(), content(copy, name)
    rng = random.Random(name)
    for bad in damaged_copies(good, rng):
        (copy / name).write_bytes(bad)
        assert_noticed_or_harmless(copy, name, want)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".h5")])
def test_a_data_block_of_zeros_is_noticed(copy, name):
    path, good, want = copy / name, (copy / name).read_bytes(), content(copy, name)
    blocks: list[tuple[int, int]] = []
    for place, _, dataset in datasets(copy):
        if place == path:
            dataset.id.chunk_iter(lambda block: blocks.append((block.byte_offset, block.size)))
    assert blocks
    for at, size in blocks:
        path.write_bytes(good[:at] + bytes(size) + good[at + size :])
        assert_noticed_or_harmless(copy, name, want)


@pytest.mark.parametrize("other", ["r00000c00001.h5", "r00001c00000.h5"])
def test_a_tile_in_the_place_of_another_is_noticed(copy, other):
    (copy / "tiles" / other).replace(copy / "tiles" / "r00001c00001.h5")
    store = DirectoryStore.attach(copy)
    with pytest.raises(DamagedTile, match=r"r00001c00001\.h5: damaged: it belongs to another tile") as caught:
        store.get_tile(store.manifest.grid.tile(1, 1))
    assert (caught.value.row, caught.value.col) == (1, 1)


@pytest.mark.parametrize("name", ["query", "target"])
def test_other_letters_in_the_place_of_a_sequence_are_noticed(copy, name):
    """The file is complete, and its checksums are right."""
    store = DirectoryStore.attach(copy)
    sequences = dict(zip(("query", "target"), store.sequences(), strict=True))
    letters = sequences[name].letters[::-1].copy()
    sequences[name] = dataclasses.replace(sequences[name], letters=letters)
    store.put_sequences(**sequences)
    with pytest.raises(DamagedFile, match=rf"sequences\.h5: damaged: the {name} has another SHA-256"):
        DirectoryStore.attach(copy).sequences()


def test_a_file_that_is_gone_between_two_looks_is_a_damaged_tile(copy):
    store = DirectoryStore.attach(copy)
    lattice = StoreLattice(Problem.of(*store.sequences(), PAIR.scoring, LOCAL), store.manifest.grid, store)
    store.drop_tile(1, 0)
    with pytest.raises(DamagedTile, match=r"r00001c00000\.h5"):
        lattice.row(lattice.grid.tile_rows[2], 0, 3)


def put(path: Path, tile: Tile, seed: int) -> list[Boundary]:
    """Store a tile of random lines, as another process does; its rows."""
    record, lines = tile_record(np.random.default_rng(seed), tile)
    DirectoryStore.attach(path).put_tile(tile, dataclasses.replace(record, best=BestCell(seed + 1, 20, 4)))
    return lines["rows"]


def test_a_tile_that_another_process_has_stored_anew_is_read(tmp_path):
    """Also through a record of the one before."""
    with new_store(tmp_path / "s") as store:
        tile = GRID.tile(1, 0)
        for seed in range(3):
            rows = put(store.path, tile, seed)
            if seed == 0:
                first = store.get_tile(tile)
            for record in (store.get_tile(tile), first):
                assert same(record.rows.part(16, 2, 11), rows[1].part(2, 11))
            assert store.get_tile(tile).best.score == seed + 1
        DirectoryStore.attach(store.path).drop_tile(tile.row, tile.col)
        for look in (lambda: store.get_tile(tile), lambda: first.rows.part(8, 0, 5)):
            with pytest.raises(DamagedTile, match=r"r00001c00000\.h5: damaged: it is missing"):
                look()


def test_a_tile_stored_again_is_not_taken_for_the_old_one(tmp_path, monkeypatch):
    """Not even if the file system gives both files the same inode and time."""
    monkeypatch.setattr("longalign.store.file_reader._stamp_of", lambda _: (0, 0, 0, 0))
    with new_store(tmp_path / "s") as store:
        tile = GRID.tile(1, 0)
        for seed in range(3):
            record, lines = tile_record(np.random.default_rng(seed), tile)
            store.put_tile(tile, record)
            assert same(store.get_tile(tile).rows.part(8, 0, 12), lines["rows"][0].part(0, 12))


def test_a_tile_is_read_again_without_hdf5_and_leaves_no_file_open(tmp_path, monkeypatch):
    with new_store(tmp_path / "s") as store:
        tile = GRID.tile(1, 0)
        gc.collect()  # what earlier tests have left
        rows, open_before = put(store.path, tile, 0), psutil.Process().num_fds()
        store.get_tile(tile).rows.part(8, 0, 5)
        monkeypatch.setattr("longalign.store.file_reader.open_hdf5", None)
        for start in range(10):
            assert same(store.get_tile(tile).rows.part(16, start, 11), rows[1].part(start, 11))
        assert psutil.Process().num_fds() == open_before


def test_a_tile_that_is_damaged_after_a_look_at_it_is_noticed(tmp_path):
    with new_store(tmp_path / "s") as store:
        tile = GRID.tile(1, 0)
        put(store.path, tile, 0)
        record = store.get_tile(tile)
        record.rows.part(16, 2, 11)
        path = store.tile_path(tile.row, tile.col)
        status, good = path.stat(), path.read_bytes()
        path.write_bytes(bytes(len(good)))
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
        with pytest.raises(DamagedTile, match=r"r00001c00000\.h5: damaged: a block cannot be inflated"):
            record.rows.part(16, 2, 11)


def test_threads_may_read_a_tile_at_the_same_time(tmp_path):
    with new_store(tmp_path / "s") as store:
        tile = GRID.tile(1, 0)
        rows = put(store.path, tile, 0)
        starts = list(range(10)) * 20
        parts = in_threads(lambda start: store.get_tile(tile).rows.part(8, start, 11), starts)
        assert all(same(part, rows[0].part(start, 11)) for part, start in zip(parts, starts, strict=True))


def test_a_memory_store_of_edges_forgets_what_the_next_tiles_have_read():
    grid = Grid((0, 4, 8, 12), (0, 4, 8, 12), (0, 4, 8, 12), (0, 4, 8, 12))
    line = Boundary(np.zeros(5, np.int32), np.zeros(5, np.int32))
    store = MemoryStore(edges_only=True)
    for tile in grid.tiles():
        store.put_tile(tile, TileRecord(pack([4], [line]), pack([4], [line]), BestCell(1, tile.i1, tile.j1)))
    kept = [store.get_tile(tile) for tile in grid.tiles()]
    assert [len(record.rows.index) for record in kept] == [0] * 6 + [1] * 3
    assert [len(record.cols.index) for record in kept] == [0, 0, 1] * 3
    assert [record.best.i for record in kept] == [4] * 3 + [8] * 3 + [12] * 3


def test_a_tile_of_another_run_is_damage(tmp_path, finished):
    other = Pair(PAIR.query, PAIR.target, Scoring(match=2))
    with new_store(tmp_path / "store", other) as store:
        shutil.copy(finished / "tiles" / "r00000c00000.h5", store.tile_path(0, 0))
        with pytest.raises(DamagedTile, match="another run"):
            store.get_tile(GRID.tile(0, 0))


def test_what_hdf5_still_writes_after_its_file_was_closed_is_dropped(tmp_path):
    """After an interrupt within h5py, HDF5 closes its own handle only later."""
    with store_files._DeferredErrorFile(tmp_path / "f.h5", "x+") as content:
        file = h5py.File(content, "w", libver="latest")
        file["values"] = np.arange(1000)
    size = (tmp_path / "f.h5").stat().st_size
    file.close()
    assert (tmp_path / "f.h5").stat().st_size == size


def test_a_second_check_does_not_rely_on_what_the_first_read_has_cached(tmp_path, monkeypatch):
    """Even if another process replaces the file by one with the same inode, size and time."""
    monkeypatch.setattr("longalign.store.file_reader._stamp_of", lambda _: (0, 0, 0, 0))
    with new_store(tmp_path / "s") as store:
        tile = GRID.tile(1, 0)
        put(store.path, tile, 0)
        assert store.check_tile(tile).score == 1
        rows = put(store.path, tile, 1)
        assert store.check_tile(tile).score == 2
        assert same(store.get_tile(tile).rows.part(8, 0, 12), rows[0].part(0, 12))
