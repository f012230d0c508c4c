"""Tracebacks of leaves by a pool of threads, in batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from longalign.backends import trace_table
from longalign.backends.base import Progress, Runs, TraceJob, diagonals
from longalign.backends.cpu.traceback_kernel import direction_bytes, leaf_tracer, make_scratch
from longalign.system.threads import WorkerThreads

#: Leaves of up to this many cells are traced whole. Their directions, about a byte a cell, should stay in a
#: cache.
_LEAF_CELLS = 1 << 20

#: Cells of a batch of leaves: enough to hide the cost of a call, and few enough to report progress.
_MIN_BATCH_CELLS, _MAX_BATCH_CELLS = 1 << 20, 1 << 26

#: Batches for each thread, if there are enough leaves, so that all threads finish at about the same time.
_BATCHES_PER_THREAD = 4


def can_trace(rows: int, cols: int, detour: int | None, room: int) -> bool:
    """See `longalign.backends.base.Backend`.

    A leaf of which few diagonals are computed may be larger than others: to cut it once more would take
    longer than to trace it. Its directions may take `room` bytes.
    """
    if rows * cols <= _LEAF_CELLS:
        return True
    return detour is not None and direction_bytes(rows, cols, *diagonals(rows, cols, detour)) <= room


def trace(jobs: Sequence[TraceJob], threads: int, progress: Progress) -> list[Runs]:
    """See `longalign.backends.base.Backend`."""

    def trace_kind(has_matrix: bool, jobs: list[TraceJob]) -> list[Runs]:
        return _trace_kind(has_matrix, jobs, threads, progress)

    return trace_table.trace_by_kind(jobs, trace_kind)


def _trace_kind(has_matrix: bool, jobs: Sequence[TraceJob], threads: int, progress: Progress) -> list[Runs]:
    """The paths of jobs that all have a substitution matrix, or all have none."""
    tracer = leaf_tracer(has_matrix)  # compiled before there are threads to wait for it
    paths: list[Runs] = []
    with WorkerThreads(threads) as executor:
        batches = list(_batches(jobs, threads))
        try:
            for batch, found in zip(
                batches, executor.map(partial(_trace_batch, tracer), batches), strict=True
            ):
                paths += found
                progress(sum(job.cells for job in batch))
        except BaseException:
            executor.shutdown(wait=True, cancel_futures=True)
            raise
    return paths


def _batches(jobs: Sequence[TraceJob], threads: int) -> Iterator[list[TraceJob]]:
    """Consecutive jobs in batches of about equally many cells."""
    share = sum(job.cells for job in jobs) // (_BATCHES_PER_THREAD * threads)
    share = min(max(share, _MIN_BATCH_CELLS), _MAX_BATCH_CELLS)
    batch: list[TraceJob] = []
    cells = 0
    for job in jobs:
        batch.append(job)
        cells += job.cells
        if cells >= share:
            yield batch
            batch, cells = [], 0
    if batch:
        yield batch


def _trace_batch(tracer: Callable[..., None], jobs: Sequence[TraceJob]) -> list[Runs]:
    table = trace_table.leaf_table(jobs)
    ends = table[:, trace_table.RUNS_END]
    runs, counts = np.empty(ends[-1], np.int32), np.empty(len(jobs), np.int64)
    tracer(*trace_table.inputs_of(jobs), table, make_scratch(table), runs, counts)
    return trace_table.paths_of(runs, ends.tolist(), counts.tolist())
