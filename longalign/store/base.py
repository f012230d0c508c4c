"""What the phases ask of a store. Everything in it is the result of an idempotent step."""

from __future__ import annotations

from collections.abc import Iterable
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


class DamagedFile(StoreError):
    """A file of the store cannot be read back; the text names it. Its step is to be done again."""


class DamagedTile(DamagedFile):
    """The file of a tile cannot be read back; the tile is to be swept again."""

    def __init__(self, row: int, col: int, text: str) -> None:
        super().__init__(text)
        self.row = row
        self.col = col

    def __reduce__(self) -> tuple[type[DamagedTile], tuple[int, int, str]]:
        """How it travels between processes: an exception is otherwise rebuilt from its text alone."""
        return DamagedTile, (self.row, self.col, str(self))


@dataclass(frozen=True, slots=True, eq=False)
class TileRecord:
    """What phase 1 keeps of a tile: its lattice rows and columns, its best cell, and where it is eager, the
    start states on those rows and columns.

    Indices of lines count from the tile's own corner, and the last ones are its bottom and right edges, but
    for those of the whole matrix that nobody asks for; `best` is in whole-matrix indices.
    """

    rows: PackedLines
    cols: PackedLines
    best: BestCell
    row_starts: PackedStarts | None = None
    col_starts: PackedStarts | None = None

    def deflated(self) -> TileRecord:
        """The same with its arrays deflated, so that their checksums are made now and not by a writer."""
        sides = "rows", "cols", "row_starts", "col_starts"
        packed = {side: getattr(self, side) for side in sides}
        return replace(self, **{side: deflated(lines) for side, lines in packed.items() if lines is not None})


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A stretch of the alignment: `ops` (k,) uint8 and `lengths` (k,) int64, in order."""

    ops: NDArray[np.uint8]
    lengths: NDArray[np.int64]


class Store(Protocol):
    """Keeps what the three phases have finished.

    Reading may raise DamagedFile (of a tile: DamagedTile); dropping or writing that item mends it.
    """

    def open_writer(self, tile: Tile) -> AbstractContextManager[TileWriter | None]:
        """The file that the tile will have, while it is swept; None where tiles stay in memory.

        Lines that go to a file had best come deflated, and it had best follow them. The tile is to be put in
        the block; if that ends badly before, nothing is left of the file.
        """
        ...

    def has_tile(self, tile: Tile) -> bool: ...

    def put_tile(self, tile: Tile, record: TileRecord) -> None: ...

    def get_tile(self, tile: Tile) -> TileRecord:
        """The record; its lines may be read from disk only when a part of them is asked for."""
        ...

    def check_tile(self, tile: Tile) -> BestCell:
        """Read all of a tile; returns its best cell. Raises DamagedTile."""
        ...

    def drop_tile(self, row: int, col: int) -> None: ...

    def put_path(self, waypoints: Iterable[Waypoint], complete: bool) -> None:
        """Replace the start states found so far, from the end cell backwards; all tiles are safe then.

        Raises StoreError if one cannot be written.
        """
        ...

    def get_path(self) -> tuple[list[Waypoint], bool]:
        """The start states found so far and whether the path is complete; empty if there are none."""
        ...

    def put_piece(self, number: int, piece: Piece) -> None:
        """Keep a piece; all tiles are safe then. Raises StoreError if one cannot be written."""
        ...

    def get_piece(self, number: int) -> Piece | None: ...
