"""What a thread runs without the GIL: takes strips by ticket, and sweeps them block by block.

Tickets are handed out in an order in which a strip comes after its left neighbour, and a strip waits
for nothing else, so whoever waits, waits for a strip that another thread has in hand: there is no
deadlock, whatever the number of threads.

`sweep_strips` returns to Python whenever Python is needed, and goes on at its next call where its
position says. That keeps sleeping, progress and the rarely needed 32-bit kernel out of the compiled
code: most runs never compile the latter.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from functools import cache
from typing import Any

from longalign.backends.cpu.config import Family, KernelConfig
from longalign.backends.cpu.jit import compile_entry, inline
from longalign.backends.cpu.kernel import make_block_sweep
from longalign.backends.cpu.memory import fetch_add, load_acquire, pointer, store_release
from longalign.backends.cpu.widths import bounds, extremes
from longalign.backends.cpu.workspace import ABORT, CELLS, NOTHING, TICKETS, Frame


class Status(IntEnum):
    """Why a worker came back to Python."""

    FINISHED = 0
    ABORTED = 1
    WAITING = 2  # its left neighbour is not there yet
    WIDE = 3  # the block in hand needs 32 bits
    PAUSED = 4  # it has done the cells it was asked for


_FINISHED, _ABORTED, _WAITING, _WIDE, _PAUSED = (int(status) for status in Status)

#: Looks at the left neighbour before a thread goes to sleep: some microseconds.
_SPINS = 5_000

_LIMIT_16 = (1 << 15) - 1
_LIMIT_32 = (1 << 31) - 1


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
    return min(stop, work.wanted[own.wanted]) if own.wanted < job.wanted_stop else stop


@inline
def _left_is_done(work: Any, left: int, stop: int) -> bool:
    if left == NOTHING:
        return True
    for _ in range(_SPINS):
        if load_acquire(pointer(work.done), left) >= stop:
            return True
    return False


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


@cache
def strip_sweep(family: Family) -> Callable[..., int]:
    """The compiled worker of a family: `sweep_strips` below."""
    local, least_rows, columns = family.local, family.geometry.least_rows, family.geometry.columns
    sweep_16 = make_block_sweep(KernelConfig(family, 16))

    @inline
    def never(*_: Any) -> bool:
        return False

    # Without the floor of 0 the values of a block spread too far for 8 bits.
    sweep_8 = make_block_sweep(KernelConfig(family, 8)) if local else never

    @inline
    def sweep_narrow(work: Any, own: Any, edges: Any, lanes_8: Any, lanes_16: Any, widths: int) -> bool:
        """Sweep the block in hand, or its first rows, in 8 or 16 bits; False if it needs 32."""
        strip, job = work.strips[own.ticket], work.jobs[work.strips[own.ticket].job]
        cols = strip.stop - strip.start
        padded = (cols + columns - 1) // columns * columns
        while True:
            rows = own.stop - own.row
            lowest, highest = extremes(edges, rows, cols)
            low, high = bounds(lowest, highest, rows, padded, job, local)
            limit = 127 - job.match
            if widths & 8 and highest - (low + 128) <= limit:
                frame = _frame(own, job, strip, low + 128, limit)
                if sweep_8(lanes_8, edges, work.query, work.target, frame, job, own):
                    return True
            if widths & 16 and high - low < 1 << 16:
                frame = _frame(own, job, strip, low + (1 << 15), _LIMIT_16)
                return sweep_16(lanes_16, edges, work.query, work.target, frame, job, own)
            if not widths & 16 or highest - lowest >= 1 << 15 or rows < 2 * least_rows:
                return False
            own.stop = own.row + rows // 2

    def sweep_strips(
        work: Any, position: Any, edges: Any, lanes_8: Any, lanes_16: Any, widths: int, cells: int
    ) -> int:
        """Sweep until something is needed from Python, or about so many cells are done."""
        own = position[0]
        while True:
            if load_acquire(pointer(work.shared), ABORT):
                return _ABORTED
            if own.ticket == NOTHING and not _take_ticket(work, own, edges):
                return _FINISHED
            if cells <= 0:
                return _PAUSED
            strip, job = work.strips[own.ticket], work.jobs[own.job]
            own.stop = _next_stop(work, own, job)
            if not _left_is_done(work, strip.left, own.stop):
                return _WAITING
            _load_left(work, own, edges, job)
            if not sweep_narrow(work, own, edges, lanes_8, lanes_16, widths):
                return _WIDE
            cells -= (own.stop - own.row) * (strip.stop - strip.start)
            _finish_block(work, own, edges, job, strip)

    return compile_entry(sweep_strips, f"strips {family}")


@cache
def wide_sweep(family: Family) -> Callable[..., None]:
    """The compiled 32-bit kernel of a family, for the block that `sweep_strips` returned WIDE for."""
    sweep_32 = make_block_sweep(KernelConfig(family, 32))

    def sweep_wide(work: Any, position: Any, edges: Any, lanes_32: Any) -> None:
        own = position[0]
        strip, job = work.strips[own.ticket], work.jobs[own.job]
        frame = _frame(own, job, strip, 0, _LIMIT_32)
        sweep_32(lanes_32, edges, work.query, work.target, frame, job, own)
        _finish_block(work, own, edges, job, strip)

    return compile_entry(sweep_wide, f"wide {family}")
