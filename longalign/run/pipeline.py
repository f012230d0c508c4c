"""A whole run, from what was asked for to the outcome: in memory, or with a store, which may be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from collections.abc import Sequence as Items
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from longalign.backends.compilation import compiles_reported
from longalign.errors import DamagedStore, InputError, LongalignError, OtherRun, UsageError
from longalign.events import Emit, Notice, ignore
from longalign.fasta.specs import can_read_again, read_sequence
from longalign.model.pruning import KnownBound
from longalign.model.sequence import MEMORY, Sequence
from longalign.model.strand import Strand
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem
from longalign.phases.tile_step import Engine
from longalign.run.batch import batches, fits, run_batch
from longalign.run.bounds import find_bound, needs_every_cell
from longalign.run.cost_model import format_share, path_share
from longalign.run.damage import contradictions_refused, drop_damaged
from longalign.run.engines.local import LocalEngine
from longalign.run.grid_bytes import check_disk, check_memory, max_kept_bytes
from longalign.run.outcome import Outcome, Recorder
from longalign.run.planner import check_letters, plan
from longalign.run.request import Request, Resources
from longalign.run.slabs import Slabs
from longalign.run.spec import RunSpec
from longalign.run.three_phases import (
    StrandRun,
    lattice_of,
    listed_as_left_out,
    missing_cells_of,
    problems_of,
    run_phases,
    with_next_best,
)
from longalign.store import DirectoryStore, Manifest, MemoryStore
from longalign.store.base import DamagedFile
from longalign.store.files import NotWritten
from longalign.store.layout import (
    first_store,
    holds_both_strands,
    is_store,
    make_strand_folders,
    place_of_both,
    refuse_taken,
)
from longalign.store.manifest import SequenceRecord
from longalign.store.write_behind import WriteBehind

if TYPE_CHECKING:  # importing Dask is slow
    from longalign.run.engines.dask import Cluster

#: Adds to a store's manifest what its caller wants to find there when the run is resumed.
Note = Callable[[Manifest], Manifest]

#: Called with a pair that cannot be aligned, and the reason.
Refused = Callable[[RunSpec, LongalignError], None]

#: If phases 2 and 3 compute more than this share of the cells of phase 1, the user is told so.
_LONG_PATH_SHARE = 0.2


def no_output_files(manifest: Manifest) -> Manifest:
    """A `Note` for callers that take the outcome itself: a resumed run writes its alignment to stdout."""
    return replace(manifest, output="-", output_format=None, summary=None)


def run(spec: RunSpec, resources: Resources, emit: Emit = ignore, *, note: Note = no_output_files) -> Outcome:
    """Align two sequences, or only score them.

    A store that exists already is resumed. `note` is applied to its manifest before phase 1 begins. Raises
    InputError, UsageError, StoreError or BackendError; the store then holds everything that was finished and
    could be written, but for tiles that were held back (`WriteBehind.held`).
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

    Small pairs that are not stored are computed in batches, as far as memory allows. The outcomes of a batch
    come together; the outcome of any other pair comes before the next pair begins. An error ends the
    iteration. But if `refused` is given, it gets some errors of pairs that are run by themselves, and the
    next pair follows: the pair cannot be aligned (InputError, UsageError), or its store is of another run
    (OtherRun) or damaged (DamagedStore).
    """
    for batch in batches(specs, resources):
        for spec in batch:
            _refuse_contradictions(spec, resources)
        if len(batch) > 1 and fits(batch, resources):
            yield from run_batch(batch, resources, emit)
            continue
        for spec in batch:
            try:
                outcome = _run_one(spec, resources, emit, note)
            except (InputError, UsageError, OtherRun, DamagedStore) as error:
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
    is made again from what can be read. Raises UsageError for the store of one strand of a run over both.
    """
    with ExitStack() as stack:
        first = stack.enter_context(DirectoryStore.open(first_store(store_path)))
        query, target = _read_again(first, "query", emit), _read_again(first, "target", emit)
        spec = RunSpec.of_store(store_path, first.manifest, query, target)
        if holds_both_strands(store_path):
            spec = replace(spec, strand="both")
        stores = _accepted(spec, first, stack, emit)
        query, target = first.sequences()  # with the names in the store: a file's header may have changed
        spec = replace(spec, query=query, target=target)
        cluster = stack.enter_context(_connected(spec, resources))
        return _run_stored(spec, stores, resources, cluster, Recorder(emit))


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
    recorder = Recorder(emit)
    if spec.is_eager:
        emit(Notice("start states are kept only in a store: without one, eager start states serve nothing"))
    problems = problems_of(spec)
    known = _find_bound(spec, problems, resources, recorder)
    request = Request.of(spec, known=known)
    grid = plan(request, resources)
    runs = []
    for on_strand in spec.per_strand:
        milestones = known.milestones.get(on_strand.query.strand) if known is not None else None
        slabs = Slabs.of(grid, milestones, request, resources)
        max_bytes = (
            max_kept_bytes(grid, request, resources, len(slabs.backends)) if request.is_narrow else None
        )
        store = MemoryStore(request.edges_only, max_bytes, slabs.rows_above(grid))
        lattice = lattice_of(on_strand, problems, grid, store, known)
        runs.append(StrandRun(on_strand, lattice, partial(slabs.open_engine, lattice), slabs.backends))
    return with_next_best(run_phases(runs, resources, recorder), runs, resources, recorder)


