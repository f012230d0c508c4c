"""The oracle: a back end in plain Python, with which tests compare every other back end.

It evaluates `longalign.model.recurrence` cell by cell and keeps whole DP matrices, so it is for short
sequences. About a million cells take a second.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Sequence

import numpy as np

from longalign.backends.base import (
    Backend,
    EdgeStarts,
    Kernel,
    Progress,
    Rectangle,
    Runs,
    SweepJob,
    SweepResult,
    TraceJob,
    no_progress,
)
from longalign.model.alignment import Op, merge_runs
from longalign.model.alphabet import Codes
from longalign.model.boundary import (
    BestCell,
    Boundary,
    StartLine,
    State,
    best_of,
    edge_starts,
    entry_edges,
    start_code,
)
from longalign.model.pruning import is_needed, values_left_out
from longalign.model.recurrence import H, direction, make_cell, make_start_rule, step_back
from longalign.model.scoring import NEG_INF, Scoring


def _larger(x: int, y: int) -> int:
    return x if x >= y else y  # takes half the time of `max`


CELL = {local: make_cell(_larger, operator.sub, local) for local in (True, False)}
START_RULE = {local: make_start_rule(local) for local in (True, False)}


def letter_score(a: int, b: int, scoring: Scoring) -> int:
    """c(a, b) for two codes."""
    if scoring.table is not None:
        return scoring.table.scores[a][b]
    return scoring.match if a == b else scoring.mismatch


def matrices(job: Rectangle) -> tuple[list[list[int]], list[list[int]], list[list[int]]]:
    """H, E and F of every cell, as lists of m + 1 rows of n + 1 values, boundaries included.

    With pruning, every single cell is a block that may be left out.
    """
    h, e, f, _ = _matrices(job)
    return h, e, f


def _matrices(job: Rectangle) -> tuple[list[list[int]], list[list[int]], list[list[int]], int]:
    """The same, and the number of cells that were left out."""
    cell, scoring = CELL[job.local], job.scoring
    opening, extend = scoring.opening, scoring.gap_extend
    targets = job.target.tolist()
    barred = _barred(job)
    h = [[int(x) for x in job.top.h]]
    e = [[int(x) for x in job.top.gap]]
    f = [[NEG_INF] * (len(targets) + 1)]
    nothing, gap = values_left_out(scoring, job.local)
    gains, left_out = _gains(job), 0
    for i, a in enumerate(job.query.tolist(), start=1):
        above_h, above_e = h[-1], e[-1]
        row_h, row_e, row_f = [int(job.left.h[i])], [NEG_INF], [int(job.left.gap[i])]
        for rows, row in ((h, row_h), (e, row_e), (f, row_f)):
            rows.append(row)
        for j, b in enumerate(targets, start=1):
            if gains and not _is_needed(job, gains[i - 1][j - 1], h, e, f, i, j):
                new_h, new_e, new_f = nothing, gap, gap
                left_out += 1
            else:
                pair = above_h[j - 1] + letter_score(a, b, scoring)
                new_h, new_e, new_f, _ = cell(
                    NEG_INF if barred and (i - 1, j - 1) in barred else pair,
                    above_h[j] - opening,
                    above_e[j],
                    row_h[-1] - opening,
                    row_f[-1],
                    extend,
                    0,
                )
            row_h.append(new_h)
            row_e.append(new_e)
            row_f.append(new_f)
    return h, e, f, left_out


def _barred(job: Rectangle) -> set[tuple[int, int]]:
    """The places of letter pairs that are excluded, from 0."""
    return {*zip(job.excluded.query.tolist(), job.excluded.target.tolist(), strict=True)}


def _gains(job: Rectangle) -> list[list[int]]:
    """The most that a path gains from the edges of each cell on: m rows of n values; [] without pruning."""
    if job.pruning is None:
        return []
    i, j = np.arange(len(job.query))[:, None], np.arange(len(job.target))
    gains: list[list[int]] = job.pruning.gain(i, i + 1, j, j + 1).tolist()
    return gains


def _is_needed(
    job: Rectangle,
    gain: int,
    h: list[list[int]],
    e: list[list[int]],
    f: list[list[int]],
    i: int,
    j: int,
) -> bool:
    """Whether the cell in row i and column j, both from 1, has to be computed in a job with pruning."""
    assert job.pruning is not None
    above, left = i - 1, j - 1
    highest = max(
        h[above][left], h[above][j], h[i][left],
        e[above][left], e[above][j], e[i][left],
        f[above][left], f[above][j], f[i][left],
    )  # fmt: skip
    return is_needed(highest, gain, job.scoring.gap_open, job.pruning.bound)


class ReferenceBackend:
    """The oracle as a back end, for the conformance suites and for tests of the phases."""

    name = "reference"
    min_chunk, saturating_side = 1, 4
    max_share_pruned = max_share_stored = 1.0
    min_pruned_cells = 1
    excludes_pairs = True
    cells_per_path_cell = 40
    host_bytes_per_call = 256 << 20
    program_bytes = 288 << 20
    line_bytes = 16
    tile_overhead = band_row_seconds = 0.0

    def sweep(self, jobs: Sequence[SweepJob], progress: Progress = no_progress) -> list[SweepResult]:
        results = []
        for job in jobs:
            results.append(_sweep(job).delivered(job))
            progress(job.cells)
        return results

    def tiles_at_once(self, rows: int, cols: int, *, small: bool) -> int:
        return 1

    def parts(self, max_parts: int, cells: int, *, streams: bool) -> Sequence[Backend]:
        return (self,)

    def kernels(self, scoring: Scoring | None = None, *, local: bool = True) -> list[Kernel]:
        return []

    def max_compilers(self) -> int:
        return 1

    def max_boundary_cells(self) -> int:
        return sys.maxsize

    def can_trace(self, rows: int, cols: int, detour: int | None = None) -> bool:
        return rows * cols <= 4096

    def trace(self, jobs: Sequence[TraceJob], progress: Progress = no_progress) -> list[Runs]:
        paths = []
        for job in jobs:
            paths.append(_trace(job))
            progress(job.cells)
        return paths

    def starts(self, jobs: Sequence[Rectangle], progress: Progress = no_progress) -> list[EdgeStarts]:
        found = []
        for job in jobs:
            found.append(_starts(job))
            progress(job.cells)
        return found

    def tile_shape(self, rows: int, cols: int, devices: int = 1) -> tuple[int, int]:
        return 64, 64

    def strip_width(self, rows: int, cols: int) -> int:
        return 1

    def sweep_seconds(self, rows: int, cols: int, scoring: Scoring, local: bool) -> float:
        return rows * cols * 1e-6

    def explain(self, job: SweepJob) -> dict[str, str]:
        return {"kernel": "plain Python"}

    def describe(self) -> dict[str, str]:
        return {"name": self.name, "hardware": "plain Python"}


def _sweep(job: SweepJob) -> SweepResult:
    h, e, f, left_out = _matrices(job)
    rows = tuple(_boundary(h[r], [NEG_INF, *e[r][1:]]) for r in job.rows)
    cols = tuple(_boundary([row[c] for row in h], [NEG_INF, *(row[c] for row in f[1:])]) for c in job.cols)
    return SweepResult(rows, cols, _best(h) if job.track_best else BestCell(), left_out)


def _boundary(h: list[int], gap: list[int]) -> Boundary:
    return Boundary(np.array(h, np.int32), np.array(gap, np.int32))


def _starts(job: Rectangle) -> EdgeStarts:
    rule, scoring = START_RULE[job.local], job.scoring
    opening = scoring.opening
    h, e, f = matrices(job)
    rows, cols = len(job.query), len(job.target)
    barred = _barred(job)
    top, left = edge_starts(rows, cols)
    start_h = [top.h.tolist()] + [[code] + [0] * cols for code in left.h[1:].tolist()]
    start_e = [top.gap.tolist()] + [[0] * (cols + 1) for _ in range(rows)]
    start_f = [[0] * (cols + 1)] + [[code] + [0] * cols for code in left.gap[1:].tolist()]
    targets = job.target.tolist()
    for i, a in enumerate(job.query.tolist(), start=1):
        for j, b in enumerate(targets, start=1):
            start_h[i][j], start_e[i][j], start_f[i][j] = rule(
                h[i][j],
                NEG_INF if (i - 1, j - 1) in barred else h[i - 1][j - 1] + letter_score(a, b, scoring),
                e[i][j],
                f[i][j],
                h[i - 1][j] - opening,
                h[i][j - 1] - opening,
                0,
                start_h[i - 1][j - 1],
                start_h[i - 1][j],
                start_e[i - 1][j],
                start_h[i][j - 1],
                start_f[i][j - 1],
                start_code(i, j, H),
            )
    return EdgeStarts(
        _start_line(start_h[-1], start_e[-1]),
        _start_line([row[-1] for row in start_h], [row[-1] for row in start_f]),
    )


def _start_line(h: list[int], gap: list[int]) -> StartLine:
    return StartLine(np.array(h[1:], np.int64), np.array(gap[1:], np.int64))


def _best(h: list[list[int]]) -> BestCell:
    highest = max((value for row in h[1:] for value in row[1:]), default=0)
    cells = [
        BestCell(highest, i, j)
        for i, row in enumerate(h[1:], start=1)
        if highest > 0
        for j, value in enumerate(row[1:], start=1)
        if value == highest
    ]
    return best_of(cells)


def _trace(job: TraceJob) -> Runs:
    i, j = len(job.query), len(job.target)
    edges = entry_edges(job.entry, i, j, job.scoring)
    whole = SweepJob(job.query, job.target, job.scoring, *edges, local=False, excluded=job.excluded)
    i, j, _, path = walk_back(whole, matrices(whole), i, j, job.exit)
    path += [Op.INSERTION] * i + [Op.DELETION] * j
    return merge_runs(path[::-1], np.ones(len(path)))


def walk_back(
    job: SweepJob, values: tuple[list[list[int]], ...], i: int, j: int, state: int
) -> tuple[int, int, int, list[Op]]:
    """Follow the path to cell (i, j) in `state` back to where it enters the rectangle, or starts inside.

    `values` are those of `matrices`. Returns the cell and the state there, and the operations on the way,
    from the last one back.
    """
    h, e, f = values
    barred = _barred(job)
    opening, ops = job.scoring.opening, []
    while i > 0 and j > 0 and not (job.local and state == State.H and h[i][j] == 0):
        pair = h[i - 1][j - 1] + letter_score(job.query[i - 1], job.target[j - 1], job.scoring)
        if (i - 1, j - 1) in barred:
            pair = NEG_INF
        bits = direction(h[i][j], pair, e[i][j], f[i][j], h[i - 1][j] - opening, h[i][j - 1] - opening)
        down, right, state = step_back(state, bits)
        ops.append(Op.DIAGONAL if down and right else Op.INSERTION if down else Op.DELETION)
        i, j = i - down, j - right
    return i, j, state, ops


def encode(text: str, ambiguous: int) -> Codes:
    """Codes of a short DNA text: A C G T as 0-3, every other letter as `ambiguous`."""
    return np.array(["ACGT".find(x) if x in "ACGT" else ambiguous for x in text], np.uint8)
