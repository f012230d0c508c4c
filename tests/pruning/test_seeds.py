"""The lower bound: the score of a real alignment, never above the best, close to it for similar sequences."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from oracles import biopython_score, parasail_score, spell
from related_pairs import mutated_copy, related_pairs

from longalign.backends.cpu import CpuBackend
from longalign.model.alignment import Alignment
from longalign.model.mode import GLOBAL, LOCAL, MODES
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.pruning import budget, halving, seeds
from longalign.pruning.seeds import LowerBound, lower_bound
from longalign.testing.inputs import SCORINGS
from longalign.testing.reference import ReferenceBackend

CPU = CpuBackend(2)

#: The score of every letter pair is whole, so that parasail knows these scorings.
RULES = [*SCORINGS, Scoring(ambiguous="zero")]


@pytest.fixture(autouse=True)
def _patience():
    """Whatever the lengths, a bound may take a second."""
    with mock.patch.object(budget, "_SECONDS", 1.0):
        yield


def check(found: LowerBound, query, target, scoring, mode) -> None:
    """The runs are an alignment of the mode, and worth the score."""
    check_letters(found, *(letters_of(codes, scoring) for codes in (query, target)), scoring, mode)


def letters_of(codes, scoring):
    return Sequence.from_letters("s", spell(codes), alphabet=scoring.alphabet)


def check_letters(found: LowerBound, query, target, scoring, mode) -> None:
    score = scoring.unscaled(found.score)
    alignment = Alignment.from_runs(
        query, target, scoring, mode, score, found.start, found.ops, found.lengths
    )
    alignment.check()


@given(related_pairs(500), st.sampled_from(SCORINGS), st.sampled_from([*MODES.values()]))
def test_a_bound_is_the_score_of_an_alignment_and_never_above_the_best(pair, scoring, mode):
    found = lower_bound(*pair, scoring, mode, CPU)
    if found is not None:
        check(found, *pair, scoring, mode)
        assert found.score <= parasail_score(*pair, scoring, mode)


#: A pair for which seeds find a bound with any scoring and mode: most of the drawn pairs are too short.
SIMILAR = mutated_copy(500, 0.02, 7)

#: A pair that is similar at both ends, with 100 letters between that are not.
UNLIKE_INSIDE = tuple(
    np.concatenate([codes[:250], np.random.default_rng(side).integers(0, 4, 100, np.uint8), codes[250:]])
    for side, codes in enumerate(mutated_copy(500, 0.01, 7))
)


@pytest.mark.parametrize("rule", ["zero", "average"])
@given(related_pairs(300))
@example(SIMILAR)
def test_ambiguous_letters_that_score_otherwise(rule, pair):
    scoring = Scoring(ambiguous=rule)
    query, target = (letters_of(codes, scoring) for codes in pair)
    found = lower_bound(query.as_query(), target.as_target(), scoring, LOCAL, CPU)
    assert found is not None or pair is not SIMILAR
    if found is not None:
        check_letters(found, query, target, scoring, LOCAL)


#: Matrices of nucleotides, in different orders. No pair of the last one scores more than 0.
MATRICES = {
    "lastz": Scoring(preset="lastz", unknown="mismatch"),
    "NUC.4.4": Scoring(matrix=SubstitutionMatrix.load("NUC.4.4"), gap_open=10, gap_extend=1),
    "costs": Scoring(
        matrix=SubstitutionMatrix(
            "costs", "GATC", ((0, -1, -3, -4), (-1, 0, -4, -2), (-3, -2, 0, -1), (-5, -3, -1, 0))
        ),
        gap_open=1,
        gap_extend=2,
        unknown="mismatch",
    ),
}


@pytest.mark.parametrize("scoring", MATRICES.values(), ids=MATRICES.keys())
@given(related_pairs(500), st.sampled_from([*MODES.values()]))
@example(SIMILAR, GLOBAL)
def test_a_matrix_of_nucleotides(scoring, pair, mode):
    query, target = (letters_of(codes, scoring) for codes in pair)
    codes = query.as_query(), target.as_target()
    found = lower_bound(*codes, scoring, mode, CPU)
    assert found is not None or pair is not SIMILAR
    if found is not None:
        check_letters(found, query, target, scoring, mode)


@pytest.mark.parametrize("scoring", MATRICES.values(), ids=MATRICES.keys())
def test_the_bound_by_a_matrix_is_close_to_the_best(scoring):
    query, target = (letters_of(codes, scoring) for codes in mutated_copy(3_000, 0.01, 3))
    codes = query.as_query(), target.as_target()
    found, best = lower_bound(*codes, scoring, GLOBAL, CPU), biopython_score(*codes, scoring, GLOBAL)
    assert found is not None
    assert best - 0.002 * 3_000 * max(1, scoring.highest) <= found.score <= best


@given(related_pairs(200), st.sampled_from(SCORINGS), st.sampled_from([*MODES.values()]))
@example(UNLIKE_INSIDE, Scoring(), GLOBAL)
def test_large_rectangles_are_cut_until_the_back_end_can_trace_them(pair, scoring, mode):
    """The reference implementation traces rectangles of 64 x 64 letters."""
    with (
        mock.patch.object(budget, "_CALL", 0.0),
        mock.patch.object(halving, "_halves", side_effect=halving._halves) as cut,
    ):
        found = lower_bound(*pair, scoring, mode, ReferenceBackend())
    assert (found is not None and cut.called) or pair is not UNLIKE_INSIDE
    if found is not None:
        check(found, *pair, scoring, mode)
        assert found.score <= parasail_score(*pair, scoring, mode)


@given(related_pairs(500), st.sampled_from([*MODES.values()]))
@example(SIMILAR, GLOBAL)
def test_with_hardly_any_time_rectangles_are_bridged(pair, mode):
    with mock.patch.object(budget, "_SECONDS", 1e-4):
        found = lower_bound(*pair, Scoring(), mode, CPU)
    assert found is not None or pair is not SIMILAR
    if found is not None:
        check(found, *pair, Scoring(), mode)
        assert found.score <= parasail_score(*pair, Scoring(), mode)


@pytest.mark.parametrize("mode", MODES.values(), ids=str)
@pytest.mark.parametrize("letters", [500, 5_000])
def test_it_is_close_to_the_best_of_similar_sequences(mode, letters):
    query, target = mutated_copy(letters, 0.01, letters)
    found = lower_bound(query, target, Scoring(), mode, CPU)
    assert found is not None
    assert 0.998 * parasail_score(query, target, Scoring(), mode) <= found.score


def test_large_insertions_and_a_start_inside():
    rng = np.random.default_rng(5)
    query = rng.integers(0, 4, 12_000, np.uint8)
    island = rng.integers(0, 4, 1_500, np.uint8)
    target = np.concatenate([island, query[2_000:6_000], island[::-1], query[6_500:]])
    found = lower_bound(query, target, Scoring(), LOCAL, CPU)
    best = parasail_score(query, target, Scoring(), LOCAL)
    assert found is not None
    assert 0.999 * best <= found.score <= best


@pytest.mark.parametrize("mode", [LOCAL, GLOBAL], ids=str)
@pytest.mark.parametrize(
    "lengths", [(0, 0), (0, 1), (1, 0), (1, 1), (5, 3000), (1000, 1000), (50_000, 40_000)]
)
def test_random_sequences_have_no_bound(lengths, mode):
    rng = np.random.default_rng(7)
    query, target = (rng.integers(0, 4, length, np.uint8) for length in lengths)
    assert lower_bound(query, target, Scoring(), mode, CPU) is None


def test_proteins_have_no_bound():
    codes = np.random.default_rng(1).integers(0, 20, 2_000, np.uint8)
    scoring = Scoring(matrix=SubstitutionMatrix.load("BLOSUM62"), gap_open=10, gap_extend=1)
    assert lower_bound(codes, codes, scoring, LOCAL, CPU) is None


@pytest.mark.parametrize("lengths", [(0, 0), (0, 500), (500, 0)], ids=str)
def test_an_empty_sequence_has_no_bound(lengths):
    query, target = (np.zeros(length, np.uint8) for length in lengths)
    never = None  # no back end is asked for anything
    assert lower_bound(query, target, Scoring(), MODES["local"], never) is None


def test_a_repeat_has_no_unique_words():
    codes = np.resize(np.array([0, 1, 2], np.uint8), 3_000)
    assert lower_bound(codes, codes.copy(), Scoring(), LOCAL, CPU) is None


@pytest.mark.parametrize(
    ("differences", "share", "affordable"), [(0.01, 0.0, False), (0.01, 100.0, True), (0.15, 100.0, False)]
)
def test_the_time_is_a_small_share_of_a_sweep(differences, share, affordable):
    query, target = mutated_copy(20_000, differences, 3)
    with mock.patch.multiple(budget, _SECONDS=1e-9, _SHARE=0.0, _SHARE_OF_RELATED=share):
        found = lower_bound(query, target, Scoring(), LOCAL, CPU)
    assert (found is not None) == affordable
    assert lower_bound(query, target, Scoring(), LOCAL, CPU) is not None


def test_a_short_query_is_not_taken_for_related_by_a_few_words():
    rng = np.random.default_rng(6)
    target = rng.integers(0, 4, 400_000, np.uint8)
    for length, related in ((400_000, True), (200_000, True), (150, False)):
        assert seeds._are_related(target[:length], target, 25) == related


@pytest.mark.parametrize("related", [True, False])
def test_that_sequences_are_related_is_noted_once_and_as_early_as_it_is_known(related):
    order = mock.Mock(find_segments=mock.Mock(wraps=seeds.find_segments))
    query, target = mutated_copy(40_000, 0.05, 9)
    with (
        mock.patch.object(seeds, "find_segments", order.find_segments),
        mock.patch.object(seeds, "_are_related", return_value=related),
    ):
        assert lower_bound(query, target, Scoring(), LOCAL, CPU, note_related=order.note) is not None
    calls = [name for name, *_ in order.mock_calls]
    assert calls.count("note") == 1
    assert (calls.index("note") < calls.index("find_segments")) == related


def test_more_time_than_for_others_goes_to_related_sequences():
    usual, larger = (
        budget.TimeBudget.of(10**6, 10**6, Scoring(), True, CPU, related=related) for related in (False, True)
    )
    assert larger.seconds > 2 * usual.seconds
    assert larger.seconds_a_cell == usual.seconds_a_cell


def test_a_rectangle_with_many_cells_is_large_and_one_that_cannot_be_traced():
    asked = []

    class Tracing(CpuBackend):
        def can_trace(self, rows, cols, detour=None):
            asked.append((rows, cols))
            return rows + cols < 70_000

    sides = [(1024, 1024), (1025, 1024), (70_000, 1), (1, 70_000), (70_000, 0), (1024, 1024)]
    rectangles = np.array([[5, 5 + rows, 7, 7 + cols] for rows, cols in sides])
    assert halving.are_large(rectangles, Tracing()).tolist() == [False, True, True, True, False, False]
    assert sorted(asked) == [(1, 70_000), (1024, 1024), (70_000, 1)]
    assert halving.are_large(rectangles[:0], Tracing()).tolist() == []


def test_rectangles_are_affordable_if_the_slowest_and_all_together_are():
    class Slow(CpuBackend):
        def sweep_seconds(self, rows, cols, scoring, local):
            return 1e-3 * max(rows, cols) + 1e-6 * rows * cols

    sides = np.array([[9, 9], [4, 3], [1, 48], [6, 6]])
    rectangles = np.stack([0 * sides[:, 0], sides[:, 0], 0 * sides[:, 1], sides[:, 1]], axis=1)

    def chosen(seconds):
        limits = budget.TimeBudget(2 * seconds, 1e-4)  # half of it is for sweeps
        return limits.affordable_sweeps(rectangles, Scoring(), Slow()).tolist()

    with mock.patch.object(budget, "_CALL", 0.0):
        assert chosen(7.9e-3) == [False] * 4
        assert chosen(8.1e-3) == [False, True, False, False]  # 2 * (4e-3 + 12e-6) alone, 2.4e-3 together
        assert chosen(1.21e-2) == [False, True, False, True]  # 2.4e-3 + 7.2e-3 together
        assert chosen(1.9e-2) == [False, True, False, True]  # the first one alone is affordable now
        assert chosen(2.6e-2) == [True, True, False, True]  # 2.4e-3 + 7.2e-3 + 16.2e-3 together
        assert chosen(9.7e-2) == [True] * 4


def test_threads_change_nothing():
    query, target = mutated_copy(30_000, 0.03, 11)
    found = [lower_bound(query, target, Scoring(), LOCAL, CpuBackend(threads)) for threads in (1, 2, 3)]
    first = found[0]
    assert first is not None
    for other in found[1:]:
        assert other is not None
        assert (other.score, other.start) == (first.score, first.start)
        assert np.array_equal(other.ops, first.ops)
        assert np.array_equal(other.lengths, first.lengths)


def test_read_only_codes_and_parts_of_arrays():
    query, target = mutated_copy(5_000, 0.01, 2)
    query.setflags(write=False)
    assert lower_bound(query, target, Scoring(), LOCAL, CPU) is not None
    assert lower_bound(query[::1][100:], target[::2], Scoring(), GLOBAL, CPU) is None


def test_progress_receives_cells_and_may_stop_the_work():
    query, target = mutated_copy(20_000, 0.02, 4)
    cells: list[int] = []
    assert lower_bound(query, target, Scoring(), LOCAL, CPU, cells.append) is not None
    assert sum(cells) > 0

    def stop(done: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        lower_bound(query, target, Scoring(), LOCAL, CPU, stop)
