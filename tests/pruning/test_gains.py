"""The bound of what a path can still gain, compared with what it gains at best, and with its definition."""

from __future__ import annotations

from contextlib import contextmanager

import numpy as np
import pytest
from examples import share_of_examples
from hypothesis import assume, example, given
from hypothesis import strategies as st

from longalign.backends.cpu import absent_words, gain_sums, placed_words
from longalign.backends.cpu.gain_sums import Moves, PathEnd, sum_gains
from longalign.model.mode import GLOBAL, LOCAL, MODES
from longalign.model.pruning import NO_ANCHORS, NO_LIMITS, SPACING, Findings, Pruning
from longalign.model.scoring import Scoring
from longalign.pruning import gains as module
from longalign.pruning.gains import gains
from longalign.testing.gains import anchors_of, gains_by_diagonal, naive_gains, steps, true_gains, true_limits
from longalign.testing.inputs import (
    QUERY_N,
    SCORINGS,
    TARGET_N,
    any_scorings,
    generators,
    letters_of,
    matrix_of,
    pairs,
)
from longalign.testing.reference import encode

LONGEST = 24
DEFAULT = Scoring()

#: Which ends of the two sequences paths may leave out, of all modes.
ENDS = st.one_of(
    st.sampled_from([LOCAL.ends, GLOBAL.ends]),
    st.sampled_from([*dict.fromkeys(mode.ends for mode in MODES.values())]),
)

#: Placed words are on diagonals near 0. On this diagonal, nothing is gained by reaching one of them.
FAR = 100

#: The lowest number that is kept.
NEVER = -(2**31)


@st.composite
def small_scorings(draw):
    """Numbers from the same small range, so that each may decide what an error costs."""
    match = draw(st.integers(0, 4))
    return Scoring(
        match=match,
        mismatch=draw(st.integers(-4, match - 1)),
        gap_open=draw(st.integers(0, 6)),
        gap_extend=draw(st.integers(0, 3)),
        ambiguous=draw(st.sampled_from(["mismatch", "mismatch", "zero"])),
    )


@st.composite
def matrix_with_partners(draw):
    """A substitution matrix in which most letters score best with one letter, not always with themselves."""
    letters, rng = draw(st.integers(2, 6)), draw(generators())
    scores = rng.integers(-4, 2, (letters, letters))
    scores[np.arange(letters), rng.permutation(letters)] += rng.integers(1, 5, letters)
    scores[0, 0] = max(0, scores[0, 0])
    costs = draw(st.integers(0, 6)), draw(st.integers(0, 3))
    return Scoring(gap_open=costs[0], gap_extend=costs[1], matrix=matrix_of(scores))


@st.composite
def edited_pairs(draw, letters=4, longest=LONGEST):
    """A query, and a target that differs from it by a few edits, or from its start, its middle or its end."""
    query = draw(st.lists(st.integers(0, letters - 1), max_size=longest))
    start, stop = sorted(draw(st.integers(0, len(query))) for _ in range(2))
    target = list(query if draw(st.booleans()) else query[start:stop])
    for _ in range(draw(st.integers(0, 3))):
        place, length = draw(st.integers(0, len(target))), draw(st.integers(0, 3))
        inserted = draw(st.lists(st.integers(0, letters - 1), max_size=2))
        target[place : place + length] = inserted
    both = [np.array(side, np.uint8) for side in (query, target)]
    return tuple(both if draw(st.booleans()) else both[::-1])


@st.composite
def problems(draw):
    """A query and a target of up to `LONGEST` letters or a few more, and a scoring."""
    scoring = draw(
        st.one_of(small_scorings(), st.sampled_from(SCORINGS), matrix_with_partners(), any_scorings(99, 99))
    )
    if draw(st.booleans()):
        return *draw(pairs(*(draw(st.integers(0, LONGEST)) for _ in range(2)), scoring)), scoring
    query, target = draw(edited_pairs(min(letters_of(scoring), 4)))
    if scoring.table is None and draw(st.booleans()):
        for codes, ambiguous in ((query, QUERY_N), (target, TARGET_N)):
            codes[draw(st.lists(st.integers(0, len(codes) - 1), max_size=2)) if len(codes) else []] = (
                ambiguous
            )
    return query, target, scoring


