"""A whole run: plan, score, stitch, recompute, check. With a store, any part of it may be done already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter
from typing import TYPE_CHECKING, Literal, TypeVar

from longalign._version import __version__
from longalign.backends.base import Backend, Workers
from longalign.backends.compilation import compiles_reported
from longalign.backends.compile_processes import path_kernels_compiled
from longalign.errors import InternalError, StoreError, UsageError
from longalign.events import (
    Advanced,
    CompileFinished,
    Emit,
    Event,
    Notice,
    PhaseFinished,
    PhaseStarted,
    ignore,
)
from longalign.model.alignment import Alignment, Mode
from longalign.model.boundary import BestCell, Waypoint
from longalign.model.geometry import Grid
from longalign.model.scoring import Scoring
from longalign.model.sequence import MEMORY, Sequence, can_read_again, read_sequence
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem, Segment
from longalign.phases.recompute import groups_of, merge, recompute, segments_of, spans
from longalign.phases.score import score
from longalign.phases.stitch import stitch
from longalign.phases.tile_step import Engine
from longalign.phases.walk import walk
from longalign.run.engines.local import LocalEngine
from longalign.run.planner import Request, Resources, check_disk, check_memory, plan
from longalign.store import DirectoryStore, Manifest, MemoryStore, Piece, Store
from longalign.store.base import DamagedFile, DamagedTile
from longalign.store.files import NotWritten
from longalign.store.manifest import Command, SequenceRecord, StartStates
from longalign.store.write_behind import WriteBehind

if TYPE_CHECKING:  # it brings Dask along
    from longalign.run.engines.dask import Cluster

T = TypeVar("T")

#: The path found so far is stored at most this often (seconds); it is found again in less.
_PATH_INTERVAL = 2.0

#: A tile whose file is missing whenever it has been written is swept again so many times.
_MOST_TIMES_MISSING = 10


@dataclass(frozen=True, slots=True, eq=False)
class Outcome:
    """What a run found: where the best alignment ends, the alignment if asked for, and what it took.

    `end` is in boundary indices of query and target; `phases` are those that ran in this process. The run
    waited `compile_seconds` for the compiler; no phase counts them.
    """

    query: Sequence
    target: Sequence
    scoring: Scoring
    mode: Mode
    end: Waypoint
    alignment: Alignment | None
    phases: tuple[PhaseFinished, ...]
    backend: dict[str, str]
    compile_seconds: float = 0.0

    @property
    def is_empty(self) -> bool:
        """Whether nothing aligns: local mode, and no positive score."""
        return self.mode == "local" and self.end.value == 0

    @property
    def best(self) -> BestCell:
        """Score and end."""
        return BestCell(self.end.value, self.end.i, self.end.j)


def run(
    query: Sequence,
    target: Sequence,
    scoring: Scoring,
    mode: Mode,
    resources: Resources,
    *,
    command: Command = "align",
    start_states: StartStates = "lazy",
    store_path: Path | None = None,
    output: str = "-",
    summary: str | None = None,
    emit: Emit = ignore,
) -> Outcome:
    """Align two sequences, or only score them.

    With `store_path` everything finished is kept there; a store that is there already is gone on with.
    `output` and `summary`, files for whoever goes on with the run to write, are noted there. With
    `start_states` "eager" phase 1 keeps start states as well: phase 2 then just reads them, and so does
    `trace_cell`.
    Raises InputError, UsageError, StoreError or BackendError; the store then holds what was finished.
    """
    query, target = query.under(scoring.alphabet), target.under(scoring.alphabet)
    scoring.check_range(query.length, target.length)

    def cut(store_path: Path | None, workers: Workers | None) -> Grid:
        request = Request(
            query.length, target.length, command, store_path, workers, start_states, scoring, mode == "local"
        )
        return plan(request, resources)

    if command == "score" and start_states == "lazy" and resources.store_budget is not None:
        raise UsageError("a score keeps no lattice: --store-budget is for align, and for eager start states")
    if store_path is None:
        if resources.cluster is not None:
            raise UsageError("a cluster's workers share nothing but the store: --cluster needs --store DIR")
        if command == "score" and start_states == "eager":
            raise UsageError("start states that nobody keeps are of no use to a score: give --store DIR")
        grid = cut(None, None)
        lattice = StoreLattice(
            Problem.of(query, target, scoring, mode),
            grid,
            MemoryStore(edges_only=command == "score"),
            start_states == "eager",
        )
        engine = LocalEngine(lattice, resources.backends)
        return _run(query, target, mode, lattice, engine, resources, command, emit)
    records = SequenceRecord.of(query), SequenceRecord.of(target)
    with _connected(resources, query.length, target.length) as cluster:
        was_there = DirectoryStore.exists(store_path)
        if was_there:
            store = DirectoryStore.open(store_path)
        else:
            workers = cluster.workers if cluster else None
            grid = cut(store_path, workers)
            manifest = Manifest(
                *records, mode, scoring, grid, __version__, command, output, start_states, summary
            )
            store = DirectoryStore.create(store_path, manifest, query, target)
        with store:
            store.manifest.refuse_other(store_path, *records, mode, scoring, start_states)
            if was_there:
                _mended_copies(store, query, target, emit)  # workers may have nothing but these
            note = partial(_note, store, command, output, summary, emit)
            return _run_stored(query, target, store, resources, cluster, command, emit, note)


def _note(store: DirectoryStore, command: Command, output: str, summary: str | None, emit: Emit) -> None:
    """Note in a store what is asked for now, if it can be written to."""
    try:
        store.continue_as(command, output, summary)
    except NotWritten as error:
        emit(Notice(f"{error}; a later resume asks for what was noted there before"))


def resume(store_path: Path, resources: Resources, *, emit: Emit = ignore) -> Outcome:
    """Go on with the run that a store belongs to; its manifest says what was asked for.

    Raises StoreError, naming the field, if a sequence file has changed since. A sequence that cannot be
    read again (it came from a pipe, or its file is gone) is taken from the store. A damaged copy there
    is made again from what can be read.
    """
    with DirectoryStore.open(store_path) as store:
        manifest = store.manifest
        query, target = _as_it_is_now(store, "query", emit), _as_it_is_now(store, "target", emit)
        records = SequenceRecord.of(query), SequenceRecord.of(target)
        manifest.refuse_other(store_path, *records, manifest.mode, manifest.scoring, manifest.start_states)
        query, target = _mended_copies(store, query, target, emit)
        with _connected(resources, query.length, target.length) as cluster:
            return _run_stored(query, target, store, resources, cluster, manifest.command, emit)


def _connected(resources: Resources, rows: int, cols: int) -> AbstractContextManager[Cluster | None]:
    if resources.cluster is None or rows * cols == 0:  # without cells there are no tiles to hand out
        return nullcontext()
    return resources.cluster(rows, cols)


def _as_it_is_now(store: DirectoryStore, name: Literal["query", "target"], emit: Emit) -> Sequence:
    """A sequence out of its file, or, if that cannot be read again, out of the store."""
    record: SequenceRecord = getattr(store.manifest, name)
    if can_read_again(record.source):
        return read_sequence(record.source, store.manifest.scoring.alphabet)
    sequence = store.sequence(name)
    if record.source != MEMORY:
        emit(Notice(f"{record.source}: cannot be read again; going on with the copy in the store"))
    return sequence


def _mended_copies(
    store: DirectoryStore, query: Sequence, target: Sequence, emit: Emit
) -> tuple[Sequence, Sequence]:
    """The sequences that a store has, made again from these, which are the same, if they are damaged."""
    try:
        return store.sequences()
    except DamagedFile as damage:
        emit(Notice(f"{damage}; this copy is made again"))
        store.put_sequences(query, target)
        return store.sequences()


def _run_stored(
    query: Sequence,
    target: Sequence,
    store: DirectoryStore,
    resources: Resources,
    cluster: Cluster | None,
    command: Command,
    emit: Emit,
    when_accepted: Callable[[], None] = lambda: None,
) -> Outcome:
    """Do what a store lacks. `when_accepted` is called if nothing speaks against it, before it takes long."""
    manifest = store.manifest
    workers = cluster.workers if cluster else None
    request = Request(
        query.length, target.length, command, store.path, workers, manifest.start_states, manifest.scoring,
        manifest.mode == "local",
    )  # fmt: skip
    check_memory(manifest.grid, request, resources)
    check_disk(manifest.grid, request, _missing(store))
    when_accepted()
    problem = Problem.of(query, target, manifest.scoring, manifest.mode)
    for tile in manifest.grid.tiles():
        if store.has_tile(tile):
            try:
                store.check_tile(tile)
            except DamagedTile as damage:
                _drop(damage, store, emit)
    check_disk(manifest.grid, request, _missing(store))  # of those that were dropped, too
    refused = contradictions_refused(store.path) if store.holds_results() else nullcontext()
    lattice = StoreLattice(problem, manifest.grid, store, manifest.is_eager)
    if cluster is None:
        with refused, WriteBehind(store, len(resources.backends)) as behind:
            lattice = replace(lattice, store=behind)
            engine = LocalEngine(lattice, resources.backends)
            return _run(query, target, manifest.mode, lattice, engine, resources, command, emit)
    with refused:
        outcome = _run(
            query, target, manifest.mode, lattice, cluster.engine(store, emit), resources, command, emit
        )
    return replace(outcome, backend={**outcome.backend, "workers": cluster.description})


@contextmanager
def contradictions_refused(store: Path) -> Iterator[None]:
    """Raise StoreError where no path fits the numbers in a store: they are sound as files, but wrong."""
    try:
        yield
    except InternalError as error:
        raise StoreError(
            f"{store}: what is stored contradicts the sequences ({error}): without path.h5 and pieces the "
            "path is found again, and without tiles all is computed again"
        ) from error


def _missing(store: DirectoryStore) -> float:
    """The share of the matrix whose tiles a store lacks."""
    grid = store.manifest.grid
    missing = sum(tile.cells for tile in grid.tiles() if not store.has_tile(tile))
    return missing / max(1, grid.cells)


def _run(
    query: Sequence,
    target: Sequence,
    mode: Mode,
    lattice: StoreLattice,
    open_engine: AbstractContextManager[Engine],
    resources: Resources,
    command: Command,
    emit: Emit,
) -> Outcome:
    scoring, backend = lattice.problem.scoring, resources.backends[0]
    recorder = Recorder(emit)
    expected = _phase_1_seconds(lattice, resources) if command == "align" else 0.0
    with (
        compiles_reported(recorder),
        path_kernels_compiled(backend, scoring, mode == "local", expected) as wait_for_path_kernels,
        open_engine as engine,
    ):
        find_end = partial(_score, lattice, engine, recorder)
        end = _mending(find_end, lattice.store, recorder)
        alignment = None
        if command == "align":
            wait_for_path_kernels()
            path = _mending(lambda: _stitch(lattice, find_end(), backend, recorder), lattice.store, recorder)
            piece = _recompute(lattice, path, resources, recorder)
            start = path[-1]
            alignment = Alignment.from_runs(
                query, target, scoring, mode, end.value, (start.i, start.j), piece.ops, piece.lengths
            )
            alignment.check()
    return Outcome(
        query, target, scoring, mode, end, alignment, tuple(recorder.finished), backend.describe(),
        recorder.compile_seconds,
    )  # fmt: skip


def _phase_1_seconds(lattice: StoreLattice, resources: Resources) -> float:
    """About how long the devices take for the tiles that are missing."""
    problem, grid, backend = lattice.problem, lattice.grid, resources.backends[0]
    missing = sum(tile.cells for tile in grid.tiles() if not lattice.store.has_tile(tile))
    if missing == 0:
        return 0.0
    size = len(problem.query), len(problem.target)
    whole = backend.sweep_seconds(*size, problem.scoring, problem.is_local)
    return whole * missing / grid.cells / len(resources.backends)


def _score(lattice: StoreLattice, engine: Engine, recorder: Recorder) -> Waypoint:
    tiles = lattice.grid.tiles()
    done = sum(tile.cells for tile in tiles if lattice.store.has_tile(tile))
    total = lattice.grid.cells
    if done == total and recorder.has("score"):
        return score(lattice, engine, ignore)
    with recorder.phase("score", total, done):
        return score(lattice, engine, recorder)


def _stitch(lattice: StoreLattice, end: Waypoint, backend: Backend, recorder: Recorder) -> list[Waypoint]:
    store = lattice.store
    nothing: tuple[list[Waypoint], bool] = ([], False)
    found, complete = _or_nothing(partial(_get_path, lattice, end), nothing, recorder)
    if complete:
        return found
    saved = monotonic()

    def report(path: list[Waypoint]) -> None:
        nonlocal saved
        if monotonic() - saved > _PATH_INTERVAL:
            store.put_path(path, complete=False)
            saved = monotonic()

    with recorder.phase("stitch"):
        find = walk if lattice.eager else stitch
        path = find(lattice, found or [end], backend, recorder.advance, report)
        store.put_path(path, complete=True)
    return path


def _get_path(lattice: StoreLattice, end: Waypoint) -> tuple[list[Waypoint], bool]:
    """The stored path. Raises DamagedFile if it does not lead back from the end cell to a start."""
    path, complete = lattice.store.get_path()
    if (path and path[0] != end) or (complete and not (path and lattice.problem.is_start(path[-1]))):
        raise DamagedFile("the stored path does not lead from the end cell to a start")
    return path, complete


def _recompute(
    lattice: StoreLattice, path: list[Waypoint], resources: Resources, recorder: Recorder
) -> Piece:
    groups = groups_of(segments_of(path))
    pieces = [
        _or_nothing(partial(_get_piece, lattice.store, *item), None, recorder) for item in enumerate(groups)
    ]
    if any(piece is None for piece in pieces):
        with recorder.phase("recompute"):
            for number, group in enumerate(groups):
                if pieces[number] is None:
                    piece = recompute(lattice.problem, group, resources.backends[0], recorder.advance)
                    lattice.store.put_piece(number, piece)
                    pieces[number] = piece
    return merge([piece for piece in pieces if piece is not None])


def _get_piece(store: Store, number: int, group: list[Segment]) -> Piece | None:
    """The stored piece of a group. Raises DamagedFile if it is that of a path in other groups."""
    piece = store.get_piece(number)
    if piece is not None and not spans(piece, group):
        raise DamagedFile(f"piece {number} does not fit the path")
    return piece


class Recorder:
    """Passes events on, and adds up what each phase took."""

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
        self(Advanced(cells))

    def has(self, phase: str) -> bool:
        """Whether a phase has run to its end."""
        return any(event.name == phase for event in self.finished)

    @contextmanager
    def phase(self, name: str, cells: int | None = None, done: int = 0) -> Iterator[None]:
        """Time a phase of `cells` cells (None: not known before), `done` of which are there already.

        Seconds for which the phase waits for the compiler are not counted.
        """
        self._cells, started, compiled_before = 0, perf_counter(), self.compile_seconds
        self._emit(PhaseStarted(name, cells, done))
        yield
        compiling = self.compile_seconds - compiled_before
        event = PhaseFinished(name, self._cells, max(0.0, perf_counter() - started - compiling))
        self.finished.append(event)
        self._emit(event)


def _mending(step: Callable[[], T], store: Store, emit: Emit) -> T:
    """Run a step that reads tiles; whenever one is damaged, drop it and try again.

    The step must begin by sweeping whatever tiles are missing. Raises StoreError if a tile that was swept
    again is damaged once more: the disk returns something else than what was written. A file may be missing
    more often, as a network file system says so for a while of one that is there.
    """
    times: Counter[tuple[int, int, bool]] = Counter()
    while True:
        try:
            return step()
        except DamagedTile as damage:
            missing = isinstance(damage.__cause__, FileNotFoundError)
            case = damage.row, damage.col, missing
            if times[case] == (_MOST_TIMES_MISSING if missing else 1):
                raise StoreError(f"{damage}; it was computed again, in vain: check the disk") from damage
            times[case] += 1
            _drop(damage, store, emit)


def _drop(damage: DamagedTile, store: Store, emit: Emit) -> None:
    emit(Notice(f"{damage}; this tile is computed again"))
    store.drop_tile(damage.row, damage.col)


def _or_nothing(read: Callable[[], T], nothing: T, emit: Emit) -> T:
    """What a store holds, or `nothing` where it is damaged; the step that made it then runs again."""
    try:
        return read()
    except DamagedFile as damage:
        emit(Notice(f"{damage}; this step is done again"))
        return nothing