def _find_bound(
    spec: RunSpec,
    problems: Mapping[Strand, Problem],
    resources: Resources,
    recorder: Recorder,
    cluster: Cluster | None = None,
) -> KnownBound | None:
    check_letters(Request.of(spec, cluster.workers if cluster else None), resources, spec.prunes)
    devices = resources.backends if cluster is None else cluster.workers.devices
    with compiles_reported(recorder):
        return find_bound(spec, problems, resources.backends[0], devices, recorder)


# --- runs with a store


def _run_with_store(spec: RunSpec, path: Path, resources: Resources, emit: Emit, note: Note) -> Outcome:
    recorder = Recorder(emit)

    def note_all(manifest: Manifest) -> Manifest:
        return replace(note(manifest), of_both_strands=spec.strand == "both")

    with _connected(spec, resources) as cluster, ExitStack() as stack:
        first = stack.enter_context(_first_store(spec, path, resources, cluster, note_all, recorder))
        stores = _accepted(spec, first, stack, emit)
        when_accepted = partial(_note, spec, stores, note_all, emit)
        return _run_stored(spec, stores, resources, cluster, recorder, when_accepted)


def _first_store(
    spec: RunSpec,
    path: Path,
    resources: Resources,
    cluster: Cluster | None,
    note: Note,
    recorder: Recorder,
) -> DirectoryStore:
    """The store of the first strand, opened or made.

    Raises OtherRun if `path` is of other strands.
    """
    first = spec.per_strand[0]
    assert first.store is not None
    if is_store(first.store):
        return DirectoryStore.open(first.store)
    if spec.strand != "both" and holds_both_strands(path):
        raise OtherRun(f"{path}: the store belongs to another run: it is of both strands, not of one")
    refuse_taken(path, spec.strand)  # before seeds are looked for
    known = _find_bound(spec, problems_of(spec), resources, recorder, cluster)
    request = Request.of(spec, cluster.workers if cluster else None, known)
    grid = plan(request, resources, recorder)
    if is_store(first.store):  # another process has made it meanwhile
        return DirectoryStore.open(first.store)
    if spec.strand == "both":
        make_strand_folders(path)
    manifest = first.manifest(grid, known)
    return DirectoryStore.create(first.store, note(manifest), first.query, first.target)


def _accepted(
    spec: RunSpec, first: DirectoryStore, stack: ExitStack, emit: Emit
) -> tuple[DirectoryStore, ...]:
    """The stores of all strands, each open and with sound copies of the sequences. `first` is open already.

    Raises OtherRun, naming the field, if one belongs to another run, and UsageError for the store of one
    strand of a run over both if this run is over one. The second store is made here, cut like the first. If
    the run was stopped before that, it is made without findings.
    """
    if first.manifest.of_both_strands and spec.strand != "both":
        what = "the store of one strand of a run over both"
        raise UsageError(f"{first.path}: {what}: resume {place_of_both(first.path)}")
    stores = [first]
    for on_strand in spec.per_strand:
        assert on_strand.store is not None
        if on_strand.store != first.path:
            exists = is_store(on_strand.store)
            manifest = replace(first.manifest, strand=on_strand.query.strand)
            new = partial(DirectoryStore.create, on_strand.store, manifest, on_strand.query, on_strand.target)
            stores.append(stack.enter_context(DirectoryStore.open(on_strand.store) if exists else new()))
        stored = stores[-1].manifest
        asked = on_strand.manifest(stored.grid, None if spec.prune == "off" else stored.pruned_with)
        stored.refuse_other(on_strand.store, asked)
        if asked.pruned_with is not None and not spec.prunes:
            why = f"the store leaves out cells that {needs_every_cell(spec)} need"
            raise OtherRun(f"{on_strand.store}: {why}: begin a new one")
        _mend_copies(on_strand, stores[-1], emit)  # the workers of a cluster read only these
    return tuple(stores)


def _few_boundaries(spec: RunSpec, store: DirectoryStore) -> list[Notice]:
    """A Notice if an alignment is wanted from the store of a score, which has few boundaries."""
    manifest = store.manifest
    if spec.command == "score" or manifest.command == "align" or manifest.is_eager:
        return []
    share = path_share(manifest.grid) if manifest.grid.cells else 0.0
    if share <= _LONG_PATH_SHARE:
        return []
    return [
        Notice(
            f"{store.path}: made for a score, so it has few boundaries: phases 2 and 3 compute about "
            f"{format_share(share)} as many cells as phase 1; with a new --store they are short"
        )
    ]


