"""What a back end does: sweep rectangles, say where paths enter them, trace small ones. See `recurrence`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from longalign.model.alphabet import Codes
from longalign.model.boundary import BestCell, Boundary, Edge, IntArray, StartLine, State
from longalign.model.excluded_pairs import NO_PAIRS, ExcludedPairs
from longalign.model.scoring import Scoring
from longalign.system.threads import in_threads

#: A path in runs: operations (k,) uint8, those of `alignment.Op`, and their lengths (k,) int64, none of
#: them 0; neighbouring operations differ.
Runs = tuple[NDArray[np.uint8], NDArray[np.int64]]

#: Called now and then from the thread that called a back end, with the number of cells finished
#: since the last call. It may raise: the call then stops, leaves the device usable, and lets it pass.
Progress = Callable[[int], None]

#: Seconds between two such calls, about.
PROGRESS_SECONDS = 0.1


def no_progress(cells: int) -> None:
    """A `Progress` that does nothing."""


@dataclass(frozen=True, slots=True, eq=False)
class Rectangle:
    """A rectangle of the matrix: letters, scoring, and boundary conditions.

    `query` (m,) and `target` (n,) are contiguous uint8 codes, m >= 1 and n >= 1. With a matrix in `scoring`
    they are places in its letters. Without one, equal codes score `match`, others `mismatch`; codes 0-3
    are A C G T, and ambiguous letters have a code in the query that no target has, and the other way
    round, so that they never match.

    `top` has length n (h, gap = E), `left` length m (h, gap = F), and `top.h[0] == left.h[0]`.
    `local` sets the floor of 0. Raises ValueError for edges of other lengths: a back end would write beyond
    its memory.

    `excluded` are letter pairs that no path may use. Back ends ignore them; `longalign.backends.excluding`
    adds them to any back end.

    A back end that cannot sweep every finite value that `Scoring.check_range` admits is wrong.
    """

    query: Codes
    target: Codes
    scoring: Scoring
    top: Edge
    left: Edge
    local: bool
    excluded: ExcludedPairs = field(default=NO_PAIRS, kw_only=True)

    def __post_init__(self) -> None:
        letters, edges = (len(self.query), len(self.target)), (len(self.left), len(self.top))
        if letters != edges:
            raise ValueError(f"a rectangle of {letters} letters has edges of {edges}")

    @property
    def cells(self) -> int:
        """Number of cell updates."""
        return len(self.query) * len(self.target)


class LineSink(Protocol):
    """Takes boundaries of equal length piece by piece, each from its beginning on."""

    def put(self, line: int, start: int, h: IntArray, gap: IntArray) -> None:
        """The cells after the first `start` of the line of this number, the corner not counted.

        A piece that does not follow the one before, or that comes twice, is an InternalError. The arrays
        are those of the caller, who uses them again. Different lines may come from different threads.
        """
        ...


@dataclass(frozen=True, slots=True)
class Sinks:
    """Where wanted boundaries go while a rectangle is swept, numbered as in its job."""

    rows: LineSink
    cols: LineSink


@dataclass(frozen=True, slots=True, eq=False)
class SweepJob(Rectangle):
    """A rectangle to sweep, and what is wanted back.

    `rows` and `cols` are the boundary indices wanted back, strictly increasing within 1..m and 1..n: the
    lattice, and m and n themselves where the bottom and the right edge are wanted. With `sinks` they go there
    as they become known, and the result has none. `track_best` asks for the best cell with a positive score.
    `of_matrix`: the values on the edges are known to be those of a part of a matrix, in the job's mode and
    with its scoring; a back end to which that matters need not look at them.
    """

    rows: tuple[int, ...] = ()
    cols: tuple[int, ...] = ()
    track_best: bool = True
    sinks: Sinks | None = None
    of_matrix: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class EdgeStarts:
    """Where the paths to a rectangle's bottom and right edge enter it, or begin inside it in local mode.

    `bottom` has n elements (gap = E), `right` m (gap = F); rows and columns count from the upper left corner.
    A path that enters through the top is in H or E there, one that enters through the left in H or F; one
    that begins inside is in H, with value 0.
    """

    bottom: StartLine
    right: StartLine


@dataclass(frozen=True, slots=True, eq=False)
class SweepResult:
    """What a sweep of one job returns: the boundaries asked for, in order, and the best cell.

    `rows[k]` is the boundary of length n at row `job.rows[k]` (gap = E), `cols[k]` that of length m at
    column `job.cols[k]` (gap = F). `best` is in the rectangle's own indices, 1..m and 1..n, and
    BestCell() where no cell is positive or it was not asked for.
    """

    rows: tuple[Boundary, ...]
    cols: tuple[Boundary, ...]
    best: BestCell

    def delivered(self, job: SweepJob) -> SweepResult:
        """The same without boundaries, which have gone to the job's sinks; itself if it has none."""
        if job.sinks is None:
            return self

        def put(sink: LineSink, number: int, line: Boundary) -> None:
            sink.put(number, 0, line.h[1:], line.gap[1:])

        both = (job.sinks.rows, self.rows), (job.sinks.cols, self.cols)
        in_threads(
            put, *zip(*((sink, *item) for sink, lines in both for item in enumerate(lines)), strict=True)
        )
        return SweepResult((), (), self.best)


