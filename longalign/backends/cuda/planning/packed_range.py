"""Which rectangles can be swept in packed numbers: the proof that 16 bits above a base are enough.

While a warp sweeps a row block, it computes and keeps cells of its strip, none above row boundary start - S
and none below start + B: B rows of a row block, S = the span of the strip's parts, each a step behind its
left neighbour. (The last part is a step less than S behind, so that even the row above its first one, which E
comes from, is among them.) Let W be the strip's width, and h the value of H on the strip's left edge at row
boundary `start`. For any cells of the matrix,

    H(i, j+w) >= H(i, j) - alpha - w*beta            by a gap, and so downwards;
    H(i, j+w) <= H(i, j) + alpha + w*(beta + top)    and so downwards,

where `top` and `least` are the highest and the lowest score of a letter pair: match and mismatch, if there is
no matrix. The second holds because a path to (i, j+w) crosses column j somewhere above, at (i-d, j): from
there it gains at most `top` for each of min(d, w) letters and pays for the gap of |d - w| others, while
H(i, j) >= H(i-d, j) - alpha - d*beta. A path that starts from 0, in local mode, gains no more, and
H(i, j) >= 0. In a rectangle, values come from its edges as well. If the edges obey both lines with 2*alpha
for alpha, which `has_smooth_edges` checks and every part of a matrix does, then two legs, one along the
strip's left edge and one across the strip, differ from h by no more than

    down to   h - 8*alpha - W*beta - max(B*beta, S*(beta + top))
    up to     h + 8*alpha + W*(beta + top) + max(S*beta, B*(beta + top))

Columns beyond a strip's end count too: the top value goes on there, and a pair is worth no more than opening
a gap, so H(i, end) - alpha - k*beta <= H(i, end+k) <= H(i, end), by induction with E(i, end+k) <= E(i, end).

Rows beyond the rectangle that a strip sweeps on through (see `kernels.sweep`) are those of a longer query,
whose letters score -alpha - beta with all others, or `least` if that is even lower, and whose left edge is
smooth as well: above it is 0, and below its last value goes on.

Sums that are computed on the way lie at most 2*alpha + 3*beta or -least below an H, or `top` above: H but
for F is no lower than E, nor E than opened H above; F opened from it, less beta, is the lowest. A half that
has swept its part of a rectangle may go on for up to two rows while the other is at work, with any left edge
(see `requested_rows`). There E is at least opened H of the row above it, so opened H, and what F is opened
from, fall by alpha + beta at most in the first of these rows, and by beta more in the second: 2*alpha +
3*beta below an H. So the low half never borrows from the high one while that is at work; before the low half
begins, the high one is idle too.
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
    """How far the base of a row block must lie below the H on its upper left corner."""
    alpha, beta = scoring.gap_open, scoring.gap_extend
    legs = 8 * alpha + config.strip_width * beta
    legs += max(config.block_rows * beta, config.span * (beta + scoring.highest))
    return legs + max(2 * alpha + 3 * beta, -scoring.lowest) + 1


def above(scoring: Scoring, config: KernelConfig) -> int:
    """How far above that H a value of the row block can lie, sums on the way included."""
    alpha, beta, gain = scoring.gap_open, scoring.gap_extend, scoring.gap_extend + scoring.highest
    legs = 8 * alpha + config.strip_width * gain + max(config.span * beta, config.block_rows * gain)
    return legs + scoring.highest


def wide_enough(scoring: Scoring, config: KernelConfig) -> bool:
    """Whether 16 bits hold every value of a row block."""
    return below(scoring, config) + above(scoring, config) < _SIZE


def has_smooth_edges(job: SweepJob) -> bool:
    """Whether the values on a rectangle's edges are those of a matrix without cliffs."""
    return job.of_matrix or (is_smooth(job.top, job.scoring) and is_smooth(job.left, job.scoring))


def is_smooth(edge: Edge, scoring: Scoring) -> bool:
    """Whether the values along an edge neither fall nor rise faster than along a row of a matrix."""
    if isinstance(edge, LinearEdge):
        return _is_linear_smooth(edge, scoring)
    falls, rises, room = scoring.gap_extend, scoring.gap_extend + scoring.highest, 2 * scoring.gap_open
    if len(edge) <= LONG and _is_gentle(edge.h, falls, rises, room):
        return not (edge.gap > edge.h).any()
    looked_at = in_pieces(edge, 0, partial(_look_at, falls=falls, rises=rises))
    return (
        not any(above for above, _, _ in looked_at)
        and _deepest_fall(fall for _, fall, _ in looked_at) <= room
        and _deepest_fall(rise for _, _, rise in looked_at) <= room
    )


def _is_linear_smooth(edge: LinearEdge, scoring: Scoring) -> bool:
    """The same by its two steps: one beside the corner, and one that all other letters share."""
    falls, rises, room = scoring.gap_extend, scoring.gap_extend + scoring.highest, 2 * scoring.gap_open
    first = edge.first - edge.corner
    excess = max(0, (len(edge) - 1) * (edge.step - falls))  # by which all the others fall too deep
    return excess <= room and excess - falls - room <= first <= rises + room


def _is_gentle(h: IntArray, falls: int, rises: int, room: int) -> bool:
    """Whether no step is too steep, but perhaps the first: so it is along a gap, and this is quickly seen."""
    if int(h.max()) - int(h.min()) > np.iinfo(np.int32).max:
        return False
    first, steps = int(h[1]) - int(h[0]), np.diff(h[1:])
    gentle = len(steps) == 0 or (steps.min() >= -falls and steps.max() <= rises)
    return bool(gentle) and -falls - room <= first <= rises + room


@dataclass(frozen=True, slots=True)
class _Fall:
    """How deep some values fall, from any to a later one; the highest of them, and the lowest."""

    depth: int
    highest: int
    lowest: int


def _look_at(start: int, h: IntArray, gap: IntArray, *, falls: int, rises: int) -> tuple[bool, _Fall, _Fall]:
    """Of a piece of an edge, from index `start` on: whether a gap state is above H, how deep H falls where
    falling by `falls` at each letter is free, and how far it rises where rising by `rises` is."""
    place = np.arange(start, start + len(h))
    return bool((gap > h).any()), _fall(h + place * falls), _fall(place * rises - h)


def _fall(values: NDArray[np.int64]) -> _Fall:
    peaks = np.maximum.accumulate(values)
    return _Fall(int((peaks - values).max()), int(peaks[-1]), int(values.min()))


def _deepest_fall(pieces: Iterable[_Fall]) -> int:
    """How deep the values of pieces that follow one another fall."""
    deepest, highest = 0, None
    for piece in pieces:
        before = piece.depth if highest is None else highest - piece.lowest
        deepest = max(deepest, piece.depth, before)
        highest = piece.highest if highest is None else max(highest, piece.highest)
    return deepest
