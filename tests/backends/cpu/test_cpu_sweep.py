"""What is particular to the CPU sweep: its cuts, its kernels, its number widths, its threads.

That it computes what the oracle computes is the conformance suite's part (`test_conformance.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from itertools import pairwise, product
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from examples import share_of_examples
from hypothesis import given
from hypothesis import strategies as st
from llvmlite import binding

from longalign.backends.base import SweepJob
from longalign.backends.compilation import compiles_reported, waiting_for_compiler
from longalign.backends.cpu import CpuBackend, SweepGeometry, backend, worker, workspace
from longalign.backends.cpu.config import KernelConfig
from longalign.backends.cpu.jit import compile_callee
from longalign.backends.cpu.number_widths import edge_extremes, value_bounds
from longalign.backends.cpu.worker import kernel_address
from longalign.backends.cpu.worklist import cut_columns
from longalign.errors import BackendError
from longalign.model.boundary import BestCell, State, entry_edges, local_edges
from longalign.model.scoring import UNREACHABLE, Scoring
from longalign.run.planner import plan
from longalign.run.request import Request, Resources
from longalign.testing.conformance import edge_lengths
from longalign.testing.inputs import matrix_of, mutated
from longalign.testing.reference import ReferenceBackend, matrices
from longalign.testing.sweep_jobs import assert_same_result, jobs, whole_matrix

#: Three columns a lane, so that the halves in which they are unrolled differ, and strips of up to 24 columns.
TINY = SweepGeometry(columns=3, lanes=8, group=4, block_rows=16, min_rows=4)
TINY_LENGTHS = (3, 12, 16, 24)

RESULTS = Path(__file__).parents[3] / "experiments" / "results"

#: The number widths for a back end that uses specialised kernels from its first sweep on.
WIDTHS = (8, 16)


def check(cpu: CpuBackend, work: list[SweepJob]) -> None:
    for job, got, want in zip(work, cpu.sweep(work), ReferenceBackend().sweep(work), strict=True):
        assert_same_result(job, got, want)


def test_fewer_threads_do_where_the_system_has_no_more(monkeypatch):
    """The number of helper threads that can be started: none, or one of two."""
    work = [random_job(200, 300, True)]
    for spare in (0, 1):
        started = []

        class Scarce(threading.Thread):
            def start(self, started=started, spare=spare):
                if len(started) == spare:
                    raise RuntimeError("can't start new thread")
                started.append(self)
                super().start()

        with monkeypatch.context() as patched:
            patched.setattr(backend.threading, "Thread", Scarce)
            check(CpuBackend(3, TINY), work)
        assert len(started) == spare


def random_job(rows: int, cols: int, local: bool, seed: int = 0, state: State = State.H) -> SweepJob:
    rng = np.random.default_rng(seed)
    query = rng.integers(0, 4, rows, np.uint8)
    top, left = local_edges(rows, cols) if local else entry_edges(state, rows, cols, Scoring())
    return SweepJob(query, mutated(query, cols, 0.1, rng), Scoring(), top, left, local, (rows,), (cols,))


def matrix_job(rows: int, cols: int, letters: int) -> SweepJob:
    """Letters scored by a substitution matrix. The largest letter may be the last one of any alphabet."""
    rng = np.random.default_rng(rows + cols)
    matrix = matrix_of(rng.integers(-6, 4, (letters, letters)) + 6 * np.eye(letters, dtype=int))
    query = rng.integers(0, letters, rows, np.uint8)
    query[-1] = letters - 1
    target = mutated(query, cols, 0.1, rng, letters)
    return whole_matrix(query, target, Scoring(gap_open=7, gap_extend=1, matrix=matrix), letters % 2 == 0)


# --- how a rectangle is cut --------------------------------------------------------------------------


@given(st.data())
def test_strips_cover_the_columns_and_end_where_a_column_is_wanted(data):
    cols = data.draw(st.integers(1, 300))
    wanted = sorted(data.draw(st.sets(st.integers(1, cols))))
    stops = cut_columns(cols, wanted, TINY, data.draw(st.integers(1, 4)))
    widths = [stop - start for start, stop in pairwise([0, *stops])]
    assert stops[-1] == cols
    assert set(wanted) <= set(stops)
    assert all(0 < width <= TINY.strip for width in widths)


@pytest.mark.parametrize(
    ("cols", "threads", "groups"),
    [
        (100, 2, [1]),
        (1023, 2, [2]),
        (1025, 2, [2, 1]),
        (2048, 2, [2, 2]),
        (2049, 2, [3, 2]),
        (5 * 2048, 2, [4, 4, 4, 4, 4]),
        (5 * 2048, 4, [3, 3, 3, 3, 3, 3, 2]),
    ],
)
def test_strips_are_whole_groups_of_lanes(cols, threads, groups):
    geometry = SweepGeometry()
    group = geometry.columns * geometry.group
    stops = cut_columns(cols, (), geometry, threads)
    widths = [stop - start for start, stop in pairwise([0, *stops])]
    assert [-(-width // group) for width in widths] == groups
    assert all(width % group == 0 for width in widths[:-1])


def test_lines_of_a_lattice_lie_between_groups_of_lanes():
    """A part of a group takes as long as all of it."""
    cpu, geometry = CpuBackend(2), SweepGeometry()
    grid = plan(Request(1_044_459, 1_072_950), Resources([cpu], 16 << 30))
    assert len(grid.col_cuts) > 50
    assert all(cut % (geometry.columns * geometry.group) == 0 for cut in grid.col_cuts[:-1])


def test_geometry_of_broken_groups_is_refused():
    with pytest.raises(ValueError, match="not whole groups"):
        SweepGeometry(lanes=10, group=4)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_tile_is_inside_the_matrix_and_has_a_bounded_number_of_cells(threads):
    cpu = CpuBackend(threads)
    assert cpu.tile_shape(16_000, 20_000) == (16_000, 20_000)
    for rows, cols in [(10**8, 10**8), (10**8, 1_000), (1, 10**9), (3 * 10**6, 10**8)]:
        height, width = cpu.tile_shape(rows, cols)
        assert 1 <= height <= rows
        assert 1 <= width <= cols
        assert height * width <= max(threads << 37, rows * cols // 256)
        assert height * width >= min(rows * cols, threads << 36)


# --- how long it takes


def seconds(threads=2, size=(10**6, 10**6), scoring=Scoring(), local=True):  # noqa: B008
    return CpuBackend(threads).sweep_seconds(*size, scoring, local)


def test_more_threads_take_less_time_where_columns_are_for_all_of_them():
    assert seconds(16) == pytest.approx(seconds(1) / 16)
    assert seconds(16, (10**6, 500)) == seconds(1, (10**6, 500))


def test_wide_numbers_and_matrices_take_longer():
    large = Scoring(500, -400, 1_000, 300)
    protein = Scoring(gap_open=3, gap_extend=2, matrix=matrix_of([[4, -1], [-1, 4]]))
    assert seconds() < seconds(local=False) < seconds(scoring=large) == seconds(scoring=large, local=False)
    assert seconds(scoring=large) < seconds(scoring=protein)


def test_sweeps_were_measured_to_take_about_what_is_expected():
    results = json.loads((RESULTS / "golden_cpu.json").read_text())["pairs"]
    phases = [phase for pair in results for phase in pair["phases"] if phase["name"] == "score"]
    long = [phase for phase in phases if phase["seconds"] > 1]
    for phase in long:
        side = int((phase["cells"] - phase["left_out"]) ** 0.5)
        assert 1 / 3 < seconds(2, (side, side)) / phase["seconds"] < 3
    assert long


# --- edges of lanes, groups, strips and blocks -------------------------------------------------------


@pytest.mark.slow
@share_of_examples(0.6)
@given(work=st.lists(jobs(TINY_LENGTHS, 1500), min_size=1, max_size=3), threads=st.integers(1, 3))
def test_lanes_of_an_odd_number_of_columns(work, threads):
    check(CpuBackend(threads, TINY, WIDTHS), work)


@pytest.mark.parametrize("widths", [None, WIDTHS])
@pytest.mark.parametrize("local", [True, False])
def test_edge_lengths_of_the_geometry_in_use(local, widths):
    geometry = SweepGeometry()
    across = edge_lengths((geometry.columns, geometry.columns * geometry.group, geometry.strip))
    down = edge_lengths((geometry.group, geometry.block_rows))
    shapes = [(rows, cols) for rows, cols in product(down, across) if rows * cols <= 10_000]
    cpu = CpuBackend(1, geometry, widths)
    check(cpu, [random_job(rows, cols, local, rows + cols) for rows, cols in shapes])


def test_nothing_outside_the_working_arrays_is_touched(monkeypatch):
    """Kernels do not check indices. The numbers before and after their arrays must stay unchanged."""
    fences = []

    def fenced(length: int, dtype: np.dtype) -> np.ndarray:
        raw = np.full(length * dtype.itemsize + 2 * 4096, 0xA5, np.uint8)
        fences.extend([raw[:4096], raw[-4096:]])
        array = raw[4096:-4096].view(dtype)
        array[:] = 0
        return array

    monkeypatch.setattr(workspace, "_aligned", fenced)
    cpu = CpuBackend(2, TINY, WIDTHS)
    lengths = edge_lengths(TINY_LENGTHS)
    work = [
        random_job(rows, cols, local) for rows, cols in product(lengths, lengths) for local in (True, False)
    ]
    work += [random_job(rows, 25, False, state=state) for rows in lengths for state in State]
    work += [
        matrix_job(rows, cols, letters) for rows, cols in product(lengths, lengths) for letters in (2, 32)
    ]
    cpu.sweep(work)
    assert fences
    assert all((fence == 0xA5).all() for fence in fences)


# --- number widths -----------------------------------------------------------------------------------


@given(job=jobs((3, 12), 200))
def test_every_number_of_a_block_lies_within_the_bounds(job):
    """The proof in `number_widths.py`, checked on DP matrices of the oracle."""
    rows, cols = len(job.query), len(job.target)
    record = np.zeros(1, workspace.JOB)[0]
    for name in ("highest", "lowest", "gap_open", "gap_extend"):
        record[name] = getattr(job.scoring, name)
    record = np.rec.array(record)
    record.local = job.local
    h, e, f = (np.array(matrix, np.int64) for matrix in matrices(job))
    edge_values = np.concatenate([job.top.h, job.left.h])
    if edge_values.min() < UNREACHABLE:
        return  # With minus infinity on an edge, the block is swept in 32 bits.
    edges = workspace.BlockEdges(job.top.h, job.top.gap, job.left.h, job.left.gap, *[job.top.h] * 4)
    lowest, highest = (int(value) for value in edge_extremes.py_func(edges, rows, cols))
    low, high = value_bounds.py_func(
        lowest,
        highest,
        rows,
        cols,
        record,
    )
    assert low < min(h.min(), e[1:, 1:].min() - job.scoring.gap_extend, h.min() + job.scoring.lowest)
    assert low < f[1:, 1:].min() - job.scoring.gap_extend
    assert high >= max(h.max(), e[1:, 1:].max(), f[1:, 1:].max())


@pytest.mark.parametrize("widths", [(8, 16), (8,), (16,), ()])
def test_scores_that_outgrow_eight_and_sixteen_bits(widths):
    """The scores of one long exact match pass the limits of all number widths."""
    rng = np.random.default_rng(1)
    query = rng.integers(0, 4, 700, np.uint8)
    scorings = [Scoring(), Scoring(100, -100, 100, 100), Scoring(1 << 20, -(1 << 20), 5, 1 << 19)]
    work = [whole_matrix(query, query, scoring, True) for scoring in scorings]
    results = CpuBackend(1, SweepGeometry(block_rows=150, min_rows=32), widths).sweep(work)
    for scoring, result in zip(scorings, results, strict=True):
        assert result.best == BestCell(700 * scoring.match, 700, 700)
    short = [whole_matrix(query[:150], query[:150], scoring, True) for scoring in scorings]
    check(CpuBackend(1, TINY, widths), short)


@pytest.mark.parametrize("state", State)
def test_entry_edges_on_several_strips_and_blocks(state):
    """Minus infinity next to finite values, along a whole edge and at the corner."""
    job = random_job(70, 100, False, state=state)
    check(CpuBackend(2, TINY, WIDTHS), [job])
    check(CpuBackend(2), [job])


def test_a_scoring_too_large_for_sixteen_bits_but_on_short_blocks():
    scoring = Scoring(match=400, mismatch=-400, gap_open=300, gap_extend=300)
    rng = np.random.default_rng(2)
    query = rng.integers(0, 4, 300, np.uint8)
    job = whole_matrix(query, mutated(query, 24, 0.05, rng), scoring, False)
    check(CpuBackend(1, SweepGeometry(3, 8, 4, block_rows=300, min_rows=4)), [job])


# --- many jobs, many threads -------------------------------------------------------------------------


def jobs_of_all_families() -> list[SweepJob]:
    work = [random_job(20 + seed, 90 - seed, seed % 2 == 0, seed, State(seed % 3)) for seed in range(30)]
    untracked = [
        SweepJob(j.query, j.target, j.scoring, j.top, j.left, j.local, j.rows, (), False) for j in work
    ]
    return [*work, *untracked]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_jobs_of_all_families_in_one_call(threads):
    check(CpuBackend(threads, TINY, WIDTHS), jobs_of_all_families())


def test_the_best_cell_does_not_depend_on_threads_or_cuts():
    """A tandem repeat against itself has equally good cells on many diagonals and in many strips."""
    query = np.resize(np.array([0, 1, 2], np.uint8), 300)
    job = whole_matrix(query, query[:200], Scoring(), True)
    backends = [CpuBackend(t, g, WIDTHS) for t in (1, 2, 3) for g in (TINY, SweepGeometry())]
    assert {cpu.sweep([job])[0].best for cpu in backends} == {BestCell(200, 200, 200)}


def test_rows_are_published_after_all_that_belongs_to_them_is_written(monkeypatch):
    """Other threads read rows as soon as they are counted. A count too early would rarely show in a run."""
    rows, cols = 3, 2
    down, across = (np.zeros((2, length + 1), np.int32) for length in (rows, cols))
    outputs = {"column_h": down[0], "column_f": down[1], "row_h": across[0], "row_e": across[1]}
    outputs |= {"col_h": down[0].copy(), "col_f": down[1].copy()}
    work = workspace.empty_work_list()._replace(
        **outputs,
        requested_rows=np.array([rows]),
        best=np.zeros((1, 3), np.int64),
        rows_done=np.zeros(1, np.int64),
    )
    edges = workspace.make_block_edges(TINY)
    for name in ("right_h", "right_f", "bottom_h", "bottom_e"):
        getattr(edges, name)[:] = 7
    position = SimpleNamespace(ticket=0, row=0, block_end=rows, next_request=0, score=0, i=0, j=0)
    job = SimpleNamespace(left_at=0, rows=9, cols=cols, requests_at=0, requests_end=1, row_out_at=0)
    strip = SimpleNamespace(start=0, stop=cols, col_out_at=0)
    published = []

    def release(array, index, value):
        assert array is work.rows_done
        published.append((index, value, {name: array[1:].tolist() for name, array in outputs.items()}))

    monkeypatch.setattr(worker, "pointer", lambda array: array)
    monkeypatch.setattr(worker, "fetch_add", lambda array, index, value: 0)
    monkeypatch.setattr(worker, "store_release", release)
    worker._keep_edges.py_func(work, position, edges, job, strip)
    worker._finish_block.py_func(work, position, edges, job, strip)
    written = {name: [7] * (cols if name.startswith("row") else rows) for name in outputs}
    assert published == [(0, rows, written)]


@pytest.mark.parametrize("failure", [KeyboardInterrupt, RuntimeError("enough")])
def test_progress_that_raises_stops_all_threads_in_mid_sweep(monkeypatch, failure):
    monkeypatch.setattr(backend, "PROGRESS_SECONDS", 0)
    monkeypatch.setattr(backend, "_CELLS_PER_CALL", 1)
    job = whole_matrix(*(np.zeros(200_000, np.uint8),) * 2, Scoring(), False)
    told = []

    def progress(cells: int) -> None:
        told.append(cells)
        raise failure

    before = threading.active_count()
    with pytest.raises(type(failure) if isinstance(failure, Exception) else failure):
        CpuBackend(3).sweep([job], progress)
    assert threading.active_count() == before
    assert sum(told) < job.cells // 2


def test_an_exception_in_a_thread_ends_the_sweep_as_backend_error(monkeypatch):
    compiled = backend.strip_sweep()

    def failing_elsewhere(*arguments: object) -> int:
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError("no room left")
        return compiled(*arguments)

    monkeypatch.setattr(backend, "strip_sweep", lambda: failing_elsewhere)
    with pytest.raises(BackendError, match="no room left"):
        CpuBackend(2).sweep([random_job(9_000, 9_000, True)])


def test_no_threads_are_refused():
    with pytest.raises(BackendError, match="at least one thread"):
        CpuBackend(0)


# --- which kernels are compiled ----------------------------------------------------------------------


@pytest.fixture
def compiled(monkeypatch) -> set[KernelConfig]:
    """The kernels that back ends request from now on."""
    asked: set[KernelConfig] = set()

    def note(config: KernelConfig) -> int:
        asked.add(config)
        return kernel_address(config)

    monkeypatch.setattr(backend, "kernel_address", note)
    return asked


def narrow(configs: set[KernelConfig]) -> set[KernelConfig]:
    """The requested kernels without those of 32 bits, which edges with minus infinity sometimes need."""
    return {config for config in configs if config.bits < 32}


def test_a_short_run_compiles_one_kernel(compiled):
    check(CpuBackend(2, TINY), jobs_of_all_families())
    assert narrow(compiled) == {TINY.kernel(16, local=True, track=True)}


def test_a_matrix_takes_a_kernel_of_its_own(compiled):
    check(CpuBackend(2, TINY), [random_job(30, 40, True), matrix_job(30, 40, 5)])
    assert narrow(compiled) == {
        TINY.kernel(16, local=True, track=True, matrix=kind) for kind in (True, False)
    }


def test_what_does_not_fit_the_one_kernel_takes_a_wider_one(compiled):
    scoring = Scoring(1 << 20, -(1 << 20), 5, 1 << 19)
    query = np.random.default_rng(3).integers(0, 4, 60, np.uint8)
    check(CpuBackend(1, TINY), [whole_matrix(query, query, scoring, local) for local in (True, False)])
    assert compiled == {TINY.kernel(bits, local=True, track=True) for bits in (16, 32)}


def test_a_long_run_compiles_kernels_for_its_jobs(compiled, monkeypatch):
    work = jobs_of_all_families()
    monkeypatch.setattr(backend, "_CELLS_WORTH_COMPILING", 2 * sum(job.cells for job in work))
    cpu = CpuBackend(2, TINY)
    check(cpu, work)
    assert len(narrow(compiled)) == 1
    check(cpu, work)
    variants = [(8, True, True), (16, True, True), (16, False, True), (16, False, False)]
    assert narrow(compiled) == {TINY.kernel(*variant) for variant in variants}


def test_a_kernel_that_does_not_compile_ends_as_backend_error(monkeypatch):
    def refuse(config: KernelConfig) -> int:
        return compile_callee(lambda x: x.no_such_attribute, "a kernel", (1,))

    monkeypatch.setattr(backend, "kernel_address", refuse)
    with pytest.raises(BackendError, match=r"(?s)a kernel does not compile.*no_such_attribute"):
        CpuBackend(2).sweep([random_job(100, 100, True)])


# --- other processors --------------------------------------------------------------------------------

ON_ANOTHER_PROCESSOR = """
from tests.backends.cpu.test_cpu_sweep import TINY, WIDTHS, CpuBackend, State, check, matrix_job, random_job
work = [random_job(40, 70, local, seed, state) for seed, state in enumerate(State) for local in (True, False)]
work += [matrix_job(40, 70, letters) for letters in (3, 24)]
check(CpuBackend(2, TINY, WIDTHS), work)
print(CpuBackend(2).describe()["compiled for"])
"""


@pytest.mark.slow
@pytest.mark.skipif(
    not binding.get_host_cpu_features().get("avx512f", False),
    reason="this processor has no AVX-512, so all tests are such tests",
)
def test_a_processor_with_avx2_only(tmp_path):
    root = Path(__file__).parents[3]
    target = {"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "", "XDG_CACHE_HOME": str(tmp_path)}
    target["PYTHONPATH"] = os.pathsep.join([str(root), str(root / "tests/helpers")])
    output = subprocess.run(
        [sys.executable, "-c", ON_ANOTHER_PROCESSOR],
        env=os.environ | target,
        cwd=root,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert output.strip() == "haswell"


def test_a_helper_reports_that_it_waits_for_the_compiler_to_the_run(monkeypatch):
    def wait(*_) -> None:
        with waiting_for_compiler("helper"):
            pass

    monkeypatch.setattr(backend._Worker, "help", wait)
    events, job = [], whole_matrix(*np.zeros((2, 2000), np.uint8), Scoring(), True)
    with compiles_reported(events.append):
        CpuBackend(2).sweep([job])
    assert [event.device for event in events if event.device != "cpu"] == ["helper"] * 2
