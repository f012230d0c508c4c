"""Words that occur exactly once in the other sequence, where an alignment of the two pairs their letters.

`longalign.pruning.gains` calls them *placed words*, and says what they are for. They fill what absent words
leave free, so the first step is to shorten the absent words as much as possible.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Kernel
from longalign.backends.cpu.absent_words import (
    NO_SYMBOL,
    WordIndex,
    for_each_piece,
    make_lookups,
    packed_words,
)
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm
from longalign.model.alphabet import Codes
from longalign.model.boundary import IntArray


def word_letters(letters: int, bits: int) -> int:
    """The length of placed words, in letters of `bits` bits.

    Most words of this length occur only once in a random sequence of `letters` letters.
    """
    return min(letters.bit_length() // bits + 2, 64 // bits)


def charge_placed_words(
    codes: Codes,
    symbols: NDArray[np.uint8],
    index: WordIndex,
    other: Codes,
    other_symbols: NDArray[np.uint8],
    stretches: NDArray[np.int64],
    most: int,
    a_letter: int,
    charges: IntArray,
    threads: int,
) -> None:
    """Write minus the charge of each placed word at its first letter, among the charges of absent words.

    `charges` are those of `charge_absent_words`, of which each is lowered to what the shortest absent word
    costs that begins there. A placed word lies between these words. It occurs once in the sequence of
    `index`, that of `other`, and a row of `stretches` pairs it letter by letter: the first place and the one
    after the last in `codes`, and the first place in `other`. Rows are in ascending order.
    """
    length = word_letters(len(other), index.bits)
    kernel, fields, stretches = _kernel(), index.fields(), np.ascontiguousarray(stretches)

    def charge(piece: slice) -> None:
        before = np.searchsorted(stretches[:, 0], piece.stop)  # those that begin before its end
        words = packed_words(codes[piece], symbols, index.bits)
        kernel(
            codes[piece], symbols, words, fields, other, other_symbols, stretches[:before], piece.start,
            length, most, a_letter, charges[piece],
        )  # fmt: skip

    for_each_piece(charge, len(codes), threads)


def kernels() -> list[Kernel]:
    """What is compiled here."""
    return [Kernel("placed words", _kernel)]


def _make_charge() -> Callable[..., None]:
    occurs, occurs_once = make_lookups()

    @inline_by_llvm
    def shortest_absent(packed: Any, start: Any, end: Any, index: Any) -> Any:
        """The end of the shortest absent word that begins at `start`. There is one, and it ends by `end`."""
        present, absent = start, min(end, start + 64 // index[0])
        while absent - present > 1:
            middle = (present + absent) >> 1
            if occurs(packed, start, middle, index):
                present = middle
            else:
                absent = middle
        return absent

    @inline_by_llvm
    def last_unpaired(
        codes: Any, symbols: Any, other: Any, other_symbols: Any, start: Any, end: Any, ahead: Any
    ) -> Any:
        """The last letter that differs from its partner, which is `ahead` places further; -1 if none does."""
        for k in range(end - 1, start - 1, -1):
            if symbols[codes[k]] != other_symbols[other[k + ahead]]:
                return k
        return -1

    def charge(
        codes: Any,
        symbols: Any,
        packed: Any,
        index: Any,
        other: Any,
        other_symbols: Any,
        stretches: Any,
        first: Any,
        length: Any,
        most: Any,
        a_letter: Any,
        charges: Any,
    ) -> None:
        stretch, end, charged = stretches.shape[0] - 1, codes.shape[0], min(most, length * a_letter)
        for k in range(codes.shape[0] - 1, -2, -1):
            begin = k + 1  # of the letters up to `end` that no absent word contains
            if k >= 0:
                if charges[k] > 0:
                    begin = shortest_absent(packed, k, end, index)
                    charges[k] = min(most, (begin - k) * a_letter)
                elif symbols[codes[k]] != NO_SYMBOL:
                    continue
            place = end - length
            while place >= begin:
                while stretch >= 0 and stretches[stretch, 0] > first + place:
                    stretch -= 1
                if stretch < 0:
                    break
                last = stretches[stretch, 1] - first - length
                ahead = first + stretches[stretch, 2] - stretches[stretch, 0]
                if place > last:
                    place = last
                    continue
                unpaired = last_unpaired(codes, symbols, other, other_symbols, place, place + length, ahead)
                if unpaired >= 0:
                    place = unpaired - length
                elif occurs_once(packed, place, place + length, index):
                    charges[place] = -charged
                    place -= length
                else:
                    place -= max(1, length // 4)
            end = k

    return charge


@compiled_once
def _kernel() -> Callable[..., None]:
    """The compiled function, from disk if it is there. Thread-safe."""
    codes, words, line, number = np.zeros(1, np.uint8), np.zeros(1, np.uint64), np.zeros(1, np.int32), 1
    index = number, words, line, number
    examples = [codes, codes, words, index, codes, codes, np.zeros((1, 3), np.int64), *4 * [number], line]
    return compile_entry(_make_charge(), "placed words", examples)
