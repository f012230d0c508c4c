"""A work list in the form the kernel reads: rectangles cut into strips, and their arrays end to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Codes, SweepJob, SweepResult
from longalign.backends.cuda import layout, window
from longalign.backends.cuda.config import LANES, STEP_ROWS, KernelConfig
from longalign.backends.matrices import lay_out
from longalign.boundary import BestCell, Boundary, IntArray
from longalign.scoring import NEG_INF

Packed = NDArray[np.int64]
#: Gives memory for an array of some shape and type, as `np.empty` does.
Take = Callable[[tuple[int, ...], np.dtype[Any]], NDArray[Any]]

_HALF, _WORD = np.dtype("<i4"), np.dtype("<i8")
T = TypeVar("T", bound=np.generic)

_END_OF_WANTED_ROWS = -1
#: More rows than any rectangle has: one band.
ALL_ROWS = 1 << 30


@dataclass(frozen=True, slots=True, eq=False)
class WorkList:
    """The kernel's input for several rectangles (the field tables are in `layout`).

    `jobs` (rectangles, JOB_FIELDS) int64; `strips` (strips, STRIP_FIELDS) int32, each after its left
    neighbour and after itself in the band above; `query` and `target` uint8; `matrices` int32, as in
    `backends.matrices`, of at most `letters` letters; `top` int64, H and E as pairs; `column` int64, H and F
    of each row with their tags, overwritten by each strip in turn; `wanted_rows` int32, each rectangle's list
    ended by -1; `flags` (strips,) int32, for the kernel to say how far each strip has come. `line_values` is
    the size of the output for wanted rows and columns, `state_values` of what interrupted strips keep.
    """

    jobs: NDArray[np.int64]
    strips: IntArray
    query: Codes
    target: Codes
    matrices: IntArray
    top: Packed
    column: Packed
    wanted_rows: IntArray
    flags: IntArray
    line_values: int
    state_values: int
    letters: int


def build(
    jobs: Sequence[SweepJob], config: KernelConfig, band_rows: int = ALL_ROWS, take: Take = np.empty
) -> WorkList:
    """The work list of one launch; `jobs` is not empty. Bands have `band_rows` rows, or a little less. Memory
    for boundaries comes from `take`, `input_bytes` in all.

    Warps take the strips of a band from left to right, band by band. Where there are more strips than warps
    fit on the device, lower bands spare the device from idling while the last few strips are swept. Bands
    slope: each strip is interrupted a `KernelConfig.slope` higher up than its left neighbour, with its parts
    where they are, and goes on without having to drain and fill them.
    """
    table = np.zeros((len(jobs), layout.JOB_FIELDS), np.int64)
    table[:, layout.ROWS] = [len(job.query) for job in jobs]
    table[:, layout.COLS] = [len(job.target) for job in jobs]
    table[:, layout.QUERY_AT] = table[:, layout.COLUMN_AT] = rows_at = _starts(
        [len(job.query) for job in jobs]
    )
    table[:, layout.TARGET_AT] = _starts([len(job.target) for job in jobs])
    table[:, layout.TOP_AT] = tops_at = _starts([len(job.top.h) for job in jobs])
    table[:, layout.WANTED_AT] = _starts([len(job.rows) + 1 for job in jobs])
    row_values = [len(job.rows) * layout.line_size(len(job.target)) for job in jobs]
    col_values = [len(job.cols) * layout.line_size(len(job.query)) for job in jobs]
    lines_at = _starts([*chain.from_iterable(zip(row_values, col_values, strict=True))])
    table[:, layout.ROW_OUT_AT], table[:, layout.COL_OUT_AT] = lines_at[::2], lines_at[1::2]
    matrices, table[:, layout.MATRIX_AT] = lay_out(job.scoring for job in jobs)
    table[:, layout.LETTERS] = letters = max(job.scoring.letters for job in jobs)
    table[:, layout.MATCH] = [job.scoring.match for job in jobs]
    table[:, layout.MISMATCH] = [job.scoring.mismatch for job in jobs]
    table[:, layout.OPENING] = [job.scoring.gap_open + job.scoring.gap_extend for job in jobs]
    table[:, layout.EXTEND] = [job.scoring.gap_extend for job in jobs]
    if config.numbers == "packed":
        table[:, layout.BELOW] = [window.below(job.scoring, config) for job in jobs]

    strips_of = [_in_bands(_strips(job, config), len(job.query), config, band_rows) for job in jobs]
    flags_at = _starts([len(strips) for strips in strips_of])
    for job, (strips, flag) in enumerate(zip(strips_of, flags_at, strict=True)):
        strips[:, layout.JOB] = job
        strips[:, layout.FLAG] += flag
        strips[:, layout.FLAG_ABOVE] += flag
    states = [_state_values(strips, config) for strips in strips_of]
    table[:, layout.STATE_AT] = _starts(states)

    return WorkList(
        table,
        _round_robin(strips_of),
        _joined([job.query for job in jobs]),
        _joined([job.target for job in jobs]),
        matrices,
        _tops(jobs, tops_at, take),
        _columns(jobs, rows_at, take),
        np.array([*chain.from_iterable((*job.rows, _END_OF_WANTED_ROWS) for job in jobs)], np.int32),
        np.zeros(sum(map(len, strips_of)), np.int32),
        sum(row_values) + sum(col_values),
        sum(states),
        letters,
    )


def count_strips(job: SweepJob, config: KernelConfig) -> int:
    """How many strips a rectangle is cut into."""
    return len(_strips(job, config))


def _starts(lengths: list[int]) -> list[int]:
    return [0, *accumulate(lengths[:-1])]


def _joined(parts: list[NDArray[T]]) -> NDArray[T]:
    # A reversed array of one element counts as contiguous and still has a negative stride, which numba's
    # transfers take for an empty array.
    if len(parts) == 1 and parts[0].strides == (parts[0].itemsize,):
        return parts[0]
    return np.concatenate(parts)


def _strips(job: SweepJob, config: KernelConfig) -> IntArray:
    """The strips of a rectangle from left to right: every wanted column is the right edge of a strip.

    Between two wanted columns the strips are full and one, the last, is narrower.
    """
    ends = [0, *job.cols] if job.cols and job.cols[-1] == len(job.target) else [0, *job.cols, len(job.target)]
    parts = []
    for number, (start, end) in enumerate(pairwise(ends)):
        first = np.arange(start, end, config.strip_width)
        part = np.zeros((len(first), layout.STRIP_FIELDS), np.int32)
        part[:, layout.FIRST_COLUMN] = first
        part[:, layout.WIDTH] = np.minimum(config.strip_width, end - first)
        part[:, layout.BEHIND] = (part[:, layout.WIDTH] - 1) // config.columns * STEP_ROWS
        part[:, layout.WANTED_COLUMN] = -1
        if number < len(job.cols):
            part[-1, layout.WANTED_COLUMN] = number
        parts.append(part)
    strips = np.concatenate(parts)
    strips[:, layout.NUMBER] = np.arange(len(strips))
    return strips


def _round_robin(strips_of: list[IntArray]) -> IntArray:
    """Band by band all first strips, then all second ones, and so on: as many rectangles as possible at a
    time.

    That keeps every strip behind its left neighbour, and every band behind the one above. Each learns the
    ticket of its right neighbour.
    """
    strips = np.concatenate(strips_of)
    strips = np.ascontiguousarray(strips[np.lexsort((strips[:, layout.NUMBER], strips[:, layout.BAND]))])
    place = strips[:, [layout.JOB, layout.BAND, layout.NUMBER]]
    order = np.lexsort(place.T[::-1])
    beside = (np.diff(place[order], axis=0) == [0, 0, 1]).all(axis=1)
    strips[:, layout.NEXT] = layout.NO_TICKET
    strips[order[:-1][beside], layout.NEXT] = order[1:][beside]
    return strips


def _tops(jobs: Sequence[SweepJob], starts: list[int], take: Take) -> Packed:
    """Top boundaries end to end, H in the low half of an int64 (as `layout.pack` does on the device)."""
    halves = take((sum(len(job.top.h) for job in jobs), 2), _HALF)
    for job, start in zip(jobs, starts, strict=True):
        part = halves[start : start + len(job.top.h)]
        part[:, 0], part[:, 1] = job.top.h, job.top.gap
    return halves.view(_WORD)[:, 0]


def _columns(jobs: Sequence[SweepJob], starts: list[int], take: Take) -> Packed:
    """H and the gap state of each row of the left boundaries, as a strip hands them on, with the tag 0."""
    words = take((sum(len(job.query) for job in jobs), 4), _HALF)
    for job, start in zip(jobs, starts, strict=True):
        part = words[start : start + len(job.query)]
        part[:, 0], part[:, 2] = job.left.h[1:], job.left.gap[1:]
        part[:, 1], part[:, 3] = 0, 0
    return words.view(_WORD).reshape(-1)


def input_bytes(jobs: Sequence[SweepJob]) -> int:
    """Bytes of the boundaries that `build` takes memory for."""
    return sum(_WORD.itemsize * (2 * len(job.query) + len(job.top.h)) for job in jobs)


def _in_bands(strips: IntArray, rows: int, config: KernelConfig, band_rows: int) -> IntArray:
    """The strips of all bands in which they have rows, strip after strip, given each once; flags count from
    the first.

    A strip's first part sweeps `rows` rows and as many more as its last part is behind.
    """
    height = _height(config, band_rows)
    ends, above = rows + strips[:, layout.BEHIND], strips[:, layout.NUMBER] * config.slope
    first_band, bands = above // height, (above + ends - 1) // height - above // height + 1
    strips = np.repeat(strips, bands, axis=0)
    since_first = np.arange(len(strips)) - np.repeat(np.cumsum(bands) - bands, bands)
    band = (np.repeat(first_band, bands) + since_first).astype(np.int64)  # a band may have 2^30 rows
    above, ends = np.repeat(above, bands), np.repeat(ends, bands)
    first, last = (np.clip((band + more) * height - above, 0, ends) for more in (0, 1))
    flags = np.arange(len(strips))
    strips[:, layout.BAND], strips[:, layout.FLAG] = band, flags
    strips[:, layout.FIRST_START], strips[:, layout.LAST_START] = first, last
    strips[1:, layout.FLAG_ABOVE], strips[1:, layout.DONE_ABOVE] = flags[:-1], (last - first)[:-1]
    return strips


def count_bands(rows: int, config: KernelConfig, band_rows: int) -> int:
    """In how many bands a strip of so many rows is swept, at most: it may begin anywhere in its first one."""
    height = _height(config, band_rows)
    return 1 if height == _height(config, ALL_ROWS) else -(-(rows + config.span) // height) + 1


def _height(config: KernelConfig, band_rows: int) -> int:
    """Rows of a band: whole batches."""
    return max(config.batch, band_rows // config.batch * config.batch)


def _state_values(strips: IntArray, config: KernelConfig) -> int:
    """int32 for what the strips of a rectangle keep, if any of them is interrupted."""
    interrupted = (strips[:, layout.FIRST_START] > 0).any()
    return (int(strips[:, layout.NUMBER].max()) + 1) * config.state_words * LANES if interrupted else 0


def results(
    jobs: Sequence[SweepJob], work: WorkList, lines: IntArray | None, best: IntArray
) -> list[SweepResult]:
    """What the kernel has left in its outputs, a result for each rectangle.

    `lines` (line_values,) becomes the memory of the boundaries, or goes to the jobs' sinks; None if that has
    been done. `best` (strips, BEST_FIELDS) holds the best cell of each strip.
    """
    cells = _best_cells(work.strips[:, layout.JOB], best)
    return [
        _result(job, fields, lines, cell if job.track_best else BestCell())
        for job, fields, cell in zip(jobs, work.jobs, cells, strict=True)
    ]


def _result(job: SweepJob, fields: NDArray[np.int64], lines: IntArray | None, best: BestCell) -> SweepResult:
    if lines is None:
        return SweepResult((), (), best)
    rows = _boundaries(lines, int(fields[layout.ROW_OUT_AT]), len(job.target), job.left.h[list(job.rows)])
    cols = _boundaries(lines, int(fields[layout.COL_OUT_AT]), len(job.query), job.top.h[list(job.cols)])
    return SweepResult(rows, cols, best).delivered(job)


def _boundaries(lines: IntArray, start: int, length: int, corners: IntArray) -> tuple[Boundary, ...]:
    """The boundaries that stand end to end from `start`, `length` letters each, one for each corner H."""
    size = layout.line_size(length)
    blocks = lines[start : start + len(corners) * size].reshape(len(corners), 2, length + 1)
    blocks[:, 0, 0], blocks[:, 1, 0] = corners, NEG_INF
    return tuple(Boundary(h, gap) for h, gap in blocks)


def _best_cells(job_of_strip: IntArray, best: IntArray) -> list[BestCell]:
    """The best of each rectangle's strips, in the order of `BestCell.rank`."""
    score, i, j = best[:, layout.BEST_SCORE], best[:, layout.BEST_I], best[:, layout.BEST_J]
    order = np.lexsort((-j, i + j, -score, job_of_strip))
    _, firsts = np.unique(job_of_strip[order], return_index=True)
    return [BestCell(*map(int, best[order[first]])) for first in firsts]
