"""The kernel that fills in linear edges, in Numba's simulator."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.kernels import fill_edges as edge_kernel
from longalign.backends.cuda.launch import worklist
from longalign.model.boundary import Boundary, State, entry_edges, local_edges
from longalign.model.scoring import Scoring
from longalign.testing.sweep_jobs import whole_matrix

CONFIG = KernelConfig(False, False, columns=2)


def swept(edge):
    return Boundary(edge.h, edge.gap)


def entered(rows, cols, state, value=0):
    job = whole_matrix(np.zeros(rows, np.uint8), np.zeros(cols, np.uint8), Scoring(), False)
    top, left = entry_edges(state, rows, cols, job.scoring, value)
    return replace(job, top=top, left=left)


def device_edges(work, grid, threads):
    """The top and left edges of each rectangle of a work list, as the sweep kernel reads them."""
    top, column = np.full(work.top_values, 99, np.int64), np.full(work.column_values, 99, np.int64)
    top[: len(work.top)], column[: len(work.column)] = work.top, work.column
    if len(work.linear_edges):
        edge_kernel.build_kernel()[grid, threads](work.linear_edges, top, column)
    return [
        (
            top[fields[work_tables.TOP_AT] :][: fields[work_tables.COLS] + 1].tolist(),
            column[2 * fields[work_tables.COLUMN_AT] :][: 2 * fields[work_tables.ROWS]].tolist(),
        )
        for fields in work.jobs
    ]


@pytest.mark.parametrize(("grid", "threads"), [((1, 1), 4), ((2, 3), 2)])
def test_edges_are_filled_in_as_they_would_be_uploaded(grid, threads):
    jobs = [entered(5, 9, state, value) for state in State for value in (0, -(1 << 30), 1 << 30)]
    jobs.append(replace(jobs[0], top=jobs[3].top.part(2, 9), target=jobs[0].target[2:]))
    top, left = local_edges(7, 1)
    jobs.append(replace(entered(7, 1, State.H), top=top, left=left))
    jobs[1] = replace(jobs[1], top=swept(jobs[1].top))
    jobs[4] = replace(jobs[4], left=swept(jobs[4].left))
    plain = [replace(job, top=swept(job.top), left=swept(job.left)) for job in jobs]
    work, uploaded = worklist.build(jobs, CONFIG), worklist.build(plain, CONFIG)
    assert len(work.linear_edges) == 2 * len(jobs) - 2
    assert len(uploaded.linear_edges) == 0
    assert device_edges(work, grid, threads) == device_edges(uploaded, grid, threads)


def test_every_value_has_a_thread():
    work = worklist.build([entered(5, 100_000, State.H), entered(1, 1, State.H)], CONFIG)
    across, down = edge_kernel.grid_for(work.linear_edges, 128)
    assert down == 4
    assert across * 128 * 16 >= 100_001 > (across - 1) * 128 * 16
