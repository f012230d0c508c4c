"""The plan: memory and disk stay inside their budgets, or the run is refused before it starts."""

from __future__ import annotations

import re
import sys
from dataclasses import replace
from itertools import pairwise
from math import ceil, prod
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from inputs import DATA
from runs import CPU, SmallTiles, small_geometry

from longalign.backends.base import DeviceFacts, Workers
from longalign.backends.cpu import CpuBackend
from longalign.errors import BackendError, DiskTooSmall, UsageError
from longalign.fasta import read_sequence
from longalign.model.geometry import BYTES_PER_CELL, BYTES_PER_STORED_CELL, LINE_STEP, Grid, smallest_budget
from longalign.model.mode import EXTEND, GLOBAL, LOCAL, SEMIGLOBAL
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.run import pipeline, planner
from longalign.run.cost_model import format_seconds, path_share
from longalign.run.grid_bytes import (
    boundary_cells_per_tile,
    check_disk,
    check_memory,
    kept_bytes,
    lattice_room,
    tile_bytes,
    tiles_in_memory,
)
from longalign.run.host_memory import fixed_bytes
from longalign.run.planner import check_letters, plan, speed_model_of, store_budgets
from longalign.run.request import Request, Resources
from longalign.run.spec import RunSpec
from longalign.system.sizes import format_size, parse_size, round_size
from longalign.testing.reference import ReferenceBackend

MB = 1 << 20
CALL_BYTES = ReferenceBackend.host_bytes_per_call
lengths = st.one_of(st.integers(1, 10**4), st.integers(1, 10**8))
commands = st.sampled_from(["align", "score"])
memories = st.integers(700 * MB, 1 << 40)
tiles = st.tuples(st.integers(10**5, 10**8), st.integers(10**5, 10**8))


class LikeGpu(CpuBackend):
    """Its chunks, tiles and program are as large as those of a GPU."""

    min_chunk, line_bytes, program_bytes = 49_152, 3, 512 << 20

    def tile_shape(self, rows, cols, devices=1):
        return min(rows, 1 << 22), min(cols, 1 << 23)

    def strip_width(self, rows, cols):
        return 1024


def resources(tile, memory=16 << 30, budget=None):
    return Resources([SmallTiles(tile)], memory, budget)


@pytest.fixture
def free(monkeypatch):
    """Sets the number of free bytes on the disk."""
    return lambda size: monkeypatch.setattr(
        "longalign.run.grid_bytes.disk_usage", lambda _: SimpleNamespace(free=size)
    )


def memory_needed(grid, in_memory):
    """For letters, edges and codes, the boundaries of two tiles, calls of phase 3, and a kept lattice."""
    tile_bytes = BYTES_PER_CELL * max(
        len(rows) * (tile.j1 - tile.j0) + len(cols) * (tile.i1 - tile.i0)
        for tile in (grid.tile(0, 0), grid.tile(grid.shape[0] - 1, grid.shape[1] - 1))
        for rows, cols in [grid.kept_lines(tile, LOCAL)]
    )
    kept = grid.stored_cells * BYTES_PER_STORED_CELL if in_memory else 0
    return 48 * (grid.rows + grid.cols) + CALL_BYTES + 2 * tile_bytes + kept


@given(lengths, lengths, tiles, memories, commands, st.booleans())
def test_a_plan_that_is_not_refused_fits_in_memory(
    tmp_path_factory, rows, cols, tile, memory, command, stored
):
    store = tmp_path_factory.getbasetemp() if stored else None
    try:
        grid = plan(Request(rows, cols, command, store), resources(tile, memory))
    except UsageError:
        assume(False)
    assert (grid.rows, grid.cols) == (rows, cols)
    assert memory_needed(grid, in_memory=not stored) <= memory
    assert max(stop - start for start, stop in pairwise(grid.tile_rows)) <= tile[0] + 2 * LINE_STEP
    assert max(stop - start for start, stop in pairwise(grid.tile_cols)) <= tile[1] + 2 * LINE_STEP


@pytest.mark.parametrize("size", [(0, 0), (0, 5), (5, 0)])
@pytest.mark.parametrize("start_states", ["lazy", "eager"])
def test_a_matrix_without_cells_takes_any_budget_and_no_tiles(tmp_path, size, start_states):
    for store, budget in ((None, None), (tmp_path, 0), (tmp_path, 1 << 30)):
        request = Request(*size, store_path=store, start_states=start_states)
        grid = plan(request, resources((64, 64), budget=budget))
        assert (grid.rows, grid.cols, grid.tiles()) == (*size, [])
        assert {budget.cost.path for budget in store_budgets(request, resources((64, 64)))} == {0.0}
    with pytest.raises(UsageError, match=r"need about .* of memory"):
        plan(Request(*size), resources((64, 64), memory=1 << 20))


def test_tiles_end_where_lines_are_best_even_if_they_are_as_large_as_may_be():
    class Strips(SmallTiles):
        def strip_width(self, rows, cols):
            return 1536

    grid = plan(Request(10**6, 10**7, "score", None), Resources([Strips((10**5, 10**6))], 1 << 40))
    assert grid.shape == (10, 10)
    assert all(cut % LINE_STEP == 0 for cut in grid.tile_rows[:-1])
    assert all(cut % 1536 == 0 for cut in grid.tile_cols[:-1])


