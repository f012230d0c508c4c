"""Hypothesis strategies for letters and scorings at their limits, which the suites combine into jobs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from longalign.errors import InputError
from longalign.model.alignment import Lengths, Op, Ops, uses_query, uses_target
from longalign.model.alphabet import AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET, Codes
from longalign.model.boundary import Boundary, Edge, IntArray, LinearEdge
from longalign.model.scoring import LARGEST_PARAMETER, NEG_INF, Scoring
from longalign.model.substitution_matrix import LARGEST_ALPHABET, SubstitutionMatrix

#: Letters for a substitution matrix of any size.
MATRIX_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ*+&%$!"

_USUAL = Scoring()

#: The codes of an ambiguous letter in a query and in a target. They differ, so that it never matches.
QUERY_N, TARGET_N = AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET

#: `Scoring.check_range` keeps H between these two, and so E and F above LOWEST - alpha - beta.
LOWEST, HIGHEST = NEG_INF + (1 << 27), -NEG_INF


# --- letters -----------------------------------------------------------------------------------------


def generators() -> st.SearchStrategy[np.random.Generator]:
    """Seeded generators of letters, because drawing long sequences letter by letter would be too slow."""
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


def letters_of(scoring: Scoring) -> int:
    """The codes of a scoring's table, or 4, those of the bases, without one."""
    return scoring.letters or 4


@st.composite
def sequences(draw: st.DrawFn, length: int, ambiguous: int = QUERY_N, letters: int = 4) -> Codes:
    """Random, repetitive or low-complexity codes; runs of `ambiguous` occur if it is not one of `letters`."""
    kind = draw(st.sampled_from(["spelled", "random", "tandem", "two letters"]))
    if kind == "spelled" and length <= 16:
        spelled = draw(st.lists(st.integers(0, letters - 1), min_size=length, max_size=length))
        codes = np.array(spelled, np.uint8)
    elif kind == "tandem":
        unit = draw(st.lists(st.integers(0, letters - 1), min_size=1, max_size=6))
        codes = np.resize(np.array(unit, np.uint8), length)
    else:
        letters_used = 2 if kind == "two letters" else letters
        codes = draw(generators()).integers(0, letters_used, length, np.uint8)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2])) if ambiguous >= letters and length else 0):
        start = draw(st.integers(0, length - 1))
        codes[start : start + draw(st.integers(1, length))] = ambiguous
    return codes


