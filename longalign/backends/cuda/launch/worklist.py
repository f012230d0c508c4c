"""A work list in the form the kernel reads: rectangles cut into strips, and their arrays end to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.alphabet import Codes
from longalign.backends.base import SweepJob, SweepResult
from longalign.backends.cuda import layout, window
from longalign.backends.cuda.config import LANES, STEP_ROWS, KernelConfig
from longalign.backends.cuda.pieces import LONG, in_pieces
from longalign.backends.matrices import lay_out
from longalign.boundary import BestCell, Boundary, Edge, EvenEdge, IntArray
from longalign.scoring import NEG_INF, TOO_MANY_LETTERS, Scoring

Packed = NDArray[np.int64]
#: Gives memory for an array of some shape and type, as `np.empty` does.
Take = Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]]

_HALF, _WORD = np.dtype("<i4"), np.dtype("<i8")

_END_OF_WANTED_ROWS = -1
#: More rows than any rectangle has: one band.
ALL_ROWS = TOO_MANY_LETTERS


@dataclass(frozen=True, slots=True, eq=False)
class WorkList:
    """The kernel's input for several rectangles (the field tables are in `layout`).

    `jobs` (rectangles, JOB_FIELDS) int64; `strips` (strips, STRIP_FIELDS) int32, each after its left
    neighbour and after itself in the band above; `query` and `target` uint8; `matrices` int32, as in
    `backends.matrices`, of at most `letters` letters; `wanted_rows` int32, each rectangle's list ended by -1;
    `flags` (strips,) int32, for the kernel to say how far each strip has come. `line_values` is the size of
    the output for wanted rows and columns, `state_values` of what interrupted strips keep.

    Top edges are int64, H and E as pairs, `top_values` in all; left edges int64, H and F of each row with
    their tags, overwritten by each strip in turn, `column_values` in all. Either array begins with `top` and
    `column`; what follows are even edges, which `edge_kernel` fills in by the table `even_edges` (edges,
    EDGE_FIELDS) int64.
    """

    jobs: NDArray[np.int64]
    strips: IntArray
    query: Codes
    target: Codes
    matrices: IntArray
    top: Packed
    column: Packed
    even_edges: NDArray[np.int64]
    wanted_rows: IntArray
    flags: IntArray
    top_values: int
    column_values: int
    line_values: int
    state_values: int
    letters: int


def build(
    jobs: Sequence[SweepJob], config: KernelConfig, band_rows: int = ALL_ROWS, take: Take = np.empty
) -> WorkList:
    """The work list of one launch; `jobs` is not empty. Bands have `band_rows` rows, or a little less. Memory
    for boundaries and for letters of several rectangles comes from `take`, `input_bytes` in all.

    Warps take the strips of a band from left to right, and bands as `_band_turns` says. Where there are more
    strips than warps fit on the device, lower bands spare the device from idling while the last few strips
    are swept. Bands slope: each strip is interrupted a `KernelConfig.slope` higher up than its left
    neighbour, with its parts where they are, and goes on without having to drain and fill them.
    """
    rows, cols = [len(job.query) for job in jobs], [len(job.target) for job in jobs]
    tops, lefts = [job.top for job in jobs], [job.left for job in jobs]
    row_values = [len(job.rows) * layout.line_size(length) for job, length in zip(jobs, cols, strict=True)]
    col_values = [len(job.cols) * layout.line_size(length) for job, length in zip(jobs, rows, strict=True)]
    lines_at = _starts([*chain.from_iterable(zip(row_values, col_values, strict=True))])
    matrices, matrices_at = lay_out(job.scoring for job in jobs)
    letters = max(job.scoring.letters for job in jobs)
    costs = {scoring: _costs(scoring, config) for scoring in {job.scoring for job in jobs}}
    fields = {
        layout.ROWS: rows, layout.COLS: cols, layout.QUERY_AT: _starts(rows), layout.TARGET_AT: _starts(cols),
        layout.TOP_AT: _edge_starts(tops, 1), layout.COLUMN_AT: _edge_starts(lefts, 0),
        layout.WANTED_AT: _starts([len(job.rows) + 1 for job in jobs]),
        layout.ROW_OUT_AT: lines_at[::2], layout.COL_OUT_AT: lines_at[1::2],
        **dict(enumerate(zip(*(costs[job.scoring] for job in jobs), strict=True), layout.MATCH)),
        layout.MATRIX_AT: matrices_at, layout.LETTERS: [letters] * len(jobs),
        layout.STATE_AT: [0] * len(jobs), layout.FRESH: [_is_fresh(job.top) for job in jobs],
    }  # fmt: skip
    table = np.array([fields[field] for field in range(layout.JOB_FIELDS)], np.int64).T.copy()

    strips = _strips(jobs, config)
    entries = _in_bands(strips, table[strips[:, layout.JOB], layout.ROWS], config, band_rows)
    states = _state_values(len(jobs), strips, entries, config)
    table[:, layout.STATE_AT] = _starts(states)

    top, column = _tops(_given(tops), take), _columns(_given(lefts), take)
    query, target = (_joined(letters, take) for letters in _letters(jobs))
    return WorkList(
        table,
        _round_robin(entries, config, band_rows),
        query,
        target,
        matrices,
        top,
        column,
        _even_edges(tops, fields[layout.TOP_AT], lefts, fields[layout.COLUMN_AT]),
        np.array([*chain.from_iterable((*job.rows, _END_OF_WANTED_ROWS) for job in jobs)], np.int32),
        np.zeros(len(entries), np.int32),
        sum(cols) + len(jobs),
        2 * sum(rows),
        sum(row_values) + sum(col_values),
        sum(states),
        letters,
    )


def count_strips(job: SweepJob, config: KernelConfig) -> int:
    """How many strips a rectangle is cut into."""
    width = config.strip_width
    return sum([-(-(end - start) // width) for start, end in pairwise(_ends(job))])


def _costs(scoring: Scoring, config: KernelConfig) -> tuple[int, ...]:
    """The fields from MATCH to BELOW."""
    opening, extend = scoring.gap_open + scoring.gap_extend, scoring.gap_extend
    below = window.below(scoring, config) if config.numbers == "packed" else 0
    return scoring.match, scoring.mismatch, opening, extend, below


def _is_fresh(top: Edge) -> bool:
    """Whether it is known that H is 0 all along it, and that no gap is open."""
    return isinstance(top, EvenEdge) and top.corner == top.first == top.step == 0


def _starts(lengths: list[int]) -> list[int]:
    return [0, *accumulate(lengths[:-1])]


def _letters(jobs: Sequence[SweepJob]) -> tuple[list[Codes], list[Codes]]:
    return [job.query for job in jobs], [job.target for job in jobs]


def _joined(letters: list[Codes], take: Take) -> Codes:
    if not _must_be_joined(letters):
        return letters[0]
    return np.concatenate(letters, out=take((sum(map(len, letters)),), np.dtype(np.uint8)))


def _must_be_joined(letters: list[Codes]) -> bool:
    # A reversed array of one element counts as contiguous and still has a negative stride, which numba's
    # transfers take for an empty array.
    return len(letters) > 1 or letters[0].strides != (1,)


def _strips(jobs: Sequence[SweepJob], config: KernelConfig) -> IntArray:
    """The strips of each rectangle from left to right: every wanted column is the right edge of a strip.

    Between two wanted columns the strips are full and one, the last, is narrower.
    """
    spans = [
        (k, start, end, number if number < len(job.cols) else -1)
        for k, job in enumerate(jobs)
        for number, (start, end) in enumerate(pairwise(_ends(job)))
    ]
    job, start, end, wanted = np.array(spans, np.int64).T
    full_width = config.strip_width
    counts = -(-(end - start) // full_width)
    of_span, since_start = _runs(counts)
    first = start[of_span] + since_start * full_width
    width = np.minimum(full_width, end[of_span] - first)
    job = job[of_span]
    strips = np.zeros((len(first), layout.STRIP_FIELDS), np.int32)
    strips[:, layout.JOB] = job
    strips[:, layout.FIRST_COLUMN], strips[:, layout.WIDTH] = first, width
    strips[:, layout.BEHIND] = (width - 1) // config.columns * STEP_ROWS
    strips[:, layout.WANTED_COLUMN] = -1
    strips[np.cumsum(counts) - 1, layout.WANTED_COLUMN] = wanted
    strips[:, layout.NUMBER] = np.arange(len(job)) - np.searchsorted(job, job)
    return strips


def _ends(job: SweepJob) -> list[int]:
    return [0, *job.cols] if job.cols and job.cols[-1] == len(job.target) else [0, *job.cols, len(job.target)]


def _runs(lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Of each element of runs that lie end to end: the number of its run, and its place in that."""
    run = np.repeat(np.arange(len(lengths)), lengths)
    return run, np.arange(len(run)) - (np.cumsum(lengths) - lengths)[run]


