"""Many small pairs at a time: each phase of all of them is one call of a back end.

A pair of a thousand letters is swept in less time than its run takes outside the sweeps, where threads are
started and memory is planned. In a batch this is done once. Each pair is one tile of one chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from longalign.backends.base import Backend, Progress
from longalign.backends.compilation import compiles_reported
from longalign.events import Emit, PhaseFinished, ignore
from longalign.model.alignment import Alignment
from longalign.model.boundary import Waypoint
from longalign.model.geometry import Grid
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem
from longalign.phases.recompute import recompute_all, segments_of
from longalign.phases.score import end_cell
from longalign.phases.stitch import stitch_all
from longalign.phases.tile_step import sweep_job
from longalign.run.outcome import Outcome, Recorder, checked_alignment
from longalign.run.planner import check_memory_of_paths
from longalign.run.request import Request, Resources
from longalign.run.spec import RunSpec
from longalign.store import MemoryStore, TileRecord
from longalign.store.codec import pack

#: The most cells of a pair that is small, about a millisecond of work.
_SMALL_CELLS = 1 << 22

#: The most pairs of a batch and the most cells of all of them: the caller waits for the whole batch.
_MOST_PAIRS, _MOST_CELLS = 256, 1 << 28


def batches(specs: Iterable[RunSpec], resources: Resources) -> Iterator[list[RunSpec]]:
    """The runs in their order, small ones that follow one another in lists, any other in a list of its own.

    If `specs` raises an exception, the runs before it come first.
    """
    batch: list[RunSpec] = []
    room = _MOST_CELLS
    try:
        for spec in specs:
            small, cells = _is_small(spec, resources), _cells(spec)
            if batch and (not small or cells > room or len(batch) == _MOST_PAIRS):
                yield batch
                batch = []
            if not small:
                yield [spec]
                continue
            room = (room if batch else _MOST_CELLS) - cells
            batch.append(spec)
    except Exception:
        if batch:
            yield batch
        raise
    if batch:
        yield batch


def _is_small(spec: RunSpec, resources: Resources) -> bool:
    """Whether a run may be part of a batch: small, in memory, and with nothing that only a plan can heed."""
    in_memory = spec.store is None and not spec.is_eager and resources.cluster is None
    return in_memory and resources.store_budget is None and _cells(spec) <= _SMALL_CELLS


def _cells(spec: RunSpec) -> int:
    return spec.query.length * spec.target.length


def run_batch(specs: Sequence[RunSpec], resources: Resources, emit: Emit = ignore) -> list[Outcome]:
    """Run small pairs together, on the first device; outcomes in order.

    The seconds that a phase takes are divided among the pairs by their cells. Raises UsageError if there is
    too little memory, BackendError if the device fails.
    """
    rows, cols = (sum(getattr(spec, side).length for spec in specs) for side in ("query", "target"))
    check_memory_of_paths(Request(rows, cols), resources)
    recorder, backend = Recorder(emit), resources.backends[0]
    with compiles_reported(recorder):
        lattices = [_lattice(spec) for spec in specs]
        with recorder.phase("score", sum(map(_cells, specs))):
            _sweep(lattices, backend, recorder.advance)
            ends = [*map(end_cell, lattices)]
        wanted = [k for k, spec in enumerate(specs) if spec.command == "align"]
        found = _align(specs, lattices, ends, wanted, backend, recorder)
    alignments = dict(zip(wanted, found, strict=True))
    described, cells = backend.describe(), max(1, sum(map(_cells, specs)))
    return [
        Outcome(
            spec,
            ends[k],
            alignments.get(k),
            tuple(_part(phase, _cells(spec), cells) for phase in recorder.finished),
            described,
            recorder.compile_seconds * _cells(spec) / cells,
        )
        for k, spec in enumerate(specs)
    ]


def _part(phase: PhaseFinished, cells: int, of: int) -> PhaseFinished:
    """The part of a phase that a pair of so many cells takes, out of the cells `of` the batch."""
    return PhaseFinished(phase.name, phase.cells * cells // of, phase.seconds * cells / of)


def _lattice(spec: RunSpec) -> StoreLattice:
    """The matrix of a pair as one tile of one chunk, in a store of its own."""
    rows, cols = spec.query.length, spec.target.length
    cuts = (0, rows), (0, cols)
    grid = Grid(*cuts, *cuts) if rows * cols else Grid.without_cells(rows, cols)
    problem = Problem.of(spec.query, spec.target, spec.scoring, spec.mode)
    return StoreLattice(problem, grid, MemoryStore())


def _sweep(lattices: Sequence[StoreLattice], backend: Backend, progress: Progress) -> None:
    """Phase 1: sweep all matrices and store what their lattices keep."""
    tiles = [(lattice, tile) for lattice in lattices for tile in lattice.grid.tiles()]
    jobs = [sweep_job(lattice, tile) for lattice, tile in tiles]
    for (lattice, tile), job, result in zip(tiles, jobs, backend.sweep(jobs, progress), strict=True):
        record = TileRecord(pack(job.rows, result.rows), pack(job.cols, result.cols), result.best)
        lattice.store.put_tile(tile, record)


def _align(
    specs: Sequence[RunSpec],
    lattices: Sequence[StoreLattice],
    ends: Sequence[Waypoint],
    wanted: Sequence[int],
    backend: Backend,
    recorder: Recorder,
) -> list[Alignment]:
    """Phases 2 and 3 for the pairs whose alignment is wanted."""
    if not wanted:
        return []
    with recorder.phase("stitch"):
        ends_wanted = [ends[k] for k in wanted]
        paths = stitch_all([lattices[k] for k in wanted], ends_wanted, backend, recorder.advance)
    with recorder.phase("recompute"):
        parts = [(lattices[k].problem, segments_of(path)) for k, path in zip(wanted, paths, strict=True)]
        pieces = recompute_all(parts, backend, recorder.advance)
        return [
            checked_alignment(specs[k], path, piece)
            for k, path, piece in zip(wanted, paths, pieces, strict=True)
        ]
