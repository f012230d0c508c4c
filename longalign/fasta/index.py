"""A record of an indexed FASTA file, by pysam's `FastaFile`: nothing else of the file is read."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pysam

from longalign.errors import InputError, reason_of
from longalign.fasta.selection import Choice, Record, choose
from longalign.fasta.source import GZIP_MAGIC, first_bytes
from longalign.fasta.stream import LARGEST_HEADER

#: Bytes in which the end of a record shows: line ends, or the next header.
_AFTER = 64


def has_fresh_index(path: str) -> bool:
    """Whether an index lies beside the file; one older than the file is ignored."""
    head = first_bytes(path, len(GZIP_MAGIC))
    suffixes = [".fai", ".gzi"] if head == GZIP_MAGIC else [".fai"]
    try:
        age = Path(path).stat().st_mtime_ns
        return bool(head) and all(Path(path + suffix).stat().st_mtime_ns >= age for suffix in suffixes)
    except OSError:  # no index, or no permission: reading the file reports that
        return False


def read_indexed(path: str, choices: list[Choice]) -> Record | None:
    """The record that is chosen by name, without its description, or None if the index has no such record.

    The file may still have it: an index leaves out records without letters. It also does not show that other
    records have the same name, and not whether a record is the only one of its file. Raises InputError,
    without the file's name.
    """
    named = [choice for choice in choices if choice.name is not None]
    verbosity = pysam.set_verbosity(0)  # htslib would print its own message beside ours
    try:
        with pysam.FastaFile(path) as fasta:
            try:
                choice, name = choose(path, Counter(fasta.references), named)
            except InputError:
                return None
            if not _leads_to(path, name):
                raise InputError(
                    f"record {name!r} is not where the index {path}.fai has it: make the index again"
                )
            length = fasta.get_reference_length(name)
            start, end = choice.bounds(name, length)
            letters = fasta.fetch(name, start, end).encode("ascii", "replace")
    except (OSError, ValueError) as error:
        index = f"{path}.fai and .gzi" if first_bytes(path, len(GZIP_MAGIC)) == GZIP_MAGIC else f"{path}.fai"
        # pysam's own errors, which have no number, do not tell a bad index from a bad file.
        reason = "one of them is damaged; make the index again"
        if isinstance(error, OSError) and error.errno:
            reason = reason_of(error)
        raise InputError(f"cannot be read through its index {index}: {reason}") from error
    finally:
        pysam.set_verbosity(verbosity)
    if len(letters) != end - start:
        raise InputError(
            f"record {name!r}: only {len(letters)} of letters {start}-{end} could be read: "
            f"the file is truncated, or its index {path}.fai belongs to another file"
        )
    return Record(name, "", letters, start, length)


def _leads_to(path: str, name: str) -> bool:
    """Whether a record begins and ends in the file where its index has it. A compressed file is believed.

    Otherwise the letters would be those of some other place, and nothing would tell.
    """
    if first_bytes(path, len(GZIP_MAGIC)) == GZIP_MAGIC:
        return True
    entry = rb"^" + re.escape(name.encode()) + rb"[ \t]+" + rb"[ \t]+".join([rb"(\d+)"] * 4)
    found = re.search(entry, Path(path + ".fai").read_bytes(), re.MULTILINE)
    if found is None:
        return False
    length, start, bases, width = map(int, found.groups())
    lines, rest = divmod(length, bases) if bases else (0, 0)
    with Path(path).open("rb") as file:
        file.seek(max(0, start - LARGEST_HEADER))
        before = file.read(min(start, LARGEST_HEADER))
        file.seek(start + lines * width + rest)
        after = file.read(_AFTER).lstrip()
    header = before.removesuffix(b"\n").rpartition(b"\n")[2]
    is_its_header = header.startswith(b">") and header[1:].split()[:1] == [name.encode()]
    return is_its_header and before.endswith(b"\n") and after[:1] in (b"", b">")
