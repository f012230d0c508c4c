"""Advice to try the other strand: where few letters match, but the reverse complement shares many k-mers.

K-mers are sampled by a hash of their first letters, so that the same ones are sampled of both sequences
(Broder, Compression and Complexity of SEQUENCES 1997). That takes some nanoseconds a letter, and a few MB
besides the codes.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from longalign.model.alphabet import DNA, Codes
from longalign.run.spec import RunSpec

_K = 20

#: Letters that are looked at together, and about the most k-mers that are kept of a sequence.
_BLOCK, _KEPT = 1 << 16, 1 << 14

#: A score below this share of the best possible one is poor.
_POOR = 0.1

#: The fewest shared k-mers that are worth a word, and how many times as many as on the given strand.
_MANY, _TIMES = 10, 4

#: An odd number, by which a multiplication spreads the bits of a k-mer upwards (Knuth, TAOCP 3, 6.4).
_SPREAD = np.uint32(2654435769)


def strand_advice(spec: RunSpec, score: int) -> str | None:
    """One line for the user if a local run on the plus strand, with this scaled score, seems to be on the
    wrong one.

    None otherwise, and for sequences without a minus strand.
    """
    is_local = spec.mode.starts_anywhere and spec.mode.ends_anywhere
    if spec.strand != "plus" or not is_local or spec.scoring.alphabet.complement is None:
        return None
    query, target, scoring = spec.query.under(DNA), spec.target.under(DNA), spec.scoring
    shorter = min(query.length, target.length)
    if shorter < _K or score >= _POOR * scoring.highest * shorter:
        return None
    bits = (max(query.length, target.length) // _KEPT).bit_length()
    there = _sampled_kmers(target.as_target(), bits)
    minus = _count_in(there, _sampled_kmers(query.on("minus").as_query(), bits))
    if minus < _MANY:
        return None
    plus = _count_in(there, _sampled_kmers(query.as_query(), bits))
    if minus < _TIMES * plus:
        return None
    return (
        f"{query.name} and {target.name}: few matches on this strand, but many exact {_K}-mers of the "
        "query's reverse complement occur in the target: try --strand both"
    )


def _count_in(kmers: NDArray[np.uint64], others: NDArray[np.uint64]) -> int:
    return len(np.intersect1d(kmers, others, assume_unique=True))


def _sampled_kmers(codes: Codes, bits: int) -> NDArray[np.uint64]:
    """Different k-mers without ambiguous letters, sorted: about one in 2^`bits` of all."""
    parts = [
        _sampled_in_block(codes[start : start + _BLOCK + _K - 1], bits)
        for start in range(0, len(codes) - _K + 1, _BLOCK)
    ]
    kmers = np.sort(np.concatenate([np.empty(0, np.uint64), *parts]))  # faster than numpy.unique
    return np.delete(kmers, np.flatnonzero(kmers[1:] == kmers[:-1]))


def _sampled_in_block(codes: Codes, bits: int) -> NDArray[np.uint64]:
    """The k-mers of a few letters, two bits a letter, that the hash of their first 16 letters selects."""
    single = codes & 3
    two = single[:-1] << 2 | single[1:]
    four = two[:-2] << 4 | two[2:]
    eight = four[:-4].astype(np.uint16) << 8 | four[4:]
    sixteen = eight[:-8].astype(np.uint32) << 16 | eight[8:]
    first = sixteen[: len(codes) - _K + 1]
    places = np.flatnonzero(first * _SPREAD < (1 << 32 - bits))
    is_ambiguous = codes > 3
    if is_ambiguous.any():
        before = np.concatenate([[0], np.cumsum(is_ambiguous)])
        places = places[before[places + _K] == before[places]]
    return first[places].astype(np.uint64) << np.uint64(8) | four[places + 16].astype(np.uint64)
