"""Whole numbers of any integer type, Python's or NumPy's; neither booleans nor text."""

from __future__ import annotations

from operator import index
from typing import Any


def as_whole(value: Any) -> int:
    """A whole number as Python's int. Raises TypeError for anything else."""
    if isinstance(value, bool):
        raise TypeError("a truth value is no number here")
    return index(value)
