"""The scores of letter pairs as a table by codes: what back ends compute with, and how it is made exactly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain

from longalign.model.alphabet import AMBIGUOUS_IN_TARGET, BASES, code_meanings
from longalign.system.rationals import Number, simplest

Rows = Sequence[Sequence[Number]]


@dataclass(frozen=True, slots=True)
class PairTable:
    """Whole-number scores: a row for each code of a query letter, in it a column for each of a target letter.

    `highest` and `lowest` are the extremes.
    """

    scores: tuple[tuple[int, ...], ...]
    highest: int = field(init=False, repr=False, compare=False)
    lowest: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "highest", max(map(max, self.scores)))
        object.__setattr__(self, "lowest", min(map(min, self.scores)))

    @classmethod
    def scaled(cls, rows: Rows, scale: int) -> PairTable:
        """The table of `scale` times these numbers, all of which are whole then."""
        return cls(tuple(tuple(int(score * scale) for score in row) for row in rows))

    def __len__(self) -> int:
        """The number of codes."""
        return len(self.scores)

    def __hash__(self) -> int:
        return hash((len(self.scores), self.scores[0]))  # cheap; equality compares all scores


def with_zeros(match: Number, mismatch: Number) -> Rows:
    """Scores by the codes of `alphabet.nucleotides`: an ambiguity letter scores 0 with every letter."""
    codes = range(AMBIGUOUS_IN_TARGET + 1)
    bases = len(BASES)

    def score(a: int, b: int) -> Number:
        return 0 if max(a, b) >= bases else match if a == b else mismatch

    return [[score(a, b) for b in codes] for a in codes]


def with_averages(match: Number, mismatch: Number) -> Rows:
    """Scores by the codes of `alphabet.nucleotides_told_apart`: the mean over the bases they stand for."""
    meanings = code_meanings()

    def score(a: str, b: str) -> Number:
        pairs, equal = len(a) * len(b), len(set(a) & set(b))
        return simplest(Fraction(equal * match + (pairs - equal) * mismatch) / pairs)

    return [[score(a, b) for b in meanings] for a in meanings]


def with_unknown(rows: Rows) -> Rows:
    """The same scores and those of two more codes, as `Alphabet.with_unknown` has: the lowest of all."""
    lowest = min(chain.from_iterable(rows))
    added = [lowest] * (len(rows) + 2)
    return [*([*row, lowest, lowest] for row in rows), added, added]


def numbers_of(rows: Rows) -> Iterable[Number]:
    """All scores, one after another."""
    return chain.from_iterable(rows)
