"""Phase 1's tile step, and the loop that runs such steps in dependency order on any engine.

A step reads two stored boundaries, sweeps the tile, and stores the result. It is idempotent. Resuming a run,
repeating a tile whose file is damaged, and sending tiles to other machines are therefore one mechanism.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Protocol

from longalign.backends.base import Backend, Progress, Sinks, SweepJob, no_progress
from longalign.events import Advanced, Event, TileFinished
from longalign.model.geometry import Tile
from longalign.model.pruning import is_needed, values_left_out
from longalign.phases.lattice import StoreLattice
from longalign.phases.packing import Packer, pack
from longalign.phases.tile_starts import tile_starts
from longalign.phases.wavefront import Wavefront
from longalign.store import TileRecord
from longalign.store.line_tables import (
    BandTable,
    DeflatingTable,
    NarrowTable,
    PatchedDeflatingTable,
    PlainTable,
)
from longalign.store.start_tables import pack_starts
from longalign.store.tile_writer import TileWriter

_POLL_SECONDS = 0.1


class Engine(Protocol):
    """Runs tile steps in this process, in other processes, or on other machines."""

    @property
    def capacity(self) -> int:
        """The largest number of unfinished steps. It may change during a run."""
        ...

    def submit(self, tile: Tile) -> Future[TileFinished]:
        """Start the step of a tile whose upper and left neighbours are done.

        An engine that loses the worker of a step cancels its future. The caller then submits the tile again.
        """
        ...

    def progress(self) -> int:
        """Cells swept since the last call of this method."""
        ...

    def cancel(self) -> None:
        """Ask the unfinished steps to stop soon. Their tiles are not stored."""
        ...


def sweep_tile(
    lattice: StoreLattice, backend: Backend, tile: Tile, progress: Progress = no_progress
) -> TileFinished:
    """The tile step: sweep a tile from its stored upper and left edges, and store its lattice and best cell.

    An eager lattice also gets the start states. Raises DamagedTile if a neighbour cannot be read, and
    StoreError if this result, or that of an earlier tile, cannot be written.
    """
    started = perf_counter()
    job = sweep_job(lattice, tile)
    with lattice.store.open_writer(tile) as file:
        if lattice.eager:
            record = _swept_with_starts(job, backend, progress, file is not None)
        else:
            record = _swept(job, backend, progress, file)
        best = record.best.shifted(tile.i0, tile.j0)
        lattice.store.put_tile(tile, replace(record, best=best), file)
    seconds = perf_counter() - started
    return TileFinished(tile.row, tile.col, tile.cells, seconds, record.left_out, int(best.score))


def sweep_job(lattice: StoreLattice, tile: Tile) -> SweepJob:
    """The sweep of a tile from its stored upper and left edges. Raises DamagedTile if one cannot be read."""
    problem = lattice.problem
    top, left = lattice.edges(tile.i0, tile.i1, tile.j0, tile.j1)
    rows, cols = lattice.kept_lines(tile)
    return SweepJob(
        query=problem.query[tile.i0 : tile.i1],
        target=problem.target[tile.j0 : tile.j1],
        scoring=problem.scoring,
        top=top,
        left=left,
        local=problem.has_floor,
        rows=rows,
        cols=cols,
        track_best=problem.mode.ends_anywhere,
        of_matrix=True,
        excluded=problem.excluded.within(tile.i0, tile.i1, tile.j0, tile.j1),
        pruning=lattice.pruning(tile),
    )


def _swept(job: SweepJob, backend: Backend, progress: Progress, file: TileWriter | None) -> TileRecord:
    """A tile's record, whose `best` counts from the tile's corner.

    The lines are packed while the sweep produces them, and go to `file` at the same time, if there is one.
    """
    table: type[NarrowTable]
    if job.pruning is None:
        table = PlainTable if file is None else DeflatingTable
    else:
        table = BandTable if file is None else PatchedDeflatingTable
    h, gap = values_left_out(job.scoring, job.local)
    packer = partial(Packer, width=job.scoring.difference_bytes, table=table, level_gap=h - gap)
    rows = packer(job.rows, job.left.h_at(job.rows), len(job.target))
    cols = packer(job.cols, job.top.h_at(job.cols), len(job.query))
    if file is not None:
        for side, lines in (("rows", rows), ("cols", cols)):
            for name, array in lines.deflated().items():
                file.stream(f"{side}/{name}", array)
    [result] = backend.sweep([replace(job, sinks=Sinks(rows, cols))], progress)
    return TileRecord(rows.packed(), cols.packed(), result.best, left_out=result.cells_left_out)


def _swept_with_starts(job: SweepJob, backend: Backend, progress: Progress, deflates: bool) -> TileRecord:
    """A tile's record with start states. These take most of the time: `progress` counts only their cells."""
    [result] = backend.sweep([job], lambda _: progress(0))
    rows, cols = tile_starts(job, result, backend, progress)
    record = TileRecord(
        pack(job.rows, result.rows),
        pack(job.cols, result.cols),
        result.best,
        pack_starts(job.rows, rows),
        pack_starts(job.cols, cols),
    )
    return record.deflated() if deflates else record


