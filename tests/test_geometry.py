"""Cuts, grids and budgets: integer arithmetic that everything else trusts."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longalign.errors import UsageError
from longalign.geometry import (
    BYTES_PER_STORED_CELL,
    SMALLEST_CHUNK,
    Grid,
    even_cuts,
    owner,
    plan_grid,
    smallest_budget,
    thin,
)

lengths = st.one_of(st.integers(1, 40), st.integers(1, 10**6))
cuts = st.sets(st.integers(1, 200), min_size=1, max_size=12).map(lambda chosen: (0, *sorted(chosen)))


def parts(cuts: tuple[int, ...]) -> list[int]:
    return [stop - start for start, stop in pairwise(cuts)]


def stored_bytes(grid: Grid) -> float:
    """Every cell of every lattice row and column but the first, which is given."""
    rows, cols = len(grid.row_cuts) - 1, len(grid.col_cuts) - 1
    return (rows * grid.cols + cols * grid.rows) * BYTES_PER_STORED_CELL


@given(lengths, st.integers(1, 10**6))
def test_even_cuts_cover_a_length_in_the_fewest_equal_parts(length, largest):
    if length / largest > 10_000:
        largest = length
    cuts = even_cuts(length, largest)
    assert cuts[0] == 0
    assert cuts[-1] == length
    assert 1 <= min(parts(cuts)) <= max(parts(cuts)) <= min(largest, min(parts(cuts)) + 1)
    assert (len(cuts) - 2) * largest < length


@given(cuts, st.integers(1, 250))
def test_thin_keeps_no_part_larger_and_no_cut_that_it_could_drop(cuts, largest):
    kept = thin(cuts, largest)
    assert set(kept) <= set(cuts)
    assert (kept[0], kept[-1]) == (cuts[0], cuts[-1])
    assert all(part <= largest or part in parts(cuts) for part in parts(kept))
    assert all(after - before > largest for before, after in zip(kept, kept[2:], strict=False))


@given(cuts, st.data())
def test_the_owner_of_an_index_is_the_interval_that_ends_at_or_after_it(cuts, data):
    index = data.draw(st.integers(1, cuts[-1]))
    k = owner(cuts, index)
    assert cuts[k] < index <= cuts[k + 1]


@given(cuts, cuts, st.integers(1, 250), st.integers(1, 250))
def test_tiles_hold_every_cell_and_every_lattice_line_once(row_cuts, col_cuts, height, width):
    grid = Grid(row_cuts, col_cuts, thin(row_cuts, height), thin(col_cuts, width))
    tiles = grid.tiles()
    assert sum(tile.cells for tile in tiles) == grid.rows * grid.cols
    for tile in tiles:
        assert grid.tile_owning(tile.i0 + 1, tile.j0 + 1) == tile == grid.tile_owning(tile.i1, tile.j1)
        assert grid.rows_in(tile)[-1] == tile.i1 - tile.i0
        assert grid.cols_in(tile)[-1] == tile.j1 - tile.j0
    first_column = [tile for tile in tiles if tile.col == 0]
    lattice_rows = [tile.i0 + row for tile in first_column for row in grid.rows_in(tile)]
    assert lattice_rows == list(row_cuts[1:])


tile_shapes = st.tuples(st.integers(500, 10**6), st.integers(500, 10**6))


@given(lengths, lengths, tile_shapes, st.integers(0, 10**9))
@example(rows=30_000, cols=30_000, shape=(10_000, 15_000), extra=0)
def test_a_plan_stays_inside_the_smallest_budget_that_works_and_any_larger_one(rows, cols, shape, extra):
    budget = smallest_budget(rows, cols, shape) + extra
    grid = plan_grid(rows, cols, shape, budget)
    assert (grid.rows, grid.cols) == (rows, cols)
    assert stored_bytes(grid) <= budget
    assert max(parts(grid.tile_rows)) <= shape[0]
    assert max(parts(grid.tile_cols)) <= shape[1]
    assert set(grid.tile_rows) <= set(grid.row_cuts)
    assert set(grid.tile_cols) <= set(grid.col_cuts)


@given(lengths, lengths, tile_shapes)
def test_too_small_a_budget_is_refused_with_the_smallest_that_works(rows, cols, shape):
    smallest = smallest_budget(rows, cols, shape)
    with pytest.raises(UsageError) as caught:
        plan_grid(rows, cols, shape, smallest - 1)
    assert f"at least {smallest} bytes are needed" in str(caught.value)


def test_a_larger_budget_makes_a_finer_lattice_down_to_the_smallest_chunk():
    grids = [plan_grid(10**6, 10**6, (10**6, 10**6), budget << 20) for budget in (10, 40, 160, 10**6)]
    lines = [len(grid.row_cuts) for grid in grids]
    assert lines == sorted(set(lines))
    assert max(parts(grids[-1].row_cuts)) <= SMALLEST_CHUNK


@given(lengths, lengths, tile_shapes)
def test_without_a_budget_only_the_edges_of_tiles_are_stored(rows, cols, shape):
    grid = plan_grid(rows, cols, shape, None)
    assert (grid.row_cuts, grid.col_cuts) == (grid.tile_rows, grid.tile_cols)
    assert stored_bytes(grid) <= smallest_budget(rows, cols, shape)
