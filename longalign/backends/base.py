"""The interface of a back end: sweep rectangles, find start states, and trace small rectangles.

The recurrence that every back end computes is in `longalign.model.recurrence`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from longalign.model.alphabet import Codes
from longalign.model.boundary import BestCell, Boundary, Edge, IntArray, StartLine, State
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs
from longalign.model.geometry import checkpoint_rows
from longalign.model.pruning import Pruning
from longalign.model.scoring import Scoring
from longalign.system.threads import in_threads

T = TypeVar("T")

#: A path in runs: the operations, uint8 of shape (k,), are those of `alignment.Op`, and their lengths, int64
#: of shape (k,), are at least 1. Neighbouring operations differ.
Runs = tuple[NDArray[np.uint8], NDArray[np.int64]]

#: A back end calls it from its caller's thread, with the number of cells finished since the last call. It may
#: raise. The back end then stops its work, leaves the device usable, and passes the exception on.
Progress = Callable[[int], None]

#: The approximate number of seconds between two such calls.
PROGRESS_SECONDS = 0.1

#: The least rows and columns of a rectangle whose sweep may leave out cells (`SweepJob.is_prunable`).
_MIN_PRUNED_SIDE = 3


def no_progress(cells: int) -> None:
    """A `Progress` that does nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Rectangle:
    """A rectangle of the DP matrix: letters, scoring, and boundary conditions.

    `query` of shape (m,) and `target` of shape (n,) are contiguous uint8 codes, m >= 1 and n >= 1. With a
    table in `scoring`, a code is an index into that table. Without one, equal codes score `match` and others
    `mismatch`. Codes 0-3 are then A C G T. Ambiguous letters have the code 4 in a query and 5 in a target, so
    they never match; back ends rely on that.

    `top` has length n (gap = E) and `left` has length m (gap = F). `top.h[0] == left.h[0]`. `local` sets the
    floor of 0. A back end must sweep every finite value that `Scoring.check_range` admits.

    `excluded` are letter pairs that no path may use. Some back ends ignore them (`Backend.excludes_pairs`);
    `longalign.backends.excluding` adds them to any back end.

    With `pruning`, a sweep may leave out any cells that it shows not to be needed. They have the values
    of `pruning.values_left_out` in the results. All other values may then be lower than in the whole matrix,
    but those on paths of interest are exact.

    Raises ValueError for edges or gains of other lengths, with which a back end would access memory out of
    bounds.
    """

    query: Codes
    target: Codes
    scoring: Scoring
    top: Edge
    left: Edge
    local: bool
    excluded: ExcludedPairs = field(default=NO_PAIRS, kw_only=True)
    pruning: Pruning | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        letters, edges = (len(self.query), len(self.target)), (len(self.left), len(self.top))
        if letters != edges:
            raise ValueError(f"a rectangle of {letters} letters has edges of {edges}")
        if self.pruning is not None:
            gains = len(self.pruning.query.most) - 1, len(self.pruning.target.most) - 1
            if letters != gains:
                raise ValueError(f"a rectangle of {letters} letters has gains for {gains}")

    @property
    def cells(self) -> int:
        """Number of cell updates."""
        return len(self.query) * len(self.target)


class LineSink(Protocol):
    """Receives boundaries of equal length in pieces. The pieces of one boundary come in order."""

    def put(self, line: int, start: int, h: IntArray, gap: IntArray) -> None:
        """Receive the next cells of a line, those after its first `start` cells. The corner is not counted.

        The sink must copy the arrays, which the caller reuses. Different lines may come from different
        threads. Raises InternalError for a piece that does not follow the previous piece of its line.
        """
        ...


@dataclass(frozen=True, slots=True)
class Sinks:
    """The sinks of a job's requested rows and columns. A line's number is its index in the job's tuple."""

    rows: LineSink
    cols: LineSink


