"""What a run is asked for: two sequences, how to align them, and where to keep the results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from longalign._version import __version__
from longalign.errors import UsageError
from longalign.model.geometry import Grid
from longalign.model.mode import LOCAL, Mode
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.store.manifest import Command, Manifest, SequenceRecord, StartStates


@dataclass(frozen=True, slots=True, eq=False)
class RunSpec:
    """One pair to align, or only to score.

    Everything that is finished is kept in `store`, a directory, or in memory if there is none. With
    `start_states` "eager", phase 1 keeps start states as well: phase 2 then only reads them, and so does
    `trace_cell`.

    In local mode, `top` > 1 asks for that many alignments, no two of which use the same letter pair. No
    alignment with a score below `min_score` is computed.

    The sequences are held in the alphabet of `scoring`. Raises InputError for letters outside that alphabet,
    and for sequences that are too long for `scoring`;
    UsageError for a `top` that the mode, the command or eager start states exclude.
    """

    query: Sequence
    target: Sequence
    scoring: Scoring
    mode: Mode = LOCAL
    command: Command = "align"
    start_states: StartStates = "lazy"
    store: Path | None = None
    top: int = 1
    min_score: int | None = None

    def __post_init__(self) -> None:
        self._check_top()
        for name in ("query", "target"):
            object.__setattr__(self, name, getattr(self, name).under(self.scoring.alphabet))
        self.scoring.check_range(self.query.length, self.target.length)

    @classmethod
    def of_store(cls, store: Path, manifest: Manifest, query: Sequence, target: Sequence) -> RunSpec:
        """What a store was made for, with these two sequences."""
        return cls(
            query,
            target,
            manifest.scoring,
            manifest.mode,
            manifest.command,
            manifest.start_states,
            store,
        )

    def manifest(self, grid: Grid) -> Manifest:
        """The manifest of a new store for this run, cut like `grid`."""
        query, target = SequenceRecord.of(self.query), SequenceRecord.of(self.target)
        return Manifest(
            query,
            target,
            self.mode,
            self.scoring,
            grid,
            program=__version__,
            command=self.command,
            start_states=self.start_states,
        )

    def _check_top(self) -> None:
        if self.top == 1:
            return
        if not self.mode.may_be_empty:
            raise UsageError(f"several alignments are found in local mode only, not in mode {self.mode}")
        if self.command == "score":
            raise UsageError("a score has no alignments: several are found by align only")
        if self.is_eager:
            raise UsageError("start states lead to one alignment only: several need lazy start states")

    @property
    def is_eager(self) -> bool:
        """Whether phase 1 keeps start states."""
        return self.start_states == "eager"