def _in_bands(strips: IntArray, rows: NDArray[np.int64], config: KernelConfig, band_rows: int) -> IntArray:
    """The strips of all bands in which they have rows, strip after strip; flags count from the first.

    A strip's first part sweeps `rows` rows, and as many more as its last part is behind. NEXT is the flag of
    the right neighbour in the band, or -1.
    """
    ends = rows + strips[:, layout.BEHIND]
    if band_rows >= ALL_ROWS:
        return _in_one_band(strips, ends)
    height = _height(config, band_rows)
    above = strips[:, layout.NUMBER].astype(np.int64) * config.slope
    first_band = above // height
    bands = (above + ends - 1) // height - first_band + 1
    strip, since_first = _runs(bands)
    entries, band = strips[strip], first_band[strip] + since_first
    above, ends = above[strip], ends[strip]
    first, last = (np.clip((band + more) * height - above, 0, ends) for more in (0, 1))
    flags = np.arange(len(entries))
    entries[:, layout.BAND], entries[:, layout.FLAG] = band, flags
    entries[:, layout.FIRST_START], entries[:, layout.LAST_START] = first, last
    entries[1:, layout.FLAG_ABOVE], entries[1:, layout.DONE_ABOVE] = flags[:-1], (last - first)[:-1]

    right = np.minimum(strip + 1, len(strips) - 1)
    place = band - first_band[right]
    is_there = (strips[right, layout.NUMBER] > strips[strip, layout.NUMBER]) & (place >= 0)
    is_there &= place < bands[right]
    entries[:, layout.NEXT] = np.where(is_there, (np.cumsum(bands) - bands)[right] + place, -1)
    return entries


