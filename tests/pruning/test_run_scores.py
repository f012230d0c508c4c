"""Scores of runs, and how many runs are scored in one call."""

from __future__ import annotations

import numpy as np
import pytest

from longalign.model.alignment import Op
from longalign.model.scoring import Scoring
from longalign.pruning import run_scores


@pytest.mark.parametrize("letters_a_call", [1, 3, 1 << 20])
def test_each_run_is_scored_by_its_letters(letters_a_call, monkeypatch):
    monkeypatch.setattr(run_scores, "_LETTERS_A_CALL", letters_a_call)
    query, target = (np.array(codes, np.uint8) for codes in ([3, 0, 0, 1, 2, 2], [0, 0, 1, 1, 1, 2, 3, 3]))
    ops = np.array([Op.DIAGONAL, Op.DELETION, Op.DIAGONAL, Op.INSERTION], np.uint8)
    lengths = np.array([3, 2, 1, 1])
    scores = run_scores.scores_of_runs(query, target, Scoring(1, -3, 5, 2), (1, 0), ops, lengths)
    assert scores.tolist() == [3, -9, 1, -7]


@pytest.mark.parametrize("letters_a_call", [1, 1 << 20])
@pytest.mark.parametrize("lengths", [[4, 1], [1, 4]])
def test_runs_that_leave_the_matrix_are_refused(letters_a_call, lengths, monkeypatch):
    monkeypatch.setattr(run_scores, "_LETTERS_A_CALL", letters_a_call)
    letters, ops = np.zeros(3, np.uint8), np.array([Op.DIAGONAL, Op.DELETION], np.uint8)
    with pytest.raises(ValueError, match="leave the matrix"):
        run_scores.scores_of_runs(letters, letters, Scoring(), (0, 0), ops, np.array(lengths))


def test_no_runs_have_no_scores():
    nothing = np.empty(0, np.uint8)
    assert (
        len(run_scores.scores_of_runs(nothing, nothing, Scoring(), (0, 0), nothing, np.empty(0, np.int64)))
        == 0
    )