def test_tiles_are_small_where_some_are_swept_again_for_each_alignment(tmp_path):
    devices = Resources([CpuBackend(1)], 1 << 40)
    one, several = (plan(Request(10**6, 10**6, top=top), devices) for top in (1, 10))
    assert one.shape[0] < several.shape[0] == several.shape[1] == 16
    little = plan(Request(10**6, 10**6, store_path=tmp_path, top=10), replace(devices, store_budget=40 << 20))
    assert little.shape[0] < 16


def test_chunks_of_a_pruned_run_are_small_unless_its_lattice_has_little_room(tmp_path):
    """If there is not even room for the edges of small tiles, these are larger, and at last there is none."""
    request = Request(20_000_000, 20_000_000, store_path=tmp_path, share=0.005)
    devices = Resources([CpuBackend(1)], 1 << 40)
    grids = [
        plan(request, replace(devices, store_budget=budget))
        for budget in (1 << 40, 1000 << 20, 450 << 20, 150 << 20)
    ]
    chunks = [max(stop - start for start, stop in pairwise(grid.row_cuts)) for grid in grids]
    tiles = [max(stop - start for start, stop in pairwise(grid.tile_rows)) for grid in grids]
    assert chunks[0] <= (1 << 15) + LINE_STEP < chunks[1] < chunks[2] == tiles[0] == tiles[1] == tiles[2]
    assert tiles[3] > tiles[2]
    with pytest.raises(UsageError, match="--store-budget 1M is too small"):
        plan(request, replace(devices, store_budget=1 << 20))


@given(st.integers(10**5, 10**7), st.floats(0.0001, 0.999), memories)
def test_small_tiles_in_memory_fit_with_their_wide_steps(length, share, memory):
    """Besides two narrow differences, a pruned run in memory keeps at worst 12 bytes of each sixteenth."""
    request, using = Request(length, length, share=share), Resources([CpuBackend(1)], memory)
    try:
        grid = plan(request, using)
    except UsageError:
        assume(False)
    kept = request.kept_share * grid.stored_cells
    assert 48 * 2 * length + 2 * (1 + 12 / 16) * kept <= memory


@pytest.mark.parametrize("share", [0.001, 0.2, 0.9])
def test_wide_steps_of_a_pruned_run_in_memory_are_planned_for(share):
    """Of its lattice and of each tile that is being swept."""
    cpu = CpuBackend(1)
    pruned, plain = (Request(10**6, 10**6, share=part) for part in (share, 1.0))
    grid = plan(pruned, Resources([cpu], 1 << 40))
    assert kept_bytes(grid, pruned) >= 2 * (1 + 12 / 16) * pruned.kept_share * grid.stored_cells
    wide = tile_bytes(grid, pruned, cpu.line_bytes) - tile_bytes(grid, plain, cpu.line_bytes)
    assert wide >= 2 * 12 / 16 * boundary_cells_per_tile(grid, LOCAL)


def test_long_sequences_have_small_tiles_on_a_gpu_as_well():
    devices = Resources([SmallTiles((10**9, 10**9))], 1 << 42)
    devices.backends[0].min_chunk = 49_152
    for length, largest in ((20_000_000, 1_000_000), (400_000_000, 1_060_000)):
        grid = plan(Request(length, length, share=0.001), devices)
        assert 900_000 < max(stop - start for start, stop in pairwise(grid.tile_rows)) <= largest


@pytest.mark.parametrize(
    ("rows", "cols", "bound", "tiles", "chunk"),
    [
        (2_900_000, 2_900_000, 2_000_000, (1, 1), 50_000), (3_000_000, 3_000_000, 2_000_000, (4, 4), 50_000),
        (500_000, 2_900_000, 400_000, (1, 1), 50_000), (500_000, 4_000_000, 400_000, (1, 5), 50_000),
        (20_000_000, 20_000_000, 19_800_000, (21, 21), 400_000),
        (20_000_000, 20_000_000, 19_799_999, (21, 21), 50_000),
    ],
)  # fmt: skip
def test_small_tiles_of_a_gpu_are_many_and_have_long_chunks_where_sequences_are_nearly_equal(
    rows, cols, bound, tiles, chunk
):
    device = SmallTiles((10**9, 10**9))
    device.min_chunk, device.line_bytes = 49_152, 3
    grid = plan(Request(rows, cols, share=0.0005, bound=bound), Resources([device], 1 << 42))
    assert grid.shape == tiles
    sides = [stop - start for start, stop in pairwise(grid.col_cuts)]
    assert 0.7 * chunk < max(sides) <= chunk


def test_one_tile_of_a_pruned_run_is_as_low_as_checkpoints_need_it(tmp_path):
    device = SmallTiles((10**9, 10**9))
    device.min_chunk, device.line_bytes, device.tile_overhead = 49_152, 3, 0.0
    request = Request(2_000_000, 2_000_000, store_path=tmp_path, share=0.005)
    assert plan(request, Resources([device], 1 << 42)).shape[0] > 1


