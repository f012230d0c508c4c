"""Reads the files of substitution matrices: NCBI's format, and the scores files of LASTZ and BLASTZ.

In NCBI's format (ftp.ncbi.nlm.nih.gov/blast/matrices) lines that begin with `#` are comments, the first other
line lists the letters of the columns, and each line after it has the letter of a row and its scores. The file
is parsed here because Biopython's reader takes a missing score for 0.

A scores file of LASTZ (its manual, "Scoring files") may have settings such as `gap_open_penalty = 400` before
the letters, comments at the ends of lines, and, like those of BLASTZ, rows without a letter, which are in the
order of the columns. Of its settings none is taken: gap costs are those of the scoring, and `bad_score` and
`fill_score` belong to letters that the matrix does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from longalign.errors import InputError, reason_of
from longalign.system.rationals import Number, parse_number
from longalign.system.sizes import format_size

#: The largest size of a matrix file in bytes, comments included; 32 letters take a few thousand.
_LARGEST_FILE = 1 << 20

_SETTING = re.compile(r"\w+\s*=\s*\S")
_COMMENT_BEHIND = re.compile(r"\s#.*")


def read_text(path: Path) -> str:
    """The text of a matrix file. Raises FileNotFoundError, and InputError where it cannot be a matrix."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
        if len(data) > _LARGEST_FILE:
            raise InputError(f"{path}: not a matrix: larger than {format_size(_LARGEST_FILE)}")
        return data.decode("ascii")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise InputError(f"{path}: {reason_of(error)}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not a matrix: byte {error.start + 1} is not ASCII") from error


def parse(path: Path, text: str) -> tuple[str, tuple[tuple[Number, ...], ...]]:
    """Letters and scores of a matrix file. Raises InputError, naming the line, for anything else."""
    lines = _lines(text)
    number, columns = next(lines, (1, []))
    if any(len(letter) != 1 for letter in columns):
        raise InputError(f"{path}: line {number}: want the letters of the columns, one by one")
    letters = "".join(columns).upper()
    rows: dict[str, tuple[Number, ...]] = {}
    for number, words in lines:
        row, scores = _label(words, letters, len(rows))
        if row not in {*letters} or row in rows:
            again = "a second time" if row in rows else "which is not among the columns"
            raise InputError(f"{path}: line {number}: a row for {row!r}, {again}")
        if len(scores) != len(letters):
            raise InputError(f"{path}: line {number}: {len(scores)} scores for {len(letters)} columns")
        rows[row] = tuple(_number(path, number, word) for word in scores)
    for letter in letters:
        if letter not in rows:
            raise InputError(f"{path}: there is no row for {letter!r}")
    return letters, tuple(rows[letter] for letter in letters)


def _label(words: list[str], letters: str, rows_before: int) -> tuple[str, list[str]]:
    """The letter of a row and its scores; a row without a letter has that of the next column."""
    if len(words) == len(letters) and _is_number(words[0]) and rows_before < len(letters):
        return letters[rows_before], words
    return words[0].upper() if len(words[0]) == 1 else words[0], words[1:]


def _lines(text: str) -> Iterator[tuple[int, list[str]]]:
    """The words of each line that is no setting, neither empty nor a comment, with its number."""
    has_letters = False
    for number, line in enumerate(text.splitlines(), start=1):
        if line.lstrip().startswith("#"):
            continue
        words = _COMMENT_BEHIND.sub("", line).split()
        if not words or (not has_letters and _is_setting(words)):
            continue
        has_letters = True
        yield number, words


def _is_setting(words: list[str]) -> bool:
    """Whether a line before the letters is a setting; `=` alone may be a letter."""
    return any(len(word) > 1 for word in words) and _SETTING.match(" ".join(words)) is not None


def _is_number(word: str) -> bool:
    try:
        parse_number(word)
    except ValueError:
        return False
    return True


def _number(path: Path, line: int, word: str) -> Number:
    try:
        return parse_number(word)
    except ValueError as error:
        raise InputError(f"{path}: line {line}: the score {error}") from error
