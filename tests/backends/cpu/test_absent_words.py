"""The index of the words of a sequence, compared with its definition."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from longalign.backends.cpu import absent_words
from longalign.backends.cpu.absent_words import NO_SYMBOL, WordIndex
from longalign.testing.inputs import generators


def words_of(codes, symbols, bits):
    """The words that begin at each letter, as numbers of 64 bits."""
    text = "".join(f"{0 if symbols[code] == NO_SYMBOL else symbols[code]:0{bits}b}" for code in codes)
    padded = text + "0" * 64
    return [int(padded[at : at + 64], 2) for at in range(0, len(text), bits)]


@given(
    st.integers(0, 300),
    st.integers(1, 5),
    st.sampled_from([1, 7, 64, 1 << 20]),
    st.integers(1, 1 << 10),
    st.integers(1, 3),
    generators(),
)
@example(0, 2, 64, 1, 2, np.random.default_rng(0))
@example(65, 2, 64, 1, 2, np.random.default_rng(0))
@example(300, 3, 7, 4, 3, np.random.default_rng(0))
def test_it_holds_all_words_in_order_whatever_the_pieces_and_buckets(
    length, bits, piece, bucket, threads, rng
):
    symbols = np.full(256, NO_SYMBOL, np.uint8)
    symbols[: 1 << bits] = rng.permutation(1 << bits)
    codes = rng.integers(0, (1 << bits) + 1, length).astype(np.uint8)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(absent_words, "_PIECE", piece)
        patched.setattr(absent_words, "_WORDS_A_BUCKET", bucket)
        index = WordIndex.of(codes, symbols, bits, threads)
    expected = sorted(words_of(codes, symbols, bits))
    assert index.words.tolist() == expected
    first_bits = [word >> index.shift for word in expected]
    entries = len(index.starts) - 1
    assert entries == 1 << (64 - index.shift)
    assert index.starts.tolist() == np.searchsorted(first_bits, np.arange(entries + 1)).tolist()
