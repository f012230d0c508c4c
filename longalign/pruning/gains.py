"""The most that a path can still gain: an upper bound for every boundary cell, from the two sequences alone.

The bound at boundary (i, j) is the smaller of two numbers: one of the query letters from i on, the other of
the target letters from j on. Each is computed by one scan from the end of its sequence. This page explains
the number of the query. For that of the target, exchange the sequences.

**Letters.** A query letter is paired with a target letter, or stands in a vertical gap. So it gains at most
g = max(its best score with any letter of the target, -beta), its *letter gain*. A path that uses certain
query letters gains at most the sum of their letter gains, because everything else costs: opening a vertical
gap, and every horizontal gap.

**Absent words.** A letter has a *partner* if its letter gain is the score with exactly one target letter, and
g > -beta. Take a word of letters with partners, and replace each letter by its partner. If the result occurs
nowhere in the target, the word is *absent*. A path from H that uses all letters of an absent word has, within
the word, at least one of the following. Otherwise all letters would be paired with their partners, without a
gap between them, and the partners would occur in the target. Each of them loses something against the sum of
the letter gains:

- a letter paired with another letter than its partner: g - the next best score of the letter;
- a horizontal gap between two letters of the word: alpha + beta;
- a letter in a vertical gap: g + beta, and the gap has cost alpha.

**Disjoint words share no loss.** The first two kinds lie within one word. A vertical gap may extend over
several words, but at most two of them are partly outside the gap, those at its ends. Each of these gets
g + beta of at least one letter, and half of alpha. A word that is wholly inside the gap gets g + beta of all
of its letters. So a word of k letters loses at least

    charge = min(g - next best, alpha + beta, g + beta + alpha // 2, k * (g + beta))

over all letters that have a partner.

**The scan.** Take disjoint absent words from the end of the query on, each as soon as there is one. (No other
choice has more words that begin at or after i, for any i.) A long query is cut into pieces, which threads
scan: no word then extends from one piece into the next. A path from row i to row i' gains at most the
letter gains in between, less the charges of the words wholly in between. Let G(i) be the greatest of these
numbers for all i' >= i. It is at least 0, the number for i' = i. G(m) = 0. If no word begins at i, then

    G(i) = max(0, g(i) + G(i + 1))

If a word begins at i, it is charged unless i' is before its end, for which the beginning of the next word
may be taken:

    G(i) = max(the best for i' before the end of the word, what the formula above gives, less the charge)

G may increase with i: a word that begins at i is charged at i, but no longer at i + 1. The bound must not
increase, so it is the maximum of G from i on.

**States.** A path that is in E or F at (i, j) has a gap open already. From H, the same path would pay alpha
to open the gap, and nothing else would differ. So it gains at most alpha more than the bound.

**Modes.** The bound is for paths that may end anywhere. A mode with fewer end cells, or excluded pairs of
letters, only leave fewer paths.

**Words that seem present.** Any set of disjoint absent words gives a bound. So the search may take an absent
word for present, but never the other way round. It looks at words of limited length, and skips places.

Sources. Pruning by what both sequences can still gain: CUDAlign, E. F. de O. Sandes and A. C. M. A. de Melo,
IEEE Trans. Parallel Distrib. Syst. 24:1009-1021 (2013). Words without a match as a bound: the seed heuristic
of A*PA, R. Groot Koerkamp and P. Ivanov, Bioinformatics 40:btae032 (2024), for edit distance and global mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longalign.backends.cpu.absent_words import (
    NO_SYMBOL,
    WordIndex,
    charge_absent_words,
    letters_present,
    sum_gains,
)
from longalign.backends.substitution_tables import PITCH, table_of
from longalign.model.alphabet import Codes
from longalign.model.boundary import IntArray
from longalign.model.scoring import Scoring
from longalign.system.threads import MOST_THREADS, calls_in_background

#: The codes that are present on one side, in order, and the score of each such pair of both sides.
Present = NDArray[np.intp]
Scores = NDArray[np.int64]

_CODES = 256

#: Lower than every score and gap cost.
_IMPOSSIBLE = -(1 << 40)


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """The most that a path can gain from each boundary of m query and n target letters on.

    `query` of shape (m + 1,) and `target` of shape (n + 1,), int32, do not increase and end with 0. A path in
    H at boundary (i, j) gains at most the smaller of query[i] and target[j] from there on, wherever it ends.
    A path in E or F gains at most `gap_open` more.
    """

    query: IntArray
    target: IntArray


def gains(query: Codes, target: Codes, scoring: Scoring, threads: int = MOST_THREADS) -> Gains:
    """The gains of codes as in `Rectangle`, of shape (m,) and (n,), either of which may be empty.

    The two sides are computed at the same time, by up to `threads` threads. One after the other, with
    `threads` = 1, they need less memory: at most 10 bytes beside the result for each letter of the longer
    sequence, instead of for each letter of both.
    The lengths must satisfy `Scoring.check_range`.
    """
    query, target = np.ascontiguousarray(query), np.ascontiguousarray(target)
    rows, columns = (np.flatnonzero(letters_present(codes)) for codes in (query, target))
    scores = _scores(rows, columns, scoring)
    most = scoring.highest * min(len(query), len(target))

    def of_side(codes: Codes, other: Codes, letters: _Letters) -> IntArray:
        return _gains(codes, other, letters, most, max(1, threads // 2))

    sides = (
        (query, target),
        (target, query),
        (_Letters.of(rows, columns, scores, scoring), _Letters.of(columns, rows, scores.T, scoring)),
    )
    if threads == 1:
        return Gains(*map(of_side, *sides))
    with calls_in_background(of_side, *sides, most=threads) as results:
        return Gains(*results())


def _scores(rows: Present, columns: Present, scoring: Scoring) -> Scores:
    """The score of each pair of a query letter and a target letter that are present."""
    scores = table_of(scoring).reshape(PITCH, PITCH)[np.ix_(rows, columns)]
    return scores.astype(np.int64)


class _Letters(NamedTuple):
    """The letters of one side: what they gain, and what their absent words cost.

    `gains` are letter gains, int64 of shape (256,). `symbols` and `other_symbols`, uint8 of shape (256,), are
    equal for a letter of this side and its partner on the other one. They have `bits` bits. `charge` and
    `charge_a_letter` are those of `charge_absent_words`; a charge of 0 means that no word costs anything.
    """

    gains: NDArray[np.int64]
    symbols: NDArray[np.uint8]
    other_symbols: NDArray[np.uint8]
    bits: int
    charge: int
    charge_a_letter: int

    @classmethod
    def of(cls, present: Present, other: Present, scores: Scores, scoring: Scoring) -> _Letters:
        """The letters `present` of one side. A row of `scores` is one of them against all `other` letters."""
        impossible = np.full((len(present), 2), _IMPOSSIBLE)
        next_best, best = np.sort(np.hstack([impossible, scores]))[:, -2:].T
        gains = np.zeros(_CODES, np.int64)
        gains[present] = np.maximum(best, -scoring.gap_extend)
        symbols, other_symbols = (np.full(_CODES, NO_SYMBOL, np.uint8) for _ in range(2))
        paired = (best > next_best) & (best > -scoring.gap_extend)
        if not paired.any():
            return cls(gains, symbols, other_symbols, 1, 0, 0)
        partners, order = np.unique(scores[paired].argmax(axis=1), return_inverse=True)
        symbols[present[paired]] = order
        other_symbols[other[partners]] = range(len(partners))
        in_gap = int(best[paired].min()) + scoring.gap_extend
        charge = min(
            int((best - next_best)[paired].min()),
            scoring.opening,
            in_gap + scoring.gap_open // 2,
        )
        return cls(gains, symbols, other_symbols, (len(partners) - 1).bit_length() or 1, charge, in_gap)


def _gains(codes: Codes, other: Codes, letters: _Letters, most: int, threads: int) -> IntArray:
    """The gains of one side."""
    gains = np.zeros(len(codes) + 1, np.int32)
    if letters.charge > 0:
        index = WordIndex.of(other, letters.other_symbols, letters.bits)
        costs = letters.charge, letters.charge_a_letter
        charge_absent_words(codes, letters.symbols, index, *costs, gains, threads)
    sum_gains(codes, letters.symbols, letters.gains, most, gains)
    return gains
