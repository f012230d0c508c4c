"""PAF, the pairwise mapping format of minimap2: one line for each alignment.

A line has twelve columns, then tags. Coordinates are 0-based and half-open and count from the start of the
whole record, even if a region of it was aligned; the length columns are those of whole records. If the strand
is `-`, the reverse complement of the query is aligned: query coordinates are those of the forward strand, and
the CIGAR runs in the direction of the target. longalign writes

- `tp:A:P`  a primary alignment
- `AS:i`    the score; `AS:f` if the scoring has numbers that are not whole
- `NM:i`    mismatches and gap letters
- `cg:Z`    the CIGAR, of = X I D
- `tg:Z`    what the score means: `local;match=1;mismatch=-3;gap(k)=3+2k`, where gap(k) is the cost of
            a gap of length k; or `local;matrix=BLOSUM62:086168af2b7a;gap(k)=10+0.5k`, where the matrix's name
            is followed by the first 12 digits of the SHA-256 of its letters and scores. Numbers are exact: a
            decimal, or a fraction such as `1/3`. It begins with the mode: `local`, `global`, `semiglobal`,
            `overlap`, `fit` or `extend`. `semiglobal` is followed by the ends that are free if not all four
            are: `semiglobal:query-start,target-end`. `;end=given` follows the mode if the user chose the end
            cell (`longalign trace`). At the end stand `;ambiguous=zero`, `;ambiguous=average`, `;unknown=x`,
            `;unknown=mismatch` and `;softmask` if the scoring has these rules

A score that no finite decimal spells, such as 82/3, is rounded in `AS:f` to the nearest double; together with
the numbers of `tg` that still says which one it is.

A `global` alignment spans both records, or the given regions, from end to end. With `end=given` it starts at
their starts. If one of them has no letters, it is one gap. In other modes (see `model.mode`) an end that is
not free is that of the record or region, too. An alignment without columns has no line. The
mapping quality is 255, "not available": it has no meaning for an exact alignment of two given sequences.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from io import BufferedReader, TextIOWrapper
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TextIO, cast

from longalign.errors import InputError, UsageError, reason_of
from longalign.fasta import STDIN
from longalign.fasta.source import GZIP_MAGIC, complaint_of, shown_name
from longalign.model.alignment import Alignment, check_alignment, parse_cigar
from longalign.model.mode import MODES, Mode, ModeName
from longalign.model.scoring import TOO_MANY_LETTERS, Scoring
from longalign.model.sequence import Sequence
from longalign.model.strand import STRAND_SYMBOLS
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.system.rationals import Number, parse_number, simplest, spell, spell_decimal

NO_MAPPING_QUALITY = 255
_COLUMNS = 12

#: Characters of a line that are read before its length is limited. The columns before the tags fit easily.
_HEAD = 1 << 16

#: The largest number of characters in a line for each letter of its two records. An operation of one letter
#: takes two characters of a `cg` tag, and up to two each of a `cs` and an `MD` tag.
_CHARACTERS_A_LETTER = 8

_SHOWN = 40
_NUMBERS = {1: "query length", 2: "query start", 3: "query end", 6: "target length", 7: "target start"}
_NUMBERS |= {8: "target end", 9: "matches", 10: "block length", 11: "mapping quality"}
_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_TAG = re.compile(r"([A-Za-z][A-Za-z0-9]):([AifZHB]):(.*)", re.DOTALL)

_FLOAT = r"[-+]?\d*\.?\d+(?:[eE][-+]?\d+)?"

#: For each tag type of the SAM specification (section 1.5): the pattern of its text, and words for messages.
_VALUES = {
    kind: (re.compile(pattern, re.ASCII), wanted)
    for kind, pattern, wanted in (
        ("A", r"[!-~]", "a printable character"),
        ("i", r"[-+]?\d{1,18}", "a whole number"),
        ("f", _FLOAT, "a number"),
        ("Z", r"[ -~]*", "printable text"),
        ("H", r"(?:[0-9A-F]{2})*", "hexadecimal bytes"),
        ("B", rf"[cCsSiIf](?:,{_FLOAT})*", "an array of numbers"),
    )
}
_SCORE = re.compile(r"[-+]?\d{0,18}(?:\.\d{1,30})?(?:[eE][-+]?\d{1,2})?", re.ASCII)

#: The types that tags may have.
_TYPES = {"tp": "A", "AS": "if", "NM": "i", "cg": "Z", "tg": "Z"}
_EXACT = r"\d{1,18}(?:\.\d{1,30}|/[1-9]\d{0,17})?"
_PAIRS = rf"match=(?P<match>-?{_EXACT});mismatch=(?P<mismatch>-?{_EXACT})"
_MATRIX = r"matrix=(?P<name>[A-Za-z0-9._+-]+):(?P<digest>[0-9a-f]{12})"
_MEANING = re.compile(
    rf"(?P<mode>{'|'.join(map(re.escape, MODES))})(?P<end>;end=given)?;(?:{_PAIRS}|{_MATRIX});"
    rf"gap\(k\)=(?P<open>{_EXACT})\+(?P<extend>{_EXACT})k"
    r"(?:;ambiguous=(?P<ambiguous>zero|average))?(?:;unknown=(?P<unknown>x|mismatch))?(?P<softmask>;softmask)?",
    re.ASCII,
)


def format_paf(alignment: Alignment) -> str:
    """The PAF line of an alignment, without line end; empty for an alignment without columns."""
    if not len(alignment.ops):
        return ""
    meaning = format_meaning(alignment.mode, alignment.scoring, alignment.end_given)
    fields = [
        *_side(alignment.query, alignment.query_start, alignment.query_end),
        STRAND_SYMBOLS[alignment.strand],
        *_side(alignment.target, alignment.target_start, alignment.target_end),
        alignment.matches,
        alignment.columns,
        NO_MAPPING_QUALITY,
        "tp:A:P",
        format_score(alignment.scoring, alignment.score),
        f"NM:i:{alignment.mismatches + alignment.gap_letters}",
        f"cg:Z:{alignment.cigar}",
        f"tg:Z:{meaning}",
    ]
    return "\t".join(map(str, fields))


def _side(sequence: Sequence, start: int, end: int) -> tuple[str, int, int, int]:
    return sequence.name, sequence.record_length, sequence.offset + start, sequence.offset + end


def write_paf(alignment: Alignment, file: TextIO) -> None:
    """Write an alignment to an open text file as one line; nothing for an alignment without columns.

    Raises UsageError for anything but an alignment, and for anything but a text file open for writing.
    """
    check_alignment(alignment)
    try:
        file.write("")
    except (AttributeError, TypeError, ValueError) as error:  # ValueError: it is closed, or only read
        raise UsageError(f"file must be a text file that is open for writing, not {file!r:.60}") from error
    if line := format_paf(alignment):
        file.write(line + "\n")


class Meaning(NamedTuple):
    """The content of a `tg` tag: mode, scoring, and whether the user chose the end cell."""

    mode: Mode
    scoring: Scoring
    end_given: bool = False


def format_meaning(mode: Mode | ModeName, scoring: Scoring, end_given: bool = False) -> str:
    """The text of the `tg` tag."""
    return f"{mode}{';end=given' * end_given};{format_scoring(scoring)}"


def format_scoring(scoring: Scoring) -> str:
    """Letter scores and gap costs as the `tg` tag has them: `match=1;mismatch=-3;gap(k)=3+2k`."""
    matrix, spelled = scoring.matrix, {name: spell(value) for name, value in scoring.given().items()}
    if matrix is not None:
        pairs = f"matrix={matrix.name}:{matrix.digest}"
    else:
        pairs = f"match={spelled['match']};mismatch={spelled['mismatch']}"
    rules = [name if value is True else f"{name}={value}" for name, value in scoring.rules.items()]
    return ";".join([pairs, f"gap(k)={spelled['gap_open']}+{spelled['gap_extend']}k", *rules])


def format_score(scoring: Scoring, score: Number) -> str:
    """The tag `AS`: a whole number, or a decimal if the scoring has numbers that are not whole."""
    if scoring.scale == 1:
        return f"AS:i:{score}"
    return f"AS:f:{spell_decimal(score)}"


@lru_cache(maxsize=16)  # lines of one file repeat it, and loading a matrix takes milliseconds
def parse_meaning(text: str, known: Scoring | None = None) -> Meaning:
    """Parse the text of a `tg` tag. A scoring that is given as `known` replaces the one that the tag names.

    Raises InputError if the text is not that of such a tag, and, without `known`, if the substitution matrix
    is not one of Biopython's.
    """
    found = _MEANING.fullmatch(text)
    if not found:
        raise InputError(
            f"tag tg {_shown(text)} is not like 'local;match=1;mismatch=-3;gap(k)=3+2k' "
            "or 'local;matrix=NAME:DIGEST;gap(k)=10+1k'"
        )
    scoring = _scoring(found) if known is None else known
    return Meaning(MODES[found["mode"]], scoring, found["end"] is not None)


def _scoring(found: re.Match[str]) -> Scoring:
    """The scoring that a `tg` tag names."""
    given: dict[str, Any] = {"gap_open": parse_number(found["open"])}
    given |= {"gap_extend": parse_number(found["extend"]), "softmask": found["softmask"] is not None}
    given |= {name: found[name] for name in ("ambiguous", "unknown") if found[name] is not None}
    if found["name"] is None:
        return Scoring(parse_number(found["match"]), parse_number(found["mismatch"]), **given)
    matrix = SubstitutionMatrix.known(found["name"])
    if matrix is None or matrix.digest != found["digest"]:
        raise InputError(
            f"tag tg: the matrix {found['name']} ({found['digest']}) does not come with Biopython: "
            "give it as a file, with the gap costs"
        )
    return Scoring(matrix=matrix, **given)


@dataclass(frozen=True, slots=True, eq=False)
class PafRecord:
    """A line of a PAF file. The columns are well-formed, but not compared with the sequences.

    `line` counts from 1. `tags` maps the two letters of each tag to its text, `cg` included, and `kinds` to
    its type. Coordinates are 0-based and half-open, on the forward strand of both records.
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
    kinds: dict[str, str]

    @property
    def score(self) -> Number:
        """Tag `AS`, exactly as it is spelled. Raises InputError if it is missing."""
        return simplest(Fraction(self.tag("AS")))

    @property
    def edit_distance(self) -> int:
        """Tag `NM`. Raises InputError if it is missing."""
        return int(self.tag("NM"))

    @property
    def cigar(self) -> str:
        """Tag `cg`. Raises InputError if it is missing."""
        return self.tag("cg")

    def meaning(self, known: Scoring | None = None) -> Meaning:
        """The content of tag `tg`, with a scoring that is `known`, if one is given; see `parse_meaning`.

        Raises InputError if the tag is missing or not longalign's.
        """
        text = self.tag("tg")
        try:
            return parse_meaning(text, known)
        except InputError as error:
            raise InputError(f"{self.source}: line {self.line}: {error}") from error

    def tag(self, name: str) -> str:
        """The text of a tag. Raises InputError if it is missing."""
        if name not in self.tags:
            raise InputError(f"{self.source}: line {self.line}: no {name} tag")
        return self.tags[name]


