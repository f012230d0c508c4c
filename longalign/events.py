"""What a run reports while it goes on: plain values, for whoever draws or logs them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A phase begins; `done` of its `cells` (None: not known before) are there already (a resumed run)."""

    name: str
    cells: int | None
    done: int = 0


@dataclass(frozen=True, slots=True)
class Advanced:
    """That many more cells of the phase in hand are finished."""

    cells: int


@dataclass(frozen=True, slots=True)
class TileFinished:
    """A tile is swept, and in the store or on its way there."""

    row: int
    col: int
    cells: int
    seconds: float


@dataclass(frozen=True, slots=True)
class PhaseFinished:
    """A phase is over: `cells` were computed in `seconds`, cells that a store already held not counted."""

    name: str
    cells: int
    seconds: float

    @property
    def gcups(self) -> float | None:
        """10^9 cell updates a second; None where no time was measured."""
        return self.cells / self.seconds / 1e9 if self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class Notice:
    """One line that the user should see."""

    text: str


Event = PhaseStarted | Advanced | TileFinished | PhaseFinished | Notice
Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """An `Emit` that drops everything."""
