"""Ways through a rectangle that take time in proportion to its sides: two diagonals and gaps between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Kernel
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm
from longalign.backends.substitution_tables import PITCH, table_of
from longalign.model.alignment import Op
from longalign.model.alphabet import Codes
from longalign.model.scoring import Scoring

#: The operations of a bridge, in order. Runs may be empty.
BRIDGE = np.array([Op.DIAGONAL, Op.INSERTION, Op.DELETION, Op.DIAGONAL], np.uint8)

#: An ungapped extension ends where its score has fallen from the best one by the cost of this many gaps of
#: one letter each, and by the highest score of a letter pair.
_DROP = 10


class Bridges(NamedTuple):
    """Ways across rectangles: the lengths of the runs `BRIDGE`, int64 of shape (rectangles, 4).

    `loss`, int64 of shape (rectangles,), is by how much each scores less than a path of matches and one gap,
    which no path can exceed.
    """

    lengths: NDArray[np.int64]
    loss: NDArray[np.int64]

    def is_good(self, scoring: Scoring) -> NDArray[np.bool_]:
        """Which of them lose at most what the worst letter pair in place of the best one loses."""
        return self.loss <= scoring.highest - scoring.lowest


def bridges(query: Codes, target: Codes, scoring: Scoring, rectangles: NDArray[np.int64]) -> Bridges:
    """The bridge across each rectangle, on the diagonals of its upper left and its lower right corner.

    A row of `rectangles` is the first and the last row boundary of a rectangle, then its first and last
    column boundary. A bridge follows the first diagonal, then gaps, then the second diagonal. It is the
    better one of two: the best bridge with at most one gap, and the bridge that leaves each diagonal where
    its score is best, with a vertical and a horizontal gap between.
    """
    found = Bridges(np.zeros((len(rectangles), len(BRIDGE)), np.int64), np.zeros(len(rectangles), np.int64))
    costs = np.array([scoring.gap_open, scoring.gap_extend, scoring.highest], np.int64)
    _bridger()(query, target, table_of(scoring), costs, np.ascontiguousarray(rectangles), *found)
    return found


def extension(query: Codes, target: Codes, scoring: Scoring, start: tuple[int, int], step: int) -> int:
    """The number of letter pairs by which an alignment is best extended on its diagonal.

    It is extended from the cell `start` on: backwards if `step` is -1, forwards if it is 1.
    """
    drop = _DROP * scoring.opening + scoring.highest
    numbers = np.array([*start, step, drop], np.int64)
    return int(_extender()(query, target, table_of(scoring), numbers))


def _make_bridger() -> Callable[..., None]:
    number = numba.int64

    @inline_by_llvm
    def gap(costs: Any, length: int) -> Any:
        return costs[0] + costs[1] * length if length > 0 else number(0)

    def bridge(
        query: Any, target: Any, table: Any, costs: Any, rectangles: Any, lengths: Any, loss: Any
    ) -> None:
        for g in range(len(rectangles)):
            i, i_end, j, j_end = rectangles[g, 0], rectangles[g, 1], rectangles[g, 2], rectangles[g, 3]
            rows, cols = i_end - i, j_end - j
            least = min(rows, cols)
            # At first all pairs are on the diagonal of the lower right corner. Then one after the other moves
            # to the diagonal of the upper left corner.
            first, first_best, first_length = number(0), number(0), number(0)
            last, last_best, last_length = number(0), number(0), number(0)
            for x in range(least):
                last += table[query[i_end - 1 - x] * PITCH + target[j_end - 1 - x]]
                if last > last_best:
                    last_best, last_length = last, x + 1
            total = last
            best, split = total, number(0)
            for x in range(least):
                pair = table[query[i + x] * PITCH + target[j + x]]
                beyond = table[query[i_end - least + x] * PITCH + target[j_end - least + x]]
                first += pair
                total += pair - beyond
                if total > best:
                    best, split = total, x + 1
                if first > first_best:
                    first_best, first_length = first, x + 1
            min_cost = gap(costs, rows - least) + gap(costs, cols - least)
            best -= min_cost
            paired = first_length + last_length
            two = first_best + last_best - gap(costs, rows - paired) - gap(costs, cols - paired)
            if paired <= least and two > best:
                lengths[g, 0], lengths[g, 3] = first_length, last_length
                lengths[g, 1], lengths[g, 2] = rows - paired, cols - paired
                best = two
            else:
                lengths[g, 0], lengths[g, 3] = split, least - split
                lengths[g, 1], lengths[g, 2] = rows - least, cols - least
            loss[g] = least * costs[2] - min_cost - best

    return bridge


def _extend(query: Any, target: Any, table: Any, numbers: Any) -> Any:
    i, j, step, drop = numbers[0], numbers[1], numbers[2], numbers[3]
    letters = min(len(query) - i, len(target) - j) if step > 0 else min(i, j)
    back = 1 if step < 0 else 0
    score, best, length = numba.int64(0), numba.int64(0), numba.int64(0)
    for x in range(letters):
        score += table[query[i - back + step * x] * PITCH + target[j - back + step * x]]
        if score > best:
            best, length = score, x + 1
        elif score < best - drop:
            break
    return length


_CODES, _TABLE, _NUMBERS = np.zeros(1, np.uint8), np.zeros(1, np.int32), np.zeros(1, np.int64)


@compiled_once
def _bridger() -> Callable[..., None]:
    square = _NUMBERS.reshape(1, 1)
    examples = [_CODES, _CODES, _TABLE, _NUMBERS, square, square, _NUMBERS]
    return compile_entry(_make_bridger(), "bridges", examples)


@compiled_once
def _extender() -> Callable[..., int]:
    return compile_entry(_extend, "ungapped extension", [_CODES, _CODES, _TABLE, _NUMBERS])


def kernels() -> list[Kernel]:
    """What is compiled here."""
    return [Kernel("bridges", _bridger), Kernel("ungapped extension", _extender)]