def read_paf(path: str | os.PathLike[str]) -> Iterator[PafRecord]:
    """The records of a PAF file, plain or gzip, or of stdin for "-", one line at a time; blank lines are
    skipped.

    CIGARs may contain M, as those of minimap2 do. Raises InputError with the number of the line. A line
    longer than its record lengths allow is refused before it is read to its end.
    """
    source = shown_name(os.fspath(path))
    try:
        with _opened(os.fspath(path)) as file:
            for number in count(1):
                try:
                    line = _read_line(file)
                    if line.strip():
                        yield _parse(source, number, line.rstrip("\r\n").split("\t"))
                except InputError as error:
                    raise InputError(f"{source}: line {number}: {error}") from error
                if not line:
                    return
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise InputError(f"{source}: damaged gzip: {complaint_of(error)}") from error
    except OSError as error:
        raise InputError(f"{source}: {reason_of(error)}") from error


@contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    """The text of a file or of stdin."""
    with ExitStack() as stack:
        if path != STDIN:
            file = stack.enter_context(Path(path).open("rb"))
        elif sys.stdin is None:  # the parent process closed it
            raise InputError("stdin: closed")
        else:
            file = cast(BufferedReader, sys.stdin.buffer)
        # Text cannot begin with this byte, and a pipe may give no more than one at first.
        is_gzip = file.peek(1).startswith(GZIP_MAGIC[:1])
        content = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_gzip else file
        # Names are only compared and shown: bytes that are not UTF-8 need not stop the reading.
        text = TextIOWrapper(content, encoding="utf-8", errors="backslashreplace")
        stack.callback(text.detach)  # which otherwise closes stdin
        yield text


