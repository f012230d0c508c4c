"""The choice of kernels, and the proof that packed numbers are exact. No GPU is needed."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import SmallTiles

from longalign.backends.base import SweepJob
from longalign.backends.cuda.planning.strips import ALL_ROWS
from longalign.model.boundary import Boundary, LinearEdge, State, entry_edges, local_edges
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs
from longalign.model.geometry import plan_grid
from longalign.model.pruning import Pruning, SideGains
from longalign.model.scoring import NEG_INF, Scoring
from longalign.model.substitution_matrix import LARGEST_ALPHABET, SubstitutionMatrix
from longalign.run.grid_bytes import kept_bytes
from longalign.run.planner import plan, speed_model_of
from longalign.run.request import Request, Resources
from longalign.testing.inputs import (
    mutated,
)
from longalign.testing.reference import ReferenceBackend
from longalign.testing.sweep_jobs import whole_matrix

pytest.importorskip("numba_cuda")

from longalign.backends.cuda.backend import CudaBackend
from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.device.strip_profile import profile_bytes
from longalign.backends.cuda.kernels.sweep import SIGNATURE
from longalign.backends.cuda.planning import cost_model, edge_pieces, kernel_shape, packed_range
from longalign.backends.cuda.planning.cost_model import Hardware
from longalign.backends.cuda.planning.kernel_shape import Overrides, choose

H200 = Hardware(132, (9, 0))
AMPERE = Hardware(108, (8, 0))
RESULTS = Path(__file__).parents[3] / "experiments" / "results"


def job(rows, cols, scoring=None, local=True):
    rng = np.random.default_rng(rows + cols)
    query, target = rng.integers(0, 4, rows, np.uint8), rng.integers(0, 4, cols, np.uint8)
    return whole_matrix(query, target, scoring or Scoring(), local)


def config_of(work, hardware=H200, overrides=None):
    return choose([work], hardware, overrides or Overrides())[0].config


def packed(columns, block_rows=64):
    return KernelConfig(True, True, columns, block_rows=block_rows, numbers="packed")


# --- numbers -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("local", [True, False])
def test_packed_where_exact_and_int32_elsewhere(local):
    plain = job(300, 200, local=local)
    assert config_of(plain).numbers == "packed"
    assert config_of(plain, AMPERE).numbers == "int32"
    assert config_of(plain, overrides=Overrides(numbers="int32")).numbers == "int32"
    assert config_of(job(300, 200, Scoring(match=125), local)).numbers == "int32"


def protein(rows, cols, gap_open=10, local=True):
    scoring = Scoring(gap_open=gap_open, gap_extend=1, matrix=SubstitutionMatrix.load("BLOSUM62"))
    rng = np.random.default_rng(rows)
    return whole_matrix(*(rng.integers(0, 24, side, np.uint8) for side in (rows, cols)), scoring, local)


@pytest.mark.parametrize("local", [True, False])
def test_a_matrix_is_packed_where_scores_and_an_opened_gap_fit_8_bits(local):
    def kind(work, hardware=H200):
        config = config_of(work, hardware)
        return config.letter_scoring, config.numbers

    assert kind(protein(300, 200, local=local)) == ("profile", "packed")
    assert kind(protein(300, 200, 115, local)) == ("profile", "packed")  # score + alpha + beta: 11 + 115 + 1
    assert kind(protein(300, 200, 116, local)) == ("profile", "int32")
    assert kind(protein(300, 200, local=local), AMPERE) == ("profile", "int32")


def test_profiles_of_the_largest_matrix_fit_a_block():
    profiles = [config for config in kernel_shape.every_configuration() if config.letter_scoring == "profile"]
    overridden = [
        config_of(protein(300, 200), overrides=Overrides(numbers, columns, warps=warps))
        for numbers, columns, warps in (
            ("packed", 4, 4),
            ("packed", 24, 4),
            ("int32", 16, 2),
            ("int32", 2, 9),
        )
    ]
    assert {config.numbers for config in profiles} == {"packed", "int32"}
    for config in (*profiles, *overridden):
        assert config.letter_scoring == "profile"
        assert config.warps >= 1
        shared = profile_bytes(config, LARGEST_ALPHABET) + config.warps * config.mailbox_bytes
        assert shared + 2 * 2 * 8 <= 48 << 10  # and two more slots in either mailbox


def test_shared_memory_bounds_the_warps_of_a_profile():
    config = config_of(protein(300, 200), overrides=Overrides(columns=16))
    without, with_it = (cost_model.resident_warps(config, H200, letters) for letters in (0, 32))
    assert with_it < without
    assert cost_model.resident_warps(config, replace(H200, shared_bytes=64 << 10), 32) < with_it
    assert cost_model.resident_warps(config, replace(H200, shared_bytes=1), 32) == config.warps * 132


@pytest.mark.parametrize(("state", "numbers"), [(State.H, "packed"), (State.E, "int32"), (State.F, "int32")])
def test_edges_with_minus_infinity_are_swept_in_32_bits(state, numbers):
    plain = job(300, 200)
    top, left = entry_edges(state, 300, 200, plain.scoring)
    assert config_of(replace(plain, top=top, left=left, local=False)).numbers == numbers


def test_the_bound_from_both_sides():
    """The largest gap_extend whose values fit, and the next one, strip by strip."""
    for columns in (4, 8, 16, 32):
        fits = [packed_range.wide_enough(Scoring(1, -3, 3, extend), packed(columns)) for extend in range(200)]
        largest = fits.index(False) - 1
        assert all(fits[: largest + 1])
        assert not any(fits[largest + 1 :])
        at = packed_range.below(Scoring(1, -3, 3, largest), packed(columns))
        at += packed_range.above(Scoring(1, -3, 3, largest), packed(columns))
        assert (1 << 16) - 3 * 64 * (columns + 2) < at < 1 << 16


def test_scores_too_large_for_wide_strips_get_narrow_ones_and_then_32_bits():
    rows = cols = 2_000_000
    usual, steep, steeper = (
        SweepJob(
            np.zeros(rows, np.uint8), np.zeros(cols, np.uint8), Scoring(1, -3, 3, extend),
            *local_edges(rows, cols), True,
        )
        for extend in (2, 40, 123)
    )  # fmt: skip
    assert config_of(usual).columns > 8
    assert (config_of(steep).numbers, config_of(steep).columns) == ("packed", 8)
    assert config_of(steeper).numbers == "int32"
    for scoring in (usual, steep, steeper):
        fits = [
            packed_range.wide_enough(scoring.scoring, packed(shape.columns, shape.block_rows))
            for shape in kernel_shape.SHAPES["packed"]
        ]
        assert any(fits) == (config_of(scoring).numbers == "packed")


@st.composite
def small_matrices(draw):
    size = draw(st.integers(1, 30))
    scoring = Scoring(
        match=draw(st.integers(1, size)),
        mismatch=draw(st.integers(-size, 0)),
        gap_open=draw(st.integers(0, size)),
        gap_extend=draw(st.integers(0, size)),
    )
    rng = np.random.default_rng(draw(st.integers(0, 1 << 30)))
    query = rng.integers(0, draw(st.sampled_from([1, 2, 4])), 60, np.uint8)
    target = mutated(query[draw(st.sampled_from([0, 25])) :], 60, 0.1, rng)
    work = whole_matrix(query, target, scoring, draw(st.booleans()))
    free_top, free_left = local_edges(60, 60)  # also one of the two without a floor, as in semiglobal modes
    top = free_top if draw(st.booleans()) else work.top
    left = free_left if draw(st.booleans()) else work.left
    return replace(work, rows=tuple(range(1, 61)), cols=tuple(range(1, 61)), top=top, left=left)


@given(small_matrices(), st.integers(0, 50), st.integers(0, 50))
def test_every_value_near_an_edge_lies_in_the_window(work, row, col):
    """The bounds hold for a toy geometry: a row block of 4 rows, parts that span 4 rows."""
    config = KernelConfig(True, True, 2, block_rows=4)
    width, span = 8, 4
    toy = replace_geometry(work.scoring, config, width, span)
    [swept] = ReferenceBackend().sweep([work])
    h = np.stack([work.top.h, *(boundary.h for boundary in swept.rows)]).astype(np.int64)
    here = h[max(0, row - span) : row + config.block_rows + 1, col : col + width + 1]
    assert here.min() >= h[row, col] - toy[0]
    assert here.max() <= h[row, col] + toy[1]


def replace_geometry(scoring, config, width, span):
    """The two bounds for a geometry that no kernel has."""

    class Toy:
        block_rows, strip_width = config.block_rows, width

    Toy.span = span
    return packed_range.below(scoring, Toy), packed_range.above(scoring, Toy)


@given(small_matrices(), st.integers(1, 59), st.integers(1, 59))
def test_every_part_of_a_matrix_has_smooth_edges(work, row, col):
    [swept] = ReferenceBackend().sweep([work])
    part = replace(
        work, query=work.query[row:], target=work.target[col:], rows=(), cols=(),
        top=swept.rows[row - 1].part(col, 60), left=swept.cols[col - 1].part(row, 60),
    )  # fmt: skip
    assert packed_range.has_smooth_edges(part)


@pytest.mark.parametrize("jump", [-1000, 1000])
@pytest.mark.parametrize("at", [0, 5, 9])
def test_a_jump_on_an_edge_is_found(jump, at):
    plain = job(9, 9)
    h = np.full(10, 2_000, np.int32)
    level = Boundary(h, np.full(10, NEG_INF, np.int32))
    jumps = Boundary(h + np.where(np.arange(10) == at, jump, 0).astype(np.int32), level.gap)
    assert packed_range.has_smooth_edges(replace(plain, top=level, left=level))
    assert not packed_range.has_smooth_edges(replace(plain, top=jumps, left=level))
    assert not packed_range.has_smooth_edges(replace(plain, top=level, left=jumps))


def test_edges_that_are_known_to_belong_to_a_matrix_are_not_examined():
    class Length:
        """An edge without values."""

        def __len__(self):
            return 9

    known = replace(job(9, 9), top=Length(), left=Length(), of_matrix=True)
    assert packed_range.has_smooth_edges(known)


@given(
    st.lists(st.integers(-12, 12), min_size=1, max_size=30),
    st.sampled_from([-(2**30), 0, 2**30]),
    st.booleans(),
)
def test_an_edge_is_smooth_if_no_fall_and_no_rise_is_too_deep(steps, begin, in_threads):
    h = np.array([begin, *steps]).cumsum()
    scoring = Scoring()
    top, least, room = scoring.match + scoring.gap_extend, -scoring.gap_extend, 2 * scoring.gap_open
    smooth = all(
        least * (k - i) - room <= h[k] - h[i] <= top * (k - i) + room
        for i in range(len(h))
        for k in range(i, len(h))
    )
    edge = Boundary(h.astype(np.int32), np.full(len(h), NEG_INF, np.int32))
    with pytest.MonkeyPatch.context() as patch:
        if in_threads:
            patch.setattr(edge_pieces, "_PIECE", 4)
            patch.setattr(edge_pieces, "LONG", 8)
            patch.setattr(packed_range, "LONG", 8)
        assert packed_range.is_smooth(edge, scoring) == smooth


def test_a_fall_over_several_pieces_is_found(monkeypatch):
    """Each piece falls only a little, but they add up."""
    monkeypatch.setattr(edge_pieces, "_PIECE", 4)
    monkeypatch.setattr(edge_pieces, "LONG", 8)
    monkeypatch.setattr(packed_range, "LONG", 8)
    h = np.array([-6, -2, -2, -2] * 4).cumsum().astype(np.int32)
    edge = Boundary(h, np.full(len(h), NEG_INF, np.int32))
    assert packed_range.is_smooth(edge.part(0, 7), Scoring())
    assert not packed_range.is_smooth(edge, Scoring())
    assert not packed_range.is_smooth(Boundary(-h[::-1], edge.gap), Scoring(1, -3, 3, 0))


@given(
    st.integers(1, 30),
    st.sampled_from([-(2**30), 0, 2**30, NEG_INF]),
    st.one_of(st.integers(-40, 40), st.just(NEG_INF)),
    st.integers(0, 6),
    st.sampled_from([Scoring(), Scoring(1, -3, 0, 2), Scoring(1, -3, 30, 1)]),
)
def test_a_linear_edge_is_as_smooth_as_its_values(length, corner, first, step, scoring):
    first = corner + first if NEG_INF not in (corner, first) else first
    linear = LinearEdge(length, corner, first, 0 if first == NEG_INF else step)
    assert packed_range.is_smooth(linear, scoring) == packed_range.is_smooth(
        Boundary(linear.h, linear.gap), scoring
    )


@pytest.mark.parametrize("long", [8, 16])
@pytest.mark.parametrize("place", [1, 7, 9])
def test_a_gap_state_above_h_is_found(monkeypatch, long, place):
    monkeypatch.setattr(edge_pieces, "_PIECE", 4)
    monkeypatch.setattr(edge_pieces, "LONG", long)
    monkeypatch.setattr(packed_range, "LONG", long)
    plain, gap = job(9, 9), np.zeros(10, np.int32)
    gap[place] = 1
    high = Boundary(np.zeros(10, np.int32), gap)
    assert packed_range.has_smooth_edges(replace(plain, top=Boundary(high.h, 0 * gap)))
    assert not packed_range.has_smooth_edges(replace(plain, top=high))


# --- shapes ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("numbers", ["packed", "int32"])
def test_strips_are_wide_if_there_is_work_for_all_warps(numbers):
    overrides = Overrides(numbers=numbers)
    assert config_of(job(40_000, 300_000), Hardware(2, (9, 0)), overrides).columns >= 16
    assert config_of(job(30_000, 20_000), H200, overrides).columns <= 8


def test_strips_are_wide_if_every_quarter_of_a_multiprocessor_still_gets_one():
    wide, narrow = (config_of(job(600_000, cols)) for cols in (1_072_000, 560_000))
    assert (wide.columns, narrow.columns) == (32, 20)


@pytest.mark.parametrize("unit", [8, 16, 20, 24, 48, 240])
def test_parts_end_at_requested_columns_if_some_kernel_has_such_parts(unit):
    columns = config_of(replace(job(3, 600_000), cols=(1_001 * unit, 2_003 * unit))).columns
    assert unit % columns == 0


@pytest.mark.parametrize(("rows", "cols", "columns"), [(1_044_459, 1_072_950, 5), (4_639_675, 5_498_450, 24)])
def test_a_ragged_strip_at_the_right_edge_is_accepted_where_it_ends_with_the_others(rows, cols, columns):
    """See `ragged_cuda.json`: 0.40 s with 5 columns and 0.42 with 24; 6.4 and 4.9 s."""
    work = replace(job(rows, cols, local=False), track_best=False, rows=(rows,), cols=(cols,))
    assert config_of(work).columns == columns


def test_no_shape_is_left_out_if_none_has_whole_parts():
    [choice] = choose([replace(job(3, 600_000), cols=(1_001, 2_003))], H200)
    assert choice.config == config_of(replace(job(3, 600_000), cols=()))
    assert "whole parts" not in choice.why_shape


def test_bands_keep_all_warps_busy_if_there_are_more_strips_than_warps():
    config = packed(16)
    work, width = job(100_000, 100 * config.strip_width), config.strip_width
    assert kernel_shape.band_rows([work], config, 100, Overrides()) == ALL_ROWS
    rows = kernel_shape.band_rows([work], config, 99, Overrides())
    assert rows % 2 == 0
    assert 99 * config.strip_lag <= rows < ALL_ROWS
    assert kernel_shape.band_rows([work, job(5, width)], config, 100, Overrides()) < ALL_ROWS
    assert kernel_shape.band_rows([work], config, 100, Overrides(band_rows=34)) == 34


def test_overrides_are_used():
    config = config_of(job(300, 200), overrides=Overrides("packed", 24, 16, 2, 200))
    assert (config.columns, config.block_rows, config.warps) == (24, 16, 2)
    assert config.max_registers == 200


def test_an_override_for_packed_numbers_is_ignored_where_they_are_not_exact():
    assert (
        config_of(job(300, 200, Scoring(match=125)), overrides=Overrides(numbers="packed")).numbers == "int32"
    )


def test_rectangles_that_one_kernel_can_sweep_share_a_launch():
    work = [job(300, 200), job(10, 4_000), job(300, 200, local=False), job(5, 5, Scoring(match=125))]
    choices = choose(work, H200)
    assert choices[0].config == choices[1].config
    assert len({choice.config for choice in choices}) == 3


def pruned(work):
    gains = [SideGains.of(np.zeros(len(side) + 1, np.int32)) for side in (work.query, work.target)]
    return replace(work, of_matrix=True, pruning=Pruning(0, *gains))


@pytest.mark.parametrize("hardware", [H200, AMPERE], ids=["packed", "int32"])
def test_kernels_that_leave_out_row_blocks_sweep_rectangles_for_which_that_is_proved(hardware):
    listed = kernel_shape.every_configuration()
    for local in (True, False):
        config = config_of(pruned(job(300, 200, local=local)), hardware)
        assert config.prunes
        assert config in listed
        by_matrix = config_of(pruned(protein(300, 200, local=local)), hardware)
        assert by_matrix.prunes
        assert by_matrix in listed
    whole = pruned(job(300, 200))
    others = (
        replace(whole, pruning=None),
        replace(whole, of_matrix=False),
        pruned(job(2, 200)),
        pruned(job(200, 2)),
        pruned(job(300, 200, Scoring(match=125))),
        pruned(protein(300, 200, gap_open=1 << 12)),
    )
    assert not any(config_of(other, hardware).prunes for other in others)


def test_a_pruned_rectangle_is_swept_in_packed_numbers_although_its_edges_jump():
    work = pruned(job(300, 200))
    work = replace(work, left=LinearEdge(300, 0, 10**6, -1))
    assert config_of(work).numbers == "packed"
    assert config_of(replace(work, of_matrix=False)).numbers == "int32"


def test_every_choice_says_why():
    for choice in choose([job(300, 200), job(300, 200, Scoring(match=125))], H200):
        assert choice.why_numbers
        assert "expected to take" in choice.why_shape


def test_every_kernel_that_may_be_chosen_is_listed():
    listed = kernel_shape.every_configuration()
    assert len(listed) == len(set(listed))
    for hardware in (H200, AMPERE):
        for work in (job(300, 200), job(300, 200, local=False), job(300, 200, Scoring(match=125))):
            assert config_of(work, hardware) in listed


@pytest.mark.parametrize("is_pruned", [False, True])
@pytest.mark.parametrize("track_best", [False, True])
@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("hardware", [H200, AMPERE], ids=["packed", "int32"])
def test_kernels_that_exclude_pairs_are_listed_and_leave_nothing_out(hardware, local, track_best, is_pruned):
    pair = ExcludedPairs(np.array([3]), np.array([5]))
    zeros = (SideGains.of(np.zeros(length + 1, np.int32)) for length in (300, 200))
    pruning = Pruning(1, *zeros) if is_pruned else None
    for work in (job(300, 200, local=local), protein(300, 200, local=local)):
        excluding = replace(work, track_best=track_best, excluded=pair, pruning=pruning, of_matrix=True)
        config = config_of(excluding, hardware)
        assert config in kernel_shape.every_configuration()
        assert (config.excludes, config.prunes) == (True, False)
        plain = config_of(replace(excluding, excluded=NO_PAIRS), hardware)
        assert (plain.excludes, plain.prunes) == (False, is_pruned)


@pytest.mark.parametrize(
    ("prunes", "share", "possible", "launched"),
    [
        (False, 1, 5, 5),
        (True, 1, 5, 5),
        (True, 6, 264, 41),
        (False, 2, 264, 132),
        (False, 6, 264, 44),
        (True, 9, 8, 1),
    ],
)
def test_a_sweep_has_all_blocks_that_fit_and_a_part_its_share(prunes, share, possible, launched):
    config = replace(packed(16), prunes=prunes)
    kernel = SimpleNamespace(max_cooperative_grid_blocks=lambda threads, shared: possible)
    backend = SimpleNamespace(
        _blocks={},
        _compiled=lambda spec: SimpleNamespace(overloads={SIGNATURE: kernel}),
        _share=share,
    )
    assert CudaBackend._resident_blocks(backend, config, 0) == launched


# --- how long sweeps take ----------------------------------------------------------------------------


def test_sweeps_were_measured_to_take_about_what_is_expected():
    kinds = {
        "protein": (protein(1, 1).scoring, True),
        "ecoli_global": (Scoring(), False),
        "ecoli_large_scores": (Scoring(500, -400, 1_000, 300), True),
    }
    runs = [
        run
        for run in json.loads((RESULTS / "cuda_sweep.json").read_text())["runs"]
        if run["rows"] * run["cols"] >= 10**10 or run["cols"] >= 10**7
    ]
    for run in runs:
        kind = kinds.get(run["pair"], (Scoring(), True))
        expected = kernel_shape.sweep_seconds(run["rows"], run["cols"], H200, *kind)
        assert 1 / 2 < expected / min(run["kernel_seconds"]) < 2
    assert {run["pair"] for run in runs} >= {*kinds, "ecoli", "chlamydia", "yeast"}


@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0)], ids=str)
def test_a_rectangle_without_cells_takes_no_time(shape):
    assert kernel_shape.sweep_seconds(*shape, H200, Scoring(), True) == 0


def test_a_faster_clock_and_more_multiprocessors_take_less_time():
    def seconds(hardware):
        return kernel_shape.sweep_seconds(10**8, 10**8, hardware, Scoring(), True)

    assert seconds(replace(H200, clock=H200.clock / 2)) == pytest.approx(2 * seconds(H200))
    assert seconds(replace(H200, multiprocessors=66)) == pytest.approx(2 * seconds(H200), rel=0.1)
    assert seconds(AMPERE) > seconds(H200)


class Gpu(SmallTiles):
    """A back end with the memory and the expected speed of an H200."""

    def __init__(self):
        super().__init__()
        self.min_chunk, self.cells_per_path_cell, self.line_bytes = 49_152, 52, 3
        self.tile_overhead = kernel_shape.TILE_OVERHEAD

    def tile_shape(self, rows, cols, devices=1):
        return kernel_shape.tile_shape(rows, cols, 140 << 30, devices, H200)

    def strip_width(self, rows, cols):
        return kernel_shape.strip_width(rows, cols, H200)

    def sweep_seconds(self, rows, cols, scoring, local):
        return kernel_shape.sweep_seconds(rows, cols, H200, scoring, local)

    def tiles_at_once(self, rows, cols, *, small):
        return kernel_shape.tiles_at_once(rows, cols, small)


@pytest.mark.parametrize(
    ("size", "pair"), [((4_639_675, 5_498_450), "ecoli"), ((1_044_459, 1_072_950), "chlamydia")]
)
def test_phases_were_measured_to_take_about_what_is_expected(size, pair):
    using = Resources([Gpu()], 64 << 30)
    cost = speed_model_of(Request(1, 1), using).cost(plan(Request(*size, "align", None), using))
    runs = json.loads((RESULTS / "phases_cuda.json").read_text())["runs"]
    measured = [run["phases"] for run in runs if run["pair"] == pair]
    assert measured
    for phases in measured:
        assert 1 / 2 < cost.phase_1 / phases["score"] < 2
        assert 1 / 2 < cost.path / (phases["stitch"] + phases["recompute"]) < 2


@pytest.mark.parametrize(
    ("length", "top", "count"), [(900_000, 2, 1), (1_100_000, 2, 2), (9_000_000, 1, 1), (11_000_000, 1, 2)]
)
def test_how_many_tiles_a_gpu_sweeps_at_once(length, top, count):
    """Small tiles, as they are for several alignments, leave more of a device idle."""
    assert Resources([Gpu()], 64 << 30).tiles_at_once(Request(length, length, top=top)) == count


@pytest.mark.parametrize(
    ("length", "tiles"), [(8_000_000, (1, 1)), (11_900_000, (8, 2)), (21_600_000, (16, 2))]
)
@pytest.mark.parametrize("stored", [False, True])
def test_tiles_of_a_gpu_are_of_equal_size(tmp_path, length, stored, tiles):
    """Those in memory are low enough for a store, too: a stop loses the two that are swept."""
    store = tmp_path if stored else None
    grid = plan(Request(length, length, "align", store), Resources([Gpu()], 64 << 30))
    assert grid.shape == tiles
    sizes = [stop - start for start, stop in pairwise(grid.tile_rows)]
    assert max(sizes) - min(sizes) < 1000


@pytest.mark.parametrize("command", ["score", "align"])
def test_boundaries_grow_in_proportion_to_the_lengths(command):
    for length in (134_000_000, 250_000_000):
        request = Request(length, length, command)
        grid = plan(request, Resources([Gpu()], 400 << 30))
        assert kept_bytes(grid, request) < 300 * 2 * length


# --- tiles for several GPUs --------------------------------------------------------------------------


def tiles(rows, cols, devices, hardware=H200):
    shape = kernel_shape.tile_shape(rows, cols, 140 << 30, devices, hardware)
    return plan_grid(rows, cols, shape, None).shape


@pytest.mark.parametrize("hardware", [H200, AMPERE])
@pytest.mark.parametrize("devices", [2, 4, 8])
def test_every_gpu_has_a_column_of_a_large_matrix(devices, hardware):
    assert tiles(50_000_000, 50_000_000, 1, hardware)[1] == 1
    assert min(tiles(50_000_000, 50_000_000, devices, hardware)) >= devices


def test_tiles_are_narrower_only_if_that_saves_time():
    """Two GPUs would not sweep a matrix of a million letters sooner than one."""
    assert tiles(1_000_000, 1_000_000, 2) == (1, 1)
    assert 1 < tiles(5_000_000, 5_000_000, 2)[1] < 32


@pytest.mark.parametrize("size", [(560_000, 560_000), (1_040_000, 1_070_000), (4_600_000, 5_500_000)])
def test_lines_at_multiples_of_the_strip_width_do_not_change_the_choice(size):
    width = kernel_shape.strip_width(*size, H200)
    lines = tuple(range(8 * width, size[1], 8 * width))
    plain, cut = (config_of(replace(job(*size), cols=chosen)) for chosen in ((), lines))
    assert plain == cut
    assert plain.strip_width == width
