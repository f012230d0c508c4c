"""Alphabets: the letters a sequence may have, and the codes by which back ends compare them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

#: An encoded sequence: the code of each letter, uint8 of shape (letters,).
Codes = NDArray[np.uint8]

#: Codes of ambiguity letters in a query and in a target. They differ, so that ambiguity letters never match.
AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET = 4, 5

_BASES = {"A": 0, "C": 1, "G": 2, "T": 3, "U": 3}
_AMBIGUITIES = "RYSWKMBDHVN"


@dataclass(frozen=True, slots=True)
class Alphabet:
    """The letters of sequences, in upper-case ASCII; sequences may have them in either case.

    `name` appears in messages and in stores. The other fields are tables for `bytes.translate`, 256 bytes
    each: `query_codes` and `target_codes` give the code of each upper-case letter on either side; `upper`
    gives the upper case of a letter in either case, and 0 for every other byte.
    """

    name: str
    letters: str
    query_codes: bytes = field(repr=False)
    target_codes: bytes = field(repr=False)
    upper: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        upper = _table({form: ord(x) for x in self.letters for form in (x, x.lower())})
        object.__setattr__(self, "upper", upper)

    @classmethod
    def of_letters(cls, name: str, letters: str) -> Alphabet:
        """An alphabet in which the code of a letter, on both sides, is its index in `letters`."""
        codes = _table({letter: code for code, letter in enumerate(letters)})
        return cls(name, letters, codes, codes)


def _table(values: Mapping[str, int]) -> bytes:
    """A table for `bytes.translate` that maps each letter to its value, and every other byte to 0."""
    table = bytearray(256)
    for letter, value in values.items():
        table[ord(letter)] = value
    return bytes(table)


#: A C G T U and the IUPAC ambiguity letters R Y S W K M B D H V N (NC-IUB, Eur. J. Biochem. 150:1, 1985).
#: U equals T. An ambiguity letter equals no letter, not even itself.
DNA = Alphabet(
    "DNA",
    "".join(_BASES) + _AMBIGUITIES,
    _table(_BASES | dict.fromkeys(_AMBIGUITIES, AMBIGUOUS_IN_QUERY)),
    _table(_BASES | dict.fromkeys(_AMBIGUITIES, AMBIGUOUS_IN_TARGET)),
)
