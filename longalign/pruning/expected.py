"""What a pruned sweep is expected to compute, estimated before the sweep."""

from __future__ import annotations

from collections.abc import Callable
from math import ceil

import numpy as np
from numpy.typing import NDArray

from longalign.model.alignment import letters_of_runs
from longalign.model.boundary import IntArray
from longalign.model.pruning import Pruning
from longalign.model.scoring import Scoring
from longalign.pruning.seeds import LowerBound
from longalign.pruning.segments import Places
from longalign.system.threads import in_threads

#: The most runs of an alignment beside which cells are estimated.
_MAX_RUNS = 1 << 14

#: Gains that a thread compares with the bound at a time.
_PIECE = 1 << 22


def expected_share(scoring: Scoring, pruning: Pruning, found: LowerBound, starts_anywhere: bool) -> float:
    """The share of the cells of a matrix, 0..1, that a sweep is expected to compute.

    `found` is an alignment of the two sequences whose score may be below the bound of `pruning`. Beside the
    alignment, cells are needed until a gap has cost so much that the bound is out of reach. If alignments may
    start anywhere, a cell is also needed if one that starts there can still reach the bound. Cells off the
    alignment that are needed because of repeats are not counted. Of many runs, only some are looked at.
    """
    down, right = letters_of_runs(found.ops, found.lengths)
    every = slice(None, None, max(1, ceil(len(down) / _MAX_RUNS)))
    # The first cell of each run.
    i, j = (
        (found.start[0] + np.cumsum(down) - down)[every],
        (found.start[1] + np.cumsum(right) - right)[every],
    )
    values = (np.cumsum(found.scores) - found.scores)[every]
    rows, cols = (len(side.most) - 1 for side in (pruning.query, pruning.target))

    def reaches_bound(below: Places, beside: Places) -> NDArray[np.bool_]:
        """Whether paths that leave the alignment before a run, by a gap, can still reach the bound.

        For each run, `below` is the length of a vertical gap and `beside` that of a horizontal one. A path
        that can reach the bound after a gap also can after a shorter one: each letter of a gap costs at least
        as much as it may raise the gain.
        """
        gain = pruning.gain(i + below, i + below, j + beside, j + beside)
        return values - scoring.gap_extend * (below + beside) + gain >= pruning.bound

    none = np.zeros_like(i)
    width = _last_true(lambda letters: reaches_bound(letters, none), rows - i)
    width += _last_true(lambda letters: reaches_bound(none, letters), cols - j)
    lengths = np.maximum(down, right)
    near = float((lengths[every] * width).sum()) * float(lengths.sum() / max(1, lengths[every].sum()))
    before = 0.0
    if starts_anywhere:
        first_rows, first_cols = (
            _count_from(side.most, pruning.bound) for side in (pruning.query, pruning.target)
        )
        before = float(first_rows) * float(first_cols)
    return min(1.0, (near + before) / (rows * cols))


def _count_from(gains: IntArray, bound: int) -> int:
    """How many gains reach the bound."""
    pieces = (gains[start : start + _PIECE] for start in range(0, len(gains), _PIECE))
    return sum(in_threads(lambda piece: int(np.count_nonzero(piece >= bound)), pieces))


def _last_true(holds: Callable[[Places], NDArray[np.bool_]], most: Places) -> Places:
    """The largest number from 0 to `most` for which a condition holds, for each element.

    The condition holds for all smaller numbers as well. 0 is not tried.
    """
    low, high = np.zeros_like(most), most
    while (low < high).any():
        middle = (low + high + 1) // 2
        is_true = holds(middle)
        low, high = np.where(is_true, middle, low), np.where(is_true, high, middle - 1)
    return low