def test_devices_that_share_a_small_matrix_have_checkpoints_as_well(tmp_path):
    class Halves(SmallTiles):
        def tile_shape(self, rows, cols, devices=1):
            return rows, -(-cols // devices)

    devices = [Halves((1, 1)) for _ in range(2)]
    for device in devices:
        device.min_chunk, device.line_bytes, device.tile_overhead = 49_152, 3, 0.0
    request = Request(2_000_000, 2_000_000, store_path=tmp_path, share=0.005)
    rows, cols = plan(request, Resources(devices, 1 << 42)).shape
    assert rows > cols == 2


def test_chunks_of_a_pruned_run_fit_in_memory_whatever_the_store_budget():
    request = Request(20_000_000, 20_000_000, share=0.005)
    devices = Resources([CpuBackend(1)], 4 << 30)
    grid = plan(request, replace(devices, store_budget=1 << 40))
    assert kept_bytes(grid, request) <= 4 << 30


def test_chunks_in_plentiful_memory_are_half_as_wide(tmp_path):
    def width(memory=1 << 40, **options):
        grid = plan(Request(600_000, 600_000, **options), Resources([LikeGpu(1)], memory))
        return max(stop - start for start, stop in pairwise(grid.col_cuts))

    assert 49_152 // 2 <= width() < 1.1 * 49_152 // 2
    assert min(width(4 << 30), width(store_path=tmp_path), width(start_states="eager")) >= 49_152


@pytest.mark.parametrize("memory", [60 << 30, 80 << 30, 90 << 30, 110 << 30, 150 << 30, 180 << 30])
def test_the_lattice_of_a_narrow_band_is_as_fine_as_plentiful_memory_allows(memory):
    """Chunks grow in proportion to what is missing, so few grids are tried."""
    request, devices = Request(200_000_000, 200_000_000, share=0.02), Resources([LikeGpu(1)], memory)
    with mock.patch.object(planner, "plan_grid", side_effect=planner.plan_grid) as cut:
        grid = plan(request, devices)
    room = 3 * lattice_room(request, devices)  # three quarters of what is free
    assert 0.8 * room < kept_bytes(grid, request) <= room
    assert cut.call_count <= 5


@pytest.mark.parametrize(
    ("rows", "cols", "share", "memory"),
    [(3_356_996, 1_376_811, 0.0012, 1_042_854_395), (1_601_615, 3_065_076, 0.0031, 1_039_600_611)],
)
def test_a_finer_lattice_does_not_make_tiles_too_large_for_memory(rows, cols, share, memory):
    """The lattice would have room, but not a tile with all of its lines."""
    notices = []
    grid = plan(Request(rows, cols, share=share), Resources([LikeGpu(1)], memory), notices.append)
    assert notices == []  # nor is the whole lattice made coarser for that
    assert kept_bytes(grid, Request(rows, cols, share=share)) < memory


@given(
    st.integers(10**5, 10**8), st.floats(0.3, 3), st.floats(0.0001, 0.3), st.sampled_from([1, 2]),
    st.floats(1.003, 40), st.sampled_from([CpuBackend(1), LikeGpu(1)]),
)  # fmt: skip
def test_a_narrow_band_never_needs_more_memory_for_a_finer_lattice(
    rows, ratio, share, strands, memory, backend
):
    cols = min(10**8, int(rows * ratio))
    request = Request(rows, cols, share=share, strands=strands)
    least = fixed_bytes(rows + cols, [backend], True, strands)
    resources = Resources([backend], int(least * memory))
    with mock.patch.object(planner, "_MORE_IN_MEMORY", 1):
        try:
            usual = plan(request, resources)
        except UsageError:
            assume(False)
    finer = plan(request, resources)
    assert finer.tile_rows == usual.tile_rows
    assert finer.stored_cells >= usual.stored_cells
    if not isinstance(backend, CpuBackend):  # which sweeps one tile at a time
        fewest = min(6, tiles_in_memory(usual, request, resources))
        assert tiles_in_memory(finer, request, resources) >= fewest


def test_a_pruned_run_without_memory_for_its_letters_is_told_the_least_that_may_do():
    request, resources = Request(24_000_000, 24_000_000), Resources([CpuBackend(2)], 1 << 30)
    with pytest.raises(UsageError) as refused:
        check_letters(request, resources, prunes=True)
    found = re.search(
        r"about (\S+) of memory, or (\S+) if nearly all cells can be left out", str(refused.value)
    )
    needed, least = map(parse_size, found.groups())
    check_letters(request, replace(resources, memory=least), prunes=True)
    plan(replace(request, share=0.001), replace(resources, memory=least))
    plan(request, replace(resources, memory=needed))
    with pytest.raises(UsageError, match="need about"):
        plan(request, replace(resources, memory=least))
    with pytest.raises(UsageError, match=r"need about \S+ of memory, and the budget is"):
        check_letters(request, resources, prunes=False)


@pytest.mark.parametrize(("command", "bytes_a_letter"), [("score", 60), ("align", 300)])
def test_memory_grows_in_proportion_to_the_lengths(command, bytes_a_letter):
    for length in (3 * 10**7, 10**8):
        request = Request(length, length, command=command)
        resources = Resources([CpuBackend(2)], bytes_a_letter * 2 * length + (1 << 31))
        grid = plan(request, resources)
        assert kept_bytes(grid, request) <= (bytes_a_letter - 48) * 2 * length + (1 << 31)


@given(lengths, st.sampled_from([None, Path()]), memories)
def test_the_lattices_of_several_alignments_fit_in_memory(length, path, memory):
    """The one before and the one that is computed, and the first one unless it is in a store."""
    request = Request(length, length, store_path=path, top=10)
    try:
        grid = plan(request, Resources([CpuBackend(1)], memory))
    except UsageError:
        assume(False)
    assert (2 + (path is None)) * grid.stored_cells * request.cell_bytes <= memory


def test_a_lattice_is_coarser_if_memory_cannot_hold_those_after_the_first(monkeypatch):
    monkeypatch.setattr("longalign.run.grid_bytes.disk_usage", lambda _: SimpleNamespace(free=1 << 40))
    request, using = Request(10**7, 10**7, store_path=Path()), Resources([CpuBackend(1)], 3 << 30, 2 << 30)
    several = plan(replace(request, top=10), using).stored_cells * request.cell_bytes
    assert several < 1 << 30 < plan(request, using).stored_cells * request.cell_bytes


def test_tiles_are_small_where_several_alignments_are_looked_for():
    devices = Resources([SmallTiles((10**9, 10**9))], 1 << 42)
    for min_chunk, tiles in ((4096, 16), (49_152, 4)):
        devices.backends[0].min_chunk = min_chunk
        assert plan(Request(10**6, 10**6, top=10), devices).shape == (tiles, tiles)


@given(lengths, lengths)
def test_the_smallest_of_several_devices_decides_the_tile(rows, cols):
    devices = [SmallTiles((10**5, 10**8)), SmallTiles((10**8, 10**5))]
    grid = plan(Request(rows, cols, "score", None), Resources(devices, 1 << 40))
    first = grid.tile(0, 0)
    assert first.i1 <= 10**5 + 2 * LINE_STEP
    assert first.j1 <= 10**5 + 2 * LINE_STEP


def test_devices_that_share_a_matrix_have_a_column_of_tiles_each():
    """One device has two columns here. Their number is doubled until each device has one."""
    grids = [
        plan(Request(10**6, 10**6, "score", None), Resources([CpuBackend(2)] * count, 1 << 40))
        for count in (1, 2, 4)
    ]
    assert all(min(grid.shape) >= count for grid, count in zip(grids, (1, 2, 4), strict=True))
    assert all(size % 4 == 0 for size in grids[2].shape)


@pytest.mark.parametrize("command", ["align", "score"])
def test_tiles_are_few_where_there_is_no_room_for_the_edges_of_many(tmp_path, command, monkeypatch):
    """Limited by the user's budget for a lattice, or by the disk."""
    largest, shared = (10**6, 10**6), (10**5, 10**5)
    alone, all_of_them = (smallest_budget(10**6, 10**6, shape) for shape in (largest, shared))
    workers = Workers([DeviceFacts(largest, shared, 1, 40, 16, sys.maxsize, 64)] * 2, 16 << 30)

    def tiles(room):
        budget = room if command == "align" else None
        monkeypatch.setattr("longalign.run.planner.lattice_room", lambda *_: room)
        return plan(Request(10**6, 10**6, command, tmp_path, workers), resources(None, budget=budget)).shape

    assert tiles(all_of_them) == (10, 10)
    assert tiles(all_of_them - 1) == tiles(alone) == (1, 1)


def test_large_chunks_are_smaller_where_disk_and_memory_have_room(tmp_path, free):
    free(1 << 50)
    length, largest = 2 * 10**7, resources((10**7, 10**8), 64 << 30)

    def chunk(using, store, start_states="lazy", rows=length):
        return max(plan(Request(rows, length, "align", store, start_states=start_states), using).chunk_shape)

    coarse = chunk(largest, None)
    assert chunk(largest, tmp_path) == pytest.approx(coarse / 2, rel=0.05)
    assert chunk(largest, tmp_path, "eager") == pytest.approx(coarse, rel=0.05)
    assert chunk(replace(largest, memory=16 << 30), tmp_path) == pytest.approx(coarse, rel=0.05)
    assert chunk(largest, tmp_path, rows=10**5) == chunk(largest, None, rows=10**5) < 1 << 16


def test_workers_bring_their_own_memory(free):
    """This process then keeps only letters, and the smallest worker decides the size of a tile."""
    free(1 << 40)
    rows = cols = 10**7
    whole = DeviceFacts((rows, cols), (rows, cols), 1, 40, 16, sys.maxsize, 64)

    def tiles(memory):
        workers = Workers([whole] * 3, memory)
        grid = plan(Request(rows, cols, "align", Path("store"), workers), resources(None, 2 << 30, 4 << 30))
        assert memory_needed(grid, in_memory=False) <= memory + CALL_BYTES
        return grid.shape

    assert tiles(4 << 30) < tiles(2 << 30)
    with pytest.raises(
        UsageError, match=r"need about \S+ of memory on every worker, and one can spare 1000M"
    ):
        tiles(1000 * MB)


def test_a_resumed_run_on_smaller_workers_is_refused():
    grid = plan(Request(10**7, 10**7, "score", None), resources((10**7, 10**7), 1 << 40))
    needed = memory_needed(grid, in_memory=False) - CALL_BYTES + (512 << 20)
    one = DeviceFacts((1, 1), (1, 1), 1, 40, 16, sys.maxsize, 64)
    enough, too_little = (Workers([one], int(needed) + more) for more in (0, -1))
    check_memory(grid, Request(10**7, 10**7, "score", Path("store"), enough), resources((1, 1), 2 << 30))
    with pytest.raises(UsageError, match="on every worker"):
        check_memory(
            grid, Request(10**7, 10**7, "score", Path("store"), too_little), resources((1, 1), 2 << 30)
        )


def test_too_small_a_store_budget_names_the_smallest_and_that_one_works(tmp_path):
    tile = 10**5, 10**6
    smallest = smallest_budget(10**6, 10**6, tile)
    about = format_size(round_size(smallest))
    with pytest.raises(UsageError, match=f"1,000,000 letters: at least {about} are needed; phase 1 then"):
        plan(Request(10**6, 10**6, "align", tmp_path), resources(tile, budget=smallest - 1))
    grid = plan(Request(10**6, 10**6, "align", tmp_path), resources(tile, budget=smallest))
    assert grid.stored_cells * BYTES_PER_STORED_CELL <= smallest


@pytest.mark.parametrize("room", [5 * 10**6, 2 * 10**6])
def test_tiles_have_no_more_boundary_cells_than_a_device_has_room_for(room):
    rows = cols = 10**6
    devices = Workers([DeviceFacts((rows, cols), (rows, cols), 1, 40, 6, room, 64)], 64 << 30)
    grid = plan(Request(rows, cols, "align", Path("store"), devices), resources(None, budget=1 << 28))
    assert len(grid.tiles()) > 1
    for tile in grid.tiles():
        rows, cols = grid.kept_lines(tile, LOCAL)
        assert len(rows) * (tile.j1 - tile.j0) + len(cols) * (tile.i1 - tile.i0) <= room


@pytest.mark.parametrize("command", ["align", "score"])
def test_a_device_without_free_memory_is_refused(command):
    devices = Workers([DeviceFacts((1, 1), (1, 1), 1, 40, 6, 0, 64)], 64 << 30)
    with pytest.raises(BackendError, match="too little device memory"):
        plan(Request(20_000, 20_000, command, Path("store"), devices), resources(None))


def test_tiles_do_not_shrink_for_ever():
    devices = Workers(
        [DeviceFacts((10**5, 10**5), (10**5, 10**5), 1, 40, 1 << 40, sys.maxsize, 64)], 64 << 30
    )
    with pytest.raises(UsageError, match=r"the boundaries of a tile of \S+ x \S+ letters do not fit"):
        plan(Request(10**5, 10**5, "score", Path("store"), devices, mode=GLOBAL), resources(None))


def test_a_score_needs_no_store_budget():
    grid = plan(Request(10**6, 10**6, "score", None), resources((10**6, 10**6), budget=1))
    assert grid.row_cuts == grid.col_cuts == (0, 10**6)


def test_small_tiles_never_need_a_budget_that_was_not_set():
    grid = plan(Request(16_000, 16_000, "align", None), resources((64, 64)))
    assert grid.shape == (250, 250)


@pytest.mark.parametrize("memory", [1, 100 * MB])
def test_little_memory_is_refused_before_anything_is_cut(memory):
    with pytest.raises(UsageError, match=r"need about \S+ of memory, and the budget is"):
        plan(Request(10**8, 10**8, "score", None), resources((10**8, 10**8), memory))


def test_the_memory_that_a_refusal_asks_for_is_enough_for_the_same_grid():
    grid = plan(Request(10**7, 10**7, "score", None), resources((10**7, 10**7), 1 << 40))
    with pytest.raises(UsageError, match="letters need about") as caught:
        check_memory(grid, Request(10**7, 10**7), resources((1, 1), MB))
    asked_for = parse_size(str(caught.value).split("about ")[1].split()[0])
    check_memory(grid, Request(10**7, 10**7), resources((1, 1), asked_for))


def test_memory_that_would_do_without_the_boundaries_points_to_a_store(free):
    free(1 << 40)
    with pytest.raises(UsageError, match=r"the budget is 4G \(--mem\); with --store DIR, .* would do"):
        plan(Request(3 * 10**7, 3 * 10**7, "align", None), resources((10**7, 10**7), 4 << 30))


def test_memory_and_a_store_budget_that_are_too_small_are_named_at_once():
    """Otherwise, a user who gives the memory that a message names would be asked for more again."""
    request, using = Request(580_000, 580_000), resources((10**7, 10**7), 60 * MB, 2 * MB)
    both = r"need about (\S+) of memory.*; --store-budget \S+ is too small .*: at least (\S+) are needed"
    with pytest.raises(UsageError, match=both) as caught:
        plan(request, using)
    needed, least = map(parse_size, re.search(both, str(caught.value)).groups())
    assert plan(request, replace(using, memory=needed, store_budget=least))


@given(
    st.integers(1_000, 10**8),
    st.integers(1_000, 10**8),
    st.integers(20, 36),
    st.one_of(st.none(), st.integers(12, 44)),
    st.sampled_from([None, Path()]),
    st.sampled_from(["lazy", "eager"]),
)
@example(80_000, 80_000, 28, None, None, "lazy")
@example(10**6, 10**6, 29, 29, None, "lazy")
@example(1_040_959, 11_379_653, 28, 27, Path(), "eager")
def test_what_a_refusal_asks_for_is_enough_and_more_is_so_too(rows, cols, memory, budget, path, states):
    request = Request(rows, cols, store_path=path, start_states=states)
    using = resources((10**7, 10**7), 1 << memory, None if budget is None else 1 << budget)
    disk = SimpleNamespace(free=1 << 60)
    with mock.patch("longalign.run.grid_bytes.disk_usage", return_value=disk):
        try:
            plan(request, using)
        except UsageError as refused:
            asked = re.search(r"need about (\S+) of memory", str(refused))
            least = re.search(r"at least (\S+) are needed", str(refused))
            assert asked or least
            using = replace(
                using,
                memory=parse_size(asked[1]) if asked else using.memory,
                store_budget=parse_size(least[1]) if least else using.store_budget,
            )
        plan(request, using)
        plan(request, replace(using, memory=using.memory + (1 << 25)))
        if budget is not None:
            plan(request, replace(using, store_budget=3 * using.store_budget))


def test_a_coarser_lattice_for_lack_of_memory_is_mentioned():
    notices = []
    using = resources((10**7, 10**7), 3000 * MB, budget=5 << 30)
    grid = plan(Request(10**7, 10**7), using, notices.append)
    assert notices[0].text.startswith("memory is short (--mem), so fewer boundaries are kept: phases 2 ")
    finer = plan(Request(10**7, 10**7), replace(using, memory=16 << 30), notices.append)
    coarsest = plan(Request(10**7, 10**7), replace(using, store_budget=200 * MB), notices.append)
    assert finer.stored_cells > grid.stored_cells > 2 * coarsest.stored_cells
    assert len(notices) == 1


def test_a_disk_that_is_full_does_not_hide_what_memory_is_needed(free):
    free(1 << 20)
    with pytest.raises(UsageError, match=r"need about \S+ of memory, and the budget is 4G \(--mem\)$"):
        plan(Request(3 * 10**7, 3 * 10**7, "align", None), resources((10**7, 10**7), 4 << 30))


def test_tiles_may_be_many_where_that_is_not_for_want_of_memory(free):
    """Small tiles because of the devices, of their memory, or of the largest file."""
    free(1 << 50)
    size = 12_000_000, 21_000_000
    shape = plan(Request(*size, "align", Path("store")), resources((370_000, 370_000), 64 << 30)).shape
    assert prod(shape) > 1024
    for facts in (
        DeviceFacts((10**7, 10**7), (10**7, 10**7), 1, 40, 6, 10**7, 64),
        DeviceFacts((10**7, 10**7), (10**7, 10**7), 1, 40, 600, sys.maxsize, 64),
    ):
        workers = Workers([facts], 64 << 30)
        using = resources(None, 64 << 30, budget=1 << 40)
        assert prod(plan(Request(*size, "align", Path("store"), workers), using).shape) > 1


@pytest.mark.parametrize("size", [(16_569, 16_570), (1_044_459, 1_072_950), (10, 10**8)])
@pytest.mark.parametrize("store", [None, Path("store")])
@pytest.mark.parametrize("little", [1, 700 * MB])
def test_the_memory_that_a_refusal_names_is_enough(free, size, store, little):
    """It is also little more than necessary. Tiles stay large enough for the cost of their files."""
    free(1 << 50)

    def cut(memory):
        return plan(Request(*size, "align", store), resources((10**6, 10**6), memory))

    with pytest.raises(UsageError, match="of memory, and the budget is") as caught:
        cut(min(little, 280 * MB + 48 * sum(size)))
    named = parse_size(str(caught.value).split("about ")[1].split()[0])
    assert prod(cut(named).shape) <= max(prod(cut(1 << 50).shape), prod(size) >> 29)
    with pytest.raises(UsageError):
        cut(int(0.95 * named))


# --- disk


@pytest.mark.parametrize(
    ("command", "budget", "instead"),
    [
        ("align", 1 << 30, "begin a store with a smaller --store-budget, or on another disk"),
        ("score", None, "begin a store on another disk"),
    ],
)
def test_a_store_that_does_not_fit_on_its_disk_is_refused(tmp_path, free, command, budget, instead):
    using = resources((10**6, 10**6), budget=budget)
    grid = plan(Request(10**7, 10**7, command, tmp_path), using)
    needed = ceil(BYTES_PER_STORED_CELL * grid.stored_cells)
    free(needed)
    assert plan(Request(10**7, 10**7, command, tmp_path / "new" / "store"), using) == grid
    free(needed - 1)
    check_disk(grid, Request(10**7, 10**7, command, tmp_path), missing=0.99)
    with pytest.raises(UsageError, match=rf"new/store: the boundaries of 10,000,000 x .* {instead}"):
        plan(Request(10**7, 10**7, command, tmp_path / "new" / "store"), using)


def test_a_disk_with_too_little_space_for_a_useful_lattice_is_mentioned(tmp_path, free):
    def said(space, **request):
        free(space)
        events = []
        plan(Request(10**6, 10**6, store_path=tmp_path, **request), resources((10**6, 10**6)), events.append)
        return [event.text for event in events]

    assert said(1 << 40) == []
    assert said(20 * MB, command="score") == []
    [text] = said(20 * MB)
    assert text.startswith(
        f"{tmp_path}: little of the disk is free, so few boundaries are stored: phases 2 and"
    )


def test_memory_is_blamed_where_it_makes_tiles_too_small_for_the_disk(tmp_path, free):
    free(2 << 30)
    request = Request(2 * 10**7, 2 * 10**7, "align", tmp_path)
    roomy = plan(request, resources((10**7, 10**7), 64 << 30))
    assert len(roomy.tiles()) == 4
    with pytest.raises(UsageError, match=r"need about \S+ of memory, and the budget is 2\.5G \(--mem\)$"):
        plan(request, resources((10**7, 10**7), 5 << 29))


def test_a_small_pair_needs_little_memory_and_a_score_less(tmp_path):
    def needed(length, command):
        with pytest.raises(UsageError, match="need about") as caught:
            plan(Request(length, length, command), resources((10**9, 10**9), 1 << 20))
        return parse_size(str(caught.value).split("need about ")[1].split()[0])

    assert needed(16_500, "align") < 400 * MB
    assert needed(588_000, "score") < 400 * MB
    assert needed(16_500, "score") < needed(16_500, "align")


def test_no_room_on_the_disk_for_any_lattice_is_refused(tmp_path, free):
    free(100 * MB)
    with pytest.raises(
        DiskTooSmall, match=r"letters take at least 477M, and there is room for 80M: make room"
    ):
        plan(Request(10**7, 10**7, "align", tmp_path), resources((10**6, 10**6)))


# --- the cost of budgets


def test_the_smallest_budget_that_is_named_works_even_where_tiles_must_shrink(monkeypatch):
    """The boundaries of a tile as wide as the DP matrix are too large to be returned at once."""
    monkeypatch.setattr("longalign.run.planner._MAX_TILE_BYTES", 1 << 30)
    using = resources((10**8, 10**8), 1 << 40, budget=1)
    with pytest.raises(UsageError, match="is too small for 100,000,000 x 100,000,000") as caught:
        plan(Request(10**8, 10**8, "align", None), using)
    named = parse_size(str(caught.value).split("at least ")[1].split()[0])
    grid = plan(Request(10**8, 10**8, "align", None), replace(using, store_budget=named))
    assert named > smallest_budget(10**8, 10**8, (10**8, 10**8))
    assert grid.stored_cells * BYTES_PER_STORED_CELL <= named


@given(lengths, lengths, tiles)
def test_example_budgets_work_and_the_larger_they_are_the_less_there_is_to_do(rows, cols, tile):
    using = resources(tile, 1 << 50)
    budgets = store_budgets(Request(rows, cols), using)
    sizes, shares = [budget.size for budget in budgets], [budget.cost.share for budget in budgets]
    assert sizes == sorted(set(sizes))
    assert shares == sorted(shares, reverse=True)
    assert len(sizes) <= 3
    assert [budget.is_default for budget in budgets] == [False] * (len(budgets) - 1) + [True]
    for budget in budgets:
        grid = plan(Request(rows, cols, "align", None), replace(using, store_budget=budget.size))
        assert budget.is_default or path_share(grid) == budget.cost.share


class Timed(SmallTiles):
    """Sweeps 10^9 cells a second, and records the requested sizes."""

    def __init__(self, shape):
        super().__init__(shape)
        self.asked = set()

    def tile_shape(self, rows, cols, devices=1):
        return self.shape[0] // devices, self.shape[1] // devices

    def sweep_seconds(self, rows, cols, scoring, local):
        self.asked.add((scoring, local))
        return rows * cols * 1e-9


def test_a_refused_budget_is_told_how_long_others_take():
    """With several devices, a budget for the edges of few tiles leaves some devices idle in phase 1."""

    def refusal(shape, devices):
        with pytest.raises(UsageError, match="is too small") as caught:
            plan(Request(10**6, 10**6, "align", None), Resources([Timed(shape)] * devices, 1 << 40, 1))
        return str(caught.value).partition(": ")[2]

    assert refusal((10**5, 10**5), 1) == (
        "at least 48M are needed; phase 1 then takes about 20 min, phases 2 and 3 another 4 min; "
        "with 136M 100 s; with 382M (the default) 30 s"
    )
    assert refusal((10**6, 10**6), 4) == (
        "at least 4.8M are needed; phase 1 then takes about 20 min, phases 2 and 3 another 40 min; "
        "with 43M 7 min and 5 min; with 382M (the default) 7 min and 30 s"
    )


def test_a_refused_run_on_workers_is_told_what_only_this_process_does():
    shape = (10**5, 10**5)
    workers = Workers([DeviceFacts(shape, shape, 1, 40, 16, sys.maxsize, 64)] * 2, 16 << 30)
    with pytest.raises(UsageError, match="needed; phases 2 and 3 then take about 4 min; with 136M 100 s;"):
        plan(Request(10**6, 10**6, "align", None, workers), Resources([Timed(shape)], 1 << 40, 1))


def test_how_long_eager_start_states_take_in_phase_1_is_not_known():
    using = Resources([Timed((10**5, 10**5))], 1 << 40)
    budgets = store_budgets(Request(10**6, 10**6, start_states="eager"), using)
    assert {budget.cost.phase_1 for budget in budgets} == {None}


@pytest.mark.parametrize("mode", [LOCAL, GLOBAL, SEMIGLOBAL, EXTEND])
def test_what_a_run_sweeps_decides_how_long_it_takes(mode, tmp_path):
    query, target = (Sequence.from_letters(name, "ACGT" * 100) for name in ("query", "target"))
    scoring = Scoring(match=2)
    for store in (None, tmp_path / "store"):
        device = Timed((400, 400))
        with pytest.raises(UsageError, match="phase 1 then takes about 1 ms"):
            pipeline.run(RunSpec(query, target, scoring, mode, store=store), Resources([device], 1 << 40, 1))
        assert device.asked == {(scoring, mode.starts_anywhere), (scoring, False)}


def test_the_time_of_phase_1_grows_with_cells_and_shrinks_with_devices():
    def cost(length, devices=1):
        side = length * devices // 40
        using = Resources([Timed((side, side))] * devices, 1 << 40)
        return speed_model_of(Request(1, 1), using).cost(plan(Request(length, length, "align", None), using))

    alone = cost(10**6)
    assert alone.phase_1 == pytest.approx(10**3, rel=0.01)
    assert cost(10**7).phase_1 == pytest.approx(100 * alone.phase_1, rel=0.01)
    assert cost(10**6, 4).phase_1 == pytest.approx(alone.phase_1 / 4, rel=0.05)
    assert cost(10**6, 4).path == alone.path == pytest.approx(alone.share * alone.phase_1, rel=0.1)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "1 ms"), (0.04, "40 ms"), (0.44, "0.4 s"), (5.6, "6 s"), (112, "100 s"), (125, "2 min"),
        (5_000, "80 min"), (10_000, "3 h"), (172_000, "50 h"), (10**6, "10 days"), (10**9, "10,000 days"),
    ],
)  # fmt: skip
def test_times_are_rough(seconds, words):
    assert format_seconds(seconds) == words


