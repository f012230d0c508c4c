"""Words of one sequence that occur nowhere in another: where they are, and what a path is charged for each.

`longalign.pruning.gains` says what they are for and proves that the result is a bound.

A *word* is a run of symbols (0, 1, ...), packed into 64 bits from the highest bit down. The words that begin
at all places of a sequence, sorted, tell by a binary search whether a shorter word occurs: the sorted words
that begin with it are neighbours. A table of their first bits starts the search close to its end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Kernel
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm
from longalign.model.alphabet import Codes
from longalign.model.boundary import IntArray
from longalign.system.threads import in_threads

#: The symbol of a letter that no word contains.
NO_SYMBOL = 255

_WORD_BITS = 64

#: Letters that are packed, or scanned for absent words, in one piece. It does not depend on the number of
#: threads, nor do the words that are found.
_PIECE = 1 << 20

#: The table of first bits has an entry for about this many sorted words: one or two cache lines.
_WORDS_AN_ENTRY = 4

#: Words with the same first bits are sorted together, in *buckets* of about this many words or, in a long
#: sequence, in 2 to the power of `_MAX_BUCKET_BITS` of them.
_WORDS_A_BUCKET, _MAX_BUCKET_BITS = 1 << 16, 8

_word = numba.uint64


@dataclass(frozen=True, slots=True, eq=False)
class WordIndex:
    """The words of a sequence of n letters, of up to 64 // `bits` symbols. It takes 9 to 10 bytes a letter.

    `words` are uint64 of shape (n,), sorted. `starts`, int32 of shape (2**k + 1,), are the places in `words`
    at which each value of the first k bits begins. A word has 64 bits, of which `shift` follow the first k.

    Symbol 0 is read in place of a letter without a symbol, and after the end of the sequence. So a few words
    seem to occur that do not. No word that occurs seems to be absent.
    """

    words: NDArray[np.uint64]
    starts: IntArray
    shift: int
    bits: int

    def fields(self) -> tuple[int, NDArray[np.uint64], IntArray, int]:
        """The index as compiled code takes it: `bits`, `words`, `starts` and `shift`."""
        return self.bits, self.words, self.starts, self.shift

    @classmethod
    def of(cls, codes: Codes, symbols: NDArray[np.uint8], bits: int, threads: int) -> WordIndex:
        """The words of a sequence. `symbols` of shape (256,) are those of all codes, of `bits` bits each.

        Up to `threads` threads are used.
        """
        first_bits = max(1, (len(codes) // _WORDS_AN_ENTRY).bit_length())
        bucket_bits = min(first_bits, max(1, (len(codes) // _WORDS_A_BUCKET).bit_length()), _MAX_BUCKET_BITS)
        words, bounds = _in_buckets(codes, symbols, bits, bucket_bits, threads)
        starts, shift = np.empty((1 << first_bits) + 1, np.int32), _WORD_BITS - first_bits
        fill_starts = _kernels().fill_starts

        def sort(bucket: int) -> None:
            begin, end = bounds[bucket], bounds[bucket + 1]
            first, last = (number << first_bits - bucket_bits for number in (bucket, bucket + 1))
            words[begin:end].sort()
            fill_starts(words, begin, end, shift, first, last, starts)

        in_threads(sort, range(1 << bucket_bits), max_threads=threads)
        starts[-1] = len(words)
        return cls(words, starts, shift, bits)


def _in_buckets(
    codes: Codes, symbols: NDArray[np.uint8], bits: int, bucket_bits: int, threads: int
) -> tuple[NDArray[np.uint64], NDArray[np.int64]]:
    """The words of a sequence, those with the same first `bucket_bits` bits side by side.

    Also returns where each of these buckets begins, int64 of shape (buckets + 1,).
    """
    scatter, words = _kernels().scatter, np.empty(len(codes), np.uint64)
    # For each piece and bucket: first the number of words, then the place of the next one.
    places = np.zeros((-(-len(codes) // _PIECE), 1 << bucket_bits), np.int64)

    def put(piece: slice, there: NDArray[np.uint64]) -> None:
        # The last words of a piece extend into the next one.
        of_piece = packed_words(codes[piece.start : piece.stop + _WORD_BITS // bits], symbols, bits)[:_PIECE]
        scatter(of_piece, _WORD_BITS - bucket_bits, places[piece.start // _PIECE], there)

    for_each_piece(lambda piece: put(piece, words[:0]), len(codes), threads)
    bounds = np.concatenate([[0], np.cumsum(places.sum(axis=0))])
    in_order = places.T.reshape(-1)  # by bucket, and within it by piece
    places[:] = (np.cumsum(in_order) - in_order).reshape(places.T.shape).T
    for_each_piece(lambda piece: put(piece, words), len(codes), threads)
    return words, bounds


def packed_words(codes: Codes, symbols: NDArray[np.uint8], bits: int) -> NDArray[np.uint64]:
    """The word that begins at each place of a sequence, as in a `WordIndex`: uint64 of shape (letters,)."""
    words = np.empty(len(codes), np.uint64)
    _kernels().pack(codes, symbols, bits, words)
    return words


def load_kernels() -> None:
    """Compile what the functions of this module need, or load it from disk."""
    _kernels()


def kernels() -> list[Kernel]:
    """What is compiled here."""
    return [Kernel("absent words", load_kernels)]


def letters_present(codes: Codes) -> NDArray[np.bool_]:
    """Whether each of the 256 codes occurs in a sequence."""
    present = np.zeros(256, np.bool_)
    _kernels().mark_present(codes, present)
    return present


def charge_absent_words(
    codes: Codes,
    symbols: NDArray[np.uint8],
    index: WordIndex,
    most: int,
    a_letter: int,
    charges: IntArray,
    threads: int,
) -> None:
    """Write the charge of each absent word at its first letter, into zeros of shape (letters + 1,), int32.

    The words are disjoint, do not occur in the sequence of `index`, and contain no letter with `NO_SYMBOL`.
    The sequence is cut into pieces. In each, words are found from its end on, each as soon as there is one. A
    word ends where the one found before it begins, at a letter with `NO_SYMBOL`, or at the end of its piece.
    The charge of a word is `most`, or `a_letter` times its number of letters if that is less.
    """
    kernel, fields = _kernels().charge, index.fields()

    def charge(piece: slice) -> None:
        words = packed_words(codes[piece], symbols, index.bits)
        kernel(codes[piece], symbols, words, fields, most, a_letter, charges[piece])

    for_each_piece(charge, len(codes), threads)


def for_each_piece(call: Callable[[slice], None], letters: int, threads: int) -> None:
    """Call a function, in up to `threads` threads, with the places of each piece of a sequence."""
    in_threads(
        call, [slice(start, start + _PIECE) for start in range(0, letters, _PIECE)], max_threads=threads
    )


class _Kernels(NamedTuple):
    mark_present: Callable[..., None]
    pack: Callable[..., None]
    scatter: Callable[..., None]
    fill_starts: Callable[..., None]
    charge: Callable[..., None]


def _mark_present(codes: Any, present: Any) -> None:
    for k in range(codes.shape[0]):
        present[codes[k]] = True


def _pack(codes: Any, symbols: Any, bits: Any, words: Any) -> None:
    word, top, step = _word(0), _word(_WORD_BITS - bits), _word(bits)
    for k in range(codes.shape[0] - 1, -1, -1):
        symbol = symbols[codes[k]]
        if symbol == NO_SYMBOL:
            symbol = 0
        word = (word >> step) | (_word(symbol) << top)
        words[k] = word


def _scatter(words: Any, shift: Any, places: Any, there: Any) -> None:
    """Put each word at the place of its bucket, and move this place on.

    Into an empty array nothing is put, so that the places count the words. `shift` bits of a word follow
    those that words of a bucket share.
    """
    for k in range(words.shape[0]):
        bucket = numba.int64(words[k] >> _word(shift))
        if there.shape[0]:
            there[places[bucket]] = words[k]
        places[bucket] += 1


def _fill_starts(words: Any, begin: Any, end: Any, shift: Any, first: Any, last: Any, starts: Any) -> None:
    """Fill the entries from `first` to `last`: those of the words from `begin` to `end`."""
    filled = first
    for k in range(begin, end):
        first_bits = numba.int64(words[k] >> _word(shift))
        while filled <= first_bits:
            starts[filled] = k
            filled += 1
    while filled < last:
        starts[filled] = end
        filled += 1


def make_lookups() -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Functions for compiled code: whether a word occurs in an index, and whether it occurs exactly once.

    Both take `packed_words`, the places of the word's first letter and after its last one, and
    `WordIndex.fields`. The word must not be empty.
    """

    @inline_by_llvm
    def first_place(packed: Any, start: Any, end: Any, index: Any) -> Any:
        """The place among the sorted words of the first one that begins with this word; -1 if none does."""
        bits, words, starts, shift = index
        unused = _word(_WORD_BITS - (end - start) * bits)
        word = packed[start] >> unused
        lowest = word << unused
        first_bits = numba.int64(lowest >> _word(shift))
        low, high = numba.int64(starts[first_bits]), numba.int64(starts[first_bits + 1])
        while low < high:
            middle = (low + high) >> 1
            if words[middle] < lowest:
                low = middle + 1
            else:
                high = middle
        return low if low < words.shape[0] and words[low] >> unused == word else -1

    @inline_by_llvm
    def occurs(packed: Any, start: Any, end: Any, index: Any) -> Any:
        return first_place(packed, start, end, index) >= 0

    @inline_by_llvm
    def occurs_once(packed: Any, start: Any, end: Any, index: Any) -> Any:
        bits, words, _, _ = index
        place = first_place(packed, start, end, index)
        if place < 0 or place + 1 == words.shape[0]:
            return place >= 0
        unused = _word(_WORD_BITS - (end - start) * bits)
        return words[place] >> unused != words[place + 1] >> unused

    return occurs, occurs_once


