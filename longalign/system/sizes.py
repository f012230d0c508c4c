"""Parse and format numbers of bytes such as 512M and 1.3G. K, M, G and T are powers of 1024."""

from __future__ import annotations

import re

_UNITS = {"T": 1 << 40, "G": 1 << 30, "M": 1 << 20, "K": 1 << 10}
_SIZE = re.compile(r"(\d{1,15}(?:\.\d{1,6})?)([KMGT]?)(?:i?B)?", re.IGNORECASE | re.ASCII)


def parse_size(text: str) -> int:
    """The number of bytes, rounded down. Raises ValueError if the text is not a size."""
    match = _SIZE.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a size such as 512M or 8G (powers of 1024)")
    return int(float(match[1]) * _UNITS.get(match[2].upper(), 1))


def format_size(size: int) -> str:
    """A text that `parse_size` converts to exactly this number, with at most one decimal."""
    for unit, factor in _UNITS.items():
        tenths = -(-size * 10 // factor)
        text = f"{tenths // 10}.{tenths % 10}".removesuffix(".0") + unit
        if tenths >= 10 and parse_size(text) == size:
            return text
    return str(size)


def size_in_words(size: int) -> str:
    """A size for a message: `format_size`, with a word where that has no unit."""
    text = format_size(size)
    return f"{text} byte{'s' * (size != 1)}" if text.isdigit() else text


def round_size(size: int, *, up: bool = True) -> int:
    """Round up (down if not `up`) to a size of two or three digits and a unit."""
    for factor in _UNITS.values():
        if size >= factor:
            step = 1 if size < 10 * factor else 10  # tenths of a unit
            steps = -(-size * 10 // (factor * step)) if up else size * 10 // (factor * step)
            return steps * step * factor // 10
    return size
