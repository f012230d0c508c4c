"""A record of an indexed FASTA file, by pysam's `FastaFile`: nothing else of the file is read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pysam

from longalign.errors import InputError
from longalign.fasta.selection import Choice, Record, choose
from longalign.fasta.source import GZIP_MAGIC, first_bytes


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
    """The chosen record, without its description, or None if the index has no such record.

    The file may still have it: an index leaves out records without letters. Raises InputError, without the
    file's name.
    """
    verbosity = pysam.set_verbosity(0)  # htslib would print its own message beside ours
    try:
        with pysam.FastaFile(path) as fasta:
            try:
                choice, name = choose(path, Counter(fasta.references), choices)
            except InputError:
                return None
            length = fasta.get_reference_length(name)
            start, end = choice.bounds(name, length)
            letters = fasta.fetch(name, start, end).encode("ascii", "replace")
    except (OSError, ValueError) as error:
        raise InputError(f"cannot be read through its index {path}.fai: {error}") from error
    finally:
        pysam.set_verbosity(verbosity)
    if len(letters) != end - start:
        raise InputError(
            f"record {name!r}: only {len(letters)} of letters {start}-{end} could be read: "
            f"the file is truncated, or its index {path}.fai belongs to another file"
        )
    return Record(name, "", letters, start, length)
