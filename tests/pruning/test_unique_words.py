"""Words that occur once in each sequence, and the segments that they are joined to."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from related_pairs import related_pairs

from longalign.backends.substitution_tables import PITCH, table_of
from longalign.model.scoring import Scoring
from longalign.pruning.segments import find_segments
from longalign.pruning.unique_words import PLACE_BITS, common_unique_words, word_length
from longalign.testing.inputs import SCORINGS, matrix_of


def plain_places(query, target, k):
    """The places of words that are unique in both sequences, by place in the query."""
    words = [[bytes(s[p : p + k]) for p in range(len(s) - k + 1)] for s in (query, target)]
    counts = [Counter(w for w in of if max(w) < 4) for of in words]
    unique = {w for w in counts[0] if counts[0][w] == 1 == counts[1][w]}
    places = {w: p for p, w in enumerate(words[1])}
    return [(p, places[w]) for p, w in enumerate(words[0]) if w in unique]


def found_places(query, target, k, most):
    words = common_unique_words(query, target, k, most)
    rows = (words & np.uint64((1 << PLACE_BITS) - 1)).astype(np.int64)
    diagonals = (words >> np.uint64(PLACE_BITS)).astype(np.int64) - len(query)
    return sorted(zip(rows.tolist(), (rows + diagonals).tolist(), strict=True))


@given(related_pairs(300), st.sampled_from([7, 11, 31]))
def test_all_unique_words_are_found(pair, k):
    assert found_places(*pair, k, 1 << 20) == plain_places(*pair, k)


@given(related_pairs(300))
def test_a_sample_holds_some_of_them(pair):
    found = found_places(*pair, 11, 100)
    assert set(found) <= set(plain_places(*pair, 11))


def test_about_as_many_as_asked_for_are_sampled():
    codes = np.random.default_rng(0).integers(0, 4, 100_000, np.uint8)
    assert 9_000 < len(found_places(codes, codes, 21, 10_000)) < 11_000


ANY_MATRIX = Scoring(
    matrix=matrix_of([[5, -2, 1, -3], [0, 4, -1, -2], [-3, -1, 6, 0], [-2, 2, -4, 3]]),
    gap_open=3,
    gap_extend=1,
)


@given(related_pairs(400), st.sampled_from([*SCORINGS, ANY_MATRIX]), st.sampled_from([7, 11]))
def test_segments_are_stretches_of_diagonals_with_their_scores(pair, scoring, k):
    query, target = pair
    found = find_segments(query, target, scoring, k)
    assert (np.diff(found.row) >= 0).all()
    ends: dict[int, int] = {}
    for row, col, length, score in zip(*(column.tolist() for column in found), strict=True):
        pairs = query[row : row + length] == target[col : col + length]
        assert length >= k
        assert pairs[:k].all()
        assert pairs[-k:].all()
        cells = query[row : row + length] * PITCH + target[col : col + length].astype(int)
        assert score == table_of(scoring)[cells].sum()
        assert ends.get(col - row, -1) <= row
        ends[col - row] = row + length
    places = {p for p, _ in plain_places(query, target, k)}
    assert len(found.row) <= len(places)
    assert (len(found.row) > 0) == (len(places) > 0)


@pytest.mark.parametrize(("scoring", "lost"), [(Scoring(), 4 * 2), (ANY_MATRIX, 6 + 9)])
def test_words_are_joined_across_mismatches(scoring, lost):
    """C becomes T, and G becomes A."""
    query = np.random.default_rng(1).integers(0, 4, 400, np.uint8)
    query[[100, 220]] = 1, 2
    target = query.copy()
    target[[100, 220]] = 3, 0
    [segment] = zip(*find_segments(query, target, scoring, 11), strict=True)
    equal = int(table_of(scoring)[query * PITCH + query.astype(int)].sum())
    assert segment == (0, 0, 400, equal - lost)


@pytest.mark.parametrize(
    ("rows", "cols"), [(0, 0), (1, 1), (100, 100), (21_629_098, 21_617_869), (1 << 30,) * 2]
)
def test_words_are_odd_and_long_enough(rows, cols):
    k = word_length(rows, cols)
    assert k % 2 == 1
    assert 4**k >= min(rows * cols, 4**31)


def test_a_long_run_of_one_letter_does_not_overflow():
    codes = np.zeros(50_000, np.uint8)
    assert found_places(codes, codes, 11, 10) == []
    assert len(find_segments(codes, codes, Scoring(), 11).row) == 0
