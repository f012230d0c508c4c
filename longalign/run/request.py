"""The input of the planner: the properties of a run, and the resources that it may use."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from longalign.backends.base import Backend, DeviceFacts, FactsAbout, Workers
from longalign.model.geometry import (
    BYTES_PER_KEPT_START,
    BYTES_PER_STORED_CELL,
    BYTES_PER_STORED_START,
    BYTES_PER_WIDE_STEP,
)
from longalign.model.mode import LOCAL, Mode
from longalign.model.pruning import KnownBound
from longalign.model.scoring import Scoring
from longalign.run.spec import RunSpec
from longalign.store.manifest import Command, StartStates

if TYPE_CHECKING:  # importing it imports Dask
    from longalign.run.engines.dask import Cluster

_DEFAULT_SCORING = Scoring()

#: A pruned run that computes at most this share of the cells gets small tiles, most of which it leaves out,
#: unless there would be few of them.
_NARROW_SHARE = 0.3

#: Two sequences are nearly equal if the best score is at least this part of that of equal ones.
_SCORE_OF_EQUALS = 0.99

#: The factor by which start states make phase 1 longer. It was measured to be two to eight.
_EAGER_SLOWDOWN = 4.0

#: Letters by which a narrow band may be wider than expected.
_BAND_MARGIN = 1 << 17


@dataclass(frozen=True, slots=True)
class Resources:
    """What a run may use: devices, bytes of host memory, and bytes of boundaries.

    If `store_budget` is None, the planner chooses a number of bytes with which phases 2 and 3 take little
    time, limited by the free memory or disk. `cluster`, if given, connects to workers that sweep the tiles
    instead of `backends`. It is called with `Request.facts_about`, which each worker calls.
    """

    backends: Sequence[Backend]
    memory: int
    store_budget: int | None = None
    cluster: Callable[[FactsAbout], AbstractContextManager[Cluster]] | None = None

    def tiles_at_once(self, request: Request, max_tiles: int = sys.maxsize) -> int:
        """How many tiles this process sweeps at a time: one a device, or up to `max_tiles` on a single one.

        Several on one device are for runs that compute all cells, without start states. `Slabs` decides for
        pruned runs.
        """
        count = len(self.backends)
        if count > 1 or request.is_pruned or request.is_eager:
            return count
        at_once = self.backends[0].tiles_at_once(request.rows, request.cols, small=request.top > 1)
        return min(at_once, max(1, max_tiles))


@dataclass(frozen=True, slots=True)
class Request:
    """The properties of a run on which the grid of its DP matrix, `rows` x `cols` letters, depends.

    With `command` "score" and lazy start states, only the edges of tiles are stored. Without `store_path`,
    boundaries are kept in memory. `workers`, if given, sweep the tiles instead of `Resources.backends`. Each
    of `strands` strands of the query has a matrix of its own; all are cut alike. A pruned run is expected to
    compute `share` of the cells, and knows that the best score is at least `bound`, scaled. A run may look
    for the `top` best alignments.
    """

    rows: int
    cols: int
    command: Command = "align"
    store_path: Path | None = None
    workers: Workers | None = None
    start_states: StartStates = "lazy"
    scoring: Scoring = _DEFAULT_SCORING
    mode: Mode = LOCAL
    strands: int = 1
    share: float = 1.0
    bound: int = 0
    top: int = 1

    @classmethod
    def of(cls, spec: RunSpec, workers: Workers | None = None, known: KnownBound | None = None) -> Request:
        """The request for a run, pruned with a bound if that is known."""
        return cls(
            spec.query.length,
            spec.target.length,
            spec.command,
            spec.store,
            workers,
            spec.start_states,
            spec.scoring,
            spec.mode,
            len(spec.per_strand),
            1.0 if known is None else known.share,
            0 if known is None else known.score,
            spec.top,
        )

    def facts_about(self, backend: Backend, devices: int) -> DeviceFacts:
        """What a planner needs to know about one of `devices` devices that share this run."""
        slowdown = _EAGER_SLOWDOWN if self.is_eager else 1.0
        size, local = (self.rows, self.cols), self.mode.starts_anywhere
        return DeviceFacts.of(backend, *size, devices, self.scoring, local, slowdown)

    @property
    def in_memory(self) -> bool:
        """Whether the boundaries are kept in memory."""
        return self.store_path is None

    @property
    def lattices_in_memory(self) -> int:
        """The most lattices that are in memory at a time.

        With several alignments, those are the first one, unless it is stored, the one before, and the one
        that is computed (see `next_best`).
        """
        return self.in_memory + 2 * (self.top > 1)

    @property
    def is_eager(self) -> bool:
        """Whether phase 1 stores start states as well."""
        return self.start_states == "eager"

    @property
    def edges_only(self) -> bool:
        """Whether only the edges of tiles are stored, and no boundaries inside them."""
        return self.command == "score" and not self.is_eager

    @property
    def keeps_front_only(self) -> bool:
        """Whether the edge of a tile is dropped when the next tile has read it (`MemoryStore`).

        One edge then remains in each row and column of tiles. Pruned runs also keep rows that were guessed.
        """
        return self.edges_only and self.in_memory and not self.is_pruned

    @property
    def is_pruned(self) -> bool:
        """Whether cells are left out."""
        return self.share < 1

    @property
    def is_narrow(self) -> bool:
        """Whether a pruned run is expected to compute only a narrow band of the matrix."""
        return self.share <= _NARROW_SHARE

    @property
    def is_of_equals(self) -> bool:
        """Whether one of the two sequences is known to be nearly equal to a part of the other one."""
        most = self.scoring.highest * min(self.rows, self.cols)
        return self.bound >= _SCORE_OF_EQUALS * most > 0

    @property
    def kept_share(self) -> float:
        """The share of the lattice's cells that takes space. Cells that were left out take hardly any.

        Twice the expected share of cells is planned for.
        """
        if not self.is_narrow:
            return 1.0
        return min(1.0, 2 * self.share + _BAND_MARGIN / min(self.rows, self.cols))

    @property
    def cell_bytes(self) -> float:
        """Bytes to plan for a boundary cell on all strands together, with its start states if eager."""
        cell_bytes = BYTES_PER_STORED_CELL * self.scoring.difference_bytes
        if self.is_pruned and self.in_memory:
            cell_bytes += BYTES_PER_WIDE_STEP
        if self.is_eager:
            cell_bytes += BYTES_PER_KEPT_START if self.in_memory else BYTES_PER_STORED_START
        return self.strands * cell_bytes

    def __str__(self) -> str:
        return f"{self.rows:,} x {self.cols:,} letters"
