"""Sequence specifications: FILE, FILE:NAME, FILE:NAME:START-END or FILE:START-END, where "-" is stdin.

FILE is FASTA or 2bit.

The FILE of a specification is the longest part before a ':' that is an existing file, so that names of files
and of records may contain ':' themselves. If no part exists, the whole specification is the FILE.
"""

from __future__ import annotations

import os
from pathlib import Path

from longalign.errors import InputError
from longalign.fasta.reader import read_record
from longalign.fasta.source import STDIN
from longalign.model.alphabet import DNA, Alphabet
from longalign.model.sequence import MEMORY, Sequence


def read_sequence(spec: str | os.PathLike[str], alphabet: Alphabet = DNA) -> Sequence:
    """Read one sequence from a FASTA file (plain, gzip or bgzip), from a 2bit file or from stdin.

    `spec` is `FILE`, `FILE:NAME`, `FILE:NAME:START-END` or `FILE:START-END`, and "-" as FILE is stdin.
    START and END are 0-based and half-open, as everywhere in longalign. With commas between thousands, as
    in `FILE:chr1:1,001-2,000`, they are 1-based and both included, as in samtools: 1000-2000 is the same. The
    longest part before a ':' that is an existing file is the FILE. Without a NAME the file must hold
    exactly one record. A record, or a region, may have no letters.

    `alphabet` is DNA (IUPAC codes) or, for a scoring with a substitution matrix, `scoring.alphabet`.

    Raises InputError, one line that names file, record and position, if the file cannot be read, is not
    FASTA, lacks the record or the region, or has a letter outside the alphabet.
    """
    text = os.fspath(spec)
    if not text:
        raise InputError("the name of a FASTA file is empty")
    if "\0" in text:
        raise InputError(f"{text!r}: no file has such a name")
    record = read_record(*split_spec(text))
    return Sequence.from_letters(
        record.name,
        record.letters,
        source=text,
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
    absolute = str(Path(path).absolute())
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
