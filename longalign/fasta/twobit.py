"""A record of a 2bit file (UCSC), by Biopython: only the block tables and the chosen letters are read.

Runs of N are read as such. A 2bit file must be a regular file, not a pipe: it is not read in its order.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from longalign.errors import InputError, reason_of
from longalign.fasta.selection import Choice, Record, choose
from longalign.fasta.source import first_bytes

if TYPE_CHECKING:
    from Bio.SeqIO.TwoBitIO import TwoBitIterator

#: The first four bytes, in either byte order.
_MAGICS = {bytes.fromhex("1a412743"), bytes.fromhex("4327411a")}


def is_two_bit(path: str) -> bool:
    """Whether `path` is a regular file that begins as 2bit files do."""
    return first_bytes(path, 4) in _MAGICS


def two_bit_names(path: str) -> list[str]:
    """The names of all records, in the order of the file. Raises InputError, without the file's name."""
    with _opened(path) as records:
        return list(records.keys())


def read_two_bit(path: str, choices: list[Choice]) -> Record:
    """The chosen record; it has no description. Raises InputError, without the file's name."""
    with _opened(path) as records:
        choice, name = choose(path, Counter(records.keys()), choices)
        sequence = records[name].seq
        start, end = choice.bounds(name, len(sequence))
        try:
            letters = bytes(sequence[start:end])
        except (EOFError, RuntimeError, ValueError) as error:
            raise InputError(f"record {name!r}: truncated or damaged 2bit file") from error
        return Record(name, "", letters, start, len(sequence))


@contextmanager
def _opened(path: str) -> Iterator[TwoBitIterator]:
    from Bio.SeqIO.TwoBitIO import TwoBitIterator  # slow to import

    try:
        with _Complete(Path(path).open("rb", buffering=0)) as stream:
            try:
                records = TwoBitIterator(stream)
            except MemoryError as error:
                raise InputError("damaged 2bit file: it claims to have a table larger than memory") from error
            stream.seek(8)
            if int.from_bytes(stream.read(4), records.byteorder) != len(records):
                raise InputError("two records of the 2bit file have the same name")
            yield records
    except OSError as error:
        raise InputError(reason_of(error)) from error
    except EOFError as error:
        raise InputError(f"truncated or damaged 2bit file: {error}") from error
    except (KeyError, RuntimeError, ValueError) as error:
        if "64-bit offsets" in str(error):
            raise InputError(
                "a 2bit file of version 1, with 64-bit offsets, cannot be read: use version 0"
            ) from error
        raise InputError("truncated or damaged 2bit file") from error


class _Complete(io.BufferedReader):
    """Raises EOFError for too few bytes, which Biopython would take for smaller numbers."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if size is not None and len(data) < size:
            raise EOFError("it ends too early")
        return data
