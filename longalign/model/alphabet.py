"""Alphabets: which letters a sequence may have, how each is read, and the codes that back ends compare."""

from __future__ import annotations

import string
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

#: An encoded sequence: the code of each letter, uint8 of shape (letters,).
Codes = NDArray[np.uint8]

#: Codes of ambiguity letters in a query and in a target. They differ, so that ambiguity letters never match.
AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET = 4, 5

#: The bases that each IUPAC ambiguity letter stands for (NC-IUB, Eur. J. Biochem. 150:1, 1985).
AMBIGUITIES = {
    **{"R": "AG", "Y": "CT", "S": "CG", "W": "AT", "K": "GT", "M": "AC"},
    **{"B": "CGT", "D": "AGT", "H": "ACT", "V": "ACG", "N": "ACGT"},
}

#: The complement of each letter; that of an ambiguity letter stands for the complements of its bases.
_COMPLEMENTS = dict(zip("ACGTURYSWKMBDHVN", "TGCAAYRSWMKVHDBN", strict=True))

BASES = "ACGT"
_CODES_OF_BASES = {**{base: code for code, base in enumerate(BASES)}, "U": BASES.index("T")}

#: What a sequence may have beside the letters of a substitution matrix, if unknown letters are let in.
_OTHERS = string.ascii_uppercase + "*"

#: Letters of proteins that no nucleotide sequence has; X is not among them, as it masks nucleotides.
_PROTEIN_ONLY = frozenset("EFIJLOPQZ*")


@dataclass(frozen=True, slots=True)
class Alphabet:
    """The letters of sequences, in upper-case ASCII; sequences may have them in either case.

    `name` appears in messages and in stores. `masked` is the letter as which every lower-case letter is read,
    or empty if case does not matter. `substitute` is the letter as which every other letter is read, or empty
    if other letters are refused. `unknown` are those of the letters that a substitution matrix lacks.
    `ambiguous` are those that are the same as no letter, not even as themselves: unknown ones and, in an
    alphabet of nucleotides, those that stand for several bases, otherwise X. The other fields are tables for
    `bytes.translate`, 256 bytes each:
    `query_codes` and `target_codes` give the code of each upper-case letter on either side; `upper` gives
    the letter as which each byte is read, and 0 for a byte that is refused; `complement` gives the complement
    of each letter, and is None unless all letters but unknown ones have one.
    """

    name: str
    letters: str
    query_codes: bytes = field(repr=False)
    target_codes: bytes = field(repr=False)
    masked: str = ""
    substitute: str = ""
    unknown: str = ""
    ambiguous: str = field(init=False)
    upper: bytes = field(init=False, repr=False)
    complement: bytes | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        read_as = {letter: self.substitute for letter in _OTHERS if self.substitute}
        read_as |= {letter: letter for letter in self.letters}
        read_as |= {x.lower(): self.masked or read for x, read in read_as.items() if x.lower() != x}
        known = self.letters.translate(dict.fromkeys(map(ord, self.unknown)))
        several = "".join(AMBIGUITIES) if is_nucleotides(known) else "X"
        ambiguous = "".join([letter for letter in self.letters if letter in several + self.unknown])
        object.__setattr__(self, "ambiguous", ambiguous)
        object.__setattr__(self, "upper", _table({x: ord(read) for x, read in read_as.items()}))
        object.__setattr__(self, "complement", self._complement())

    def _complement(self) -> bytes | None:
        """The table of complements. That of an unknown letter is unknown, or else the letter itself."""
        table = {}
        for letter in self.letters:
            other = _COMPLEMENTS.get(letter, "")
            if not other or other not in self.letters or (other in self.unknown) != (letter in self.unknown):
                if letter not in self.unknown:
                    return None
                other = letter
            table[letter] = ord(other)
        return _table(table)

    @classmethod
    def of_letters(cls, name: str, letters: str, masked: str = "", substitute: str = "") -> Alphabet:
        """An alphabet in which the code of a letter, on both sides, is its index in `letters`.

        If these are nucleotides that have only one of T and U, the other one is read as that.
        """
        codes = _codes_of(letters)
        table = _table(codes)
        return cls(name, "".join(codes), table, table, masked, substitute)

    @classmethod
    def with_unknown(cls, name: str, letters: str, masked: str = "") -> Alphabet:
        """The same with every other letter: len(letters) is its code in a query, one more in a target."""
        codes = _codes_of(letters)
        others = "".join([letter for letter in _OTHERS if letter not in codes])
        query, target = (_table(codes | dict.fromkeys(others, len(letters) + side)) for side in (0, 1))
        return cls(name, "".join(codes) + others, query, target, masked, unknown=others)

    @classmethod
    def of_nucleotides(
        cls, query_ambiguities: Mapping[str, int], target_ambiguities: Mapping[str, int], masked: str = ""
    ) -> Alphabet:
        """A C G T, U like T, and the ambiguity letters with these codes on either side."""
        query, target = ({**_CODES_OF_BASES, **codes} for codes in (query_ambiguities, target_ambiguities))
        letters = "".join(_CODES_OF_BASES) + "".join(AMBIGUITIES)
        return cls("DNA", letters, _table(query), _table(target), masked)

    @property
    def begins_with_bases(self) -> bool:
        """Whether the codes 0 to 3 are those of A, C, G and T, in any order, on both sides."""
        bases = BASES.encode()
        return {*bases.translate(self.query_codes)} == {*bases.translate(self.target_codes)} == {*range(4)}

    def are_same(self, query: Codes, target: Codes) -> NDArray[np.bool_]:
        """Whether letters of the query and of the target, one below the other, are the same, by their codes.

        The score does not matter. An ambiguous letter is the same as no letter.
        """
        same: NDArray[np.bool_] = query == target
        letters = self.ambiguous.encode()
        codes = {*letters.translate(self.query_codes)} & {*letters.translate(self.target_codes)}
        if codes:  # otherwise they differ between the sides
            same &= np.isin(query, [*codes], invert=True)
        return same

    def hint(self, letter: str) -> str:
        """What else to do about a letter that is refused, to follow a message; empty if nothing is known."""
        if self.letters == DNA.letters:
            protein = letter.upper() in _PROTEIN_ONLY
            return "; a protein needs --matrix BLOSUM62 --gap-open 10 --gap-extend 1" if protein else ""
        return "; --unknown mismatch admits such letters" if letter.upper() in _OTHERS else ""


