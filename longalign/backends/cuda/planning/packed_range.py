"""Which rectangles can be swept in packed numbers: the proof that 16 bits above a base are enough.

**Notation.** B is the number of rows of a row block, S the span of the strip's parts in rows (each part is a
step behind its left neighbour), and W the width of the strip in columns. The first part begins the row block
at row boundary `start`, and h is the value of H on the strip's left edge there. `top` and `least` are the
highest and the lowest score of a letter pair: match and mismatch, if there is no substitution matrix. `top`
is at least 0. Opened H is H - alpha - beta.

**Cells.** During the sweep of a row block, a warp computes and keeps cells of its strip. None of them lies
above row boundary start - S or below start + B. The last part is S less one step behind the first, so even
the row above its first row, from which E comes, lies within these bounds.

**Distances in the DP matrix.** For any cells of the DP matrix,

    (1)    H(i, j+w) >= H(i, j) - alpha - w*beta
    (2)    H(i, j+w) <= H(i, j) + alpha + w*(beta + top)

and the same downwards, for H(i+w, j). (1) holds because a gap leads from one cell to the other. For (2),
follow the path to (i, j+w) back to where it crosses column j, at (i-d, j). From there it gains at most `top`
for each of min(d, w) letter pairs and pays for a gap of the |d - w| other letters. By (1),
H(i-d, j) <= H(i, j) + alpha + d*beta. The sum of both is at most the bound in (2). In local mode a path may
also start from 0 right of column j. It gains no more, and H(i, j) >= 0. Without a floor, a path may start
from 0 right of column j if the top edge of the DP matrix is 0. It gains at most `top` for each of min(i, w)
letter pairs and pays for a gap of i - w letters if i > w, and H(i, j) >= -alpha - i*beta. This is within (2).
The same holds if only the first cells of the top edge are 0 and the others cost a gap (`pruning.row_limits`):
where a path starts right of column j, one may start in column j as well.

**Distances in a rectangle.** In a rectangle, values come from its edges as well. Suppose that the edges obey
(1) and (2) with 2*alpha in place of alpha. `has_smooth_edges` checks this, and the edges of every part of a
DP matrix do. Two legs lead from h to any cell, one along the strip's left edge and one across the strip. H of
the cell therefore lies between

    h - 8*alpha - W*beta - max(B*beta, S*(beta + top))    and
    h + 8*alpha + W*(beta + top) + max(S*beta, B*(beta + top))

**Columns beyond the strip's end.** The warp computes these, too. The last value of the top edge is repeated
there, and a letter pair is worth no more than opening a gap. By induction, together with
E(i, end+k) <= E(i, end),

    H(i, end) - alpha - k*beta <= H(i, end+k) <= H(i, end)

**Rows beyond the rectangle.** Where a strip sweeps on through them (see `kernels.sweep`), they equal rows of
a longer query. Its additional letters score -alpha - beta with all others, or `least` if that is even lower.
Its left edge is smooth as well: it is 0 above the rectangle, and below the rectangle its last value is
repeated.

**Intermediate sums.** A sum on the way to a cell lies at most 2*alpha + 3*beta or -least below some H, or at
most `top` above some H. The largest fall is that of F: H without F is at least E, and E is at least opened H
of the row above. F is opened from this H without F, and beta is subtracted once more.

**Halves beyond the rectangle.** A half that has swept its part of a rectangle may sweep on for up to two rows
while the other half is at work, with an arbitrary left edge (see `requested_rows`). In these rows, E is still
at least opened H of the row above. Opened H, and the value that F is opened from, therefore fall by at most
alpha + beta in the first of these rows, and by beta more in the second. That is at most 2*alpha + 3*beta
below an H. So the low half never borrows from the high half while the high half is at work. Before the low
half starts, the high half is idle too.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import SweepJob
from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.planning.edge_pieces import LONG, in_pieces
from longalign.model.boundary import Edge, IntArray, LinearEdge
from longalign.model.scoring import Scoring

_SIZE = 1 << 16


def below(scoring: Scoring, config: KernelConfig) -> int:
    """How far the base of a row block must lie below h (see the module's docstring)."""
    alpha, beta = scoring.gap_open, scoring.gap_extend
    legs = 8 * alpha + config.strip_width * beta
    legs += max(config.block_rows * beta, config.span * (beta + scoring.highest))
    return legs + max(2 * alpha + 3 * beta, -scoring.lowest) + 1


def above(scoring: Scoring, config: KernelConfig) -> int:
    """How far above h a value of the row block can lie, intermediate sums included."""
    alpha, beta, gain = scoring.gap_open, scoring.gap_extend, scoring.gap_extend + scoring.highest
    legs = 8 * alpha + config.strip_width * gain + max(config.span * beta, config.block_rows * gain)
    return legs + scoring.highest


def wide_enough(scoring: Scoring, config: KernelConfig) -> bool:
    """Whether 16 bits hold every value of a row block, relative to its base."""
    return below(scoring, config) + above(scoring, config) < _SIZE


def has_smooth_edges(job: SweepJob) -> bool:
    """Whether a rectangle's edges belong to a DP matrix, or rise and fall no faster than those of one.

    With pruning, an edge may jump where cells before it were left out.
    """
    is_known = job.of_matrix and job.pruning is None
    return is_known or (is_smooth(job.top, job.scoring) and is_smooth(job.left, job.scoring))


def is_smooth(edge: Edge, scoring: Scoring) -> bool:
    """Whether H along an edge obeys (1) and (2) with 2*alpha for alpha, and no gap state exceeds H."""
    if isinstance(edge, LinearEdge):
        return _is_linear_smooth(edge, scoring)
    falls, rises, room = scoring.gap_extend, scoring.gap_extend + scoring.highest, 2 * scoring.gap_open
    if len(edge) <= LONG and _is_gentle(edge.h, falls, rises, room):
        return not (edge.gap > edge.h).any()
    examined = in_pieces(edge, 0, partial(_examine, falls=falls, rises=rises))
    return (
        not any(above for above, _, _ in examined)
        and _deepest_fall(fall for _, fall, _ in examined) <= room
        and _deepest_fall(rise for _, _, rise in examined) <= room
    )


def _is_linear_smooth(edge: LinearEdge, scoring: Scoring) -> bool:
    """`is_smooth` from the two steps of a linear edge: the first one, and the one that all others equal."""
    falls, rises, room = scoring.gap_extend, scoring.gap_extend + scoring.highest, 2 * scoring.gap_open
    first = edge.first - edge.corner
    excess = max(0, (len(edge) - 1) * (edge.step - falls))  # by which the other steps together fall too far
    return excess <= room and excess - falls - room <= first <= rises + room


def _is_gentle(h: IntArray, falls: int, rises: int, room: int) -> bool:
    """Whether no step exceeds its limit, except that the first one has `room` more.

    This is sufficient for `is_smooth` and quick to test. It holds along a gap.
    """
    if int(h.max()) - int(h.min()) > np.iinfo(np.int32).max:
        return False
    first, steps = int(h[1]) - int(h[0]), np.diff(h[1:])
    gentle = len(steps) == 0 or (steps.min() >= -falls and steps.max() <= rises)
    return bool(gentle) and -falls - room <= first <= rises + room


@dataclass(frozen=True, slots=True)
class _Fall:
    """The deepest fall from any of some values to a later one, the highest value, and the lowest."""

    depth: int
    highest: int
    lowest: int


def _examine(start: int, h: IntArray, gap: IntArray, *, falls: int, rises: int) -> tuple[bool, _Fall, _Fall]:
    """Whether a gap state of a piece of an edge exceeds H, and the deepest fall and the highest rise of H.

    The piece begins at index `start`. A fall of `falls` and a rise of `rises` at each letter do not count.
    """
    place = np.arange(start, start + len(h))
    return bool((gap > h).any()), _fall(h + place * falls), _fall(place * rises - h)


def _fall(values: NDArray[np.int64]) -> _Fall:
    peaks = np.maximum.accumulate(values)
    return _Fall(int((peaks - values).max()), int(peaks[-1]), int(values.min()))


def _deepest_fall(pieces: Iterable[_Fall]) -> int:
    """The deepest fall over consecutive pieces."""
    deepest, highest = 0, None
    for piece in pieces:
        before = piece.depth if highest is None else highest - piece.lowest
        deepest = max(deepest, piece.depth, before)
        highest = piece.highest if highest is None else max(highest, piece.highest)
    return deepest
