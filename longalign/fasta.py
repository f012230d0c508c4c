"""One record out of a FASTA file: plain, gzip or bgzip, from disk or a pipe, whole or a region of it.

Files are read as streams, so that truncation is noticed and the rest of a genome needs no memory.
Where a record is asked for by name and an index lies beside the file (`.fai`, and `.gzi` for bgzip),
only that record is read. No index is ever written.
"""

from __future__ import annotations

import gzip
import io
import re
import sys
import zlib
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import pysam

from longalign.errors import InputError

STDIN = "-"

_GZIP_MAGIC = b"\x1f\x8b"
_BGZF_SUBFIELD = b"BC"  # bytes 12-13 of a gzip header that bgzip wrote
#: bgzip ends every file with this empty block; a file cut between two blocks is else a valid gzip.
_BGZF_END = bytes.fromhex("1f8b08040000000000ff0600424302001b0003000000000000000000")

_REGION = re.compile(r"(?:(?P<name>.+):)?(?P<start>\d{1,18})-(?P<end>\d{1,18})", re.DOTALL)
_WHITESPACE = b" \t\r\n\v\f"
_NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Record:
    """A FASTA record, or a region of one. Coordinates are 0-based and half-open.

    `letters` are those of the file with white space removed, for start .. start + len(letters) of a
    record that has `record_length` letters. `description` is the header after the name; it is empty if
    the record came through an index.
    """

    name: str
    description: str
    letters: bytes
    start: int
    record_length: int


@dataclass(frozen=True, slots=True)
class _Choice:
    """One reading of what the user asked for; no name means the only record of the file."""

    name: str | None = None
    start: int = 0
    end: int | None = None


@dataclass(slots=True)
class _Body:
    description: str
    letters: bytearray = field(default_factory=bytearray)


def read_record(path: str, selector: str | None = None) -> Record:
    """Read the record that `selector` means: a name, `name:start-end`, or `start-end`.

    Without a selector, or with a region alone, the file must hold exactly one record. A selector that is
    a record's whole name means that record, even if it looks like a region. `path` "-" is stdin.

    Raises InputError, one line that names the file, and the record and position where there are any.
    """
    choices = _readings(selector)
    if selector is not None and _has_fresh_index(path):
        return _read_indexed(path, choices)
    names, bodies = _scan(path, choices)
    choice, name = _choose(path, names, choices)
    body = bodies[name]
    letters = bytes(body.letters.translate(None, _WHITESPACE))
    start, end = _bounds(path, name, choice, len(letters))
    return Record(name, body.description, letters[start:end], start, len(letters))


def _readings(selector: str | None) -> list[_Choice]:
    """What a selector can mean, the likeliest first: names may contain ':' and '-'."""
    if selector is None:
        return [_Choice()]
    choices = [_Choice(selector)]
    if region := _REGION.fullmatch(selector):
        choices.append(_Choice(region["name"], int(region["start"]), int(region["end"])))
    return choices


