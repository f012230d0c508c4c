"""The most that a path can still gain: an upper bound for every boundary cell.

On this page, a *bound* is such an upper bound, not the lower bound of the best score (`Pruning.bound`). It
follows from the two sequences, and from where an alignment, if one is known, places words that occur once.

The bound at boundary (i, j) is the smaller of two: one follows from the query letters from i on, the other
from the target letters from j on. Each is computed by one scan from the end of its sequence. This page
explains that of the query. For that of the target, exchange the sequences.

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
several words, but at most two of them are partly outside the gap, those at its ends. To each of the two
belongs the loss g + beta of at least one of its letters, and half of alpha. To a word that is wholly inside
the gap belongs the loss g + beta of all of its letters. So a word of k letters loses at least

    charge = min(g - next best, alpha + beta, g + beta + alpha // 2, k * (g + beta))

where each term is its minimum over all letters that have a partner.

**The scan.** Take disjoint absent words from the end of the query on, each as soon as there is one. (No other
choice has more words that begin at or after i, for any i.) A long query is cut into pieces, which threads
scan: no word then extends from one piece into the next. A path from row i to row i' gains at most the
letter gains in between, less the charges of the words wholly in between. Let G(i) be the greatest of these
numbers for all i' >= i. It is at least 0, the number for i' = i. G(m) = 0. If no word begins at i, then

    G(i) = max(0, g(i) + G(i + 1))

If a word begins at i, it is charged unless i' is before its end. The scan does not note where words end. It
takes a later place for the end: where the next word begins, or the next letter without a partner is.

    G(i) = max(the best for i' before that place, what the formula above gives less the charge)

G may increase with i: a word that begins at i is charged at i, but no longer at i + 1. The bound must not
increase, so it is the maximum of G from i on.

**Placed words.** Similar sequences differ by gaps, too, and long ones cost much more than the few words that
contain their ends. What shows them are words with exactly one occurrence of their partners in the target:
*placed words*. A path that does not follow the diagonal of this occurrence has an error in the word, as in an
absent one, so it is charged. A path that follows the diagonals of all placed words has to change its diagonal
as often as they do. To make sure that this costs something, the losses above are shared out anew. Every
letter of a gap changes the diagonal by one, and pays the *slope* beta for it. Then a word is left with

    charge = min(charge of above, k * g)

because a word inside a vertical gap has lost g + beta of each letter and paid beta. Two kinds of words cannot
pay all of the charge. One with a horizontal gap inside has alpha left, so the charge may exceed that by a
*spread* of at most charge - alpha. One at the end of a vertical gap has g of a letter and half of alpha left:
the spread is charge - g - alpha // 2. Neither is more than the slope, as the charge is at most alpha + beta
and g + beta + alpha // 2. All this needs g > 0 for letters with a partner. A letter without a partner may
lose less than the slope in a vertical gap.

Where placed words are is taken from an alignment that seeds have found. It need not be good: that a word has
one occurrence, and that it is on this diagonal, is verified. Only these words are placed, and absent words
are shortened to make room for them.

**The scan over diagonals.** The number of the row is now A(i, d), for paths that are in row i on diagonal d.
It may be computed as above, with a cost for each change of diagonal. An upper bound of A is kept: the highest
of a floor and a few hills (`longalign.backends.cpu.gain_sums`). Diagonals are multiplied by the slope, so
that a hill falls by 1 for each unit. Each step of the scan preserves the bound:

- Changing the diagonal between words: the bound falls by the slope at most, so it is not exceeded.
- A letter: all of it rises by g, but not below 0. If the letter loses p when paired, or r in a vertical gap,
  the value on diagonal d is the higher one of A(i + 1, d) - p and A(i + 1, d - 1) - r. One of p and r is 0.
  So the low end of a flat part moves up by min(p, slope + r), the high end by max(-p, slope - r).
- A word: all of it is charged. The charge is less by the spread if the diagonal is changed within the word.
  So a flat part is wider by the spread: of horizontal gaps on its low side, which begin on lower diagonals,
  and of vertical ones on its high side. The floor is lower by the whole charge: a path that changes its
  diagonal within the word loses the charge less the spread, and also pays the slope, which is no less than
  the spread. The floor is raised to the best for paths that end within the word.
- A placed word: besides, nothing is charged on its diagonal. This is one more hill, as high as the bound was
  there. Its flat part is this diagonal.

A hill is removed once the floor or the new hill is nowhere lower. If there are too many, the floor is raised
to the height of the lowest hill, which is then removed.

G(i) is the highest value of the bound, which is that of the floor or of a hill's flat part.

**Paths that lag behind.** A path in row i and column j is on diagonal d = j - i. A line that rises by the
slope from one diagonal to the next, and touches the low side of a hill, is nowhere below this hill. So two
more numbers are found for row i: the floor, and the height in column 0 of the highest such line. The higher
one of the floor and the line bounds what any path gains. It is less than G for a path that lags behind in
the target: that has to catch up by a gap, or to do without the words on the diagonals of the hills. A path on
the high sides of hills lags behind in the query. That is what the numbers of the target tell. As with G, each
of the two numbers is the highest from row i on. Of `SPACING` rows, that of the first is kept, which bounds
the others.

**States.** A path that is in E or F at (i, j) has a gap open already. From H, the same path would pay alpha
to open the gap, and nothing else would differ. So it gains at most alpha more than the bound.

**Modes.** The above is for paths that may end in any row and on any diagonal. If the mode does not free the
end of the query, paths use all of its letters. Then no path gains 0 because it ends in row i, and none ends
within a word. What can be gained on a diagonal may then fall below 0, but G does not, as paths to lower rows
count as well. If the mode frees neither end, paths end in the corner, and the scan over diagonals begins with
a hill there instead of the floor 0. So it charges the gap that a path still needs to get to the corner. This
is only done where words are placed and beta is not 0. Excluded pairs of letters leave fewer paths, so the
bound holds for them.

**Known rows.** For some rows a smaller bound may be known: a *row limit*, which no path in H gains more than
from this row on (`longalign.pruning.row_limits`). A path that comes to such a row ends there for the scan,
which begins anew above the row. What the path gains from there on is at most the limit, and alpha more if it
comes in a gap. That is added. It is also added for paths that end above the row. This is right because the
sum is not negative where the mode lets them: a path may end in the row as well, and then gains 0 from there
on. A word across the row is not charged.

**Words that seem present.** Any set of disjoint absent and placed words gives a bound. So the search may take
an absent word for present, and one with one occurrence for one with more, but never the other way round. It
looks at words of limited length, and skips places.

Sources. Pruning by what both sequences can still gain: CUDAlign, E. F. de O. Sandes and A. C. M. A. de Melo,
IEEE Trans. Parallel Distrib. Syst. 24:1009-1021 (2013). Words without a match as a bound: the seed heuristic
of A*PA, R. Groot Koerkamp and P. Ivanov, Bioinformatics 40:btae032 (2024), for edit distance and global mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Kernel
from longalign.backends.cpu import absent_words, gain_sums, placed_words
from longalign.backends.cpu.absent_words import (
    NO_SYMBOL,
    WordIndex,
    charge_absent_words,
    letters_present,
)
from longalign.backends.cpu.gain_sums import Moves, PathEnd, sum_gains
from longalign.backends.cpu.placed_words import charge_placed_words
from longalign.backends.substitution_tables import PITCH, table_of
from longalign.model.alphabet import Codes
from longalign.model.boundary import IntArray
from longalign.model.mode import LOCAL, FreeEnds
from longalign.model.pruning import (
    LOWEST,
    NO_FINDINGS,
    NO_LIMITS,
    SPACING,
    Anchors,
    Findings,
    RowLimits,
    SideGains,
)
from longalign.model.scoring import Scoring
from longalign.system.threads import MAX_THREADS, in_threads, processors

#: Stretches of letter pairs of an alignment, as in `charge_placed_words`: int64 of shape (stretches, 3).
Stretches = NDArray[np.int64]

#: The codes that are present on one side, in order, and the score of each such pair of both sides.
Present = NDArray[np.intp]
Scores = NDArray[np.int64]

_CODES = 256

#: Lower than every score and gap cost.
_IMPOSSIBLE = -(1 << 40)

#: Each of the two sides may use as many threads as a pool has, because looking up words waits for memory.
_THREADS = min(2 * MAX_THREADS, processors())


@dataclass(frozen=True, slots=True, eq=False)
class Gains:
    """The most that a path can gain from each boundary of m query and n target letters on.

    It is the smaller one of what the two sides say. This is for paths in H. A path in E or F gains at most
    `gap_open` more. `SideGains.most` ends with 0.
    """

    query: SideGains
    target: SideGains


def gains(
    query: Codes,
    target: Codes,
    scoring: Scoring,
    threads: int = _THREADS,
    findings: Findings = NO_FINDINGS,
    ends: FreeEnds = LOCAL.ends,
) -> Gains:
    """The gains of codes as in `Rectangle`, of shape (m,) and (n,), either of which may be empty.

    With good `findings` the bounds are closer. `ends` are the ends that the mode frees: paths of other modes
    may gain more.
    The two sides are computed at the same time, by up to `threads` threads. One after the other, with
    `threads` = 1, they need less memory: at most 10 bytes beside the result for each letter of the longer
    sequence, instead of for each letter of both. Each thread takes 8 MB more, and an anchor up to 48 bytes.
    The lengths must satisfy `Scoring.check_range`.
    """
    query, target = np.ascontiguousarray(query), np.ascontiguousarray(target)
    letters, anchors = letters_of_sides(query, target, scoring), findings.anchors

    def of_side(
        codes: Codes, other: Codes, letters: Letters, stretches: Stretches, may_stop: bool, limits: RowLimits
    ) -> SideGains:
        end = PathEnd.of(may_stop, ends, len(codes), len(other))
        side = ChargedSide.of(codes, other, letters, stretches, max(1, threads // 2))
        most = scoring.highest * min(len(codes), len(other))
        if len(limits):
            return side.gains_within(limits, scoring.gap_open, most, end)
        return side.gains(most, end)

    sides = (
        (query, target),
        (target, query),
        letters,
        (stretches_of_query(anchors), anchors[:, [2, 3, 0]]),
        (ends.query_end, ends.target_end),
        (findings.limits, NO_LIMITS),
    )
    return Gains(*in_threads(of_side, *sides, max_threads=threads))


def stretches_of_query(anchors: Anchors) -> Stretches:
    """Anchors as in `charge_placed_words`, for the words of the query."""
    return anchors[:, [0, 1, 2]]


def load_kernels() -> None:
    """Compile what `gains` needs, or load it from disk."""
    for kernel in kernels():
        kernel.load()


def kernels() -> list[Kernel]:
    """What is compiled for `gains`."""
    return [*absent_words.kernels(), *placed_words.kernels(), *gain_sums.kernels()]


def letters_of_sides(query: Codes, target: Codes, scoring: Scoring) -> tuple[Letters, Letters]:
    """The letters of both sides."""
    rows, columns = (np.flatnonzero(letters_present(codes)) for codes in (query, target))
    scores = _scores(rows, columns, scoring)
    return Letters.of(rows, columns, scores, scoring), Letters.of(columns, rows, scores.T, scoring)


def _scores(rows: Present, columns: Present, scoring: Scoring) -> Scores:
    """The score of each pair of a query letter and a target letter that are present."""
    scores = table_of(scoring).reshape(PITCH, PITCH)[np.ix_(rows, columns)]
    return scores.astype(np.int64)


class Letters(NamedTuple):
    """The letters of one side: what they gain, and what their absent and placed words cost.

    `gains` are letter gains, int64 of shape (256,). `symbols` and `other_symbols`, uint8 of shape (256,), are
    equal for a letter of this side and its partner on the other one. They have `bits` bits. A word costs
    `charge`, or `charge_a_letter` for each of its letters if that is less. A charge of 0 means that no word
    costs anything. `moves` are what changes of the diagonal cost if words are charged their least gain,
    `min_gain`, for each letter.
    """

    gains: NDArray[np.int64]
    symbols: NDArray[np.uint8]
    other_symbols: NDArray[np.uint8]
    bits: int
    charge: int
    charge_a_letter: int
    min_gain: int
    moves: Moves

    @classmethod
    def of(cls, present: Present, other: Present, scores: Scores, scoring: Scoring) -> Letters:
        """The letters `present` of one side. A row of `scores` is one of them against all `other` letters."""
        impossible = np.full((len(present), 2), _IMPOSSIBLE)
        next_best, best = np.sort(np.hstack([impossible, scores]))[:, -2:].T
        alpha, beta = scoring.gap_open, scoring.gap_extend
        gains = np.zeros(_CODES, np.int64)
        gains[present] = np.maximum(best, -beta)
        symbols, other_symbols = (np.full(_CODES, NO_SYMBOL, np.uint8) for _ in range(2))
        paired = (best > next_best) & (best > -beta)
        if not paired.any():
            return cls(gains, symbols, other_symbols, 1, 0, 0, 0, Moves.free())
        partners, order = np.unique(scores[paired].argmax(axis=1), return_inverse=True)
        symbols[present[paired]] = order
        other_symbols[other[partners]] = range(len(partners))
        min_gain = int(best[paired].min())
        charge = min(
            int((best - next_best)[paired].min()),
            scoring.opening,
            min_gain + beta + alpha // 2,
        )
        loss, loss_in_gap = gains[present] - best, gains[present] + beta
        drift = np.zeros((2, _CODES), np.int64)
        drift[:, present] = np.minimum(loss, beta + loss_in_gap), np.maximum(-loss, beta - loss_in_gap)
        spread = np.maximum(0, [charge - alpha, charge - min_gain - alpha // 2])
        return cls(
            gains,
            symbols,
            other_symbols,
            (len(partners) - 1).bit_length() or 1,
            charge,
            min_gain + beta,
            min_gain,
            Moves(beta, spread, drift),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ChargedSide:
    """The letters of one side, and what its words are charged, before this is summed up.

    `stretches` and `charges`, int32 of shape (letters + 1,), are as in `sum_gains`.
    """

    codes: Codes
    letters: Letters
    stretches: Stretches
    moves: Moves
    charges: IntArray

    @classmethod
    def of(
        cls, codes: Codes, other: Codes, letters: Letters, stretches: Stretches, threads: int
    ) -> ChargedSide:
        """Find the words of a side. `stretches` are those of `charge_placed_words`."""
        charges = np.zeros(len(codes) + 1, np.int32)
        has_places = len(stretches) > 0 and letters.min_gain > 0
        if letters.charge > 0:
            index = WordIndex.of(other, letters.other_symbols, letters.bits, threads)
            costs = letters.charge, letters.min_gain if has_places else letters.charge_a_letter
            charge_absent_words(codes, letters.symbols, index, *costs, charges, threads)
            if has_places:
                words = codes, letters.symbols, index, other, letters.other_symbols, stretches
                charge_placed_words(*words, *costs, charges, threads)
        return cls(codes, letters, stretches, letters.moves if has_places else Moves.free(), charges)

    def gains(self, most: int, end: PathEnd) -> SideGains:
        """The gains of this side, at most `most`. They take the place of the charges."""
        return self._sums(self.codes, self.stretches, self.charges, most, end)[0]

    def gains_within(self, limits: RowLimits, gap_open: int, most: int, end: PathEnd) -> SideGains:
        """The same with the limits of some rows of this side; the charges stay as they are."""
        letters = len(self.codes)
        spacings = 1, SPACING, SPACING
        arrays = tuple(np.empty(letters // spacing + 1, np.int32) for spacing in spacings)

        def put(start: int, stop: int, after: int) -> None:
            part, _ = self.part(start, stop, most, end if stop == letters else end.before_the_end())
            for whole, values, spacing in zip(arrays, part.arrays, spacings, strict=True):
                there = whole[start // spacing : None if stop == letters else stop // spacing]
                np.clip(values[: len(there)] + np.int64(after), LOWEST, most, out=there, casting="unsafe")

        rows = limits[:, 0].tolist()
        in_threads(put, [0, *rows], [*rows, letters], [*(limits[:, 1] + gap_open).tolist(), 0])
        for values in arrays:
            np.maximum.accumulate(values[::-1], out=values[::-1])
        most_here, floor, line = arrays
        return SideGains(most_here, floor, line, self.moves.slope)

    def part(self, start: int, stop: int, most: int, end: PathEnd) -> tuple[SideGains, int]:
        """The gains, and the second result of `sum_gains`, for the letters start <= k < stop alone.

        Their places count from `start`, and so do diagonals. `end` is for all letters.
        """
        charges = self.charges[start : stop + 1].copy()
        charges[np.flatnonzero(charges[:-1])[-1:]] = 0  # the last word may end below
        first = np.searchsorted(self.stretches[:, 1], start, "right")
        behind = np.searchsorted(self.stretches[:, 0], stop)
        stretches = self.stretches[first:behind] - np.array([start, start, 0])
        end = end._replace(corner=end.corner + start)
        return self._sums(self.codes[start:stop], stretches, charges, most, end)

    def _sums(
        self, codes: Codes, stretches: Stretches, charges: IntArray, most: int, end: PathEnd
    ) -> tuple[SideGains, int]:
        letters = self.letters
        return sum_gains(codes, letters.symbols, letters.gains, most, self.moves, stretches, end, charges)
