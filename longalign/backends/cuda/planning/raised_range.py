"""To what low values around a pruned row block are raised: why this is right, and why 16 bits suffice.

Around a row block of a rectangle that is pruned, values of cells that were left out may stand beside much
higher ones. Let `highest` be the highest value around it. The kernel raises every lower H to

    floor = highest - reach,    reach = 2*alpha + (W + 2*S + B) * (beta + top)

in the notation of `packed_range`, and places the base further below. It does so for both number formats: so
minus infinity never accumulates costs.

**No raised value is above the true one.** All cells that a warp holds while it sweeps the row block lie in W
columns and in the rows from start - S to start + B. Two legs lead from any one of them to any other, one
along a row and one along a column. By (1) and (2) in `packed_range`, true values in the DP matrix differ by
at most alpha + w*(beta + top) over a leg of w letters. So the true H of all cells is at least that of one of
them, minus 2*alpha + (W + S + B) * (beta + top). And `highest` exceeds the true H of all cells by at most
S*top, for these reasons:

- Values of cells of the rectangle are not above the true ones, and no gap state is above H.
- Columns beyond the strip's end have no higher values than its last column in the same row.
- Parts that have not started, or have ended, compute values that do not count. These come from values of the
  rectangle and gain at most `top` in each of at most S rows: where there is no row, the letter of the nearest
  one is read. Or they come from what a row block that was left out leaves behind. That is not above the true
  value of any cell, those of the top edge included, which is within the rows named.

So `floor` is a lower bound of the true H of each cell. Raising H to it is as if a path that exists had been
found. A gap state is raised to no more than H - alpha, which changes no value computed from it (see
`number_formats`). The proof needs finite true values in all cells. A path that enters in a gap state leaves
cells unreachable on the first row or column; `SweepJob.is_prunable` therefore excludes rectangles that may
have such edges.

**All numbers fit.** From the numbers of a lane's columns before the row block, of which none has an H below
`floor`, a gap of at most B letters leads down to any cell that it computes. So no H falls below floor - alpha
- B*beta, and no sum below that by more than `packed_range` says. A path through the row block has at most B +
2 letter pairs, as each part sweeps B rows and its left edge begins two rows above. So no value exceeds
highest + (B + 2)*top, and no sum exceeds highest + (B + 3)*top. This holds for all parts, whether they are
inside the rectangle or not. The base of 32-bit numbers is 0. They may fall below all true values, by less
than `below`. The range that `Scoring.check_range` allows leaves room for that if no number of the scoring has
more than 12 bits.
"""

from __future__ import annotations

from longalign.backends.cuda.config import STEP_ROWS, KernelConfig
from longalign.backends.cuda.device.letter_scores import letter_scoring_for
from longalign.model.scoring import Scoring

_SIZE, _MOST = 1 << 16, 1 << 12


def reach(scoring: Scoring, config: KernelConfig) -> int:
    """How far the floor lies below the highest value around a row block."""
    letters = config.strip_width + 2 * config.span + config.block_rows
    return 2 * scoring.gap_open + letters * (scoring.gap_extend + scoring.highest)


def below(scoring: Scoring, config: KernelConfig) -> int:
    """How far the base lies below the highest value around a row block."""
    alpha, beta = scoring.gap_open, scoring.gap_extend
    fall = alpha + config.block_rows * beta + max(2 * alpha + 3 * beta, -scoring.lowest)
    return reach(scoring, config) + fall + 1


def may_prune(scoring: Scoring) -> bool:
    """Whether there are kernels for a scoring that leave out row blocks. For large scores there are none."""
    largest = max(scoring.gap_open, scoring.gap_extend, scoring.highest, -scoring.lowest)
    return letter_scoring_for(scoring) != "compare" and largest < _MOST


def wide_enough(scoring: Scoring, config: KernelConfig) -> bool:
    """Whether 16 bits hold every value of a row block, relative to its base, sums included."""
    rise = (config.block_rows + STEP_ROWS + 1) * scoring.highest
    return below(scoring, config) + rise < _SIZE