@pytest.mark.parametrize(
    ("grid", "share"),
    [
        (Grid((0, 9), (0, 9), (0, 9), (0, 9)), 1 + 4 / 3),
        (Grid((0, 4, 8), (0, 4, 8), (0, 8), (0, 8)), (2 + 8 / 3) / 4),
        (Grid((0, 9), (0, 3, 6, 9), (0, 9), (0, 9)), (2 + 2 * 8 / 9) / 3),
    ],
    ids=["1 x 1", "2 x 2", "1 x 3"],
)
def test_what_a_path_costs(grid, share):
    assert path_share(grid) == pytest.approx(share)
    rows, cols = len(grid.row_cuts) - 1, len(grid.col_cuts) - 1
    assert path_share(grid, eager=True) == pytest.approx(share - (rows + cols) / 2 / (rows * cols))


@pytest.mark.parametrize("mode", [LOCAL, GLOBAL, SEMIGLOBAL])
@pytest.mark.parametrize("chunk", [20_000, 5_000, 1_200, 300])
def test_phases_2_and_3_sweep_about_as_much_as_was_said(mode, chunk, monkeypatch):
    """As much as if no part of the path were known to be a diagonal, where nothing is swept."""
    monkeypatch.setattr("longalign.phases.recompute.is_straight", lambda *_: False)
    monkeypatch.setattr("longalign.phases.stitch.straight_back", lambda *_: None)
    pair = [
        read_sequence(DATA / f"{name}.fa.gz") for name in ("human_mito.NC_012920.1", "orang_mito.NC_002083")
    ]
    using = Resources([CPU], 1 << 40, 1 << 30)
    with small_geometry(chunk):
        grid = plan(Request(pair[0].length, pair[1].length, "align", None), using)
        outcome = pipeline.run(RunSpec(*pair, Scoring(), mode, prune="off"), using)
    cells = {phase.name: phase.cells for phase in outcome.phases}
    share = (cells["stitch"] + cells["recompute"]) / cells["score"]
    assert 1 / 2 < share / path_share(grid) < 2


