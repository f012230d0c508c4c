"""The traceback of one small rectangle: direction bytes for every cell, then a walk.

Plain scalar code on the host, for both back ends: phase 3 hands it only rectangles of at most a few
hundred letters a side, whose entry and exit are known.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign import recurrence
from longalign.alignment import Op
from longalign.backends.base import Codes
from longalign.backends.cpu.jit import compile_entry, fuse, once
from longalign.boundary import Boundary, State
from longalign.scoring import Scoring

_PAIR, _INSERTION, _DELETION = int(Op.DIAGONAL), int(Op.INSERTION), int(Op.DELETION)


@fuse
def _maximum(x: Any, y: Any) -> Any:
    return x if x > y else y


@fuse
def _subtract(x: Any, y: Any) -> Any:
    return np.int32(x - y)


_cell: Any = fuse(recurrence.make_cell(_maximum, _subtract, local=False))
_direction: Any = fuse(recurrence.direction)
_ZERO = np.int32(0)
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
    rows, cols = len(query), len(target)
    directions = np.empty((rows, cols), np.uint8)
    ops, lengths = np.empty(rows + cols, np.uint8), np.empty(rows + cols, np.int64)
    costs = _costs(scoring)
    edges = top.h.copy(), top.gap.copy(), left.h, left.gap
    count = _compiled()(query, target, costs, *edges, int(exit_state), directions, ops, lengths)
    return ops[:count][::-1].copy(), lengths[:count][::-1].copy()


def _costs(scoring: Scoring) -> NDArray[np.int32]:
    opening = scoring.gap_open + scoring.gap_extend
    return np.array([scoring.match, scoring.mismatch, opening, scoring.gap_extend], np.int32)


@once
def _compiled() -> Any:
    letters, line = np.zeros(1, np.uint8), np.zeros(2, np.int32)
    arguments = letters, letters, _costs(Scoring()), line, line, line, line, 0
    outputs = np.zeros((1, 1), np.uint8), np.zeros(2, np.uint8), np.zeros(2, np.int64)
    return compile_entry(_fill_and_walk, "trace", [*arguments, *outputs])


@fuse
def _fill(
    query: Any, target: Any, costs: Any, h_row: Any, e_row: Any, left_h: Any, left_f: Any, directions: Any
) -> None:
    """Direction bytes, row by row; `h_row` and `e_row` are the top boundary and become the bottom one."""
    match, mismatch, opening, beta = costs[0], costs[1], costs[2], costs[3]
    for i in range(query.size):
        letter = query[i]
        diagonal_h, h_left, f_left = h_row[0], left_h[i + 1], left_f[i + 1]
        h_row[0] = h_left
        for j in range(target.size):
            h_up = h_row[j + 1]
            diagonal = np.int32(diagonal_h + (match if letter == target[j] else mismatch))
            open_up, open_left = _subtract(h_up, opening), _subtract(h_left, opening)
            h_left, e, f_left = _cell(diagonal, open_up, e_row[j + 1], open_left, f_left, beta, _ZERO)
            directions[i, j] = _direction(h_left, diagonal, e, f_left, open_up, open_left)
            diagonal_h, h_row[j + 1], e_row[j + 1] = h_up, h_left, e


@fuse
def _walk(directions: Any, state: int, ops: Any, lengths: Any) -> int:
    """Runs from the lower right corner back to the upper left one; returns how many."""
    i, j = directions.shape
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
            ops[count], lengths[count] = op, step
            count += 1
    return count


def _fill_and_walk(
    query: Any,
    target: Any,
    costs: Any,
    h_row: Any,
    e_row: Any,
    left_h: Any,
    left_f: Any,
    state: int,
    directions: Any,
    ops: Any,
    lengths: Any,
) -> int:
    _fill(query, target, costs, h_row, e_row, left_h, left_f, directions)
    return _walk(directions, state, ops, lengths)