def check(query, target, scoring, anchors=NO_ANCHORS, ends=LOCAL.ends, limits=NO_LIMITS):
    found = gains(query, target, scoring, 1, Findings(anchors, limits), ends)
    for side, codes in ((found.query, query), (found.target, target)):
        assert side.most.shape == (len(codes) + 1,)
        assert side.most[-1] == 0
        assert side.floor.shape == side.line.shape == (len(codes) // SPACING + 1,)
        for values in side.arrays:
            assert values.dtype == np.int32
            assert (np.diff(values.astype(np.int64)) <= 0).all()
    rows, columns = np.indices((len(query) + 1, len(target) + 1))
    bound = Pruning(0, found.query, found.target).gain(rows, rows, columns, columns)
    in_h, in_e, in_f = map(np.array, true_gains(query, target, scoring, ends))
    assert (in_h <= bound).all()
    assert (in_e <= bound + scoring.gap_open).all()
    assert (in_f <= bound + scoring.gap_open).all()


def spelled(query: str, target: str):
    return encode(query, QUERY_N), encode(target, TARGET_N)


#: Pairs whose best path loses exactly what absent words are charged. Behind the error is a word that the path
#: leaves before its last letter. A letter that differs, and a letter that is inserted into a word:
SUBSTITUTION = (*spelled("ACGTACGGTCATTGCAGGGCCCA", "ACGTACGCTCATTGCAGGGCCCTGGCCCA"), DEFAULT)
INSERTION = (
    *spelled("ACGTACGTTCATTGCAGGGCCCA", "ACGTACGCTTCATTGCAGGGCCCTGGCCCA"),
    Scoring(1, -9, 0, 2),
)

#: A gap over the end of a word (AG) and the start of another (TA):
TWO_WORDS = (
    *spelled("CCACAACCACACCAGTACCCACAACACCCCCCCA", "CCACAACCACACCAACCCACAACACCCCCCCTCCCCCACG"),
    Scoring(1, -9, 6, 2),
)

#: A gap over many words (GT, TG), each of which loses less than a word with an error of another kind.
MANY_WORDS = (
    *spelled("CCACAACCACACCA" + 9 * "GT" + 4 * "AACACCAC", "CCACAACCACACCA" + 4 * "AACACCAC" + "TAG"),
    Scoring(1, -9, 6, 0),
)


@given(problems(), ENDS)
@example(SUBSTITUTION, LOCAL.ends)
@example(INSERTION, LOCAL.ends)
@example(TWO_WORDS, LOCAL.ends)
@example(MANY_WORDS, LOCAL.ends)
def test_no_path_gains_more_than_the_bound(problem, ends):
    check(*problem, ends=ends)


def changed_letters(monkeypatch, change):
    """Let `change` falsify what is known of the letters."""
    right = module.Letters.of
    monkeypatch.setattr(module.Letters, "of", lambda *arguments: change(right(*arguments)))


def higher_charge(letters):
    return letters._replace(charge=letters.charge + 1)


def smaller_gains(letters):
    return letters._replace(gains=letters.gains - 1)


@pytest.mark.parametrize("change", [higher_charge, smaller_gains])
def test_a_bound_too_small_by_one_is_noticed(change, monkeypatch, first_failure_only):
    changed_letters(monkeypatch, change)
    with pytest.raises(AssertionError):
        given(problems())(check_problem)()


def check_problem(problem):
    check(*problem)


@pytest.mark.parametrize("problem", [SUBSTITUTION, INSERTION, TWO_WORDS])
def test_no_charge_could_be_higher(problem, monkeypatch):
    changed_letters(monkeypatch, higher_charge)
    with pytest.raises(AssertionError):
        check(*problem)


def test_words_inside_a_gap_are_charged_by_their_letters(monkeypatch):
    changed_letters(monkeypatch, lambda letters: letters._replace(charge_a_letter=letters.charge))
    with pytest.raises(AssertionError):
        check(*MANY_WORDS)


def read_as_first(codes, present):
    """The target in which words are found: other letters, and those after its end, are read as the first."""
    first = min(present, default=0)
    return bytes(code if code in present else first for code in codes.tolist()) + bytes([first] * 64)


@given(edited_pairs(), small_scorings().filter(lambda scoring: scoring.table is None))
@example(SUBSTITUTION[:2], DEFAULT)
@example(TWO_WORDS[:2], TWO_WORDS[2])
@example(MANY_WORDS[:2], MANY_WORDS[2])
def test_bound_is_as_defined(codes, scoring):
    query, target = codes
    text = read_as_first(target, {*query.tolist()} & {*target.tolist()})
    defined = naive_gains(query, target, scoring, text)
    # The search takes a word for present if it occurs with letters after the target's end. It then does not
    # try the last letters of the word, which may be absent by themselves.
    assume(defined == naive_gains(query, target, scoring, text, places=len(text)))
    assert gains(query, target, scoring).query.most.tolist() == defined


@given(pairs(70, 90), st.sampled_from(SCORINGS))
def test_longer_pairs(codes, scoring):
    """With words longer than the longest, at the end of the target, and with ambiguous letters."""
    check(*codes, scoring)


@given(problems(), st.integers(1, LONGEST))
@example(TWO_WORDS, 20)
@example(MANY_WORDS, 20)
def test_no_path_gains_more_than_the_bound_of_a_query_in_pieces(problem, piece):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(absent_words, "_PIECE", piece)
        check(*problem)


def test_pieces_cost_a_word_each_at_most():
    rng = np.random.default_rng(2)
    query, target = rng.integers(0, 4, 40_000, np.uint8), rng.integers(0, 4, 40_000, np.uint8)
    whole = gains(query, target, DEFAULT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(absent_words, "_PIECE", 10_000)
        pieces = gains(query, target, DEFAULT)
    costs = DEFAULT.gap_open + DEFAULT.gap_extend
    for one, other in ((whole.query.most, pieces.query.most), (whole.target.most, pieces.target.most)):
        assert one[0] < len(query)
        assert (one <= other).all()
        assert (other <= one + 4 * (costs + 1)).all()


@given(problems())
def test_threads_do_not_change_the_bound(problem):
    one, two = (gains(*problem, threads=count) for count in (1, 2))
    assert all(map(np.array_equal, one.query.arrays, two.query.arrays))
    assert all(map(np.array_equal, one.target.arrays, two.target.arrays))


@given(edited_pairs(), st.integers(0, 6), st.integers(0, 3))
def test_a_table_of_match_and_mismatch_gives_the_same_bound(codes, alpha, beta):
    table = matrix_of(np.where(np.eye(4, dtype=bool), 2, -3))
    by_table = gains(*codes, Scoring(gap_open=alpha, gap_extend=beta, matrix=table))
    by_letters = gains(*codes, Scoring(2, -3, alpha, beta))
    assert all(map(np.array_equal, by_table.query.arrays, by_letters.query.arrays))
    assert all(map(np.array_equal, by_table.target.arrays, by_letters.target.arrays))


def test_each_error_of_a_long_pair_is_charged():
    rng = np.random.default_rng(1)
    query = rng.integers(0, 4, 100_000, np.uint8)
    target = query.copy()
    errors = np.arange(50, 100_000, 100)
    target[errors] ^= 1
    found = gains(query, target, DEFAULT)
    exact = len(query) - 4 * len(errors)
    for side in (found.query.most, found.target.most):
        assert exact <= side[0] <= exact + 4 * 5


def test_gains_stay_within_32_bits():
    """One side may be so long that the sum of its letter gains is larger; no path gains that."""
    scoring = Scoring(1 << 24, -(1 << 24), 1 << 20, 1 << 10)
    query, target = np.zeros(1000, np.uint8), np.zeros(100, np.uint8)
    scoring.check_range(len(query), len(target))
    found = gains(query, target, scoring)
    assert found.query.most[0] == found.target.most[0] == 100 << 24
    assert found.query.most[950] == 50 << 24


# --- with an alignment


@st.composite
def gapped_problems(draw):
    """Two sequences with long gaps, the anchors of the alignment between these, and a scoring."""
    rng, letters = draw(generators()), draw(st.integers(2, 4))
    query = rng.integers(0, letters, draw(st.integers(5, 50)), np.uint8)
    parts, anchors, row, col = [], [], 0, 0
    while row < len(query):
        length, kind = int(rng.integers(1, 20)), rng.random()
        piece = query[row : row + length].copy()
        if kind < 0.6:  # letter pairs, sometimes with one mismatch
            anchors.append((row, row + len(piece), col, col + len(piece)))
            piece[rng.integers(len(piece))] = rng.integers(letters)
        elif kind < 0.8:  # letters that the query lacks
            piece = rng.integers(0, letters, length % 12 + 1, np.uint8)
            length = 0
        else:
            piece = piece[:0]
        parts.append(piece)
        row, col = row + length, col + len(piece)
    target = np.concatenate(parts)
    for codes, ambiguous in ((query, QUERY_N), (target, TARGET_N)):
        if len(codes) and draw(st.integers(0, 2)) == 0:
            first = int(rng.integers(len(codes)))
            codes[first : first + int(rng.integers(1, 8))] = ambiguous
    return query, target, draw(small_scorings()), np.array(anchors, np.int64).reshape(-1, 4)


@st.composite
def any_problems_with_anchors(draw):
    query, target, scoring = draw(problems())
    return query, target, scoring, anchors_of(draw(steps()), len(query), len(target))


@contextmanager
def small(word, piece=absent_words._PIECE, hills=gain_sums._MAX_HILLS):
    """Sizes for short sequences: letters of a placed word and of a piece, and the most hills at a time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(placed_words, "word_letters", lambda _, bits: min(word, 64 // bits))
        patch.setattr(absent_words, "_PIECE", piece)
        patch.setattr(gain_sums, "_MAX_HILLS", hills)
        yield


ANCHORED = st.one_of(gapped_problems(), gapped_problems(), any_problems_with_anchors())


def anchored(query, target, scoring, *stretches):
    """A problem with anchors. A stretch is its first row, its first column and its length."""
    anchors = [(row, row + length, col, col + length) for row, col, length in stretches]
    return *spelled(query, target), scoring, np.array(anchors)


#: A pair of which a placed word lies in the second piece.
ACROSS_PIECES = anchored(
    "CACCCACCACGACG", "CACCCACCACGACG", Scoring(2, 1, 0, 4, ambiguous="average"), (0, 4, 9)
)

#: A letter costs something even with its partner, but less than in a gap.
LETTERS_THAT_COST = anchored(
    "GAAAAGAA",
    "GAAAACAA",
    Scoring(gap_open=4, gap_extend=3, matrix=matrix_of([[2, -3, -4], [-4, -1, -3], [0, 0, -2]])),
    (0, 0, 8),
)


#: Words on the diagonals of the anchors that occur elsewhere, too.
WORDS_WITH_TWO_PLACES = anchored(
    "GGCCCGACGGCNNNGGCGGCACAACGAG",
    "GGCCCGACGGCNNNNNNGACGCG",
    Scoring(1, -1, 6, 2),
    *((0, 0, 18), (23, 18, 5)),
)

#: Letters of the anchors that differ.
UNPAIRED_LETTERS = anchored(
    "AGTAGGCAAAGTAATGCTT",
    "AGTAGGAAAAGTAATGCT",
    Scoring(1, -3, 5, 1, ambiguous="zero"),
    *((0, 0, 16), (17, 16, 2)),
)


@given(ANCHORED, st.integers(1, 7), st.sampled_from([5, 13, 1 << 20]), st.sampled_from([1, 2, 32]), ENDS)
@example(ACROSS_PIECES, 3, 5, 32, LOCAL.ends)
@example(LETTERS_THAT_COST, 2, 1 << 20, 32, LOCAL.ends)
@example(WORDS_WITH_TWO_PLACES, 1, 1 << 20, 32, LOCAL.ends)
@example(UNPAIRED_LETTERS, 2, 1 << 20, 32, LOCAL.ends)
def test_no_path_gains_more_than_the_bound_with_anchors(problem, word, piece, hills, ends):
    with small(word, piece, hills):
        check(*problem, ends=ends)


#: A path that ends in the corner, of which the part below the limit counts diagonals from its own first row.
IN_THE_CORNER = anchored(
    "TGACTTGGGATCATCTAAGGAGGATGACTGTCTGTA",
    "TTGGGATCATCTAAGGAGGATTACTGTCTGTA",
    Scoring(3, -3, 6, 1),
    *((4, 0, 4), (8, 4, 9), (17, 13, 6), (23, 19, 13)),
)

#: A word that extends across a row with a limit.
ACROSS_A_LIMIT = anchored("ACAAAACAAAACAAACCC", "ACAAAACCAAAC", Scoring(4, 2, 0, 1), *((0, 0, 7), (7, 7, 5)))


@given(ANCHORED, st.integers(1, 7), st.sampled_from([1, 2, 32]), ENDS, st.sets(st.integers(0, 6), min_size=1))
@example(IN_THE_CORNER, 7, 32, MODES["semiglobal:query-start"].ends, {1})
@example(ACROSS_A_LIMIT, 1, 32, MODES["overlap"].ends, {0, 1})
@share_of_examples(7)
def test_no_path_gains_more_than_the_bound_with_row_limits(problem, word, hills, ends, groups):
    query, target, scoring, _ = problem
    rows = sorted(SPACING * group for group in groups if SPACING * group < len(query))
    limits = true_limits(query, target, scoring, ends, rows)
    with small(word, hills=hills):
        check(*problem, ends=ends, limits=limits)


def test_a_row_limit_lowers_the_bound_of_the_rows_above_by_as_much():
    query, target, anchors = with_gaps(np.random.default_rng(1), [400, -400])
    without = gains(query, target, DEFAULT, findings=Findings(anchors))
    row = SPACING * (len(query) // (2 * SPACING))
    limits = np.array([[row, without.query.most[row] - 500]])
    found = gains(query, target, DEFAULT, findings=Findings(anchors, limits)).query
    assert np.array_equal(found.most[row:], without.query.most[row:])
    lower = without.query.most[: row - 1_000] - found.most[: row - 1_000]
    # In a gap, a path gains alpha more. A word across the row is not charged.
    assert lower.min() >= 500 - DEFAULT.gap_open - 4
    assert lower.max() <= 500


def wrong_moves(change):
    return lambda letters: letters._replace(moves=change(letters.moves))


#: Pairs whose best path loses exactly what it is charged for words and for gaps, by what would be charged too
#: much with a wrong number. Before a pair is the length of placed words.
TIGHT = {
    "words inside a gap": (
        lambda letters: letters._replace(min_gain=letters.min_gain + 1),
        (6,),
        anchored(
            "ACAACCACAAAACAAGTGTGTGTGTGTGTGACCCAACACAC",
            "ACAACCACAAAACAAGTGTGTGTGTGTGTGACTCTCGCGCTTATCCCAACACAC",
            Scoring(1, -10, 4, 0),
            *((0, 0, 31), (31, 44, 2), (33, 46, 8)),
        ),
    ),
    "half of the opening of a gap": (
        wrong_moves(lambda moves: moves._replace(spread=moves.spread - [0, 1])),
        (7,),
        anchored(
            "ACTAATGGAGCAAGAATGATCCCTGGACAGACATTGGTGCTACGCCGCACGTTCA",
            "GGCCCTTGTGGGCGAGAATGATACCTGGACAGACATTGGTGCTGCCGCACGTTCAGAGT",
            Scoring(3, -6, 4, 4, ambiguous="zero"),
            *((9, 13, 1), (12, 14, 14), (26, 28, 15), (43, 43, 12)),
        ),
    ),
    "slope": (
        wrong_moves(lambda moves: moves._replace(slope=moves.slope + 1)),
        (3,),
        anchored(
            "CGTTCAAGAAAAGGGCTTGACCCCCTTTCGCATGGATAACGG",
            "AAGAAAAGGGCTTGACCATGGATAACGG",
            Scoring(1, -3, 1, 0),
            *((5, 0, 17), (31, 17, 10), (41, 27, 1)),
        ),
    ),
    "words with a horizontal gap": (
        wrong_moves(lambda moves: moves._replace(spread=moves.spread - [1, 0])),
        (3,),
        anchored("GCCGCAGGCCCGGGAGACCCCCA", "GCCGCAGGCGCGGGAGACCCCCA", Scoring(3, -2, 5, 1), (0, 0, 23)),
    ),
    "words at the end of a vertical gap": (
        wrong_moves(lambda moves: moves._replace(spread=moves.spread - [0, 1])),
        (4,),
        anchored(
            "CAACCGAGCCGCCGCGAAGCAGACACACAAA",
            "CCAGGCCCAACCGAGCCGCGCGAAGCAGACACACAAA",
            Scoring(1, -2, 0, 4),
            *((0, 7, 11), (12, 18, 2), (14, 20, 5), (19, 25, 12)),
        ),
    ),
    "letters, low": (
        wrong_moves(lambda moves: moves._replace(drift=moves.drift - [[-1], [0]])),
        (3,),
        anchored(
            "AGAAGGAAAAGCCACAGCAAGCCAACCCGGA",
            "AGAAGGAAAAGCACGGCAGACACAGCAAGCCAACCCGGA",
            Scoring(4, -3, 1, 1),
            *((0, 0, 12), (12, 20, 16), (28, 36, 3)),
        ),
    ),
    "letters, high": (
        wrong_moves(lambda moves: moves._replace(drift=moves.drift - [[0], [1]])),
        (3,),
        anchored(
            "CCCGAGCNGCGACGGCAAGCCG",
            "CCCGAGNNGCGACGGCAAGCCG",
            Scoring(3, -4, 3, 0, ambiguous="zero"),
            (0, 0, 22),
        ),
    ),
}


@pytest.mark.parametrize(("change", "sizes", "problem"), TIGHT.values(), ids=TIGHT.keys())
def test_gaps_could_not_be_charged_more(change, sizes, problem, monkeypatch):
    with small(*sizes):
        check(*problem)
        changed_letters(monkeypatch, change)
        with pytest.raises(AssertionError):
            check(*problem)


def check_each_diagonal(rows, gain, slope, spread, words, most=1 << 30, hills=32):
    """The sums are those of the reference, for `words` as it takes them."""
    charges, stretches = np.zeros(rows + 1, np.int32), []
    for first, (charge, placed) in sorted(words.items()):
        charges[first] = charge if placed is None else -charge
        if placed is not None:
            stretches.append((first, first + 1, first + placed))
    moves = Moves(slope, np.array(spread, np.int64), np.zeros((2, 256), np.int64))
    letters = np.zeros(rows, np.uint8), np.zeros(256, np.uint8), np.full(256, gain, np.int64)
    placed = np.array(stretches, np.int64).reshape(-1, 3)
    with small(1, hills=hills):
        found, falling = sum_gains(*letters, most, moves, placed, PathEnd(True, False, 0), charges)
    table = gains_by_diagonal(rows, gain, words, slope, spread, range(-FAR, FAR + 1))
    want = np.array([[*row.values()] for row in table], np.int64)
    places, diagonals = np.arange(rows + 1)[:, None], np.arange(-FAR, FAR + 1)
    assert (np.minimum(want, most) <= found.at(places, places + diagonals)).all()
    assert (np.minimum(want[0], most) <= np.maximum(found.floor[0], falling - slope * diagonals)).all()
    if hills < 32 or not {*spread} <= {0, slope}:  # flat parts end between two diagonals
        return
    # A hill is a line above its low side, as high as its low end minus the cost of getting there. The floor
    # is what can be gained on a diagonal that is far from all placed words.
    floor = want[:, 0]
    lines = np.where(want > floor[:, None], want - slope * diagonals, NEVER).max(axis=1)
    assert found.most.tolist() == from_here_on(np.minimum(want.max(axis=1), most))
    assert found.floor.tolist() == from_here_on(np.minimum(floor, most))[::SPACING]
    lines = np.maximum(lines - slope * places[:, 0], NEVER)  # no line stays what it is
    assert found.line.tolist() == from_here_on(lines)[::SPACING]


def from_here_on(values):
    """The highest of each value and those after it."""
    return np.maximum.accumulate(values[::-1])[::-1].tolist()


@given(st.data())
def test_gains_on_each_diagonal_are_as_defined(data):
    rows, gain, slope = (data.draw(st.integers(1, most)) for most in (30, 3, 3))
    spread = tuple(data.draw(st.sampled_from([0, slope, slope, slope - 1])) for _ in range(2))
    firsts = data.draw(st.lists(st.integers(0, rows - 1), max_size=8, unique=True))
    places = st.one_of(st.none(), st.integers(-9, 9))
    words = {first: (data.draw(st.integers(1, 9)), data.draw(places)) for first in firsts}
    most = data.draw(st.sampled_from([5, 10, 20, 1 << 30]))
    check_each_diagonal(rows, gain, slope, spread, words, most, data.draw(st.sampled_from([1, 2, 32, 32])))


@pytest.mark.parametrize("hills", [1, 2, 32])
def test_a_path_may_leave_a_diagonal_and_return(hills):
    check_each_diagonal(20, 3, 2, (0, 0), {18: (4, 0), 10: (4, 5), 3: (4, 0)}, hills=hills)
    check_each_diagonal(30, 3, 2, (2, 0), {26: (9, 0), 20: (9, 4), 12: (9, -4), 5: (9, 0)}, hills=hills)


def with_gaps(rng, lengths):
    """A pair of 100,000 letters or more, with a gap at equal distances, and its anchors.

    A gap of a length above 0 is in the target.
    """
    query = rng.integers(0, 4, 100_000, np.uint8)
    ends = np.linspace(0, len(query), len(lengths) + 2).astype(int)
    parts, anchors, row, col = [], [], 0, 0
    for end, length in zip(ends[1:], [*lengths, 0], strict=True):
        pairs = end - row
        anchors.append((row, end, col, col + pairs))
        parts += [query[row:end], rng.integers(0, 4, max(0, -length), np.uint8)]
        row, col = end + max(0, length), col + pairs + max(0, -length)
    return query, np.concatenate(parts), np.array(anchors)


@pytest.mark.parametrize("lengths", [[1000], [-1000], [300, 200, 300], [400, -400, 400, -400]])
def test_each_gap_of_a_long_pair_is_charged(lengths):
    """All of it, but for what the letters in it gain if they are not in a gap."""
    query, target, anchors = with_gaps(np.random.default_rng(1), lengths)
    pairs, gapped = int((anchors[:, 1] - anchors[:, 0]).sum()), sum(map(abs, lengths))
    exact = pairs - DEFAULT.gap_extend * gapped - DEFAULT.gap_open * len(lengths)
    plain, found = gains(query, target, DEFAULT), gains(query, target, DEFAULT, findings=Findings(anchors))
    for before, now, letters in (
        (plain.query.most, found.query.most, sum(max(0, length) for length in lengths)),
        (plain.target.most, found.target.most, sum(max(0, -length) for length in lengths)),
    ):
        assert before[0] >= exact + 1.9 * gapped
        assert exact <= now[0] <= exact + letters


@pytest.mark.parametrize("longer", ["query", "target"])
def test_the_way_to_the_corner_is_charged(longer):
    """One sequence is the other one and 400 more letters. All lengths are multiples of `SPACING`."""
    rng = np.random.default_rng(3)
    short = rng.integers(0, 4, 1600, np.uint8)
    pair = (short, np.concatenate([short, rng.integers(0, 4, 400, np.uint8)]))
    anchors = np.array([[0, len(short), 0, len(short)]])
    query, target = pair if longer == "target" else pair[::-1]
    found = {
        mode: gains(query, target, DEFAULT, findings=Findings(anchors), ends=MODES[mode].ends)
        for mode in MODES
    }
    bounds = {mode: Pruning(0, each.query, each.target) for mode, each in found.items()}
    rows, columns = len(query), len(target)
    way = DEFAULT.gap_extend * 400
    assert [int(bounds["global"].gain(*2 * [rows], *2 * [columns])), bounds["local"].gain(0, 0, 0, 0)] == [
        0,
        1600,
    ]
    # Where the shorter sequence ends, the gap that remains; before, what its letters gain as well.
    near = 1600, 1600, 1600, 1600
    assert int(bounds["global"].gain(*near)) == -way
    assert int(bounds["global"].gain(800, 800, 800, 800)) <= 800 - way + SPACING
    assert int(bounds["local"].gain(800, 800, 800, 800)) >= 800
    free_end = f"semiglobal:{longer}-end"
    assert int(bounds[free_end].gain(*near)) >= 0
    assert int(bounds["global"].gain(0, 0, 0, 0)) >= 1600 - way - DEFAULT.gap_open
