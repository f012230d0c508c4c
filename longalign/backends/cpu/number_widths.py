"""Number widths: the proof that a block can be swept exactly in 8- or 16-bit numbers relative to a base.

Let lo and hi be the lowest H and the highest H or gap value on the top and left edges of the block, and let s
be the smaller of its rows and columns. Every cell can be reached from an edge by a single gap of at most s
letters, which gives the lower bound. A path has at most s diagonal steps, each of which gains at most the
highest score of a letter pair, which gives the upper bound. So inside the block

    lo - alpha - s*beta  <=  H  <=  hi + s*highest         (from below also 0 <= H, in local mode)

E and F are at most H, and at least H - alpha - beta of a neighbouring cell. (Lower gap values on the edges
are first raised to H - alpha, which changes no result: see `load_lane` in `sweep_kernel.py`.) The kernel also
computes the intermediate values E - beta, F - beta and H + lowest. One more number below all of these is
reserved as a value less than every other. This number is `low`; the base maps it to the lowest number of the
type.

16 bits are used if the upper bound fits, too. For 8 bits this bound is almost never met. Instead the kernel
checks the highest H of each row against `limit`. While no H exceeds `limit`, the values of the next row fit
the type. So a value above `limit` is detected before any value overflows, and the block is then swept again
in 16 bits. 32 bits hold NEG_INF and all values that `Scoring.check_range` admits, without a base.

If the base is far above 0, the floor of 0 does not fit the type. Then every H of the block is above 0 as
well: otherwise `low` would be lower. The floor may then be any number below all values, and the lowest of the
type is used. The same floor is used when a kernel with a floor sweeps a rectangle without one.
"""

from __future__ import annotations

from typing import Any

from longalign.backends.cpu.jit import inline_by_numba

SMALLEST_8, LARGEST_8 = -(1 << 7), (1 << 7) - 1
SMALLEST_16, LARGEST_16 = -(1 << 15), (1 << 15) - 1
LARGEST_32 = (1 << 31) - 1


@inline_by_numba
def edge_extremes(edges: Any, rows: int, cols: int) -> tuple[int, int]:
    """The lowest H, and the highest H or gap value, on the top and left edge of a block."""
    low, high = edges.top_h[0], edges.top_h[0]
    for k in range(1, cols + 1):
        low = min(low, edges.top_h[k])
        high = max(high, max(edges.top_h[k], edges.top_e[k]))
    for k in range(1, rows + 1):
        low = min(low, edges.left_h[k])
        high = max(high, max(edges.left_h[k], edges.left_f[k]))
    return low, high


@inline_by_numba
def value_bounds(low: int, high: int, rows: int, cols: int, job: Any) -> tuple[int, int]:
    """Lower and upper bound of every number computed in a block, given the extremes of its edges."""
    steps = min(rows, cols)
    min_h = low - job.gap_open - steps * job.gap_extend
    if job.local:
        min_h = min(low, max(min_h, 0))
        high = max(high, 0)
    below_h = max(job.gap_open + 2 * job.gap_extend, -job.lowest)
    return min_h - below_h - 1, high + steps * job.highest