def _choose(path: str, names: Collection[str], choices: list[_Choice]) -> tuple[_Choice, str]:
    """The first reading that fits the names in the file, and the record's name."""
    for choice in choices:
        if choice.name is None and len(names) == 1:
            return choice, next(iter(names))
        found = [name for name in names if name == choice.name]
        if len(found) > 1:
            raise InputError(f"{_shown(path)}: more than one record is named {found[0]!r}")
        if found:
            return choice, found[0]
    some = ", ".join(list(names)[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    asked = choices[-1].name
    if asked is None:
        raise InputError(f"{_shown(path)}: {len(names)} records, choose one as {path}:NAME from {some}")
    raise InputError(f"{_shown(path)}: no record named {asked!r}; the file has {some}")


def _bounds(path: str, name: str, choice: _Choice, length: int) -> tuple[int, int]:
    """Start and end of a choice within a record of `length` letters."""
    if length == 0:
        raise InputError(f"{_shown(path)}: record {name!r} has no letters")
    end = length if choice.end is None else choice.end
    if not choice.start < end <= length:
        raise InputError(
            f"{_shown(path)}: record {name!r}: region {choice.start}-{end} is empty or not inside "
            f"0-{length} (regions are 0-based and half-open)"
        )
    return choice.start, end


def _scan(path: str, choices: list[_Choice]) -> tuple[list[str], dict[str, _Body]]:
    """Read a file to its end: the names of all records, and the records that a choice may mean.

    Going on to the end is what finds truncation and a second record of the same name.
    """
    wanted = {choice.name for choice in choices}
    names: list[str] = []
    bodies: dict[str, _Body] = {}
    body: _Body | None = None
    number = 0
    with _open(path) as lines:
        try:
            for number, line in enumerate(lines, start=1):
                if line.startswith(b">"):
                    name, description = _header(path, number, line)
                    names.append(name)
                    body = None
                    if name in wanted or (None in wanted and len(names) == 1):
                        body = bodies[name] = _Body(description)
                elif body is not None:
                    body.letters += line
                elif not names and line.strip(_WHITESPACE):
                    raise InputError(
                        f"{_shown(path)}: not FASTA: line {number} begins with {_excerpt(line)}, not with '>'"
                    )
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            where = f"at or after line {number + 1}" + (f", record {names[-1]!r}" if names else "")
            raise InputError(
                f"{_shown(path)}: gzip data truncated or damaged {where}: {str(error).lower()}"
            ) from error
    if not names:
        raise InputError(f"{_shown(path)}: " + ("no FASTA record" if number else "empty file"))
    return names, bodies


def _header(path: str, number: int, line: bytes) -> tuple[str, str]:
    """Name and description of a header line."""
    words = line[1:].decode("utf-8", "backslashreplace").split(maxsplit=1)
    if not words:
        raise InputError(f"{_shown(path)}: line {number}: a record without a name after '>'")
    return words[0], words[1].strip() if len(words) > 1 else ""


def _excerpt(line: bytes) -> str:
    return repr(line[:12].rstrip(b"\r\n"))[1:]


def _shown(path: str) -> str:
    return "stdin" if path == STDIN else path


class _Source(io.RawIOBase):
    """Bytes of a file or pipe, knowing its first bytes in advance and, at the end, its last ones."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self.head = stream.read(18)  # as much as tells bgzip from gzip from text
        self._pending = self.head
        self.tail = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        data = self._pending or self._stream.read(len(buffer))
        data, self._pending = data[: len(buffer)], data[len(buffer) :]
        buffer[: len(data)] = data
        self.tail = (self.tail + data)[-len(_BGZF_END) :]
        return len(data)


@contextmanager
def _open(path: str) -> Iterator[Iterator[bytes]]:
    """The decompressed lines of a file or of stdin.

    Iterating raises EOFError, BadGzipFile or zlib.error where gzip data are damaged.
    """
    try:
        if path == STDIN:
            yield _lines(_Source(sys.stdin.buffer))
        else:
            with Path(path).open("rb") as stream:
                yield _lines(_Source(stream))
    except gzip.BadGzipFile:
        raise
    except OSError as error:
        raise InputError(f"{_shown(path)}: {(error.strerror or str(error)).lower()}") from error


def _lines(source: _Source) -> Iterator[bytes]:
    buffered = io.BufferedReader(source, 1 << 20)
    if not source.head.startswith(_GZIP_MAGIC):
        yield from buffered
        return
    with gzip.GzipFile(fileobj=buffered) as stream:
        yield from io.BufferedReader(stream)  # small, so that an error is reported near its place
    if source.head[12:14] == _BGZF_SUBFIELD and source.tail != _BGZF_END:
        raise EOFError("the end-of-file block of bgzip is missing")


def _has_fresh_index(path: str) -> bool:
    """Whether a usable index lies beside the file; one older than the file may belong to other data."""
    if path == STDIN:
        return False
    file = Path(path)
    try:
        if not file.is_file():  # reading the first bytes of a pipe would lose them
            return False
        with file.open("rb") as stream:
            suffixes = [".fai", ".gzi"] if stream.read(2) == _GZIP_MAGIC else [".fai"]
        age = file.stat().st_mtime_ns
        return all(Path(path + suffix).stat().st_mtime_ns >= age for suffix in suffixes)
    except OSError:  # no index, or no permission: reading the file itself tells
        return False


def _read_indexed(path: str, choices: list[_Choice]) -> Record:
    verbosity = pysam.set_verbosity(0)  # htslib would print its own message beside ours
    try:
        with pysam.FastaFile(path) as fasta:
            choice, name = _choose(path, fasta.references, choices)
            length = fasta.get_reference_length(name)
            start, end = _bounds(path, name, choice, length)
            letters = fasta.fetch(name, start, end).encode("ascii", "replace")
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read through its index {path}.fai: {error}") from error
    finally:
        pysam.set_verbosity(verbosity)
    if len(letters) != end - start:
        raise InputError(
            f"{path}: record {name!r}: only {len(letters)} of letters {start}-{end} could be read: "
            f"the file is truncated, or its index {path}.fai belongs to another file"
        )
    return Record(name, "", letters, start, length)
