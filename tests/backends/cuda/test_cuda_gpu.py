"""The CUDA back end on a real GPU: conformance, sizes that fill the GPU, races, and stopping."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from operator import attrgetter
from threading import Barrier

import numpy as np
import pytest
from inputs import PROTEIN
from oracles import spell

import longalign
from longalign.backends.base import SweepJob, TraceJob
from longalign.backends.cpu import CpuBackend
from longalign.errors import BackendError
from longalign.model.boundary import State, entry_edges, local_edges
from longalign.model.pruning import Pruning
from longalign.model.scoring import Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.phases import guessed_lines, score
from longalign.phases.guessed_lines import difference
from longalign.pruning.budget import TimeBudget
from longalign.pruning.gains import gains
from longalign.run import planner
from longalign.testing.inputs import QUERY_N, TARGET_N, letters_of, matrix_of, mutated, scattered
from longalign.testing.start_states import StartConformance
from longalign.testing.sweep_jobs import assert_same_result, whole_matrix
from longalign.testing.sweeps import SweepConformance
from longalign.testing.traces import TIES, TraceConformance, assert_same_path

pytestmark = pytest.mark.gpu

DNA = Scoring()
NUC = Scoring(matrix=SubstitutionMatrix.load("NUC.4.4"), gap_open=6, gap_extend=2)
LARGE_SCORES = Scoring(match=1000, mismatch=-1500, gap_open=2000, gap_extend=700)
LARGE_PROTEIN = Scoring(gap_open=200, gap_extend=20, matrix=matrix_of(20 * np.array(PROTEIN.matrix.scores)))
KINDS = [("packed", 5), ("packed", 8), ("packed", 24), ("packed", 32), ("int32", 8), ("int32", 16)]


def cuda_backend(**overrides):
    pytest.importorskip("numba_cuda")
    from longalign.backends.cuda.backend import CudaBackend

    return CudaBackend(**overrides)


@pytest.fixture(scope="module")
def cpu():
    return CpuBackend(len(os.sched_getaffinity(0)))


@pytest.fixture(scope="module", params=[(None, None), *KINDS], ids=str)
def gpu(request):
    numbers, columns = request.param
    return cuda_backend(numbers=numbers, columns=columns)


class Strips(SweepConformance):
    """Base class: the subclass overrides the choice of the kernel."""

    largest_job = 20_000

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls):
        return cuda_backend(**cls.overrides)


class TestNarrowPackedStrips(Strips):
    """Strips narrower than any that the back end chooses, in row blocks of 64 rows."""

    overrides = {"numbers": "packed", "columns": 4}  # noqa: RUF012
    interesting_lengths = (64, 256)


class TestNarrowInt32Strips(Strips):
    overrides = {"numbers": "int32", "columns": 4}  # noqa: RUF012
    interesting_lengths = (32, 128)


class TestBands(Strips):
    """The strips of TestNarrowPackedStrips in bands of 34 rows."""

    overrides = {"numbers": "packed", "columns": 4, "band_rows": 34}  # noqa: RUF012
    interesting_lengths = (34, 256)


class WideStrips(Strips):
    """Base class for strips with 16 columns a part, as the back end chooses them for mid-sized rectangles."""

    effort = 0.5


class TestWidePackedStrips(WideStrips):
    overrides = {"numbers": "packed", "columns": 16}  # noqa: RUF012
    interesting_lengths = (64, 1024)


class TestWideInt32Strips(WideStrips):
    overrides = {"numbers": "int32", "columns": 16}  # noqa: RUF012
    interesting_lengths = (32, 512)


def test_packed_arithmetic():
    """The GPU's instructions, fused by the assembler, agree with the simulator's replacements."""
    pytest.importorskip("numba_cuda")
    from longalign.backends.cuda.device.ptx import (
        add_pairs,
        maximum_pairs,
        minimum_signed_pairs,
        permute_bytes,
    )
    from longalign.backends.cuda.numba_api import cuda

    @cuda.jit
    def fused(x, y, z, w, out):
        k = cuda.grid(1)
        if k < len(x):
            out[0, k] = maximum_pairs(add_pairs(x[k], y[k]), z[k])
            out[1, k] = maximum_pairs(maximum_pairs(x[k], y[k]), z[k])
            out[2, k] = permute_bytes(x[k], y[k], w[k])
            out[3, k] = minimum_signed_pairs(x[k], y[k])

    rng = np.random.default_rng(0)
    count = 1 << 16
    x, y, z, w = rng.integers(-(1 << 31), 1 << 31, (4, count)).astype(np.int32)
    on_device = [cuda.to_device(np.ascontiguousarray(values)) for values in (x, y, z, w)]
    result = cuda.device_array((4, count), np.int32)
    fused[count // 128, 128](*on_device, result)
    out = result.copy_to_host()
    xs, ys, zs = (values.view(np.uint16) for values in (x, y, z))
    assert (out[0].view(np.uint16) == np.maximum(xs + ys, zs)).all()
    assert (out[1].view(np.uint16) == np.maximum(np.maximum(xs, ys), zs)).all()
    assert (out[3].view(np.int16) == np.minimum(x.view(np.int16), y.view(np.int16))).all()
    source = np.stack([x, y], 1).view(np.uint8).reshape(count, 8)
    nibbles = w[:, None] >> np.arange(0, 16, 4) & 15
    picked = np.take_along_axis(source, nibbles & 7, 1)
    picked = np.where(nibbles & 8, np.where(picked & 128, 255, 0), picked)
    assert (out[2].view(np.uint8).reshape(count, 4) == picked).all()


def related(rng, rows, cols, letters=4):
    """A query and a target that share long stretches, with substitutions and a few gaps."""
    query = rng.integers(0, letters, rows, np.uint8)
    target = np.resize(query, cols)
    at = rng.integers(0, cols, cols // 20)
    target[at] = rng.integers(0, letters, len(at), np.uint8)
    for start in rng.integers(0, cols, 5):
        target[start:] = np.roll(target[start:], int(rng.integers(1, 40)))
    return query, target


def lattice(length, lines):
    """About `lines` boundary indices in uneven steps, the last one `length`."""
    return tuple(sorted({length} | {max(1, length * k // lines - k) for k in range(1, lines)}))


def check(gpu, cpu, work):
    for job, got, want in zip(work, gpu.sweep(work), cpu.sweep(work), strict=True):
        assert_same_result(job, got, want)


@pytest.mark.parametrize("rows", [64 * 10, 64 * 100 + 31])
@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_lengths_around_strips_and_row_blocks(gpu, cpu, rows, spare):
    rng = np.random.default_rng(rows + spare)
    pairs = [related(rng, rows + step, 8 * 1024 + spare) for step in (-1, 0, 1)]
    check(gpu, cpu, [whole_matrix(*pair, Scoring(), local) for pair in pairs for local in (True, False)])


@pytest.mark.parametrize("local", [True, False], ids=["local", "global"])
@pytest.mark.parametrize("side", [20_000, 150_000])
@pytest.mark.parametrize("scoring", [DNA, Scoring(preset="lastz"), NUC], ids=["DNA", "HOXD70", "NUC.4.4"])
def test_pruned_sweeps_find_what_whole_ones_do(gpu, cpu, side, local, scoring):
    """Most row blocks are left out; on the last row and column, values that reach the bound are exact."""
    rng = np.random.default_rng(side)
    query = rng.integers(0, 4, side, np.uint8)
    target = mutated(query, side + 1000, 0.02, rng)
    whole_job = replace(whole_matrix(query, target, scoring, local), of_matrix=True)
    [whole] = cpu.sweep([whole_job])
    ahead = gains(query, target, scoring)
    bound = int(whole.best.score if local else whole.rows[-1].h[-1])
    job = replace(whole_job, pruning=Pruning(bound, ahead.query, ahead.target, local))
    if side <= 20_000:
        job = replace(job, rows=lattice(side, 5), cols=lattice(side + 1000, 7))
    [result] = gpu.sweep([job])
    assert result.cells_left_out > 0.5 * job.cells
    if local:
        assert result.best == whole.best
    for got, want in ((result.rows[-1], whole.rows[-1]), (result.cols[-1], whole.cols[-1])):
        assert (got.h <= want.h).all()
        assert (got.h[want.h >= bound] == want.h[want.h >= bound]).all()


@pytest.mark.parametrize("block_rows", [16, 32, 64])
@pytest.mark.parametrize("columns", [5, 8, 16])
def test_row_blocks_of_any_height(cpu, columns, block_rows):
    """The compiler once stored snapshots at wrong addresses where a lane loads one row of each row block."""
    rng = np.random.default_rng(columns)
    gpu = cuda_backend(columns=columns, block_rows=block_rows)
    pairs = [related(rng, rows, 1300) for rows in (350, 2001)]
    check(gpu, cpu, [whole_matrix(*pair, Scoring(), local) for pair in pairs for local in (True, False)])


def test_more_strips_than_warps(gpu, cpu):
    rng = np.random.default_rng(1)
    check(gpu, cpu, [whole_matrix(*related(rng, 70, 2_500_000), Scoring(), True)])


def test_more_row_blocks_than_strips(gpu, cpu):
    rng = np.random.default_rng(2)
    check(gpu, cpu, [whole_matrix(*related(rng, 1_500_000, 70), Scoring(), True)])


@pytest.mark.parametrize(
    "scoring",
    [Scoring(), LARGE_SCORES, PROTEIN, LARGE_PROTEIN],
    ids=["bytes", "compare", "profile", "wide profile"],
)
@pytest.mark.parametrize("local", [True, False], ids=["local", "global"])
def test_lattices(gpu, cpu, scoring, local):
    rng = np.random.default_rng(3)
    rows, cols = 9_001, 12_345
    job = whole_matrix(*related(rng, rows, cols, letters_of(scoring)), scoring, local)
    check(gpu, cpu, [replace(job, rows=lattice(rows, 17), cols=lattice(cols, 23))])


@pytest.mark.parametrize("state", State)
def test_every_entry_state(gpu, cpu, state):
    rng = np.random.default_rng(4)
    rows, cols = 3_000, 5_000
    query, target = related(rng, rows, cols)
    top, left = entry_edges(state, rows, cols, Scoring(), 12_345)
    check(gpu, cpu, [SweepJob(query, target, Scoring(), top, left, False, (rows,), (cols,), False)])


def test_a_long_work_list(gpu, cpu):
    rng = np.random.default_rng(5)
    work = []
    for number in range(600):
        rows, cols = (int(length) for length in rng.integers(1, 1_500, 2))
        job = whole_matrix(*related(rng, rows, cols), Scoring(), number % 2 == 0, best=number % 3 > 0)
        work.append(replace(job, rows=lattice(rows, 3), cols=lattice(cols, 4)))
    check(gpu, cpu, work)


@pytest.mark.parametrize("unit", [[0], [0, 1], [0, 0, 1], [0, 1, 2, 3]], ids=["A", "AC", "AAC", "ACGT"])
def test_ties_among_best_cells_of_repeats(gpu, cpu, unit):
    query, target = np.resize(np.array(unit, np.uint8), 4_000), np.resize(np.array(unit, np.uint8), 9_000)
    free_gaps = Scoring(match=1, mismatch=-1, gap_open=0, gap_extend=0)
    check(gpu, cpu, [whole_matrix(query, target, scoring, True) for scoring in (Scoring(), free_gaps)])


def test_tied_best_cells_in_different_row_blocks(gpu, cpu):
    """Many row blocks contain the best score, and the right one must be replayed."""
    work = [
        whole_matrix(*scattered(3_000, 5_000, words, seed), Scoring(), True)
        for words in (2, 40)
        for seed in range(20)
    ]
    check(gpu, cpu, work)


def test_nearly_tied_best_cells_in_different_row_blocks(gpu, cpu):
    """High scores of several alignments that compete. Row blocks then watch alternate rows only."""
    work = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        word = rng.integers(0, 4, 500, np.uint8)
        sides = [
            [mutated(word, int(rng.integers(495, 506)), 0.005, rng) for _ in range(12)] for _ in range(2)
        ]
        spacers = rng.integers(0, 4, (2, 12, 150), np.uint8)
        query, target = (
            np.concatenate([part for pair in zip(side, between, strict=True) for part in pair])
            for side, between in zip(sides, spacers, strict=True)
        )
        work.append(whole_matrix(query, target, Scoring(), True))
    check(gpu, cpu, work)


@pytest.mark.parametrize(
    "scoring",
    [Scoring(1, -3, 3, 62), Scoring(100, -100, 7, 20), Scoring(1, -128, 0, 0), Scoring(127, 0, 0, 0)],
    ids=str,
)
@pytest.mark.parametrize("local", [True, False], ids=["local", "global"])
def test_long_matches_and_long_gaps_at_the_limit_of_16_bits(gpu, cpu, scoring, local):
    """Values rise as fast as they can, then fall as fast as they can, across several strips."""
    rng = np.random.default_rng(7)
    shared = rng.integers(0, 4, 6_000, np.uint8)
    query = np.concatenate([shared[:3_000], rng.integers(0, 4, 4_000, np.uint8), shared[3_000:]])
    target = np.concatenate([shared, rng.integers(0, 4, 5_000, np.uint8), shared])
    job = whole_matrix(query, target, scoring, local)
    check(gpu, cpu, [replace(job, rows=lattice(len(query), 5), cols=lattice(len(target), 5))])


@pytest.mark.parametrize("value", [(1 << 30) + 12_345, -(1 << 30) - 12_345])
def test_values_beyond_16_bits_have_a_base(gpu, cpu, value):
    rng = np.random.default_rng(8)
    rows, cols = 3_000, 5_000
    query, target = related(rng, rows, cols)
    top, left = entry_edges(State.H, rows, cols, Scoring(), value)
    check(gpu, cpu, [SweepJob(query, target, Scoring(), top, left, False, (77, rows), (88, cols), True)])


def test_runs_of_ambiguous_letters(gpu, cpu):
    rng = np.random.default_rng(9)
    query, target = related(rng, 5_000, 7_000)
    for start in (0, 63, 64, 300, 1_000, 4_990):  # that from 300 on ends with a row block
        query[start : start + 20], target[start : start + 33] = QUERY_N, TARGET_N
    check(gpu, cpu, [whole_matrix(query, target, Scoring(), local) for local in (True, False)])


@pytest.mark.parametrize(("numbers", "columns"), KINDS)
def test_no_races(cpu, numbers, columns):
    """The same input gives the same output, however warps are scheduled: 200 sweeps of each kernel."""
    gpu = cuda_backend(numbers=numbers, columns=columns)
    width = columns * (64 if numbers == "packed" else 32)
    for seed in range(25):
        rng = np.random.default_rng(seed)
        rows, strips = int(rng.integers(40, 4_000)), 2 * int(rng.integers(1, 150)) + 1
        cols = strips * width - int(rng.integers(0, 40))
        job = whole_matrix(*related(rng, rows, cols), Scoring(), True)
        job = replace(job, rows=lattice(rows, 3))
        [want] = cpu.sweep([job])
        for swept in gpu.sweep([job] * 6) + gpu.sweep([job]) + gpu.sweep([job]):
            assert_same_result(job, swept, want)


@pytest.mark.parametrize(("numbers", "columns"), [("packed", 8), ("packed", 16), ("int32", 8)])
def test_no_races_between_profiles(cpu, numbers, columns):
    """Matrices of different sizes in one launch, and more strips than warps: profiles are replaced."""
    gpu = cuda_backend(numbers=numbers, columns=columns)
    rng = np.random.default_rng(11)
    small = Scoring(gap_open=10, gap_extend=1, matrix=matrix_of(np.array(PROTEIN.matrix.scores)[:5, :5]))
    work = [
        whole_matrix(*related(rng, rows, cols, letters_of(scoring)), scoring, True)
        for scoring in (PROTEIN, small)
        for rows, cols in ((300, 1_200_000), (1_000, 70_001), (7, 9))
    ]
    want = cpu.sweep(work)
    for _ in range(10):
        for job, got, one in zip(work, gpu.sweep(work), want, strict=True):
            assert_same_result(job, got, one)


@pytest.mark.parametrize(("numbers", "columns"), KINDS)
def test_no_races_with_more_strips_than_can_be_resident(cpu, numbers, columns):
    gpu = cuda_backend(numbers=numbers, columns=columns)
    width = columns * (64 if numbers == "packed" else 32)
    rng = np.random.default_rng(10)
    job = whole_matrix(*related(rng, 200, 4_001 * width - 7), Scoring(), True)
    [want] = cpu.sweep([job])
    for _ in range(20):
        [swept] = gpu.sweep([job])
        assert_same_result(job, swept, want)


@pytest.mark.parametrize("numbers", ["packed", "int32"])
def test_no_races_between_bands(cpu, numbers):
    """Bands of few rows, so that strips of many bands run side by side, with a lattice through them."""
    gpu = cuda_backend(numbers=numbers, columns=4, band_rows=400)
    for seed in range(10):
        rng = np.random.default_rng(seed)
        job = whole_matrix(*related(rng, int(rng.integers(3_000, 9_000)), 300_000), Scoring(), True)
        job = replace(job, rows=lattice(len(job.query), 7), cols=lattice(len(job.target), 3))
        [want] = cpu.sweep([job])
        for _ in range(10):
            [swept] = gpu.sweep([job])
            assert_same_result(job, swept, want)


class StopError(Exception):
    pass


def test_a_sweep_stopped_in_the_middle_leaves_the_device_usable(cpu):
    gpu = cuda_backend()
    rng = np.random.default_rng(6)
    large = whole_matrix(*related(rng, 1_500_000, 1_500_000), Scoring(), True)
    seen = []

    def stop_once_it_runs(cells):
        seen.append(cells)
        if cells > 0:
            raise StopError

    with pytest.raises(StopError):
        gpu.sweep([large], stop_once_it_runs)
    assert 0 < sum(seen) < large.cells
    check(gpu, cpu, [whole_matrix(*related(rng, 5_000, 5_000), Scoring(), True)])


class TestTraces(TraceConformance):
    """Lengths around the columns of a lane, the rows that are read together, and the width of a strip."""

    interesting_lengths = (8, 32, 256)
    largest_job = 20_000

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls):
        return cuda_backend()


def leaf(rng, rows, cols, scoring=DNA):
    states = rng.choice(list(State), 2) if min(rows, cols) > 1 else (State.H, State.H)
    return TraceJob(*related(rng, rows, cols, letters_of(scoring)), scoring, *map(State, states))


def check_paths(gpu, cpu, work):
    for job, got, want in zip(work, gpu.trace(work), cpu.trace(work), strict=True):
        assert_same_path(job, got, want)


@pytest.mark.parametrize("scoring", [DNA, TIES, LARGE_SCORES, PROTEIN], ids=attrgetter("letter_scores"))
def test_many_leaves(cpu, scoring):
    rng = np.random.default_rng(11)
    check_paths(cuda_backend(), cpu, [leaf(rng, *rng.integers(1, 700, 2), scoring) for _ in range(5_000)])


def test_large_leaves_and_thin_ones(cpu):
    rng = np.random.default_rng(12)
    shapes = [(4_096, 4_096), (5_000, 3_000), (1, 1 << 18), (1 << 18, 1), (33, 100_000), (100_000, 33)]
    check_paths(cuda_backend(), cpu, [leaf(rng, *shape) for shape in shapes])


def test_leaves_in_several_launches(cpu, monkeypatch):
    from longalign.backends.cuda.launch import traceback

    monkeypatch.setattr(traceback, "_LAUNCH_BYTES", 1 << 23)
    rng = np.random.default_rng(13)
    gpu, work = cuda_backend(), [leaf(rng, *rng.integers(1, 1_500, 2)) for _ in range(100)]
    counts = []
    gpu.trace(work, counts.append)
    assert len(counts) > 3
    check_paths(gpu, cpu, work)


def test_paths_do_not_depend_on_how_warps_are_scheduled(cpu):
    rng = np.random.default_rng(14)
    gpu, work = cuda_backend(), [leaf(rng, *rng.integers(1, 600, 2), TIES) for _ in range(2_000)]
    for _ in range(20):
        check_paths(gpu, cpu, work)


class TestStarts(StartConformance):
    """Lengths around the columns of a lane, the rows of a row block, and the width of a strip."""

    interesting_lengths = (8, 32, 256)
    largest_job = 20_000

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls):
        return cuda_backend()


def rectangle(rng, rows, cols, scoring=DNA, local=True):
    return whole_matrix(*related(rng, rows, cols, letters_of(scoring)), scoring, local)


def check_starts(gpu, cpu, work):
    for job, got, want in zip(work, gpu.starts(work), cpu.starts(work), strict=True):
        for ours, theirs in ((got.bottom, want.bottom), (got.right, want.right)):
            assert (ours.h == theirs.h).all()
            assert (ours.gap == theirs.gap).all()
        assert (got.bottom.h.shape, got.right.h.shape) == ((len(job.target),), (len(job.query),))


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize("scoring", [DNA, TIES, LARGE_SCORES, PROTEIN], ids=attrgetter("letter_scores"))
def test_starts_of_many_rectangles(cpu, scoring, local):
    rng = np.random.default_rng(15)
    work = [rectangle(rng, *rng.integers(1, 900, 2), scoring, local) for _ in range(3_000)]
    check_starts(cuda_backend(), cpu, work)


def test_starts_of_large_rectangles_and_thin_ones(cpu):
    rng = np.random.default_rng(16)
    shapes = [(40_000, 40_000), (5_000, 200_001), (1, 1 << 18), (1 << 18, 1), (33, 300_000), (300_000, 33)]
    check_starts(cuda_backend(), cpu, [rectangle(rng, *shape) for shape in shapes])


def test_starts_do_not_depend_on_how_warps_are_scheduled(cpu):
    """Few rectangles with many strips, so that strips wait for one another."""
    rng = np.random.default_rng(17)
    gpu, work = cuda_backend(), [rectangle(rng, 700, 100_003, scoring) for scoring in (TIES, TIES, PROTEIN)]
    for _ in range(20):
        check_starts(gpu, cpu, work)


def test_starts_in_several_launches(cpu, monkeypatch):
    from longalign.backends.cuda.launch import start_states

    monkeypatch.setattr(start_states, "_LAUNCH_CELLS", 1 << 22)
    rng = np.random.default_rng(18)
    gpu, work = cuda_backend(), [rectangle(rng, *rng.integers(1, 1_500, 2)) for _ in range(100)]
    counts = []
    gpu.starts(work, counts.append)
    assert len(counts) > 3
    check_starts(gpu, cpu, work)


def test_a_lattice_that_exceeds_the_memory_is_refused_with_figures():
    gpu = cuda_backend()
    rows, cols = 1_000_000, 1_000_000
    letters = np.zeros(rows, np.uint8)
    top, left = local_edges(rows, cols)
    job = SweepJob(letters, letters, Scoring(), top, left, True, tuple(range(1, rows + 1)))
    with pytest.raises(BackendError, match=r"free memory.* GB"):
        gpu.sweep([job])


def test_a_tile_fits_and_covers():
    gpu = cuda_backend()
    for rows, cols in [(1, 1), (4_600_000, 5_500_000), (10**8, 10**8), (10**4, 10**8), (10**8, 10**4)]:
        tile_rows, tile_cols = gpu.tile_shape(rows, cols)
        assert 1 <= tile_rows <= rows
        assert 1 <= tile_cols <= cols


def test_a_device_that_is_not_there():
    from longalign.backends.cuda.backend import CudaBackend

    with pytest.raises(BackendError, match="cuda:99"):
        CudaBackend(99)


def test_parts_get_the_memory_that_the_whole_and_earlier_parts_held(monkeypatch):
    from longalign.backends.cuda.launch.device_memory import Workspace, max_boundary_cells

    backend = cuda_backend()
    letters = np.random.default_rng(1).integers(0, 4, (2, 500), np.uint8)
    job = whole_matrix(*letters, DNA, True)
    backend.sweep([job])
    assert backend._workspace.block_bytes > 0
    two = backend.parts(2, 1 << 20, streams=True)
    assert (len(two), backend._workspace.block_bytes) == (2, 0)
    for part in two:
        part.sweep([job])
    # Other processes may use the GPU, so what is free is made a constant.
    free = 1 << 30
    monkeypatch.setattr(Workspace, "free_bytes", lambda _: free)
    half = max_boundary_cells(free + sum(part._held_bytes for part in two)) // 2
    assert half > max_boundary_cells(free) // 2
    assert backend.parts(2, half, streams=True) is two
    assert backend.parts(2, 1 << 20, streams=True) is two
    assert len(backend.parts(3, 1 << 20, streams=True)) == 3
    assert backend.parts(2, 1 << 20, streams=True) is not two


def test_back_ends_that_share_a_gpu_load_a_kernel_at_once():
    from longalign.backends.cuda import kernel_library

    kernel_library.dispatcher.cache_clear()
    backends, together = [cuda_backend() for _ in range(8)], Barrier(8)
    letters = np.random.default_rng(1).integers(0, 4, (2, 500), np.uint8)
    job = whole_matrix(*letters, DNA, True)

    def sweep(backend):
        together.wait()
        return backend.sweep([job])

    with ThreadPoolExecutor(len(backends)) as threads:
        [first], *others = threads.map(sweep, backends)
    for [result] in others:
        assert_same_result(job, result, first)


@pytest.mark.parametrize("mode", ["local", "global"])
@pytest.mark.parametrize("stored", [True, False])
def test_a_band_that_is_swept_in_several_places_at_once(mode, stored, monkeypatch, tmp_path):
    """Alignment and score are those of an unpruned run; so are they after guesses that are wrong."""
    rng = np.random.default_rng(21)
    query = rng.integers(0, 4, 500_000, np.uint8)
    target = mutated(query, 500_000, 0.01, rng)
    pair = spell(query, Scoring()), spell(target, Scoring())
    options = {"mode": mode, "backend": "cuda"}
    whole, found = longalign.align(*pair, prune="off", **options), {}

    def noted(line, *arguments):
        found[line.row] = difference(line, *arguments)
        return found[line.row]

    monkeypatch.setattr(TimeBudget, "allows_words", lambda *_: True)
    monkeypatch.setattr(planner, "_CHUNKS_IN_SMALL_SIDE", 1)
    monkeypatch.setattr(guessed_lines, "_LONGEST_REPEAT", 1 << 12)
    monkeypatch.setattr(score, "difference", noted)
    for margin, accepted in ((guessed_lines._MARGIN, True), (-(1 << 11), False)):
        found.clear()
        monkeypatch.setattr(guessed_lines, "_MARGIN", margin)
        store = tmp_path / str(accepted) if stored else None
        pruned = longalign.align(*pair, store=store, **options)
        assert (pruned.score, pruned.query_end, pruned.cigar) == (whole.score, whole.query_end, whole.cigar)
        assert len(found) > 2
        assert all((added is not None) == accepted for added in found.values())
        found.clear()
        scored = longalign.score(*pair, **options)
        assert (scored.score, scored.i) == (whole.score, whole.query_end)
        assert len(found) > 2


@pytest.mark.parametrize("mode", ["local", "global"])
@pytest.mark.parametrize("stored", [True, False])
def test_two_tiles_at_once_whose_boundaries_are_fetched_meanwhile(mode, stored, monkeypatch, tmp_path):
    """Alignment and score are those of one tile."""
    from longalign.backends.cuda.backend import CudaBackend
    from longalign.backends.cuda.launch import download
    from longalign.backends.cuda.planning import kernel_shape

    rng = np.random.default_rng(22)
    query = rng.integers(0, 4, 300_000, np.uint8)
    target = mutated(query, 300_000, 0.02, rng)
    pair = spell(query, Scoring()), spell(target, Scoring())
    options = {"mode": mode, "backend": "cuda", "prune": "off"}
    whole, under_way, most = longalign.align(*pair, **options), [], []

    class Noted(download.Download):
        def __enter__(self):
            under_way.append(self)
            return super().__enter__()

        def __exit__(self, *error):
            super().__exit__(*error)
            under_way.remove(self)

        def advance(self, least):
            most.append(len(under_way))
            super().advance(0)

    monkeypatch.setattr("longalign.backends.cuda.backend.Download", Noted)
    monkeypatch.setattr(download, "_WORTH_STREAMING", 0)
    monkeypatch.setattr(kernel_shape, "_WORTH_TWO_AT_ONCE", 0)
    monkeypatch.setattr(CudaBackend, "tile_shape", lambda *_: (60_000, 150_000))
    store = {"store": tmp_path / "store"} if stored else {}
    tiled = longalign.align(*pair, **options, **store)
    assert (tiled.score, tiled.query_end, tiled.cigar) == (whole.score, whole.query_end, whole.cigar)
    assert max(most) == 2


def test_several_alignments_with_two_tiles_at_once(monkeypatch):
    """They are those of one small tile after the other."""
    from longalign.backends.cuda.backend import CudaBackend
    from longalign.backends.cuda.planning import kernel_shape
    from longalign.run import pipeline, planner

    rng = np.random.default_rng(23)
    query = rng.integers(0, 4, 250_000, np.uint8)
    first, second = (mutated(query[start:], 120_000, 0.05, rng) for start in (0, 100_000))
    pair = spell(query, Scoring()), spell(np.concatenate([second, first]), Scoring())
    monkeypatch.setattr(pipeline, "find_bound", lambda *_: None)
    monkeypatch.setattr(planner, "_CHUNKS_IN_UNPRUNED_SIDE", 1)
    parts, sweepers = CudaBackend.parts, []

    def noted(self, *arguments, **options):
        sweepers.extend(parts(self, *arguments, **options))
        return sweepers

    def found():
        best = longalign.best_alignments(*pair, 5, backend="cuda")
        return [(one.score, one.query_end, one.target_end, one.cigar) for one in best]

    monkeypatch.setattr(CudaBackend, "parts", noted)
    one_by_one = found()
    assert len(one_by_one) == 5
    assert sweepers == []
    monkeypatch.setattr(kernel_shape, "_WORTH_TWO_SMALL", 0)
    assert found() == one_by_one
    assert len(sweepers) == 2


@pytest.mark.slow
def test_every_kernel_is_compiled_in_processes_and_then_on_disk(monkeypatch, tmp_path):
    """The part of `longalign devices --compile` that needs the GPU."""
    from longalign.backends import kernel_cache
    from longalign.backends.compile_processes import compile_all, kernels_to_compile

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    kernel_cache.cache_directory.cache_clear()
    backend = cuda_backend()
    missing = [kernel.name for kernel in backend.kernels()]
    assert len(set(missing)) == len(missing) > 20
    compile_all(backend, missing, lambda: None)
    assert kernels_to_compile(backend) == ([], len(missing))
    for scoring in (DNA, LARGE_SCORES, PROTEIN, LARGE_PROTEIN):
        path = [kernel.name for kernel in backend.kernels(scoring, local=True)]
        assert len(path) > 2
        assert set(path) <= set(missing)
    kernel_cache.cache_directory.cache_clear()
