"""The loop of a thread, which runs without the GIL: take strips by ticket, and sweep them block by block.

The ticket of a strip is higher than that of its left neighbour, and a strip waits only for its left
neighbour. The neighbour has therefore been taken by a thread already, and there is no deadlock with any
number of threads.

The compiled `_sweep_strips` returns to Python to sleep, to report progress and to compile. The next call
resumes at the thread's position. The 32-bit kernel is rarely needed, so it is compiled when a block first
needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from longalign.backends.cpu.config import KernelConfig, SweepGeometry
from longalign.backends.cpu.jit import (
    call_address,
    compile_callee,
    compile_entry,
    compiled_once,
    inline_by_numba,
)
from longalign.backends.cpu.number_widths import (
    LARGEST_8,
    LARGEST_16,
    LARGEST_32,
    SMALLEST_8,
    SMALLEST_16,
    edge_extremes,
    value_bounds,
)
from longalign.backends.cpu.raw_memory import fetch_add, load_acquire, pointer, store_release
from longalign.backends.cpu.skipping import is_left_out, leave_out, raise_edges
from longalign.backends.cpu.sweep_kernel import make_block_sweep
from longalign.backends.cpu.workspace import (
    ABORT,
    CELLS,
    JOB,
    NOTHING,
    POSITION,
    TICKETS,
    Block,
    empty_work_list,
    make_block_edges,
    make_lane_buffers,
)


class Status(IntEnum):
    """Why `_sweep_strips` returned to Python."""

    FINISHED = 0
    ABORTED = 1
    WAITING = 2  # the left neighbour has not finished the rows of this block, and no other block was swept
    NEEDS_32_BITS = 3  # the current block needs the 32-bit kernel, which is not compiled yet
    PAUSED = 4  # some blocks have been swept, up to the requested number of cells


_FINISHED, _ABORTED, _WAITING, _NEEDS_32_BITS, _PAUSED = (int(status) for status in Status)

#: Polls of the left neighbour before a thread sleeps, which take some microseconds.
_SPINS = 5_000

#: To leave out a block takes as long as to sweep this many cells: about a fifth of a microsecond.
_CELLS_OF_TIME_LEFT_OUT = 4096


@inline_by_numba
def _take_strip(work: Any, position: Any, edges: Any) -> bool:
    """Take the next strip and load its top edge; returns False if all strips are taken."""
    ticket = fetch_add(pointer(work.counters), TICKETS, 1)
    if ticket >= len(work.strips):
        return False
    strip = work.strips[ticket]
    job = work.jobs[strip.job]
    if position.job != strip.job:
        # Anti-diagonal -1 wins every tie, so only a cell with a higher score replaces this one. In a pruned
        # job only scores from the bound on count. Near a long alignment nearly each row has a new best cell,
        # and to find them all would take longer than the sweep.
        unreached = 0 if job.query_gain_at == NOTHING else max(job.bound - 1, 0)
        position.job, position.score, position.i, position.j = strip.job, unreached, NOTHING, 0
    position.ticket, position.row, position.next_request = ticket, 0, job.requests_at
    position.top_left_out = 0
    top = job.top_at + strip.start
    for k in range(strip.stop - strip.start + 1):
        edges.top_h[k] = work.top_h[top + k]
        edges.top_e[k] = work.top_e[top + k]
    return True


@inline_by_numba
def _next_stop(work: Any, position: Any, job: Any) -> int:
    """The row at which the next block ends: after `block_rows`, or earlier at a requested row."""
    stop = min(position.row + job.block_rows, job.rows)
    if position.next_request < job.requests_end:
        stop = min(stop, work.requested_rows[position.next_request])
    return int(stop)


@inline_by_numba
def _wait_for_left(work: Any, left: int, stop: int) -> bool:
    if left == NOTHING:
        return True
    spins = _SPINS
    while spins and load_acquire(pointer(work.rows_done), left) < stop:
        spins -= 1
    return spins > 0


@inline_by_numba
def _load_left(work: Any, position: Any, edges: Any, job: Any) -> None:
    """Load the left edge from the column buffer, and its overwritten corner from the top edge."""
    edges.left_h[0] = edges.top_h[0]
    column = job.left_at + position.row
    for r in range(1, position.block_end - position.row + 1):
        edges.left_h[r] = work.column_h[column + r]
        edges.left_f[r] = work.column_f[column + r]


@inline_by_numba
def _keep_edges(work: Any, position: Any, edges: Any, job: Any, strip: Any) -> None:
    """Keep the right edge of a swept block in the column buffer, and its bottom edge as the next top edge."""
    rows, cols = position.block_end - position.row, strip.stop - strip.start
    edges.top_h[0] = edges.left_h[rows]
    for k in range(1, cols + 1):
        edges.top_h[k] = edges.bottom_h[k]
        edges.top_e[k] = edges.bottom_e[k]
    for r in range(1, rows + 1):
        work.column_h[job.left_at + position.row + r] = edges.right_h[r]
        work.column_f[job.left_at + position.row + r] = edges.right_f[r]
    position.top_left_out = 0


@inline_by_numba
def _finish_block(work: Any, position: Any, edges: Any, job: Any, strip: Any) -> None:
    """Output the right and the bottom edge of a block, if requested, and continue with the next block.

    The rows are published last, so that other threads see everything that belongs to them.
    """
    rows, cols = position.block_end - position.row, strip.stop - strip.start
    if strip.col_out_at != NOTHING:
        column, output = job.left_at + position.row, strip.col_out_at + position.row
        for r in range(1, rows + 1):
            work.col_h[output + r] = work.column_h[column + r]
            work.col_f[output + r] = work.column_f[column + r]
    request = position.next_request
    if request < job.requests_end and position.block_end == work.requested_rows[request]:
        output = job.row_out_at + (request - job.requests_at) * (job.cols + 1) + strip.start
        for k in range(1, cols + 1):
            work.row_h[output + k] = edges.top_h[k]
            work.row_e[output + k] = edges.top_e[k]
        position.next_request += 1
    position.row = position.block_end
    store_release(pointer(work.rows_done), position.ticket, position.row)
    fetch_add(pointer(work.counters), CELLS, rows * cols)
    if position.row == job.rows:
        best = work.best[position.ticket]
        best[0] = position.score if position.i != NOTHING else 0
        best[1], best[2] = position.i, position.j
        position.ticket = NOTHING


@inline_by_numba
def _block(position: Any, job: Any, strip: Any, base: int, limit: int) -> Block:
    rows, cols = position.block_end - position.row, strip.stop - strip.start
    query, target = job.query_at + position.row, job.target_at + strip.start
    return Block(position.row, strip.start, rows, cols, query, target, base, limit)


@inline_by_numba
def _sweep_block(work: Any, position: Any, edges: Any, lanes: Any, kernels: Any) -> bool:
    """Sweep the current block, or its first rows, in the narrowest numbers that hold its values.

    Returns False if the kernel that it needs is not compiled.
    """
    strip, job = work.strips[position.ticket], work.jobs[position.job]
    inputs, cols = (work.query, work.target, work.matrices), strip.stop - strip.start
    padded = (cols + kernels.columns - 1) // kernels.columns * kernels.columns
    may_raise = job.query_gain_at != NOTHING
    while True:
        rows = position.block_end - position.row
        lowest, highest = edge_extremes(edges, rows, cols)
        if may_raise and highest - lowest > LARGEST_16:
            raise_edges(edges, rows, cols, job)
            may_raise = False
            continue
        low, high = value_bounds(lowest, highest, rows, padded, job)
        limit = LARGEST_8 - job.highest
        if kernels.block_8 and highest - (low - SMALLEST_8) <= limit:
            block = _block(position, job, strip, low - SMALLEST_8, limit)
            if call_address(kernels.block_8, (lanes[0], edges, inputs, block, job, position)):
                return True
        if kernels.block_16 and high - low <= LARGEST_16 - SMALLEST_16:
            block = _block(position, job, strip, low - SMALLEST_16, LARGEST_16)
            return bool(call_address(kernels.block_16, (lanes[1], edges, inputs, block, job, position)))
        # Fewer rows may fit 16 bits, unless the edges alone exceed them: NEG_INF next to finite values does.
        if kernels.block_16 and highest - lowest <= LARGEST_16 and rows >= 2 * kernels.min_rows:
            position.block_end = position.row + rows // 2
        elif kernels.block_32:
            block = _block(position, job, strip, 0, LARGEST_32)
            return bool(call_address(kernels.block_32, (lanes[2], edges, inputs, block, job, position)))
        else:
            return False


def _sweep_strips(work: Any, position: Any, edges: Any, lanes: Any, kernels: Any, cells: int) -> int:
    """Sweep until Python is needed or about `cells` cells are swept; returns a `Status` as an int."""
    position, allowed = position[0], cells
    while cells > 0:
        if load_acquire(pointer(work.counters), ABORT):
            return _ABORTED
        if position.ticket == NOTHING and not _take_strip(work, position, edges):
            return _FINISHED
        strip, job = work.strips[position.ticket], work.jobs[position.job]
        position.block_end = _next_stop(work, position, job)
        if not _wait_for_left(work, strip.left_ticket, position.block_end):
            return _WAITING if cells == allowed else _PAUSED
        if is_left_out(work, position, edges, job, strip):
            leave_out(work, position, edges, job, strip)
            cells -= _CELLS_OF_TIME_LEFT_OUT
        else:
            _load_left(work, position, edges, job)
            if not _sweep_block(work, position, edges, lanes, kernels):
                return _NEEDS_32_BITS
            _keep_edges(work, position, edges, job, strip)
            cells -= (position.block_end - position.row) * (strip.stop - strip.start)
        _finish_block(work, position, edges, job, strip)
    return _PAUSED


class Kernels(NamedTuple):
    """The addresses of the compiled kernels by their bits, 0 if absent, and parameters of their geometry."""

    columns: int
    min_rows: int
    block_8: int = 0
    block_16: int = 0
    block_32: int = 0


#: The geometry of arrays that only tell the compiler their types.
_SMALLEST = SweepGeometry(columns=1, lanes=1, group=1, block_rows=1, min_rows=1)


@compiled_once
def kernel_address(config: KernelConfig) -> int:
    """The address of a kernel, compiled or loaded from disk at the first call. Thread-safe."""
    letters, job, position = np.zeros(1, np.uint8), np.zeros(1, JOB)[0], np.zeros(1, POSITION)[0]
    block = Block(*(0 for _ in Block._fields))
    edges, lanes = make_block_edges(_SMALLEST), make_lane_buffers(_SMALLEST, config.bits)
    inputs = letters, letters, np.zeros(1, np.int32)
    examples = lanes, edges, inputs, block, job, position
    return compile_callee(make_block_sweep(config), f"block {config}", examples)


@compiled_once
def strip_sweep() -> Callable[..., int]:
    """The compiled `_sweep_strips`, loaded from disk if possible. It calls any kernel. Thread-safe."""
    lanes = tuple(make_lane_buffers(_SMALLEST, bits) for bits in (8, 16, 32))
    examples = empty_work_list(), np.zeros(1, POSITION), make_block_edges(_SMALLEST), lanes, Kernels(1, 1), 0
    return compile_entry(_sweep_strips, "strips", examples)
