"""Segments: stretches of one diagonal that begin and end with a word that is unique in both sequences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Kernel
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm
from longalign.backends.substitution_tables import PITCH, table_of
from longalign.model.alphabet import Codes
from longalign.model.scoring import Scoring
from longalign.pruning.unique_words import PLACE_BITS, common_unique_words

Places = NDArray[np.int64]


class Segments(NamedTuple):
    """Ungapped stretches, int64 of shape (segments,) each, in the order of their first rows.

    `row` and `col` are where they begin, `length` is their number of letter pairs, and `score` the scaled
    score of these.
    """

    row: Places
    col: Places
    length: Places
    score: Places


def find_segments(query: Codes, target: Codes, scoring: Scoring, k: int) -> Segments:
    """The segments of two sequences, from words of k letters that are unique in both.

    Neighbouring words of a diagonal are joined if no detour with gaps could score more than the pairs between
    them. Two segments on one diagonal do not overlap.
    """
    words = common_unique_words(query, target, k)
    found = np.empty((4, len(words)), np.int64)
    # A detour leaves the diagonal by one gap and returns by another, and has fewer pairs.
    max_loss = 2 * scoring.opening + scoring.highest
    numbers = np.array([k, scoring.highest, max_loss], np.int64)
    count = _joiner()(query, target, table_of(scoring), words, numbers, found)
    order = np.argsort(found[0, :count], kind="stable")
    return Segments(*(column[order] for column in found[:, :count]))


def _make_word_joiner() -> Callable[..., int]:
    number = numba.int64
    shift, mask = np.uint64(PLACE_BITS), np.uint64((1 << PLACE_BITS) - 1)

    @inline_by_llvm
    def put(found: Any, count: int, begin: int, end: int, diagonal: int, score: int) -> None:
        found[0, count], found[1, count] = begin, begin + diagonal
        found[2, count], found[3, count] = end - begin, score

    def join_words(query: Any, target: Any, table: Any, words: Any, numbers: Any, found: Any) -> int:
        k, highest, max_loss = numbers[0], numbers[1], numbers[2]
        rows, count = len(query), 0
        current, begin, end, score = number(0), number(0), number(0), number(0)  # no segment if end == begin
        for w in range(len(words)):
            diagonal = number(words[w] >> shift) - rows
            i = number(words[w] & mask)
            is_on = end > begin and diagonal == current
            x = max(i, end) if is_on else i
            in_word = number(0)
            while x < i + k and query[x] == target[x + diagonal]:
                in_word += table[query[x] * PITCH + target[x + diagonal]]
                x += 1
            if x < i + k:
                continue  # another word with the same hash
            loss, between = number(0), number(0)
            if is_on:
                x = end
                while x < i and loss <= max_loss:
                    pair = table[query[x] * PITCH + target[x + diagonal]]
                    between += pair
                    loss += highest - pair
                    x += 1
            if not is_on or loss > max_loss:
                if end > begin:
                    put(found, count, begin, end, current, score)
                    count += 1
                current, begin, score, between = diagonal, i, number(0), number(0)
            end = i + k
            score += between + in_word
        if end > begin:
            put(found, count, begin, end, current, score)
            count += 1
        return count

    return join_words


@compiled_once
def _joiner() -> Callable[..., int]:
    codes, table, numbers = np.zeros(1, np.uint8), np.zeros(1, np.int32), np.zeros(1, np.int64)
    examples = [codes, codes, table, np.zeros(1, np.uint64), numbers, numbers.reshape(1, 1)]
    return compile_entry(_make_word_joiner(), "segments", examples)


def kernels() -> list[Kernel]:
    """What is compiled here."""
    return [Kernel("segments", _joiner)]
