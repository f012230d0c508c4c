"""The rows of strips that a pruned rectangle may need, and strips that have no others. No GPU is needed."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.backends.base import Sinks
from longalign.backends.cpu.backend import CpuBackend
from longalign.model.boundary import Boundary
from longalign.model.pruning import Pruning, SideGains
from longalign.model.scoring import Scoring
from longalign.pruning.gains import gains
from longalign.testing.inputs import CollectedLines, mutated
from longalign.testing.pruned_jobs import closely_pruned_jobs, pruned_closely, pruned_jobs, without_pruning
from longalign.testing.reference import matrices
from longalign.testing.sweep_jobs import job_source, whole_matrix

pytest.importorskip("numba_cuda")

from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.launch import download, worklist
from longalign.backends.cuda.planning import needed_rows
from longalign.backends.cuda.planning.strips import ALL_ROWS

CONFIG = KernelConfig(True, True, columns=1, block_rows=8, prunes=True)
SIZES = (1, 2, 8, 9, 16, 33, 64)


def narrow_job(rows=400, cols=500):
    """A rectangle of two related sequences, of which a band along the path is needed."""
    rng = np.random.default_rng(1)
    query = rng.integers(0, 4, rows, np.uint8)
    job = whole_matrix(query, mutated(query, cols, 0.02, rng), Scoring(), True)
    return pruned_closely(replace(job, rows=(100, rows), cols=(90, cols), of_matrix=True))


def assert_needed_rows_suffice(job, width, block_rows):
    """No path of interest visits a cell outside the rows of its strip, or enters them from above."""
    column = np.arange(0, len(job.target), width)
    widths = np.minimum(width, len(job.target) - column)
    first, end = needed_rows.needed_rows(job, column, widths, block_rows)
    assert (np.diff(first) >= 0).all()
    assert (first <= end).all()
    assert (first[end > first] % block_rows == 0).all()
    rows, cols = np.arange(len(job.query) + 1)[:, None], np.arange(len(job.target) + 1)
    h = np.array(matrices(without_pruning(job))[0], np.int64)
    is_of_interest = h + job.pruning.gain(rows, rows, cols, cols) >= job.pruning.bound - job.scoring.gap_open
    for k, start in enumerate(column):
        at = np.flatnonzero(is_of_interest[:, start : start + widths[k] + 1].any(axis=1))
        assert ((at > first[k]) | (first[k] == 0)).all(), f"strip {k} begins too low, for\n{job_source(job)}"
        assert (at <= end[k]).all(), f"strip {k} ends too high, for\n{job_source(job)}"


@pytest.mark.parametrize("boxes", [3, 512])
@given(st.data(), st.integers(1, 40), st.sampled_from([1, 2, 8]))
def test_no_path_of_interest_leaves_the_needed_rows(boxes, data, width, block_rows):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(needed_rows, "_BOXES", boxes)
        check_needed_rows(data, width, block_rows)


def check_needed_rows(data, width, block_rows):
    job = data.draw(st.one_of(pruned_jobs(SIZES, 2_000), closely_pruned_jobs(SIZES, 2_000)))
    assert_needed_rows_suffice(job, width, block_rows)


@pytest.mark.parametrize(("above_reach", "rows"), [(0, 8), (1, 0)])
def test_a_path_in_a_gap_may_gain_as_much_more_as_it_costs_to_open_one(above_reach, rows):
    """Eight letter pairs score 8. No more can be gained, but for the cost of opening a gap that is open."""
    letters, nothing = np.zeros(8, np.uint8), SideGains.of(np.zeros(9, np.int32))
    bound = 8 + Scoring().gap_open + above_reach
    job = replace(whole_matrix(letters, letters, Scoring(), True), pruning=Pruning(bound, nothing, nothing))
    [first], [end] = needed_rows.needed_rows(job, np.zeros(1, np.int64), np.full(1, 8), 8)
    assert end - first == rows


@pytest.mark.parametrize("stretch", [1, 7, 1000])
def test_values_on_the_edges_of_a_part_bound_those_inside(stretch, monkeypatch):
    """The part begins in the middle of the matrix. Its edges have several stretches, or one."""
    monkeypatch.setattr("longalign.model.boundary._STRETCH", stretch)
    whole = narrow_job()
    h, e, f = (np.array(values, np.int32) for values in matrices(without_pruning(whole)))
    for i, j in ((0, 120), (100, 0), (120, 130), (200, 100)):
        part = replace(
            whole,
            query=whole.query[i:], target=whole.target[j:], rows=(), cols=(),
            top=Boundary(h[i, j:], e[i, j:]), left=Boundary(h[i:, j], f[i:, j]),
            pruning=whole.pruning.within(i, len(whole.query), j, len(whole.target)),
        )  # fmt: skip
        assert_needed_rows_suffice(part, 32, 8)


def test_a_narrow_band_needs_few_rows():
    job, column = narrow_job(1_000, 1_000), np.arange(0, 1_000, 40)
    first, end = needed_rows.needed_rows(job, column, np.full(len(column), 40), 8)
    assert (end > first).all()
    assert (end - first).sum() < 0.4 * 1_000 * len(column)


@pytest.mark.parametrize("band_rows", [8, 40, 200, ALL_ROWS])
def test_strips_have_the_rows_that_their_right_neighbours_wait_for(band_rows):
    work = worklist.build([narrow_job(), narrow_job(300, 200)], CONFIG, band_rows)
    ticket = {int(entry[work_tables.FLAG]): k for k, entry in enumerate(work.strips)}
    assert sorted(ticket) == list(range(len(work.strips)))
    some_begin_below = False
    for number, job in enumerate((narrow_job(), narrow_job(300, 200))):
        of_job = work.strips[work.strips[:, work_tables.JOB] == number]
        left = None
        for strip in range(of_job[:, work_tables.NUMBER].max() + 1):
            bands = of_job[of_job[:, work_tables.NUMBER] == strip]
            begin, end, lag = bands[0, [work_tables.BEGIN, work_tables.END, work_tables.LAST_PART_LAG]]
            firsts, lasts = bands[:, work_tables.FIRST_START], bands[:, work_tables.LAST_START]
            assert (firsts[0], lasts[-1]) == (begin, end)
            assert list(firsts[1:]) == list(lasts[:-1])
            assert (firsts < lasts).all() or (len(bands) == 1 and begin == end)
            assert list(bands[1:, work_tables.FLAG_ABOVE]) == list(bands[:-1, work_tables.FLAG])
            assert list(bands[1:, work_tables.DONE_ABOVE]) == list((lasts - firsts)[:-1])
            assert end == len(job.query) + lag or (end - begin) % CONFIG.block_rows == 0
            some_begin_below |= begin > 0
            for entry in bands if left is not None and begin < end else ():
                waits_for = min(entry[work_tables.LEFT_ROWS], entry[work_tables.LAST_START])
                assert left[0, work_tables.BEGIN] <= begin
                if waits_for > begin:
                    before = [
                        ticket[flag] < ticket[entry[work_tables.FLAG]] for flag in left[:, work_tables.FLAG]
                    ]
                    passed_on = (
                        left[before][:, work_tables.LAST_START].max() - left[0, work_tables.LAST_PART_LAG]
                    )
                    assert passed_on >= waits_for
            left = bands
    assert some_begin_below


def tile_of_two_paths():
    """A part of the matrix of two arrays of one unit, which have different numbers of copies.

    Two optimal paths cross it side by side. Between them, no rows are needed.
    """
    unit = np.random.default_rng(1).integers(0, 4, 400, np.uint8)
    whole = whole_matrix(np.tile(unit, 4)[:1400], np.tile(unit, 3)[:1000], Scoring(), True)
    i0, i1 = 650, 750
    [swept] = CpuBackend(threads=1).sweep([replace(whole, rows=(i0,), cols=())])
    ahead = gains(whole.query, whole.target, Scoring(), threads=1)
    pruning = Pruning(int(swept.best.score), ahead.query, ahead.target, True).within(i0, i1, 0, 1000)
    return replace(
        whole, query=whole.query[i0:i1], top=swept.rows[0], left=whole.left.part(i0, i1), rows=(100,),
        cols=(), of_matrix=True, pruning=pruning,
    )  # fmt: skip


def run_in_any_order(work, warps, rng):
    """Move warps on at random, one row block at a time, by the rules of `device.sync`.

    Returns whether all strips end. They stop if one waits for a row that no strip passes on any longer.
    """
    strips, rows = work.strips.astype(int), int(work.jobs[0, work_tables.ROWS])
    tags, done = np.zeros(rows, int), {}
    waiting, running = list(range(len(strips))), []
    while waiting or running:
        while waiting and len(running) < warps:
            number = waiting.pop(0)
            running.append([strips[number], strips[number, work_tables.FIRST_START]])
        moved = False
        for task in rng.permutation(len(running)):
            entry, start = running[task]
            if start >= entry[work_tables.LAST_START]:
                continue
            block = np.arange(start, min(start + 8, rows, entry[work_tables.LEFT_ROWS]))
            goes_on = start > entry[work_tables.BEGIN]
            is_first = start == entry[work_tables.FIRST_START]
            if (goes_on and is_first and not done.get(entry[work_tables.FLAG_ABOVE])) or (
                tags[block] != entry[work_tables.NUMBER]
            ).any():
                continue
            moved = True
            if rng.random() < 0.5:
                first = start - entry[work_tables.LAST_PART_LAG]
                tags[max(first, entry[work_tables.BEGIN]) : max(first + 8, 0)] = entry[work_tables.NUMBER] + 1
                running[task][1] += 8
        ended = [entry for entry, start in running if start >= entry[work_tables.LAST_START]]
        done.update({entry[work_tables.FLAG]: True for entry in ended})
        running = [task for task in running if task[1] < task[0][work_tables.LAST_START]]
        if not (moved or ended):
            return False
    return True


@pytest.mark.parametrize("band_rows", [64, ALL_ROWS])
@pytest.mark.parametrize("warps", [2, 5, 1000])
@pytest.mark.parametrize("make", [narrow_job, tile_of_two_paths])
def test_no_strip_waits_for_ever(make, warps, band_rows, monkeypatch):
    monkeypatch.setattr("longalign.model.boundary._STRETCH", 16)
    work = worklist.build([make()], CONFIG, band_rows)
    assert (work.strips[:, work_tables.BEGIN] > 0).any()
    for seed in range(10):
        assert run_in_any_order(work, warps, np.random.default_rng(seed)), f"seed {seed}"


def test_cells_in_no_row_of_a_strip_count_as_left_out():
    work = worklist.build([narrow_job()], CONFIG)
    first, end, width, lag = (
        work.strips[:, field].astype(int)
        for field in (work_tables.BEGIN, work_tables.END, work_tables.WIDTH, work_tables.LAST_PART_LAG)
    )
    swept = np.minimum(end, 400) - np.maximum(first - lag, 0)  # by the first part, or by the last one
    left_out = work.jobs[0, work_tables.CELLS_LEFT_OUT]
    assert 0.3 * 400 * 500 < left_out <= 400 * 500 - ((swept - lag) * width).sum()
    assert left_out >= 400 * 500 - ((swept + lag) * width).sum()


def test_a_strip_rests_only_for_rows_that_its_right_neighbour_overwrites():
    """For other rows it would wait in vain."""
    work = worklist.build([narrow_job()], CONFIG)
    for strip, following in pairwise(work.strips):
        lag = following[work_tables.LAST_PART_LAG]
        assert strip[work_tables.NEXT_FIRST_ROW] >= following[work_tables.BEGIN] - lag
        assert strip[work_tables.NEXT_END_ROW] <= following[work_tables.END] - lag
    assert work.strips[-1, work_tables.NEXT_END_ROW] == 0


def test_rows_that_are_not_needed_are_final_when_the_others_are():
    """They hold the values of cells that were left out from the beginning."""
    job = narrow_job()
    work = worklist.build([job], CONFIG)
    sinks = Sinks(CollectedLines(), CollectedLines())
    rectangle = download._Rectangle(replace(job, sinks=sinks), work.jobs[0], work.strips)
    swept = work.strips[:, work_tables.LAST_START] - work.strips[:, work_tables.FIRST_START]
    flags = np.zeros(len(work.strips), np.int32)
    for strip, rows in zip(work.strips, swept, strict=True):
        passed_on = (strip[work_tables.END] - strip[work_tables.LAST_PART_LAG]) // 8 * 8
        flags[strip[work_tables.FLAG]] = rows - 8
        before = [final for _, final in rectangle.final(flags)][:2]
        flags[strip[work_tables.FLAG]] = rows
        after = [final for _, final in rectangle.final(flags)][:2]
        assert before[1] <= strip[work_tables.FIRST_COLUMN]
        assert before[0] <= strip[work_tables.FIRST_COLUMN] or passed_on > 100
        assert min(after) >= strip[work_tables.FIRST_COLUMN] + strip[work_tables.WIDTH]
    assert [final for _, final in rectangle.final(flags)] == [500, 500, 400, 400]
