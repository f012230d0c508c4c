"""A whole run: plan, score, stitch, recompute, check. What a store already holds is not computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Items
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Literal

from longalign.backends.base import Backend
from longalign.backends.compilation import compiles_reported
from longalign.backends.compile_processes import path_kernels_compiled
from longalign.errors import UsageError
from longalign.events import Emit, Notice, ignore
from longalign.fasta.specs import can_read_again, read_sequence
from longalign.model.alignment import Alignment
from longalign.model.boundary import Waypoint
from longalign.model.sequence import MEMORY, Sequence
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem, Segment
from longalign.phases.recompute import groups_of, merge, recompute, segments_of, spans
from longalign.phases.score import score
from longalign.phases.stitch import stitch
from longalign.phases.tile_step import Engine
from longalign.phases.walk import walk
from longalign.run.damage import contradictions_refused, drop_damaged, mending, read_or
from longalign.run.engines.local import LocalEngine
from longalign.run.next_best import next_best
from longalign.run.outcome import Outcome, Recorder
from longalign.run.planner import Request, Resources, check_disk, check_memory, plan
from longalign.run.spec import RunSpec
from longalign.store import DirectoryStore, Manifest, MemoryStore, Piece, Store
from longalign.store.base import DamagedFile
from longalign.store.files import NotWritten
from longalign.store.manifest import SequenceRecord
from longalign.store.write_behind import WriteBehind

if TYPE_CHECKING:  # importing Dask is slow
    from longalign.run.engines.dask import Cluster

#: Adds to a store's manifest what its caller wants to find there when the run is resumed.
Note = Callable[[Manifest], Manifest]

#: Seconds between two writes of an incomplete path. After a crash it takes less to find that part again.
_PATH_INTERVAL = 2.0


def no_output_files(manifest: Manifest) -> Manifest:
    """A `Note` for callers that take the outcome itself: a resumed run writes its alignment to stdout."""
    return replace(manifest, output="-", summary=None)


def run(spec: RunSpec, resources: Resources, emit: Emit = ignore, *, note: Note = no_output_files) -> Outcome:
    """Align two sequences, or only score them.

    A store that exists already is resumed. `note` is applied to its manifest before phase 1 begins. Raises
    InputError, UsageError, StoreError or BackendError; the store then holds everything that was finished.
    """
    [outcome] = run_all([spec], resources, emit, note=note)
    return outcome


def run_all(
    specs: Iterable[RunSpec], resources: Resources, emit: Emit = ignore, *, note: Note = no_output_files
) -> Iterator[Outcome]:
    """Run one pair after the other on the same devices, each within the same memory. See `run`.

    Each outcome is yielded before the next pair begins. An error ends the iteration.
    """
    for spec in specs:
        _refuse_contradictions(spec, resources)
        if spec.store is None:
            yield _run_in_memory(spec, resources, emit)
        else:
            yield _run_with_store(spec, spec.store, resources, emit, note)


def resume(store_path: Path, resources: Resources, emit: Emit = ignore) -> Outcome:
    """Finish the run that a store belongs to; its manifest says what was asked for.

    Raises StoreError, naming the field, if a sequence file has changed since. A sequence that cannot be
    read again (it came from a pipe, or its file is gone) is taken from the store. A damaged copy there
    is made again from what can be read.
    """
    with DirectoryStore.open(store_path) as store:
        manifest = store.manifest
        query, target = _read_again(store, "query", emit), _read_again(store, "target", emit)
        spec = RunSpec.of_store(store_path, manifest, query, target)
        manifest.refuse_other(store_path, spec.manifest(manifest.grid))
        query, target = _mended_copies(spec, store, emit)
        spec = replace(spec, query=query, target=target)
        with _connected(spec, resources) as cluster:
            return _run_stored(spec, store, resources, cluster, emit)


def _refuse_contradictions(spec: RunSpec, resources: Resources) -> None:
    """Raise UsageError for parts of a request that exclude one another."""
    if spec.command == "score" and not spec.is_eager and resources.store_budget is not None:
        raise UsageError("a score keeps no lattice: --store-budget is for align, and for eager start states")
    if spec.store is None:
        if resources.cluster is not None:
            raise UsageError("a cluster's workers share nothing but the store: --cluster needs --store DIR")
        if spec.command == "score" and spec.is_eager:
            raise UsageError(
                "a score keeps start states only in a store: --start-states eager needs --store DIR"
            )


def _run_in_memory(spec: RunSpec, resources: Resources, emit: Emit) -> Outcome:
    grid = plan(Request.of(spec), resources)
    store = MemoryStore(edges_only=spec.command == "score")
    lattice = StoreLattice(_problem_of(spec), grid, store, spec.is_eager)
    outcome = _run_phases(spec, lattice, LocalEngine(lattice, resources.backends), resources.backends, emit)
    return _with_next_best(outcome, lattice, resources, emit)


def _problem_of(spec: RunSpec) -> Problem:
    return Problem.of(spec.query, spec.target, spec.scoring, spec.mode)


# --- runs with a store


def _run_with_store(spec: RunSpec, path: Path, resources: Resources, emit: Emit, note: Note) -> Outcome:
    with _connected(spec, resources) as cluster:
        exists = DirectoryStore.exists(path)
        store = DirectoryStore.open(path) if exists else _new_store(spec, path, resources, cluster, note)
        with store:
            store.manifest.refuse_other(path, spec.manifest(store.manifest.grid))
            if exists:
                _mended_copies(spec, store, emit)  # the workers of a cluster read only these
            return _run_stored(spec, store, resources, cluster, emit, partial(_note, spec, store, note, emit))


def _new_store(
    spec: RunSpec, path: Path, resources: Resources, cluster: Cluster | None, note: Note
) -> DirectoryStore:
    grid = plan(Request.of(spec, cluster.workers if cluster else None), resources)
    return DirectoryStore.create(path, note(spec.manifest(grid)), spec.query, spec.target)


def _note(spec: RunSpec, store: DirectoryStore, note: Note, emit: Emit) -> None:
    """Note in a store what is asked for now, if it can be written to."""
    asked = note(replace(store.manifest, command=spec.command))
    try:
        store.note_request(asked.command, asked.output, asked.summary)
    except NotWritten as error:
        emit(Notice(f"{error}; a later resume asks for what was noted there before"))


def _connected(spec: RunSpec, resources: Resources) -> AbstractContextManager[Cluster | None]:
    rows, cols = spec.query.length, spec.target.length
    if resources.cluster is None or rows * cols == 0:  # without cells there are no tiles to sweep
        return nullcontext()
    return resources.cluster(rows, cols)


def _read_again(store: DirectoryStore, name: Literal["query", "target"], emit: Emit) -> Sequence:
    """A sequence out of its file, or, if that cannot be read again, out of the store."""
    record: SequenceRecord = getattr(store.manifest, name)
    if can_read_again(record.source):
        return read_sequence(record.source, store.manifest.scoring.alphabet)
    sequence = store.sequence(name)
    if record.source != MEMORY:
        emit(Notice(f"{record.source}: cannot be read again; going on with the copy in the store"))
    return sequence


def _mended_copies(spec: RunSpec, store: DirectoryStore, emit: Emit) -> tuple[Sequence, Sequence]:
    """The copies of the sequences in a store; if they are damaged, they are written again first."""
    try:
        return store.sequences()
    except DamagedFile as damage:
        emit(Notice(f"{damage}; this copy is made again"))
        store.put_sequences(spec.query, spec.target)
        return store.sequences()


def _run_stored(
    spec: RunSpec,
    store: DirectoryStore,
    resources: Resources,
    cluster: Cluster | None,
    emit: Emit,
    when_accepted: Callable[[], None] = lambda: None,
) -> Outcome:
    """Do what a store lacks. `when_accepted` is called once memory and disk are known to suffice."""
    manifest = store.manifest
    request = Request.of(spec, cluster.workers if cluster else None)
    check_memory(manifest.grid, request, resources)
    check_disk(manifest.grid, request, _missing_share(store))
    when_accepted()
    drop_damaged(store, manifest.grid, emit)
    check_disk(manifest.grid, request, _missing_share(store))  # now with the tiles that were dropped
    refused = contradictions_refused(store.path) if store.has_results() else nullcontext()
    lattice = StoreLattice(_problem_of(spec), manifest.grid, store, spec.is_eager)
    if cluster is None:
        with refused, WriteBehind(store, len(resources.backends)) as writing:
            lattice = replace(lattice, store=writing)
            engine = LocalEngine(lattice, resources.backends)
            outcome = _run_phases(spec, lattice, engine, resources.backends, emit)
            return _with_next_best(outcome, lattice, resources, emit)
    with refused:
        outcome = _run_phases(spec, lattice, cluster.engine(store, emit), resources.backends, emit)
        outcome = _with_next_best(outcome, lattice, resources, emit)
    return replace(outcome, backend={**outcome.backend, "workers": cluster.description})


def _missing_share(store: DirectoryStore) -> float:
    """The share of the matrix whose tiles a store lacks."""
    grid = store.manifest.grid
    missing = sum(tile.cells for tile in grid.tiles() if not store.has_tile(tile))
    return missing / max(1, grid.cells)


# --- the phases


def _run_phases(
    spec: RunSpec,
    lattice: StoreLattice,
    open_engine: AbstractContextManager[Engine],
    backends: Items[Backend],
    emit: Emit,
) -> Outcome:
    recorder, backend = Recorder(emit), backends[0]
    expected = _phase_1_seconds(lattice, backends) if spec.command == "align" else 0.0
    with (
        compiles_reported(recorder),
        path_kernels_compiled(
            backend, spec.scoring, lattice.problem.has_floor, expected
        ) as wait_for_path_kernels,
        open_engine as engine,
    ):
        find_end = partial(_score, lattice, engine, recorder)
        end = mending(find_end, lattice, recorder)
        alignment = None
        if spec.command == "align" and (spec.min_score is None or end.value >= spec.min_score):
            wait_for_path_kernels()
            alignment = _align(spec, lattice, find_end, end, backend, recorder)
    return Outcome(
        spec, end, alignment, tuple(recorder.finished), backend.describe(), recorder.compile_seconds
    )


def _with_next_best(first: Outcome, lattice: StoreLattice, resources: Resources, emit: Emit) -> Outcome:
    """The outcome with the next best alignments that its spec asks for."""

    def run_phases(lattice: StoreLattice, engine: LocalEngine, backends: Items[Backend]) -> Outcome:
        return _run_phases(first.spec, lattice, engine, backends, emit)

    return replace(first, further=next_best(first, lattice, resources.backends, run_phases))


def _phase_1_seconds(lattice: StoreLattice, backends: Items[Backend]) -> float:
    """Expected seconds of phase 1 on all devices together, for the tiles that the store lacks."""
    problem, grid, backend = lattice.problem, lattice.grid, backends[0]
    missing = sum(tile.cells for tile in grid.tiles() if not lattice.store.has_tile(tile))
    if missing == 0:
        return 0.0
    size = len(problem.query), len(problem.target)
    seconds = backend.sweep_seconds(*size, problem.scoring, problem.has_floor)
    return seconds * missing / grid.cells / len(backends)


def _align(
    spec: RunSpec,
    lattice: StoreLattice,
    find_end: Callable[[], Waypoint],
    end: Waypoint,
    backend: Backend,
    recorder: Recorder,
) -> Alignment:
    """Phases 2 and 3: the alignment that ends in `end`, checked against its score.

    `find_end` is called again before each attempt of phase 2: it sweeps the tiles that were dropped as
    damaged.
    """
    path = mending(lambda: _stitch(lattice, find_end(), backend, recorder), lattice, recorder)
    piece = _recompute(lattice, path, backend, recorder)
    start = path[-1].i, path[-1].j
    alignment = Alignment.from_runs(
        spec.query, spec.target, spec.scoring, spec.mode, end.value, start, piece.ops, piece.lengths
    )
    alignment.check()
    return alignment


def _score(lattice: StoreLattice, engine: Engine, recorder: Recorder) -> Waypoint:
    done = sum(tile.cells for tile in lattice.grid.tiles() if lattice.store.has_tile(tile))
    total = lattice.grid.cells
    if done == total and recorder.has("score"):
        return score(lattice, engine, ignore)
    with recorder.phase("score", total, done):
        return score(lattice, engine, recorder)


def _stitch(lattice: StoreLattice, end: Waypoint, backend: Backend, recorder: Recorder) -> list[Waypoint]:
    """The waypoints from the end cell back to the start; those in the store are not searched again."""
    nothing: tuple[list[Waypoint], bool] = ([], False)
    found, complete = read_or(partial(_get_path, lattice, end), nothing, recorder)
    if complete:
        return found
    with recorder.phase("stitch"):
        find = walk if lattice.eager else stitch
        path = find(lattice, found or [end], backend, recorder.advance, _saved_at_intervals(lattice.store))
        lattice.store.put_path(path, complete=True)
    return path


def _saved_at_intervals(store: Store) -> Callable[[list[Waypoint]], None]:
    """Stores an incomplete path when it is called, but not more often than every `_PATH_INTERVAL`."""
    saved = monotonic()

    def save(path: list[Waypoint]) -> None:
        nonlocal saved
        if monotonic() - saved > _PATH_INTERVAL:
            store.put_path(path, complete=False)
            saved = monotonic()

    return save


def _get_path(lattice: StoreLattice, end: Waypoint) -> tuple[list[Waypoint], bool]:
    """The stored path. Raises DamagedFile if it does not lead back from the end cell to a start."""
    path, complete = lattice.store.get_path()
    if (path and path[0] != end) or (complete and not (path and lattice.problem.is_start(path[-1]))):
        raise DamagedFile("the stored path does not lead from the end cell to a start")
    return path, complete


def _recompute(lattice: StoreLattice, path: list[Waypoint], backend: Backend, recorder: Recorder) -> Piece:
    """The alignment along a path, in one piece; pieces in the store are not computed again."""
    groups = groups_of(segments_of(path))
    pieces = [
        read_or(partial(_get_piece, lattice.store, *item), None, recorder) for item in enumerate(groups)
    ]
    if any(piece is None for piece in pieces):
        with recorder.phase("recompute"):
            for number, group in enumerate(groups):
                if pieces[number] is None:
                    piece = recompute(lattice.problem, group, backend, recorder.advance)
                    lattice.store.put_piece(number, piece)
                    pieces[number] = piece
    return merge([piece for piece in pieces if piece is not None])


def _get_piece(store: Store, number: int, group: list[Segment]) -> Piece | None:
    """The stored piece of a group. Raises DamagedFile if it spans other segments."""
    piece = store.get_piece(number)
    if piece is not None and not spans(piece, group):
        raise DamagedFile(f"piece {number} does not fit the path")
    return piece