def _in_one_band(strips: IntArray, ends: NDArray[np.int64]) -> IntArray:
    """The same, quickly, where none is interrupted: the other fields are 0."""
    flags, numbers = np.arange(len(strips)), strips[:, layout.NUMBER]
    strips[:, layout.FLAG], strips[:, layout.LAST_START] = flags, ends
    strips[:-1, layout.NEXT] = np.where(numbers[1:] > numbers[:-1], flags[1:], -1)
    strips[-1, layout.NEXT] = -1
    return strips


def _round_robin(entries: IntArray, config: KernelConfig, band_rows: int) -> IntArray:
    """In the order of tickets: band after band all first strips, then all second ones, and so on: as many
    rectangles as possible at a time.

    That keeps every strip behind its left neighbour, and every band behind the one above. Each learns the
    ticket of its right neighbour.
    """
    if band_rows >= ALL_ROWS and entries[-1, layout.NUMBER] == len(entries) - 1:
        # One rectangle, in one band: its flags are tickets.
        entries[-1, layout.NEXT] = layout.NO_TICKET
        return entries
    turn = _band_turns(entries, config, band_rows)[entries[:, layout.BAND]] + entries[:, layout.NUMBER]
    order = np.lexsort((entries[:, layout.BAND], turn))
    tickets = np.full(len(order) + 1, layout.NO_TICKET, np.int32)
    tickets[order] = np.arange(len(order))
    strips = entries[order]
    strips[:, layout.NEXT] = tickets[strips[:, layout.NEXT]]
    return strips