def is_nucleotides(letters: str) -> bool:
    """Whether these letters are A, C, G and others, all of them bases or ambiguity letters."""
    return {*"ACG"} <= {*letters} <= {*_CODES_OF_BASES, *AMBIGUITIES}


def _codes_of(letters: str) -> dict[str, int]:
    """The place of each letter; that of T for U, or of U for T, in nucleotides that have only one of them."""
    codes = {letter: code for code, letter in enumerate(letters)}
    if is_nucleotides(letters):
        for one, other in ("UT", "TU"):
            if other in codes:
                codes.setdefault(one, codes[other])
    return codes


def _table(values: Mapping[str, int]) -> bytes:
    """A table for `bytes.translate` that maps each letter to its value, and every other byte to 0."""
    table = bytearray(256)
    for letter, value in values.items():
        table[ord(letter)] = value
    return bytes(table)


def nucleotides(masked: str = "") -> Alphabet:
    """Nucleotides of which an ambiguity letter equals no letter, not even itself."""
    query, target = (dict.fromkeys(AMBIGUITIES, code) for code in (AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET))
    return Alphabet.of_nucleotides(query, target, masked)


def nucleotides_told_apart(masked: str = "") -> Alphabet:
    """The same with a code for each ambiguity letter: `code_meanings` says what the codes stand for."""
    query = {letter: len(BASES) + place for place, letter in enumerate(AMBIGUITIES)}
    target = {letter: code + len(AMBIGUITIES) for letter, code in query.items()}
    return Alphabet.of_nucleotides(query, target, masked)


def code_meanings() -> list[str]:
    """The bases that each code of `nucleotides_told_apart` stands for."""
    return [*BASES, *AMBIGUITIES.values(), *AMBIGUITIES.values()]


#: A C G T U and the ambiguity letters. U equals T, and A is complementary to T.
#: An ambiguity letter equals no letter, not even itself.
DNA = nucleotides()
