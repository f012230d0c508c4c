"""A whole run: plan, score, stitch, recompute, check. What a store already holds is not computed again.

A run over both strands of the query scores both, one after the other, and then aligns on the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from collections.abc import Sequence as Items
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Literal

from longalign.backends.base import Backend
from longalign.backends.compilation import compiles_reported
from longalign.backends.compile_processes import path_kernels_compiled
from longalign.errors import InputError, LongalignError, StoreError, UsageError
from longalign.events import Emit, Notice, ignore
from longalign.fasta.specs import can_read_again, read_sequence
from longalign.model.alignment import Alignment
from longalign.model.boundary import Waypoint
from longalign.model.geometry import Grid
from longalign.model.sequence import MEMORY, Sequence
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem, Segment
from longalign.phases.recompute import groups_of, merge, recompute, segments_of, spans
from longalign.phases.score import score
from longalign.phases.stitch import stitch
from longalign.phases.tile_step import Engine
from longalign.phases.walk import walk
from longalign.run.batch import batches, run_batch
from longalign.run.cost_model import format_share, path_share
from longalign.run.damage import contradictions_refused, drop_damaged, mending, read_or
from longalign.run.engines.local import LocalEngine
from longalign.run.next_best import next_best
from longalign.run.outcome import Outcome, Recorder, best_side, checked_alignment, strand_scores
from longalign.run.planner import check_disk, check_memory, plan
from longalign.run.request import Request, Resources
from longalign.run.spec import RunSpec
from longalign.run.strand_advice import strand_advice
from longalign.store import DirectoryStore, Manifest, MemoryStore, Piece, Store
from longalign.store.base import DamagedFile
from longalign.store.files import NotWritten
from longalign.store.layout import first_store, holds_both_strands, make_strand_folders
from longalign.store.manifest import SequenceRecord
from longalign.store.write_behind import WriteBehind

if TYPE_CHECKING:  # importing Dask is slow
    from longalign.run.engines.dask import Cluster

#: Adds to a store's manifest what its caller wants to find there when the run is resumed.
Note = Callable[[Manifest], Manifest]

#: Called with a pair that cannot be aligned, and the reason.
Refused = Callable[[RunSpec, LongalignError], None]

#: The share of the cells of phase 1 from which on phases 2 and 3 are called long.
_LONG_PATH_SHARE = 0.2

#: Seconds between two writes of an incomplete path. After a crash it takes less to find that part again.
_PATH_INTERVAL = 2.0


def no_output_files(manifest: Manifest) -> Manifest:
    """A `Note` for callers that take the outcome itself: a resumed run writes its alignment to stdout."""
    return replace(manifest, output="-", output_format=None, summary=None)


def run(spec: RunSpec, resources: Resources, emit: Emit = ignore, *, note: Note = no_output_files) -> Outcome:
    """Align two sequences, or only score them.

    A store that exists already is resumed. `note` is applied to its manifest before phase 1 begins. Raises
    InputError, UsageError, StoreError or BackendError; the store then holds everything that was finished.
    """
    [outcome] = run_all([spec], resources, emit, note=note)
    return outcome


def run_all(
    specs: Iterable[RunSpec],
    resources: Resources,
    emit: Emit = ignore,
    *,
    note: Note = no_output_files,
    refused: Refused | None = None,
) -> Iterator[Outcome]:
    """Run one pair after the other on the same devices, each within the same memory. See `run`.

    Small pairs that are not stored are computed in batches, whose outcomes come together; the outcome of any
    other pair comes before the next pair begins. An error ends the iteration, but for a pair that cannot be
    aligned (InputError, UsageError) `refused` is called, if given, and the next pair is next.
    """
    for batch in batches(specs, resources):
        for spec in batch:
            _refuse_contradictions(spec, resources)
        if len(batch) > 1:
            yield from run_batch(batch, resources, emit)
            continue
        [spec] = batch
        try:
            outcome = _run_one(spec, resources, emit, note)
        except (InputError, UsageError) as error:
            if refused is None:
                raise
            refused(spec, error)
        else:
            yield outcome


def _run_one(spec: RunSpec, resources: Resources, emit: Emit, note: Note) -> Outcome:
    if spec.store is None:
        return _run_in_memory(spec, resources, emit)
    return _run_with_store(spec, spec.store, resources, emit, note)


def resume(store_path: Path, resources: Resources, emit: Emit = ignore) -> Outcome:
    """Finish the run that a store belongs to; its manifest says what was asked for.

    Raises StoreError, naming the field, if a sequence file has changed since. A sequence that cannot be
    read again (it came from a pipe, or its file is gone) is taken from the store. A damaged copy there
    is made again from what can be read.
    """
    with ExitStack() as stack:
        first = stack.enter_context(DirectoryStore.open(first_store(store_path)))
        query, target = _read_again(first, "query", emit), _read_again(first, "target", emit)
        spec = RunSpec.of_store(store_path, first.manifest, query, target)
        if holds_both_strands(store_path):
            spec = replace(spec, strand="both")
        stores = _accepted(spec, first, stack, emit)
        query, target = first.sequences()
        spec = replace(spec, query=query, target=target)
        cluster = stack.enter_context(_connected(spec, resources))
        return _run_stored(spec, stores, resources, cluster, emit)


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
    stores = [MemoryStore(edges_only=spec.command == "score") for _ in spec.sides]
    lattices = [_lattice_of(side, grid, store) for side, store in zip(spec.sides, stores, strict=True)]
    sides = [
        _Side(side, lattice, partial(LocalEngine, lattice, resources.backends))
        for side, lattice in zip(spec.sides, lattices, strict=True)
    ]
    return _with_next_best(_run_phases(sides, resources, emit), sides, resources, emit)


@dataclass(frozen=True, slots=True, eq=False)
class _Side:
    """One strand of the query in a run: what is asked for on it, its lattice, and what sweeps its tiles."""

    spec: RunSpec
    lattice: StoreLattice
    open_engine: Callable[[], AbstractContextManager[Engine]]

    @property
    def missing_cells(self) -> int:
        """The number of cells in the tiles that the store lacks."""
        return _missing_cells(self.lattice.grid, self.lattice.store)


def _lattice_of(spec: RunSpec, grid: Grid, store: Store) -> StoreLattice:
    problem = Problem.of(spec.query, spec.target, spec.scoring, spec.mode)
    return StoreLattice(problem, grid, store, spec.is_eager)


def _missing_cells(grid: Grid, store: Store) -> int:
    return sum(tile.cells for tile in grid.tiles() if not store.has_tile(tile))


# --- runs with a store


def _run_with_store(spec: RunSpec, path: Path, resources: Resources, emit: Emit, note: Note) -> Outcome:
    with _connected(spec, resources) as cluster, ExitStack() as stack:
        first = stack.enter_context(_first_store(spec, path, resources, cluster, note, emit))
        stores = _accepted(spec, first, stack, emit)
        return _run_stored(spec, stores, resources, cluster, emit, partial(_note, spec, stores, note, emit))


def _first_store(
    spec: RunSpec, path: Path, resources: Resources, cluster: Cluster | None, note: Note, emit: Emit
) -> DirectoryStore:
    """The store of the first strand, opened or made. Raises StoreError if `path` is of other strands."""
    first = spec.sides[0]
    assert first.store is not None
    if DirectoryStore.exists(first.store):
        return DirectoryStore.open(first.store)
    if spec.strand != "both" and holds_both_strands(path):
        raise StoreError(f"{path}: the store belongs to another run: it is of both strands, not of one")
    request = Request.of(spec, cluster.workers if cluster else None)
    grid = plan(request, resources, emit)
    if spec.strand == "both":
        make_strand_folders(path)
    return DirectoryStore.create(first.store, note(first.manifest(grid)), first.query, first.target)


def _accepted(
    spec: RunSpec, first: DirectoryStore, stack: ExitStack, emit: Emit
) -> tuple[DirectoryStore, ...]:
    """The stores of all strands, each open and with sound copies of the sequences. `first` is open already.

    Raises StoreError, naming the field, if one belongs to another run. A run that was stopped before it had
    made its second store makes it now, cut like the first.
    """
    stores = [first]
    for side in spec.sides:
        assert side.store is not None
        if side.store != first.path:
            exists = DirectoryStore.exists(side.store)
            manifest = replace(first.manifest, strand=side.query.strand)
            new = partial(DirectoryStore.create, side.store, manifest, side.query, side.target)
            stores.append(stack.enter_context(DirectoryStore.open(side.store) if exists else new()))
        stores[-1].manifest.refuse_other(side.store, side.manifest(stores[-1].manifest.grid))
        _mend_copies(side, stores[-1], emit)  # the workers of a cluster read only these
    return tuple(stores)


def _few_boundaries(spec: RunSpec, store: DirectoryStore) -> Iterator[Notice]:
    """A Notice if an alignment is wanted from the store of a score, which has few boundaries."""
    manifest = store.manifest
    if spec.command == "score" or manifest.command == "align" or manifest.is_eager:
        return
    share = path_share(manifest.grid) if manifest.grid.cells else 0.0
    if share > _LONG_PATH_SHARE:
        yield Notice(
            f"{store.path}: made for a score, so it has few boundaries: phases 2 and 3 compute about "
            f"{format_share(share)} as many cells as phase 1; with a new --store they are short"
        )


def _note(spec: RunSpec, stores: Items[DirectoryStore], note: Note, emit: Emit) -> None:
    """Note in the stores what is asked for now, if they can be written to.

    A resumed run asks the first one, so that is written last.
    """
    notices = [*_few_boundaries(spec, stores[0])]  # which depend on what was asked for before
    for store in reversed(stores):
        asked = note(replace(store.manifest, command=spec.command, top=spec.top, min_score=spec.min_score))
        try:
            store.note_request(asked)
        except NotWritten as error:
            notices.append(Notice(f"{error}; a later resume asks for what was noted there before"))
    for notice in notices:
        emit(notice)


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


def _mend_copies(spec: RunSpec, store: DirectoryStore, emit: Emit) -> None:
    """Write the copies of the sequences in a store again if they are damaged."""
    try:
        store.sequences()
    except DamagedFile as damage:
        emit(Notice(f"{damage}; this copy is made again"))
        store.put_sequences(spec.query, spec.target)


def _run_stored(
    spec: RunSpec,
    stores: Items[DirectoryStore],
    resources: Resources,
    cluster: Cluster | None,
    emit: Emit,
    when_accepted: Callable[[], None] = lambda: None,
) -> Outcome:
    """Do what the stores lack. `when_accepted` is called once memory and disk are known to suffice."""
    request = Request.of(spec, cluster.workers if cluster else None)
    for store in stores:
        check_memory(store.manifest.grid, request, resources)
    _check_disk(request, stores)
    when_accepted()
    for store in stores:
        drop_damaged(store, store.manifest.grid, emit)
    _check_disk(request, stores)  # now with the tiles that were dropped
    with ExitStack() as stack:
        if any(store.has_results() for store in stores):
            assert spec.store is not None
            stack.enter_context(contradictions_refused(spec.store))
        sides = [
            _stored_side(side, store, resources, cluster, stack, emit)
            for side, store in zip(spec.sides, stores, strict=True)
        ]
        outcome = _with_next_best(_run_phases(sides, resources, emit), sides, resources, emit)
    if cluster is None:
        return outcome
    return replace(outcome, backend={**outcome.backend, "workers": cluster.description})


def _check_disk(request: Request, stores: Items[DirectoryStore]) -> None:
    grids = [store.manifest.grid for store in stores]
    missing = sum(_missing_cells(grid, store) for grid, store in zip(grids, stores, strict=True))
    check_disk(grids[0], request, missing / max(1, sum(grid.cells for grid in grids)))


def _stored_side(
    spec: RunSpec,
    store: DirectoryStore,
    resources: Resources,
    cluster: Cluster | None,
    stack: ExitStack,
    emit: Emit,
) -> _Side:
    """One strand of a run, in its store. The workers of a cluster, if there is one, sweep missing tiles."""
    lattice = _lattice_of(spec, store.manifest.grid, store)
    if cluster is None:
        writing = stack.enter_context(WriteBehind(store, len(resources.backends)))
        lattice = replace(lattice, store=writing)

    def open_engine() -> AbstractContextManager[Engine]:
        if cluster is None or _missing_cells(lattice.grid, store) == 0:
            return LocalEngine(lattice, resources.backends)
        return cluster.engine(store, emit)

    return _Side(spec, lattice, open_engine)


# --- the phases


def _run_phases(sides: Items[_Side], resources: Resources, emit: Emit) -> Outcome:
    """All phases: phase 1 on each side, the others on the one with the best score, the first of equals."""
    recorder, backend, spec = Recorder(emit), resources.backends[0], sides[0].spec
    expected = sum(_phase_1_seconds(side, resources) for side in sides) if spec.command == "align" else 0.0
    with (
        compiles_reported(recorder),
        path_kernels_compiled(
            backend, spec.scoring, sides[0].lattice.problem.has_floor, expected
        ) as wait_for_path_kernels,
    ):
        finders = [partial(_score, side, sides, recorder) for side in sides]
        found = [
            mending(find_end, side.lattice, recorder) for find_end, side in zip(finders, sides, strict=True)
        ]
        scores = strand_scores([side.spec for side in sides], found)
        best = best_side(found)
        spec, end, alignment = sides[best].spec, found[best], None
        is_first = len(sides[best].lattice.problem.excluded) == 0
        if len(sides) == 1 and is_first and emit is not ignore and (advice := strand_advice(spec, end.value)):
            emit(Notice(advice))
        if spec.command == "align" and _is_high_enough(spec, end):
            wait_for_path_kernels()
            alignment = _align(spec, sides[best].lattice, finders[best], backend, recorder)
    return Outcome(
        *(spec, end, alignment, tuple(recorder.finished), backend.describe(), recorder.compile_seconds),
        strand_scores=scores,
    )


def _is_high_enough(spec: RunSpec, end: Waypoint) -> bool:
    """Whether the score of the best alignment is one for which the alignment is wanted."""
    return spec.min_score is None or spec.scoring.unscaled(end.value) >= spec.min_score


def _with_next_best(first: Outcome, sides: Items[_Side], resources: Resources, emit: Emit) -> Outcome:
    """The outcome with the next best alignments that its spec asks for, on the only side."""

    def run_phases(lattice: StoreLattice, engine: LocalEngine, backends: Items[Backend]) -> Outcome:
        side = _Side(first.spec, lattice, lambda: engine)
        return _run_phases([side], replace(resources, backends=backends), emit)

    return first.followed_by(next_best(first, sides[0].lattice, resources.backends, run_phases))


def _phase_1_seconds(side: _Side, resources: Resources) -> float:
    """Expected seconds of phase 1 on all devices together, for the tiles that the store lacks."""
    problem, missing = side.lattice.problem, side.missing_cells
    if missing == 0:
        return 0.0
    size = len(problem.query), len(problem.target)
    seconds = resources.backends[0].sweep_seconds(*size, problem.scoring, problem.has_floor)
    return seconds * missing / side.lattice.grid.cells / len(resources.backends)


def _align(
    spec: RunSpec,
    lattice: StoreLattice,
    find_end: Callable[[], Waypoint],
    backend: Backend,
    recorder: Recorder,
) -> Alignment:
    """Phases 2 and 3: the alignment that ends in `end`, checked against its score.

    `find_end` is called again before each attempt of phase 2: it sweeps the tiles that were dropped as
    damaged.
    """
    path = mending(lambda: _stitch(lattice, find_end(), backend, recorder), lattice, recorder)
    return checked_alignment(spec, path, _recompute(lattice, path, backend, recorder))


def _score(side: _Side, sides: Items[_Side], recorder: Recorder) -> Waypoint:
    """The end cell of one side. Phase 1 of all sides is reported as one phase."""
    total, missing = sum(s.lattice.grid.cells for s in sides), sum(s.missing_cells for s in sides)
    with side.open_engine() as engine:
        if missing == 0 and recorder.has("score"):
            return score(side.lattice, engine, ignore)
        continues = side is not sides[-1] and not recorder.has("score")
        with recorder.phase("score", total, total - missing, continues=continues):
            return score(side.lattice, engine, recorder)


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
