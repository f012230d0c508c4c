"""Which letters a sequence may have, and the codes that back ends see instead of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

#: A sequence as back ends see it: the code of each letter, uint8 of shape (letters,).
Codes = NDArray[np.uint8]

#: Codes of ambiguity letters: one that no target has, and one that no query has.
AMBIGUOUS_IN_QUERY, AMBIGUOUS_IN_TARGET = 4, 5

_BASES = {"A": 0, "C": 1, "G": 2, "T": 3, "U": 3}
_AMBIGUITIES = "RYSWKMBDHVN"


@dataclass(frozen=True, slots=True)
class Alphabet:
    """Letters, upper-case ASCII, of which either case is read; `name` says whose they are.

    The rest are tables for `bytes.translate`: `upper` has the upper case of each letter and 0 for every
    byte that is none; `query_codes` and `target_codes` what back ends compare, on either side.
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
        """An alphabet in which a letter's code, on both sides, is its place in `letters`."""
        codes = _table({letter: code for code, letter in enumerate(letters)})
        return cls(name, letters, codes, codes)


def _table(values: Mapping[str, int]) -> bytes:
    """A table for `bytes.translate`: the letters given, and 0 for every other byte."""
    table = bytearray(256)
    for letter, value in values.items():
        table[ord(letter)] = value
    return bytes(table)


#: A C G T U and the ambiguity letters R Y S W K M B D H V N of IUPAC (Nomenclature Committee,
#: Eur. J. Biochem. 150:1, 1985). U equals T. An ambiguity letter equals nothing, not even itself.
DNA = Alphabet(
    "DNA",
    "".join(_BASES) + _AMBIGUITIES,
    _table(_BASES | dict.fromkeys(_AMBIGUITIES, AMBIGUOUS_IN_QUERY)),
    _table(_BASES | dict.fromkeys(_AMBIGUITIES, AMBIGUOUS_IN_TARGET)),
)