def run_tiles(lattice: StoreLattice, engine: Engine) -> Generator[Event, None, None]:
    """Run the steps of all tiles that the store lacks; yields TileFinished and Advanced.

    With pruning, a tile that no path of interest visits is left out when its turn comes.

    If a step fails, or the caller closes the generator, the unfinished steps are cancelled and waited for.
    Finished tiles stay in the store.
    """
    grid, left_out, guesses = lattice.grid, lattice.left_out, lattice.guesses
    stored = lattice.store.stored_tiles()
    if lattice.problem.pruning is not None and not guesses:
        best = [int(lattice.best_cell(grid.tile(*place)).score) for place in stored]
        left_out.reached = max(best, default=left_out.reached)
    first_rows = {0, *(grid.tile_rows.index(row) for row in guesses)}
    wavefront = Wavefront(grid.shape, stored | left_out.tiles, first_rows)
    running: dict[Future[TileFinished], Tile] = {}
    try:
        while not wavefront.finished:
            cells = 0
            while len(running) < engine.capacity and (ready := wavefront.take()) is not None:
                tile = grid.tile(*ready)
                if _is_needed(lattice, tile):
                    running[engine.submit(tile)] = tile
                else:
                    left_out.tiles.add(ready)
                    wavefront.complete(*ready)
                    cells += tile.cells
            if cells:
                yield Advanced(cells, left_out=cells)
            if cells and not running:
                continue
            finished, _ = wait(running, _POLL_SECONDS, FIRST_COMPLETED)
            yield Advanced(engine.progress())
            for future in finished:
                tile = running.pop(future)
                if future.cancelled():
                    wavefront.give_back(tile.row, tile.col)
                    continue
                event = future.result()
                if not guesses:  # below a guess, values may be too high
                    left_out.reached = max(left_out.reached, event.best)
                wavefront.complete(event.row, event.col)
                yield event
    except BaseException:
        engine.cancel()
        wait(running)
        raise


def _is_needed(lattice: StoreLattice, tile: Tile) -> bool:
    """Whether a path of interest may visit a tile whose neighbours are done. Raises DamagedTile.

    In local mode a path may begin there, with the value of cells that were left out. All others come from a
    neighbour. Most tiles lie between two that were left out, from which no path comes with a higher value. A
    tile below a guessed row is judged by that row, whatever has become of the tile above.
    """
    whole, problem, left_out = lattice.problem.pruning, lattice.problem, lattice.left_out.tiles
    if whole is None:
        return True
    (level, _), alpha = values_left_out(problem.scoring, problem.has_floor), problem.scoring.gap_open
    place = tile.i0, tile.i1, tile.j0, tile.j1
    gain = int(whole.gain(*place))
    if is_needed(level, gain, alpha, lattice.bound):
        return True
    is_below_guess = tile.i0 in lattice.guesses
    if not is_below_guess and {(tile.row - 1, tile.col), (tile.row, tile.col - 1)} <= left_out:
        return False
    return replace(whole, bound=lattice.bound).needs(*lattice.edges(*place), alpha, tile.i0, tile.j0)
