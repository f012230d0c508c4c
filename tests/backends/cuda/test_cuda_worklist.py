"""The host side of the CUDA back end that needs no GPU: strips, bands, work lists, memory, letters."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longalign.model.boundary import BestCell, Boundary, LinearEdge
from longalign.model.pruning import Pruning, SideGains
from longalign.model.scoring import NEG_INF, Scoring
from longalign.phases.packing import pack
from longalign.testing.sweep_jobs import whole_matrix

pytest.importorskip("numba_cuda")

from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.letter_scores import letter_scoring_for
from longalign.backends.cuda.launch import device_memory, worklist
from longalign.backends.cuda.planning import cost_model, edge_pieces, kernel_shape
from longalign.backends.cuda.planning.strips import ALL_ROWS, count_bands, count_strips

CONFIG = KernelConfig(True, True, columns=2)
WIDTH = CONFIG.strip_width


def job(length, width, scoring=None, **changes):
    rng = np.random.default_rng(length + width)
    query, target = rng.integers(0, 4, length, np.uint8), rng.integers(0, 4, width, np.uint8)
    return replace(whole_matrix(query, target, scoring or Scoring(), True), **changes)


def strips_of(work, number):
    return work.strips[work.strips[:, work_tables.JOB] == number]


@pytest.mark.parametrize("cols", [1, 63, 64, 65, 200])
@pytest.mark.parametrize("requested", [(), (1,), (1, 2, 3), (50, 64)])
def test_strips_cover_the_columns_and_end_at_every_requested_one(cols, requested):
    requested = tuple(col for col in requested if col <= cols)
    work = worklist.build([job(5, cols, cols=requested)], CONFIG)
    first, width = work.strips[:, work_tables.FIRST_COLUMN], work.strips[:, work_tables.WIDTH]
    assert first[0] == 0
    assert (first[1:] == first[:-1] + width[:-1]).all()
    assert first[-1] + width[-1] == cols
    assert ((width >= 1) & (width <= WIDTH)).all()
    ends = work.strips[work.strips[:, work_tables.REQUESTED_COLUMN] >= 0]
    assert tuple(ends[:, work_tables.FIRST_COLUMN] + ends[:, work_tables.WIDTH]) == requested


def test_a_strip_comes_after_its_left_neighbour_and_rectangles_alternate():
    work = worklist.build([job(5, 300), job(6, 10), job(7, 200)], CONFIG)
    assert list(work.strips[:4, work_tables.JOB]) == [0, 1, 2, 0]
    for number in range(3):
        strips = strips_of(work, number)
        assert list(strips[:, work_tables.NUMBER]) == list(range(len(strips)))
        assert (np.diff(strips[:, work_tables.FIRST_COLUMN]) > 0).all()


def test_top_edges_on_which_all_paths_may_begin_are_marked():
    fresh, below = job(5, 300), job(5, 300, top=LinearEdge(300, -4, -5, 1))
    given = job(5, 300, top=Boundary(np.zeros(301, np.int32), np.full(301, NEG_INF, np.int32)))
    work = worklist.build([fresh, below, given], CONFIG)
    assert list(work.jobs[:, work_tables.FREE_TOP]) == [1, 0, 0]


@pytest.mark.parametrize("shape", [(50, 300), (7, 100), (1, 1), (400, 10), (20, 2_000)])
@pytest.mark.parametrize("band_rows", [1, 32, 70, 100, ALL_ROWS])
def test_bands_of_a_strip_follow_one_another_and_what_they_need_comes_first(shape, band_rows):
    rows, cols = shape
    work = worklist.build([job(9, 70), job(rows, cols, cols=(cols,))], CONFIG, band_rows)
    strips = strips_of(work, 1)
    ticket = {int(strip[work_tables.FLAG]): k for k, strip in enumerate(work.strips)}
    for number in range(count_strips(job(rows, cols), CONFIG)):
        of_strip = strips[strips[:, work_tables.NUMBER] == number]
        first, last = of_strip[:, work_tables.FIRST_START], of_strip[:, work_tables.LAST_START]
        assert first[0] == 0
        assert list(first[1:]) == list(last[:-1])
        assert last[-1] == rows + of_strip[0, work_tables.LAST_PART_LAG]
        assert (first % CONFIG.block_rows == 0).all()
        assert (first < last).all()
        assert list(of_strip[1:, work_tables.FLAG_ABOVE]) == list(of_strip[:-1, work_tables.FLAG])
        assert list(of_strip[1:, work_tables.DONE_ABOVE]) == list((last - first)[:-1])
        assert sorted(tickets := [ticket[flag] for flag in of_strip[:, work_tables.FLAG]]) == tickets
        # The left neighbour must have finished these rows before the strip is interrupted or ends.
        left = strips[strips[:, work_tables.NUMBER] == number - 1]
        for strip in of_strip if number else ():
            done_before = left[
                [ticket[flag] < ticket[int(strip[work_tables.FLAG])] for flag in left[:, work_tables.FLAG]]
            ]
            done = done_before[:, work_tables.LAST_START].max() - left[0, work_tables.LAST_PART_LAG]
            assert done >= min(rows, strip[work_tables.LAST_START])


def test_a_strip_is_listed_only_for_bands_in_which_it_has_rows():
    """A wide rectangle of few rows has many bands, but each of its strips has few."""
    wide = job(100, 50_000)
    work = worklist.build([wide], CONFIG, 64)
    count = count_strips(wide, CONFIG)
    assert work.strips[:, work_tables.BAND].max() > 100
    assert len(work.strips) <= count * count_bands(100, CONFIG, 64) <= 5 * count
    assert count_bands(100, CONFIG, ALL_ROWS) == 1
    assert kernel_shape.band_rows([wide], CONFIG, 10, kernel_shape.Overrides()) == ALL_ROWS


def test_the_short_strips_of_a_band_alternate_with_those_of_the_next():
    height = 20 * CONFIG.strip_lag
    [strips] = [worklist.build([job(3 * height, 100 * WIDTH)], CONFIG, height).strips]
    bands, numbers = strips[:, work_tables.BAND], strips[:, work_tables.NUMBER]
    per_band = height // CONFIG.band_slope  # over this many strips, the slope equals the height of a band
    begin = np.flatnonzero(numbers == 0)  # the first ticket of each band
    assert begin[1] == height // CONFIG.strip_lag + 1  # the second band does not begin before
    for band in (1, 2):
        before = numbers[: begin[band + 1]][bands[: begin[band + 1]] == band]
        assert len(before) >= band * per_band  # all strips with as many rows as the band
        taken = bands[begin[band + 1] :][: 2 * (per_band - 2)]
        assert sorted(set(taken)) == [band, band + 1]
        assert abs(np.cumsum(np.where(taken == band, 1, -1))).max() <= 2


@pytest.mark.parametrize("rows", [1, 60, 100, 1_000])
@pytest.mark.parametrize("band_rows", [32, 96, 320, 960, ALL_ROWS])
def test_no_strip_has_more_bands_than_are_counted(rows, band_rows):
    work = worklist.build([job(rows, 5_000)], CONFIG, band_rows)
    most = np.bincount(work.strips[:, work_tables.NUMBER]).max()
    assert most <= count_bands(rows, CONFIG, band_rows)
    assert (work.state_values == 0) == (most == 1)


@pytest.mark.parametrize("shapes", [[(50, 300), (90, 100), (7, 64)], [(50, 300)], [(7, 64)]], ids=str)
def test_a_single_band_equals_a_band_of_very_many_rows(shapes):
    jobs = [job(*shape) for shape in shapes]
    one, high = (worklist.build(jobs, CONFIG, rows) for rows in (ALL_ROWS, ALL_ROWS - 1))
    fields = [
        k
        for k in range(work_tables.STRIP_FIELDS)
        if k not in (work_tables.FLAG_ABOVE, work_tables.DONE_ABOVE)
    ]
    assert one.strips[:, fields].tolist() == high.strips[:, fields].tolist()
    assert not one.strips[:, work_tables.FIRST_START].any()


@pytest.mark.parametrize("rows", [32, ALL_ROWS])
@pytest.mark.parametrize("shapes", [[(50, 300), (90, 100)], [(50, 300)]], ids=["two", "one"])
def test_a_strip_knows_the_ticket_of_its_right_neighbour(rows, shapes):
    work = worklist.build([job(*shape) for shape in shapes], CONFIG, rows)
    place = {
        tuple(strip[[work_tables.JOB, work_tables.BAND, work_tables.NUMBER]]): k
        for k, strip in enumerate(work.strips)
    }
    for (rectangle, band, number), k in place.items():
        assert work.strips[k, work_tables.NEXT] == place.get(
            (rectangle, band, number + 1), work_tables.NO_TICKET
        )


def test_only_interrupted_strips_keep_a_state():
    assert worklist.build([job(5, 300), job(6, 10)], CONFIG).state_values == 0
    work = worklist.build([job(5, 70), job(200, 70), job(200, 70)], CONFIG, 32)
    size = 32 * CONFIG.state_words
    assert work.state_values == 6 * size
    assert list(work.jobs[:, work_tables.STATE_AT]) == [0, 2 * size, 4 * size]


def test_every_strip_has_a_flag_of_its_own_and_all_are_0():
    work = worklist.build([job(5, 300), job(6, 10)], CONFIG)
    assert sorted(work.strips[:, work_tables.FLAG]) == list(range(len(work.strips)))
    assert list(work.flags) == [0] * len(work.strips)


def swept(edge):
    return Boundary(edge.h, edge.gap)


def test_the_left_edge_of_every_rectangle_has_the_tag_that_its_first_strip_waits_for():
    jobs = [job(5, 300), job(6, 10)]
    jobs = [replace(each, left=swept(each.left)) for each in jobs]
    work = worklist.build(jobs, CONFIG)
    words = work.column.view(np.int32).reshape(-1, 4)
    assert list(words[:, 0]) == [*jobs[0].left.h[1:], *jobs[1].left.h[1:]]
    assert list(words[:, 2]) == [*jobs[0].left.gap[1:], *jobs[1].left.gap[1:]]
    assert {strip[work_tables.NUMBER] for strip in work.strips[:2]} == {*words[:, 1], *words[:, 3]} == {0}
    assert list(work.jobs[:, work_tables.COLUMN_AT]) == [0, 5]


@pytest.mark.parametrize("packed", [False, True])
def test_long_edges_are_copied_in_pieces(monkeypatch, packed):
    monkeypatch.setattr(edge_pieces, "_PIECE", 7)
    monkeypatch.setattr(edge_pieces, "LONG", 20)
    monkeypatch.setattr(worklist, "LONG", 20)
    rng = np.random.default_rng(0)
    h, gap = (rng.integers(-50, 50, 31).astype(np.int32) for _ in range(2))
    gap[0] = NEG_INF
    edge = Boundary(h, gap)
    if packed:
        edge = pack([9], [edge]).part(9, 0, 30)
    even = LinearEdge(30, int(h[0]), 0, 0)
    sides = [replace(job(30, 30), top=edge, left=even), replace(job(30, 30), top=even, left=edge)]
    top, column = (worklist.build([side], CONFIG) for side in sides)
    assert top.top.view(np.int32).tolist() == np.column_stack([h, gap]).ravel().tolist()
    rows = np.column_stack([h, 0 * h, gap, 0 * gap])[1:]
    assert column.column.view(np.int32).tolist() == rows.ravel().tolist()


def test_linear_edges_are_listed_in_a_table_and_follow_the_uploaded_ones():
    one, two, three = job(5, 30), job(6, 10), job(7, 20)
    jobs = [one, replace(two, top=swept(two.top)), replace(three, left=swept(three.left))]
    work = worklist.build(jobs, CONFIG)
    assert list(work.jobs[:, work_tables.TOP_AT]) == [11, 0, 11 + 31]
    assert list(work.jobs[:, work_tables.COLUMN_AT]) == [7, 7 + 5, 0]
    assert (len(work.top), work.top_values) == (11, 11 + 31 + 21)
    assert (len(work.column), work.column_values) == (2 * 7, 2 * (7 + 5 + 6))
    sides = [work_tables.SIDE, work_tables.EDGE_AT, work_tables.LENGTH]
    assert work.linear_edges[:, sides].tolist() == [
        [work_tables.TOP, 11, 30], [work_tables.TOP, 42, 20], [work_tables.LEFT, 7, 5],
        [work_tables.LEFT, 12, 6],
    ]  # fmt: skip


@pytest.mark.parametrize("count", [1, 3])
def test_memory_is_allocated_for_uploaded_edges_and_letters_of_several_rectangles(count):
    one, two, three = job(5, 30), job(6, 10), job(7, 20)
    jobs = [replace(two, top=swept(two.top)), replace(three, left=swept(three.left)), one][:count]
    taken = []

    def allocate(shape, dtype):
        taken.append(np.empty(shape, dtype))
        return taken[-1]

    work = worklist.build(jobs, CONFIG, allocate=allocate)
    assert sum(array.nbytes for array in taken) == worklist.input_bytes(jobs)
    for side in ("query", "target"):
        letters = getattr(work, side)
        assert list(letters) == list(np.concatenate([getattr(each, side) for each in jobs]))
        assert any(letters is array for array in taken) == (count > 1)
    assert any(np.shares_memory(work.top, array) for array in taken)


def test_the_best_of_a_rectangle_is_chosen_by_rank():
    jobs = [job(9, 200), job(9, 10)]
    work = worklist.build(jobs, CONFIG)
    best = np.zeros((len(work.strips), work_tables.BEST_FIELDS), np.int32)
    of_first = np.flatnonzero(work.strips[:, work_tables.JOB] == 0)
    best[of_first[:3]] = [(7, 4, 70), (7, 3, 71), (6, 1, 1)]
    swept = worklist.results(jobs, work, np.zeros(work.line_values, np.int32), best, [0] * len(jobs))
    assert [result.best for result in swept] == [BestCell(7, 3, 71), BestCell()]


@pytest.mark.parametrize(
    ("scoring", "letters"),
    [(Scoring(), "bytes"), (Scoring(match=125), "compare"), (Scoring(ambiguous="zero"), "profile")],
)
def test_letters_are_scored_in_the_fastest_exact_way(scoring, letters):
    assert letter_scoring_for(scoring) == letters


@pytest.mark.parametrize(
    "shape", [(1, 1), (10**8, 1), (1, 10**8), (4_600_000, 5_500_000), (10**8, 10**8), (3 * 10**8, 10**8)]
)
@pytest.mark.parametrize("free", [0, 1 << 30, 140 << 30])
def test_a_tile_is_inside_the_matrix_and_not_too_long(shape, free):
    rows, cols = kernel_shape.tile_shape(*shape, free, 1, cost_model.Hardware(132, (9, 0)))
    assert 1 <= rows <= shape[0]
    assert 1 <= cols <= shape[1]
    most = max(kernel_shape.TILE_CELLS, shape[0] * shape[1] // kernel_shape.MAX_TILES)
    assert rows * cols <= most or rows == 1


def test_device_memory_grows_with_the_sides_and_the_lattice_only():
    plain = device_memory.bytes_needed([job(1_000, 2_000)], CONFIG)
    assert device_memory.bytes_needed([job(2_000, 4_000)], CONFIG) == pytest.approx(2 * plain, rel=0.1)
    rows = tuple(range(2, 202, 2))
    with_rows = device_memory.bytes_needed([job(1_000, 2_000, rows=rows, cols=())], CONFIG)
    without = device_memory.bytes_needed([job(1_000, 2_000, rows=(), cols=())], CONFIG)
    assert with_rows - without == pytest.approx(100 * 2_000 * 8, rel=0.01)


@pytest.mark.parametrize(("rows", "cols"), [(1_000, 2_000), (1_007, 40_001), (100_000, 100_000)])
def test_device_memory_includes_all_gains_of_pruned_rectangles(rows, cols):
    config = replace(CONFIG, prunes=True)
    gains = [SideGains.of(np.zeros(length + 1, np.int32)) for length in (rows, cols)]
    plain = job(rows, cols)
    pruned = replace(plain, of_matrix=True, pruning=Pruning(0, *gains))
    lists = [worklist.build([each], config).lists.nbytes for each in (plain, pruned)]
    needed = [device_memory.bytes_needed([pruned], each) for each in (CONFIG, config)]
    assert needed[1] - needed[0] >= lists[1] - lists[0] > 0


@pytest.mark.parametrize("rows", [0, 15, 66])
def test_a_row_block_has_whole_steps_and_at_most_two_rows_a_lane(rows):
    with pytest.raises(ValueError, match=f"not {rows}"):
        KernelConfig(True, True, block_rows=rows)


def test_packed_numbers_need_scores_of_8_bits():
    with pytest.raises(ValueError, match="8-bit"):
        KernelConfig(True, True, letter_scoring="compare", numbers="packed")
