"""Many small pairs at a time: each phase of all of them is one call of a back end.

A pair of a thousand letters is swept in less time than its run takes outside the sweeps, where threads are
started and memory is planned. In a batch this is done once. Each pair is one tile of one chunk.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from longalign.backends.base import Backend, Progress
from longalign.backends.compilation import compiles_reported
from longalign.events import Emit, PhaseFinished, ignore
from longalign.model.alignment import Alignment
from longalign.model.boundary import Waypoint
from longalign.model.geometry import Grid
from longalign.model.strand import Strand
from longalign.phases.lattice import StoreLattice
from longalign.phases.packing import pack
from longalign.phases.problem import Problem
from longalign.phases.recompute import recompute_all, segments_of
from longalign.phases.score import end_cell
from longalign.phases.stitch import stitch_all
from longalign.phases.tile_step import sweep_job
from longalign.run.grid_bytes import fits_without_tiles
from longalign.run.outcome import Outcome, Recorder, best_strand, checked_alignment, strand_scores
from longalign.run.request import Request, Resources
from longalign.run.spec import RunSpec
from longalign.run.strand_advice import advise
from longalign.store import MemoryStore, TileRecord
from longalign.store.manifest import Command
from longalign.system.rationals import Number

#: The most cells of a pair that is small, about a millisecond of work.
_SMALL_CELLS = 1 << 22

#: The most pairs of a batch and the most cells of all of them: the caller waits for the whole batch.
_MAX_PAIRS, _MAX_CELLS = 256, 1 << 28


def batches(specs: Iterable[RunSpec], resources: Resources) -> Iterator[list[RunSpec]]:
    """The runs in their order, small ones that follow one another in lists, any other in a list of its own.

    If `specs` raises an exception, the runs before it come first.
    """
    batch: list[RunSpec] = []
    room = _MAX_CELLS
    try:
        for spec in specs:
            small, cells = _is_small(spec, resources), _cells(spec)
            if batch and (not small or cells > room or len(batch) == _MAX_PAIRS):
                yield batch
                batch = []
            if not small:
                yield [spec]
                continue
            room = (room if batch else _MAX_CELLS) - cells
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
    is_usual = spec.top == 1 and spec.min_score is None
    return in_memory and is_usual and resources.store_budget is None and _cells(spec) <= _SMALL_CELLS


def _cells(spec: RunSpec) -> int:
    """The cells of a run, on all strands."""
    return spec.query.length * spec.target.length * len(spec.per_strand)


def fits(specs: Sequence[RunSpec], resources: Resources) -> bool:
    """Whether there is memory for all of these runs together."""
    rows, cols = (sum(getattr(spec, side).length for spec in specs) for side in ("query", "target"))
    command: Command = "align" if any(spec.command == "align" for spec in specs) else "score"
    strands = max(len(spec.per_strand) for spec in specs)
    return fits_without_tiles(Request(rows, cols, command, strands=strands), resources)


def run_batch(specs: Sequence[RunSpec], resources: Resources, emit: Emit = ignore) -> list[Outcome]:
    """Run small pairs together, on the first device; outcomes in order.

    The seconds that a phase takes are divided among the pairs by their cells. Raises BackendError if the
    device fails.
    """
    recorder, backend = Recorder(emit), resources.backends[0]
    with compiles_reported(recorder):
        with recorder.phase("score", sum(map(_cells, specs))):
            scored = _score(specs, backend, recorder.advance)
        for spec, pair in zip(specs, scored, strict=True):
            if advise(spec, pair.end.value, recorder):
                break  # once is enough
        wanted = [k for k, pair in enumerate(scored) if pair.spec.command == "align"]
        found = _align([scored[k] for k in wanted], backend, recorder)
    alignments = dict(zip(wanted, found, strict=True))
    described, cells = backend.describe(), max(1, sum(map(_cells, specs)))
    return [
        Outcome(
            pair.spec,
            pair.end,
            alignments.get(k),
            tuple(_part(phase, _cells(spec), cells) for phase in recorder.finished),
            described,
            recorder.compile_seconds * _cells(spec) / cells,
            pair.strand_scores,
        )
        for k, (spec, pair) in enumerate(zip(specs, scored, strict=True))
    ]


@dataclass(frozen=True, slots=True, eq=False)
class _Scored:
    """A pair after phase 1, on the strand with the best score: its matrix there, and the end cell."""

    spec: RunSpec
    lattice: StoreLattice
    end: Waypoint
    strand_scores: dict[Strand, Number | None]


def _score(specs: Sequence[RunSpec], backend: Backend, progress: Progress) -> list[_Scored]:
    """Phase 1: sweep all matrices, of every strand that is asked for."""
    lattices = [[_lattice(one) for one in spec.per_strand] for spec in specs]
    _sweep([lattice for of_spec in lattices for lattice in of_spec], backend, progress)
    scored = []
    for spec, of_spec in zip(specs, lattices, strict=True):
        ends = [*map(end_cell, of_spec)]
        best = best_strand(ends)
        scores = strand_scores(spec.per_strand, ends)
        scored.append(_Scored(spec.per_strand[best], of_spec[best], ends[best], scores))
    return scored


def _part(phase: PhaseFinished, cells: int, of: int) -> PhaseFinished:
    """The share that a pair of `cells` cells has in a phase of a batch of `of` cells."""
    return PhaseFinished(phase.name, phase.cells * cells // of, phase.seconds * cells / of)


def _lattice(spec: RunSpec) -> StoreLattice:
    """The matrix of a pair as one tile of one chunk, in a store of its own."""
    rows, cols = spec.query.length, spec.target.length
    cuts = (0, rows), (0, cols)
    grid = Grid(*cuts, *cuts) if rows * cols else Grid.without_cells(rows, cols)
    problem = Problem.of(spec.query, spec.target, spec.scoring, spec.mode)
    return StoreLattice(problem, grid, MemoryStore())


def _sweep(lattices: Sequence[StoreLattice], backend: Backend, progress: Progress) -> None:
    """Sweep all matrices and store what their lattices keep."""
    tiles = [(lattice, tile) for lattice in lattices for tile in lattice.grid.tiles()]
    jobs = [sweep_job(lattice, tile) for lattice, tile in tiles]
    for (lattice, tile), job, result in zip(tiles, jobs, backend.sweep(jobs, progress), strict=True):
        record = TileRecord(pack(job.rows, result.rows), pack(job.cols, result.cols), result.best)
        lattice.store.put_tile(tile, record)


def _align(pairs: Sequence[_Scored], backend: Backend, recorder: Recorder) -> list[Alignment]:
    """Phases 2 and 3."""
    if not pairs:
        return []
    with recorder.phase("stitch"):
        lattices, ends = [pair.lattice for pair in pairs], [pair.end for pair in pairs]
        paths = stitch_all(lattices, ends, backend, recorder.advance)
    with recorder.phase("recompute"):
        parts = [(pair.lattice.problem, segments_of(path)) for pair, path in zip(pairs, paths, strict=True)]
        pieces = recompute_all(parts, backend, recorder.advance)
        return [
            checked_alignment(pair.spec, path, piece, codes=pair.lattice.problem.codes)
            for pair, path, piece in zip(pairs, paths, pieces, strict=True)
        ]
