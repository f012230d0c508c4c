"""How rectangles are cut into strips, and strips into bands, and the order in which warps take them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Rectangle, SweepJob
from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.device import work_tables
from longalign.backends.cuda.device.excluded_pairs import PAIR_WORDS
from longalign.model.boundary import IntArray
from longalign.model.scoring import TOO_MANY_LETTERS

#: The rows of a band that is never interrupted: more than any rectangle has.
ALL_ROWS = TOO_MANY_LETTERS


def count_strips(job: SweepJob, config: KernelConfig) -> int:
    """How many strips a rectangle is cut into."""
    width = config.strip_width
    return sum([-(-(end - start) // width) for start, end in pairwise(_ends(job))])


def cut_strips(jobs: Sequence[SweepJob], config: KernelConfig) -> IntArray:
    """The strips of each rectangle from left to right, (strips, STRIP_FIELDS) int32.

    Every requested column is the right edge of a strip. Between two requested columns all strips have the
    full width, except that the last one may be narrower. The fields that depend on bands are 0.
    """
    spans = [
        (k, start, end, number if number < len(job.cols) else -1)
        for k, job in enumerate(jobs)
        for number, (start, end) in enumerate(pairwise(_ends(job)))
    ]
    job, start, end, requested = np.array(spans, np.int64).T
    full_width = config.strip_width
    counts = -(-(end - start) // full_width)
    of_span, since_start = _runs(counts)
    first = start[of_span] + since_start * full_width
    width = np.minimum(full_width, end[of_span] - first)
    job = job[of_span]
    strips = np.zeros((len(first), work_tables.STRIP_FIELDS), np.int32)
    strips[:, work_tables.JOB] = job
    strips[:, work_tables.FIRST_COLUMN], strips[:, work_tables.WIDTH] = first, width
    strips[:, work_tables.LAST_PART_LAG] = (width - 1) // config.columns * STEP_ROWS
    strips[:, work_tables.REQUESTED_COLUMN] = -1
    strips[np.cumsum(counts) - 1, work_tables.REQUESTED_COLUMN] = requested
    strips[:, work_tables.NUMBER] = np.arange(len(job)) - np.searchsorted(job, job)
    return strips


def excluded_by_strip(
    jobs: Sequence[Rectangle], job: NDArray[Any], first: NDArray[Any]
) -> tuple[IntArray, NDArray[np.int64]]:
    """The excluded pairs of strips, as kernels read them (`device.excluded_pairs`), and how many each has.

    `job` and `first` are the rectangles and the first columns of the strips, which are ordered by both. The
    pairs have the shape (pairs, PAIR_WORDS), and are ordered by strip, then by row.
    """
    strips, pairs = [np.empty(0, np.int64)], [np.empty((0, PAIR_WORDS), np.int32)]
    for number in [k for k, rectangle in enumerate(jobs) if len(rectangle.excluded)]:
        query, target = jobs[number].excluded.query, jobs[number].excluded.target
        begin, end = np.searchsorted(job, (number, number + 1))
        strips.append(begin - 1 + np.searchsorted(first[begin:end], target, side="right"))
        pairs.append(np.stack([query, target], axis=1).astype(np.int32))
    strip = np.concatenate(strips)
    order = np.argsort(strip, kind="stable")  # the pairs of a rectangle are sorted by row
    counts: NDArray[np.int64] = np.bincount(strip, minlength=len(job))
    return np.concatenate(pairs)[order], counts


def _ends(job: SweepJob) -> list[int]:
    return [0, *job.cols] if job.cols and job.cols[-1] == len(job.target) else [0, *job.cols, len(job.target)]


def _runs(lengths: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The number of the run of each element, and its index in the run, for runs that lie end to end."""
    run = np.repeat(np.arange(len(lengths)), lengths)
    return run, np.arange(len(run)) - (np.cumsum(lengths) - lengths)[run]


