"""PAF, the pairwise mapping format of minimap2: one line an alignment.

Twelve columns, then tags. Coordinates are 0-based and half-open and count from the start of the whole
record, also where a region of it was aligned; the length columns give whole records. longalign writes

- `tp:A:P`  a primary alignment
- `AS:i`    the score
- `NM:i`    mismatches and gap letters
- `cg:Z`    the CIGAR, of = X I D
- `tg:Z`    what the score means: `local;match=1;mismatch=-3;gap(k)=3+2k`, where gap(k) is the cost of
            a gap of length k; or `local;matrix=BLOSUM62:086168af2b7a;gap(k)=10+1k`, where the matrix's name
            is followed by the first 12 digits of the SHA-256 of its letters and scores

The mapping quality is 255, "not available": an exact alignment of two given sequences has none.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO, cast

from longalign.alignment import Alignment, Lengths, Mode, Ops, parse_cigar
from longalign.errors import InputError
from longalign.fasta import STDIN
from longalign.fasta.source import GZIP_MAGIC
from longalign.matrix import SubstitutionMatrix
from longalign.scoring import Scoring
from longalign.sequence import Sequence

_NO_MAPPING_QUALITY = 255
_COLUMNS = 12
_NUMBERS = {1: "query length", 2: "query start", 3: "query end", 6: "target length", 7: "target start"}
_NUMBERS |= {8: "target end", 9: "matches", 10: "block length", 11: "mapping quality"}
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_INTEGER = re.compile(r"[-+]?\d{1,18}", re.ASCII)
_TAG = re.compile(r"([A-Za-z][A-Za-z0-9]):([AifZHB]):(.*)", re.DOTALL)
_PAIRS = r"match=(?P<match>-?\d{1,18});mismatch=(?P<mismatch>-?\d{1,18})"
_MATRIX = r"matrix=(?P<name>[A-Za-z0-9._+-]+):(?P<digest>[0-9a-f]{12})"
_MEANING = re.compile(
    rf"(?P<mode>local|global);(?:{_PAIRS}|{_MATRIX});gap\(k\)=(?P<open>\d{{1,18}})\+(?P<extend>\d{{1,18}})k",
    re.ASCII,
)


def format_paf(alignment: Alignment) -> str:
    """The PAF line of an alignment, without line end; empty for an alignment without columns."""
    if not len(alignment.ops):
        return ""
    meaning = format_meaning(alignment.mode, alignment.scoring)
    fields = [
        *_side(alignment.query, alignment.query_start, alignment.query_end),
        "+",
        *_side(alignment.target, alignment.target_start, alignment.target_end),
        alignment.matches,
        alignment.columns,
        _NO_MAPPING_QUALITY,
        "tp:A:P",
        f"AS:i:{alignment.score}",
        f"NM:i:{alignment.mismatches + alignment.gap_letters}",
        f"cg:Z:{alignment.cigar}",
        f"tg:Z:{meaning}",
    ]
    return "\t".join(map(str, fields))


def _side(sequence: Sequence, start: int, end: int) -> tuple[str, int, int, int]:
    return sequence.name, sequence.record_length, sequence.offset + start, sequence.offset + end


def write_paf(alignment: Alignment, file: TextIO) -> None:
    """Write an alignment as one line; nothing for an alignment without columns."""
    if line := format_paf(alignment):
        file.write(line + "\n")


def format_meaning(mode: Mode, scoring: Scoring) -> str:
    """The text of the `tg` tag."""
    matrix = scoring.matrix
    pairs = f"match={scoring.match};mismatch={scoring.mismatch}"
    if matrix is not None:
        pairs = f"matrix={matrix.name}:{matrix.digest}"
    return f"{mode};{pairs};gap(k)={scoring.gap_open}+{scoring.gap_extend}k"


def parse_meaning(text: str) -> tuple[Mode, Scoring]:
    """Mode and scoring from the text of a `tg` tag.

    Raises InputError, also if the scoring has a matrix that does not come with Biopython.
    """
    found = _MEANING.fullmatch(text)
    if not found:
        raise InputError(
            f"tag tg {text!r} is not like 'local;match=1;mismatch=-3;gap(k)=3+2k' "
            "or 'local;matrix=NAME:DIGEST;gap(k)=10+1k'"
        )
    mode, costs = cast(Mode, found["mode"]), (int(found["open"]), int(found["extend"]))
    if found["name"] is None:
        return mode, Scoring(int(found["match"]), int(found["mismatch"]), *costs)
    matrix = SubstitutionMatrix.known(found["name"])
    if matrix is None or matrix.digest != found["digest"]:
        raise InputError(
            f"tag tg: the matrix {found['name']} ({found['digest']}) does not come with Biopython: "
            "give it as a file, with the gap costs"
        )
    return mode, Scoring(gap_open=costs[0], gap_extend=costs[1], matrix=matrix)


@dataclass(frozen=True, slots=True, eq=False)
class PafRecord:
    """A line of a PAF file, as it stands there: columns are checked for sense, not for truth.

    `line` counts from 1. `tags` holds the text of each tag under its two letters, `cg` included; `ops`
    and `lengths` are the runs of `cg`, and None where there is no such tag. Coordinates are 0-based,
    half-open, on the forward strand of both records.
    """

    source: str
    line: int
    query_name: str
    query_length: int
    query_start: int
    query_end: int
    strand: str
    target_name: str
    target_length: int
    target_start: int
    target_end: int
    matches: int
    block_length: int
    mapping_quality: int
    tags: dict[str, str]
    ops: Ops | None
    lengths: Lengths | None

    @property
    def score(self) -> int:
        """Tag `AS`. Raises InputError if it is missing."""
        return int(self.tag("AS"))

    @property
    def edit_distance(self) -> int:
        """Tag `NM`. Raises InputError if it is missing."""
        return int(self.tag("NM"))

    @property
    def cigar(self) -> str:
        """Tag `cg`. Raises InputError if it is missing."""
        return self.tag("cg")

    @property
    def meaning(self) -> tuple[Mode, Scoring]:
        """Mode and scoring from tag `tg`. Raises InputError if it is missing or not longalign's."""
        try:
            return parse_meaning(self.tag("tg"))
        except InputError as error:
            raise InputError(f"{self.source}: line {self.line}: {error}") from error

    def tag(self, name: str) -> str:
        """The text of a tag. Raises InputError if it is missing."""
        if name not in self.tags:
            raise InputError(f"{self.source}: line {self.line}: no {name} tag")
        return self.tags[name]


