"""Read and check the fields of JSON objects from files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from longalign.errors import InputError
from longalign.system.rationals import Number, parse_number

T = TypeVar("T")

#: Characters of a wrong value that a message shows.
_SHOWN = 40


class Fields:
    """A JSON object whose fields are read by name. `where` names the object in messages.

    A field that is `missing` from it has the value given there.

    Every method that reads a field raises InputError, naming the field, if it is missing or of another kind.
    The constructor raises InputError if `data` is not an object.
    """

    def __init__(self, data: object, where: str = "", missing: Mapping[str, object] = {}) -> None:
        if not isinstance(data, dict):
            raise InputError(f"{where or 'content'}: must be an object, not {shown(data)}")
        self._data, self._where = {**missing, **data}, where

    def name(self, field: str) -> str:
        """The name of a field in messages, preceded by the name of its object."""
        return f"{self._where}.{field}" if self._where else field

    def has(self, field: str) -> bool:
        return field in self._data

    def only(self, *known: str) -> None:
        """Raise InputError if the object has a field that is not `known`."""
        for field in self._data:
            if field not in known:
                raise InputError(f"{self.name(shown(field))}: there is no such field")

    def any(self, field: str) -> Any:
        """A field of any type."""
        if field not in self._data:
            raise InputError(f"{self.name(field)}: is missing")
        return self._data[field]

    def object(self, field: str) -> Fields:
        return Fields(self.any(field), self.name(field))

    def text(self, field: str, *, may_be_empty: bool = False) -> str:
        """A text that could be a file name in UTF-8. This system may accept fewer names."""
        value = self.any(field)
        if not isinstance(value, str) or not (value or may_be_empty) or not is_file_name(value):
            raise InputError(f"{self.name(field)}: must be a text, not {shown(value)}")
        return value

    def choice(self, field: str, choices: Sequence[str]) -> Any:
        """A text that is one of `choices`."""
        value = self.any(field)
        if not isinstance(value, str) or value not in choices:
            raise InputError(f"{self.name(field)}: must be {' or '.join(choices)}, not {shown(value)}")
        return value

    def truth(self, field: str) -> bool:
        """True or false."""
        value = self.any(field)
        if not isinstance(value, bool):
            raise InputError(f"{self.name(field)}: must be true or false, not {shown(value)}")
        return value

    def whole(self, field: str, minimum: int, maximum: int) -> int:
        """A whole number from `minimum` to `maximum`, both included."""
        return whole(self.any(field), self.name(field), minimum, maximum)

    def fraction(self, field: str) -> float:
        """A number from 0 to 1, both included."""
        value = self.any(field)
        if type(value) not in (int, float) or not 0 <= value <= 1:
            raise InputError(f"{self.name(field)}: must be a number from 0 to 1, not {shown(value)}")
        return float(value)

    def wholes(self, field: str, maximum: int) -> tuple[int, ...]:
        """A list of whole numbers from 0 to `maximum`, both included."""
        name = self.name(field)
        return tuple(whole(value, name, 0, maximum) for value in self.items(field))

    def number(self, field: str) -> Number:
        """A text that spells a number, such as "2.5" or "1/3"."""
        text = self.text(field)
        try:
            return parse_number(text)
        except ValueError:
            raise InputError(f"{self.name(field)}: {shown(text)} is not a number") from None

    def or_none(self, field: str, read: Callable[[str], T]) -> T | None:
        """What `read` makes of a field, unless that is null."""
        return None if self.any(field) is None else read(field)

    def items(self, field: str) -> list[Any]:
        """A list with items of any type."""
        value = self.any(field)
        if not isinstance(value, list):
            raise InputError(f"{self.name(field)}: must be a list, not {shown(value)}")
        return value


def whole(value: object, name: str, minimum: int, maximum: int) -> int:
    """`value` if it is a whole number from `minimum` to `maximum`, both included, and no bool.

    Raises InputError, with `name`, otherwise.
    """
    if type(value) is not int or not minimum <= value <= maximum:
        raise InputError(f"{name}: must be a whole number from {minimum} to {maximum}, not {shown(value)}")
    return value


def shown(value: object) -> str:
    """A short form of a value, on one line, for messages."""
    if isinstance(value, int) and value.bit_length() > 4 * _SHOWN:  # Python refuses to print very long ones
        return "a longer number"
    if isinstance(value, dict | list):
        return f"{'an object' if isinstance(value, dict) else 'a list'} of {len(value)}"
    text = ascii(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def is_file_name(text: str) -> bool:
    """Whether a text could be the name of a file in UTF-8, with invalid bytes escaped as Python does."""
    if "\0" in text:
        return False
    try:
        text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True
