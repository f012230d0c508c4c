"""Plain kernels for a small rectangle in which some letter pairs are excluded: its cells and start states.

They compute one cell after the other. `longalign.backends.excluding` uses them for the few cells near
excluded pairs, whatever back end sweeps the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import EdgeStarts
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm
from longalign.backends.cpu.lanes import maximum
from longalign.backends.substitution_tables import PITCH, lay_out
from longalign.model import recurrence
from longalign.model.alphabet import Codes
from longalign.model.boundary import Edge, IntArray, StartLine, State, edge_starts, start_code
from longalign.model.excluded_pairs import ExcludedPairs
from longalign.model.scoring import NEG_INF, Scoring

_number = numba.int32


class Cells(NamedTuple):
    """All cells of a rectangle of m x n letters, its top and left edge included.

    `h`, `e`, `f` are int32 and `directions` uint8 (see `recurrence.direction`), each of shape (m + 1, n + 1).
    On the edges, the gap state that a sweep does not read and the directions are undefined.
    """

    h: IntArray
    e: IntArray
    f: IntArray
    directions: NDArray[np.uint8]


def compute_cells(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    top: Edge,
    left: Edge,
    local: bool,
    excluded: ExcludedPairs,
) -> Cells:
    """The cells of a rectangle, which takes 13 bytes for each of them. No excluded pair is used."""
    shape = len(query) + 1, len(target) + 1
    h, e, f = (np.empty(shape, np.int32) for _ in range(3))
    cells = Cells(h, e, f, np.empty(shape, np.uint8))
    cells.h[0], cells.e[0] = top.h, top.gap
    cells.h[:, 0], cells.f[:, 0] = left.h, left.gap
    barred = np.zeros(shape, np.bool_)
    barred[excluded.query + 1, excluded.target + 1] = True
    matrix, [offset] = lay_out([scoring])
    costs = scoring.match, scoring.mismatch, scoring.gap_open + scoring.gap_extend, scoring.gap_extend
    kernel = _kernel(local, scoring.table is not None)
    letters = np.ascontiguousarray(query), np.ascontiguousarray(target)
    kernel(*letters, matrix[max(0, offset) :], np.array(costs, np.int32), barred, *cells)
    return cells


def start_states(cells: Cells, local: bool) -> EdgeStarts:
    """The start states on the edges of a rectangle, from all its cells. They take 24 bytes for each cell."""
    rows, cols = (length - 1 for length in cells.h.shape)
    top, left = edge_starts(rows, cols)
    codes = np.empty((len(State), rows + 1, cols + 1), np.int64)
    codes[State.H, 0], codes[State.E, 0] = top.h, top.gap
    codes[State.H, :, 0], codes[State.F, :, 0] = left.h, left.gap
    _start_kernel()(cells.directions, cells.h, local, codes)
    h, e, f = codes
    return EdgeStarts(StartLine(h[-1, 1:], e[-1, 1:]), StartLine(h[1:, -1], f[1:, -1]))


def _make_kernel(local: bool, has_matrix: bool) -> Callable[..., None]:
    @inline_by_llvm
    def subtract(x: Any, y: Any) -> Any:
        return _number(x - y)

    @inline_by_llvm
    def pair_score(a: Any, b: Any, matrix: Any, match: Any, mismatch: Any) -> Any:
        if has_matrix:
            return matrix[a * PITCH + b]
        return match if a == b else mismatch

    cell: Any = inline_by_llvm(recurrence.make_cell(maximum, subtract, local))
    direction: Any = inline_by_llvm(recurrence.direction)
    lowest = _number(NEG_INF)

    def compute(
        query: Any, target: Any, matrix: Any, costs: Any, barred: Any, h: Any, e: Any, f: Any, directions: Any
    ) -> None:
        match, mismatch, opening, extend = costs[0], costs[1], costs[2], costs[3]
        for i in range(1, h.shape[0]):
            a = query[i - 1]
            for j in range(1, h.shape[1]):
                b = target[j - 1]
                score = pair_score(a, b, matrix, match, mismatch)
                pair = lowest if barred[i, j] else _number(h[i - 1, j - 1] + score)
                up, beside = _number(h[i - 1, j] - opening), _number(h[i, j - 1] - opening)
                cell_h, cell_e, cell_f, _ = cell(
                    pair, up, e[i - 1, j], beside, f[i, j - 1], extend, _number(0)
                )
                h[i, j], e[i, j], f[i, j] = cell_h, cell_e, cell_f
                directions[i, j] = direction(cell_h, pair, cell_e, cell_f, up, beside)

    return compute


@compiled_once
def _kernel(local: bool, has_matrix: bool) -> Callable[..., None]:
    """The compiled kernel, from disk if it is there. Thread-safe."""
    letters, line = np.zeros(1, np.uint8), np.zeros(1, np.int32)
    square = np.zeros((1, 1), np.int32)
    examples = [
        *(letters, letters, line, line, square.astype(np.bool_)),
        *(square, square, square, square.astype(np.uint8)),
    ]
    return compile_entry(_make_kernel(local, has_matrix), f"masked {local=} {has_matrix=}", examples)


def _make_start_kernel() -> Callable[..., None]:
    step_back: Any = inline_by_llvm(recurrence.step_back)
    code: Any = inline_by_llvm(start_code)

    def spread(directions: Any, h: Any, local: Any, codes: Any) -> None:
        """Hand start codes on from the edges, from each cell and state to those that step back to it."""
        for i in range(1, h.shape[0]):
            for j in range(1, h.shape[1]):
                for state in range(3):
                    down, right, before = step_back(state, directions[i, j])
                    codes[state, i, j] = codes[before, i - down, j - right]
                if local and h[i, j] == 0:
                    codes[recurrence.H, i, j] = code(i, j, recurrence.H)

    return spread


@compiled_once
def _start_kernel() -> Callable[..., None]:
    """The compiled kernel, from disk if it is there. Thread-safe."""
    values = np.zeros((1, 1), np.int32)
    examples = [values.astype(np.uint8), values, True, np.zeros((1, 1, 1), np.int64)]
    return compile_entry(_make_start_kernel(), "masked starts", examples)
