"""Convert whole numbers of any integer type, such as NumPy's, but not booleans or text."""

from __future__ import annotations

from operator import index
from typing import Any


def as_whole(value: Any) -> int:
    """A whole number as a Python int. Raises TypeError for a value of another kind."""
    if isinstance(value, bool):
        raise TypeError("a truth value is no number here")
    return index(value)
