"""Milestones are cells of an alignment with its score up to there."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.model.alignment import Op
from longalign.model.scoring import Scoring
from longalign.pruning.milestones import milestones
from longalign.pruning.seeds import LowerBound
from longalign.testing.inputs import SCORINGS

OPS = st.sampled_from([Op.DIAGONAL, Op.INSERTION, Op.DELETION])
RUNS = st.lists(st.tuples(OPS, st.integers(1, 30)), max_size=12)
PLAIN_SCORINGS = st.sampled_from([one for one in SCORINGS if one.matrix is None])


def cells_of(query, target, scoring, found):
    """Each cell of an alignment in which a letter pair begins, with the score up to there."""
    (i, j), score, cells = found.start, 0, {}
    for op, length in zip(found.ops.tolist(), found.lengths.tolist(), strict=True):
        score -= scoring.gap_open if op != Op.DIAGONAL else 0
        for _ in range(length):
            if op == Op.DIAGONAL:
                cells[i, j] = score
                score += scoring.match if query[i] == target[j] else scoring.mismatch
            else:
                score -= scoring.gap_extend
            i, j = i + (op != Op.DELETION), j + (op != Op.INSERTION)
    return cells


@pytest.mark.parametrize("most", [1, 3, 1 << 12])
@given(RUNS, PLAIN_SCORINGS, st.integers(0, 5), st.integers(0, 99))
def test_each_is_a_cell_of_the_alignment_with_its_score(most, runs, scoring, start, seed):
    runs = [(Op.DIAGONAL, 1), *(run for k, run in enumerate(runs) if k == 0 or run[0] != runs[k - 1][0])]
    if len(runs) > 1 and runs[1][0] == Op.DIAGONAL:
        runs = runs[1:]
    ops, lengths = (np.array(column) for column in zip(*runs, strict=True))
    ops = ops.astype(np.uint8)
    rng, size = np.random.default_rng(seed), start + int(lengths.sum())
    query, target = (rng.integers(0, 4, size, np.uint8) for _ in range(2))
    found = LowerBound((start, start), ops, lengths, scores=0 * lengths)
    cells = milestones(query, target, scoring, found, most)
    expected = cells_of(query, target, scoring, found)
    rows, pairs = (int(lengths[np.isin(ops, of)].sum()) for of in ((Op.DIAGONAL, Op.INSERTION), Op.DIAGONAL))
    assert 1 <= len(cells) <= 2 + most * rows / pairs
    assert all(expected[i, j] == value for i, j, value in cells.tolist())
    assert (np.diff(cells[:, 0]) > 0).all()
    assert (np.diff(cells[:, 1]) > 0).all()
    if most == 1 << 12:
        assert len(cells) == len(expected)


def test_they_are_spread_along_a_long_run():
    query = np.random.default_rng(1).integers(0, 4, 100_000, np.uint8)
    found = LowerBound((0, 0), np.array([Op.DIAGONAL], np.uint8), np.array([100_000]), np.array([100_000]))
    cells = milestones(query, query, Scoring(), found)
    assert 2_000 < len(cells) <= 4_097
    assert np.diff(cells[:, 0]).max() <= 50
    assert (cells[:, 2] == cells[:, 0]).all()
