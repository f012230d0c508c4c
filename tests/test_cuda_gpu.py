"""The CUDA back end on a real GPU: conformance, sizes that fill it, races, and being stopped."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest

from longalign.backends.base import SweepJob
from longalign.backends.cpu import CpuBackend
from longalign.boundary import State, entry_edges, local_edges
from longalign.errors import BackendError
from longalign.scoring import Scoring
from longalign.testing import SweepConformance, assert_same_result, whole_matrix

pytestmark = pytest.mark.gpu

BATCH = 32
LARGE_SCORES = Scoring(match=1000, mismatch=-1500, gap_open=2000, gap_extend=700)


def cuda_backend(columns=None):
    pytest.importorskip("numba_cuda")
    from longalign.backends.cuda.backend import CudaBackend

    return CudaBackend(columns=columns)


@pytest.fixture(scope="module")
def cpu():
    return CpuBackend(len(os.sched_getaffinity(0)))


@pytest.fixture(scope="module", params=[None, 4, 8, 16])
def gpu(request):
    return cuda_backend(request.param)


class TestNarrowStrips(SweepConformance):
    """What the back end chooses for small rectangles: 4 columns a lane."""

    interesting_lengths = (BATCH, 128)
    largest_job = 20_000

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls):
        return cuda_backend()


class TestWideStrips(TestNarrowStrips):
    """What it chooses for large ones: 16 columns a lane."""

    interesting_lengths = (BATCH, 512)
    effort = 0.5

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls):
        return cuda_backend(16)


def related(rng, rows, cols):
    """A query and a target that share long stretches, with substitutions and a few gaps."""
    query = rng.integers(0, 4, rows, np.uint8)
    target = np.resize(query, cols)
    at = rng.integers(0, cols, cols // 20)
    target[at] = rng.integers(0, 4, len(at), np.uint8)
    for start in rng.integers(0, cols, 5):
        target[start:] = np.roll(target[start:], int(rng.integers(1, 40)))
    return query, target


def lattice(length, lines):
    """About `lines` boundary indices in uneven steps, the last one `length`."""
    return tuple(sorted({length} | {max(1, length * k // lines - k) for k in range(1, lines)}))


def check(gpu, cpu, work):
    for job, got, want in zip(work, gpu.sweep(work), cpu.sweep(work), strict=True):
        assert_same_result(job, got, want)


@pytest.mark.parametrize("rows", [BATCH * 10, BATCH * 100 + 31])
@pytest.mark.parametrize("spare", [-1, 0, 1])
def test_lengths_around_strips_and_batches(gpu, cpu, rows, spare):
    rng = np.random.default_rng(rows + spare)
    pairs = [related(rng, rows + step, 16 * 512 + spare) for step in (-1, 0, 1)]
    check(gpu, cpu, [whole_matrix(*pair, Scoring(), local) for pair in pairs for local in (True, False)])


def test_more_strips_than_warps(gpu, cpu):
    rng = np.random.default_rng(1)
    check(gpu, cpu, [whole_matrix(*related(rng, 70, 2_500_000), Scoring(), True)])


def test_more_batches_than_strips(gpu, cpu):
    rng = np.random.default_rng(2)
    check(gpu, cpu, [whole_matrix(*related(rng, 1_500_000, 70), Scoring(), True)])


@pytest.mark.parametrize("scoring", [Scoring(), LARGE_SCORES], ids=["bytes", "compare"])
@pytest.mark.parametrize("local", [True, False], ids=["local", "global"])
def test_lattices(gpu, cpu, scoring, local):
    rng = np.random.default_rng(3)
    rows, cols = 9_001, 12_345
    job = whole_matrix(*related(rng, rows, cols), scoring, local)
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


@pytest.mark.parametrize("columns", [4, 16])
def test_no_races(cpu, columns):
    """Same input, same output, however the warps happen to be scheduled."""
    gpu = cuda_backend(columns)
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rows, strips = int(rng.integers(40, 4_000)), 2 * int(rng.integers(1, 150)) + 1
        cols = strips * columns * 32 - int(rng.integers(0, 40))
        job = whole_matrix(*related(rng, rows, cols), Scoring(), True)
        job = replace(job, rows=lattice(rows, 3))
        [want] = cpu.sweep([job])
        for swept in gpu.sweep([job] * 5) + gpu.sweep([job]) + gpu.sweep([job]):
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


def test_a_lattice_beyond_the_memory_is_refused_with_figures():
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
