"""What a run reports and returns: events while it lasts, and its outcome."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from time import perf_counter

from longalign.backends.kernel_cache import why_not_writable
from longalign.errors import UsageError
from longalign.events import (
    Advanced,
    CompileFinished,
    CompileStarted,
    Emit,
    Event,
    Notice,
    PhaseFinished,
    PhaseStarted,
    TileFinished,
    ignore,
)
from longalign.model.alignment import Alignment
from longalign.model.alphabet import Codes
from longalign.model.boundary import BestCell, Waypoint
from longalign.model.strand import Strand
from longalign.run.spec import RunSpec
from longalign.store import Piece
from longalign.system.rationals import Number


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a run found: the end of the best alignment, the alignment if it was asked for, and the cost.

    - `spec`: the run, on the strand of the alignment.
    - `end`: the end cell in boundary indices of query and target, along that strand. Its value is scaled
      (`Scoring.scale`).
    - `phases`: those that ran in this process. A pair that was computed in a batch has its share of them, by
      cells.
    - `compile_seconds`: how long the run waited for the compiler. No phase counts them.
    - `strand_scores`: the best score of each strand that was asked for, in the units that the user gave;
      None if, after pruning, it is only known to be lower than that of the other strand.
    - `further`: the next best alignments, in decreasing score, if more than one was asked for. `phases` and
      `compile_seconds` then include theirs.
    """

    spec: RunSpec
    end: Waypoint
    alignment: Alignment | None
    phases: tuple[PhaseFinished, ...]
    backend: dict[str, str]
    compile_seconds: float = 0.0
    strand_scores: Mapping[Strand, Number | None] = field(default_factory=dict)
    further: tuple[Outcome, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing aligns: the best alignment is the empty one, in a mode that has a choice."""
        mode, end = self.spec.mode, self.end
        return mode.may_be_empty and mode.starts_at(end.i, end.j, end.value)

    @property
    def alignments(self) -> list[Alignment]:
        """The alignments that were found, the best one first; none without columns."""
        found = [one.alignment for one in (self, *self.further) if not one.is_empty]
        return [alignment for alignment in found if alignment is not None]

    def followed_by(self, further: tuple[Outcome, ...]) -> Outcome:
        """This outcome with further ones, whose cells and seconds are added to its own."""
        if not further:
            return self
        sums: dict[str, PhaseFinished] = {}
        for phase in (phase for one in (self, *further) for phase in one.phases):
            sums[phase.name] = sums[phase.name].plus(phase) if phase.name in sums else phase
        phases = tuple(sums.values())
        compiling = sum(one.compile_seconds for one in (self, *further))
        return replace(self, further=further, phases=phases, compile_seconds=compiling)

    @property
    def score(self) -> Number:
        """The optimal score in the units that the user gave: an int, or a Fraction if the scale is not 1."""
        return self.spec.scoring.unscaled(self.end.value)

    @property
    def best(self) -> BestCell:
        """Score and end; `BestCell()` if nothing aligns in a mode whose alignments end anywhere."""
        is_nowhere = self.is_empty and self.spec.mode.ends_anywhere
        strand = "plus" if is_nowhere else self.spec.query.strand
        return BestCell(self.score, self.end.i, self.end.j, strand=strand)


def checked_alignment(
    spec: RunSpec,
    path: Sequence[Waypoint],
    piece: Piece,
    *,
    end_given: bool = False,
    codes: tuple[Codes, Codes] | None = None,
) -> Alignment:
    """The alignment along a path, given from its end backwards, whose runs are those of `piece`.

    `end_given`: see `Alignment`; `codes`: see `Alignment.from_runs`. Raises InternalError if the letters of
    the sequences do not score what the path claims.
    """
    end, start = path[0], path[-1]
    alignment = Alignment.from_runs(
        spec.query,
        spec.target,
        spec.scoring,
        spec.mode,
        spec.scoring.unscaled(end.value),
        (start.i, start.j),
        piece.ops,
        piece.lengths,
        end_given=end_given,
        codes=codes,
    )
    alignment.check()
    return alignment


def strand_scores(specs: Sequence[RunSpec], ends: Sequence[Waypoint | None]) -> dict[Strand, Number | None]:
    """The best scores of these strands, in the units that the user gave; None where there is no end cell."""
    return {
        spec.query.strand: None if end is None else spec.scoring.unscaled(end.value)
        for spec, end in zip(specs, ends, strict=True)
    }


def best_strand(ends: Sequence[Waypoint]) -> int:
    """The number of the strand with the best score; of equal ones, the first."""
    return max(range(len(ends)), key=lambda number: ends[number].value)


class Recorder:
    """An `Emit` that passes events on, and measures the cells and the seconds of each phase."""

    def __init__(self, emit: Emit) -> None:
        if not callable(emit):
            raise UsageError(f"emit must be a function of one event, not {emit!r:.60}")
        self.finished: list[PhaseFinished] = []
        self.compile_seconds = 0.0
        self._emit = emit
        self._cells, self._left_out, self._seconds = 0, 0, 0.0
        self._unfinished: str | None = None
        self._told = isinstance(emit, Recorder)  # which tells

    def __call__(self, event: Event) -> None:
        if isinstance(event, CompileStarted):
            self._tell_if_kernels_are_lost()
        elif isinstance(event, Advanced):
            self._cells += event.cells
            self._left_out += event.left_out
        elif isinstance(event, TileFinished):
            self._left_out += event.left_out
        elif isinstance(event, CompileFinished):
            self.compile_seconds += event.seconds
        self._emit(event)

    def _tell_if_kernels_are_lost(self) -> None:
        """Emit a Notice, once a run, if what is compiled cannot be kept."""
        if not self._told and (why := why_not_writable()):
            self._told = True
            self._emit(Notice(f"{why}: every run compiles its kernels again; set XDG_CACHE_HOME"))

    @property
    def is_watched(self) -> bool:
        """Whether anything is done with the events."""
        return self._emit is not ignore

    def advance(self, cells: int) -> None:
        """A `Progress` that reports the cells as an event."""
        self(Advanced(cells))

    def has(self, phase: str) -> bool:
        """Whether a phase has run to its end."""
        return any(event.name == phase for event in self.finished)

    @contextmanager
    def phase(
        self, name: str, cells: int | None = None, done: int = 0, *, continues: bool = False
    ) -> Iterator[None]:
        """Time a phase of `cells` cells (None: not known in advance); `done` of them were done before.

        A phase that `continues` is finished by the next block of its name. Seconds for which the phase waits
        for the compiler are not counted.
        """
        if self._unfinished != name:
            self._cells, self._left_out, self._seconds = 0, 0, 0.0
            self._emit(PhaseStarted(name, cells, done))
        self._unfinished = None  # after a failure, the phase starts again
        started, compiled_before = perf_counter(), self.compile_seconds
        yield
        compiling = self.compile_seconds - compiled_before
        self._seconds += max(0.0, perf_counter() - started - compiling)
        if continues:
            self._unfinished = name
            return
        event = PhaseFinished(name, self._cells, self._seconds, self._left_out)
        self.finished.append(event)
        self._emit(event)