@dataclass(frozen=True, slots=True, eq=False)
class SweepJob(Rectangle):
    """A rectangle to sweep, and the results requested from the sweep.

    `rows` and `cols` are the boundary indices requested, strictly increasing within 1..m and 1..n. They are
    the lattice, and m and n themselves if the bottom and the right edge are requested. With `sinks`, the
    boundaries go there as soon as they are computed, and the result contains none. `track_best` requests the
    best cell with a positive score.

    `of_matrix` states that the edges are those of a part of a DP matrix in the job's mode and with its
    scoring. A back end may rely on this instead of examining the values on the edges. With pruning, some of
    these values may be lower than in the matrix.
    """

    rows: tuple[int, ...] = ()
    cols: tuple[int, ...] = ()
    track_best: bool = True
    sinks: Sinks | None = None
    of_matrix: bool = False

    @property
    def is_prunable(self) -> bool:
        """Whether a sweep may leave out blocks of cells.

        The proofs in `cpu.skipping` and `cuda.planning.raised_range` need edges of a DP matrix on which H is
        finite. Only rectangles with fewer rows or columns than `_MIN_PRUNED_SIDE` may have edges on which
        it is minus infinity: those that a path enters in a gap state (`phases.meeting`).
        """
        shortest = min(len(self.query), len(self.target))
        return self.pruning is not None and self.of_matrix and shortest >= _MIN_PRUNED_SIDE

    @property
    def finds_best(self) -> bool:
        """Whether its kernel finds the best cell: also where H has the floor of 0, although not requested.

        Such sweeps are rare (the value of a cell to trace). They do not need kernels of their own, and the
        8-bit kernel of the CPU cannot do without the best cell.
        """
        return self.local or self.track_best


@dataclass(frozen=True, slots=True, eq=False)
class EdgeStarts:
    """Where the paths to a rectangle's bottom and right edge enter it, or, in local mode, begin inside it.

    `bottom` has n elements (gap = E) and `right` has m (gap = F). Rows and columns count from the rectangle's
    upper left corner. A path that enters through the top edge is in H or E there, and one that enters through
    the left edge is in H or F. A path that begins inside begins in H with value 0.
    """

    bottom: StartLine
    right: StartLine


#: Boundaries with fewer cells than this together are packed sooner than threads start.
_WORTH_THREADS = 1 << 19


@dataclass(frozen=True, slots=True, eq=False)
class SweepResult:
    """The result of sweeping one job: the requested boundaries, in order, and the best cell.

    `rows[k]` is the boundary of length n at row `job.rows[k]` (gap = E), and `cols[k]` that of length m at
    column `job.cols[k]` (gap = F). The indices of `best` are those of the rectangle, 1..m and 1..n. `best` is
    BestCell() if no cell is positive or if it was not requested. With pruning it is exact if its score is at
    least the bound; a back end need not look for lower scores. `cells_left_out` cells were not computed, or
    a few more: a back end need not count all of them.
    """

    rows: tuple[Boundary, ...]
    cols: tuple[Boundary, ...]
    best: BestCell
    cells_left_out: int = 0

    def delivered(self, job: SweepJob) -> SweepResult:
        """Put the boundaries into the job's sinks, and return the result without them.

        A job without sinks gets this result unchanged.
        """
        if job.sinks is None:
            return self

        def put(sink: LineSink, number: int, line: Boundary) -> None:
            sink.put(number, 0, line.h[1:], line.gap[1:])

        both = (job.sinks.rows, self.rows), (job.sinks.cols, self.cols)
        lines = [(sink, *item) for sink, lines in both for item in enumerate(lines)]
        if sum(len(line) for _, _, line in lines) < _WORTH_THREADS:
            for item in lines:
                put(*item)
        else:
            in_threads(put, *zip(*lines, strict=True))
        return SweepResult((), (), self.best, self.cells_left_out)


@dataclass(frozen=True, slots=True, eq=False)
class TraceJob:
    """A rectangle whose optimal path is requested, from its upper left to its lower right corner.

    `query` of shape (m,) and `target` of shape (n,) are codes as in `Rectangle`, m >= 1 and n >= 1. Every
    path enters in the state `entry` (see `boundary.entry_edges`) and leaves in the state `exit`. At least one
    such path must exist. The back ends of runs ignore `excluded` (see `Rectangle`);
    `longalign.backends.excluding` traces such rectangles.

    `detour`, if not None, limits where optimal paths can run. In each of their cells (i, j),
    min(0, n - m) - detour <= j - i <= max(0, n - m) + detour. A back end may leave out all other cells.
    """

    query: Codes
    target: Codes
    scoring: Scoring
    entry: State
    exit: State
    detour: int | None = None
    excluded: ExcludedPairs = field(default=NO_PAIRS, kw_only=True)

    @property
    def diagonals(self) -> tuple[int, int]:
        """The lowest and the highest j - i that a cell (i, j) of an optimal path may have."""
        return diagonals(len(self.query), len(self.target), self.detour)

    @property
    def cells(self) -> int:
        """Number of cell updates."""
        return len(self.query) * len(self.target)


