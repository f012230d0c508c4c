"""Phase 1's lattice: the stored boundaries that are the edges of chunks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise

from longalign.model.boundary import BestCell, Edge, LinearEdge, State, Waypoint
from longalign.model.geometry import Grid, Tile, owning_interval
from longalign.model.pruning import Pruning, values_left_out
from longalign.model.scoring import NEG_INF
from longalign.phases.guessed_lines import GuessedLine, ShiftedEdge
from longalign.phases.left_out import LeftOut, left_out_edge
from longalign.phases.problem import Approach, Problem
from longalign.store import Store, TileRecord
from longalign.store.base import DamagedTile
from longalign.store.layout import tile_name

#: The most cells of a line that are unpacked at a time.
_PIECE = 1 << 22


@dataclass(frozen=True, slots=True, eq=False)
class StoreLattice:
    """A problem, the grid that cuts it into tiles and chunks, and the store that holds the boundaries.

    With `eager`, phase 1 also stores the start state of each boundary cell. `left_out` says what a pruned
    sweep has left out. `guesses` has the rows that were guessed for it, until they are checked. Both stay
    empty without pruning.
    """

    problem: Problem
    grid: Grid
    store: Store
    eager: bool = False
    left_out: LeftOut = field(default_factory=LeftOut)
    guesses: dict[int, GuessedLine] = field(default_factory=dict)

    def pruning(self, tile: Tile) -> Pruning | None:
        """What the sweep of a tile may leave out, with the bound that is known by now."""
        whole = self.problem.pruning
        if whole is None:
            return None
        part = whole.within(tile.i0, tile.i1, tile.j0, tile.j1)
        return replace(part, bound=self.bound, rises=whole.rises and not self.guesses)

    @property
    def bound(self) -> int:
        """The bound that is known by now. Requires pruning."""
        whole = self.problem.pruning
        assert whole is not None
        return max(whole.bound, self.left_out.reached) if whole.rises else whole.bound

    def approach(self, exit_: Waypoint) -> Approach:
        """The chunk that computes a cell (i, j), both at least 1, from its upper left corner to that cell."""
        (i, j), (i0, j0) = (exit_.i, exit_.j), self.corner(exit_.i, exit_.j)
        top, left = self.edges(i0, i, j0, j)
        rectangle = self.problem.rectangle(i0, i, j0, j, top, left, local=self.problem.has_floor)
        return Approach(self.problem, i0, j0, rectangle, exit_)

    def corner(self, i: int, j: int) -> tuple[int, int]:
        """The upper left corner of the chunk that computes cell (i, j), both at least 1."""
        row_cuts, col_cuts = self.grid.row_cuts, self.grid.col_cuts
        return row_cuts[owning_interval(row_cuts, i)], col_cuts[owning_interval(col_cuts, j)]

    def edges(self, i0: int, i1: int, j0: int, j1: int) -> tuple[Edge, Edge]:
        """The top and the left edge of the rows i0 < i <= i1 and columns j0 < j <= j1, which lie in one tile.

        They agree in their corner: an edge of a tile that was left out takes that of the other edge. Below a
        guessed row, the corners may differ, but only where no path of interest passes.
        """
        top, left = self.row(i0, j0, j1), self.column(j0, i0, i1)
        if i0 > 0 and isinstance(top, LinearEdge):
            top = replace(top, corner=int(left.h_at([0])[0]))
        elif j0 > 0 and isinstance(left, LinearEdge):
            left = replace(left, corner=int(top.h_at([0])[0]))
        return top, left

    def _is_left_out(self, i: int, j: int) -> bool:
        """Whether the tile that computes cell (i, j) was left out."""
        if not self.left_out.tiles:
            return False
        tile = self.grid.tile_owning(i, j)
        return (tile.row, tile.col) in self.left_out.tiles

    def row(self, i: int, j0: int, j1: int) -> Edge:
        """H and E at lattice row i for columns j0..j1, which lie in one tile column. They may be guessed."""
        guess = self.guesses.get(i)
        return self.known_row(i, j0, j1) if guess is None else guess.part(j0, j1)

    def known_row(self, i: int, j0: int, j1: int) -> Edge:
        """The same row, never guessed. The tile that computes it must be finished."""
        if i == 0:
            return self.problem.top.part(j0, j1)
        if self._is_left_out(i, j1):
            return left_out_edge(j1 - j0, self.problem.scoring, self.problem.has_floor)
        tile = self.grid.tile_owning(i, j1)
        record = self.store.get_tile(tile)
        return self._shifted(record, record.rows.part(i - tile.i0, j0 - tile.j0, j1 - tile.j0))

    def column(self, j: int, i0: int, i1: int) -> Edge:
        """H and F at lattice column j for rows i0..i1, which lie in one tile row."""
        if j == 0:
            return self.problem.left.part(i0, i1)
        if self._is_left_out(i1, j):
            return left_out_edge(i1 - i0, self.problem.scoring, self.problem.has_floor)
        tile = self.grid.tile_owning(i1, j)
        record = self.store.get_tile(tile)
        return self._shifted(record, record.cols.part(j - tile.j0, i0 - tile.i0, i1 - tile.i0))

    def _shifted(self, record: TileRecord, edge: Edge) -> Edge:
        """A stored line of a tile, with the tile's constant added."""
        if record.added == 0:
            return edge
        least, _ = values_left_out(self.problem.scoring, self.problem.has_floor)
        return ShiftedEdge(edge, record.added, least)

    def add(self, tile: Tile, added: int) -> None:
        """Note that `added`, at most 0, is to be added to all values of a tile that is held in memory."""
        record = self.store.get_tile(tile)
        score = record.best.score + added
        best = replace(record.best, score=score) if score > 0 else BestCell()
        self.store.put_tile(tile, replace(record, best=best, added=added))

    def best_cell(self, tile: Tile) -> BestCell:
        """The best cell of a stored tile."""
        return self.store.get_tile(tile).best

    def last_value(self) -> int:
        """H in the lower right corner of the matrix. Without cells, that corner lies on a given edge."""
        rows, cols = self.grid.rows, self.grid.cols
        if rows == 0:
            return int(self.problem.top.h_at([cols])[0])
        if cols == 0:
            return int(self.problem.left.h_at([rows])[0])
        return int(self.row(rows, cols - 1, cols).h[-1])

    def last_row(self) -> Iterator[tuple[int, Edge]]:
        """The bottom edge of the DP matrix in pieces, from left to right.

        Each piece is preceded by the column of its first cell. Neighbouring pieces share a cell. If there are
        no rows, this is the top edge; if there are no columns, it is a single cell.
        """
        rows, cols = self.grid.rows, self.grid.cols
        if cols == 0:
            yield 0, self.problem.left.part(rows, rows)
        for start, stop in _pieces(self.grid.tile_cols):
            yield start, self.row(rows, start, stop)

    def last_column(self) -> Iterator[tuple[int, Edge]]:
        """The right edge of the DP matrix in pieces, from top to bottom, like `last_row`."""
        rows, cols = self.grid.rows, self.grid.cols
        if rows == 0:
            yield 0, self.problem.top.part(cols, cols)
        for start, stop in _pieces(self.grid.tile_rows):
            yield start, self.column(cols, start, stop)

    def kept_lines(self, tile: Tile) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """See `Grid.kept_lines`."""
        return self.grid.kept_lines(tile, self.problem.mode)

    def start(self, point: Waypoint) -> tuple[int, int, State] | None:
        """The stored start state of a lattice cell: row, column and state where its path enters its chunk.

        None if the point lies inside a chunk, or if its line stores no start for the point's state: rows
        store H and E, columns H and F. Raises DamagedTile for a start that no path can have.
        """
        tile = self.grid.tile_owning(point.i, point.j)
        record = self.store.get_tile(tile)
        i, j, gap = point.i - tile.i0, point.j - tile.j0, point.state != State.H
        rows, cols = self.kept_lines(tile)
        if point.state != State.F and i in rows:
            starts, line, cell = record.row_starts, i, j
        elif point.state != State.E and j in cols:
            starts, line, cell = record.col_starts, j, i
        else:
            return None
        assert starts is not None
        row, col, state = starts.at(line, cell, gap=gap)
        start = tile.i0 + row, tile.j0 + col
        if state not in [*State] or not self._may_start(point, *start):
            raise DamagedTile(
                tile.row,
                tile.col,
                f"{self.store.path_in_words(tile_name(tile.row, tile.col))}: damaged: no path to cell "
                f"({point.i}, {point.j}) can start at the stored start {start} in state {state}",
            )
        return *start, State(state)

    def _may_start(self, point: Waypoint, i: int, j: int) -> bool:
        """Whether the path to `point` may start at (i, j): on its chunk's edge, or, in local mode, inside."""
        i0, j0 = self.corner(point.i, point.j)
        precedes = i0 <= i <= point.i and j0 <= j <= point.j and (i, j) != (point.i, point.j)
        return precedes and (self.problem.has_floor or i == i0 or j == j0)

    def entry(self, corner: tuple[int, int], i: int, j: int, state: State) -> Waypoint:
        """The start state (i, j, `state`) in the chunk with this upper left corner, as a waypoint.

        On the chunk's upper or left edge its value is the stored one. Inside, a local path begins with 0.
        """
        i0, j0 = corner
        if i > i0 and j > j0:
            return Waypoint(i, j, state, 0)
        if i == i0:
            first = max(j0, j - 1)
            line, cell = self.row(i0, first, first + 1), j - first
        else:
            line, cell = self.column(j0, i - 1, i), 1
        return Waypoint(i, j, state, int((line.h if state == State.H else line.gap)[cell]))

    def peak(self, i: int, stop: int) -> Waypoint:
        """The cell with the highest H on lattice row i >= 1, left of column `stop`.

        The optimal path is likely to cross the row there, but need not.
        """
        best = Waypoint(i, 0, State.H, NEG_INF)
        for start, end in pairwise(self.grid.tile_cols):
            if start < stop and not self._is_left_out(i, end):
                tile = self.grid.tile_owning(i, end)
                record = self.store.get_tile(tile)
                offset, h = record.rows.highest(i - tile.i0, min(stop, end) - start)
                h += record.added
                if h > best.value:
                    best = Waypoint(i, start + offset, State.H, h)
        return best


def _pieces(cuts: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """The spans between cuts, divided into pieces of at most `_PIECE` letters."""
    for first, last in pairwise(cuts):
        for start in range(first, last, _PIECE):
            yield start, min(start + _PIECE, last)
