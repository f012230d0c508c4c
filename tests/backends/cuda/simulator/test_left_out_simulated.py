"""Pruning and excluded pairs in Numba's simulator, with narrow strips and short row blocks."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from longalign.backends.base import Sinks, SweepJob
from longalign.backends.cuda import kernel_library, numba_api
from longalign.backends.cuda.backend import CudaBackend
from longalign.backends.cuda.device import sweep_block
from longalign.backends.cuda.kernels import computed_blocks
from longalign.backends.cuda.launch import download
from longalign.model.boundary import State, entry_edges, local_edges
from longalign.model.excluded_pairs import ExcludedPairs
from longalign.model.pruning import Pruning, SideGains, values_left_out
from longalign.model.scoring import Scoring
from longalign.pruning.gains import gains
from longalign.testing.inputs import QUERY_N, CollectedLines, matrix_of, mutated
from longalign.testing.pruned_jobs import assert_between, assert_optimal_paths_exact, pruned_closely
from longalign.testing.reference import ReferenceBackend
from longalign.testing.sweep_jobs import assert_same_result, whole_matrix

#: Requested rows: some, or every one.
SOME, EVERY = (150, 330), tuple(range(1, 331))


DNA = Scoring()
#: Its fifth letter is N.
MATRIX = Scoring(
    matrix=matrix_of(
        [[5, -4, -2, -4, -3], [-4, 4, -4, -2, -3], [-1, -4, 4, -4, -3], [-4, -1, -4, 5, -3], [-3] * 5]
    ),
    gap_open=6,
    gap_extend=2,
)


@pytest.mark.parametrize(
    ("numbers", "overrides", "local", "rows", "scoring"),
    [
        ("packed", {}, True, EVERY, DNA),
        ("packed", {"band_rows": 48}, False, SOME, DNA),
        ("packed", {"band_rows": 48}, False, EVERY, DNA),
        ("int32", {}, False, SOME, DNA),
        ("packed", {}, True, SOME, MATRIX),
        ("packed", {"band_rows": 48}, False, SOME, MATRIX),
        ("int32", {"band_rows": 48}, True, EVERY, MATRIX),
        ("int32", {}, False, SOME, MATRIX),
    ],
    ids=[
        "packed, floor, every row",
        "packed, no floor, in bands, some rows",
        "packed, no floor, in bands, every row",
        "int32, no floor, some rows",
        "matrix, packed, floor, some rows",
        "matrix, packed, no floor, in bands, some rows",
        "matrix, int32, floor, in bands, every row",
        "matrix, int32, no floor, some rows",
    ],
)
def test_row_blocks_off_all_paths_of_interest_are_left_out(
    numbers: str, overrides: dict, local: bool, rows: tuple[int, ...], scoring: Scoring
):
    """The path leaves a strip while the strip's lower blocks are left out, and enters blocks beside others.

    It ends in the corner, far above what blocks that are left out leave behind. Requested rows and a
    requested column cross it. There are letters N before blocks that follow others left out.
    """
    rng = np.random.default_rng(11)
    query = rng.integers(0, 4, 330, np.uint8)
    target = mutated(query, 330, 0.02, rng)
    query[200:204] = QUERY_N
    top, left = local_edges(330, 330) if local else entry_edges(State.H, 330, 330, scoring)
    job = SweepJob(query, target, scoring, top, left, local, rows, (128, 330), of_matrix=True)
    [whole] = ReferenceBackend().sweep([job])
    ahead = gains(query, target, scoring, threads=1)
    bound = int(whole.best.score if local else whole.rows[-1].h[-1])
    job = replace(job, pruning=Pruning(bound, ahead.query, ahead.target, local))
    backend = CudaBackend(warps=1, numbers=numbers, columns=1, block_rows=16, **overrides)
    [choice] = backend.choices([job])
    assert (choice.config.prunes, choice.config.numbers) == (True, numbers)
    [result] = backend.sweep([job])
    assert result.cells_left_out > 0.01 * job.cells
    assert_between(job, result)
    assert result.rows[-1].h[-1] == whole.rows[-1].h[-1]


@pytest.mark.parametrize(
    ("numbers", "turned", "band_rows"),
    [("packed", False, None), ("int32", True, None), ("int32", True, 48)],
    ids=["more columns", "more rows", "several bands"],
)
def test_a_path_that_lags_behind_is_exact_with_the_smallest_gains(
    numbers: str, turned: bool, band_rows: int | None
):
    """The optimal path crosses strips, bands and row blocks in their middle, before and after a long gap."""
    rng = np.random.default_rng(17)
    query = rng.integers(0, 4, 320, np.uint8)
    target = np.concatenate([query[:160], rng.integers(0, 4, 100, np.uint8), query[160:]])
    scoring = Scoring(2, -3, 4, 1)
    job = whole_matrix(*((target, query) if turned else (query, target)), scoring, True)
    job = pruned_closely(replace(job, rows=(40, 190, len(job.query)), cols=(64, 210), of_matrix=True))
    backend = CudaBackend(warps=1, numbers=numbers, columns=1, block_rows=16, band_rows=band_rows)
    [result] = backend.sweep([job])
    assert result.cells_left_out > 0.1 * job.cells
    assert_between(job, result)
    assert_optimal_paths_exact(job, result)


@pytest.mark.parametrize(("local", "streams"), [(True, True), (False, False)])
def test_what_is_fetched_for_one_of_several_back_ends(local: bool, streams: bool, monkeypatch):
    """Whole lines, so that this can begin while the kernel runs, or afterwards the blocks that were computed.

    A band crosses some rows and columns of a rectangle. Their blocks are shorter than it is wide.
    """
    monkeypatch.setattr(computed_blocks, "BLOCK", 16)
    monkeypatch.setattr(download, "_WORTH_STREAMING", 0)
    rng = np.random.default_rng(13)
    query = rng.integers(0, 4, 330, np.uint8)
    target = mutated(query, 330, 0.02, rng)
    top, left = local_edges(330, 330) if local else entry_edges(State.H, 330, 330, Scoring())
    lines = (16, 150, 151, 330)
    job = SweepJob(query, target, Scoring(), top, left, local, lines, (64, 320, 330), of_matrix=True)
    [whole] = ReferenceBackend().sweep([job])
    ahead = gains(query, target, Scoring(), threads=1)
    bound = int(whole.best.score if local else whole.rows[-1].h[-1])
    job = replace(job, pruning=Pruning(bound, ahead.query, ahead.target, local))
    fetched, copy = [], numba_api.download

    def counted(to, *arguments):
        fetched.append(len(to))
        copy(to, *arguments)

    monkeypatch.setattr(numba_api, "download", counted)
    opened = []

    class Noted(download.Download):
        def __enter__(self):
            opened.append(self.streams)
            return super().__enter__()

    monkeypatch.setattr("longalign.backends.cuda.backend.Download", Noted)
    sinks = Sinks(CollectedLines(), CollectedLines())
    part = CudaBackend(warps=1, columns=1, block_rows=16, share=2, streams=streams)
    [result] = part.sweep([replace(job, sinks=sinks)])
    assert opened == [streams]
    everything = 2 * 330 * len(job.rows + job.cols)
    assert sum(fetched) == everything if streams else 0 < sum(fetched) < everything / 2
    # Swept later, so that no memory holds its best cells before.
    [want] = CudaBackend(warps=1, columns=1, block_rows=16).sweep([job])
    assert result.best == want.best
    for sink, beside, places, side in (
        (sinks.rows, left, job.rows, want.rows),
        (sinks.cols, top, job.cols, want.cols),
    ):
        for line, expected in zip(sink.boundaries(beside.h_at(places)), side, strict=True):
            np.testing.assert_array_equal(line.h, expected.h)
            np.testing.assert_array_equal(line.gap, expected.gap)


@pytest.mark.parametrize("numbers", ["packed", "int32"])
@pytest.mark.parametrize("local", [True, False])
def test_what_requested_rows_hold_where_all_is_left_out(numbers: str, local: bool):
    """Every row, two rows, the last one of a row block, or the last one. A strip has 64 or 32 columns."""
    rng = np.random.default_rng(12)
    query, target = (rng.integers(0, 4, length, np.uint8) for length in (200, 130))
    whole = whole_matrix(query, target, Scoring(), local)
    zeros = (SideGains.of(np.zeros(length + 1, np.int32)) for length in (200, 130))
    nothing_needed = Pruning(1 << 20, *zeros, local)
    lists = (tuple(range(1, 201)), (17, 140), (144,), (200,))
    work = [replace(whole, rows=rows, of_matrix=True, pruning=nothing_needed) for rows in lists]
    backend = CudaBackend(warps=1, numbers=numbers, columns=1, block_rows=16)
    h, gap = values_left_out(Scoring(), local)
    for job, result in zip(work, backend.sweep(work), strict=True):
        assert_between(job, result)
        for line in (*result.rows, *result.cols):
            assert {*line.h[1:].tolist()} == {h}
            assert {*line.gap[1:].tolist()} == {gap}
        # In a strip, from the first row block in which no part is above the rectangle.
        assert result.cells_left_out == sum(
            16 * width * ((200 - 1) // 16 - -(-((width - 1) * 2) // 16))
            for width in ((64, 64, 2) if numbers == "packed" else (32,) * 4 + (2,))
        )


#: Half of all combinations. Any three of the four choices occur in all ways.
EXCLUDING = [
    choice
    for number, choice in enumerate(
        product(("packed", "int32"), (True, False), (True, False), ((0, 0), (2, 1)))
    )
    if number.bit_count() % 2 == 0
]


@pytest.mark.parametrize(("numbers", "local", "every_row", "places"), EXCLUDING)
def test_every_pair_of_two_diagonals_is_excluded(
    numbers: str, local: bool, every_row: bool, places: tuple[int, int], monkeypatch: pytest.MonkeyPatch
):
    """Both halves of a lane meet the diagonals, in the first rows of row blocks as well.

    One is that of equal letters, or the one beside it. Where every row is requested, row blocks are swept row
    by row. Otherwise those inside the rectangle are swept in steps of two rows, but for those with letters N.
    Some rows of a strip have two excluded pairs.
    """
    shift, beside = places
    in_steps = []

    def make(config):
        sweep = make_sweep_excluding_block(config)

        def counted(*arguments):
            in_steps.append(1)
            return sweep(*arguments)

        return counted

    make_sweep_excluding_block = sweep_block.make_sweep_excluding_block
    monkeypatch.setattr(sweep_block, "make_sweep_excluding_block", make)
    kernel_library.dispatcher.cache_clear()
    length = 60 if every_row else 136
    rng = np.random.default_rng(0)
    query, diagonal = rng.integers(0, 4, length, np.uint8), np.arange(length - 3)
    target = np.concatenate([rng.integers(0, 4, shift, np.uint8), query])
    if beside:  # the best cell is the only high one of its row block, and in the second row of a step
        query[96:] = (query[96:] + 1) % 4
    else:
        query[-36:-33] = QUERY_N
    job = replace(
        whole_matrix(query, target, Scoring(), local),
        rows=tuple(range(1, length + 1)) if every_row else (length,),
        cols=tuple(range(8, length + shift + 1, 8)),
        excluded=ExcludedPairs(diagonal, diagonal + shift + beside)
        | ExcludedPairs(diagonal, diagonal + shift + 3),
    )
    [got] = CudaBackend(warps=1, numbers=numbers, columns=1, block_rows=16).sweep([job])
    [want] = ReferenceBackend().sweep([job])
    assert_same_result(job, got, want)
    assert bool(in_steps) == (not every_row)
