"""Substitution matrices: the score of each pair of letters, from Biopython by name or from a file.

A file has the format of NCBI's matrices (ftp.ncbi.nlm.nih.gov/blast/matrices): lines that begin with `#` are
comments, the first other line lists the letters of the columns, and each line after it has the letter of a
row and its scores. The file is parsed here because Biopython's reader takes a missing score for 0.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from longalign.errors import InputError
from longalign.model.alphabet import Alphabet
from longalign.model.json_fields import Fields
from longalign.system.integers import as_whole
from longalign.system.sizes import format_size

#: The largest number of letters of a substitution matrix.
LARGEST_ALPHABET = 32

#: The largest size of a matrix file in bytes, comments included; 32 letters take a few thousand.
_LARGEST_FILE = 1 << 20

_NOT_IN_A_NAME = re.compile(r"[^A-Za-z0-9._+-]")
_SHOWN_DIGITS = 12


@dataclass(frozen=True)
class SubstitutionMatrix:
    """Whole-number scores of letter pairs; `load` makes one from a name or a file.

    - `name`: letters, digits and `._+-` only.
    - `letters`: 2 to 32 different upper-case ASCII letters or signs, such as `*`.
    - `scores`: a row for each query letter, in it a column for each target letter, both in the order of
      `letters`; shape (len(letters), len(letters)). It need not be symmetric.
    - `highest`, `lowest`: the extremes of `scores`.

    Raises InputError for values that are not as described, or if no score is positive.
    """

    name: str
    letters: str
    scores: tuple[tuple[int, ...], ...]
    highest: int = field(init=False, repr=False, compare=False)
    lowest: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name or _NOT_IN_A_NAME.search(self.name):
            raise InputError(f"matrix {self.name!r}: a name has letters, digits and ._+- only")
        self._check_letters()
        object.__setattr__(self, "scores", tuple(tuple(map(self._whole, row)) for row in self.scores))
        size = len(self.letters)
        if len(self.scores) != size or any(len(row) != size for row in self.scores):
            raise InputError(f"matrix {self.name}: {size} letters need {size} rows of {size} scores")
        object.__setattr__(self, "highest", max(map(max, self.scores)))
        object.__setattr__(self, "lowest", min(map(min, self.scores)))
        if self.highest <= 0:
            raise InputError(f"matrix {self.name}: no score is positive, so nothing would align")

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

    def _whole(self, score: object) -> int:
        try:
            return as_whole(score)
        except TypeError:
            raise InputError(f"matrix {self.name}: scores must be whole numbers, not {score!r}") from None

    @classmethod
    def from_json(cls, data: Any) -> SubstitutionMatrix:
        """A substitution matrix from an object with the fields `name`, `letters` and `scores`.

        Raises InputError, naming the field, for any other value.
        """
        fields = Fields(data, "scoring.matrix")
        fields.only("name", "letters", "scores")
        name, letters, rows = fields.text("name"), fields.text("letters"), fields.items("scores")
        if not all(isinstance(row, list) and len(row) == len(letters) for row in rows):
            raise InputError(f"{fields.name('scores')}: must be rows of {len(letters)} scores")
        return cls(name, letters, tuple(map(tuple, rows)))

    @classmethod
    def load(cls, name: str) -> SubstitutionMatrix:
        """The substitution matrix of Biopython called `name`, such as BLOSUM62 or PAM250, or else the file
        `name`.

        Raises InputError, with file and line, if neither exists, or if it cannot be used: it is damaged, or
        has fractional scores, pairs of letters as letters, or no positive score.
        """
        return cls.known(name) or cls._read(Path(name))

    @classmethod
    def known(cls, name: str) -> SubstitutionMatrix | None:
        """The substitution matrix of Biopython with this name, or None. Raises InputError like `load`."""
        # Imported here, since runs with match and mismatch do not need it.
        from Bio.Align import substitution_matrices

        if name not in substitution_matrices.load():
            return None
        found = substitution_matrices.load(name)
        if any(len(letter) > 1 for letter in found.alphabet):
            raise InputError(f"matrix {name}: it scores {found.alphabet[0]} and the like, not single letters")
        rows = tuple(tuple(_of_float(name, score) for score in row) for row in found.tolist())
        return cls(name, "".join(found.alphabet), rows)

    @classmethod
    def _read(cls, path: Path) -> SubstitutionMatrix:
        try:
            with path.open("rb") as file:
                data = file.read(_LARGEST_FILE + 1)
            if len(data) > _LARGEST_FILE:
                raise InputError(f"{path}: not a matrix: larger than {format_size(_LARGEST_FILE)}")
            text = data.decode("ascii")
        except FileNotFoundError as error:
            raise InputError(
                f"{path}: there is no such file, and no such matrix in Biopython, "
                "which has BLOSUM45, BLOSUM62, BLOSUM80, PAM30, PAM250 and others"
            ) from error
        except OSError as error:
            raise InputError(f"{path}: {(error.strerror or str(error)).lower()}") from error
        except UnicodeDecodeError as error:
            raise InputError(f"{path}: not a matrix: byte {error.start + 1} is not ASCII") from error
        letters, rows = _parse(path, text)
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

    def __str__(self) -> str:
        return f"{self.name} ({self.digest})"


def _of_float(name: str, score: float) -> int:
    if not score.is_integer():
        raise InputError(f"matrix {name}: scores must be whole numbers, not {score}")
    return int(score)


def _parse(path: Path, text: str) -> tuple[str, tuple[tuple[int, ...], ...]]:
    """Letters and scores of a matrix file."""
    lines = _lines(text)
    number, columns = next(lines, (1, []))
    if any(len(letter) != 1 for letter in columns):
        raise InputError(f"{path}: line {number}: want the letters of the columns, one by one")
    letters = "".join(columns).upper()
    rows: dict[str, tuple[int, ...]] = {}
    columns_there = set(letters)
    for number, (letter, *words) in lines:
        row = letter.upper()
        if row not in columns_there or row in rows:
            again = "a second time" if row in rows else "which is not among the columns"
            raise InputError(f"{path}: line {number}: a row for {letter!r}, {again}")
        if len(words) != len(letters):
            raise InputError(f"{path}: line {number}: {len(words)} scores for {len(letters)} columns")
        rows[row] = tuple(_number(path, number, word) for word in words)
    for letter in letters:
        if letter not in rows:
            raise InputError(f"{path}: there is no row for {letter!r}")
    return letters, tuple(rows[letter] for letter in letters)


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """The words of each line that is neither empty nor a comment, with its number."""
    for number, line in enumerate(text.splitlines(), start=1):
        if (words := line.split()) and not line.startswith("#"):
            yield number, words


def _number(path: Path, line: int, word: str) -> int:
    if not re.fullmatch(r"[-+]?\d{1,18}", word, re.ASCII):
        raise InputError(f"{path}: line {line}: the score {word!r} is not a whole number")
    return int(word)
