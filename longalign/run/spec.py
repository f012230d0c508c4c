"""What a run is asked for: two sequences, how to align them, and where to keep the results."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from longalign._version import __version__
from longalign.errors import UsageError
from longalign.model.geometry import Grid
from longalign.model.mode import LOCAL, Mode
from longalign.model.pruning import KnownBound
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.strand import STRANDS_OF, StrandChoice
from longalign.store.layout import strand_folder
from longalign.store.manifest import (
    MAX_ALIGNMENTS,
    Command,
    Manifest,
    Prune,
    SequenceRecord,
    StartStates,
)
from longalign.system.rationals import Number, is_long, spell


@dataclass(frozen=True, slots=True, eq=False)
class RunSpec:
    """One pair to align, or only to score.

    Everything that is finished is kept in `store`, a directory, or in memory if there is none. With
    `start_states` "eager", phase 1 keeps start states as well: phase 2 then only reads them, and so does
    `trace_cell`. The `query` is held on its `strand`; for "both", `per_strand` gives a run for each strand.

    In local mode, `top` > 1 asks for that many alignments on one strand, no two of which use the same letter
    pair. No alignment with a score below `min_score`, in the units that the user gave, is returned.

    With `prune` "auto", cells that no optimal alignment visits are left out where that can be proved.

    The sequences are held in the alphabet of `scoring`. Raises InputError for letters outside that alphabet,
    and for sequences that are too long for `scoring`; UsageError for a strand that the alphabet does not
    have, for a `top` that the mode, the command, the strands or eager start states exclude, and for a `top`
    or `min_score` that a store could not hold.
    """

    query: Sequence
    target: Sequence
    scoring: Scoring
    mode: Mode = LOCAL
    command: Command = "align"
    start_states: StartStates = "lazy"
    store: Path | None = None
    strand: StrandChoice = "plus"
    top: int = 1
    min_score: Number | None = None
    prune: Prune = "auto"

    def __post_init__(self) -> None:
        self._check_top()
        if self.min_score is not None and is_long(self.min_score):
            raise UsageError(f"the least score {spell(self.min_score)} has too many digits")
        query, target = (text.under(self.scoring.alphabet) for text in (self.query, self.target))
        on_strands = [query.on(strand) for strand in STRANDS_OF[self.strand]]
        object.__setattr__(self, "query", on_strands[0])
        object.__setattr__(self, "target", target.on("plus"))
        self.scoring.check_range(query.length, target.length)

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
            manifest.strand,
            manifest.top,
            manifest.min_score,
        )

    @property
    def per_strand(self) -> tuple[RunSpec, ...]:
        """The run itself, or, for both strands, a run for each; each with a store of its own."""
        strands = STRANDS_OF[self.strand]
        if len(strands) == 1:
            return (self,)
        folders = [None if self.store is None else strand_folder(self.store, strand) for strand in strands]
        pairs = zip(strands, folders, strict=True)
        return tuple(replace(self, strand=strand, store=folder) for strand, folder in pairs)

    @property
    def prunes(self) -> bool:
        """Whether cells may be left out.

        Start states, and alignments after the best one, depend on cells that no optimal alignment visits.
        """
        return self.prune == "auto" and not self.is_eager and self.top == 1

    def manifest(self, grid: Grid, known: KnownBound | None = None) -> Manifest:
        """The manifest of a new store for this run, over one strand. If a bound is known, it is pruned."""
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
            strand=self.query.strand,
            top=self.top,
            min_score=self.min_score,
            pruned_with=known,
        )

    def _check_top(self) -> None:
        if self.top == 1:
            return
        if self.top > MAX_ALIGNMENTS:
            raise UsageError(f"{self.top:,} alignments are too many: at most {MAX_ALIGNMENTS:,} are found")
        if not (self.mode.starts_anywhere and self.mode.ends_anywhere):
            raise UsageError(f"several alignments are found in local mode only, not in mode {self.mode}")
        if self.command == "score":
            raise UsageError("a score has no alignments: several are found by align only")
        if self.is_eager:
            raise UsageError("start states lead to one alignment only: several need lazy start states")
        if self.strand == "both":
            raise UsageError("several alignments are found on one strand: choose plus or minus")

    @property
    def is_eager(self) -> bool:
        """Whether phase 1 keeps start states."""
        return self.start_states == "eager"