@pytest.mark.parametrize("memory", [4 << 30, 1 << 40])
def test_tiles_shrink_until_their_boundaries_fit_in_memory(memory):
    rows = cols = 10**7
    asked = Request(rows, cols, "align", None, mode=GLOBAL)
    grid = plan(asked, resources((rows, cols), memory, budget=1 << 30))
    assert len(grid.tile_rows) > 2
    assert memory_needed(grid, in_memory=False) < memory


@pytest.mark.parametrize("store", [False, True])
def test_scorings_whose_values_differ_more_take_more_memory_and_disk(tmp_path, store):
    usual, steep, large = Scoring(), Scoring(50, -40, 60, 30), Scoring(50_000, -40_000, 60_000, 30_000)
    assert [scoring.difference_bytes for scoring in (usual, steep, large)] == [1, 2, 4]
    path = tmp_path / "s" if store else None
    cells = [
        plan(
            Request(10**6, 10**6, "align", path, scoring=scoring),
            Resources([CpuBackend(1)], 1 << 32, 1 << 30),
        ).stored_cells
        for scoring in (usual, steep, large)
    ]
    for width, count in zip((1, 2, 4), cells, strict=True):
        assert (1 << 30) * 0.85 < count * width * BYTES_PER_STORED_CELL <= 1 << 30


