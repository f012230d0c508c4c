"""The heaviest chain of segments: each begins after the one before has ended, in the query and in the target.

Two segments on different diagonals are joined at the cost of one gap of as many letters as the diagonals are
apart; other letters between them cost nothing. The best predecessor of a segment is then found in two
half-planes, on either side of its diagonal, in each of which one of the two orders implies the other
(D. Eppstein, Z. Galil, R. Giancarlo and G. Italiano, J. ACM 39:519, 1992). Divide and conquer over the rows
with a binary indexed tree over the diagonals (P. Fenwick, Softw. Pract. Exper. 24:327, 1994) finds it in
O(s log^2 s) for s segments, sorting aside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Kernel
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm
from longalign.pruning.segments import Places

#: Lower than every value of a chain.
_NEVER = -(1 << 62)

#: Two neighbouring blocks of at most this many segments each are compared pair by pair.
_SMALL = 32

#: Stands for no segment where an index is expected.
_NONE = -1


def heaviest_chain(
    begin: tuple[Places, Places],
    end: tuple[Places, Places],
    weight: Places,
    bonus: tuple[Places, Places],
    gap_open: int,
    gap_extend: int,
) -> NDArray[np.int64]:
    """The indices of the segments of the heaviest chain, in order; none if there are no segments.

    `begin` and `end` are the rows and the columns, half-open, int64 of shape (segments,). The rows of `begin`
    do not decrease. Segments are not empty, and those of one diagonal do not overlap. The value of a chain is
    the sum of its weights, bonus[0] of its first segment and bonus[1] of its last one, minus the costs of its
    gaps.
    """
    size = len(weight)
    if size == 0:
        return np.empty(0, np.int64)
    diagonal = begin[1] - begin[0]
    ranks = np.unique(diagonal, return_inverse=True)[1].astype(np.int64) + 1
    value, before = bonus[0].copy(), np.full(size, _NONE, np.int64)
    tree, tree_at = np.full(size + 2, _NEVER, np.int64), np.full(size + 2, _NONE, np.int64)
    order, last = np.empty(size, np.int64), np.full(size + 2, _NONE, np.int64)
    costs = np.array([gap_open, gap_extend], np.int64)
    _chainer()(
        np.stack(begin), np.stack(end), diagonal, ranks, weight, costs,
        value, before, tree, tree_at, order, last,
    )  # fmt: skip
    links = before.tolist()
    place = int(np.argmax(value + bonus[1]))
    chain: list[int] = []
    while place != _NONE:
        chain.append(place)
        place = links[place]
    return np.array(chain[::-1], np.int64)


def _make_chainer() -> Callable[..., None]:
    @inline_by_llvm
    def sort(order: Any, start: int, stop: int, keys: Any) -> None:
        """Shell's sort of indices by their keys, with Knuth's gaps."""
        gap = 1
        while 3 * gap + 1 < stop - start:
            gap = 3 * gap + 1
        while gap > 0:
            for x in range(start + gap, stop):
                item, at = order[x], x
                key = keys[item]
                while at - gap >= start and keys[order[at - gap]] > key:
                    order[at] = order[at - gap]
                    at -= gap
                order[at] = item
            gap //= 3

    @inline_by_llvm
    def put(tree: Any, tree_at: Any, rank: int, value: int, item: int) -> None:
        while rank < len(tree):
            if value > tree[rank]:
                tree[rank], tree_at[rank] = value, item
            rank += rank & -rank

    @inline_by_llvm
    def clear(tree: Any, rank: int) -> None:
        while rank < len(tree):
            tree[rank] = _NEVER
            rank += rank & -rank

    @inline_by_llvm
    def cross(
        start: int, middle: int, stop: int, side: int, begins: Any, ends: Any, diagonal: Any, ranks: Any,
        costs: Any, value: Any, before: Any, tree: Any, tree_at: Any, order: Any,
    ) -> None:  # fmt: skip
        """Offer segments start..middle as predecessors to segments middle..stop, on one side of these.

        Side 0 is the successor's own diagonal and those below. There, a segment whose rows end before those
        of the successor begin has columns that do so, too. Side 1 is its own diagonal and those above, with
        rows and columns exchanged.
        """
        sign, size = 1 - 2 * side, len(tree) - 1
        for x in range(start, stop):
            order[x] = x
        sort(order, start, middle, ends[side])
        sort(order, middle, stop, begins[side])
        ahead = start
        for x in range(middle, stop):
            j = order[x]
            while ahead < middle and ends[side, order[ahead]] <= begins[side, j]:
                i = order[ahead]
                rank = ranks[i] if side == 0 else size - ranks[i]
                put(tree, tree_at, rank, value[i] + sign * costs[1] * diagonal[i], i)
                ahead += 1
            rank = ranks[j] if side == 0 else size - ranks[j]
            best, at = _NEVER, _NONE
            while rank > 0:
                if tree[rank] > best:
                    best, at = tree[rank], tree_at[rank]
                rank -= rank & -rank
            if at != _NONE:
                best -= sign * costs[1] * diagonal[j] + costs[0]
                if best > value[j]:
                    value[j], before[j] = best, at
        for x in range(start, ahead):
            rank = ranks[order[x]]
            clear(tree, rank if side == 0 else size - rank)

    def chain(
        begins: Any, ends: Any, diagonal: Any, ranks: Any, weight: Any, costs: Any, value: Any, before: Any,
        tree: Any, tree_at: Any, order: Any, last: Any,
    ) -> None:  # fmt: skip
        for middle in range(len(weight)):
            # Divide and conquer without recursion. All segments before `middle` are finished. The last
            # `length` of them are offered to the next `length` segments, so that each pair meets once.
            # Until a segment is finished, its value is that of the best chain before it.
            length = middle & -middle
            stop = min(middle + length, len(weight))
            if 0 < length <= _SMALL:
                for i in range(middle - length, middle):
                    for j in range(middle, stop):
                        if ends[0, i] <= begins[0, j] and ends[1, i] <= begins[1, j]:
                            reached = value[i] - costs[0] - costs[1] * abs(diagonal[i] - diagonal[j])
                            if reached > value[j]:
                                value[j], before[j] = reached, i
            elif length > 0:
                for side in range(2):
                    cross(middle - length, middle, stop, side, begins, ends, diagonal, ranks,
                          costs, value, before, tree, tree_at, order)  # fmt: skip
            same = last[ranks[middle]]
            if same != _NONE and value[same] > value[middle]:
                value[middle], before[middle] = value[same], same
            value[middle] += weight[middle]
            last[ranks[middle]] = middle

    return chain


@compiled_once
def _chainer() -> Callable[..., None]:
    numbers = np.zeros(1, np.int64)
    square = numbers.reshape(1, 1)
    return compile_entry(_make_chainer(), "chain", [square, square, *[numbers] * 10])


def kernels() -> list[Kernel]:
    """What is compiled here."""
    return [Kernel("chain", _chainer)]
