"""What a pruned sweep is expected to compute, estimated before the sweep."""

from __future__ import annotations

import numpy as np

from longalign.model.alignment import uses_query, uses_target
from longalign.model.pruning import Pruning
from longalign.model.scoring import Scoring
from longalign.pruning.seeds import LowerBound


def expected_share(scoring: Scoring, pruning: Pruning, found: LowerBound, starts_anywhere: bool) -> float:
    """The share of the cells of a matrix, 0..1, that a sweep is expected to compute.

    `found` is an alignment of the two sequences whose score may be below the bound of `pruning`. The *slack*
    of one of its cells is the score so far, plus what can still be gained, minus the bound. Beside the
    alignment, cells are needed until a gap has consumed the slack. Each letter of the gap costs `gap_extend`,
    and one letter less is left to gain from. Where gap letters are free and matches gain nothing, no cell can
    be left out. If alignments may start anywhere, a cell is also needed if one that starts there can still
    reach the bound. Cells off the alignment that are needed because of repeats are not counted.
    """
    loss = scoring.gap_extend + scoring.highest
    if loss == 0:
        return 1.0
    down, right = (np.where(uses(found.ops), found.lengths, 0) for uses in (uses_query, uses_target))
    i, j = found.start[0] + np.cumsum(down), found.start[1] + np.cumsum(right)
    values = np.cumsum(found.scores)
    slack = values + np.minimum(pruning.query_gain[i], pruning.target_gain[j]) - pruning.bound
    width = 2 * np.maximum(slack, 0) / loss
    sides = pruning.query_gain, pruning.target_gain
    rows, cols = (len(gains) - 1 for gains in sides)
    near = float((np.maximum(down, right) * np.minimum(width, cols)).sum())
    first_rows, first_cols = (np.count_nonzero(gains >= pruning.bound) for gains in sides)
    before = float(first_rows) * float(first_cols) if starts_anywhere else 0.0
    return min(1.0, (near + before) / (rows * cols))