def diagonals(rows: int, cols: int, detour: int | None) -> tuple[int, int]:
    """The lowest and the highest diagonal j - i of paths between two corners of a rectangle.

    `detour`: see `TraceJob`.
    """
    if detour is None:
        return -rows, cols
    return max(-rows, min(0, cols - rows) - detour), min(cols, max(0, cols - rows) + detour)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """The properties of a device that a planner needs. They are plain values, so processes can exchange them.

    `largest` is the `tile_shape` of the device's back end for one device, and `shared` the one for all
    devices of the run. `strip_width` is for tiles of the shape `shared`. The other fields are those of
    `Backend`, but for `stored_rows`: the most rows of a tile in a run with a store (`checkpoint_rows`), and
    `seconds`: about how long it would take for the whole DP matrix.
    """

    largest: tuple[int, int]
    shared: tuple[int, int]
    min_chunk: int
    cells_per_path_cell: int
    line_bytes: int
    max_boundary_cells: int
    strip_width: int
    stored_rows: int = sys.maxsize
    max_share_pruned: float = 0.0
    max_share_stored: float = 0.0
    seconds: float = 0.0

    @classmethod
    def of(
        cls,
        backend: Backend,
        rows: int,
        cols: int,
        devices: int,
        scoring: Scoring,
        local: bool,
        slowdown: float,
    ) -> DeviceFacts:
        """The facts about one of `devices` devices that share a DP matrix of `rows` x `cols` letters.

        `scoring` and `local` are those of the run. `slowdown` is the factor by which a tile takes longer than
        its sweep. It only matters for the height of tiles in a run with a store.
        """
        largest, shared = (backend.tile_shape(rows, cols, count) for count in (1, devices))

        def seconds(height: int, width: int) -> float:
            return backend.tile_overhead + slowdown * backend.sweep_seconds(height, width, scoring, local)

        return cls(
            largest, shared, backend.min_chunk, backend.cells_per_path_cell, backend.line_bytes,
            backend.max_boundary_cells(), backend.strip_width(*shared),
            checkpoint_rows(rows, cols, shared, devices, seconds),
            backend.max_share_pruned, backend.max_share_stored,
            backend.sweep_seconds(rows, cols, scoring, local),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Workers:
    """The devices of other processes. Each process has at least `memory` bytes of host memory for itself."""

    devices: Sequence[DeviceFacts]
    memory: int


class Kernel(NamedTuple):
    """A function that a back end compiles. `name` is unique among the kernels of the back end.

    `load` compiles it or loads it from the cache on disk, for use in this process. It raises BackendError if
    the kernel does not compile.
    """

    name: str
    load: Callable[[], object]


class Backend(Protocol):
    """A device that sweeps and traces. One instance may be used by one thread at a time."""

    #: The name by which the user selects it, with a number if there may be several: "cpu", "cuda:0".
    name: str

    #: The smallest useful side of a chunk in a store, in letters. Smaller chunks need more boundaries, which
    #: take time to deflate. The planner may make chunks in memory shorter.
    min_chunk: int

    #: Chunks are sized so that the DP matrix has this many times the cells of the chunks along a staircase.
    cells_per_path_cell: int

    #: The largest share of the cells, 0..1, that a pruned run may be expected to compute. With a larger one,
    #: a run that computes all cells would take less time. 0 if sweeps do not leave out blocks of cells.
    max_share_pruned: float

    #: The same in a run with a store. To deflate the boundaries may take as long as to sweep all cells.
    max_share_stored: float

    #: The fewest cells of a rectangle in phases 2 and 3 that is swept sooner if some of its cells are left
    #: out. The host takes time to find out which.
    min_pruned_cells: int

    #: Whether `sweep` and `starts` leave out the excluded pairs of a rectangle.
    excludes_pairs: bool

    #: The smallest side at which a single square rectangle keeps the device busy.
    saturating_side: int

    #: The most bytes of host memory that the rectangles of one call in phases 2 and 3 may take. Rectangles of
    #: this total size keep the device busy.
    host_bytes_per_call: int

    #: Bytes of host memory that a process takes before it holds a letter: Python, the libraries, and the
    #: compiler, on the first run on a machine.
    program_bytes: int

    #: Bytes of host memory that a boundary cell takes between its sweep and the end of packing and storing.
    line_bytes: int

    #: Seconds that a tile takes beside its sweep: its edges, its file.
    tile_overhead: float

    #: Seconds that a pruned sweep takes for each row besides its cells, where it follows a narrow band.
    band_row_seconds: float

    def kernels(self, scoring: Scoring | None = None, *, local: bool = True) -> list[Kernel]:
        """All kernels that the back end may use by default. Those that take longest to compile come first.

        With a `scoring`, only the kernels that phases 2 and 3 need for the path of an alignment, a local one
        if `local`, otherwise a global one. A rarely needed kernel may be missing.
        """
        ...

    def max_compilers(self) -> int:
        """The largest number of processes that may compile kernels at a time. Each may need device memory."""
        ...

    def max_boundary_cells(self) -> int:
        """The largest number of boundary cells of one sweep that fit in device memory."""
        ...

    def parts(self, max_parts: int, cells: int, *, streams: bool) -> Sequence[Backend]:
        """At most `max_parts` back ends that use the device at the same time: only this one, or several.

        Each sweeps rectangles with up to `cells` boundary cells. Several take less time where a tile does not
        keep the whole device busy, as in a band, or while it begins and ends. With `streams`, the parts may
        fetch boundaries while they sweep. That suits a few parts that compute most cells of their tiles.
        """
        ...

    def tiles_at_once(self, rows: int, cols: int, *, small: bool) -> int:
        """The number of `parts` with which all tiles of a DP matrix of this size are swept soonest.

        `small`: tiles are to be small, because some of them will be swept again.
        """
        ...

    def sweep(self, jobs: Sequence[SweepJob], progress: Progress = no_progress) -> list[SweepResult]:
        """Sweep independent rectangles together; the results are in order.

        A CUDA back end uses one launch for each kernel that the jobs need.

        Raises BackendError if the device fails, and whatever `progress` raises.
        """
        ...

    def can_trace(self, rows: int, cols: int, detour: int | None = None) -> bool:
        """Whether a rectangle is small enough to be traced with this `TraceJob.detour`. A single cell is.

        Tracing needs memory for each cell that is computed: four bits or more on a GPU, a byte on a CPU, and
        13 bytes where pairs are excluded.
        """
        ...

    def trace(self, jobs: Sequence[TraceJob], progress: Progress = no_progress) -> list[Runs]:
        """The optimal paths through independent rectangles, in order. `can_trace` must hold for each.

        Among equally good paths, `recurrence.direction` decides, so all back ends find the same path.
        Raises BackendError if the device fails, and whatever `progress` raises.
        """
        ...

    def starts(self, jobs: Sequence[Rectangle], progress: Progress = no_progress) -> list[EdgeStarts]:
        """The start states on the edges of independent rectangles, in order.

        Among equally good paths, `recurrence.make_start_rule` decides, so all back ends find the same starts.
        Phases 2 and 3 of a lazy run ask for them where equally good paths enter a rectangle at several cells.
        Raises BackendError if the device fails, and whatever `progress` raises.
        """
        ...

    def tile_shape(self, rows: int, cols: int, devices: int = 1) -> tuple[int, int]:
        """The rows and columns of a tile for one call, which takes some seconds.

        With several `devices` like this one that share the DP matrix, it is the shape with which they finish
        soonest. A tile must leave room in device memory, because `geometry.enlarged_tile_side` may make it
        slightly larger.
        """
        ...

    def strip_width(self, rows: int, cols: int) -> int:
        """The number of columns that are swept together in a tile of this size.

        Requested columns cost least at multiples of this number.
        """
        ...

    def sweep_seconds(self, rows: int, cols: int, scoring: Scoring, local: bool) -> float:
        """The approximate seconds to sweep a rectangle of this size alone, with no boundary requested.

        It is right to within a factor of two or three, for messages and rough decisions.
        """
        ...

    def explain(self, job: SweepJob) -> dict[str, str]:
        """How a rectangle would be swept, and why, in words for the user. Nothing is swept."""
        ...

    def describe(self) -> dict[str, str]:
        """The hardware and the versions of software, for reports and for `longalign devices`."""
        ...


def in_calls(parts: Sequence[T], needed: Sequence[int], host_bytes: int, max_parts: int) -> list[list[T]]:
    """Groups of consecutive parts, each within `host_bytes` and at most `max_parts` parts.

    `needed` are the bytes of each part. One that needs more than `host_bytes` forms a group of its own.
    """
    calls: list[list[T]] = []
    room = 0
    for part, size in zip(parts, needed, strict=True):
        if not calls or size > room or len(calls[-1]) == max_parts:
            calls.append([])
            room = host_bytes
        calls[-1].append(part)
        room -= size
    return calls


#: Tells the facts about one of a number of devices that share a run.
FactsAbout = Callable[[Backend, int], DeviceFacts]
