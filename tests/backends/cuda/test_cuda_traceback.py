"""How leaves share launches, and where their parts of arrays lie on the device. No GPU is needed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.backends import trace_table
from longalign.backends.base import TraceJob, diagonals
from longalign.model.boundary import State
from longalign.model.scoring import Scoring

pytest.importorskip("numba_cuda")

from longalign.backends.cuda.device import directions
from longalign.backends.cuda.device.directions import COLUMN_AT, STRIP_WIDTH, WORDS_AT, words_of
from longalign.backends.cuda.launch import traceback
from longalign.backends.trace_table import shapes_of

lengths = st.integers(1, 600)
#: Rows, columns and detour.
shapes = st.lists(st.tuples(lengths, lengths, st.none() | st.integers(0, 700)), min_size=1, max_size=20)


def jobs(shapes):
    return [
        TraceJob(np.zeros(rows, np.uint8), np.zeros(cols, np.uint8), Scoring(), State.H, State.H, detour)
        for rows, cols, detour in shapes
    ]


@given(shapes, st.integers(1, 1 << 20))
def test_launches_hold_every_leaf_once_and_fit(shapes, room):
    of_leaves = traceback._device_bytes(shapes_of(jobs(shapes)))
    launches = list(traceback._launches(of_leaves, room))
    assert sorted(k for launch in launches for k in launch) == list(range(len(shapes)))
    sizes = [[of_leaves[k] for k in launch] for launch in launches]
    assert all(sum(launch) <= room or len(launch) == 1 for launch in sizes)
    flat = [size for launch in sizes for size in launch]
    assert flat == sorted(flat, reverse=True)
    assert all(sum(first) + second[0] > room for first, second in pairwise(sizes))


@given(shapes)
def test_no_two_leaves_share_a_part_of_an_array(shapes):
    work = jobs(shapes)
    table = traceback._table(work)
    rows, cols = table[:, trace_table.ROWS], table[:, trace_table.COLS]
    sizes = {
        trace_table.QUERY_AT: rows, trace_table.TARGET_AT: cols, COLUMN_AT: rows,
        WORDS_AT: [words_of(len(job.query), len(job.target), *job.diagonals) for job in work],
    }  # fmt: skip
    for field, size in sizes.items():
        assert table[0, field] == 0
        assert (table[1:, field] == (table[:, field] + size)[:-1]).all()
    assert (np.diff(table[:, trace_table.RUNS_END], prepend=0) == rows + cols).all()


@given(st.integers(1, 3000), st.integers(-400, 400), st.none() | st.integers(0, 60))
def test_a_strip_has_all_rows_in_which_a_path_can_be(rows, more, detour):
    check_rows(rows, max(1, rows + more), detour)


def test_most_rows_of_a_large_leaf_are_left_out():
    assert check_rows(3000, 3000, 20) < 300


def check_rows(rows, cols, detour):
    """Returns the rows of a strip."""
    lowest, highest = diagonals(rows, cols, detour)
    height = int(directions.strip_rows(rows, lowest, highest))
    assert 1 <= height <= rows
    for first in range(0, cols, STRIP_WIDTH):
        above = directions.rows_above(first, rows, height, highest)
        columns = np.arange(first + 1, min(first + STRIP_WIDTH, cols) + 1)
        top, bottom = np.maximum(columns - highest, 1), np.minimum(columns - lowest, rows)
        seen = top <= bottom
        assert 0 <= above <= rows - height
        assert (top[seen] > above).all()
        assert (bottom[seen] <= above + height).all()
        if above > 0:  # what is above the strip, the cell to the left included, is on no path
            assert first - above > highest
    return height


@pytest.mark.parametrize(
    ("rows", "cols", "detour"), [(1, 1, None), (1, 1000, None), (5000, 6000, None), (32_000, 32_000, 300)]
)
def test_leaves_that_can_be_traced_take_little_memory(rows, cols, detour):
    assert traceback.can_trace(rows, cols, detour)
    assert traceback._device_bytes(shapes_of(jobs([(rows, cols, detour)])))[0] < 1 << 25


@pytest.mark.parametrize(
    ("rows", "cols", "detour"), [(6000, 6000, None), (32_000, 32_000, 3000), (70_000, 1, 0), (1, 70_000, 0)]
)
def test_larger_rectangles_cannot_be_traced(rows, cols, detour):
    assert not traceback.can_trace(rows, cols, detour)
