"""Phase 1: sweep the whole matrix, keep the lattice in the store, find the end cell.

What the last tile leaves may still be on its way to the disk when phase 2 begins.
"""

from __future__ import annotations

from contextlib import closing

from longalign.events import Emit
from longalign.model.boundary import State, Waypoint, best_of
from longalign.phases.lattice import StoreLattice
from longalign.phases.tile_step import Engine, run_tiles


def score(lattice: StoreLattice, engine: Engine, emit: Emit) -> Waypoint:
    """Sweep every tile that the store lacks; returns the end of the best alignment.

    In local mode the end is the best cell by `BestCell.rank`, with value 0 if nothing aligns; in global
    mode it is the lower right corner.
    """
    with closing(run_tiles(lattice, engine)) as events:
        for event in events:
            emit(event)
    grid = lattice.grid
    if lattice.problem.mode.ends_anywhere:
        best = best_of([lattice.store.get_tile(tile).best for tile in grid.tiles()])
        return Waypoint(best.i, best.j, State.H, best.score)
    return Waypoint(grid.rows, grid.cols, State.H, lattice.last_value())