def read_paf(path: str | os.PathLike[str]) -> Iterator[PafRecord]:
    """The records of a PAF file, plain or gzip, or of stdin for "-", a line at a time, but for blank lines.

    CIGARs may hold M, as those of minimap2 do. Raises InputError with the number of the line.
    """
    source = os.fspath(path)
    try:
        with _opened(source) as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    try:
                        yield _parse(source, number, line.rstrip("\r\n").split("\t"))
                    except InputError as error:
                        raise InputError(f"{source}: line {number}: {error}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{source}: damaged gzip: {str(error).lower()}") from error
    except UnicodeDecodeError as error:  # from stdin, which is as strict as the locale says
        raise InputError(f"{source}: not PAF: byte {error.start + 1} of what was read is not text") from error
    except OSError as error:
        raise InputError(f"{source}: {(error.strerror or str(error)).lower()}") from error


@contextmanager
def _opened(source: str) -> Iterator[TextIO]:
    """The text of a file or of stdin."""
    if source != STDIN:
        with Path(source).open("rb") as file:
            is_gzip = file.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC)
            content = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_gzip else file
            # Names are only compared and shown: bytes that are not UTF-8 need not stop the reading.
            yield TextIOWrapper(content, encoding="utf-8", errors="backslashreplace")
    elif sys.stdin is None:  # closed by whoever started us
        raise InputError("stdin: closed")
    else:
        yield sys.stdin


def _parse(source: str, line: int, fields: list[str]) -> PafRecord:
    if len(fields) < _COLUMNS:
        raise InputError(f"columns separated by tabs: {len(fields)}, want at least {_COLUMNS}")
    numbers = {
        column: _number(fields[column], f"column {column + 1} ({n})") for column, n in _NUMBERS.items()
    }
    if fields[4] not in ("+", "-"):
        raise InputError(f"column 5 (strand): {fields[4]!r} is neither '+' nor '-'")
    for side, (length, start, end) in {"query": (1, 2, 3), "target": (6, 7, 8)}.items():
        if not numbers[start] <= numbers[end] <= numbers[length]:
            raise InputError(
                f"columns {start + 1}-{end + 1}: {side} {numbers[start]}-{numbers[end]} "
                f"is not within 0-{numbers[length]}"
            )
    tags: dict[str, str] = {}
    for column, text in enumerate(fields[_COLUMNS:], start=_COLUMNS + 1):
        name, value = _tag(text, column)
        if name in tags:
            raise InputError(f"column {column}: a second tag {name}")
        tags[name] = value
    runs = parse_cigar(tags["cg"]) if "cg" in tags else (None, None)
    return PafRecord(
        source,
        line,
        *(fields[0], numbers[1], numbers[2], numbers[3], fields[4]),
        *(fields[5], numbers[6], numbers[7], numbers[8]),
        *(numbers[9], numbers[10], numbers[11], tags, *runs),
    )


def _number(text: str, where: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise InputError(f"{where}: {text!r} is not a whole number")
    return int(text)


def _tag(text: str, column: int) -> tuple[str, str]:
    found = _TAG.fullmatch(text)
    if not found:
        shown = text if len(text) <= 40 else text[:40] + "..."
        raise InputError(f"column {column}: {shown!r} is not a tag like NM:i:5")
    name, kind, value = found.groups()
    if kind == "i" and not _INTEGER.fullmatch(value):
        raise InputError(f"column {column}: tag {name}: {value!r} is not a whole number")
    if name in ("AS", "NM") and kind != "i":
        raise InputError(f"column {column}: tag {name} must be of type i, not {kind}")
    return name, value
