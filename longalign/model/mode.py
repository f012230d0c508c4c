"""Modes of alignment: which ends of the two sequences cost nothing if they stay unaligned."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal, get_args

from longalign.errors import UsageError

#: The ends of the two sequences, in the order in which a mode's word names them.
EndName = Literal["query-start", "query-end", "target-start", "target-end"]


@dataclass(frozen=True, slots=True)
class FreeEnds:
    """The ends that an alignment may leave out at no cost.

    In the matrix, a free start of the query frees the left edge: a path may start there in any row. A free
    start of the target frees the top edge, a free end of the query the right edge, and a free end of the
    target the bottom edge. Where no edge is free, a path starts, or ends, in the corner.

    `starts_anywhere` and `ends_anywhere`: a path may start, or end, in any cell. That includes both edges.
    Raises ValueError if an edge is not free although a path may start, or end, anywhere.
    """

    query_start: bool = False
    query_end: bool = False
    target_start: bool = False
    target_end: bool = False
    starts_anywhere: bool = False
    ends_anywhere: bool = False

    def __post_init__(self) -> None:
        if self.starts_anywhere and not (self.query_start and self.target_start):
            raise ValueError("a path that may start anywhere may leave out the start of either sequence")
        if self.ends_anywhere and not (self.query_end and self.target_end):
            raise ValueError("a path that may end anywhere may leave out the end of either sequence")


class Mode(str):
    """A mode: the word that files, messages and the command line use for it, and the ends that it frees.

    It equals its word, and is written as that. Of the modes in `MODES`, the word determines the ends.
    """

    __slots__ = ("ends",)

    ends: FreeEnds

    def __new__(cls, word: str, ends: FreeEnds) -> Mode:
        mode = super().__new__(cls, word)
        mode.ends = ends
        return mode

    def __reduce__(self) -> tuple[type[Mode], tuple[str, FreeEnds]]:
        """Copies and pickles keep the ends: by default they are made of the word alone."""
        return Mode, (str(self), self.ends)

    @property
    def starts_anywhere(self) -> bool:
        """Whether a path may start in any cell: H then has the floor 0."""
        return self.ends.starts_anywhere

    @property
    def ends_anywhere(self) -> bool:
        """Whether a path may end in any cell: the best cell is then the end."""
        return self.ends.ends_anywhere

    def starts_at(self, i: int, j: int, h: int) -> bool:
        """Whether a path that was followed backwards to H of cell (i, j), with value `h`, starts there."""
        if self.starts_anywhere:
            return h == 0
        return i == j == 0 or (i == 0 and self.ends.target_start) or (j == 0 and self.ends.query_start)

    @property
    def may_be_empty(self) -> bool:
        """Whether the best alignment may be the empty one although both sequences have letters.

        Its score is 0. This takes a cell in which a path may both start and end: any cell, or the lower left
        or upper right corner of the matrix.
        """
        ends = self.ends
        return (
            self.starts_anywhere
            or self.ends_anywhere
            or (ends.query_start and ends.target_end)
            or (ends.target_start and ends.query_end)
        )

    @property
    def needs_last_row(self) -> bool:
        """Whether the end of a path is found on the bottom edge of the matrix: in its corner at least.

        The right edge also holds the corner, and suffices if only the end of the query is free.
        """
        return not self.ends_anywhere and (self.ends.target_end or not self.ends.query_end)

    @property
    def needs_last_column(self) -> bool:
        """Whether the end of a path is found on the right edge of the matrix, beyond its corner."""
        return self.ends.query_end and not self.ends_anywhere


#: Smith-Waterman: the best alignment of any parts of the two sequences.
LOCAL = Mode(
    "local",
    FreeEnds(
        query_start=True,
        query_end=True,
        target_start=True,
        target_end=True,
        starts_anywhere=True,
        ends_anywhere=True,
    ),
)

#: Needleman-Wunsch, Gotoh: both sequences from end to end.
GLOBAL = Mode("global", FreeEnds())

#: From the top or left edge of the matrix to the bottom or right one. Its variants free some of these edges.
SEMIGLOBAL = Mode("semiglobal", FreeEnds(True, True, True, True))

#: Dovetail: a suffix of the query against a prefix of the target. The other way round, exchange the two.
OVERLAP = Mode("overlap", FreeEnds(query_start=True, target_end=True))

#: The query from end to end, against any part of the target.
FIT = Mode("fit", FreeEnds(target_start=True, target_end=True))

#: From the start of both sequences to wherever the score is highest.
EXTEND = Mode("extend", FreeEnds(query_end=True, target_end=True, ends_anywhere=True))


def _semiglobal(free: Collection[str]) -> Mode:
    """The semiglobal mode that frees these ends, at least one. All four have the plain word."""
    named = [end for end in get_args(EndName) if end in free]
    if len(named) == len(get_args(EndName)):
        return SEMIGLOBAL
    return Mode(f"{SEMIGLOBAL}:{','.join(named)}", FreeEnds(*(end in free for end in get_args(EndName))))


def _subsets() -> list[Mode]:
    """The semiglobal modes that free some of the four ends, but not all."""
    choices = product((False, True), repeat=len(get_args(EndName)))
    subsets = [
        [end for end, free in zip(get_args(EndName), choice, strict=True) if free] for choice in choices
    ]
    return [_semiglobal(subset) for subset in subsets[1:-1]]


#: Every mode by its word. The words that name free ends come last.
MODES: dict[str, Mode] = {
    mode: mode for mode in (LOCAL, GLOBAL, SEMIGLOBAL, OVERLAP, FIT, EXTEND, *_subsets())
}

#: The plain words among them, which `--mode` and the public functions take.
ModeName = Literal["local", "global", "semiglobal", "overlap", "fit", "extend"]


def as_mode(mode: Mode | ModeName) -> Mode:
    """A mode as it is, or the one that the program offers under a word. Raises UsageError for other words."""
    return mode if isinstance(mode, Mode) else choose_mode(mode)


def choose_mode(word: str, free: Iterable[str] | None = None) -> Mode:
    """The mode of a word, with the ends that are free in `semiglobal`: by default all four.

    Raises UsageError for an unknown word, for an unknown end or none, and for free ends in another mode.
    """
    if not isinstance(word, str) or word not in MODES:
        raise UsageError(f"mode must be one of {', '.join(get_args(ModeName))}, not {word!r}")
    if free is None:
        return MODES[word]
    if word != SEMIGLOBAL:
        raise UsageError(f"free ends can be chosen with mode {SEMIGLOBAL} only, not with {word}")
    if isinstance(free, str) or not isinstance(free, Iterable):
        raise UsageError(f"free ends must be a list, not {free!r}")
    free = tuple(free)
    unknown = [end for end in free if end not in get_args(EndName)]
    if unknown or not free:
        given = repr(unknown[0]) if unknown else "none"
        raise UsageError(f"free ends must be among {', '.join(get_args(EndName))}, not {given}")
    return _semiglobal(free)