def _read_line(file: TextIO) -> str:
    """The next line, empty at the end of the file. Reads no more than a well-formed line can have."""
    head = file.readline(_HEAD)
    if len(head) < _HEAD or head.endswith("\n"):
        return head
    fields = head.split("\t")
    if len(fields) <= _COLUMNS:
        raise InputError(
            f"columns separated by tabs: {len(fields)} in the first {_HEAD} characters, "
            f"want at least {_COLUMNS}"
        )
    letters = sum(min(_column(fields, column), TOO_MANY_LETTERS) for column in (1, 6))
    max_characters = _HEAD + _CHARACTERS_A_LETTER * letters
    line = head + file.readline(max_characters - _HEAD + 1)
    if len(line) > max_characters and not line.endswith("\n"):
        raise InputError(f"more than {max_characters} characters, for records of {letters} letters together")
    return line


def _column(fields: list[str], column: int) -> int:
    """The number in a column, which counts from 0."""
    return _number(fields[column], f"column {column + 1} ({_NUMBERS[column]})")


def _parse(source: str, line: int, fields: list[str]) -> PafRecord:
    if fields[1:2] == ["query_start"]:
        raise InputError("is the header of a table (TSV); want PAF")
    if len(fields) < _COLUMNS:
        raise InputError(f"columns separated by tabs: {len(fields)}, want at least {_COLUMNS}")
    numbers = {column: _column(fields, column) for column in _NUMBERS}
    if fields[4] not in ("+", "-"):
        raise InputError(f"column 5 (strand): {fields[4]!r} is neither '+' nor '-'")
    for side, (length, start, end) in {"query": (1, 2, 3), "target": (6, 7, 8)}.items():
        if not numbers[start] <= numbers[end] <= numbers[length]:
            raise InputError(
                f"columns {start + 1}-{end + 1}: {side} {numbers[start]}-{numbers[end]} "
                f"is not within 0-{numbers[length]}"
            )
    if numbers[11] > NO_MAPPING_QUALITY:
        raise InputError(f"column 12 (mapping quality): {numbers[11]} is not within 0-{NO_MAPPING_QUALITY}")
    tags: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for column, text in enumerate(fields[_COLUMNS:], start=_COLUMNS + 1):
        name, kinds[name], value = _tag(text, column)
        if name in tags:
            raise InputError(f"column {column}: a second tag {name}")
        tags[name] = value
    if "cg" in tags:
        parse_cigar(tags["cg"])  # which raises InputError for another text
    return PafRecord(
        source,
        line,
        *(fields[0], numbers[1], numbers[2], numbers[3], fields[4]),
        *(fields[5], numbers[6], numbers[7], numbers[8]),
        *(numbers[9], numbers[10], numbers[11]),
        tags=tags,
        kinds=kinds,
    )


def _number(text: str, where: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise InputError(f"{where}: {_shown(text)} is not a whole number")
    return int(text)


def _tag(text: str, column: int) -> tuple[str, str, str]:
    """Name, type and text of a tag."""
    found = _TAG.fullmatch(text)
    if not found:
        raise InputError(f"column {column}: {_shown(text)} is not a tag like NM:i:5")
    name, kind, value = found.groups()
    if kind not in _TYPES.get(name, kind):
        raise InputError(
            f"column {column}: tag {name} must be of type {' or '.join(_TYPES[name])}, not {kind}"
        )
    pattern, wanted = _VALUES[kind]
    if not pattern.fullmatch(value):
        raise InputError(f"column {column}: tag {name}: {_shown(value)} is not {wanted}")
    if name == "AS" and not _SCORE.fullmatch(value):
        raise InputError(f"column {column}: tag {name}: {_shown(value)} is no score")
    return name, kind, value


def _shown(text: str) -> str:
    """The beginning of a text, in quotation marks."""
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "...")
