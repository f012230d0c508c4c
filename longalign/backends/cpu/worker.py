"""What a thread runs without the GIL: takes strips by ticket, and sweeps them block by block.

Tickets are handed out in an order in which a strip comes after its left neighbour, and a strip waits
for nothing else, so whoever waits, waits for a strip that another thread has in hand: there is no
deadlock, whatever the number of threads.

The compiled `_sweep_strips` returns to Python whenever Python is needed, and goes on at its next call
where its position says. That keeps sleeping, progress and the compiler out of it: the rarely needed
32-bit kernel is compiled when the first block asks for it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from longalign.backends.cpu.config import KernelConfig, SweepGeometry
from longalign.backends.cpu.jit import call_address, compile_callee, compile_entry, inline, once
from longalign.backends.cpu.number_widths import (
    LARGEST_8,
    LARGEST_16,
    LARGEST_32,
    SMALLEST_8,
    SMALLEST_16,
    bounds,
    extremes,
)
from longalign.backends.cpu.raw_memory import fetch_add, load_acquire, pointer, store_release
from longalign.backends.cpu.sweep_kernel import make_block_sweep
from longalign.backends.cpu.workspace import (
    ABORT,
    CELLS,
    JOB,
    NOTHING,
    POSITION,
    TICKETS,
    Frame,
    empty_work,
    make_edges,
    make_lanes,
)


class Status(IntEnum):
    """Why a worker came back to Python."""

    FINISHED = 0
    ABORTED = 1
    WAITING = 2  # its left neighbour is not there yet
    WIDE = 3  # the block in hand needs the 32-bit kernel
    PAUSED = 4  # it has done the cells it was asked for


_FINISHED, _ABORTED, _WAITING, _WIDE, _PAUSED = (int(status) for status in Status)

#: Looks at the left neighbour before a thread goes to sleep: some microseconds.
_SPINS = 5_000


@inline
def _take_ticket(work: Any, own: Any, edges: Any) -> bool:
    """Take the next strip and load its top boundary; False if all are taken."""
    ticket = fetch_add(pointer(work.shared), TICKETS, 1)
    if ticket >= len(work.strips):
        return False
    strip = work.strips[ticket]
    job = work.jobs[strip.job]
    if own.job != strip.job:
        # A cell of diagonal -1 outranks every tie, so only a positive score replaces it.
        own.job, own.score, own.i, own.j = strip.job, 0, NOTHING, 0
    own.ticket, own.row, own.wanted = ticket, 0, job.wanted
    top = job.top + strip.start
    for k in range(strip.stop - strip.start + 1):
        edges.top_h[k] = work.top_h[top + k]
        edges.top_e[k] = work.top_e[top + k]
    return True


@inline
def _next_stop(work: Any, own: Any, job: Any) -> int:
    """Where the next block ends: after its rows, or at a row that is wanted."""
    stop = min(own.row + job.block_rows, job.rows)
    if own.wanted < job.wanted_stop:
        stop = min(stop, work.wanted[own.wanted])
    return int(stop)


@inline
def _left_is_done(work: Any, left: int, stop: int) -> bool:
    if left == NOTHING:
        return True
    spins = _SPINS
    while spins and load_acquire(pointer(work.done), left) < stop:
        spins -= 1
    return spins > 0


@inline
def _load_left(work: Any, own: Any, edges: Any, job: Any) -> None:
    """The left edge from the column buffer, but the corner from the top: it is overwritten there."""
    edges.left_h[0] = edges.top_h[0]
    column = job.left + own.row
    for r in range(1, own.stop - own.row + 1):
        edges.left_h[r] = work.column_h[column + r]
        edges.left_f[r] = work.column_f[column + r]


@inline
def _finish_block(work: Any, own: Any, edges: Any, job: Any, strip: Any) -> None:
    """Hand on what a swept block gives: its right edge, its bottom if wanted, the next block's top."""
    rows, cols = own.stop - own.row, strip.stop - strip.start
    edges.top_h[0] = edges.left_h[rows]
    for k in range(1, cols + 1):
        edges.top_h[k] = edges.bottom_h[k]
        edges.top_e[k] = edges.bottom_e[k]
    for r in range(1, rows + 1):
        work.column_h[job.left + own.row + r] = edges.right_h[r]
        work.column_f[job.left + own.row + r] = edges.right_f[r]
    if strip.output != NOTHING:
        for r in range(1, rows + 1):
            work.col_h[strip.output + own.row + r] = edges.right_h[r]
            work.col_f[strip.output + own.row + r] = edges.right_f[r]
    if own.wanted < job.wanted_stop and own.stop == work.wanted[own.wanted]:
        output = job.row_output + (own.wanted - job.wanted) * (job.cols + 1) + strip.start
        for k in range(1, cols + 1):
            work.row_h[output + k] = edges.bottom_h[k]
            work.row_e[output + k] = edges.bottom_e[k]
        own.wanted += 1
    own.row = own.stop
    store_release(pointer(work.done), own.ticket, own.row)
    fetch_add(pointer(work.shared), CELLS, rows * cols)
    if own.row == job.rows:
        best = work.best[own.ticket]
        best[0], best[1], best[2] = own.score, own.i, own.j
        own.ticket = NOTHING


