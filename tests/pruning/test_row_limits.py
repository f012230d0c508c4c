"""Row limits: never below what a path gains in truth, and close to it where the bound by words is not."""

from __future__ import annotations

from contextlib import contextmanager
from itertools import combinations, pairwise
from unittest import mock

import numpy as np
import pytest
from examples import share_of_examples
from hypothesis import given
from hypothesis import strategies as st
from related_pairs import related_pairs

from longalign.backends.cpu import CpuBackend, placed_words
from longalign.model.mode import FIT, LOCAL, MODES
from longalign.model.pruning import SPACING, Findings
from longalign.model.scoring import Scoring
from longalign.pruning import band_sweep, budget, row_limits, seeds
from longalign.pruning.gains import gains
from longalign.pruning.row_limits import Sections
from longalign.pruning.seeds import lower_bound
from longalign.testing.gains import true_gains
from longalign.testing.inputs import QUERY_N, SCORINGS, TARGET_N
from longalign.testing.reference import ReferenceBackend

CPU = CpuBackend(2)


@contextmanager
def short(letters, longest=1 << 23):
    """Small numbers for short sequences: units of about `letters` letters, and stages of a third of that.

    A unit that is not swept counts as much as a section of `longest` letters. A bound may take a second.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(band_sweep, "_ROWS", letters // 3)
        patch.setattr(row_limits, "_UNIT", letters)
        patch.setattr(row_limits, "_LONGEST", longest)
        patch.setattr(row_limits, "_PLACES", letters)
        patch.setattr(budget, "_SECONDS", 1.0)
        patch.setattr(seeds, "word_length", lambda *_: 10)
        yield


def sections_of(query, target, scoring, mode, backend=CPU):
    """The alignment of the seeds, and the sections beside it; None without an alignment."""
    found = lower_bound(query, target, scoring, mode, backend)
    return None if found is None else (found, Sections(query, target, scoring, mode, found))


@pytest.mark.parametrize("backend", [CPU, ReferenceBackend()], ids=["cpu", "reference"])
@given(
    related_pairs(200),
    st.sampled_from(SCORINGS),
    st.sampled_from([LOCAL, FIT, *MODES.values()]),
    st.sampled_from([8, 24, 60]),
    st.integers(4, 9),
)
@share_of_examples(4)
def test_no_path_gains_more_than_a_limit(backend, pair, scoring, mode, letters, word):
    with short(letters), mock.patch.object(placed_words, "word_letters", return_value=word):
        found = sections_of(*pair, scoring, mode, backend)
        if found is None:
            return
        limits = found[1].limits(np.inf, backend)
    in_h, _, _ = true_gains(*pair, scoring, mode.ends)
    for row, most in limits.tolist():
        assert row % SPACING == 0
        assert max(in_h[row]) <= most, row
    assert (np.diff(limits[:, 0]) > 0).all()


def with_trouble(rng):
    """A query of 24,000 letters, and a target with other letters, more letters and N in several places."""
    query = rng.integers(0, 4, 24_000, np.uint8)
    target = query.copy()
    target[::90] = (target[::90] + 1) % 4
    target[5_000:5_200], query[15_000:15_200] = TARGET_N, QUERY_N
    more = rng.integers(0, 4, 300, np.uint8)
    return query, np.concatenate([target[:9_000], more, target[9_000:20_000], target[20_300:]])


@pytest.mark.parametrize("mode", [LOCAL, FIT], ids=str)
def test_they_are_close_where_the_bound_by_words_is_not(mode):
    query, target = with_trouble(np.random.default_rng(1))
    with short(4_000):
        found, sections = sections_of(query, target, Scoring(), mode)
        limits = sections.limits(np.inf, CPU)
    assert len(limits) == 6
    by_words = gains(query, target, Scoring(), findings=Findings(found.anchors()), ends=mode.ends).query
    assert by_words.most[0] - found.score > 800
    # What words miss in the first section, and alpha for each of the others.
    assert sections.gains(limits).most[0] - found.score < 300


def with_more(rng):
    """A query of 40,900 letters, of which the target lacks 900 in the middle."""
    target, more = rng.integers(0, 4, 40_000, np.uint8), rng.integers(0, 4, 900, np.uint8)
    return np.concatenate([target[:30_000], more, target[30_000:]]), target


def lengths_of(longest=1 << 23):
    """The first rows and the lengths of the sections of `with_more`, and the limits of these rows."""
    query, target = with_more(np.random.default_rng(2))
    with short(2_000, longest):
        _, sections = sections_of(query, target, Scoring(), LOCAL)
        limits = sections.limits(np.inf, CPU)
    rows = limits[:, 0]
    return rows, np.diff([*rows.tolist(), len(query)]), limits[:, 1]


def test_paths_far_from_the_seeds_make_sections_longer():
    """Around letters that only the query has, a path that uses other letters of the target loses less."""
    rows, lengths, _ = lengths_of()
    around = np.searchsorted(rows, 30_450, "right") - 1
    assert lengths[around] > 4_000
    assert np.median(lengths) < 2_100


def test_a_unit_that_takes_too_long_is_left_to_the_bound_by_words():
    longer, _, close = lengths_of()
    rows, lengths, limits = lengths_of(longest=2_000)
    around = np.searchsorted(rows, 30_450, "right") - 1
    assert lengths.max() < 4_000
    # Its own letters gain more by that bound than in truth, but no others do.
    assert 1_000 < limits[0] - close[longer == rows[0]] < 4_000
    assert limits[around + 1] < 40_900 - 30_450


@pytest.mark.parametrize("letters", [1_000, 60])
@pytest.mark.parametrize("mode", [LOCAL, FIT], ids=str)
def test_letters_that_score_almost_too_much(mode, letters):
    """All letters of the query together would score more than 32 bits hold. The target has fewer."""
    rng = np.random.default_rng(4)
    target = rng.integers(0, 4, 120, np.uint8)
    query = np.concatenate([target[:60], rng.integers(0, 4, 300, np.uint8), target[60:]])
    scoring = Scoring(1 << 23, -(1 << 23), 1 << 22, 1 << 12)
    with short(letters), mock.patch.object(band_sweep, "_ROWS", 1_000):
        _, sections = sections_of(query, target, scoring, mode)
        limits = sections.limits(np.inf, CPU)
    in_h, _, _ = true_gains(query, target, scoring, mode.ends)
    assert len(limits) > 0
    assert all(max(in_h[row]) <= most <= scoring.match * len(target) for row, most in limits.tolist())


def test_the_query_is_not_cut_near_a_long_gap():
    """Otherwise a path in the section above ends before the gap, or one in that below begins behind it."""
    rng = np.random.default_rng(3)
    query, more = rng.integers(0, 4, 12_000, np.uint8), rng.integers(0, 4, 300, np.uint8)
    target = np.concatenate([query[:4_030], more, query[4_030:7_930], more, query[7_930:]])
    with short(4_000):
        found, sections = sections_of(query, target, Scoring(), LOCAL)
        limits = sections.limits(np.inf, CPU)
    assert len(limits) > 2
    assert sections.gains(limits).most[0] - found.score < 100


@given(
    st.lists(st.tuples(st.integers(1, 30), st.integers(-9, 9)), min_size=1, max_size=9), st.integers(1, 90)
)
def test_units_are_joined_at_the_least_cost(units, longest):
    """All ways to join a few units are tried."""
    rows, surplus = np.array(units).T
    cuts = np.insert(np.cumsum(rows), 0, 0)

    def cost(first, last):
        own = [(cuts[last] - cuts[first]) ** 2] if surplus[first:last].sum() > 0 else []
        return min(own + [longest**2] * (last - first == 1), default=np.inf)

    def total(places):
        return sum(cost(*ends) for ends in pairwise(places))

    inner = range(1, len(units))
    ways = ([0, *places, len(units)] for count in range(len(units)) for places in combinations(inner, count))
    with mock.patch.object(row_limits, "_LONGEST", longest):
        found = row_limits.joined(cuts, surplus)
    assert [last for _, last in found[:-1]] == [first for first, _ in found[1:]]
    assert (found[0][0], found[-1][1]) == (0, len(units))
    assert sum(cost(*ends) for ends in found) == min(map(total, ways))


@pytest.mark.parametrize(
    ("scoring", "max_cells"),
    [(Scoring(), 1), (Scoring(1, -3, 3, 0), np.inf)],
    ids=["they would cost too much", "a longer gap costs no more"],
)
def test_there_are_none_if(scoring, max_cells):
    query, target = with_trouble(np.random.default_rng(1))
    with short(4_000):
        _, sections = sections_of(query, target, scoring, LOCAL)
        assert len(sections.limits(max_cells, CPU)) == 0
