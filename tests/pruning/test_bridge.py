"""Bridges lead across their rectangles, lose what they say, and are not better than the best path."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import parasail_score
from related_pairs import related_pairs

from longalign.model.mode import GLOBAL
from longalign.model.scoring import Scoring
from longalign.pruning.bridge import BRIDGE, bridges, extension
from longalign.pruning.run_scores import scores_of_runs
from longalign.testing.inputs import SCORINGS

WHOLE_SCORES = st.sampled_from([*SCORINGS, Scoring(ambiguous="zero")])


def bridge_of(query, target, scoring):
    """The lengths of the runs across the whole matrix, and the loss."""
    found = bridges(query, target, scoring, np.array([[0, len(query), 0, len(target)]]))
    return found.lengths[0], int(found.loss[0])


def most_of(rows, cols, scoring):
    """The score of matches and one gap."""
    apart = abs(rows - cols)
    return scoring.highest * min(rows, cols) - (scoring.gap_open + scoring.gap_extend * apart if apart else 0)


@given(related_pairs(120), WHOLE_SCORES)
def test_a_bridge_loses_what_it_says(pair, scoring):
    query, target = pair
    lengths, loss = bridge_of(query, target, scoring)
    assert (lengths >= 0).all()
    assert lengths[[0, 1, 3]].sum() == len(query)
    assert lengths[[0, 2, 3]].sum() == len(target)
    runs = BRIDGE[lengths > 0], lengths[lengths > 0]
    score = int(scores_of_runs(query, target, scoring, (0, 0), *runs).sum())
    assert score == most_of(len(query), len(target), scoring) - loss
    if min(len(query), len(target)) > 0:
        assert score <= parasail_score(query, target, scoring, GLOBAL)


@given(related_pairs(40), WHOLE_SCORES)
def test_no_way_with_one_gap_is_better(pair, scoring):
    query, target = pair
    rows, cols = len(query), len(target)
    least = min(rows, cols)
    splits = []
    for split in range(least + 1):
        lengths = np.array([split, rows - least, cols - least, least - split])
        runs = BRIDGE[lengths > 0], lengths[lengths > 0]
        splits.append(int(scores_of_runs(query, target, scoring, (0, 0), *runs).sum()))
    loss = bridge_of(query, target, scoring)[1]
    assert most_of(rows, cols, scoring) - loss >= max(splits)


def test_a_rectangle_with_two_good_ends_gets_two_gaps():
    rng = np.random.default_rng(0)
    first, last, *middle = (rng.integers(0, 4, length, np.uint8) for length in (30, 40, 25, 35))
    query, target = (np.concatenate([first, part, last]) for part in middle)
    lengths, _ = bridge_of(query, target, Scoring(1, -9, 1, 1))
    assert lengths[0] >= 30
    assert lengths[3] >= 40
    assert (lengths[1:3] > 0).all()


@pytest.mark.parametrize(
    ("step", "start", "length"), [(1, (10, 12), 30), (1, (40, 42), 0), (-1, (40, 42), 30), (-1, (10, 12), 0)]
)
def test_an_extension_ends_with_its_best_score(step, start, length):
    """The letters 10 to 40 of the query are those of the target, two places further on; all others differ."""
    common = np.random.default_rng(1).integers(0, 4, 100, np.uint8)
    query, target = 3 - common, np.concatenate([common[:2], common])
    query[10:40] = common[10:40]
    assert extension(query, target, Scoring(), start, step) == length