@inline
def _frame(own: Any, job: Any, strip: Any, base: int, limit: int) -> Frame:
    rows, cols = own.stop - own.row, strip.stop - strip.start
    query, target = job.query + own.row, job.target + strip.start
    return Frame(own.row, strip.start, rows, cols, query, target, base, limit)


@inline
def _sweep_in_hand(work: Any, own: Any, edges: Any, lanes: Any, kernels: Any) -> bool:
    """Sweep the block in hand, or its first rows, in the narrowest numbers; False if its kernel is absent."""
    strip, job = work.strips[own.ticket], work.jobs[own.job]
    given, cols = (work.query, work.target, work.matrices), strip.stop - strip.start
    padded = (cols + kernels.columns - 1) // kernels.columns * kernels.columns
    while True:
        rows = own.stop - own.row
        lowest, highest = extremes(edges, rows, cols)
        low, high = bounds(lowest, highest, rows, padded, job)
        limit = LARGEST_8 - job.highest
        if kernels.block_8 and highest - (low - SMALLEST_8) <= limit:
            frame = _frame(own, job, strip, low - SMALLEST_8, limit)
            if call_address(kernels.block_8, (lanes[0], edges, given, frame, job, own)):
                return True
        if kernels.block_16 and high - low <= LARGEST_16 - SMALLEST_16:
            frame = _frame(own, job, strip, low - SMALLEST_16, LARGEST_16)
            return bool(call_address(kernels.block_16, (lanes[1], edges, given, frame, job, own)))
        # Fewer rows may fit 16 bits, unless the edges alone are too far apart, as at a cliff of NEG_INF.
        if kernels.block_16 and highest - lowest <= LARGEST_16 and rows >= 2 * kernels.least_rows:
            own.stop = own.row + rows // 2
        elif kernels.block_32:
            frame = _frame(own, job, strip, 0, LARGEST_32)
            return bool(call_address(kernels.block_32, (lanes[2], edges, given, frame, job, own)))
        else:
            return False


def _sweep_strips(work: Any, position: Any, edges: Any, lanes: Any, kernels: Any, cells: int) -> int:
    """Sweep until something is needed from Python, or about so many cells are done; returns a Status."""
    own = position[0]
    while cells > 0:
        if load_acquire(pointer(work.shared), ABORT):
            return _ABORTED
        if own.ticket == NOTHING and not _take_ticket(work, own, edges):
            return _FINISHED
        strip, job = work.strips[own.ticket], work.jobs[own.job]
        own.stop = _next_stop(work, own, job)
        if not _left_is_done(work, strip.left, own.stop):
            return _WAITING
        _load_left(work, own, edges, job)
        if not _sweep_in_hand(work, own, edges, lanes, kernels):
            return _WIDE
        cells -= (own.stop - own.row) * (strip.stop - strip.start)
        _finish_block(work, own, edges, job, strip)
    return _PAUSED


class Kernels(NamedTuple):
    """The kernels a worker may use: columns a lane, and their addresses; 0 is a kernel that is absent."""

    columns: int
    least_rows: int
    block_8: int = 0
    block_16: int = 0
    block_32: int = 0


#: For arrays whose types matter and whose sizes do not.
_SMALLEST = SweepGeometry(columns=1, lanes=1, group=1, block_rows=1, least_rows=1)


@once
def kernel_address(config: KernelConfig) -> int:
    """Compile a kernel, or load it from disk, and say where it is. Any thread may ask."""
    letters, job, position = np.zeros(1, np.uint8), np.zeros(1, JOB)[0], np.zeros(1, POSITION)[0]
    frame = Frame(*(0 for _ in Frame._fields))
    edges, lanes = make_edges(_SMALLEST), make_lanes(_SMALLEST, config.bits)
    given = letters, letters, np.zeros(1, np.int32)
    examples = lanes, edges, given, frame, job, position
    return compile_callee(make_block_sweep(config), f"block {config}", examples)


@once
def strip_sweep() -> Callable[..., int]:
    """Compile `_sweep_strips`, or load it from disk; it serves every kernel."""
    lanes = tuple(make_lanes(_SMALLEST, bits) for bits in (8, 16, 32))
    examples = empty_work(), np.zeros(1, POSITION), make_edges(_SMALLEST), lanes, Kernels(1, 1), 0
    return compile_entry(_sweep_strips, "strips", examples)