def _band_turns(entries: IntArray, config: KernelConfig, band_rows: int) -> NDArray[np.int64]:
    """The turn in which the first strip of each band is taken; the others of the band follow one a turn.

    As bands slope, each of the first ones ends at the right with strips that are ever shorter. These end one
    soon after the other, and the strips that warps take next can only begin one a `lag` after the other. So
    the next band begins there, by turns with them; not sooner, though, than all warps have had a strip or
    two of this band, as its own strips go on with those.
    """
    if band_rows >= ALL_ROWS:
        return np.zeros(1, np.int64)
    last_band, last_strip = entries[:, [layout.BAND, layout.NUMBER]].max(axis=0).tolist()
    height = _height(config, band_rows)
    whole = np.minimum(last_strip + 1, np.arange(last_band) * height // config.slope)
    return np.concatenate([[0], np.cumsum(np.maximum(whole, max(1, height // config.lag)))])


def _given(edges: Sequence[Edge]) -> list[Edge]:
    """The edges that are uploaded."""
    return [edge for edge in edges if not isinstance(edge, EvenEdge)]


def _edge_starts(edges: Sequence[Edge], corner: int) -> list[int]:
    """Where edges begin that lie end to end, with or without their corners: the given ones come first."""
    sizes = [len(edge) + corner for edge in edges]
    is_even = [isinstance(edge, EvenEdge) for edge in edges]
    order = sorted(range(len(edges)), key=is_even.__getitem__)
    begins = dict(zip(order, _starts([sizes[k] for k in order]), strict=True))
    return [begins[k] for k in range(len(edges))]


def _even_edges(
    tops: Sequence[Edge], tops_at: Sequence[int], lefts: Sequence[Edge], lefts_at: Sequence[int]
) -> NDArray[np.int64]:
    """The table of even edges."""
    sides = ((layout.TOP, tops, tops_at), (layout.LEFT, lefts, lefts_at))
    rows = [
        (side, at, edge.length, edge.corner, edge.first, edge.step)
        for side, edges, starts in sides
        for edge, at in zip(edges, starts, strict=True)
        if isinstance(edge, EvenEdge)
    ]
    return np.array(rows, np.int64).reshape(-1, layout.EDGE_FIELDS)


def _tops(edges: Sequence[Edge], take: Take) -> Packed:
    """Top edges end to end, H in the low half of an int64 (as `layout.pack` does on the device)."""
    halves = take((sum(len(edge) + 1 for edge in edges), 2), _HALF)
    start = 0
    for edge in edges:
        _copy(edge, 0, halves[start : start + len(edge) + 1])
        start += len(edge) + 1
    return halves.view(_WORD)[:, 0]


def _columns(edges: Sequence[Edge], take: Take) -> Packed:
    """H and the gap state of each row of left edges, as a strip hands them on, with the tag 0."""
    words = take((sum(map(len, edges)), 4), _HALF)
    start = 0
    for edge in edges:
        part = words[start : start + len(edge)]
        _copy(edge, 1, part[:, ::2])
        part[:, 1], part[:, 3] = 0, 0
        start += len(part)
    return words.view(_WORD).reshape(-1)


def _copy(edge: Edge, start: int, to: IntArray) -> None:
    """Copy H and the gap state, from index `start` of an edge on, to the two columns of `to`."""

    def copy(first: int, h: IntArray, gap: IntArray) -> None:
        part = to[first - start : first - start + len(h)]
        part[:, 0], part[:, 1] = h, gap

    if len(edge) > LONG:
        in_pieces(edge, start, copy)
    else:
        copy(start, edge.h[start:], edge.gap[start:])


def input_bytes(jobs: Sequence[SweepJob]) -> int:
    """Bytes that `build` takes memory for."""
    values = sum(len(edge) + 1 for edge in _given([job.top for job in jobs]))
    values += sum(2 * len(edge) for edge in _given([job.left for job in jobs]))
    joined = sum(sum(map(len, letters)) for letters in _letters(jobs) if _must_be_joined(letters))
    return _WORD.itemsize * values + joined


def count_bands(rows: int, config: KernelConfig, band_rows: int) -> int:
    """In how many bands a strip of so many rows is swept, at most: it may begin anywhere in its first one."""
    height = _height(config, band_rows)
    return 1 if height == _height(config, ALL_ROWS) else -(-(rows + config.span) // height) + 1


def _height(config: KernelConfig, band_rows: int) -> int:
    """Rows of a band: whole batches."""
    return max(config.batch, band_rows // config.batch * config.batch)


def _state_values(jobs: int, strips: IntArray, entries: IntArray, config: KernelConfig) -> list[int]:
    """int32 for what the strips of each rectangle keep, if any of them is interrupted."""
    if not entries[:, layout.FIRST_START].any():
        return [0] * jobs
    interrupted = entries[entries[:, layout.FIRST_START] > 0, layout.JOB]
    is_interrupted = np.bincount(interrupted, minlength=jobs) > 0
    counts = np.where(is_interrupted, np.bincount(strips[:, layout.JOB], minlength=jobs), 0)
    sizes: list[int] = (counts * config.state_words * LANES).tolist()
    return sizes


def results(
    jobs: Sequence[SweepJob], work: WorkList, lines: IntArray | None, best: IntArray
) -> list[SweepResult]:
    """What the kernel has left in its outputs, a result for each rectangle.

    `lines` (line_values,) becomes the memory of the boundaries, or goes to the jobs' sinks; None if that has
    been done. `best` (strips, BEST_FIELDS) holds the best cell of each strip.
    """
    if any(job.track_best for job in jobs):
        cells = _best_cells(work.strips[:, layout.JOB], best)
    else:
        cells = [BestCell()] * len(jobs)
    places = work.jobs[:, [layout.ROW_OUT_AT, layout.COL_OUT_AT]].tolist()
    return [
        _result(job, rows_at, cols_at, lines, cell if job.track_best else BestCell())
        for job, (rows_at, cols_at), cell in zip(jobs, places, cells, strict=True)
    ]


def _result(job: SweepJob, rows_at: int, cols_at: int, lines: IntArray | None, best: BestCell) -> SweepResult:
    if lines is None:
        return SweepResult((), (), best)
    rows = _boundaries(lines, rows_at, len(job.target), job.left, job.rows)
    cols = _boundaries(lines, cols_at, len(job.query), job.top, job.cols)
    return SweepResult(rows, cols, best).delivered(job)


def _boundaries(
    lines: IntArray, start: int, length: int, beside: Edge, places: Sequence[int]
) -> tuple[Boundary, ...]:
    """The boundaries that stand end to end from `start`, `length` letters each; their corners lie at these
    places of the edge `beside`."""
    if not places:
        return ()
    size = layout.line_size(length)
    blocks = lines[start : start + len(places) * size].reshape(len(places), 2, length + 1)
    blocks[:, 0, 0], blocks[:, 1, 0] = beside.h_at(places), NEG_INF
    return tuple([Boundary(h, gap) for h, gap in blocks])


def _best_cells(job_of_strip: IntArray, best: IntArray) -> list[BestCell]:
    """The best of each rectangle's strips, in the order of `BestCell.rank`."""
    score, i, j = best[:, layout.BEST_SCORE], best[:, layout.BEST_I], best[:, layout.BEST_J]
    order = np.lexsort((-j, i + j, -score, job_of_strip))
    in_order = job_of_strip[order]
    firsts = np.searchsorted(in_order, np.arange(in_order[-1] + 1))
    return [BestCell(*cell) for cell in best[order[firsts]].tolist()]
