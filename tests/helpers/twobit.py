"""Writes 2bit files as UCSC's FAQ describes them: no library that the tests have can."""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping

_MAGIC = 0x1A412743
_CODES = {letter: code for code, letters in enumerate(("TtNn", "Cc", "Aa", "Gg")) for letter in letters}


def two_bit(records: Mapping[str, str], order: str = "<") -> bytes:
    """The file with these records, of A C G T N in either case; `order` is "<" or ">" (byte order)."""

    def numbers(*values: int) -> bytes:
        return struct.pack(f"{order}{len(values)}I", *values)

    def blocks(pattern: str, letters: str) -> bytes:
        spans = [match.span() for match in re.finditer(pattern, letters)]
        return numbers(len(spans), *(start for start, _ in spans), *(end - start for start, end in spans))

    bodies = [
        numbers(len(letters))
        + blocks("[Nn]+", letters)
        + blocks("[a-z]+", letters)
        + numbers(0)
        + bytes(_packed(letters[i : i + 4]) for i in range(0, len(letters), 4))
        for letters in records.values()
    ]
    names = [name.encode() for name in records]
    place = 16 + sum(len(name) + 5 for name in names)
    index = b""
    for name, body in zip(names, bodies, strict=True):
        index += bytes([len(name)]) + name + numbers(place)
        place += len(body)
    return numbers(_MAGIC, 0, len(records), 0) + index + b"".join(bodies)


def _packed(four: str) -> int:
    """Four letters in a byte, the first one in the highest bits."""
    byte = 0
    for letter in four.ljust(4, "T"):
        byte = byte << 2 | _CODES[letter]
    return byte
