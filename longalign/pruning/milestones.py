"""Milestones: cells of an alignment, with the score up to there, from which sweeps can begin."""

from __future__ import annotations

import numpy as np

from longalign.model.alignment import Op, letters_of_runs
from longalign.model.alphabet import Codes
from longalign.model.pruning import Milestones
from longalign.model.scoring import Scoring
from longalign.pruning.run_scores import scores_of_runs
from longalign.pruning.seeds import LowerBound

#: About how many milestones an alignment has, unless another number is asked for.
_MILESTONES = 1 << 12


def milestones(
    query: Codes, target: Codes, scoring: Scoring, found: LowerBound, count: int = _MILESTONES
) -> Milestones:
    """Cells of an alignment where letter pairs begin, evenly along its rows: about `count`, at least one."""
    is_pair = found.ops == Op.DIAGONAL
    spacing = 1 + int(found.lengths[is_pair].sum()) // count
    pieces = np.where(is_pair, -(-found.lengths // spacing), 1)
    last = np.cumsum(pieces) - 1
    ops, lengths = np.repeat(found.ops, pieces), np.repeat(np.where(is_pair, spacing, found.lengths), pieces)
    lengths[last] = found.lengths - (pieces - 1) * lengths[last]
    scores = scores_of_runs(query, target, scoring, found.start, ops, lengths)
    down, right = letters_of_runs(ops, lengths)
    after = np.stack([np.cumsum(down), np.cumsum(right), np.cumsum(scores)], axis=1)
    before = np.insert(after[:-1], 0, 0, axis=0) + np.array([*found.start, 0])
    cells: Milestones = before[ops == Op.DIAGONAL]
    _, first = np.unique(cells[:, 0] // spacing, return_index=True)
    return cells[first]