def _make_charge() -> Callable[..., None]:
    occurs, _ = make_lookups()

    @inline_by_llvm
    def start_of_word(packed: Any, first: Any, end: Any, index: Any) -> Any:
        """Where the last absent word between `first` and `end` begins; -1 if none is found.

        A word is looked for in its first 64 bits, so a longer one may be taken for present. Words that end
        before `end` are looked at only a quarter of their length apart: usually, all words that contain an
        error are absent.
        """
        longest = _WORD_BITS // index[0]
        present, start = end, max(first, end - longest)
        while occurs(packed, start, min(end, start + longest), index):
            if start == first:
                return -1
            present, start = start, max(first, start - longest // 4)
        while present - start > 1:  # the word at `start` is absent, that at `present` is not, or is empty
            middle = (start + present) >> 1
            if occurs(packed, middle, min(end, middle + longest), index):
                present = middle
            else:
                start = middle
        return start

    def charge(
        codes: Any, symbols: Any, packed: Any, index: Any, most: Any, a_letter: Any, charges: Any
    ) -> None:
        end = codes.shape[0]
        while end > 0:
            first = end
            while first > 0 and symbols[codes[first - 1]] != NO_SYMBOL:
                first -= 1
            while end > first:
                start = start_of_word(packed, first, end, index)
                if start < 0:
                    break
                charges[start] = min(most, (end - start) * a_letter)
                end = start
            end = first - 1

    return charge


@compiled_once
def _kernels() -> _Kernels:
    """The compiled functions, from disk if they are there. Thread-safe."""
    kinds = np.uint8, np.bool_, np.uint64, np.int64, np.int32
    codes, flags, words, numbers, line = (np.zeros(1, kind) for kind in kinds)
    number = 1
    examples: dict[str, tuple[Callable[..., None], list[Any]]] = {
        "mark_present": (_mark_present, [codes, flags]),
        "pack": (_pack, [codes, codes, number, words]),
        "scatter": (_scatter, [words, number, numbers, words]),
        "fill_starts": (_fill_starts, [words, number, number, number, number, number, line]),
        "charge": (
            _make_charge(),
            [codes, codes, words, (number, words, line, number), number, number, line],
        ),
    }
    compiled = {
        name: compile_entry(body, f"absent words {name}", arguments)
        for name, (body, arguments) in examples.items()
    }
    return _Kernels(**compiled)
