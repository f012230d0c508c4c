"""What a run reports and returns: events while it lasts, and its outcome."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from time import perf_counter

from longalign.events import Advanced, CompileFinished, Emit, Event, PhaseFinished, PhaseStarted
from longalign.model.alignment import Alignment
from longalign.model.boundary import BestCell, Waypoint
from longalign.run.spec import RunSpec


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a run found: the end of the best alignment, the alignment if it was asked for, and the cost.

    `end` is in boundary indices of query and target; `phases` are those that ran in this process.
    The run waited `compile_seconds` for the compiler; no phase counts them. `further` are the next best
    alignments, in decreasing score, if more than one was asked for.
    """

    spec: RunSpec
    end: Waypoint
    alignment: Alignment | None
    phases: tuple[PhaseFinished, ...]
    backend: dict[str, str]
    compile_seconds: float = 0.0
    further: tuple[Outcome, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether no alignment has a positive score, in a mode where that means that nothing aligns."""
        return self.spec.mode.may_be_empty and self.end.value == 0

    @property
    def best(self) -> BestCell:
        """Score and end."""
        return BestCell(self.end.value, self.end.i, self.end.j)


class Recorder:
    """An `Emit` that passes events on, and measures the cells and the seconds of each phase."""

    def __init__(self, emit: Emit) -> None:
        self.finished: list[PhaseFinished] = []
        self.compile_seconds = 0.0
        self._emit = emit
        self._cells = 0

    def __call__(self, event: Event) -> None:
        if isinstance(event, Advanced):
            self._cells += event.cells
        elif isinstance(event, CompileFinished):
            self.compile_seconds += event.seconds
        self._emit(event)

    def advance(self, cells: int) -> None:
        """A `Progress` that reports the cells as an event."""
        self(Advanced(cells))

    def has(self, phase: str) -> bool:
        """Whether a phase has run to its end."""
        return any(event.name == phase for event in self.finished)

    @contextmanager
    def phase(self, name: str, cells: int | None = None, done: int = 0) -> Iterator[None]:
        """Time a phase of `cells` cells (None: not known in advance); `done` of them were done before.

        Seconds for which the phase waits for the compiler are not counted.
        """
        self._cells, started, compiled_before = 0, perf_counter(), self.compile_seconds
        self._emit(PhaseStarted(name, cells, done))
        yield
        compiling = self.compile_seconds - compiled_before
        event = PhaseFinished(name, self._cells, max(0.0, perf_counter() - started - compiling))
        self.finished.append(event)
        self._emit(event)
