"""The three phases of a run whose matrix is cut into tiles. What a store already holds is not computed again.

A run over both strands of the query scores both, one after the other, and then aligns on the better one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from collections.abc import Sequence as Items
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from time import monotonic

from longalign.backends.base import Backend
from longalign.backends.compilation import compiles_reported
from longalign.backends.compile_processes import path_kernels_compiled
from longalign.backends.excluding import excluding
from longalign.errors import InternalError
from longalign.events import Emit, ignore
from longalign.model.alignment import Alignment
from longalign.model.boundary import Waypoint
from longalign.model.geometry import Grid
from longalign.model.pruning import NO_FINDINGS, KnownBound
from longalign.model.strand import Strand
from longalign.phases.changed_tiles import ChangedTiles
from longalign.phases.lattice import StoreLattice
from longalign.phases.left_out import LeftOut
from longalign.phases.problem import Problem, Segment
from longalign.phases.recompute import groups_of, merge, recompute, segments_of, spans
from longalign.phases.score import score
from longalign.phases.stitch import stitch
from longalign.phases.tile_step import Engine
from longalign.phases.walk import walk
from longalign.run.damage import mending, read_unless_damaged
from longalign.run.engines.local import LocalEngine
from longalign.run.next_best import next_best
from longalign.run.outcome import Outcome, Recorder, best_strand, checked_alignment, strand_scores
from longalign.run.request import Resources
from longalign.run.spec import RunSpec
from longalign.run.strand_advice import advise
from longalign.store import Piece, Store
from longalign.store.base import DamagedFile, TilePlace
from longalign.store.layout import PATH_NAME, piece_name

#: Seconds between two writes of an incomplete path. After a crash it takes less to find that part again.
_PATH_INTERVAL = 2.0


@dataclass(frozen=True, slots=True, eq=False)
class StrandRun:
    """One strand of the query in a run: what is asked for on it, its lattice, and what sweeps its tiles.

    `backends` are those of this process that may sweep tiles, parts of its devices or whole ones.
    """

    spec: RunSpec
    lattice: StoreLattice
    open_engine: Callable[[], AbstractContextManager[Engine]]
    backends: Items[Backend]

    def is_exact(self, end: Waypoint) -> bool:
        """Whether the score of an end cell is that of the whole matrix, not only a lower bound of it."""
        pruning = self.lattice.problem.pruning
        return pruning is None or end.value >= pruning.bound

    @property
    def missing_cells(self) -> int:
        """The number of cells in the tiles that the store lacks."""
        lattice = self.lattice
        return missing_cells_of(lattice.grid, lattice.store, lattice.left_out.tiles)


def problems_of(spec: RunSpec) -> dict[Strand, Problem]:
    """The problem of each strand that a run asks for."""
    return {
        one.query.strand: Problem.of(one.query, one.target, one.scoring, one.mode) for one in spec.per_strand
    }


def lattice_of(
    spec: RunSpec,
    problems: Mapping[Strand, Problem],
    grid: Grid,
    store: Store,
    known: KnownBound | None,
    emit: Emit = ignore,
) -> StoreLattice:
    """The lattice of one strand in its store, pruned if a bound is known. Its problem is among `problems`."""
    strand = spec.query.strand
    problem = problems[strand]
    if known is not None:
        pruning = known.prunings.get(strand)
        if pruning is None:
            findings = known.findings.get(strand, NO_FINDINGS)
            pruning = problem.pruning_by(known.score, problem.gains(findings))
        problem = replace(problem, pruning=pruning)
    listed = listed_as_left_out(store, emit) if known is not None else set[TilePlace]()
    left_out = LeftOut(listed, listed=frozenset(listed))
    return StoreLattice(problem, grid, store, spec.is_eager, left_out)


def listed_as_left_out(store: Store, emit: Emit = ignore) -> set[TilePlace]:
    """The tiles that a store lists as left out, but for stored ones. A damaged list will be made again."""
    return read_unless_damaged(store.get_left_out, set[TilePlace](), emit) - store.stored_tiles()


def missing_cells_of(grid: Grid, store: Store, left_out: Set[TilePlace]) -> int:
    """The number of cells in the tiles that are neither in the store nor left out."""
    return grid.cells - sum(grid.tile(*place).cells for place in store.stored_tiles() | left_out)


def run_phases(runs: Items[StrandRun], resources: Resources, recorder: Recorder) -> Outcome:
    """Phase 1 on each strand, then the others on the strand with the best score. The first wins a tie."""
    backend, spec = resources.backends[0], runs[0].spec
    expected = sum(_phase_1_seconds(run, resources) for run in runs) if spec.command == "align" else 0.0
    with (
        compiles_reported(recorder),
        path_kernels_compiled(
            backend, spec.scoring, runs[0].lattice.problem.has_floor, expected
        ) as wait_for_path_kernels,
    ):
        found = [mending(partial(_score, run, runs, recorder), run.lattice, recorder) for run in runs]
        best = best_strand(found)
        if not runs[best].is_exact(found[best]):
            raise InternalError("phase 1 has not found the score that seeds have found")
        exact = [end if run.is_exact(end) else None for run, end in zip(runs, found, strict=True)]
        spec, end, alignment = runs[best].spec, found[best], None
        if len(runs) == 1 and len(runs[0].lattice.problem.excluded) == 0:  # the first alignment
            advise(spec, end.value, recorder)
        if spec.command == "align" and spec.scoring.reaches(end.value, spec.min_score):
            wait_for_path_kernels()
            find_end = partial(_score, runs[best], runs, recorder)
            alignment = _align(spec, runs[best].lattice, find_end, backend, recorder)
    return Outcome(
        spec,
        end,
        alignment,
        phases=tuple(recorder.finished),
        backend=backend.describe(),
        compile_seconds=recorder.compile_seconds,
        strand_scores=strand_scores([run.spec for run in runs], exact),
    )


def with_next_best(first: Outcome, runs: Items[StrandRun], resources: Resources, emit: Emit) -> Outcome:
    """The outcome with the next best alignments that its spec asks for, on the only strand.

    The search ends with an alignment that scores less than `min_score`. It is traced only for a store, which
    keeps it.
    """
    able, sweepers = ([*map(excluding, each)] for each in (resources.backends, runs[0].backends))
    spec = first.spec if first.spec.store is None else replace(first.spec, min_score=None)

    def run_round(lattice: StoreLattice, changed: ChangedTiles) -> Outcome:
        run = StrandRun(spec, lattice, lambda: LocalEngine(lattice, sweepers, changed), sweepers)
        found = run_phases([run], replace(resources, backends=able), Recorder(emit))
        return replace(found, spec=first.spec)

    return first.followed_by(next_best(first, runs[0].lattice, run_round, emit))


def _phase_1_seconds(run: StrandRun, resources: Resources) -> float:
    """Seconds of phase 1 on all devices together, if all cells of the missing tiles were computed."""
    problem, missing = run.lattice.problem, run.missing_cells
    if missing == 0:
        return 0.0
    size = len(problem.query), len(problem.target)
    seconds = resources.backends[0].sweep_seconds(*size, problem.scoring, problem.has_floor)
    return seconds * missing / run.lattice.grid.cells / len(resources.backends)


def _align(
    spec: RunSpec,
    lattice: StoreLattice,
    find_end: Callable[[], Waypoint],
    backend: Backend,
    recorder: Recorder,
) -> Alignment:
    """Phases 2 and 3: the alignment that ends in the cell of `find_end`, checked against its score.

    `find_end` is called again before each attempt of phase 2: it sweeps the tiles that were dropped as
    damaged.
    """
    path = mending(lambda: _stitch(lattice, find_end(), backend, recorder), lattice, recorder)
    piece, codes = _recompute(lattice, path, backend, recorder), lattice.problem.codes
    return checked_alignment(spec, path, piece, codes=codes)


def _score(run: StrandRun, runs: Items[StrandRun], recorder: Recorder) -> Waypoint:
    """The end cell on one strand, all of whose tiles are then stored or listed as left out."""
    end = _swept(run, runs, recorder)
    left_out = run.lattice.left_out
    if left_out.tiles != left_out.listed:
        run.lattice.store.put_left_out(left_out.tiles)
        left_out.listed = frozenset(left_out.tiles)
    return end


def _swept(run: StrandRun, runs: Items[StrandRun], recorder: Recorder) -> Waypoint:
    """The end cell on one strand. Phase 1 of all strands is reported as one phase."""
    total, missing = sum(each.lattice.grid.cells for each in runs), sum(each.missing_cells for each in runs)
    if missing == 0 and recorder.has("score"):
        with run.open_engine() as engine:
            return score(run.lattice, engine, ignore)
    continues = run is not runs[-1] and not recorder.has("score")
    with (
        recorder.phase("score", total, total - missing, continues=continues),
        run.open_engine() as engine,
    ):
        return score(run.lattice, engine, recorder)


def _stitch(lattice: StoreLattice, end: Waypoint, backend: Backend, recorder: Recorder) -> list[Waypoint]:
    """The waypoints from the end cell back to the start; those in the store are not searched again."""
    nothing: tuple[list[Waypoint], bool] = ([], False)
    found, complete = read_unless_damaged(partial(_get_path, lattice, end), nothing, recorder)
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
        place = lattice.store.path_in_words(PATH_NAME)
        raise DamagedFile(f"{place}: damaged: the path does not lead from the end cell to a start")
    return path, complete


def _recompute(lattice: StoreLattice, path: list[Waypoint], backend: Backend, recorder: Recorder) -> Piece:
    """The alignment along a path, in one piece; pieces in the store are not computed again."""
    groups = groups_of(segments_of(path))
    pieces = [
        read_unless_damaged(partial(_get_piece, lattice.store, *item), None, recorder)
        for item in enumerate(groups)
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
        raise DamagedFile(f"{store.path_in_words(piece_name(number))}: damaged: it does not fit the path")
    return piece
