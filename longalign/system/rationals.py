"""Exact numbers as people write scores: whole numbers, fractions and decimals, never binary floats."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from math import lcm
from typing import Any, TypeAlias

from longalign.system.integers import as_whole

#: An exact number: an int where it is whole, otherwise a Fraction.
Number: TypeAlias = int | Fraction

#: The most digits before and after the point.
_WHOLES, _DECIMALS = 18, 30

#: Python refuses to spell numbers of many more bits.
_MAX_BITS = 1 << 12

_FORMS = (
    rf"\d{{1,{_WHOLES}}}(?:\.\d{{0,{_DECIMALS}}})?",
    rf"\.\d{{1,{_DECIMALS}}}",
    rf"\d{{1,{_WHOLES}}}/0*[1-9]\d{{0,{_WHOLES - 1}}}",
)
_TEXT = re.compile(f"[-+]?(?:{'|'.join(_FORMS)})", re.ASCII)


def as_number(value: Any) -> Number:
    """An integer of any type, a Fraction or a Decimal as an exact number. Raises TypeError for anything else.

    Floats are refused: 0.1 is not a tenth.
    """
    if isinstance(value, Fraction):
        return simplest(value)
    if isinstance(value, Decimal) and value.is_finite():
        if value == 0:  # of any exponent
            return 0
        if abs(value.adjusted()) < _MAX_BITS:
            return simplest(Fraction(value))
    return as_whole(value)


def parse_number(text: str) -> Number:
    """The number that a text such as `10`, `0.5` or `1/3` spells. Raises ValueError for any other text."""
    if not _TEXT.fullmatch(text):
        is_long = re.fullmatch(r"[-+]?(\d+(\.\d*)?|\.\d+|\d+/\d*[1-9]\d*)", text, re.ASCII)
        limit = f" of at most {_WHOLES} digits before and {_DECIMALS} after the point" * bool(is_long)
        raise ValueError(f"{text!r} is not a number{limit}")
    return simplest(Fraction(text))


def simplest(value: Fraction) -> Number:
    """The same number, as an int if it is whole."""
    return value.numerator if value.denominator == 1 else value


def spell(value: Number) -> str:
    """The number, exactly: as a decimal if a short one exists (`0.5`), otherwise as a fraction (`1/3`).

    `parse_number` reads the text back, unless the number `is_long`. Of one with a thousand digits, only that
    is said.
    """
    top, bottom = value.numerator, value.denominator
    if max(top.bit_length(), bottom.bit_length()) > _MAX_BITS:
        return "a number of many digits"
    if not is_decimal(value):
        return f"{top}/{bottom}"
    digits = next(count for count in range(_DECIMALS + 1) if 10**count % bottom == 0)
    text = str(abs(top) * 10**digits // bottom).rjust(digits + 1, "0")
    whole, rest = (text[:-digits], text[-digits:]) if digits else (text, "")
    return f"{'-' * (top < 0)}{whole}{'.' * bool(rest)}{rest}"


def spell_decimal(value: Number) -> str:
    """The number as a decimal: exactly if it has a finite one, otherwise the nearest double."""
    return spell(value) if is_decimal(value) else str(float(value))


def as_json(value: Number) -> int | float | str:
    """A number that JSON spells exactly, or a fraction as text."""
    if value.denominator == 1:
        return int(value)
    number = float(value)
    return number if Fraction(repr(number)) == value else spell(value)


def is_long(value: Number) -> bool:
    """Whether the spelled number has more digits than `parse_number` accepts."""
    return not _TEXT.fullmatch(spell(value))


def is_decimal(value: Number) -> bool:
    """Whether a decimal spells the number with no more digits than `parse_number` reads."""
    return pow(10, _DECIMALS, value.denominator) == 0


def common_denominator(values: Iterable[Number]) -> int:
    """The least number that makes all of these whole when they are multiplied by it."""
    return lcm(*(value.denominator for value in values))
