"""Substitution matrices: the score of each pair of letters, from Biopython by name or from a file."""

from __future__ import annotations

import difflib
import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

from longalign.errors import InputError
from longalign.model import matrix_files
from longalign.model.alphabet import Alphabet
from longalign.model.json_fields import Fields, is_file_name, whole
from longalign.system.rationals import Number, as_number, simplest

#: The largest number of letters of a substitution matrix.
LARGEST_ALPHABET = 32

#: Larger scores are not read from JSON; those that a scoring allows are far smaller.
_LARGEST_IN_JSON = 1 << 31

#: What Biopython calls the matrix of nucleotides that EMBOSS has under these names.
_IN_BIOPYTHON = {"EDNAFULL": ["NUC.4.4"], "DNAFULL": ["NUC.4.4"]}

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._+-]")
_SHOWN_DIGITS = 12


@dataclass(frozen=True, repr=False)
class SubstitutionMatrix:
    """Scores of letter pairs, as exact numbers; `load` makes one from a name or a file.

    - `name`: letters, digits and `._+-` only.
    - `letters`: 2 to 32 different upper-case ASCII letters or signs, such as `*`.
    - `scores`: a row for each query letter, in it a column for each target letter, both in the order of
      `letters`; shape (len(letters), len(letters)). It need not be symmetric. Scores are integers, Fractions
      or Decimals, and are kept as int where they are whole, otherwise as Fraction.
    - `highest`, `lowest`: the extremes of `scores`.

    Raises InputError for values that are not as described, or if all scores are negative.
    """

    name: str
    letters: str
    scores: tuple[tuple[Number, ...], ...]
    highest: Number = field(init=False, compare=False)
    lowest: Number = field(init=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or _NOT_IN_A_NAME.search(self.name):
            raise InputError(f"matrix {self.name!r}: a name has letters, digits and ._+- only")
        self._check_letters()
        if not isinstance(self.scores, Iterable):
            raise InputError(f"matrix {self.name}: want rows of scores, not {self.scores!r}")
        size, rows = len(self.letters), tuple(self.scores)
        if not all(isinstance(row, Iterable) for row in rows):
            raise InputError(f"matrix {self.name}: want rows of scores, not {self.scores!r}")
        object.__setattr__(self, "scores", tuple(tuple(map(self._exact, row)) for row in rows))
        if len(self.scores) != size or any(len(row) != size for row in self.scores):
            raise InputError(f"matrix {self.name}: {size} letters need {size} rows of {size} scores")
        object.__setattr__(self, "highest", max(map(max, self.scores)))
        object.__setattr__(self, "lowest", min(map(min, self.scores)))
        if self.highest < 0:
            raise InputError(f"matrix {self.name}: all scores are negative, so nothing would align")

    def _check_letters(self) -> None:
        letters = self.letters
        if not isinstance(letters, str):
            raise InputError(f"matrix {self.name}: its letters are a text, not {letters!r}")
        if not 2 <= len(letters) <= LARGEST_ALPHABET:
            raise InputError(f"matrix {self.name}: {len(letters)} letters, not 2 to {LARGEST_ALPHABET}")
        for letter in letters:
            if not "!" <= letter <= "~" or letter != letter.upper() or letter in ">-":
                raise InputError(f"matrix {self.name}: {letter!r} is not an upper-case letter or a sign")
            if letters.count(letter) > 1:
                raise InputError(f"matrix {self.name}: the letter {letter!r} stands there twice")

    def _exact(self, score: object) -> Number:
        try:
            return as_number(score)
        except TypeError:
            raise InputError(
                f"matrix {self.name}: scores must be whole numbers, Fractions or Decimals, not {score!r}"
            ) from None

    @classmethod
    def from_json(cls, data: Any, scale: int = 1) -> SubstitutionMatrix:
        """A substitution matrix from an object with the fields `name`, `letters` and `scores`.

        The scores there are whole numbers in units of 1/`scale`. Raises InputError, naming the field, for any
        other value.
        """
        fields = Fields(data, "scoring.matrix")
        fields.only("name", "letters", "scores")
        name, letters, rows = fields.text("name"), fields.text("letters"), fields.items("scores")
        where, limit = fields.name("scores"), _LARGEST_IN_JSON
        if not all(isinstance(row, list) and len(row) == len(letters) for row in rows):
            raise InputError(f"{where}: must be rows of {len(letters)} scores")
        scores = [[simplest(Fraction(whole(x, where, -limit, limit), scale)) for x in row] for row in rows]
        return cls(name, letters, tuple(map(tuple, scores)))

    @classmethod
    def load(cls, name: str | os.PathLike[str]) -> SubstitutionMatrix:
        """The substitution matrix of Biopython called `name`, such as BLOSUM62 or HOXD70, or else the file
        `name`, or else that of Biopython with this name in another case.

        A file has NCBI's format or is a scores file of LASTZ; see `longalign.model.matrix_files`. Raises
        InputError, with file and line, if there is neither, or if it cannot be used: it is damaged, has pairs
        of letters as letters, or negative scores only.
        """
        given = os.fspath(name) if isinstance(name, str | os.PathLike) else name
        if not isinstance(given, str) or not given or not is_file_name(given):
            raise InputError(f"matrix: want a name or a file, not {name!r}")
        name = given
        return cls.known(name) or cls._read(Path(name), name)

    @classmethod
    def known(cls, name: str) -> SubstitutionMatrix | None:
        """The substitution matrix of Biopython with exactly this name, or None.

        Raises InputError like `load`.
        """
        # Imported here, since runs with match and mismatch do not need it.
        from Bio.Align import substitution_matrices

        if name not in substitution_matrices.load():
            return None
        found = substitution_matrices.load(name)
        if any(len(letter) > 1 for letter in found.alphabet):
            raise InputError(f"matrix {name}: it scores {found.alphabet[0]} and the like, not single letters")
        # The shortest decimal of a float is the text in Biopython's file.
        rows = tuple(tuple(simplest(Fraction(repr(score))) for score in row) for row in found.tolist())
        return cls(name, "".join(found.alphabet), rows)

    @classmethod
    def _read(cls, path: Path, name: str) -> SubstitutionMatrix:
        """The matrix in a file, or Biopython's in another case."""
        try:
            text = matrix_files.read_text(path)
        except FileNotFoundError as error:
            from Bio.Align import substitution_matrices

            names = substitution_matrices.load()
            for known in names:
                if known.upper() == name.upper() and (matrix := cls.known(known)):
                    return matrix
            alike = _IN_BIOPYTHON.get(name.upper()) or difflib.get_close_matches(name.upper(), names, n=1)
            raise InputError(
                f"{path}: there is no such file, and no such matrix in Biopython, "
                + (f"did you mean {alike[0]}?" if alike else "which has BLOSUM62, PAM250, HOXD70 and others")
            ) from error
        letters, rows = matrix_files.parse(path, text)
        try:
            return cls(_NOT_IN_A_NAME.sub("_", path.name), letters, rows)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @cached_property
    def alphabet(self) -> Alphabet:
        """The letters that sequences may have, with their codes."""
        return Alphabet.of_letters(self.name, self.letters)

    @cached_property
    def digest(self) -> str:
        """The first 12 hexadecimal digits of the SHA-256 of letters and scores; the name does not matter."""
        text = f"{self.letters}\n" + "\n".join(" ".join(map(str, row)) for row in self.scores)
        return hashlib.sha256(text.encode()).hexdigest()[:_SHOWN_DIGITS]

    def __hash__(self) -> int:
        return hash((self.name, self.letters))  # cheap; equality compares the scores

    def __repr__(self) -> str:
        return f"SubstitutionMatrix({self.name!r}, {len(self.letters)} letters, {self.digest})"

    def __str__(self) -> str:
        return f"{self.name} ({self.digest})"
