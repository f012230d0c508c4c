"""Modes of alignment: which ends of the two sequences cost nothing if they stay unaligned."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


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

    It equals its word, and is written as that.
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

    @property
    def may_be_empty(self) -> bool:
        """Whether the best alignment may be the empty one: its score is 0, and it has no place."""
        return self.starts_anywhere and self.ends_anywhere

    @property
    def needs_last_row(self) -> bool:
        """Whether the end of a path is found on the bottom edge of the matrix: in its corner at least."""
        return not self.ends_anywhere

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

#: The modes that the program offers, by their words.
MODES: dict[str, Mode] = {mode: mode for mode in (LOCAL, GLOBAL)}

#: What the public functions take as a mode; the same words.
ModeName = Literal["local", "global"]


def as_mode(mode: Mode | ModeName) -> Mode:
    """A mode as it is, or the one that the program offers under a word. Raises KeyError for other words."""
    return mode if isinstance(mode, Mode) else MODES[mode]