@dataclass(frozen=True, slots=True, eq=False)
class TraceJob:
    """One rectangle whose optimal path is wanted, from its upper left to its lower right corner.

    `query` (m,) and `target` (n,) are codes as in `SweepJob`, m >= 1 and n >= 1. Every path enters in the
    state `entry` (see `boundary.entry_edges`) and leaves in `exit`; there is one.
    `excluded`: see `Rectangle`.
    """

    query: Codes
    target: Codes
    scoring: Scoring
    entry: State
    exit: State
    excluded: ExcludedPairs = field(default=NO_PAIRS, kw_only=True)

    @property
    def cells(self) -> int:
        """Number of cell updates."""
        return len(self.query) * len(self.target)


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """What a planner must know of a device: plain values, so that another process can tell them of its own.

    `largest` and `shared` are the `tile_shape` of its back end, alone and among all devices of the run, and
    `strip_width` is for tiles of the latter; the others are those of `Backend`.
    """

    largest: tuple[int, int]
    shared: tuple[int, int]
    least_chunk: int
    path_share: int
    line_bytes: int
    max_boundary_cells: int
    strip_width: int

    @classmethod
    def of(cls, backend: Backend, rows: int, cols: int, devices: int) -> DeviceFacts:
        """The facts about one of so many `devices` that share a matrix of `rows` x `cols` letters."""
        largest, shared = (backend.tile_shape(rows, cols, count) for count in (1, devices))
        return cls(
            largest, shared, backend.least_chunk, backend.path_share, backend.line_bytes,
            backend.max_boundary_cells(), backend.strip_width(*shared),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Workers:
    """The devices of other processes, each of which has at least `memory` bytes of host memory for itself."""

    devices: Sequence[DeviceFacts]
    memory: int


class Kernel(NamedTuple):
    """Code that a back end compiles and runs; `name` is unique among the kernels of the back end.

    `load` compiles it, or loads it from the cache on disk, for calls in this process. It raises BackendError
    if it does not compile.
    """

    name: str
    load: Callable[[], object]


class Backend(Protocol):
    """A device that sweeps and traces. One instance may be used by one thread at a time."""

    #: How the user names it, and a number where there are several: "cpu", "cuda:0".
    name: str

    #: The side below which chunks are not worth what they cost: a square rectangle, swept by itself, takes
    #: hardly less time, and more boundaries have to be stored.
    least_chunk: int

    #: Chunks are sized so that sweeping those on the path once takes 2 / path_share of the cells of phase 1.
    path_share: int

    #: The side from which on a square rectangle keeps it busy by itself.
    saturating_side: int

    #: Bytes of host memory that the rectangles of one call in phases 2 and 3 may take: so many keep it busy.
    host_bytes_per_call: int

    #: Bytes of host memory that a boundary cell takes from when it is swept until it is stored, packed.
    line_bytes: int

    def kernels(self, scoring: Scoring | None = None, *, local: bool = True) -> list[Kernel]:
        """Every kernel that it may choose by itself, those first that take longest to compile.

        With a `scoring`: those that phases 2 and 3 need to trace a path, of a local or a global alignment. A
        rare one may be missing.
        """
        ...

    def most_compilers(self) -> int:
        """How many processes may compile kernels for the device at a time: each may need memory of it."""
        ...

    def max_boundary_cells(self) -> int:
        """How many boundary cells of one sweep there is room for on the device."""
        ...

    def sweep(self, jobs: Sequence[SweepJob], progress: Progress = no_progress) -> list[SweepResult]:
        """Sweep independent rectangles in one go (a CUDA back end: in one launch); results in order.

        Raises BackendError if the device fails, and whatever `progress` raises.
        """
        ...

    def can_trace(self, rows: int, cols: int) -> bool:
        """Whether a rectangle is small enough to be traced, which takes some bits for each of its cells.

        A single cell always is.
        """
        ...

    def trace(self, jobs: Sequence[TraceJob], progress: Progress = no_progress) -> list[Runs]:
        """The optimal paths through independent rectangles that it `can_trace`, in order.

        Of equally good paths it is the one by `recurrence.direction`, whatever the back end.
        Raises BackendError if the device fails, and whatever `progress` raises.
        """
        ...

    def starts(self, jobs: Sequence[Rectangle], progress: Progress = no_progress) -> list[EdgeStarts]:
        """The start states on the edges of independent rectangles, in order.

        Of equally good paths it is the one by `recurrence.make_start_rule`, whatever the back end.
        Raises BackendError if the device fails, and whatever `progress` raises.
        """
        ...

    def tile_shape(self, rows: int, cols: int, devices: int = 1) -> tuple[int, int]:
        """The largest tile (rows, columns) worth one call: seconds of work, well inside device memory, as it
        may be made a little larger (`geometry.enlarged_tile_side`).

        Where several `devices` like this one share the matrix, that with which they are done soonest.
        """
        ...

    def strip_width(self, rows: int, cols: int) -> int:
        """The columns that it sweeps together in a tile of this size.

        Wanted columns cost least at multiples of it.
        """
        ...

    def sweep_seconds(self, rows: int, cols: int, scoring: Scoring, local: bool) -> float:
        """About how long it takes to sweep a rectangle of this size by itself, without wanted boundaries.

        For people and for rough decisions: right to a factor of two or three.
        """
        ...

    def explain(self, job: SweepJob) -> dict[str, str]:
        """How it would sweep a rectangle, and why so: for people, in words; its kernel is not run."""
        ...

    def describe(self) -> dict[str, str]:
        """Hardware and versions, for results and for `longalign devices`."""
        ...
