"""Phase 1: sweep the whole matrix, store the lattice, and find the end cell.

The store may still be writing the last tile to disk when phase 2 begins.
"""

from __future__ import annotations

from contextlib import closing

from longalign.errors import InternalError
from longalign.events import Emit
from longalign.model.boundary import State, Waypoint, best_of
from longalign.phases.lattice import StoreLattice
from longalign.phases.tile_step import Engine, run_tiles


def score(lattice: StoreLattice, engine: Engine, emit: Emit) -> Waypoint:
    """Sweep every tile that the store lacks, and return the end cell of the best alignment with its value.

    If the mode lets alignments end anywhere, that is the best cell by `BestCell.rank`, with value 0 if
    nothing aligns. Otherwise it is the lower right corner of the matrix. Raises InternalError for a mode
    whose alignments end anywhere on an edge: no offered mode does, and the best cell of an edge is not looked
    for.
    """
    mode = lattice.problem.mode
    if not mode.ends_anywhere and (mode.ends.query_end or mode.ends.target_end):
        raise InternalError(f"mode {mode}: alignments that end on an edge of the matrix are not supported")
    with closing(run_tiles(lattice, engine)) as events:
        for event in events:
            emit(event)
    grid = lattice.grid
    if mode.ends_anywhere:
        best = best_of([lattice.store.get_tile(tile).best for tile in grid.tiles()])
        return Waypoint(best.i, best.j, State.H, best.score)
    return Waypoint(grid.rows, grid.cols, State.H, lattice.last_value())
