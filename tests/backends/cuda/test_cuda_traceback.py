"""How leaves share launches, and where their parts of arrays lie on the device. No GPU is needed."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.backends import trace_table
from longalign.backends.base import TraceJob
from longalign.model.boundary import State
from longalign.model.scoring import Scoring

pytest.importorskip("numba_cuda")

from longalign.backends.cuda.device.directions import COLUMN_AT, WORDS_AT, words_of
from longalign.backends.cuda.launch import traceback

shapes = st.lists(st.tuples(st.integers(1, 600), st.integers(1, 600)), min_size=1, max_size=20)


def jobs(shapes):
    return [
        TraceJob(*(np.zeros(size, np.uint8) for size in shape), Scoring(), State.H, State.H)
        for shape in shapes
    ]


@given(shapes, st.integers(1, 1 << 20))
def test_launches_hold_every_leaf_once_and_fit(shapes, room):
    launches = list(traceback._launches(jobs(shapes), room))
    assert sorted(k for launch in launches for k in launch) == list(range(len(shapes)))
    sizes = [[traceback._device_bytes(*shapes[k]) for k in launch] for launch in launches]
    assert all(sum(launch) <= room or len(launch) == 1 for launch in sizes)
    flat = [size for launch in sizes for size in launch]
    assert flat == sorted(flat, reverse=True)
    assert all(sum(first) + second[0] > room for first, second in pairwise(sizes))


@given(shapes)
def test_no_two_leaves_share_a_part_of_an_array(shapes):
    table = traceback._table(jobs(shapes))
    rows, cols = table[:, trace_table.ROWS], table[:, trace_table.COLS]
    sizes = {
        trace_table.QUERY_AT: rows, trace_table.TARGET_AT: cols, COLUMN_AT: rows,
        WORDS_AT: words_of(rows, cols)
    }  # fmt: skip
    for field, size in sizes.items():
        assert table[0, field] == 0
        assert (table[1:, field] == (table[:, field] + size)[:-1]).all()
    assert (np.diff(table[:, trace_table.RUNS_END], prepend=0) == rows + cols).all()


@pytest.mark.parametrize(("rows", "cols"), [(1, 1), (1, 1000), (8192, 8192), (65_000, 200)])
def test_leaves_that_can_be_traced_take_little_memory(rows, cols):
    assert traceback.can_trace(rows, cols)
    assert traceback._device_bytes(rows, cols) < 1 << 26


@pytest.mark.parametrize(("rows", "cols"), [(8193, 8192), (70_000, 1), (1, 70_000)])
def test_larger_rectangles_cannot_be_traced(rows, cols):
    assert not traceback.can_trace(rows, cols)
