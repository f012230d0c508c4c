"""Sequences made from letters, and their codes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import reverse_complement

from longalign.errors import InputError, UsageError
from longalign.model.alphabet import AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET, Alphabet
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.strand import Strand
from longalign.model.substitution_matrix import SubstitutionMatrix

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


@given(st.text(ALPHABET))
def test_the_minus_strand_is_the_reverse_complement(letters: str) -> None:
    sequence = Sequence.from_letters("x", letters, offset=7, record_length=1000).on("minus")
    other = Sequence.from_letters("x", reverse_complement(letters))
    assert sequence.strand_letters.tobytes() == other.letters.tobytes()
    assert (sequence.as_query() == other.as_query()).all()
    assert (sequence.as_target() == other.as_target()).all()
    sequence.as_query()[:] = 0
    assert (text(sequence), sequence.offset, sequence.sha256) == (
        letters, 7, Sequence.from_letters("x", letters).sha256
    )  # fmt: skip
    assert (sequence.on("plus").as_query() == Sequence.from_letters("x", letters).as_query()).all()


@given(st.text(ALPHABET), st.sampled_from(["plus", "minus"]), st.data())
def test_ranges_and_places_of_a_strand(letters: str, strand: Strand, data: st.DataObject) -> None:
    sequence = Sequence.from_letters("x", letters, offset=7, record_length=1000).on(strand)
    start = data.draw(st.integers(0, len(letters)))
    end = data.draw(st.integers(start, len(letters)))
    first, last = sequence.mirrored(start, end)
    assert sequence.mirrored(first, last) == (start, end)
    part = Sequence.from_letters("x", letters[first:last]).on(strand)
    assert part.strand_letters.tobytes() == sequence.strand_letters[start:end].tobytes()
    assert sequence.place_in_record(end) == 7 + (last if strand == "plus" else first)
    beginning = sequence.first(end)
    assert beginning.strand_letters.tobytes() == sequence.strand_letters[:end].tobytes()
    assert text(beginning) == letters[beginning.offset - 7 :][:end]
    assert (beginning.strand, beginning.record_length) == (strand, 1000)


def test_only_dna_has_a_minus_strand() -> None:
    protein = Alphabet.of_letters("letters of one's own", "ABC")
    sequence = Sequence.from_letters("x", "ABBA", alphabet=protein)
    assert sequence.on("plus") is sequence
    with pytest.raises(UsageError, match="x: only DNA has a minus strand: letters of one's own has no"):
        sequence.on("minus")


def test_repr_is_short() -> None:
    assert "4 letters, minus strand, from" in repr(Sequence.from_letters("x", "ACGT").on("minus"))
    assert repr(Sequence.from_letters("x", "ACGT" * 1000)) == "Sequence('x', 4000 letters, from 'memory')"


@pytest.mark.parametrize("unknown", ["error", "mismatch"])
def test_letters_that_were_replaced_are_not_those_of_another_rule(unknown: str) -> None:
    costs = {"matrix": SubstitutionMatrix.load("BLOSUM62"), "gap_open": 10, "gap_extend": 1}
    replaced = Sequence.from_letters("x", "MKUV", alphabet=Scoring(**costs, unknown="x").alphabet)
    assert text(replaced) == "MKXV"
    with pytest.raises(InputError, match="sequence 'x': unknown letters were replaced by X while"):
        replaced.under(Scoring(**costs, unknown=unknown).alphabet)
    assert replaced.under(replaced.alphabet) is replaced
    kept = Sequence.from_letters("x", "MKUV", alphabet=Scoring(**costs, unknown="mismatch").alphabet)
    assert text(kept.under(replaced.alphabet)) == "MKXV"
