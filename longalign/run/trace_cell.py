"""The best alignment that ends in a given cell, from a store with eager start states."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from longalign.backends.base import Backend, SweepJob
from longalign.backends.compilation import compiles_reported
from longalign.errors import InputError, StoreError, UsageError
from longalign.events import Emit, ignore
from longalign.model.boundary import State, Waypoint
from longalign.model.scoring import NEG_INF
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem
from longalign.phases.recompute import groups_of, merge, recompute, segments_of
from longalign.phases.walk import walk
from longalign.run.damage import contradictions_refused
from longalign.run.grid_bytes import check_memory_of_paths
from longalign.run.outcome import Outcome, Recorder, checked_alignment
from longalign.run.request import Request, Resources
from longalign.run.spec import RunSpec
from longalign.store import DirectoryStore
from longalign.store.base import DamagedTile
from longalign.store.layout import place_of_both


def trace_cell(path: Path, end: tuple[int, int], resources: Resources, *, emit: Emit = ignore) -> Outcome:
    """The best alignment that ends in the cell `end`, after i >= 1 query and j >= 1 target letters.

    It may start where the mode lets it start. A sequence that the mode aligns to its end is cut there: in
    global mode the first i query letters are aligned with the first j target letters, end to end, and the
    outcome's sequences are these prefixes. Query letters count along the strand of the store, which is only
    read. Raises UsageError for a cell outside the matrix; StoreError if the store has no start states, lacks
    the cell's tile, or a tile on the path is damaged; InputError if no local alignment ends in the cell.
    """
    store = DirectoryStore.attach(path)
    spec = RunSpec.of_store(path, store.manifest, *store.sequences())
    check_memory_of_paths(Request.of(spec), resources)
    lattice = _open_lattice(store, spec, *end)
    try:
        with contradictions_refused(path):
            return _trace(lattice, spec, end, resources.backends[0], emit)
    except DamagedTile as damage:
        raise StoreError(f"{damage}; longalign resume {path} computes this tile again") from damage


def _trace(
    lattice: StoreLattice, spec: RunSpec, end: tuple[int, int], backend: Backend, emit: Emit
) -> Outcome:
    problem, recorder, (i, j) = lattice.problem, Recorder(emit), end
    with compiles_reported(recorder), recorder.phase("stitch"):
        last = Waypoint(i, j, State.H, _value(lattice, i, j, backend))
        if problem.is_start(last):
            raise InputError(
                f"no alignment ends in cell ({i}, {j}): the best score there is 0{_on_strand(spec)}"
            )
        waypoints = walk(lattice, [last], backend, recorder.advance)
    with compiles_reported(recorder), recorder.phase("recompute"):
        groups = groups_of(segments_of(waypoints))
        piece = merge([recompute(problem, group, backend, recorder.advance) for group in groups])
    spec = _up_to(spec, i, j)
    alignment = checked_alignment(spec, waypoints, piece, end_given=True)
    phases, described = tuple(recorder.finished), backend.describe()
    return Outcome(spec, last, alignment, phases, described, recorder.compile_seconds)


def _up_to(spec: RunSpec, i: int, j: int) -> RunSpec:
    """The run, with each sequence that the mode aligns to its end cut after i or j letters."""
    ends = spec.mode.ends
    query = spec.query if ends.query_end else spec.query.first(i)
    target = spec.target if ends.target_end else spec.target.first(j)
    return replace(spec, query=query, target=target)


def _open_lattice(store: DirectoryStore, spec: RunSpec, i: int, j: int) -> StoreLattice:
    """The lattice in a store. Raises UsageError or StoreError if it cannot give the path to cell (i, j)."""
    manifest, path = store.manifest, store.path
    query, target = spec.query, spec.target
    if not manifest.is_eager:
        whole = place_of_both(path) if manifest.of_both_strands else path
        raise StoreError(
            f"{path}: no start states are stored, without which no other end cell can be traced"
            f"{', and the store is pruned' if manifest.pruned_with is not None else ''}: longalign "
            f"resume {whole} gives the best alignment, and for any other one longalign align --start-states "
            "eager makes a new store"
        )
    if manifest.grid.cells == 0:
        empty = query if query.length == 0 else target
        raise UsageError(f"cell ({i}, {j}): the matrix has no cells: {empty.name} has no letters")
    if not (1 <= i <= query.length and 1 <= j <= target.length):
        raise UsageError(
            f"cell ({i}, {j}) lies outside the matrix: "
            f"rows are 1 to {query.length}, columns 1 to {target.length}{_on_strand(spec)}"
        )
    problem = Problem.of(query, target, spec.scoring, spec.mode)
    tile = manifest.grid.tile_owning(i, j)
    # All tiles on which a finished tile depends were finished before it.
    if (tile.row, tile.col) not in store.stored_tiles():
        raise StoreError(
            f"{path}: tile ({tile.row}, {tile.col}), which holds cell ({i}, {j}), is not finished: "
            f"longalign resume {path}"
        )
    return StoreLattice(problem, manifest.grid, store, manifest.is_eager)


def _on_strand(spec: RunSpec) -> str:
    """How rows are counted, if not as the letters of the query's record, to follow a message."""
    return "; rows count along the minus strand of the query" if spec.query.strand == "minus" else ""


def _value(lattice: StoreLattice, i: int, j: int, backend: Backend) -> int:
    """H of cell (i, j), computed by sweeping its chunk up to the cell."""
    # The rectangle does not depend on the waypoint's value, which is not known yet.
    part = lattice.approach(Waypoint(i, j, State.H, NEG_INF)).rectangle
    job = SweepJob(
        *(part.query, part.target, part.scoring, part.top, part.left, part.local),
        rows=(len(part.query),),
        track_best=False,
    )
    [result] = backend.sweep([job])
    return int(result.rows[0].h[-1])
