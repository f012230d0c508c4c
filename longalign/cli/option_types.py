"""The types of options: each turns the text of one into a value. argparse adds the option to their errors."""

from __future__ import annotations

import argparse
import os
import re
from typing import get_args

from longalign.formats.output import STDOUT, descriptor_of
from longalign.model.mode import EndName
from longalign.system.rationals import Number, parse_number
from longalign.system.sizes import parse_size


def exact_number(text: str) -> Number:
    """A score or a cost, exactly as it is written."""
    try:
        return parse_number(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def positive_number(text: str) -> int:
    value = whole_number(text)
    if value == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def whole_number(text: str) -> int:
    if not re.fullmatch(r"\d{1,9}", text, re.ASCII):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at most 9 digits")
    return int(text)


def cell(text: str) -> tuple[int, int]:
    match = re.fullmatch(r"(\d{1,10}),(\d{1,10})", text, re.ASCII)
    if not match:
        raise argparse.ArgumentTypeError(f"{text!r} is not a cell such as 1200,1350")
    return int(match[1]), int(match[2])


def ends(text: str) -> list[str]:
    ends = text.split(",")
    if unknown := [end for end in ends if end not in get_args(EndName)]:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is not one of {', '.join(get_args(EndName))}")
    return ends


def output_file(text: str) -> str:
    """A file to write, or "-" for stdout, whatever name of it is given."""
    if text.lower().endswith((".gz", ".bz2", ".xz", ".zst")):
        raise argparse.ArgumentTypeError(f"{text}: output is not compressed: give a name without this ending")
    if text.endswith(os.sep):
        raise argparse.ArgumentTypeError(f"{text}: output is a file, not a directory")
    return STDOUT if descriptor_of(text) == 1 else path(text)


def path(text: str) -> str:
    if not text:
        raise argparse.ArgumentTypeError("an empty name")
    return text


def size(text: str) -> int:
    try:
        return parse_size(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
