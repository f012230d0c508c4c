"""The formats in which alignments can be written, by name and by file ending.

A new format is a function that writes one alignment to a text stream, in a module beside this one, and one
more element of `FORMATS`. The command line takes the names, the endings and the help text from here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TextIO

from longalign.errors import UsageError
from longalign.formats import maf, tsv
from longalign.formats.chain import write_chain
from longalign.formats.paf import write_paf
from longalign.model.alignment import Alignment


@dataclass(frozen=True, slots=True)
class Format:
    """One format of alignments.

    - `name`: the argument of `--format`.
    - `endings`: the ends of file names, in lower case, that stand for the format.
    - `description`: what the help text says about it.
    - `write`: writes one alignment to an open text stream.
    - `header`: text that precedes the first alignment.
    - `is_verifiable`: whether `longalign verify` can check a file of this format.
    """

    name: str
    endings: tuple[str, ...]
    description: str
    write: Callable[[Alignment, TextIO], None]
    header: str = ""
    is_verifiable: bool = False

    def write_all(self, alignments: Iterable[Alignment], file: TextIO) -> None:
        """Write the header, then each alignment as the iterable yields it; none is kept."""
        file.write(self.header)
        for alignment in alignments:
            self.write(alignment, file)


#: The default comes first.
FORMATS = (
    Format("paf", (".paf",), "PAF with a CIGAR", write_paf, is_verifiable=True),
    Format("tsv", (".tsv",), "a table with one row for each alignment", tsv.write_tsv, tsv.HEADER),
    Format("maf", (".maf",), "UCSC's MAF, with all letters", maf.write_maf, maf.HEADER),
    Format("chain", (".chain",), "UCSC's chains, for liftOver from target to query", write_chain),
)


#: Endings of formats that are not written: a user who names one expects that format.
_NOT_WRITTEN = (".sam", ".bam", ".cram", ".axt", ".psl", ".delta", ".gfa")


def resolve_format(name: str | None, path: str | os.PathLike[str]) -> Format:
    """The format called `name` or, without a name, the one that the ending of `path` stands for.

    Any other ending, and stdout, stands for the default. Raises UsageError for an unknown name, and for the
    ending of a format that is not written.
    """
    if name is None:
        lower = os.fspath(path).lower()
        if lower.endswith(_NOT_WRITTEN):
            raise UsageError(
                f"{os.fspath(path)}: this format is not written; the formats are {', '.join(format_names())}"
            )
        return next((known for known in FORMATS if lower.endswith(known.endings)), FORMATS[0])
    for known in FORMATS:
        if known.name == name:
            return known
    raise UsageError(f"unknown format {name!r}: choose from {', '.join(format_names())}")


def format_names() -> list[str]:
    """The arguments that `--format` takes."""
    return [known.name for known in FORMATS]


def describe_formats() -> str:
    """What `--help` says about the formats."""
    default, *_ = FORMATS
    parts = [
        f"{known.name}: {known.description}{' (longalign verify checks it)' * known.is_verifiable}"
        for known in FORMATS
    ]
    return f"{'; '.join(parts)}; default: the format of FILE's ending, or else {default.name}"