def test_a_store_that_is_gone_on_with_needs_what_its_scoring_takes(tmp_path, free):
    grid = plan(Request(10**6, 10**6, "align", None), Resources([CpuBackend(1)], 1 << 32, 1 << 28))
    free(ceil(BYTES_PER_STORED_CELL * grid.stored_cells))
    check_disk(grid, Request(10**6, 10**6, "align", tmp_path))
    with pytest.raises(UsageError, match="of the disk are free"):
        check_disk(grid, Request(10**6, 10**6, "align", tmp_path, scoring=Scoring(50, -40, 60, 30)))


class Steady(SmallTiles):
    """Sweeps 10^10 cells a second, in any tile, and takes 10 ms more for each."""

    def __init__(self):
        super().__init__((sys.maxsize, sys.maxsize))
        self.tile_overhead = 0.01

    def tile_shape(self, rows, cols, devices=1):
        return rows, cols

    def sweep_seconds(self, rows, cols, scoring, local):
        return rows * cols * (1e-10 if scoring.matrix is None else 1e-9)


def tiles_of(store, side=500_000, budget=None, **request):
    using = Resources([Steady()], 64 << 30, budget)
    return len(plan(Request(side, side, "align", store, **request), using).tiles())


def test_with_a_store_tiles_are_so_small_that_a_stop_costs_little(tmp_path):
    assert tiles_of(None) == 1
    seconds = 25.0
    assert 5.0 <= seconds / tiles_of(tmp_path) < 6.3
    assert tiles_of(tmp_path, 20_000) == 1  # which takes 40 ms
    matrix = SubstitutionMatrix("two", "AC", ((1, -1), (-1, 1)))
    slow = Scoring(matrix=matrix, gap_open=1, gap_extend=1)
    assert tiles_of(tmp_path, scoring=slow) > tiles_of(tmp_path)
    assert tiles_of(tmp_path, start_states="eager") > tiles_of(tmp_path)


def test_checkpoints_are_given_up_for_a_small_store_budget(tmp_path):
    edges = smallest_budget(500_000, 500_000, (500_000, 500_000))
    assert tiles_of(tmp_path, budget=edges) == 1
