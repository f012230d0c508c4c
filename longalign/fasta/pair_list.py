"""A list of pairs: a text file with two columns, names of query and of target records.

Columns are separated by tabs or spaces. A name may be followed by a region, as in specifications. Empty lines
and lines that begin with '#' are skipped, and so is a first line "query target", in either case.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from longalign.errors import InputError
from longalign.fasta.source import DamagedGzip, open_chunks, shown_name

_HEADER = ["query", "target"]

#: The most bytes of a list: those of some millions of pairs. A file without an end, such as /dev/zero, would
#: otherwise fill the memory.
_LARGEST = 1 << 28


class NamedPair(NamedTuple):
    """The selectors of a pair, and the line of the file where they stand, counted from 1."""

    query: str
    target: str
    line: int


def read_pairs(path: str) -> list[NamedPair]:
    """The pairs in a file, plain or gzip, or on stdin for "-".

    Raises InputError, one line that names the file and the line, if it cannot be read, if a line has not two
    columns, or if there is no pair.
    """
    shown = shown_name(path)
    try:
        with open_chunks(path) as chunks:
            text = _joined(chunks).decode("utf-8-sig")
    except (InputError, DamagedGzip) as error:
        raise InputError(f"{shown}: {error}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(f"{shown}: line {line}: not a list of pairs: it is not text in UTF-8") from error
    pairs: list[NamedPair] = []
    for number, text_line in enumerate(text.split("\n"), start=1):
        columns = text_line.split()
        is_header = not pairs and [column.lower() for column in columns] == _HEADER
        if not columns or columns[0].startswith("#") or is_header:
            continue
        if len(columns) != 2:
            raise InputError(
                f"{shown}: line {number}: want two columns, the names of a query and a target record, "
                f"not {len(columns)}"
            )
        query, target = columns
        pairs.append(NamedPair(query, target, number))
    if not pairs:
        raise InputError(f"{shown}: no pairs")
    return pairs


def _joined(chunks: Iterable[bytes]) -> bytes:
    """All chunks. Raises InputError if they are too large for a list of pairs."""
    content = bytearray()
    for chunk in chunks:
        content += chunk
        if len(content) > _LARGEST:
            raise InputError(f"larger than a list of pairs may be, {_LARGEST:,} bytes")
    return bytes(content)
