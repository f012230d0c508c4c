"""The work list of a sweep: jobs cut into strips in flat arrays, and the results read from these."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, chain

import numpy as np

from longalign.backends.base import SweepJob, SweepResult
from longalign.backends.cpu.config import SweepGeometry
from longalign.backends.cpu.workspace import JOB, NOTHING, STRIP, Records, WorkList
from longalign.backends.substitution_tables import lay_out
from longalign.model.boundary import BestCell, Boundary, IntArray, best_of
from longalign.model.pruning import Pruning, table_length, values_left_out
from longalign.model.scoring import NEG_INF

#: The most rows of a block in a job that is pruned. Lower blocks leave out more, but are swept more slowly.
PRUNED_ROWS = 1024

#: The last fields of the record of a job that is not pruned.
_UNPRUNED = (NOTHING, NOTHING, 0, 0, 0, 0)


class PreparedJobs:
    """Jobs laid out for one sweep: `work` for the threads, and the results once they are done."""

    def __init__(self, jobs: Sequence[SweepJob], geometry: SweepGeometry, threads: int) -> None:
        # With fewer jobs than threads, several threads share a job, and its strips must occupy all of them.
        share = threads if len(jobs) < threads else 1
        cuts = [cut_columns(len(job.target), job.cols, geometry, share) for job in jobs]
        self._jobs = jobs
        self._row_outputs = _offsets(len(job.rows) * (len(job.target) + 1) for job in jobs)
        self._col_outputs = _offsets(len(job.cols) * (len(job.query) + 1) for job in jobs)
        strips = _strips(jobs, cuts, self._col_outputs)
        matrices, begins = lay_out(job.scoring for job in jobs)
        self.work = WorkList(
            jobs=_job_records(jobs, cuts, begins, self._row_outputs, geometry, share),
            strips=strips,
            query=np.concatenate([job.query for job in jobs]),
            target=np.concatenate([job.target for job in jobs]),
            matrices=matrices,
            top_h=np.concatenate([job.top.h for job in jobs]),
            top_e=np.concatenate([job.top.gap for job in jobs]),
            column_h=np.concatenate([job.left.h for job in jobs]),
            column_f=np.concatenate([job.left.gap for job in jobs]),
            requested_rows=np.array([row for job in jobs for row in job.rows], np.int64),
            row_h=np.empty(self._row_outputs[-1], np.int32),
            row_e=np.empty(self._row_outputs[-1], np.int32),
            col_h=np.empty(self._col_outputs[-1], np.int32),
            col_f=np.empty(self._col_outputs[-1], np.int32),
            gains=_gain_tables(jobs),
            cells_left_out=np.zeros(len(jobs), np.int64),
            best=np.zeros((len(strips), 3), np.int64),
            rows_done=np.zeros(len(strips), np.int64),
            counters=np.zeros(3, np.int64),
        )

    def results(self) -> list[SweepResult]:
        """The result of every job, from the arrays that the threads have filled."""
        work, best, cells_left_out = self.work, self._best_cells(), self.work.cells_left_out.tolist()
        results = []
        for k, job in enumerate(self._jobs):
            rows = _boundaries(
                work.row_h, work.row_e, self._row_outputs[k], len(job.target), job.rows, job.left.h
            )
            cols = _boundaries(
                work.col_h, work.col_f, self._col_outputs[k], len(job.query), job.cols, job.top.h
            )
            best_cell = best[k] if job.track_best else BestCell()
            results.append(SweepResult(rows, cols, best_cell, cells_left_out[k]))
        return results

    def _best_cells(self) -> list[BestCell]:
        """The best cell of every job: the best of those that its strips have recorded."""
        cells: list[list[BestCell]] = [[BestCell()] for _ in self._jobs]
        for job, (score, i, j) in zip(self.work.strips["job"].tolist(), self.work.best.tolist(), strict=True):
            if score > 0:
                cells[job].append(BestCell(score, i, j))
        return [best_of(candidates) for candidates in cells]


def cut_columns(cols: int, requested: Sequence[int], geometry: SweepGeometry, share: int) -> list[int]:
    """The columns at which strips end: every requested column, and more where a strip would be too wide.

    A strip is a number of whole groups of lanes, because a part of a group takes as long as all of it. The
    strips between two requested columns have the same number of groups, and the last one has what is left.
    If there are enough groups, each of the `share` threads of a job gets about the same number of them.
    """
    stops: list[int] = []
    group = geometry.columns * geometry.group
    start = 0
    for stop in sorted({*requested, cols}):
        width = stop - start
        parts = -(-width // geometry.strip)
        shared = -(-parts // share) * share
        if width >= shared * group:
            parts = shared
        step = -(-width // (parts * group)) * group
        stops += [*range(start + step, stop, step), stop]
        start = stop
    return stops


def _offsets(lengths: Iterable[int]) -> list[int]:
    """The starts of pieces of these lengths that lie end to end, and the end of the last one."""
    return list(accumulate(lengths, initial=0))


def _strips(jobs: Sequence[SweepJob], cuts: list[list[int]], col_outputs: list[int]) -> Records:
    """All strips in ticket order: the first of every job, then the second of every job, and so on.

    In this order a thread rarely has to wait for the left neighbour of its strip.
    """
    order = sorted((k, job) for job, stops in enumerate(cuts) for k in range(len(stops)))
    outputs = [
        {stop: start + k * (len(job.query) + 1) for k, stop in enumerate(job.cols)}
        for job, start in zip(jobs, col_outputs[:-1], strict=True)
    ]
    latest = [NOTHING] * len(jobs)
    records = []
    for ticket, (k, job) in enumerate(order):
        start, stop = cuts[job][k - 1] if k else 0, cuts[job][k]
        records.append((job, start, stop, latest[job], outputs[job].get(stop, NOTHING)))
        latest[job] = ticket
    return np.array(records, STRIP)


def _job_records(
    jobs: Sequence[SweepJob],
    cuts: list[list[int]],
    matrices: list[int],
    row_outputs: list[int],
    geometry: SweepGeometry,
    share: int,
) -> Records:
    queries, targets = _offsets(len(job.query) for job in jobs), _offsets(len(job.target) for job in jobs)
    requests, pruning = _offsets(len(job.rows) for job in jobs), _pruning_fields(jobs)
    records = []
    for k, job in enumerate(jobs):
        rows, scoring = len(job.query), job.scoring
        block_rows = geometry.block_rows
        if _pruning_of(job):
            block_rows = min(block_rows, PRUNED_ROWS)
        if share > 1 and len(cuts[k]) > 1:
            # A strip starts a block after its left neighbour, so tall blocks would leave threads idle.
            block_rows = min(block_rows, max(geometry.min_rows, rows // (4 * share)))
        size = rows, len(job.target), int(job.local)
        costs = scoring.highest, scoring.lowest, scoring.gap_open, scoring.gap_extend
        pairs = scoring.letters, matrices[k]
        # Boundaries are one longer than the letters, hence the + k.
        indices = queries[k], targets[k], targets[k] + k, queries[k] + k
        rows_out = requests[k], requests[k + 1], row_outputs[k]
        records.append((*size, *costs, *pairs, *indices, block_rows, *rows_out, *pruning[k]))
    return np.array(records, JOB)


def _pruning_of(job: SweepJob) -> Pruning | None:
    return job.pruning if job.is_prunable else None


def _pruning_fields(jobs: Sequence[SweepJob]) -> list[tuple[int, ...]]:
    """The last fields of all job records; the gains of jobs that are pruned lie end to end."""
    fields: list[tuple[int, ...]] = []
    sides = (side for job in jobs if _pruning_of(job) for side in (job.query, job.target))
    starts = iter(_offsets(table_length(len(side)) for side in sides))
    for job in jobs:
        pruning = _pruning_of(job)
        if pruning is None:
            fields.append(_UNPRUNED)
            continue
        rises, values = job.track_best and pruning.rises, values_left_out(job.scoring, job.local)
        fields.append((next(starts), next(starts), pruning.bound, int(rises), *values))
    return fields


def _gain_tables(jobs: Sequence[SweepJob]) -> IntArray:
    """The gains of the query and of the target of each job that is pruned, end to end."""
    prunings = filter(None, map(_pruning_of, jobs))
    arrays = [each.arrays for pruning in prunings for each in (pruning.query, pruning.target)]
    return np.concatenate([np.zeros(0, np.int32), *chain.from_iterable(arrays)], dtype=np.int32)


def _boundaries(
    h: IntArray, gap: IntArray, start: int, length: int, places: Sequence[int], corners: IntArray
) -> tuple[Boundary, ...]:
    """The requested boundaries of one job; their corners lie on its left or top boundary."""
    boundaries = []
    for place in places:
        stop = start + length + 1
        h[start], gap[start] = corners[place], NEG_INF
        boundaries.append(Boundary(h[start:stop], gap[start:stop]))
        start = stop
    return tuple(boundaries)
