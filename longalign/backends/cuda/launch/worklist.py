"""A work list in the form that the kernel reads: rectangles cut into strips, and their arrays end to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import SweepJob, SweepResult
from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.excluded_pairs import PAIR_WORDS
from longalign.backends.cuda.planning import packed_range, raised_range
from longalign.backends.cuda.planning.edge_pieces import LONG, in_pieces
from longalign.backends.cuda.planning.strips import (
    ALL_ROWS,
    cut_strips,
    excluded_by_strip,
    in_bands,
    in_ticket_order,
)
from longalign.backends.substitution_tables import lay_out
from longalign.model.alphabet import Codes
from longalign.model.boundary import BestCell, Boundary, Edge, IntArray, LinearEdge
from longalign.model.pruning import values_left_out
from longalign.model.scoring import NEG_INF, Scoring

Packed = NDArray[np.int64]
#: Allocates an array of a shape and type, as `np.empty` does.
Allocate = Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]]

_HALF, _WORD = np.dtype("<i4"), np.dtype("<i8")

_END_OF_REQUESTED_ROWS = -1


@dataclass(frozen=True, slots=True, eq=False)
class WorkList:
    """The kernel's input for several rectangles. `work_tables` names the fields of the tables.

    - `jobs`, (rectangles, JOB_FIELDS) int64.
    - `strips`, (strips, STRIP_FIELDS) int32: the strips of all bands in the order of their tickets. Each
      comes after its left neighbour and after itself in the band above.
    - `query` and `target`, uint8: letters, end to end.
    - `matrices`, int32: substitution matrices as in `backends.substitution_tables`.
    - `lists`, int32: the requested rows of each rectangle, each list terminated by -1, then the gains of
      rectangles that are pruned, then the excluded pairs of each strip.
    - `flags`, (strips,) int32, all 0: the progress of each strip.
    - `top`, int64: H and E of top edges as pairs. On the device this array has `top_values` elements.
    - `column`, int64: H and F of each row of left edges, each with its tag. Each strip in turn overwrites
      them. On the device this array has `column_values` elements.
    - `linear_edges`, (edges, EDGE_FIELDS) int64: the edges that follow `top` and `column` on the device,
      where the kernel `fill_edges` fills them in.
    - `line_values`: the int32 of the output for requested rows and columns.
    - `state_values`: the int32 that interrupted strips store.
    """

    jobs: NDArray[np.int64]
    strips: IntArray
    query: Codes
    target: Codes
    matrices: IntArray
    top: Packed
    column: Packed
    linear_edges: NDArray[np.int64]
    lists: IntArray
    flags: IntArray
    top_values: int
    column_values: int
    line_values: int
    state_values: int


def build(
    jobs: Sequence[SweepJob], config: KernelConfig, band_rows: int = ALL_ROWS, allocate: Allocate = np.empty
) -> WorkList:
    """The work list of one launch; `jobs` is not empty.

    Bands have `band_rows` rows, rounded down to whole row blocks. `allocate` provides the memory for edges
    and for the letters of several rectangles, `input_bytes` in all.

    Warps take the strips of a band from left to right, and bands as `planning.strips` says. If there are more
    strips than resident warps, bands keep the device busy while the last few strips are swept. Bands slope:
    each strip is interrupted a `KernelConfig.band_slope` higher than its left neighbour. Its parts stay at
    their different rows, so it continues without draining and filling this pipeline.
    """
    matrices, matrices_at = lay_out(job.scoring for job in jobs)
    lists, gains_at = _rows_and_gains(jobs, config)
    table = _job_table(jobs, config, matrices_at, gains_at)
    strips = cut_strips(jobs, config)
    lists.append(_with_excluded_pairs(jobs, strips, sum(map(len, lists))))
    entries = in_bands(strips, table[strips[:, work_tables.JOB], work_tables.ROWS], config, band_rows)
    states = _state_values(len(jobs), strips, entries, config)
    table[:, work_tables.STATE_AT] = _offsets(states)

    tops, lefts = [job.top for job in jobs], [job.left for job in jobs]
    top, column = _tops(_uploaded(tops), allocate), _columns(_uploaded(lefts), allocate)
    query, target = (_joined(letters, allocate) for letters in _letters(jobs))
    tops_at, lefts_at = table[:, work_tables.TOP_AT].tolist(), table[:, work_tables.COLUMN_AT].tolist()
    return WorkList(
        jobs=table,
        strips=in_ticket_order(entries, config, band_rows),
        query=query,
        target=target,
        matrices=matrices,
        top=top,
        column=column,
        linear_edges=_linear_edges(tops, tops_at, lefts, lefts_at),
        lists=np.concatenate(lists),
        flags=np.zeros(len(entries), np.int32),
        top_values=sum(map(len, tops)) + len(jobs),
        column_values=2 * sum(map(len, lefts)),
        line_values=sum(_line_values(jobs)),
        state_values=sum(states),
    )


def _rows_and_gains(jobs: Sequence[SweepJob], config: KernelConfig) -> tuple[list[IntArray], list[int]]:
    """The lists of requested rows, and the gains of rectangles that are pruned, which follow them.

    Also returns the index at which the gains of the query and of the target of each rectangle begin, in turn.
    """
    rows = [*chain.from_iterable((*job.rows, _END_OF_REQUESTED_ROWS) for job in jobs)]
    gains = [arrays for job in jobs for arrays in _gains(job, config)]
    starts = [len(rows) + start for start in _offsets([sum(map(len, arrays)) for arrays in gains])]
    return [np.array(rows, np.int32), *chain.from_iterable(gains)], starts


def _job_table(
    jobs: Sequence[SweepJob], config: KernelConfig, matrices_at: list[int], gains_at: list[int]
) -> NDArray[np.int64]:
    """The table of rectangles. `gains_at` is that of `_rows_and_gains`. STATE_AT is still 0."""
    rows, cols = ([*map(len, letters)] for letters in _letters(jobs))
    lines_at, zeros = _offsets(_line_values(jobs)), [0] * len(jobs)
    costs = {scoring: _costs(scoring, config) for scoring in {job.scoring for job in jobs}}
    fields = {
        work_tables.ROWS: rows, work_tables.COLS: cols, work_tables.QUERY_AT: _offsets(rows),
        work_tables.TARGET_AT: _offsets(cols),
        work_tables.TOP_AT: _edge_starts([job.top for job in jobs], 1),
        work_tables.COLUMN_AT: _edge_starts([job.left for job in jobs], 0),
        work_tables.REQUESTED_AT: _offsets([len(job.rows) + 1 for job in jobs]),
        work_tables.ROW_OUT_AT: lines_at[::2], work_tables.COL_OUT_AT: lines_at[1::2],
        **dict(enumerate(zip(*(costs[job.scoring] for job in jobs), strict=True), work_tables.MATCH)),
        work_tables.MATRIX_AT: matrices_at,
        work_tables.LETTERS: [max(job.scoring.letters for job in jobs)] * len(jobs),
        work_tables.STATE_AT: zeros, work_tables.FREE_TOP: [_is_free(job.top) for job in jobs],
        work_tables.QUERY_GAIN_AT: gains_at[::2], work_tables.TARGET_GAIN_AT: gains_at[1::2],
        **dict(enumerate(zip(*(_pruning(job, config) for job in jobs), strict=True), work_tables.BOUND)),
        work_tables.CELLS_LEFT_OUT: zeros,
    }  # fmt: skip
    return np.array([fields[field] for field in range(work_tables.JOB_FIELDS)], np.int64).T.copy()


def _line_values(jobs: Sequence[SweepJob]) -> list[int]:
    """The int32 of the output for the requested rows, and for the requested columns, of each rectangle."""
    return [
        len(lines) * work_tables.line_size(len(letters))
        for job in jobs
        for lines, letters in ((job.rows, job.target), (job.cols, job.query))
    ]


def _costs(scoring: Scoring, config: KernelConfig) -> tuple[int, ...]:
    """The fields from MATCH to BASE_OFFSET."""
    opening, extend = scoring.opening, scoring.gap_extend
    packed = raised_range if config.prunes else packed_range
    below = packed.below(scoring, config) if config.numbers == "packed" else 0
    return scoring.match, scoring.mismatch, opening, extend, below


def _gains(job: SweepJob, config: KernelConfig) -> tuple[tuple[IntArray, ...], tuple[IntArray, ...]]:
    """The tables of gains by row and by column of a rectangle; empty in kernels that sweep everything."""
    if not config.prunes or job.pruning is None:
        return (), ()
    return job.pruning.query.arrays, job.pruning.target.arrays


def _pruning(job: SweepJob, config: KernelConfig) -> tuple[int, ...]:
    """The fields from BOUND to REACH."""
    if not config.prunes or job.pruning is None:
        return 0, 0, 0, 0, 0
    rises = job.track_best and job.pruning.rises
    left = values_left_out(job.scoring, job.local)
    return job.pruning.bound, int(rises), *left, raised_range.reach(job.scoring, config)


def _with_excluded_pairs(jobs: Sequence[SweepJob], strips: IntArray, begin: int) -> IntArray:
    """The excluded pairs of all strips, end to end. The fields of `strips` that say where they are are set.

    `begin` is the index at which they begin in `WorkList.lists`.
    """
    pairs, counts = excluded_by_strip(jobs, strips[:, work_tables.JOB], strips[:, work_tables.FIRST_COLUMN])
    strips[:, work_tables.EXCLUDED_AT] = begin + PAIR_WORDS * (np.cumsum(counts) - counts)
    strips[:, work_tables.EXCLUDED] = counts
    return pairs.reshape(-1)


def _is_free(top: Edge) -> bool:
    """Whether a top edge is known to have H = 0 everywhere and no open gap (FREE_TOP)."""
    return isinstance(top, LinearEdge) and top.corner == top.first == top.step == 0


def _offsets(lengths: list[int]) -> list[int]:
    return [0, *accumulate(lengths[:-1])]


def _letters(jobs: Sequence[SweepJob]) -> tuple[list[Codes], list[Codes]]:
    return [job.query for job in jobs], [job.target for job in jobs]


def _joined(letters: list[Codes], allocate: Allocate) -> Codes:
    if not _must_be_joined(letters):
        return letters[0]
    return np.concatenate(letters, out=allocate((sum(map(len, letters)),), np.dtype(np.uint8)))


def _must_be_joined(letters: list[Codes]) -> bool:
    # A reversed array of one element counts as contiguous but has a negative stride. Numba's transfers would
    # take it for an empty array.
    return len(letters) > 1 or letters[0].strides != (1,)


def _uploaded(edges: Sequence[Edge]) -> list[Edge]:
    """The edges that are uploaded."""
    return [edge for edge in edges if not isinstance(edge, LinearEdge)]


def _edge_starts(edges: Sequence[Edge], corner: int) -> list[int]:
    """The index at which each edge begins in an array of all edges, end to end.

    Edges that are uploaded come first, linear edges after them. `corner` is 1 if edges include their corner,
    else 0.
    """
    sizes = [len(edge) + corner for edge in edges]
    is_linear = [isinstance(edge, LinearEdge) for edge in edges]
    order = sorted(range(len(edges)), key=is_linear.__getitem__)
    begins = dict(zip(order, _offsets([sizes[k] for k in order]), strict=True))
    return [begins[k] for k in range(len(edges))]


def _linear_edges(
    tops: Sequence[Edge], tops_at: Sequence[int], lefts: Sequence[Edge], lefts_at: Sequence[int]
) -> NDArray[np.int64]:
    """The table of linear edges."""
    sides = ((work_tables.TOP, tops, tops_at), (work_tables.LEFT, lefts, lefts_at))
    rows = [
        (side, at, edge.length, edge.corner, edge.first, edge.step)
        for side, edges, starts in sides
        for edge, at in zip(edges, starts, strict=True)
        if isinstance(edge, LinearEdge)
    ]
    return np.array(rows, np.int64).reshape(-1, work_tables.EDGE_FIELDS)


def line_table(jobs: Sequence[SweepJob], work: WorkList) -> NDArray[np.int64]:
    """The table of requested lines, (lines, LINE_FIELDS) int64: rows and columns of each rectangle."""
    rows = []
    for job, fields in zip(jobs, work.jobs, strict=True):
        level = values_left_out(job.scoring, job.local)
        sides = (work_tables.ROW_OUT_AT, job.rows, job.target), (work_tables.COL_OUT_AT, job.cols, job.query)
        for at, lines, letters in sides:
            size = work_tables.line_size(len(letters))
            begins = (fields[at] + 1 + number * size for number in range(len(lines)))
            rows += [(begin, len(letters), *level) for begin in begins]
    return np.array(rows, np.int64).reshape(-1, work_tables.LINE_FIELDS)


def _tops(edges: Sequence[Edge], allocate: Allocate) -> Packed:
    """Top edges end to end as int64: H in the low half, E in the high half, as `work_tables.pack` does."""
    halves = allocate((sum(len(edge) + 1 for edge in edges), 2), _HALF)
    start = 0
    for edge in edges:
        _copy(edge, 0, halves[start : start + len(edge) + 1])
        start += len(edge) + 1
    return halves.view(_WORD)[:, 0]


def _columns(edges: Sequence[Edge], allocate: Allocate) -> Packed:
    """H and F of each row of left edges, with tag 0, in the form in which strips pass them on."""
    words = allocate((sum(map(len, edges)), 4), _HALF)
    start = 0
    for edge in edges:
        part = words[start : start + len(edge)]
        _copy(edge, 1, part[:, ::2])
        part[:, 1], part[:, 3] = 0, 0
        start += len(part)
    return words.view(_WORD).reshape(-1)


def _copy(edge: Edge, start: int, to: IntArray) -> None:
    """Copy H and the gap state of an edge, from index `start` on, to the two columns of `to`."""

    def copy(first: int, h: IntArray, gap: IntArray) -> None:
        part = to[first - start : first - start + len(h)]
        part[:, 0], part[:, 1] = h, gap

    if len(edge) > LONG:
        in_pieces(edge, start, copy)
    else:
        copy(start, edge.h[start:], edge.gap[start:])


def input_bytes(jobs: Sequence[SweepJob]) -> int:
    """Bytes that `build` allocates with `allocate`."""
    values = sum(len(edge) + 1 for edge in _uploaded([job.top for job in jobs]))
    values += sum(2 * len(edge) for edge in _uploaded([job.left for job in jobs]))
    joined = sum(sum(map(len, letters)) for letters in _letters(jobs) if _must_be_joined(letters))
    return _WORD.itemsize * values + joined


def _state_values(jobs: int, strips: IntArray, entries: IntArray, config: KernelConfig) -> list[int]:
    """The int32 that the strips of each rectangle store: none if no strip of it is interrupted."""
    if not entries[:, work_tables.FIRST_START].any():
        return [0] * jobs
    interrupted = entries[entries[:, work_tables.FIRST_START] > 0, work_tables.JOB]
    is_interrupted = np.bincount(interrupted, minlength=jobs) > 0
    counts = np.where(is_interrupted, np.bincount(strips[:, work_tables.JOB], minlength=jobs), 0)
    sizes: list[int] = (counts * config.state_words * LANES).tolist()
    return sizes


def results(
    jobs: Sequence[SweepJob],
    work: WorkList,
    lines: IntArray | None,
    best: IntArray,
    cells_left_out: Sequence[int],
) -> list[SweepResult]:
    """The result of each rectangle, from the kernel's outputs.

    `lines`, (line_values,) int32, holds the requested boundaries. The results are views of it, or its values
    go to the jobs' sinks. It is None if the sinks have already received them. `best`, (strips, BEST_FIELDS)
    int32, holds the best cell of each strip. `cells_left_out` is the number for each rectangle.
    """
    if any(job.track_best for job in jobs):
        cells = _best_cells(work.strips[:, work_tables.JOB], best)
    else:
        cells = [BestCell()] * len(jobs)
    places = work.jobs[:, [work_tables.ROW_OUT_AT, work_tables.COL_OUT_AT]].tolist()
    return [
        _result(job, rows_at, cols_at, lines, cell if job.track_best else BestCell(), left)
        for job, (rows_at, cols_at), cell, left in zip(jobs, places, cells, cells_left_out, strict=True)
    ]


def _result(
    job: SweepJob, rows_at: int, cols_at: int, lines: IntArray | None, best: BestCell, left: int
) -> SweepResult:
    if lines is None:
        return SweepResult((), (), best, left)
    rows = _boundaries(lines, rows_at, len(job.target), job.left, job.rows)
    cols = _boundaries(lines, cols_at, len(job.query), job.top, job.cols)
    return SweepResult(rows, cols, best, left).delivered(job)


def _boundaries(
    lines: IntArray, start: int, length: int, beside: Edge, places: Sequence[int]
) -> tuple[Boundary, ...]:
    """The boundaries that lie end to end in `lines` from `start` on, each of `length` letters.

    The kernel does not write their corners. These are taken from the edge `beside`, at the indices `places`.
    """
    if not places:
        return ()
    size = work_tables.line_size(length)
    blocks = lines[start : start + len(places) * size].reshape(len(places), 2, length + 1)
    blocks[:, 0, 0], blocks[:, 1, 0] = beside.h_at(places), NEG_INF
    return tuple([Boundary(h, gap) for h, gap in blocks])


def _best_cells(job_of_strip: IntArray, best: IntArray) -> list[BestCell]:
    """The best cell of each rectangle: the first of its strips' cells in the order of `BestCell.rank`."""
    score, i, j = best[:, work_tables.BEST_SCORE], best[:, work_tables.BEST_I], best[:, work_tables.BEST_J]
    order = np.lexsort((-j, i + j, -score, job_of_strip))
    in_order = job_of_strip[order]
    firsts = np.searchsorted(in_order, np.arange(in_order[-1] + 1))
    return [BestCell(*cell) for cell in best[order[firsts]].tolist()]
