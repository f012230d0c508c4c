"""The plan: memory and disk stay inside their budgets, or the run is refused before it begins."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from runs import SmallTiles

from longalign.backends.base import DeviceFacts, Workers
from longalign.backends.cpu import CpuBackend
from longalign.errors import UsageError
from longalign.geometry import BYTES_PER_CELL, BYTES_PER_STORED_CELL, smallest_budget
from longalign.phases.meeting import CALL_BYTES
from longalign.plan import Resources, check_memory, plan

MB = 1 << 20
lengths = st.one_of(st.integers(1, 10**4), st.integers(1, 10**8))
commands = st.sampled_from(["align", "score"])
memories = st.integers(700 * MB, 1 << 40)
tiles = st.tuples(st.integers(10**5, 10**8), st.integers(10**5, 10**8))


def resources(tile, memory=16 << 30, budget=None):
    return Resources([SmallTiles(tile)], memory, budget)


def memory_needed(grid, in_memory):
    """Letters, edges and codes; two tiles' boundaries; phase 3's lattices; phase 1's, where kept."""
    tile_bytes = BYTES_PER_CELL * max(
        len(grid.rows_in(tile)) * (tile.j1 - tile.j0) + len(grid.cols_in(tile)) * (tile.i1 - tile.i0)
        for tile in (grid.tile(0, 0), grid.tile(grid.shape[0] - 1, grid.shape[1] - 1))
    )
    kept = grid.stored_cells * BYTES_PER_STORED_CELL if in_memory else 0
    return 48 * (grid.rows + grid.cols) + CALL_BYTES + 2 * tile_bytes + kept


@given(lengths, lengths, tiles, memories, commands, st.booleans())
def test_a_plan_that_is_not_refused_fits_in_memory(
    tmp_path_factory, rows, cols, tile, memory, command, stored
):
    store = tmp_path_factory.getbasetemp() if stored else None
    try:
        grid = plan(rows, cols, resources(tile, memory), command, store)
    except UsageError:
        assume(False)
    assert (grid.rows, grid.cols) == (rows, cols)
    assert memory_needed(grid, in_memory=not stored) <= memory
    assert max(stop - start for start, stop in pairwise(grid.tile_rows)) <= tile[0]
    assert max(stop - start for start, stop in pairwise(grid.tile_cols)) <= tile[1]


@given(lengths, lengths)
def test_the_smallest_of_several_devices_decides_the_tile(rows, cols):
    devices = [SmallTiles((10**5, 10**8)), SmallTiles((10**8, 10**5))]
    grid = plan(rows, cols, Resources(devices, 1 << 40), "score", None)
    first = grid.tile(0, 0)
    assert first.i1 <= 10**5
    assert first.j1 <= 10**5


def test_devices_that_share_a_matrix_have_a_column_of_tiles_each():
    grids = [
        plan(10**6, 10**6, Resources([CpuBackend(1)] * count, 1 << 40), "score", None) for count in (1, 2, 4)
    ]
    assert all(min(grid.shape) >= count for grid, count in zip(grids, (1, 2, 4), strict=True))
    assert all(size % 4 == 0 for size in grids[2].shape)


@pytest.mark.parametrize("command", ["align", "score"])
def test_tiles_are_few_where_there_is_no_room_for_the_edges_of_many(tmp_path, command, monkeypatch):
    """The user's budget for a lattice, or the disk."""
    largest, shared = (10**6, 10**6), (10**5, 10**5)
    alone, all_of_them = (smallest_budget(10**6, 10**6, shape) for shape in (largest, shared))
    workers = Workers([DeviceFacts(largest, shared, 1, 16, sys.maxsize)] * 2, 16 << 30)

    def tiles(room):
        budget = room if command == "align" else None
        monkeypatch.setattr("longalign.plan._room", lambda *_: room)
        return plan(10**6, 10**6, resources(None, budget=budget), command, tmp_path, workers).shape

    assert tiles(all_of_them) == (10, 10)
    assert tiles(all_of_them - 1) == tiles(alone) == (1, 1)


def test_workers_bring_their_own_memory():
    """This process then keeps nothing but letters, and the least worker decides how large a tile is."""
    rows = cols = 10**7
    whole = DeviceFacts((rows, cols), (rows, cols), 1, 16, sys.maxsize)

    def tiles(memory):
        workers = Workers([whole] * 3, memory)
        grid = plan(rows, cols, resources(None, 2 << 30, 4 << 30), "align", Path("store"), workers)
        assert memory_needed(grid, in_memory=False) <= memory + CALL_BYTES
        return grid.shape

    assert tiles(4 << 30) < tiles(2 << 30)
    with pytest.raises(
        UsageError, match=r"need about \d+ MiB of memory on every worker, and one can spare 1000 MiB"
    ):
        tiles(1000 * MB)


def test_a_resumed_run_on_smaller_workers_is_refused():
    grid = plan(10**7, 10**7, resources((10**7, 10**7), 1 << 40), "score", None)
    needed = memory_needed(grid, in_memory=False) - CALL_BYTES + (400 << 20)
    one = DeviceFacts((1, 1), (1, 1), 1, 16, sys.maxsize)
    enough, too_little = (Workers([one], int(needed) + more) for more in (0, -1))
    check_memory(grid, resources((1, 1), 2 << 30), False, enough)
    with pytest.raises(UsageError, match="on every worker"):
        check_memory(grid, resources((1, 1), 2 << 30), False, too_little)


def test_too_small_a_store_budget_names_the_smallest_and_that_one_works(tmp_path):
    shape = (10**5, 10**6), 10**6
    smallest = smallest_budget(10**6, 10**6, shape[0])
    with pytest.raises(UsageError, match=f"at least {smallest} bytes are needed"):
        plan(10**6, 10**6, resources(shape[0], budget=smallest - 1), "align", tmp_path)
    grid = plan(10**6, 10**6, resources(shape[0], budget=smallest), "align", tmp_path)
    assert grid.stored_cells * BYTES_PER_STORED_CELL <= smallest


def test_a_score_needs_no_store_budget():
    grid = plan(10**6, 10**6, resources((10**6, 10**6), budget=1), "score", None)
    assert grid.row_cuts == grid.col_cuts == (0, 10**6)


def test_small_tiles_never_need_a_budget_that_nobody_set():
    grid = plan(16_000, 16_000, resources((64, 64)), "align", None)
    assert grid.shape == (250, 250)


@pytest.mark.parametrize("memory", [1, 100 * MB])
def test_little_memory_is_refused_before_anything_is_cut(memory):
    with pytest.raises(UsageError, match=r"need about \d+ MiB of memory, and the budget is"):
        plan(10**8, 10**8, resources((10**8, 10**8), memory), "score", None)


def test_the_memory_that_a_refusal_asks_for_is_enough_for_the_same_grid():
    grid = plan(10**7, 10**7, resources((10**7, 10**7), 1 << 40), "score", None)
    with pytest.raises(UsageError, match=r"need about (\d+) MiB") as caught:
        check_memory(grid, resources((1, 1), MB), in_memory=True)
    asked_for = int(str(caught.value).split("about ")[1].split()[0])
    check_memory(grid, resources((1, 1), asked_for * MB), in_memory=True)


@pytest.mark.parametrize("memory", [4 << 30, 1 << 40])
def test_tiles_shrink_until_their_boundaries_fit_in_memory(memory):
    rows = cols = 10**7
    grid = plan(rows, cols, resources((rows, cols), memory, budget=1 << 30), "align", None)
    assert len(grid.tile_rows) > 2
    assert memory_needed(grid, in_memory=False) < memory