def in_bands(strips: IntArray, rows: NDArray[np.int64], config: KernelConfig, band_rows: int) -> IntArray:
    """The strips, once for each band in which they have rows, with the fields that depend on bands.

    `rows` is the number of rows of each strip's rectangle. The first part of a strip sweeps these rows, and
    then as many more as the last part is behind. The result is ordered by strip, then by band, and FLAG is
    the index in this order. NEXT is the flag of the right neighbour in the band, or -1;
    `in_ticket_order` replaces it by a ticket.
    """
    ends = rows + strips[:, work_tables.LAST_PART_LAG]
    if band_rows >= ALL_ROWS:
        return _in_one_band(strips, ends)
    height = _height(config, band_rows)
    above = strips[:, work_tables.NUMBER].astype(np.int64) * config.band_slope
    first_band = above // height
    bands = (above + ends - 1) // height - first_band + 1
    strip, since_first = _runs(bands)
    entries, band = strips[strip], first_band[strip] + since_first
    above, ends = above[strip], ends[strip]
    first, last = (np.clip((band + more) * height - above, 0, ends) for more in (0, 1))
    flags = np.arange(len(entries))
    entries[:, work_tables.BAND], entries[:, work_tables.FLAG] = band, flags
    entries[:, work_tables.FIRST_START], entries[:, work_tables.LAST_START] = first, last
    entries[1:, work_tables.FLAG_ABOVE], entries[1:, work_tables.DONE_ABOVE] = flags[:-1], (last - first)[:-1]

    right = np.minimum(strip + 1, len(strips) - 1)
    place = band - first_band[right]
    is_there = (strips[right, work_tables.NUMBER] > strips[strip, work_tables.NUMBER]) & (place >= 0)
    is_there &= place < bands[right]
    entries[:, work_tables.NEXT] = np.where(is_there, (np.cumsum(bands) - bands)[right] + place, -1)
    return entries


def _in_one_band(strips: IntArray, ends: NDArray[np.int64]) -> IntArray:
    """`in_bands` for a single band, which takes less time. The other fields stay 0."""
    flags, numbers = np.arange(len(strips)), strips[:, work_tables.NUMBER]
    strips[:, work_tables.FLAG], strips[:, work_tables.LAST_START] = flags, ends
    strips[:-1, work_tables.NEXT] = np.where(numbers[1:] > numbers[:-1], flags[1:], -1)
    strips[-1, work_tables.NEXT] = -1
    return strips


def in_ticket_order(entries: IntArray, config: KernelConfig, band_rows: int) -> IntArray:
    """The result of `in_bands` in the order of tickets, with the ticket of the right neighbour in NEXT.

    In each band the first strips of all rectangles come first, then all second ones, and so on, so that as
    many rectangles as possible are swept at a time. Every strip comes after its left neighbour, and after
    itself in the band above.
    """
    if band_rows >= ALL_ROWS and entries[-1, work_tables.NUMBER] == len(entries) - 1:
        # With one rectangle and one band, flags equal tickets.
        entries[-1, work_tables.NEXT] = work_tables.NO_TICKET
        return entries
    turn = (
        _band_turns(entries, config, band_rows)[entries[:, work_tables.BAND]] + entries[:, work_tables.NUMBER]
    )
    order = np.lexsort((entries[:, work_tables.BAND], turn))
    tickets = np.full(len(order) + 1, work_tables.NO_TICKET, np.int32)
    tickets[order] = np.arange(len(order))
    strips = entries[order]
    strips[:, work_tables.NEXT] = tickets[strips[:, work_tables.NEXT]]
    return strips


def _band_turns(entries: IntArray, config: KernelConfig, band_rows: int) -> NDArray[np.int64]:
    """The turn in which warps take the first strip of each band, one for each band.

    The other strips of the band follow, one in each turn.

    Bands slope, so the strips at the right end of the first bands become shorter and shorter. They end
    shortly after one another. The strips that are taken next, however, can only start a *lag* after one
    another. The next band therefore starts with the turn of the first shortened strip, and its strips
    alternate with the shortened ones. But it does not start before all warps have taken a strip or two of
    this band, because its strips continue those of this band.
    """
    if band_rows >= ALL_ROWS:
        return np.zeros(1, np.int64)
    last_band, last_strip = entries[:, [work_tables.BAND, work_tables.NUMBER]].max(axis=0).tolist()
    height = _height(config, band_rows)
    whole = np.minimum(last_strip + 1, np.arange(last_band) * height // config.band_slope)
    return np.concatenate([[0], np.cumsum(np.maximum(whole, max(1, height // config.strip_lag)))])


def count_bands(rows: int, config: KernelConfig, band_rows: int) -> int:
    """The most bands that a strip of `rows` rows can span. It may start anywhere in its first band."""
    height = _height(config, band_rows)
    return 1 if height == _height(config, ALL_ROWS) else -(-(rows + config.span) // height) + 1


def _height(config: KernelConfig, band_rows: int) -> int:
    """The rows of a band, rounded down to whole row blocks, but at least one."""
    return max(config.block_rows, band_rows // config.block_rows * config.block_rows)
