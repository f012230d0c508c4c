"""The columns of an alignment, counted and scored along the letters of both sequences.

This serves an independent check (`formats.verify`): it takes a CIGAR run by run, with slices and plain
counting, and shares no arithmetic with the back ends or with `Alignment`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import accumulate, islice
from typing import NamedTuple

from longalign.model.alphabet import DNA
from longalign.model.scoring import Scoring

# A letter that equals no letter becomes the first byte in the query, the second in the target.
_IN_QUERY, _IN_TARGET = b"\0", b"\1"
_COMPLEMENT = bytes.maketrans(b"ACGTRYSWKMBDHVN", b"TGCAYRSWMKVHDBN")
_COMPLEMENT_WITH_U = bytes.maketrans(b"ACGTURYSWKMBDHVN", b"TGCAAYRSWMKVHDBN")

#: The number of letter pairs whose scores are accumulated at a time, where each pair has its own score.
_BLOCK = 1 << 14

#: The runs of a CIGAR: the number of columns of each, and its operation.
CigarRuns = list[tuple[int, str]]


def complement_of(letters: bytes, scoring: Scoring | None) -> bytes:
    """The reverse complement. A letter U that a matrix lacks is no base and stays as it is."""
    is_base = scoring is None or "U" not in scoring.alphabet.unknown
    return letters[::-1].translate(_COMPLEMENT_WITH_U if is_base else _COMPLEMENT)


@dataclass(slots=True)
class Beginnings:
    """The scores of all beginnings of an alignment, as far as it was walked.

    `last` is that of the whole; `lowest` is the lowest of all; `highest` is the highest of those that are
    shorter than the whole. All are scaled (`Scoring.scale`). The empty beginning scores 0.
    """

    scoring: Scoring
    last: int = 0
    lowest: int = 0
    highest: int = 0
    _pairs: dict[tuple[int, int], int] = field(init=False)

    def __post_init__(self) -> None:
        alphabet, table = self.scoring.alphabet, self.scoring.table
        self._pairs = {}
        if table is not None:
            self._pairs = {
                (a, b): table.scores[alphabet.query_codes[a]][alphabet.target_codes[b]]
                for a in alphabet.letters.encode()
                for b in alphabet.letters.encode()
            }

    @property
    def has_table(self) -> bool:
        """Whether each pair of letters has a score of its own."""
        return bool(self._pairs)

    def add_gap(self, columns: int, *, is_new: bool) -> None:
        """Count columns of a gap. One that is not new goes on from the run before."""
        self._add_columns(-self.scoring.gap_extend, columns, -self.scoring.gap_open * is_new)

    def add_pairs(self, query: bytes, target: bytes, same: int) -> None:
        """Count letter pairs, and those among them that are the same letter twice.

        Without a table, bytes are equal where letters are.
        """
        if self._pairs:
            self._add_each(map(self._pairs.__getitem__, zip(query, target, strict=True)))
        elif same in (0, len(query)):
            self._add_columns(self.scoring.match if same else self.scoring.mismatch, len(query))
        else:
            values = self.scoring.mismatch, self.scoring.match
            self._add_each(values[a == b] for a, b in zip(query, target, strict=True))

    def _add_columns(self, score: int, columns: int, before: int = 0) -> None:
        """Add columns that score as much each, and `before`, which is not positive, before them."""
        last = self.last + before + score * columns
        self.highest = max(self.highest, self.last, last - score)  # the scores rise or fall all the way
        self.lowest = min(self.lowest, last)
        self.last = last

    def _add_each(self, scores: Iterable[int]) -> None:
        sums = accumulate(scores, initial=self.last)
        while block := [*islice(sums, _BLOCK)]:
            self.highest = max(self.highest, self.last, *block[:-1])
            self.lowest = min(self.lowest, *block)
            self.last = block[-1]


class Contradiction(NamedTuple):
    """An operation = or X that letters contradict: those at offsets `i` and `j` of what is aligned."""

    op: str
    i: int
    j: int


@dataclass(slots=True)
class Tally:
    """What the letters say about an alignment.

    `beginnings` are known if its scoring is. `contradiction` is the first one of the CIGAR.
    """

    beginnings: Beginnings | None
    matches: int = 0
    mismatches: int = 0
    gap_letters: int = 0
    contradiction: Contradiction | None = None

    @property
    def columns(self) -> int:
        return self.matches + self.mismatches + self.gap_letters

    def add_gap(self, columns: int, *, is_new: bool) -> None:
        """Count the columns of a gap, or of a part of one that is not new."""
        self.gap_letters += columns
        if self.beginnings is not None:
            self.beginnings.add_gap(columns, is_new=is_new)


def walk(runs: CigarRuns, query: bytes, target: bytes, scoring: Scoring | None) -> Tally:
    """Count along the CIGAR. Its runs consume all letters: upper case, the query's of the aligned strand."""
    a, b = _comparable(query, target, scoring)
    beginnings = None if scoring is None else Beginnings(scoring)
    scored = (query, target) if beginnings is not None and beginnings.has_table else (a, b)
    tally = Tally(beginnings)
    i = j = 0
    previous = ""
    for length, op in runs:
        if op in "ID":
            tally.add_gap(length, is_new=op != previous)
            i, j = (i + length, j) if op == "I" else (i, j + length)
        else:
            of_query, of_target = slice(i, i + length), slice(j, j + length)
            pair = a[of_query], b[of_target]
            same = length if pair[0] == pair[1] else sum(map(operator.eq, *pair))
            tally.matches += same
            tally.mismatches += length - same
            if beginnings is not None:
                beginnings.add_pairs(scored[0][of_query], scored[1][of_target], same)
            if tally.contradiction is None and same != {"=": length, "X": 0, "M": same}[op]:
                at = [x == y for x, y in zip(*pair, strict=True)].index(op == "X")
                tally.contradiction = Contradiction(op, i + at, j + at)
            i, j = i + length, j + length
        previous = op
    return tally


def _comparable(query: bytes, target: bytes, scoring: Scoring | None) -> tuple[bytes, bytes]:
    """The letters of both sequences as bytes that are equal where the letters are."""
    alphabet = DNA if scoring is None else scoring.alphabet
    unequal = alphabet.ambiguous.encode()
    u, t = b"UT".translate(alphabet.query_codes)
    bases = (b"U", b"T") if u == t else (b"", b"")
    query_table, target_table = (
        bytes.maketrans(bases[0] + unequal, bases[1] + byte * len(unequal))
        for byte in (_IN_QUERY, _IN_TARGET)
    )
    return query.translate(query_table), target.translate(target_table)
