"""Which numbers a block may be swept in: the proof that 8 or 16 bits relative to a base are exact.

Let every H on the block's top and left edge, and every gap value there, lie in lo..hi, and let s be
the smaller of its rows and columns. Any cell is reached from an edge by a path that is one gap of at
most s letters, and no path gains more than the highest score of a letter pair for each of at most s
diagonal steps, so inside the block

    lo - alpha - s*beta  <=  H  <=  hi + s*highest         (from below also 0 <= H, in local mode)

E and F are at most H, and at least alpha + beta below an H; E - beta is computed on the way, and so
is H + lowest. (Gap values on the edges that lie further down are raised first, which changes
nothing: see `begin_lane` in `kernel.py`.) One more number is kept free below all of these, as the
kernel's "less than everything". That is `low`; the base puts it at the lowest number of the type.

16 bits are used where the upper bound fits as well. For 8 bits that bound is hopeless, and instead
the kernel watches the highest H: while it has not exceeded `limit`, the next row cannot exceed the
type, so the first value that could is preceded by one that is seen, and the block is swept again in 16
bits. 32 bits hold any values that `Scoring.check_range` admits and NEG_INF, without a base.

The floor of 0 lies outside the type where the base is above it. Then every H of the block is above it
too (`low` would have been lower otherwise), and the floor may be any number that is below them all: the
lowest of the type, which serves as well where a kernel with a floor sweeps a rectangle without one.
"""

from __future__ import annotations

from typing import Any

from longalign.backends.cpu.jit import inline

SMALLEST_8, LARGEST_8 = -(1 << 7), (1 << 7) - 1
SMALLEST_16, LARGEST_16 = -(1 << 15), (1 << 15) - 1
LARGEST_32 = (1 << 31) - 1


@inline
def extremes(edges: Any, rows: int, cols: int) -> tuple[int, int]:
    """The lowest H, and the highest H or gap value, on the top and left edge of a block."""
    low, high = edges.top_h[0], edges.top_h[0]
    for k in range(1, cols + 1):
        low = min(low, edges.top_h[k])
        high = max(high, max(edges.top_h[k], edges.top_e[k]))
    for k in range(1, rows + 1):
        low = min(low, edges.left_h[k])
        high = max(high, max(edges.left_h[k], edges.left_f[k]))
    return low, high


@inline
def bounds(low: int, high: int, rows: int, cols: int, job: Any) -> tuple[int, int]:
    """Lower and upper bound of every number computed in a block, given the extremes of its edges."""
    steps = min(rows, cols)
    least_h = low - job.gap_open - steps * job.gap_extend
    if job.local:
        least_h = min(low, max(least_h, 0))
        high = max(high, 0)
    below_h = max(job.gap_open + 2 * job.gap_extend, -job.lowest)
    return least_h - below_h - 1, high + steps * job.highest
