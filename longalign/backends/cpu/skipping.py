"""Blocks that are not swept because no path of interest can meet them (see `longalign.model.pruning`).

Most blocks of a pruned job are left out, so leaving one out must cost little. It costs one pass over the
block's left edge, in the column buffer, and one over its upper edge if the block above was swept.
"""

from __future__ import annotations

from typing import Any

import numba

from longalign.backends.cpu.jit import inline_by_numba
from longalign.backends.cpu.lanes import maximum
from longalign.backends.cpu.raw_memory import fetch_add, load, pointer, store
from longalign.backends.cpu.workspace import NOTHING
from longalign.model import pruning

_is_needed = inline_by_numba(pruning.is_needed)
_limits_at = inline_by_numba(pruning.limits_at)
_gain_within = inline_by_numba(pruning.gain_within)


@inline_by_numba
def is_left_out(work: Any, position: Any, edges: Any, job: Any, strip: Any) -> bool:
    """Whether the current block need not be swept. Its left edge is valid in the column buffer.

    Where the best score may raise the bound, that of the best cell that this thread has found does.
    """
    if job.query_gain_at == NOTHING:
        return False
    row, end, slope = position.row, position.block_end, job.gap_extend
    by_row = _limits_at(work.gains, job.query_gain_at, job.rows, row)
    by_column = _limits_at(work.gains, job.target_gain_at, job.cols, strip.start)
    gain = min(_gain_within(by_row, slope, strip.stop), _gain_within(by_column, slope, end))
    bound = max(job.bound, position.score) if job.bound_rises else job.bound
    highest = load(pointer(edges.top_h), 0)
    if not position.top_left_out:
        highest = _highest(pointer(edges.top_h), pointer(edges.top_e), 0, strip.stop - strip.start, highest)
    column = job.left_at + row
    highest = _highest(pointer(work.column_h), pointer(work.column_f), column, end - row, highest)
    return not _is_needed(max(highest, job.left_out_h), gain, job.gap_open, bound)


@inline_by_numba
def _highest(h: Any, gap: Any, start: int, count: int, highest: Any) -> Any:
    """The highest of `highest` and the H and gap values after index `start`."""
    for k in range(start + 1, start + count + 1):
        highest = maximum(highest, maximum(load(h, k), load(gap, k)))
    return highest


@inline_by_numba
def leave_out(work: Any, position: Any, edges: Any, job: Any, strip: Any) -> None:
    """Put the values of cells that were left out on the right edge of the current block and below it."""
    rows, cols = position.block_end - position.row, strip.stop - strip.start
    column = job.left_at + position.row
    edges.top_h[0] = work.column_h[column + rows]
    _fill(pointer(work.column_h), column, rows, job.left_out_h)
    _fill(pointer(work.column_f), column, rows, job.left_out_gap)
    if not position.top_left_out:
        _fill(pointer(edges.top_h), 0, cols, job.left_out_h)
        _fill(pointer(edges.top_e), 0, cols, job.left_out_gap)
        position.top_left_out = 1
    fetch_add(pointer(work.cells_left_out), position.job, rows * cols)


@inline_by_numba
def _fill(values: Any, start: int, count: int, value: int) -> None:
    """Set the `count` values after index `start`."""
    number = numba.int32(value)
    for k in range(start + 1, start + count + 1):
        store(values, k, number)


@inline_by_numba
def raise_edges(edges: Any, rows: int, cols: int, job: Any) -> None:
    """Raise H on the top and left edge of a block to what neighbouring values prove it to be at least.

    An edge may hold values of cells that were left out beside much higher ones. Such a block would need
    32-bit numbers. Raised values are still never higher than the true ones: H is the true value below.

    Away from the corner, H(i, j + k) >= H(i, j) - alpha - k * beta, by a gap of k letters. Towards it,
    H(i, j - k) >= H(i, j) - alpha - k * (highest + beta), where `highest` is the score of the best letter
    pair, at least 0. Proof: if the best path to (i, j) begins after column j - k, inside the DP matrix, its
    score is at most k * highest, and H(i, j - k) is at least that of a path that begins there, too. If it
    begins so far right on the top edge of the DP matrix, another path begins above (i, j - k) with no lower
    value. In all other cases it meets column j - k in some row i'. From there on it has at most k letter
    pairs, and query letters in gaps, which cost at least beta each. Put one gap of i - i' query letters in
    the place of all this: that loses at most `highest` and pays beta for each letter pair, and alpha once.
    The same holds along the left edge.
    """
    _raise_towards_corner(pointer(edges.top_h), cols, job)
    _raise_towards_corner(pointer(edges.left_h), rows, job)
    corner = max(edges.top_h[0], edges.left_h[0])
    edges.top_h[0], edges.left_h[0] = corner, corner
    _raise_from_corner(pointer(edges.top_h), cols, job)
    _raise_from_corner(pointer(edges.left_h), rows, job)


@inline_by_numba
def _raise_towards_corner(h: Any, count: int, job: Any) -> None:
    cost = max(job.highest, 0) + job.gap_extend
    least = load(h, count) - job.gap_open
    for k in range(count - 1, -1, -1):
        least -= cost
        value = load(h, k)
        if value < least:
            store(h, k, numba.int32(least))
        least = max(least, value - job.gap_open)


@inline_by_numba
def _raise_from_corner(h: Any, count: int, job: Any) -> None:
    least = load(h, 0) - job.gap_open
    for k in range(1, count + 1):
        least -= job.gap_extend
        value = load(h, k)
        if value < least:
            store(h, k, numba.int32(least))
        least = max(least, value - job.gap_open)
