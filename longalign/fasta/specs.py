"""Sequence specifications: FILE, FILE:NAME, FILE:NAME:START-END or FILE:START-END, where "-" is stdin.

FILE is FASTA or 2bit.

The FILE of a specification is the longest part before a ':' that is an existing file, so that names of files
and of records may contain ':' themselves. If no part exists, the whole specification is the FILE.
"""

from __future__ import annotations

import os
from collections.abc import Collection

from longalign.errors import InputError, UsageError
from longalign.fasta.reader import RecordFile, read_record
from longalign.fasta.selection import Record
from longalign.fasta.source import STDIN
from longalign.model.alphabet import DNA, Alphabet
from longalign.model.json_fields import is_file_name
from longalign.model.sequence import MEMORY, Sequence
from longalign.system.paths import absolute_path

#: Sequences that are kept besides the letters of their records: pairs of one query follow one another.
_KEPT_SEQUENCES = 8


def read_sequence(spec: str | os.PathLike[str], alphabet: Alphabet = DNA) -> Sequence:
    """Read one sequence from a FASTA file (plain, gzip or bgzip), from a 2bit file or from stdin.

    `spec` is `FILE`, `FILE:NAME`, `FILE:NAME:START-END` or `FILE:START-END`, and "-" as FILE is stdin.
    START and END are 0-based and half-open, as everywhere in longalign. With commas between thousands, as
    in `FILE:chr1:1,001-2,000`, they are 1-based and both included, as in samtools: 1000-2000 is the same. END
    may be left out: the region then extends to the end of the record. The longest part before a ':' that is
    an existing file is the FILE. Without a NAME the file must hold exactly one record. A record, or a region
    without commas, may have no letters.

    `alphabet` is DNA (IUPAC codes) or, for a scoring with a substitution matrix, `scoring.alphabet`.

    Raises InputError, one line that names file, record and position, if the file cannot be read, is not
    FASTA, lacks the record or the region, or has a letter outside the alphabet.
    """
    text = _checked(os.fspath(spec) if isinstance(spec, os.PathLike) else spec)
    return sequence_of(read_record(*split_spec(text)), text, alphabet)


class Sequences:
    """The sequences that a specification stands for: the record or region that it names, or all records.

    `selectors` are what `sequence` takes, in the order of the file: names, or those given as `wanted`, which
    may be regions of records. See `RecordFile` for what is kept in memory.

    Raises InputError, one line that names the file, if it cannot be read, and UsageError if both the
    specification and `wanted` name records. A record that cannot be used is an error when it is asked for.
    """

    def __init__(self, spec: str, alphabet: Alphabet = DNA, wanted: Collection[str] | None = None) -> None:
        self._spec, self._alphabet = _checked(spec), alphabet
        self._path, selector = split_spec(spec)
        if selector is None:
            self._file = RecordFile(self._path, wanted)
            self.selectors = list(self._file.names if wanted is None else dict.fromkeys(wanted))
        elif wanted is None:
            self._file = RecordFile(self._path, [selector])
            self.selectors = [selector]
        else:
            raise UsageError(
                f"{spec}: names a record: with a list of pairs, give the whole file {self._path}"
            )
        if not self.selectors:
            raise InputError(f"{self._path}: no records")
        self._is_one_record = selector is None and wanted is None and len(self.selectors) == 1
        self._kept: dict[str, Sequence] = {}  # those used last come last

    @property
    def kept_letters(self) -> int:
        """How many letters of records are kept in memory."""
        return self._file.kept_letters

    def sequence(self, selector: str) -> Sequence:
        """The sequence of a selector. Raises InputError, one line that names file, record and position."""
        found = self._kept.pop(selector, None)
        if found is None:
            source = self._path if self._is_one_record else f"{self._path}:{selector}"
            found = sequence_of(self._file.record(selector), source, self._alphabet)
        self._kept[selector] = found
        if len(self._kept) > _KEPT_SEQUENCES:
            del self._kept[next(iter(self._kept))]
        return found


def _checked(spec: str) -> str:
    """The specification. Raises InputError if it cannot name a file."""
    if not isinstance(spec, str):
        raise InputError(f"the name of a FASTA file is a text or a path, not {type(spec).__name__}")
    if not spec:
        raise InputError("the name of a FASTA file is empty")
    if not is_file_name(spec):
        raise InputError(f"{spec!r}: no file has such a name")
    return spec


def sequence_of(record: Record, source: str, alphabet: Alphabet) -> Sequence:
    """The sequence of a record that was read as the specification `source`."""
    return Sequence.from_letters(
        record.name,
        record.letters,
        source=source,
        description=record.description,
        offset=record.start,
        record_length=record.record_length,
        alphabet=alphabet,
    )


def is_stdin(spec: str) -> bool:
    """Whether a specification means stdin or a record of it. Stdin can be read only once."""
    path, _ = split_spec(spec)
    return path == STDIN


def can_read_again(spec: str) -> bool:
    """Whether a specification names a regular file that exists now; a pipe or stdin cannot be read again."""
    path, _ = split_spec(spec)
    return path != STDIN and os.path.isfile(path)  # noqa: PTH113 - Path.is_file raises EACCES


def with_absolute_path(spec: str) -> str:
    """The specification with an absolute path, so that it is valid in every working directory.

    One that names no existing file is returned unchanged.
    """
    path, selector = split_spec(spec)
    if path == STDIN or spec == MEMORY or not os.path.exists(path):  # noqa: PTH110
        return spec
    absolute = absolute_path(path)
    return absolute if selector is None else f"{absolute}:{selector}"


def is_read_from(spec: str, path: str) -> bool:
    """Whether a specification names the file at `path`; links to one file count as the same file."""
    file, _ = split_spec(spec)
    both = can_read_again(spec) and os.path.exists(path)  # noqa: PTH110
    return both and os.path.samefile(file, path)  # noqa: PTH121


def split_spec(spec: str) -> tuple[str, str | None]:
    """FILE and selector (`NAME`, `NAME:START-END` or `START-END`; None if there is none)."""
    head, selector = spec, None
    while head != STDIN and not os.path.exists(head):  # noqa: PTH110 - Path.exists raises EACCES
        head, colon, _ = head.rpartition(":")
        if not head:
            return spec, None
        selector = spec[len(head) + len(colon) :]
    return head, selector
