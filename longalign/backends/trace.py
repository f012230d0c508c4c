"""The traceback of one small rectangle: direction bytes for every cell, then a walk.

Plain scalar code on the host, for both back ends: phase 3 hands it only rectangles of at most a few
hundred letters a side, whose entry and exit are known.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from longalign import recurrence
from longalign.alignment import Op
from longalign.backends.base import Codes
from longalign.boundary import Boundary, State
from longalign.scoring import Scoring

_PAIR, _INSERTION, _DELETION = int(Op.DIAGONAL), int(Op.INSERTION), int(Op.DELETION)


@njit(nogil=True)
def _maximum(x, y):
    return x if x > y else y


@njit(nogil=True)
def _subtract(x, y):
    return x - y


_cell = njit(recurrence.make_cell(_maximum, _subtract, local=False))
_direction = njit(recurrence.direction)
_E, _F, _H = int(State.E), int(State.F), int(State.H)
_SOURCE_MASK, _DIAGONAL, _FROM_E = recurrence.SOURCE_MASK, recurrence.DIAGONAL, recurrence.FROM_E
_E_EXTENDS, _F_EXTENDS = recurrence.E_EXTENDS, recurrence.F_EXTENDS


def trace(
    query: Codes, target: Codes, scoring: Scoring, top: Boundary, left: Boundary, exit_state: State
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """The optimal path from the upper left corner to (m, n, exit_state), as runs.

    `top` and `left` are `entry_edges` of the state at the corner. Returns `ops` (k,) uint8 and
    `lengths` (k,) int64, neighbouring runs of different operations. Ties go by `recurrence.direction`.
    """
    directions = np.empty((len(query), len(target)), np.uint8)
    _fill(
        query, target, np.int32(scoring.match), np.int32(scoring.mismatch), np.int32(scoring.gap_open),
        np.int32(scoring.gap_extend), top.h, top.gap, left.h, left.gap, directions,
    )  # fmt: skip
    ops, lengths, count = _walk(directions, int(exit_state))
    return ops[:count][::-1].copy(), lengths[:count][::-1].copy()


@njit(nogil=True)
def _fill(
    query, target, match, mismatch, alpha, beta, top_h, top_e, left_h, left_f, directions
):
    opening = np.int32(alpha + beta)
    cols = target.size
    h_row, e_row = top_h.copy(), top_e.copy()
    for i in range(query.size):
        letter = query[i]
        diagonal_h = h_row[0]
        h_left, f_left = left_h[i + 1], left_f[i + 1]
        h_row[0] = h_left
        for j in range(cols):
            h_up = h_row[j + 1]
            diagonal = np.int32(diagonal_h + (match if letter == target[j] else mismatch))
            open_up, open_left = np.int32(h_up - opening), np.int32(h_left - opening)
            h, e, f = _cell(diagonal, open_up, e_row[j + 1], open_left, f_left, beta, np.int32(0))
            directions[i, j] = _direction(h, diagonal, e, f, open_up, open_left)
            diagonal_h = h_up
            h_left, f_left = np.int32(h), np.int32(f)
            h_row[j + 1], e_row[j + 1] = h_left, np.int32(e)


@njit(nogil=True)
def _walk(directions, state):
    i, j = directions.shape
    ops = np.empty(i + j, np.uint8)
    lengths = np.empty(i + j, np.int64)
    count = 0
    while i > 0 or j > 0:
        bits = directions[i - 1, j - 1] if i > 0 and j > 0 else 0
        if i == 0:
            op, step = _DELETION, j
        elif j == 0:
            op, step = _INSERTION, i
        elif state == _H and bits & _SOURCE_MASK == _DIAGONAL:
            op, step = _PAIR, 1
        elif state == _H:
            # Only the state changes; nothing is aligned.
            state = _E if bits & _SOURCE_MASK == _FROM_E else _F
            continue
        elif state == _E:
            op, step = _INSERTION, 1
            state = _E if bits & _E_EXTENDS else _H
        else:
            op, step = _DELETION, 1
            state = _F if bits & _F_EXTENDS else _H
        i -= step if op != _DELETION else 0
        j -= step if op != _INSERTION else 0
        if count > 0 and ops[count - 1] == op:
            lengths[count - 1] += step
        else:
            ops[count] = op
            lengths[count] = step
            count += 1
    return ops, lengths, count
