"""Random and structured pairs of sequences, mostly short, with scorings of all kinds."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cache

import numpy as np

from longalign.model.scoring import Scoring
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.testing.inputs import MATRIX_LETTERS, SCORINGS, largest_parameter

_NAMED = ("BLOSUM62", "PAM250", "BLOSUM45")
_AMBIGUOUS = "NRYSWKMBDHV"
#: Lengths around the usual sizes of strips and chunks, where errors at edges show.
_EDGES = (1, 2, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 127, 128, 129)
_LARGE_EDGES = (255, 256, 257, 511, 512, 513, 1023, 1024, 1025, 2047, 2048, 2049, 4095, 4096, 4097, 5000)


@dataclass(frozen=True)
class Pair:
    query: str
    target: str
    scoring: Scoring

    @property
    def longest(self) -> int:
        return max(len(self.query), len(self.target))


def random_pair(rng: random.Random, largest: int = 5000) -> Pair:
    """A pair: most have less than a hundred letters a side, one in a hundred up to `largest`."""
    rows, cols = _lengths(rng, largest)
    scoring = _scoring(rng, rows, cols)
    letters = "ACGT" if scoring.matrix is None else scoring.matrix.letters
    query = _sequence(rng, rows, letters, scoring.matrix is None)
    if rng.random() < 0.3 or min(rows, cols) == 0:
        target = _sequence(rng, cols, letters, scoring.matrix is None)
    else:
        target = _related(rng, query, cols, letters)
    return Pair(query, target, scoring)


def _lengths(rng: random.Random, largest: int) -> tuple[int, int]:
    kind = rng.random()
    if kind < 0.015:
        return rng.choice([(0, 0), (0, rng.randint(1, 50)), (rng.randint(1, 50), 0)])
    if kind < 0.6:
        rows, cols = rng.randint(1, 40), rng.randint(1, 40)
    elif kind < 0.8:
        rows, cols = rng.choice(_EDGES), rng.choice(_EDGES)
    elif kind < 0.95:
        rows, cols = rng.randint(1, 200), rng.randint(1, 200)
    elif kind < 0.99:
        rows, cols = rng.randint(1, 1000), rng.randint(1, 1000)
    else:
        rows, cols = rng.choice(_LARGE_EDGES), rng.choice([*_LARGE_EDGES, rng.randint(1, 5000)])
    return min(rows, largest), min(cols, largest)


def _sequence(rng: random.Random, length: int, letters: str, dna: bool) -> str:
    """Random letters, two letters, a tandem repeat or a single letter.

    DNA may also have runs of an ambiguous letter, and U in place of T.
    """
    kind = rng.random()
    if kind < 0.4:
        text = "".join(rng.choices(letters, k=length))
    elif kind < 0.6:
        text = "".join(rng.choices(rng.sample(letters, 2), k=length))
    elif kind < 0.9:
        unit = "".join(rng.choices(letters, k=rng.randint(1, 7)))
        text = (unit * (length // len(unit) + 1))[:length]
    else:
        text = rng.choice(letters) * length
    while dna and length and rng.random() < 0.25:
        start = rng.randrange(length)
        stop = min(length, start + rng.randint(1, max(1, length // 3)))
        text = text[:start] + rng.choice(_AMBIGUOUS) * (stop - start) + text[stop:]
    return text.replace("T", "U") if dna and rng.random() < 0.05 else text


def _related(rng: random.Random, query: str, length: int, letters: str) -> str:
    """A mutated substring of the query, extended or cut to `length`."""
    start = rng.randrange(len(query)) if rng.random() < 0.5 else 0
    rate = rng.choice([0.0, 0.03, 0.2])
    parts = list(query[start:])
    for place in range(len(parts)):
        if rng.random() < rate:
            parts[place] = rng.choice(["", rng.choice(letters), parts[place] + rng.choice(letters) * 3])
    filler = "".join(rng.choices(letters, k=rng.choice([0, length // 3])))
    text = filler + "".join(parts)
    return (text + "".join(rng.choices(letters, k=length)))[:length]


def _scoring(rng: random.Random, rows: int, cols: int) -> Scoring:
    limit = _limit(rows, cols)
    kind = rng.random()
    if kind < 0.3:
        return rng.choice([one for one in SCORINGS if one.match <= limit])
    if kind < 0.4:
        return Scoring(limit, -limit, limit, limit)
    if kind < 0.7:
        size = min(limit, rng.choice([3, 10, 200, 1 << 15, limit]))
        match = rng.randint(1, size)
        return Scoring(match, rng.randint(-size, match - 1), rng.randint(0, size), rng.randint(0, size))
    gaps = rng.choice([0, rng.randint(0, 12)]), rng.choice([0, rng.randint(0, 4)])
    if kind < 0.9:
        return Scoring(gap_open=gaps[0], gap_extend=gaps[1], matrix=_named(rng.choice(_NAMED)))
    return Scoring(gap_open=gaps[0], gap_extend=gaps[1], matrix=_made(rng, min(limit, 1 << 15)))


@cache
def _limit(rows: int, cols: int) -> int:
    return largest_parameter(max(rows, 1), max(cols, 1))


@cache
def _named(name: str) -> SubstitutionMatrix:
    return SubstitutionMatrix.load(name)


def _made(rng: random.Random, limit: int) -> SubstitutionMatrix:
    count, size = rng.choice([2, 3, 4, 5, 9, 24, 32]), min(limit, rng.choice([5, 200, limit]))
    source = np.random.default_rng(rng.getrandbits(32))
    scores = source.integers(-size, size + 1, (count, count))
    scores[0, 0] = size
    return SubstitutionMatrix("made", MATRIX_LETTERS[:count], tuple(map(tuple, scores.tolist())))
