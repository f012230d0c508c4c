"""Sequences made from letters, and their codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from longalign.errors import InputError
from longalign.model.alphabet import AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET
from longalign.model.sequence import Sequence

ALPHABET = "ACGTURYSWKMBDHVN"


def text(sequence: Sequence) -> str:
    return sequence.letters.tobytes().decode()


@given(st.text(ALPHABET + ALPHABET.lower(), min_size=1))
def test_text_bytes_and_arrays_are_alike(letters: str) -> None:
    data = [letters, letters.encode(), bytearray(letters.encode()), np.frombuffer(letters.encode(), np.uint8)]
    for sequence in [Sequence.from_letters("x", form) for form in data]:
        assert text(sequence) == letters.upper()
        assert not sequence.letters.flags.writeable
        expected = ["ACGT".find(x.replace("U", "T")) for x in letters.upper()]
        query, target = sequence.as_query(), sequence.as_target()
        assert query.tolist() == [AMBIGUOUS_IN_QUERY if x < 0 else x for x in expected]
        assert target.tolist() == [AMBIGUOUS_IN_TARGET if x < 0 else x for x in expected]
        assert query.dtype == target.dtype == np.uint8
        assert query.flags.c_contiguous
        assert query.flags.writeable


@given(st.text())
def test_any_text_is_taken_or_refused_at_its_first_wrong_letter(letters: str) -> None:
    wrong = [k for k, letter in enumerate(letters) if letter not in ALPHABET + ALPHABET.lower()]
    if not wrong:
        assert text(Sequence.from_letters("x", letters)) == letters.upper()
        return
    with pytest.raises(InputError) as caught:
        Sequence.from_letters("x", letters)
    assert f"sequence 'x': letter {wrong[0] + 1} (counting from 1) is {letters[wrong[0]]!r}" in str(
        caught.value
    )


def test_letters_that_cannot_be_a_sequence() -> None:
    with pytest.raises(InputError, match=r"want an alphabet, as scoring\.alphabet is, not str"):
        Sequence.from_letters("x", "ACGT", alphabet="DNA")
    for name in ("", "two words", "tab\tbed", " x", "x\n"):
        with pytest.raises(InputError, match="a sequence name must be one printable word"):
            Sequence.from_letters(name, "ACGT")
    for array in (np.zeros((2, 2), np.uint8), np.zeros(4, np.int64)):
        with pytest.raises(
            InputError, match="sequence 'x': letters must be a one-dimensional array of uint8"
        ):
            Sequence.from_letters("x", array)


def test_changing_the_array_later_changes_nothing() -> None:
    array = np.frombuffer(b"ACGT", np.uint8).copy()
    sequence = Sequence.from_letters("x", array)
    array[:] = ord("A")
    sequence.as_query()[:] = 0
    assert text(sequence) == "ACGT"


def test_repr_is_short() -> None:
    assert repr(Sequence.from_letters("x", "ACGT" * 1000)) == "Sequence('x', 4000 letters, from 'memory')"
