"""Plain kernels for a small rectangle with excluded letter pairs: its sweep, all its cells, its start states.

`longalign.backends.excluding` uses them for the few cells near excluded pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import EdgeStarts, Kernel, Rectangle, SweepJob, SweepResult, TraceJob
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm
from longalign.backends.cpu.lanes import maximum, subtract
from longalign.backends.substitution_tables import PITCH, lay_out
from longalign.model import recurrence
from longalign.model.alphabet import Codes
from longalign.model.boundary import (
    BestCell,
    Boundary,
    Edge,
    IntArray,
    StartLine,
    State,
    edge_starts,
    start_code,
)
from longalign.model.scoring import NEG_INF

_number = numba.int32

#: Arguments of the types that `_letters_and_scores` returns.
_EXAMPLES = (
    *[np.zeros(1, np.uint8)] * 2, *[np.zeros(1, np.int32)] * 2, np.zeros((1, 1), np.bool_)
)  # fmt: skip


class Cells(NamedTuple):
    """All cells of a rectangle of m x n letters, its top and left edge included.

    `h`, `e`, `f` are int32 and `directions` uint8 (see `recurrence.direction`), each of shape (m + 1, n + 1).
    On the edges, the gap state that a sweep does not read and the directions are undefined.
    """

    h: IntArray
    e: IntArray
    f: IntArray
    directions: NDArray[np.uint8]


def compute_cells(job: Rectangle | TraceJob, top: Edge, left: Edge, local: bool) -> Cells:
    """The cells of a rectangle with these edges, which takes 13 bytes for each of them.

    No excluded pair of `job` is used. Its own edges and floor are not looked at.
    """
    shape = len(job.query) + 1, len(job.target) + 1
    h, e, f = (np.empty(shape, np.int32) for _ in range(3))
    cells = Cells(h, e, f, np.empty(shape, np.uint8))
    cells.h[0], cells.e[0] = top.h, top.gap
    cells.h[:, 0], cells.f[:, 0] = left.h, left.gap
    _cells_kernel(local, job.scoring.table is not None)(*_letters_and_scores(job), *cells)
    return cells


def sweep_cells(job: SweepJob) -> SweepResult:
    """The sweep of a rectangle. No excluded pair is used."""
    h, e, best = job.top.h.copy(), job.top.gap.copy(), np.zeros(3, np.int64)
    rows, cols = (np.array(indices, np.int64) for indices in (job.rows, job.cols))
    row_h, row_e = (np.empty((len(rows), len(h)), np.int32) for _ in range(2))
    col_h, col_f = (np.empty((len(cols), len(job.query) + 1), np.int32) for _ in range(2))
    col_h[:, 0], col_f[:, 0] = h[cols], NEG_INF
    kernel = _sweep_kernel(job.local, job.scoring.table is not None)
    kernel(
        *_letters_and_scores(job), *(h, e, np.empty_like(e), np.empty_like(h), job.left.h, job.left.gap),
        *(rows, row_h, row_e, cols, col_h, col_f, best),
    )  # fmt: skip
    return SweepResult(
        tuple(map(Boundary, row_h, row_e)),
        tuple(map(Boundary, col_h, col_f)),
        BestCell(*map(int, best)) if job.track_best else BestCell(),
    )


def _letters_and_scores(
    job: Rectangle | TraceJob,
) -> tuple[Codes, Codes, IntArray, IntArray, NDArray[np.bool_]]:
    """The first arguments of each kernel: letters, a matrix of pair scores, costs, and the excluded pairs."""
    scoring, excluded = job.scoring, job.excluded
    matrix, _ = lay_out([scoring])
    costs = scoring.match, scoring.mismatch, scoring.opening, scoring.gap_extend
    barred = np.zeros((len(job.query), len(job.target)), np.bool_)
    barred[excluded.query, excluded.target] = True
    letters = np.ascontiguousarray(job.query), np.ascontiguousarray(job.target)
    return *letters, matrix, np.array(costs, np.int32), barred


def start_states(cells: Cells, local: bool) -> EdgeStarts:
    """The start states on the edges of a rectangle, from all its cells. They take 24 bytes for each cell."""
    rows, cols = (length - 1 for length in cells.h.shape)
    top, left = edge_starts(rows, cols)
    codes = np.empty((len(State), rows + 1, cols + 1), np.int64)
    codes[State.H, 0], codes[State.E, 0] = top.h, top.gap
    codes[State.H, :, 0], codes[State.F, :, 0] = left.h, left.gap
    _start_kernel()(cells.directions, cells.h, local, codes)
    h, e, f = codes
    bottom, right = (h[-1, 1:], e[-1, 1:]), (h[1:, -1], f[1:, -1])
    # Copies: slices would keep all cells in memory.
    return EdgeStarts(*(StartLine(*(line.copy() for line in lines)) for lines in (bottom, right)))


def _make_cell_and_inputs(local: bool, has_matrix: bool) -> tuple[Any, Any]:
    """Inlined functions: the recurrence of a cell, and two of its arguments (see `recurrence.make_cell`).

    The second function returns those that come from the row above: the diagonal and opened H.
    """

    @inline_by_llvm
    def pair_score(a: Any, b: Any, matrix: Any, match: Any, mismatch: Any) -> Any:
        if has_matrix:
            return matrix[a * PITCH + b]
        return match if a == b else mismatch

    lowest = _number(NEG_INF)

    @inline_by_llvm
    def from_above(a: Any, b: Any, matrix: Any, costs: Any, is_barred: Any, corner: Any, above: Any) -> Any:
        score = pair_score(a, b, matrix, costs[0], costs[1])
        return lowest if is_barred else _number(corner + score), _number(above - costs[2])

    return inline_by_llvm(recurrence.make_cell(maximum, subtract, local)), from_above


def _make_cells_kernel(local: bool, has_matrix: bool) -> Callable[..., None]:
    cell, from_above = _make_cell_and_inputs(local, has_matrix)
    direction: Any = inline_by_llvm(recurrence.direction)

    def compute(
        query: Any, target: Any, matrix: Any, costs: Any, barred: Any, h: Any, e: Any, f: Any, directions: Any
    ) -> None:
        opening, extend = costs[2], costs[3]
        for i in range(1, h.shape[0]):
            for j in range(1, h.shape[1]):
                a, b = query[i - 1], target[j - 1]
                pair, up = from_above(
                    a, b, matrix, costs, barred[i - 1, j - 1], h[i - 1, j - 1], h[i - 1, j]
                )  # fmt: skip
                beside = _number(h[i, j - 1] - opening)
                cell_h, cell_e, cell_f, _ = cell(
                    pair, up, e[i - 1, j], beside, f[i, j - 1], extend, _number(0)
                )
                h[i, j], e[i, j], f[i, j] = cell_h, cell_e, cell_f
                directions[i, j] = direction(cell_h, pair, cell_e, cell_f, up, beside)

    return compute


def _make_sweep_kernel(local: bool, has_matrix: bool) -> Callable[..., None]:
    cell, from_above = _make_cell_and_inputs(local, has_matrix)
    outranks: Any = inline_by_llvm(recurrence.outranks)
    zero = _number(0)

    def sweep(
        query: Any, target: Any, matrix: Any, costs: Any, barred: Any, h: Any, e: Any, f: Any, without_f: Any,
        left_h: Any, left_f: Any, rows: Any, row_h: Any, row_e: Any, cols: Any, col_h: Any, col_f: Any,
        best: Any,
    ) -> None:  # fmt: skip
        """Replace the row above in `h` and `e`, and F in `f`, row by row. Store requested rows and columns.

        Each row is computed twice: without F, in all columns at once, and then with F, column by column. F is
        opened from H without F, as `recurrence.make_cell` allows. `best` receives score, row and column of
        the best cell, by `BestCell.rank`.
        """
        opening, extend, stored_rows, score = costs[2], costs[3], 0, zero
        for i in range(1, len(query) + 1):
            a = query[i - 1]
            for j in range(1, len(h)):
                pair, up = from_above(a, target[j - 1], matrix, costs, barred[i - 1, j - 1], h[j - 1], h[j])
                _, e[j], _, here = cell(pair, up, e[j], zero, zero, extend, zero)
                without_f[j] = maximum(here, zero) if local else here
            h[0], left, f_left = left_h[i], left_h[i], left_f[i]
            for j in range(1, len(h)):
                here = without_f[j]
                # E is part of H without F: in its place stands a value that is not higher.
                h[j], _, f_left, _ = cell(here, here, here, _number(left - opening), f_left, extend, zero)
                f[j], left = f_left, here
            highest = zero
            for j in range(1, len(h)):
                highest = maximum(highest, h[j])
            if highest > 0 and highest >= score:
                for j in range(1, len(h)):
                    if h[j] == highest and outranks(highest, i, j, score, best[1], best[2]):
                        score, best[1], best[2] = highest, i, j
            if stored_rows < len(rows) and rows[stored_rows] == i:
                for j in range(len(h)):
                    row_h[stored_rows, j], row_e[stored_rows, j] = h[j], e[j]
                stored_rows += 1
            for k in range(len(cols)):
                col_h[k, i], col_f[k, i] = h[cols[k]], f[cols[k]]
        best[0] = score

    return sweep


@compiled_once
def _cells_kernel(local: bool, has_matrix: bool) -> Callable[..., None]:
    """The compiled kernel, from disk if it is there. Thread-safe."""
    square = np.zeros((1, 1), np.int32)
    examples = [*_EXAMPLES, square, square, square, square.astype(np.uint8)]
    return compile_entry(_make_cells_kernel(local, has_matrix), f"masked {local=} {has_matrix=}", examples)


@compiled_once
def _sweep_kernel(local: bool, has_matrix: bool) -> Callable[..., None]:
    """The compiled kernel, from disk if it is there. Thread-safe."""
    line, square, indices = np.zeros(1, np.int32), np.zeros((1, 1), np.int32), np.zeros(1, np.int64)
    examples = [*_EXAMPLES, *[line] * 6, indices, square, square, indices, square, square, indices]
    key = f"masked sweep {local=} {has_matrix=}"
    return compile_entry(_make_sweep_kernel(local, has_matrix), key, examples)


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


def kernels() -> list[Kernel]:
    """What is compiled here."""
    kinds = [*product((True, False), repeat=2)]
    return [
        Kernel("masked starts", _start_kernel),
        *(Kernel(f"masked {kind}", partial(_cells_kernel, *kind)) for kind in kinds),
        *(Kernel(f"masked sweep {kind}", partial(_sweep_kernel, *kind)) for kind in kinds),
    ]
