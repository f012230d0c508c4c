"""Phase 1: sweep the whole matrix, store the lattice, and find the end cell.

The store may still be writing tiles to disk while phases 2 and 3 run: the last ones, or, where rows were
guessed, all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from itertools import pairwise

from longalign.events import Advanced, Emit
from longalign.model.boundary import BestCell, Edge, State, Waypoint, best_of
from longalign.model.geometry import Tile
from longalign.phases.guessed_lines import difference
from longalign.phases.lattice import StoreLattice
from longalign.phases.tile_step import Engine, run_tiles


def score(lattice: StoreLattice, engine: Engine, emit: Emit) -> Waypoint:
    """Sweep every tile that the store lacks, and return the end cell of the best alignment with its value.

    The end cell is the first by `BestCell.rank` of the cells in which the mode lets alignments end. If they
    may end anywhere and nothing aligns, it is the upper left corner, with value 0.

    The tiles below a row that was guessed wrongly are swept again.
    """
    while True:
        with closing(run_tiles(lattice, engine)) as events:
            for event in events:
                emit(event)
        wrong = _first_wrong_guess(lattice)
        if wrong is None:
            break
        emit(_withdrawn(lattice, wrong))
    return end_cell(lattice)


def end_cell(lattice: StoreLattice) -> Waypoint:
    """The end cell of the best alignment with its value, once every tile is stored. See `score`."""
    end = _end(lattice)
    return Waypoint(end.i, end.j, State.H, int(end.score))  # scaled, so a whole number


def _end(lattice: StoreLattice) -> BestCell:
    """The first by rank of the cells in which an alignment may end, given that all tiles are swept."""
    grid, ends = lattice.grid, lattice.problem.mode.ends
    if ends.ends_anywhere:
        swept = [tile for tile in grid.tiles() if (tile.row, tile.col) not in lattice.left_out.tiles]
        return best_of([lattice.best_cell(tile) for tile in swept])
    candidates = []
    if ends.target_end:
        h, j = _first_highest(lattice.last_row())
        candidates.append(BestCell(h, grid.rows, j))
    if ends.query_end:
        h, i = _first_highest(lattice.last_column())
        candidates.append(BestCell(h, i, grid.cols))
    return best_of(candidates or [BestCell(lattice.last_value(), grid.rows, grid.cols)])


def _first_highest(pieces: Iterable[tuple[int, Edge]]) -> tuple[int, int]:
    """The highest H on a line, and the lowest boundary index that has it: along a line it ranks first.

    The line comes in pieces, each after the index of its first cell. There is at least one.
    """
    highest = ((int(h.max()), -start - int(h.argmax())) for start, h in ((at, edge.h) for at, edge in pieces))
    value, before = max(highest)
    return value, -before


def _first_wrong_guess(lattice: StoreLattice) -> int | None:
    """Check guessed rows, from the top down to the first wrong one. These rows are not guessed any longer."""
    grid, guesses, pruning = lattice.grid, lattice.guesses, lattice.problem.pruning
    for row in sorted(guesses):
        assert pruning is not None
        true = [lattice.known_row(row, j0, j1) for j0, j1 in pairwise(grid.tile_cols)]
        line = guesses.pop(row)
        added = difference(line, true, grid.tile_cols, pruning, lattice.problem.scoring.gap_open)
        if added is None:
            return row
        for tile in _slab(lattice, row):
            if (tile.row, tile.col) not in lattice.left_out.tiles:
                lattice.add(tile, added)
    return None


def _slab(lattice: StoreLattice, row: int) -> list[Tile]:
    """The tiles from a row down to the next one that is guessed."""
    end = min((other for other in lattice.guesses if other > row), default=lattice.grid.rows)
    return [tile for tile in lattice.grid.tiles() if row <= tile.i0 < end]


def _withdrawn(lattice: StoreLattice, row: int) -> Advanced:
    """Drop the tiles below a row that was guessed wrongly; returns the event that takes them back."""
    cells = left_out = 0
    for tile in _slab(lattice, row):
        place = tile.row, tile.col
        cells += tile.cells
        if place in lattice.left_out.tiles:
            lattice.left_out.tiles.remove(place)
            left_out += tile.cells
        else:
            left_out += lattice.store.get_tile(tile).left_out
            lattice.store.drop_tile(*place)
    return Advanced(-cells, left_out=-left_out)
