"""The interface between the phases and a store. Each item of a store is the result of an idempotent step."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from longalign.errors import StoreError
from longalign.model.boundary import BestCell, Waypoint
from longalign.model.geometry import Tile
from longalign.store.codec import PackedLines
from longalign.store.deflated import deflated
from longalign.store.start_tables import PackedStarts
from longalign.store.tile_writer import TileWriter

#: The row and the column of a tile in the grid.
TilePlace = tuple[int, int]


class DamagedFile(StoreError):
    """A file of the store, which the text names, cannot be read back; its step must run again."""


class DamagedTile(DamagedFile):
    """The file of a tile cannot be read back; the tile must be swept again."""

    def __init__(self, row: int, col: int, text: str) -> None:
        super().__init__(text)
        self.row = row
        self.col = col

    def __reduce__(self) -> tuple[type[DamagedTile], tuple[int, int, str]]:
        """For pickling: by default an exception is rebuilt from its text alone."""
        return DamagedTile, (self.row, self.col, str(self))


@dataclass(frozen=True, slots=True, eq=False)
class TileRecord:
    """What phase 1 keeps of a tile: its lattice rows and columns, its best cell and, in an eager run, the
    start states on those rows and columns.

    Indices of lines count from the tile's own corner. The last ones are its bottom and right edges, unless
    these lie on the edge of the matrix and are not needed. `best` is in whole-matrix indices. Of the tile's
    cells, `left_out` were not computed. `added`, at most 0, is to be added to all values of the lines: below
    a guessed row (`phases.guessed_lines`) they are too high.
    """

    rows: PackedLines
    cols: PackedLines
    best: BestCell
    row_starts: PackedStarts | None = None
    col_starts: PackedStarts | None = None
    left_out: int = 0
    added: int = 0

    def deflated(self) -> TileRecord:
        """The record with deflated arrays. Their checksums are computed now, not when they are written."""
        sides = "rows", "cols", "row_starts", "col_starts"
        packed = {side: getattr(self, side) for side in sides}
        return replace(self, **{side: deflated(lines) for side, lines in packed.items() if lines is not None})


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A part of the alignment as runs, in order: `ops` (k,) uint8 and `lengths` (k,) int64."""

    ops: NDArray[np.uint8]
    lengths: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class FoundPath:
    """An alignment: the end cell with the score, and all runs."""

    end: Waypoint
    runs: Piece


@dataclass(frozen=True, slots=True, eq=False)
class NextBest:
    """The next best alignments found so far, in order, and whether there are no others."""

    paths: Sequence[FoundPath] = ()
    are_all: bool = False

    def suffice(self, top: int, is_enough: Callable[[int], bool]) -> bool:
        """Whether a run for `top` alignments has found all that it looks for.

        `is_enough` says whether a scaled score is at least the lowest one that is wanted.
        """
        wanted = self.paths[: top - 1]
        return self.are_all or len(wanted) == top - 1 or not all(is_enough(one.end.value) for one in wanted)


NONE_FOUND = NextBest()


class Store(Protocol):
    """Keeps the results of the three phases.

    Reading may raise DamagedFile (for a tile: DamagedTile). Writing the item again, or dropping a tile, mends
    that.
    """

    def open_writer(self, tile: Tile) -> AbstractContextManager[TileWriter | None]:
        """The writer of a tile's file, for use during the sweep; None if tiles stay in memory.

        It writes deflated lines block by block (`TileWriter.stream`). Give it to `put_tile` within the block.
        If the block raises, the file is removed.
        """
        ...

    def stored_tiles(self) -> set[TilePlace]:
        """All tiles that are stored, those on their way to the disk included.

        It takes one listing of the store, however many tiles the grid has.
        """
        ...

    def put_tile(self, tile: Tile, record: TileRecord, writer: TileWriter | None = None) -> None:
        """Store a tile. `writer` may have written a part of its file already.

        A tile that is held in memory may be stored again with another best cell and another `added`.
        """
        ...

    def get_tile(self, tile: Tile) -> TileRecord:
        """The record. Its lines may be read from disk only when a part of them is accessed."""
        ...

    def check_tile(self, tile: Tile) -> BestCell:
        """Read all of a tile; returns its best cell. Raises DamagedTile."""
        ...

    def drop_tile(self, row: int, col: int) -> None: ...

    def put_left_out(self, places: Iterable[TilePlace]) -> None:
        """Replace the list of tiles that a pruned run has left out. The write may happen later."""
        ...

    def get_left_out(self) -> set[TilePlace]:
        """The tiles that were listed as left out; none before phase 1 is over."""
        ...

    def path_in_words(self, name: str) -> str:
        """Where the file with this name is, for messages."""
        ...

    def put_path(self, waypoints: Iterable[Waypoint], complete: bool) -> None:
        """Replace the waypoints found so far, in order from the end cell backwards.

        No path is stored before the tiles through which it leads. The write may happen later. If it fails, a
        later call raises StoreError.
        """
        ...

    def get_path(self) -> tuple[list[Waypoint], bool]:
        """The waypoints found so far (maybe none), and whether the path is complete.

        What was just put may not be there yet. The same holds for pieces.
        """
        ...

    def put_piece(self, number: int, piece: Piece) -> None:
        """Keep a piece. The write may happen later, as that of a path."""
        ...

    def get_piece(self, number: int) -> Piece | None: ...

    def put_next_best(self, found: NextBest) -> None:
        """Replace the next best alignments found so far. Raises StoreError if the write fails."""
        ...

    def get_next_best(self) -> NextBest: ...