def _note(spec: RunSpec, stores: Items[DirectoryStore], note: Note, emit: Emit) -> None:
    """Note in the stores what is asked for now, if they can be written to.

    A resumed run asks the first one, so that is written last. If a score is asked for in the store of an
    alignment, a resumed run still makes the alignment.
    """
    if spec.command == "score" and stores[0].manifest.command == "align":
        return
    notices = _few_boundaries(spec, stores[0])  # which depends on what was asked for before
    for store in reversed(stores):
        asked = note(replace(store.manifest, command=spec.command, top=spec.top, min_score=spec.min_score))
        try:
            store.note_request(asked)
        except NotWritten as error:
            notices.append(Notice(f"{error}; a later resume asks for what was noted there before"))
    for notice in notices:
        emit(notice)


def _connected(spec: RunSpec, resources: Resources) -> AbstractContextManager[Cluster | None]:
    request = Request.of(spec)
    if resources.cluster is None or request.rows * request.cols == 0:  # without cells there are no tiles
        return nullcontext()
    return resources.cluster(request.facts_about)


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
    recorder: Recorder,
    when_accepted: Callable[[], None] = lambda: None,
) -> Outcome:
    """Do what the stores lack. `when_accepted` is called once memory and disk are known to suffice."""
    request = Request.of(spec, cluster.workers if cluster else None, stores[0].manifest.pruned_with)
    for store in stores:
        check_memory(store.manifest.grid, request, resources)
    _check_disk(request, stores)
    when_accepted()
    for store in stores:
        drop_damaged(store, store.manifest.grid, recorder)
    _check_disk(request, stores)  # now with the tiles that were dropped
    with ExitStack() as stack:
        if any(store.has_results() for store in stores):
            assert spec.store is not None
            stack.enter_context(contradictions_refused(spec.store))
        runs = [
            _stored_strand_run(on_strand, store, request, resources, cluster, stack, recorder)
            for on_strand, store in zip(spec.per_strand, stores, strict=True)
        ]
        outcome = with_next_best(run_phases(runs, resources, recorder), runs, resources, recorder)
    if cluster is None:
        return outcome
    return replace(outcome, backend={**outcome.backend, "workers": cluster.description})


def _check_disk(request: Request, stores: Items[DirectoryStore]) -> None:
    grids = [store.manifest.grid for store in stores]
    missing = sum(
        missing_cells_of(grid, store, listed_as_left_out(store))
        for grid, store in zip(grids, stores, strict=True)
    )
    check_disk(grids[0], request, missing / max(1, sum(grid.cells for grid in grids)))


def _known_bound(store: DirectoryStore, emit: Emit) -> KnownBound | None:
    """The bound of a pruned store, with what gains are computed with."""
    known, strand = store.manifest.pruned_with, store.manifest.strand
    if known is None or strand in known.prunings:
        return known
    findings, damages = store.get_findings()
    for damage in damages:
        emit(Notice(f"{damage}; without it, more cells are computed"))
    return replace(known, findings={strand: findings})


def _stored_strand_run(
    spec: RunSpec,
    store: DirectoryStore,
    request: Request,
    resources: Resources,
    cluster: Cluster | None,
    stack: ExitStack,
    emit: Emit,
) -> StrandRun:
    """One strand of a run, in its store. The workers of a cluster, if there is one, sweep missing tiles."""
    grid, known = store.manifest.grid, _known_bound(store, emit)
    lattice = lattice_of(spec, problems_of(spec), grid, store, known, emit)
    if cluster is None:
        milestones = known.milestones.get(spec.query.strand) if known is not None else None
        slabs = Slabs.of(grid, milestones, request, resources)
        in_memory, devices = replace(request, store_path=None), len(slabs.backends)
        max_held = max_kept_bytes(grid, in_memory, resources, devices) if slabs.rows else None
        writing = stack.enter_context(WriteBehind(store, devices, emit, max_held))
        lattice = replace(lattice, store=writing)
        return StrandRun(spec, lattice, partial(_engine_of, slabs, lattice, writing), slabs.backends)

    def open_engine() -> AbstractContextManager[Engine]:
        if missing_cells_of(lattice.grid, store, lattice.left_out.tiles) == 0:
            return LocalEngine(lattice, resources.backends)
        return cluster.engine(store, lattice.left_out, emit)

    return StrandRun(spec, lattice, open_engine, resources.backends)


@contextmanager
def _engine_of(slabs: Slabs, lattice: StoreLattice, writing: WriteBehind) -> Iterator[Engine]:
    """The engine of one strand. If rows are guessed, tiles are held back until `score` has checked these."""
    with slabs.open_engine(lattice) as engine, writing.held() if lattice.guesses else nullcontext():
        yield engine
