"""How rectangles share launches, and where their parts of arrays lie on the device. No GPU is needed."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.model.scoring import Scoring
from longalign.testing.sweep_jobs import whole_matrix

pytest.importorskip("numba_cuda")

from longalign.backends.cuda.kernels import start_states as kernel
from longalign.backends.cuda.launch import start_states

shapes = st.lists(st.tuples(st.integers(1, 900), st.integers(1, 900)), min_size=1, max_size=12)


def jobs(shapes):
    return [whole_matrix(*(np.zeros(size, np.uint8) for size in shape), Scoring(), True) for shape in shapes]


@given(shapes, st.integers(1, 1 << 18))
def test_launches_hold_every_rectangle_once_and_fit(shapes, room):
    work = jobs(shapes)
    launches = list(start_states._launches(work, room))
    assert sorted(k for launch in launches for k in launch) == list(range(len(shapes)))
    for launch in launches:
        assert len(launch) == 1 or sum(start_states._device_bytes(work[k]) for k in launch) <= room


@given(shapes)
def test_every_strip_comes_once_and_after_its_left_neighbour(shapes):
    work = jobs(shapes)
    strips = start_states.strip_table(work, start_states.table(work))[0].tolist()
    wanted = {
        (job, first) for job, (_, cols) in enumerate(shapes) for first in range(0, cols, kernel.STRIP_WIDTH)
    }
    assert len(strips) == len(wanted)
    assert {(job, first) for job, first, *_ in strips} == wanted
    for ticket, (job, first, left, *_) in enumerate(strips):
        if first == 0:
            assert left == kernel.NO_STRIP
        else:
            assert left < ticket
            assert strips[left][:2] == [job, first - kernel.STRIP_WIDTH]


@given(shapes)
def test_no_two_rectangles_share_a_part_of_an_array(shapes):
    table = start_states.table(jobs(shapes))
    rows, cols = table[:, kernel.ROWS], table[:, kernel.COLS]
    sizes = {
        kernel.QUERY_AT: rows, kernel.TARGET_AT: cols, kernel.TOP_AT: cols + 1, kernel.COLUMN_AT: rows
    }  # fmt: skip
    for field, size in sizes.items():
        assert table[0, field] == 0
        assert (table[1:, field] == (table[:, field] + size)[:-1]).all()
