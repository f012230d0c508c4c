"""Reads the selected record: through an index, out of a 2bit file, or from a file that is read to its end."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from longalign.errors import InputError
from longalign.fasta.index import has_fresh_index, read_indexed
from longalign.fasta.selection import Choice, Record, choose, readings
from longalign.fasta.source import STDIN, DamagedGzip, open_chunks
from longalign.fasta.stream import parse
from longalign.fasta.twobit import is_two_bit, read_two_bit

#: The characters that end a name. `str.split` would also split names at some control characters.
_WHITESPACE = re.compile(r"[ \t\v\f\r]+")


def read_record(path: str, selector: str | None = None) -> Record:
    """Read the record that `selector` means: a name, `name:start-end`, or `start-end` (see `readings`).

    Without a selector, or with a region alone, the file must hold exactly one record. A selector that is
    a record's whole name means that record, even if it looks like a region. `path` "-" is stdin.

    Raises InputError, one line that names the file, and the record and position where there are any.
    """
    choices = readings(selector)
    try:
        if is_two_bit(path):
            return read_two_bit(path, choices)
        if selector is not None and has_fresh_index(path) and (record := read_indexed(path, choices)):
            return record
        return _read_streamed(path, choices)
    except InputError as error:
        raise InputError(f"{'stdin' if path == STDIN else path}: {error}") from error


def _read_streamed(path: str, choices: list[Choice]) -> Record:
    scan = _Scan(choices)
    with open_chunks(path) as chunks:
        try:
            parse(chunks, scan.begin)
        except DamagedGzip as damage:
            names = scan.names[:-1] if scan.line == damage.line else scan.names  # a header may be torn
            where = f"line {damage.line}" + (f", record {names[-1]!r}" if names else "")
            raise InputError(f"gzip data truncated or damaged at or after {where}: {damage}") from damage
    if scan.nameless:
        raise InputError(f"line {scan.nameless}: a record without a name after '>'")
    choice, name = choose(path, scan.names, choices)
    body = scan.bodies[name]
    length = len(body.letters)
    start, end = choice.bounds(name, length)
    return Record(name, body.description, bytes(memoryview(body.letters)[start:end]), start, length)


@dataclass(slots=True)
class _Body:
    description: str
    letters: bytearray = field(default_factory=bytearray)


class _Scan:
    """The names of all records of a file, and the letters of those records that may be selected.

    The file must be read to its end: only then is it known to be intact, and the name to be unique.
    """

    def __init__(self, choices: list[Choice]) -> None:
        self.names: list[str] = []
        self.bodies: dict[str, _Body] = {}
        self.line = 0  # of the last header
        self.nameless = 0  # the line of the first header without a name
        self._wanted = {choice.name for choice in choices}

    def begin(self, line: int, header: str) -> bytearray | None:
        """Record a header; returns the buffer for the letters, or None if the record cannot be selected."""
        name, *description = re.split(_WHITESPACE, header.strip(" \t\v\f\r"), maxsplit=1)
        if not name:
            self.nameless = self.nameless or line
            return None
        self.names.append(name)
        self.line = line
        if name not in self._wanted and not (None in self._wanted and len(self.names) == 1):
            return None
        body = self.bodies[name] = _Body("".join(description).rstrip())
        return body.letters
