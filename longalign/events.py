"""What a run reports while it works: plain values, to be drawn or logged."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from longalign.system.rationals import Number


@dataclass(frozen=True, slots=True)
class PhaseStarted:
    """A phase begins: "seed", "score" (phase 1), "stitch" (phase 2) or "recompute" (phase 3).

    `done` of its `cells` (None: not known in advance) were computed by an earlier run.
    """

    name: str
    cells: int | None
    done: int = 0


@dataclass(frozen=True, slots=True)
class Advanced:
    """`cells` more cells of the current phase are finished, `left_out` of them in tiles not computed.

    The numbers are negative where finished tiles must be swept again.
    """

    cells: int
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class BoundFound:
    """Seeds have found an alignment with this scaled score, which is the bound of a pruned run.

    `share`, 0..1, is the share of the cells that the run is expected to compute.
    """

    score: int
    share: float


@dataclass(frozen=True, slots=True)
class TileFinished:
    """A tile is swept; it is in the store, or being written to it.

    Of its `cells`, `left_out` were not computed: no path of interest visits them, or, where next best
    alignments are looked for, their values are known from the alignment before. `best` is the highest score
    of a cell in which an alignment may end, scaled (`Scoring.scale`), or 0: also in modes where alignments
    end in the last row or column. In a pruned run, 0 also stands for a score below the bound.
    """

    row: int
    col: int
    cells: int
    seconds: float
    left_out: int = 0
    best: int = 0


@dataclass(frozen=True, slots=True)
class PhaseFinished:
    """A phase is over: `cells` were done in `seconds`. Cells that a store already held do not count.

    `left_out` of the cells were not computed, as in `TileFinished`.
    """

    name: str
    cells: int
    seconds: float
    left_out: int = 0

    def plus(self, other: PhaseFinished) -> PhaseFinished:
        """The phase, and the same phase of another alignment."""
        cells, left_out = self.cells + other.cells, self.left_out + other.left_out
        return PhaseFinished(self.name, cells, self.seconds + other.seconds, left_out)

    @property
    def gcups(self) -> float | None:
        """10^9 cells done per second, those left out included; None where no time was measured."""
        return self.cells / self.seconds / 1e9 if self.seconds > 0 else None


@dataclass(frozen=True, slots=True)
class CompileStarted:
    """The run waits until a kernel for a device, such as "cuda:0", is compiled; once per machine."""

    device: str


@dataclass(frozen=True, slots=True)
class CompileFinished:
    """The wait is over. Its `seconds` do not count as seconds of a phase."""

    device: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Notice:
    """One line that the user should see."""

    text: str


@dataclass(frozen=True, slots=True)
class PairsStarted:
    """The first of many pairs begins. From now on, a phase belongs to one of them, or to several at once.

    Only the command line reports it: the functions of `longalign.api` do not know how many pairs will come.
    """

    pairs: int


@dataclass(frozen=True, slots=True)
class PairFinished:
    """One of many pairs is over: the names of its records, and its score, or None if it was left out.

    The score is in the units that the user gave. In a line of JSON it is spelled as in a summary.
    """

    query: str
    target: str
    score: Number | None


Event = (
    PhaseStarted
    | Advanced
    | BoundFound
    | TileFinished
    | PhaseFinished
    | CompileStarted
    | CompileFinished
    | Notice
    | PairsStarted
    | PairFinished
)

#: A function that receives the events of a run. It may be called from any thread of the run, and should
#: return soon. It must not call functions of longalign: they and the run may wait for each other for ever.
#: What it raises ends the run.
Emit = Callable[[Event], None]


def ignore(event: Event) -> None:
    """An `Emit` that drops everything."""
