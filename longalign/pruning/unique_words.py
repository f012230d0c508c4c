"""Words that occur once in the query and once in the target: the seeds of an alignment.

Words are sampled by a hash of their letters (Broder, Compression and Complexity of SEQUENCES 1997). So the
same words are sampled in both sequences, and a word that is unique in the sample of a sequence is unique in
the sequence, unless the sample was cut off (`sampled_words`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Kernel
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm
from longalign.model.alphabet import BASES, Codes
from longalign.model.scoring import TOO_MANY_LETTERS
from longalign.system.threads import in_threads

#: The longest word: two bits a letter, in 62 bits.
LONGEST_WORD = 31

_SHORTEST_WORD = 7

#: Of a sequence with more words, a sample of about this size is taken.
MAX_WORDS = 1 << 21

#: The same, to tell strands apart and related sequences from others.
SMALL_SAMPLE = 1 << 14

#: A sampled word is one number: the lowest bits of its hash, and below them, in this many bits, the place
#: where it begins.
PLACE_BITS = (TOO_MANY_LETTERS - 1).bit_length()
_PLACE = np.uint64((1 << PLACE_BITS) - 1)

#: Two sequences with fewer letters are sampled one after the other: to start a thread would take longer.
_SHORT = 1 << 16

_HIGHEST_HASH = (1 << 64) - 1

_BASES = len(BASES)

Words = NDArray[np.uint64]


def word_length(rows: int, cols: int) -> int:
    """An odd word length at which two random sequences of these lengths share hardly any word."""
    k = ((max(1, rows) * max(1, cols)).bit_length() + 1) // 2
    return min(max(k | 1, _SHORTEST_WORD), LONGEST_WORD)


def sampling_limit(letters: int, most: int) -> int:
    """The highest hash of a sampled word: about `most` of the words of a sequence have no higher one."""
    return _HIGHEST_HASH * min(letters, most) // max(1, letters)


def sampled_words(codes: Codes, k: int, limit: int) -> Words:
    """The words of k unambiguous letters with hashes up to `limit`, sorted: uint64 of shape (words,).

    Equal words are neighbours. If a repetitive sequence has many more of them than expected, the last ones
    are left out.
    """
    expected = len(codes) * (limit / _HIGHEST_HASH)
    found = np.empty(int(expected * 1.1) + 1024, np.uint64)
    count = _sampler()(codes, k, np.uint64(limit), found)
    words = found[:count]
    words.sort()
    return words


def common_unique_words(query: Codes, target: Codes, k: int, most: int = MAX_WORDS) -> Words:
    """The places of sampled words that are unique in both sequences: uint64 of shape (pairs,), sorted.

    The lowest `PLACE_BITS` bits of a number are the place in the query. The bits above are the diagonal: the
    place in the target, minus the place in the query, plus the number of query letters. Two different words
    may have equal hashes, so the caller has to compare the letters.
    """
    limit = sampling_limit(max(len(query), len(target)), most)
    threads = 1 if len(query) + len(target) < _SHORT else 2
    first, second = in_threads(
        lambda codes: sampled_words(codes, k, limit), (query, target), max_threads=threads
    )
    places = np.empty(min(len(first), len(second)), np.uint64)
    count = _joiner()(first, second, len(query), places)
    found = places[:count]
    found.sort()
    return found


def shared_words(query: Codes, target: Codes, k: int) -> int:
    """The number of words of k letters in a small sample that are unique in both sequences.

    It tells the strands of a query apart, and related sequences from others. It takes a few nanoseconds for
    each letter.
    """
    return len(common_unique_words(query, target, k, SMALL_SAMPLE))


def _make_sampler() -> Callable[..., int]:
    u64 = numba.uint64
    first, second = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
    half, shift, two = np.uint64(32), np.uint64(PLACE_BITS), np.uint64(2)
    one = np.uint64(1)

    @inline_by_llvm
    def hashed(word: Any) -> Any:
        """The finaliser of MurmurHash3 (Appleby): every bit of a word changes about half of the bits."""
        word = (word ^ (word >> half)) * first
        word = (word ^ (word >> half)) * second
        return word ^ (word >> half)

    def sample(codes: Any, k: int, limit: Any, found: Any) -> int:
        mask = (one << u64(2 * k)) - one
        word, valid, count = u64(0), 0, 0
        for place in range(len(codes)):
            code = codes[place]
            word = ((word << two) | u64(code & 3)) & mask
            valid = valid + 1 if code < _BASES else 0
            if valid >= k:
                value = hashed(word)
                if value <= limit and count < len(found):
                    found[count] = (value << shift) | u64(place - k + 1)
                    count += 1
        return count

    return sample


def _make_joiner() -> Callable[..., int]:
    u64 = numba.uint64
    shift, place = np.uint64(PLACE_BITS), _PLACE

    def join(query_words: Any, target_words: Any, rows: int, found: Any) -> int:
        a, b, count = 0, 0, 0
        in_query, in_target = len(query_words), len(target_words)
        while a < in_query and b < in_target:
            first, second = query_words[a] >> shift, target_words[b] >> shift
            if first < second:
                a += 1
            elif second < first:
                b += 1
            else:
                after_a, after_b = a + 1, b + 1
                while after_a < in_query and query_words[after_a] >> shift == first:
                    after_a += 1
                while after_b < in_target and target_words[after_b] >> shift == first:
                    after_b += 1
                if after_a == a + 1 and after_b == b + 1:
                    i, j = query_words[a] & place, target_words[b] & place
                    found[count] = ((j + u64(rows) - i) << shift) | i
                    count += 1
                a, b = after_a, after_b
        return count

    return join


@compiled_once
def _sampler() -> Callable[..., int]:
    examples = [np.zeros(1, np.uint8), 1, np.uint64(1), np.zeros(1, np.uint64)]
    return compile_entry(_make_sampler(), "sampled words", examples)


@compiled_once
def _joiner() -> Callable[..., int]:
    words = np.zeros(1, np.uint64)
    return compile_entry(_make_joiner(), "common unique words", [words, words, 1, words])


def kernels() -> list[Kernel]:
    """What is compiled here."""
    return [Kernel("sampled words", _sampler), Kernel("common unique words", _joiner)]
