"""Phase 1: sweep the whole matrix, store the lattice, and find the end cell.

The store may still be writing the last tile to disk when phase 2 begins.
"""

from __future__ import annotations

from contextlib import closing

from longalign.events import Emit
from longalign.model.boundary import State, Waypoint, best_of
from longalign.phases.lattice import StoreLattice
from longalign.phases.tile_step import Engine, run_tiles


def score(lattice: StoreLattice, engine: Engine, emit: Emit) -> Waypoint:
    """Sweep every tile that the store lacks, and return the end cell of the best alignment with its value.

    If the mode lets alignments end anywhere, that is the best cell by `BestCell.rank`, with value 0 if
    nothing aligns. Otherwise it is the lower right corner of the matrix.
    """
    with closing(run_tiles(lattice, engine)) as events:
        for event in events:
            emit(event)
    grid = lattice.grid
    if lattice.problem.mode.ends_anywhere:
        best = best_of([lattice.store.get_tile(tile).best for tile in grid.tiles()])
        return Waypoint(best.i, best.j, State.H, best.score)
    return Waypoint(grid.rows, grid.cols, State.H, lattice.last_value())
