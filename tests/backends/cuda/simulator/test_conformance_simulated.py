"""The sweep kernel in Numba's simulator, with narrow strips and short row blocks."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from numba import cuda
from numba.cuda.simulator import kernelapi

from longalign.backends.base import SweepJob
from longalign.backends.cuda import kernel_library
from longalign.backends.cuda.backend import CudaBackend
from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.device import publish as publish_module
from longalign.backends.cuda.device import replay, strip_edges, sweep_block
from longalign.backends.cuda.device.block_kinds import FAST, FAST_ALTERNATE_ROWS, STORES_ROW
from longalign.backends.cuda.kernels import sweep as sweep_kernel
from longalign.backends.cuda.launch import sweep_launch
from longalign.backends.cuda.planning import kernel_shape, packed_range
from longalign.model.boundary import State, entry_edges
from longalign.model.scoring import Scoring
from longalign.testing.inputs import (
    QUERY_N,
    TARGET_N,
    matrix_of,
    mutated,
    scattered,
)
from longalign.testing.reference import ReferenceBackend
from longalign.testing.sweep_jobs import assert_same_result, whole_matrix
from longalign.testing.sweeps import SweepConformance

#: A mismatch costs more than a gap.
STEEP = Scoring(5, -4, 0, 1)


class SimulatedCuda(SweepConformance):
    largest_job = 500
    effort = 0.07


class TestPacked(SimulatedCuda):
    """Packed numbers where they are exact: strips of 128 columns, row blocks of 16 rows."""

    interesting_lengths = (16, 128)

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> CudaBackend:
        return CudaBackend(columns=2, block_rows=16, warps=1)


class TestBands(SimulatedCuda):
    """The same as TestPacked, in bands of 22 rows."""

    interesting_lengths = (22, 128)

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> CudaBackend:
        return CudaBackend(columns=2, block_rows=16, warps=1, band_rows=22)


class TestInt32(SimulatedCuda):
    """int32 numbers: strips of 64 columns, row blocks of 16 rows."""

    interesting_lengths = (16, 64)

    @pytest.fixture(scope="class")
    @classmethod
    def backend(cls) -> CudaBackend:
        return CudaBackend(numbers="int32", columns=2, block_rows=16, warps=1)


def check_packed(work: list[SweepJob], **overrides: int) -> None:
    backend = CudaBackend(warps=1, **{"columns": 2, "block_rows": 16, **overrides})
    assert {choice.config.numbers for choice in backend.choices(work)} == {"packed"}
    for job, got, want in zip(work, backend.sweep(work), ReferenceBackend().sweep(work), strict=True):
        assert_same_result(job, got, want)


@pytest.mark.parametrize("overrides", [{}, {"band_rows": 14}])
def test_ragged_strips_and_runs_of_ambiguous_letters(overrides: dict[str, int]):
    rng = np.random.default_rng(0)
    query = rng.integers(0, 4, 50, np.uint8)
    target = mutated(query, 139, 0.1, rng)
    query[20:25], target[60:70] = QUERY_N, TARGET_N
    generous = Scoring(match=5, mismatch=2, gap_open=6, gap_extend=1)
    work = [
        replace(whole_matrix(query, target, scoring, local), rows=(1, 20, 49), cols=(3, 128, 139))
        for scoring in (Scoring(), generous)
        for local in (True, False)
    ]
    check_packed(work, **overrides)


@pytest.mark.parametrize("place", [14, 15])
def test_an_ambiguous_letter_at_the_end_of_a_row_block_counts_in_the_next(place: int):
    """The high half sweeps its row two rows later than the low half, in the next row block."""
    rng = np.random.default_rng(1)
    query = rng.integers(0, 4, 20, np.uint8)
    target = mutated(query, 130, 0.1, rng)
    query[place] = QUERY_N
    check_packed([whole_matrix(query, target, Scoring(), False)])


@pytest.mark.parametrize(("block_rows", "rows"), [(6, 7), (32, 31), (40, 41), (64, 63)])
def test_row_blocks_of_all_sizes(block_rows: int, rows: int):
    """Row blocks of fewer rows than lanes, as many, more, and twice as many.

    The rectangle has a row more or less than the row block.
    """
    rng = np.random.default_rng(block_rows)
    query = rng.integers(0, 4, rows, np.uint8)
    target = mutated(query, 66, 0.1, rng)
    check_packed(
        [replace(whole_matrix(query, target, Scoring(), True), rows=(1, 4))], columns=1, block_rows=block_rows
    )


@pytest.mark.parametrize("overrides", [{"block_rows": 64}, {"block_rows": 40, "band_rows": 85}], ids=str)
def test_a_replay_of_more_rows_than_lanes_restores_all_of_the_left_edge(overrides: dict[str, int]):
    rng = np.random.default_rng(0)
    query = rng.integers(0, 4, 230, np.uint8)
    target = np.concatenate([rng.integers(0, 4, 70, np.uint8), mutated(query, 230, 0.1, rng)])
    query[100:103] = QUERY_N
    check_packed([whole_matrix(query, target, Scoring(), True)], columns=1, **overrides)


@pytest.mark.parametrize("rows", [17, 29, 30, 31, 32])
def test_rows_below_the_rectangle_do_not_count(rows: int):
    """If the last letters were repeated below, they would match.

    In wide strips (9 columns) the row block that stores a requested last row does not mask rows below.
    """
    query = np.full(rows, 1, np.uint8)
    query[-5:] = 0
    job = whole_matrix(query, np.zeros(8, np.uint8), STEEP, True)
    check_packed([replace(job, rows=(), cols=())])
    check_packed([replace(job, rows=(rows,), cols=())], columns=9)


def test_a_replayed_row_block_ends_without_letters():
    """Two row blocks tie. The second one is replayed, and others follow."""
    query = np.full(20, 1, np.uint8)
    query[[0, 19]] = 0
    check_packed([replace(whole_matrix(query, np.zeros(20, np.uint8), STEEP, True), rows=(), cols=())])


def test_a_strip_interrupted_above_the_rectangle_continues_without_letters():
    """Its warp has swept other strips in between, and their letters are still in the ring."""
    job = whole_matrix(np.zeros(290, np.uint8), np.zeros(130, np.uint8), Scoring(), True)
    check_packed([job], columns=1, band_rows=144)


def test_parts_wait_below_a_top_edge_where_not_all_paths_begin():
    rng = np.random.default_rng(0)
    query, target = rng.integers(0, 4, 42, np.uint8), rng.integers(0, 4, 69, np.uint8)
    target[5:45] = query[:40]
    whole = replace(whole_matrix(query, target, STEEP, True), rows=(9,), cols=(9,))
    [cut] = ReferenceBackend().sweep([whole])
    top, left = cut.rows[0].part(9, 69), cut.cols[0].part(9, 42)
    check_packed([SweepJob(query[9:], target[9:], STEEP, top, left, True, (), (60,))])


def test_negative_f_at_the_end_of_parts():
    """Requested columns at the ends of parts store F where it is negative."""
    rng = np.random.default_rng(0)
    query = rng.integers(0, 4, 20, np.uint8)
    job = whole_matrix(query, mutated(query, 30, 0.1, rng), Scoring(), True)
    check_packed([replace(job, rows=(1, 20), cols=(5, 10, 25, 30))], columns=5)


def test_rows_above_the_rectangle_cause_no_replay(monkeypatch: pytest.MonkeyPatch):
    replays, best_of_warp = [], replay.best_of_warp

    def count(best):
        replays.append(best)
        return best_of_warp(best)

    monkeypatch.setattr(replay, "best_of_warp", count)
    job = whole_matrix(np.full(40, QUERY_N, np.uint8), np.full(20, TARGET_N, np.uint8), Scoring(), True)
    check_packed([replace(job, rows=(), cols=())])
    assert not replays


@pytest.mark.parametrize("rank", [(0, 1), (0, -1), (1, -1), (-1, -1)], ids=str)
@pytest.mark.parametrize(("block_rows", "rows"), [(64, 100), (40, 100), (40, 37), (6, 100)])
def test_a_row_block_waits_for_each_value_of_its_edge(
    block_rows: int, rows: int, rank: tuple[int, int], monkeypatch: pytest.MonkeyPatch
):
    """One value arrives whenever a waiting lane pauses.

    The rows arrive from first to last or from last to first, with H and F of a row together, or with all
    values of F last or first.
    """
    config = KernelConfig(True, True, columns=1, block_rows=block_rows, numbers="packed")
    begin, receive = strip_edges.make_receive(config)
    column = cuda.to_device(np.full(2 * rows, 7, np.int64))
    words = iter(sorted(range(2 * rows), key=lambda word: (rank[0] * (word % 2), rank[1] * word)))

    def publish(module, nanoseconds):
        if (word := next(words, None)) is not None:
            column[word] = (1 << 32) + word

    monkeypatch.setattr(kernelapi.FakeCUDAModule, "nanosleep", publish)

    @cuda.jit
    def wait(query, column, stop, found):
        lane, fields = np.int32(cuda.threadIdx.x), strip_edges.JobParameters(0, 0, 0, 0, 0, 0, 0)
        incoming = begin(query, column, fields, np.int32(rows), np.int32(0), lane)
        one, other, _ = receive(
            incoming, column, fields, np.int32(rows), np.int32(1), np.int32(0), lane, stop
        )
        for slot, row in ((lane, one), (lane + LANES, other)):
            found[slot, 0], found[slot, 1] = row.edge.h, row.edge.gap

    found = np.zeros((2 * LANES, 2), np.int64)
    wait[1, LANES](np.zeros(rows, np.uint8), column, np.zeros(1, np.int32), found)
    for slot in range(block_rows):
        row = min(slot, rows - 1)
        assert found[slot].tolist() == [2 * row, 2 * row + 1]


@pytest.mark.parametrize("overrides", [{}, {"band_rows": 22}], ids=["whole", "in bands"])
def test_rows_are_published_after_their_edges_are_stored(
    overrides: dict[str, int], monkeypatch: pytest.MonkeyPatch
):
    """The simulator sweeps strips one after another, so results would not show a count that is too early."""
    block_rows, indices = 16, []
    blocks = SimpleNamespace(stored=0, published=0, before=0)
    make_store_edge, publish_rows = sweep_kernel.make_store_edge, publish_module.publish_rows

    def make(config):
        store_edge = make_store_edge(config)

        def count(*arguments):
            store_edge(*arguments)
            blocks.stored += int(arguments[-2] == 0)  # by lane 0

        return count

    def publish(flags, index, rows, lane):
        if lane == 0:
            if index not in indices:  # another strip or band
                indices.append(int(index))
                blocks.before = blocks.published
            assert rows == (blocks.stored - blocks.before) * block_rows
            blocks.published = blocks.stored
        publish_rows(flags, index, rows, lane)

    monkeypatch.setattr(sweep_kernel, "make_store_edge", make)
    monkeypatch.setattr(publish_module, "publish_rows", publish)
    monkeypatch.setattr(publish_module, "REPORT_EVERY", 1)
    monkeypatch.setattr(sweep_kernel, "REST_EVERY", 1)
    kernel_library.dispatcher.cache_clear()
    rng = np.random.default_rng(8)
    query, target = rng.integers(0, 4, 50, np.uint8), rng.integers(0, 4, 300, np.uint8)
    check_packed([whole_matrix(query, target, Scoring(), True)], block_rows=block_rows, **overrides)
    kernel_library.dispatcher.cache_clear()
    assert len(indices) >= 3


@pytest.mark.parametrize("overrides", [{}, {"band_rows": 22}], ids=["whole", "in bands"])
def test_row_blocks_with_prefetched_edges(overrides: dict[str, int], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(kernel_shape.SHAPES, "packed", (kernel_shape.Shape(3, 16, prefetch_edge=True),))
    rng = np.random.default_rng(4)
    query = rng.integers(0, 4, 60, np.uint8)
    target = mutated(query, 400, 0.1, rng)
    job = replace(whole_matrix(query, target, Scoring(), True), rows=(15, 50), cols=(192, 300))
    assert CudaBackend(warps=1, columns=3).choices([job])[0].config.prefetch_edge
    check_packed([job], columns=3, **overrides)


@pytest.mark.parametrize(
    ("local", "overrides"),
    [(True, {}), (True, {"band_rows": 60}), (False, {})],
    ids=["local", "bands", "global"],
)
def test_row_blocks_that_only_meet_a_requested_row(
    local: bool, overrides: dict[str, int], monkeypatch: pytest.MonkeyPatch
):
    """A requested row inside the rectangle and at its end, in a full strip and in one of three parts."""
    meetings = []

    def make(config, kind):
        sweep = make_sweep_storing_block(config, kind)

        def counted(*arguments):
            meetings.append(kind)
            return sweep(*arguments)

        return counted

    make_sweep_storing_block = sweep_block.make_sweep_storing_block
    monkeypatch.setattr(sweep_block, "make_sweep_storing_block", make)
    kernel_library.dispatcher.cache_clear()
    rng = np.random.default_rng(6)
    query = rng.integers(0, 4, 100, np.uint8)
    target = mutated(query, 603, 0.1, rng)
    job = replace(whole_matrix(query, target, Scoring(), local), rows=(40, 100), cols=(576,))
    check_packed([job], columns=9, **overrides)
    assert STORES_ROW in meetings


@pytest.mark.parametrize(
    ("words", "seed", "local", "overrides"),
    [
        (2, 0, True, {}),
        (8, 0, True, {"band_rows": 22}),
        (8, 1, True, {}),
        (8, 0, False, {}),
        (2, 0, False, {"band_rows": 22}),
    ],
)
def test_tied_best_cells_in_different_row_blocks(
    words: int, seed: int, local: bool, overrides: dict[str, int]
):
    """Of many tied cells, the first in rank is in the first of their row blocks, or in a later one."""
    job = whole_matrix(*scattered(120, 600, words, seed), Scoring(), True)
    check_packed([replace(job, local=local)], columns=8, **overrides)


@pytest.mark.parametrize("overrides", [{}, {"band_rows": 22}], ids=["whole", "in bands"])
@pytest.mark.parametrize("last", ["positive", "negative"])
def test_a_best_cell_where_values_begin_below_0(overrides: dict[str, int], last: str):
    """It is found where they rise above 0. Far below, 16 bits above the base do not hold the threshold."""
    rng = np.random.default_rng(7)
    query = rng.integers(0, 4, 210, np.uint8)
    target = mutated(query, 211, 0.01, rng)
    scoring = Scoring(match=110, mismatch=-110, gap_open=3, gap_extend=2)
    value = -20_000 if last == "positive" else -200_000
    top, left = entry_edges(State.H, 210, 211, scoring, value)
    job = SweepJob(query, target, scoring, top, left, False, (210,), (211,))
    [want] = ReferenceBackend().sweep([job])
    assert (want.best.score > 0) == (last == "positive")
    check_packed([job], **overrides)


@pytest.mark.parametrize(
    ("seed", "overrides"),
    [
        *((seed, {}) for seed in (17, 28, 30, 44)),
        *((seed, {"band_rows": 22}) for seed in (52, 227, 322)),
    ],
)
@pytest.mark.parametrize("local", [True, False], ids=["floor", "no floor"])
def test_best_cells_where_every_second_row_is_watched(
    local: bool, seed: int, overrides: dict[str, int], monkeypatch: pytest.MonkeyPatch
):
    """Many cells have almost the highest score. The best is in an unwatched row or an earlier row block."""
    monkeypatch.setattr(replay, "_HIGH", 0)
    monkeypatch.setattr(sweep_kernel, "WATCHED_BLOCKS", np.int32(0))
    kinds = []

    def make(config, kind=FAST):
        sweep = make_sweep_row_block(config, kind)

        def counted(*arguments):
            kinds.append(kind)
            return sweep(*arguments)

        return counted

    make_sweep_row_block = sweep_block.make_sweep_row_block
    monkeypatch.setattr(sweep_block, "make_sweep_row_block", make)
    kernel_library.dispatcher.cache_clear()
    rng = np.random.default_rng(seed)
    query, target = rng.integers(0, 2, 121, np.uint8), rng.integers(0, 2, 18, np.uint8)
    scoring = [Scoring(1, -1, 0, 1), Scoring(2, -3, 1, 1), Scoring(3, -2, 1, 1)][seed % 3]
    work = [replace(whole_matrix(query, target, scoring, True), local=local)]
    narrow = {"columns": 9, "block_rows": 8, **overrides}
    assert CudaBackend(warps=1, **narrow).choices(work)[0].config.may_skip_rows
    check_packed(work, **narrow)
    assert FAST_ALTERNATE_ROWS in kinds


@pytest.mark.parametrize("overrides", [{}, {"band_rows": 22}], ids=["whole", "in bands"])
def test_progress_counts_every_cell_once(overrides: dict[str, int], monkeypatch: pytest.MonkeyPatch):
    """`progress` on the device counts them. Strips report every other row block, and rest after each."""
    counted = []

    def run(*arguments, **options):
        reported = launch_run(*arguments, **options)
        counted.append(int(arguments[4].progress.copy_to_host()[0]))
        return reported

    launch_run = sweep_launch.run
    monkeypatch.setattr(sweep_launch, "run", run)
    monkeypatch.setattr(sweep_kernel, "REST_EVERY", 1)
    monkeypatch.setattr(publish_module, "REPORT_EVERY", 2)
    rng = np.random.default_rng(3)
    work = [
        replace(
            whole_matrix(
                rng.integers(0, 4, rows, np.uint8), rng.integers(0, 4, cols, np.uint8), Scoring(), True
            ),
            cols=lines,
        )
        for rows, cols, lines in ((101, 140, ()), (1, 5, ()), (47, 70, (33,)))
    ]
    check_packed(work, columns=1, **overrides)
    assert counted == [sum(job.cells for job in work)]


@pytest.mark.parametrize("value", [-(1 << 30) - 5, (1 << 30) + 5])
def test_values_far_beyond_16_bits(value: int):
    rng = np.random.default_rng(1)
    query, target = rng.integers(0, 4, 90, np.uint8), rng.integers(0, 4, 140, np.uint8)
    top, left = entry_edges(State.H, 90, 140, Scoring(), value)
    check_packed([SweepJob(query, target, Scoring(), top, left, False, (1, 45, 90), (1, 77, 140))])


@pytest.mark.parametrize("local", [True, False])
def test_steep_scores_at_the_limit_of_16_bits(local: bool):
    """A long match, then a long gap: values rise and fall as fast as they can, almost beyond the 16 bits."""
    config = KernelConfig(local, True, 8, block_rows=16, numbers="packed")
    extend = max(k for k in range(100) if packed_range.wide_enough(Scoring(20, -20, 3, k), config))
    rng = np.random.default_rng(2)
    shared = rng.integers(0, 4, 60, np.uint8)
    target = np.concatenate([shared, rng.integers(0, 4, 460, np.uint8)])
    job = whole_matrix(shared, target, Scoring(20, -20, 3, extend), local)
    check_packed([job], columns=8)


@pytest.mark.parametrize(
    ("highest", "overrides"),
    [(122, {"band_rows": 14}), (20, {"columns": 12}), (20, {"columns": 16})],
    ids=str,
)
def test_matrices_at_the_edge_of_8_bits(highest: int, overrides: dict[str, int]):
    """Matrices of 3 and 32 letters in one launch, with requested rows, in ragged strips."""
    rng = np.random.default_rng(3)
    work = []
    for letters, local in ((3, True), (32, True)):
        matrix = matrix_of(np.where(rng.random((letters, letters)) < 0.8 - np.eye(letters), -133, highest))
        query = rng.integers(0, letters, 20, np.uint8)
        target = mutated(query, 133, 0.1, rng, letters)
        job = whole_matrix(query, target, Scoring(gap_open=3, gap_extend=2, matrix=matrix), local)
        work.append(replace(job, rows=(1, 12, 19), cols=(3, 128, 133)))
    check_packed(work, **overrides)


@pytest.mark.parametrize("local", [True, False])
@pytest.mark.parametrize(
    "scoring",
    [Scoring(preset="edit"), Scoring(0, -1, 3, 0), Scoring(0, -1, 0, 1, ambiguous="average")],
    ids=str,
)
def test_scorings_without_a_positive_score(scoring: Scoring, local: bool):
    """With requested rows and ambiguous letters; in local mode no cell is best."""
    rng = np.random.default_rng(4)
    query = rng.integers(0, 4, 40, np.uint8)
    target = mutated(query, 133, 0.1, rng)
    query[10:14], target[20:23] = QUERY_N, TARGET_N
    job = whole_matrix(query, target, scoring, local)
    check_packed([replace(job, rows=(1, 12, 40), cols=(3, 128, 133))])
