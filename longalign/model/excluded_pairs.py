"""Letter pairs that an alignment must not use, because an earlier one of several alignments has used them.

M. S. Waterman and M. Eggert, J. Mol. Biol. 197:723-728 (1987): the next best local alignment is the best one
that shares no letter pair with those before it. Gaps may pass through the cell of an excluded pair.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longalign.model.alignment import Alignment, Op, letters_of_runs

Indices = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ExcludedPairs:
    """Pairs of a query letter and a target letter, as 0-based indices in the rectangle that they belong to.

    `query` and `target` are int64 of shape (pairs,), sorted by `query`, then by `target`.
    """

    query: Indices
    target: Indices

    @classmethod
    def of(cls, alignment: Alignment) -> ExcludedPairs:
        """The letter pairs of an alignment, matches and mismatches.

        The indices are those of its sequences, of the query along its strand.
        """
        ops, lengths = alignment.ops, alignment.lengths
        down, right = letters_of_runs(ops, lengths)
        begins_i, begins_j = alignment.rows[0] + _offsets(down), alignment.target_start + _offsets(right)
        paired = ~np.isin(ops, (Op.INSERTION, Op.DELETION))
        counts = lengths[paired]
        steps = np.arange(counts.sum()) - np.repeat(_offsets(counts), counts)
        return cls(np.repeat(begins_i[paired], counts) + steps, np.repeat(begins_j[paired], counts) + steps)

    def __len__(self) -> int:
        return len(self.query)

    def __or__(self, other: ExcludedPairs) -> ExcludedPairs:
        """The pairs of both, which have none in common."""
        query = np.concatenate([self.query, other.query])
        target = np.concatenate([self.target, other.target])
        order = np.lexsort((target, query))
        return ExcludedPairs(query[order], target[order])

    def within(self, i0: int, i1: int, j0: int, j1: int) -> ExcludedPairs:
        """The pairs with i0 <= query < i1 and j0 <= target < j1, counted from (i0, j0)."""
        if not len(self):
            return self
        first, last = np.searchsorted(self.query, (i0, i1))
        query, target = self.query[first:last], self.target[first:last]
        inside = (target >= j0) & (target < j1)
        return ExcludedPairs(query[inside] - i0, target[inside] - j0)

    def reversed(self, rows: int, cols: int) -> ExcludedPairs:
        """The pairs of a rectangle of `rows` x `cols` letters in the indices of both reversed sequences."""
        return ExcludedPairs(rows - 1 - self.query[::-1], cols - 1 - self.target[::-1])


def _offsets(lengths: Indices) -> Indices:
    """Where each of several consecutive runs begins, if the first one begins at 0."""
    return np.cumsum(lengths) - lengths


_NOTHING = np.zeros(0, np.int64)

#: No pairs: every letter may be paired with every other.
NO_PAIRS = ExcludedPairs(_NOTHING, _NOTHING)
