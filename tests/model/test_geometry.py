"""Cuts, grids and budgets, the integer arithmetic on which all other code relies."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longalign.errors import BudgetTooSmall
from longalign.model import geometry
from longalign.model.geometry import (
    BYTES_PER_STORED_CELL,
    LINE_STEP,
    SMALLEST_CHUNK,
    Grid,
    checkpoint_rows,
    enlarged_tile_side,
    line_steps,
    owning_interval,
    part_count,
    plan_grid,
    shared_tile_shape,
    smallest_budget,
    tile_rounds,
)
from longalign.model.mode import MODES
from longalign.phases.wavefront import Wavefront

lengths = st.one_of(st.integers(1, 40), st.integers(1, 10**6))
cuts = st.sets(st.integers(1, 200), min_size=1, max_size=12).map(lambda chosen: (0, *sorted(chosen)))


def sizes(cuts: tuple[int, ...]) -> list[int]:
    return [stop - start for start, stop in pairwise(cuts)]


def stored_bytes(grid: Grid) -> float:
    """All cells of all lattice rows and columns except the first ones, which are given."""
    rows, cols = len(grid.row_cuts) - 1, len(grid.col_cuts) - 1
    return (rows * grid.cols + cols * grid.rows) * BYTES_PER_STORED_CELL


@pytest.mark.parametrize(("rows", "cols"), [(0, 0), (0, 7), (7, 0)])
def test_a_matrix_without_cells_has_no_tiles(rows, cols):
    grid = Grid.without_cells(rows, cols)
    assert (grid.rows, grid.cols, grid.cells) == (rows, cols, 0)
    assert (grid.tiles(), grid.stored_cells, grid.chunk_shape) == ([], 0, (rows, cols))
    assert Wavefront(grid.shape).finished


@given(cuts, st.data())
def test_the_owner_of_an_index_is_the_interval_that_ends_at_or_after_it(cuts, data):
    index = data.draw(st.integers(1, cuts[-1]))
    k = owning_interval(cuts, index)
    assert cuts[k] < index <= cuts[k + 1]


@st.composite
def lattices(draw):
    """Lattice cuts, and the subset of them that are edges of tiles."""
    chosen = draw(cuts)
    return chosen, tuple(cut for cut in chosen if cut in (0, chosen[-1]) or draw(st.booleans()))


@given(lattices(), lattices(), st.sampled_from([*MODES.values()]))
def test_tiles_hold_every_cell_and_every_lattice_line_once(rows, cols, mode):
    row_cuts, col_cuts = rows[0], cols[0]
    grid = Grid(row_cuts, col_cuts, rows[1], cols[1])
    tiles = grid.tiles()
    assert sum(tile.cells for tile in tiles) == grid.rows * grid.cols
    for tile in tiles:
        assert grid.tile_owning(tile.i0 + 1, tile.j0 + 1) == tile == grid.tile_owning(tile.i1, tile.j1)
    kept = {(tile.row, tile.col): grid.kept_lines(tile, mode) for tile in tiles}
    lattice_rows = [tile.i0 + row for tile in tiles if tile.col == 0 for row in kept[tile.row, 0][0]]
    assert lattice_rows == [cut for cut in row_cuts[1:] if cut < grid.rows or mode.needs_last_row]
    lattice_cols = [tile.j0 + col for tile in tiles if tile.row == 0 for col in kept[0, tile.col][1]]
    assert lattice_cols == [cut for cut in col_cuts[1:] if cut < grid.cols or mode.needs_last_column]
    assert all(lines == (kept[row, 0][0], kept[0, col][1]) for (row, col), lines in kept.items())


sides = st.integers(1, 60)
tile_shapes = st.tuples(st.integers(500, 10**6), st.integers(500, 10**6))


@given(lengths, lengths, tile_shapes, st.integers(0, 10**9))
@example(rows=30_000, cols=30_000, shape=(10_000, 15_000), extra=0)
def test_a_plan_stays_inside_the_smallest_budget_that_works_and_any_larger_one(rows, cols, shape, extra):
    budget = smallest_budget(rows, cols, shape) + extra
    grid = plan_grid(rows, cols, shape, budget)
    assert (grid.rows, grid.cols) == (rows, cols)
    assert stored_bytes(grid) <= budget
    for cuts, largest in ((grid.tile_rows, shape[0]), (grid.tile_cols, shape[1])):
        assert max(sizes(cuts)) <= min(largest, 5 / 3 * min(sizes(cuts)) + 1)
    assert set(grid.tile_rows) <= set(grid.row_cuts)
    assert set(grid.tile_cols) <= set(grid.col_cuts)


@given(sides, sides, st.tuples(sides, sides), st.integers(1, 3), st.sampled_from([0, 1_000, 10**6]))
@example(rows=1, cols=28, shape=(1, 3), smallest=1, extra=10**6)
def test_no_chunk_is_empty_however_small_chunks_are(rows, cols, shape, smallest, extra):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(geometry, "SMALLEST_CHUNK", smallest)
        grid = plan_grid(rows, cols, shape, smallest_budget(rows, cols, shape) + extra)
    assert min(sizes(grid.row_cuts) + sizes(grid.col_cuts)) >= 1
    assert set(grid.tile_rows) <= set(grid.row_cuts)
    assert set(grid.tile_cols) <= set(grid.col_cuts)


@given(lengths, lengths, tile_shapes)
def test_too_small_a_budget_is_refused_with_the_smallest_that_works(rows, cols, shape):
    smallest = smallest_budget(rows, cols, shape)
    with pytest.raises(
        BudgetTooSmall, match=rf"--store-budget \S+ is too small for {rows:,} x {cols:,}"
    ) as caught:
        plan_grid(rows, cols, shape, smallest - 1)
    assert caught.value.needed == smallest


@pytest.mark.parametrize("budget", [1 << 26, 1 << 28, None])
def test_strips_end_at_lines_that_are_far_enough_apart(budget):
    grid = plan_grid(4_639_675, 5_498_450, (1_500_000, 5_498_450), budget, strip_width=1536)
    assert set(grid.tile_rows) <= set(grid.row_cuts)
    assert set(grid.tile_cols) <= set(grid.col_cuts)
    assert all(cut % LINE_STEP == 0 for cut in grid.row_cuts[:-1])
    assert all(cut % 1536 == 0 for cut in grid.col_cuts[:-1])


@given(st.integers(1, 10**8), st.integers(1, 40), st.sampled_from([LINE_STEP, 1536]))
def test_tiles_without_a_letter_to_spare_can_be_cut_where_lines_are_best(length, count, step):
    tile = -(-length // count)
    larger = enlarged_tile_side(length, tile, step)
    assert tile <= larger <= tile + 2 * step
    assert -(-length // larger) == -(-length // tile)
    if larger > tile:
        best = line_steps(length, count, step)[0]
        cuts = plan_grid(1, length, (1, larger), None, strip_width=step).tile_cols
        assert all(cut % best == 0 for cut in cuts[:-1])
    else:
        assert count == 1 or tile < 1000 * step


def test_lines_near_one_another_are_at_multiples_of_a_part():
    assert line_steps(100_000, 10, 1536) == [1536, LINE_STEP, 1]
    assert line_steps(100_000, 100, 1536) == [LINE_STEP, 1]
    assert line_steps(100, 10, 1536) == [1]


def test_a_larger_budget_makes_a_finer_lattice_down_to_the_smallest_chunk():
    grids = [plan_grid(10**6, 10**6, (10**6, 10**6), budget << 20) for budget in (10, 40, 160, 10**6)]
    lines = [len(grid.row_cuts) for grid in grids]
    assert lines == sorted(set(lines))
    assert max(sizes(grids[-1].row_cuts)) <= 5 / 4 * SMALLEST_CHUNK


@given(lengths, lengths, tile_shapes)
def test_without_a_budget_only_the_edges_of_tiles_are_stored(rows, cols, shape):
    grid = plan_grid(rows, cols, shape, None)
    assert (grid.row_cuts, grid.col_cuts) == (grid.tile_rows, grid.tile_cols)
    assert stored_bytes(grid) <= smallest_budget(rows, cols, shape)


# --- tiles for several devices


def rounds(tiles: tuple[int, int], devices: int) -> int:
    """The number of steps of a wavefront, one step a tile, if each device always takes the next tile."""
    wavefront, steps = Wavefront(tiles), 0
    while not wavefront.finished:
        taken = [wavefront.take() for _ in range(devices)]
        for tile in filter(None, taken):
            wavefront.complete(*tile)
        steps += 1
    return steps


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 9))
def test_how_long_a_wavefront_lasts(rows, cols, devices):
    assert tile_rounds(rows, cols, devices) == pytest.approx(rounds((rows, cols), devices), rel=0.15, abs=1)


def seconds(rows: int, cols: int) -> float:
    return 0.1 + rows * cols * 1e-9


@given(st.integers(10, 10**6), st.integers(10, 10**6), st.integers(1, 9), st.floats(0.05, 1.0))
def test_shared_tiles_are_inside_the_largest_and_make_the_run_no_longer(rows, cols, devices, part):
    largest = max(1, int(rows * part)), max(1, int(cols * part))
    shape = shared_tile_shape(rows, cols, largest, devices, seconds)
    assert 1 <= shape[0] <= largest[0]
    assert 1 <= shape[1] <= largest[1]
    before, after = (
        rounds(plan_grid(rows, cols, tile, None).shape, devices) * seconds(*tile) for tile in (largest, shape)
    )
    assert after <= before * 1.1


@pytest.mark.parametrize("devices", [2, 3, 4, 8])
def test_all_devices_are_busy_most_of_the_time_where_there_is_much_to_do(devices):
    rows, cols = 1_000_000, 2_000_000
    shape = shared_tile_shape(rows, cols, (rows, cols), devices, seconds)
    grid = plan_grid(rows, cols, shape, None)
    assert min(grid.shape) >= devices
    alone = seconds(rows, cols)
    assert rounds(grid.shape, devices) * seconds(*shape) < 1.2 * alone / devices


def test_where_there_is_little_to_do_one_device_does_it():
    assert shared_tile_shape(10_000, 10_000, (10_000, 10_000), 4, seconds) == (10_000, 10_000)


def test_tiles_hold_whole_chunks_and_every_device_has_a_column():
    """Chunks that do not divide a tile evenly: their number is rounded up, not the number of tiles."""
    rows, cols = 4_639_675, 5_498_450
    grid = plan_grid(rows, cols, (rows // 8 + 1, cols // 4 + 1), 200 << 20)
    assert grid.shape == (8, 4)
    assert (len(grid.row_cuts) - 1) % 8 == (len(grid.col_cuts) - 1) % 4 == 0


@given(
    *(st.integers(10, 10**6),) * 2,
    st.integers(1, 9),
    st.floats(0.05, 1.0),
    st.floats(0, 0.5),
    st.sampled_from([1e-12, 1e-10, 1e-8]),
)
def test_checkpoints_cost_little_and_tiles_are_no_higher(rows, cols, devices, part, overhead, of_cell):
    def seconds(height: int, width: int) -> float:
        return overhead + height * width * of_cell

    def duration(height: int) -> float:
        count = part_count(rows, height)
        return tile_rounds(count, part_count(cols, shape[1]), devices) * seconds(-(-rows // count), shape[1])

    shape = max(1, int(rows * part)), max(1, int(cols * part))
    height = checkpoint_rows(rows, cols, shape, devices, seconds)
    assert 1 <= height <= shape[0]
    assert duration(height) <= 1.02 * duration(shape[0])


def test_checkpoints_are_some_seconds_apart():
    def seconds(height: int, width: int) -> float:
        return 0.01 + height * width * 1e-10

    def seconds_of_tile(rows: int, cols: int) -> float:
        return seconds(checkpoint_rows(rows, cols, (rows, cols), 1, seconds), cols)

    assert 5.0 <= seconds_of_tile(10**6, 10**6) < 6.2
    assert seconds_of_tile(10**4, 10**4) == seconds(10**4, 10**4)  # a hundredth of a second in all
    assert 0.005 <= seconds_of_tile(10**6, 10**9) / seconds(10**6, 10**9) < 0.01


def test_tiles_stay_as_they_are_where_each_costs_much():
    assert (
        checkpoint_rows(10**6, 10**6, (10**6, 10**6), 1, lambda rows, cols: 60 + rows * cols * 1e-10) == 10**6
    )
