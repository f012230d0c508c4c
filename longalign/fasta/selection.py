"""Which record of a file, and which of its letters, a selector means."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from itertools import islice

from longalign.errors import InputError, NoSuchRecord

_PLAIN = r"\d{1,18}"
_GROUPED = r"\d{1,3}(?:,\d{3}){1,5}"  # with commas between thousands, as samtools and genome browsers have it
_NUMBER = f"(?:{_GROUPED}|{_PLAIN})"
_REGION = re.compile(
    rf"(?:(?P<name>.+):)?(?P<region>(?P<start>{_NUMBER})-(?P<end>{_NUMBER})?|(?P<only_start>{_GROUPED}))",
    re.ASCII | re.DOTALL,
)
_NAMES_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Record:
    """A FASTA record, or a region of one. Coordinates are 0-based and half-open.

    `letters` are those of the file with white space removed, for start .. start + len(letters) of a
    record that has `record_length` letters. `description` is the header after the name; it is empty if
    the record came through an index.
    """

    name: str
    description: str
    letters: bytes
    start: int
    record_length: int


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible meaning of a selector. Without a name it means the only record of the file.

    `region` is how the selector writes `start` and `end`, which are 0-based and half-open. With commas in it,
    it is in samtools' notation, 1-based and with both ends included.
    """

    name: str | None = None
    start: int = 0
    end: int | None = None
    region: str = ""

    def bounds(self, name: str, length: int) -> tuple[int, int]:
        """Start and end of the letters chosen of record `name`, which has `length` letters."""
        end = length if self.end is None else self.end
        counts_from_1 = "," in self.region
        min_end = self.start + counts_from_1  # both ends included: at least one letter
        if self.start < 0 or not min_end <= end <= length:
            inside, convention = f"0-{length}", "0-based and half-open"
            if counts_from_1:
                inside, convention = f"1-{length:,}", "1-based, both ends included"
            raise InputError(
                f"record {name!r}: region {self.region} is not inside {inside} "
                f"(regions {'with' if counts_from_1 else 'without'} commas are {convention})"
            )
        return self.start, end


def readings(selector: str | None) -> list[Choice]:
    """The possible meanings of a selector, a whole name first: names may contain ':' and '-'.

    A region `start-end` is 0-based and half-open. If one of its numbers has commas between thousands, as in
    `1,001-2,000`, it is 1-based and includes both ends: the notation of samtools and genome browsers. Without
    an end, as in `1000-`, `1,001-` or samtools' `1,001`, it extends to the end of the record.
    """
    if selector is None:
        return [Choice()]
    choices = [Choice(selector)]
    if match := _REGION.fullmatch(selector):
        region, last = match["region"], match["end"]
        start = _number(match["start"] or match["only_start"]) - ("," in region)
        choices.append(Choice(match["name"], start, None if last is None else _number(last), region))
    return choices


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def choose(path: str, names: Counter[str], choices: list[Choice]) -> tuple[Choice, str]:
    """The first choice that matches a record of the file, and the name of that record.

    `names` counts the records of each name, in the order of the file. Raises NoSuchRecord if no choice
    matches, and InputError if more than one record does.
    """
    for choice in choices:
        if choice.name is None and names.total() == 1:
            return choice, next(iter(names))
        if choice.name is not None and choice.name in names:
            if names[choice.name] > 1:
                raise InputError(f"more than one record is named {choice.name!r}")
            return choice, choice.name
    some = ", ".join([*islice(names, _NAMES_SHOWN)]) + ", ..." * (len(names) > _NAMES_SHOWN)
    asked = choices[-1].name
    if asked is None:
        raise InputError(f"{names.total()} records, choose one as {path}:NAME from {some}")
    name, _, place = asked.rpartition(":")
    is_place = name in names and place.replace(",", "").isdecimal()
    hint = "; a region is START-END or START-" if is_place else ""
    raise NoSuchRecord(f"no record named {asked!r}; the file has {some}{hint}")
