"""Reads selected records: through an index, out of a 2bit file, or from a file that is read to its end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from longalign.errors import InputError
from longalign.fasta.index import has_fresh_index, read_indexed
from longalign.fasta.selection import Choice, Record, choose, readings
from longalign.fasta.source import DamagedGzip, open_chunks, shown_name
from longalign.fasta.stream import NO_LINE_ENDS, parse
from longalign.fasta.twobit import is_two_bit, read_two_bit, two_bit_names

#: The characters that end a name. `str.split` would also split names at some control characters.
_WHITESPACE = re.compile(r"[ \t\v\f\r]+")


def read_record(path: str, selector: str | None = None) -> Record:
    """Read the record that `selector` means: a name, `name:start-end`, or `start-end` (see `readings`).

    Without a selector, or with a region alone, the file must hold exactly one record. A selector that is
    a record's whole name means that record, even if it looks like a region. `path` "-" is stdin.

    Raises InputError, one line that names the file, and the record and position where there are any.
    """
    choices = readings(selector)
    with _naming(path):
        if is_two_bit(path):
            return read_two_bit(path, choices)
        if selector is not None and has_fresh_index(path) and (record := read_indexed(path, choices)):
            return record
        return _read_streamed(path, choices)


class RecordFile:
    """The records of one file, of which many are wanted.

    A 2bit file, and an indexed one of which only some records are `wanted`, is read record by record when
    they are asked for. Any other file is read once, as a stream, and the wanted records are kept in memory;
    without `wanted`, all are.

    Raises InputError, one line that names the file, if it cannot be read; without `wanted` also if two of its
    records have the same name.
    """

    def __init__(self, path: str, wanted: Collection[str] | None = None) -> None:
        self.path = path
        self._bodies: dict[str, _Body] | None = None
        with _naming(path):
            if is_two_bit(path):
                self.names = two_bit_names(path)
            elif wanted is not None and has_fresh_index(path):
                self.names = []  # not needed: `read_record` finds what is asked for
            else:
                every = [choice for selector in wanted or () for choice in readings(selector)]
                scan = _scan(path, None if wanted is None else every)
                self.names, self._bodies = scan.names, scan.bodies
            if wanted is None and len({*self.names}) < len(self.names):
                twice = next(name for name, count in Counter(self.names).items() if count > 1)
                raise InputError(f"more than one record is named {twice!r}")
        self._counts = Counter(self.names)

    @property
    def kept_letters(self) -> int:
        """How many letters are kept in memory."""
        return sum(len(body.letters) for body in (self._bodies or {}).values())

    def record(self, selector: str) -> Record:
        """The record or region that a selector means, as `read_record` has it."""
        if self._bodies is None:
            return read_record(self.path, selector)
        with _naming(self.path):
            choice, name = choose(self.path, self._counts, readings(selector))
            return self._bodies[name].record(choice, name)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Put the file's name before the text of an InputError, of whatever class."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{shown_name(path)}: {error}") from error


def _read_streamed(path: str, choices: list[Choice]) -> Record:
    scan = _scan(path, choices)
    choice, name = choose(path, Counter(scan.names), choices)
    return scan.bodies[name].record(choice, name)


def _scan(path: str, choices: list[Choice] | None) -> _Scan:
    """Read a file to its end; the records that may be chosen are kept, or all if `choices` is None."""
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
    return scan


@dataclass(slots=True)
class _Body:
    description: str
    letters: bytearray = field(default_factory=bytearray)

    def record(self, choice: Choice, name: str) -> Record:
        """What is chosen of this record, which has this name.

        Raises InputError if the letters seem to be in the header, after carriage returns.
        """
        length = len(self.letters)
        if length == 0 and "\r" in self.description:
            raise InputError(f"record {name!r}: {NO_LINE_ENDS}")
        start, end = choice.bounds(name, length)
        return Record(name, self.description, bytes(memoryview(self.letters)[start:end]), start, length)


class _Scan:
    """The names of all records of a file, and the letters of those records that may be selected.

    The file must be read to its end: only then is it known to be intact, and the name to be unique.
    """

    def __init__(self, choices: list[Choice] | None) -> None:
        self.names: list[str] = []
        self.bodies: dict[str, _Body] = {}
        self.line = 0  # of the last header
        self.nameless = 0  # the line of the first header without a name
        self._wanted = None if choices is None else {choice.name for choice in choices}

    def begin(self, line: int, header: str) -> bytearray | None:
        """Record a header; returns the buffer for the letters, or None if the record cannot be selected."""
        name, *description = re.split(_WHITESPACE, header.strip(" \t\v\f\r"), maxsplit=1)
        if not name:
            self.nameless = self.nameless or line
            return None
        self.names.append(name)
        self.line = line
        wanted = self._wanted
        if wanted is not None and name not in wanted and not (None in wanted and len(self.names) == 1):
            return None
        body = self.bodies[name] = _Body("".join(description).rstrip())
        return body.letters