@st.composite
def pairs(draw: st.DrawFn, rows: int, cols: int, scoring: Scoring = _USUAL) -> tuple[Codes, Codes]:
    """A query and a target, unrelated or related, so that long alignments with gaps exist.

    Their letters are those of the scoring.
    """
    letters, ambiguous = letters_of(scoring), (QUERY_N, TARGET_N) if scoring.table is None else (0, 0)
    query = draw(sequences(rows, ambiguous[0], letters))
    if draw(st.booleans()):
        return query, draw(sequences(cols, ambiguous[1], letters))
    start = draw(st.sampled_from([0, rows // 2]))
    rate = draw(st.sampled_from([0.0, 0.02, 0.2]))
    return query, mutated(query[start:], cols, rate, draw(generators()), letters)


def mutated(query: Codes, length: int, rate: float, rng: np.random.Generator, letters_used: int = 4) -> Codes:
    """A target of `length` letters that copies the query with substitutions, insertions and deletions.

    It uses `letters_used` different letters. `rate` is the probability of a change at each letter. Random
    letters follow the end of the query.
    """
    letters: list[int] = []
    position = 0
    while len(letters) < length and position < len(query):
        change = rng.choice(["substitute", "insert", "delete"]) if rng.random() < rate else "copy"
        if change == "delete":
            position += int(rng.geometric(0.3))
        elif change == "insert":
            letters.extend(rng.integers(0, letters_used, rng.geometric(0.3)))
        else:
            letters.append(int(query[position] if change == "copy" else rng.integers(0, letters_used)))
            position += 1
    letters.extend(rng.integers(0, letters_used, max(0, length - len(letters))))
    target = np.array(letters[:length], np.uint8)
    if letters_used <= QUERY_N:
        target[target == QUERY_N] = TARGET_N
    return target


def scattered(rows: int, cols: int, count: int, seed: int) -> tuple[Codes, Codes]:
    """A query and a target of ambiguous letters with `count` common words of 8 letters in random order."""
    rng = np.random.default_rng(seed)
    words = rng.integers(0, 4, (count, 8), np.uint8)
    query, target = np.full(rows, QUERY_N, np.uint8), np.full(cols, TARGET_N, np.uint8)
    for side in (query, target):
        starts = rng.choice(len(side) // 10, count, replace=False) * 10
        for start, word in zip(starts, words, strict=True):
            side[start : start + len(word)] = word
    return query, target


def edited(columns: int, changes: int, rng: np.random.Generator) -> tuple[Codes, Codes, Ops, Lengths]:
    """A query, a target and the alignment by which one was made from the other, in runs of =, X, I and D.

    The alignment has exactly `columns` columns, more than ten for each change. A change substitutes, inserts
    or deletes a few letters, with equal letters before and after. Takes a second for 10^7 columns.
    """
    ops = np.full(2 * changes + 1, Op.MATCH, np.uint8)
    ops[1::2] = rng.choice([Op.MISMATCH, Op.INSERTION, Op.DELETION], changes)
    lengths = np.ones(len(ops), np.int64)
    lengths[1::2] = rng.integers(1, 10, changes)
    lengths[::2] += rng.multinomial(columns - lengths.sum(), np.full(changes + 1, 1 / (changes + 1)))
    column_ops = np.repeat(ops, lengths)
    query = rng.integers(0, 4, columns, np.uint8)
    others = (query + rng.integers(1, 4, columns, np.uint8)) % 4
    target = np.where(column_ops == Op.MISMATCH, others, query)
    return query[uses_query(column_ops)], target[uses_target(column_ops)], ops, lengths


# --- numbers -----------------------------------------------------------------------------------------


SCORINGS = (
    Scoring(),
    Scoring(match=2, mismatch=-3, gap_open=0, gap_extend=2),  # linear gaps
    Scoring(match=1, mismatch=-1, gap_open=4, gap_extend=0),  # a gap costs the same at any length
    Scoring(match=1, mismatch=-2, gap_open=0, gap_extend=0),  # gaps for nothing
    Scoring(match=3, mismatch=0, gap_open=1, gap_extend=1),
    Scoring(match=5, mismatch=2, gap_open=6, gap_extend=1),  # a mismatch gains
    Scoring(match=1, mismatch=-30, gap_open=1, gap_extend=1),  # never a mismatch
    Scoring(match=0, mismatch=-1, gap_open=0, gap_extend=1),  # edit distance
    Scoring(match=0, mismatch=-1, gap_open=3, gap_extend=0),
    Scoring(match=127, mismatch=-128, gap_open=127, gap_extend=127),
    Scoring(match=32767, mismatch=-32768, gap_open=32767, gap_extend=32767),
)


@st.composite
def scorings(draw: st.DrawFn, rows: int, cols: int) -> Scoring:
    """A scoring without a substitution matrix that `Scoring.check_range` admits at these lengths."""
    limit = largest_parameter(rows, cols)
    presets = [scoring for scoring in SCORINGS if scoring.match <= limit]
    presets.append(Scoring(match=limit, mismatch=-limit, gap_open=limit, gap_extend=limit))
    if draw(st.booleans()):
        return draw(st.sampled_from(presets))
    size = min(limit, draw(st.sampled_from([5, 200, 1 << 15, limit])))
    match = draw(st.integers(0, size))
    return Scoring(
        match=match,
        mismatch=draw(st.integers(-size, match - 1)),
        gap_open=draw(st.integers(0, size)),
        gap_extend=draw(st.integers(0, size)),
    )


@st.composite
def matrix_scorings(draw: st.DrawFn, rows: int, cols: int) -> Scoring:
    """A scoring with a substitution matrix of any size that `Scoring.check_range` admits at these lengths.

    Some have scores that, plus the cost of a gap's first letter, just fit or just exceed 8 bits.
    """
    limit = largest_parameter(rows, cols)
    if limit >= 128 and draw(st.booleans()):
        opening = draw(st.integers(0, 60))
        highest, lowest = 127 - opening + draw(st.integers(0, 1)), -128 - opening - draw(st.integers(0, 1))
        gap_extend = draw(st.integers(0, opening))
        gap_open = opening - gap_extend
    else:
        size = min(limit, draw(st.sampled_from([5, 200, 1 << 15, limit])))
        gap_open, gap_extend, highest = (draw(st.integers(low, size)) for low in (0, 0, 0))
        lowest = draw(st.integers(-size, highest))
    letters = draw(st.sampled_from([2, 3, 4, 5, 9, 24, LARGEST_ALPHABET]))
    scores = draw(generators()).integers(lowest, highest + 1, (letters, letters))
    if draw(st.booleans()):
        scores = np.maximum(scores, scores.T)
    scores[0, -1], scores[-1, -1] = lowest, highest
    return Scoring(gap_open=gap_open, gap_extend=gap_extend, matrix=matrix_of(scores))


def matrix_of(scores: ArrayLike) -> SubstitutionMatrix:
    """A substitution matrix of these scores, of shape (letters, letters), for arbitrary letters."""
    rows = np.asarray(scores).tolist()
    return SubstitutionMatrix("made", MATRIX_LETTERS[: len(rows)], tuple(map(tuple, rows)))


def any_scorings(rows: int, cols: int) -> st.SearchStrategy[Scoring]:
    """A scoring with or without a substitution matrix, for sequences of these lengths."""
    return st.one_of(scorings(rows, cols), matrix_scorings(rows, cols))


def largest_parameter(rows: int, cols: int) -> int:
    """The largest power of two that all four parameters of a scoring may have at these lengths."""
    limit = LARGEST_PARAMETER
    while True:
        try:
            Scoring(limit, -limit, limit, limit).check_range(rows, cols)
        except InputError:
            limit //= 2
        else:
            return limit


def entry_range(scoring: Scoring, rows: int, cols: int) -> tuple[int, int]:
    """The lowest and the highest value at the corner of a rectangle that keep every H in range."""
    fall = 2 * scoring.gap_open + scoring.gap_extend * (rows + cols) - min(scoring.lowest, 0)
    return LOWEST + fall, HIGHEST - scoring.highest * min(rows, cols)


def scoring_source(scoring: Scoring) -> str:
    """Python that builds a scoring, given Scoring, SubstitutionMatrix and Fraction."""
    matrix = scoring.matrix
    if matrix is None:
        return repr(scoring)
    built = f"SubstitutionMatrix({matrix.name!r}, {matrix.letters!r}, {matrix.scores!r})"
    return repr(scoring).replace(repr(matrix), built)


def edge_source(edge: Edge) -> str:
    """Python that builds an edge, given numpy, Boundary and LinearEdge."""
    if isinstance(edge, LinearEdge):
        return repr(edge)
    h, gap = (f"np.array({values.tolist()}, np.int32)" for values in (edge.h, edge.gap))
    return f"Boundary({h}, {gap})"


def join_parts(parts: Sequence[Edge]) -> Boundary:
    """Join neighbouring boundaries of a row or column into one; shared corners occur once."""
    first, *rest = parts
    return Boundary(
        np.concatenate([first.h, *(part.h[1:] for part in rest)]),
        np.concatenate([first.gap, *(part.gap[1:] for part in rest)]),
    )


class CollectedLines:
    """A `LineSink` that keeps copies of all pieces."""

    def __init__(self) -> None:
        self._pieces: dict[int, list[tuple[IntArray, IntArray]]] = {}

    def put(self, line: int, start: int, h: IntArray, gap: IntArray) -> None:
        pieces = self._pieces.setdefault(line, [])
        assert start == sum(len(piece) for piece, _ in pieces)
        pieces.append((h.copy(), gap.copy()))

    def boundaries(self, corners: list[int]) -> tuple[Boundary, ...]:
        """The boundaries put so far, given H at the corner of each line."""
        lines = [zip(*self._pieces[line], strict=True) for line in sorted(self._pieces)]
        return tuple(
            Boundary(_joined(corner, h), _joined(NEG_INF, gap))
            for corner, (h, gap) in zip(corners, lines, strict=True)
        )


def _joined(corner: int, pieces: Sequence[IntArray]) -> IntArray:
    return np.concatenate([[corner], *pieces], dtype=np.int32)
