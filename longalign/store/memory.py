"""A store for runs that leave nothing behind."""

from __future__ import annotations

from collections.abc import Iterable

from longalign.boundary import Waypoint
from longalign.geometry import Tile
from longalign.store.base import Piece, TileRecord


class MemoryStore:
    """Packed boundaries in memory: about as many bytes as the planned lattice budget."""

    def __init__(self) -> None:
        self._tiles: dict[tuple[int, int], TileRecord] = {}
        self._path: tuple[list[Waypoint], bool] = ([], False)
        self._pieces: dict[int, Piece] = {}

    def has_tile(self, tile: Tile) -> bool:
        return (tile.row, tile.col) in self._tiles

    def put_tile(self, tile: Tile, record: TileRecord) -> None:
        self._tiles[tile.row, tile.col] = record

    def get_tile(self, tile: Tile) -> TileRecord:
        return self._tiles[tile.row, tile.col]

    def drop_tile(self, row: int, col: int) -> None:
        self._tiles.pop((row, col), None)

    def put_path(self, waypoints: Iterable[Waypoint], complete: bool) -> None:
        self._path = (list(waypoints), complete)

    def get_path(self) -> tuple[list[Waypoint], bool]:
        return self._path

    def put_piece(self, number: int, piece: Piece) -> None:
        self._pieces[number] = piece

    def get_piece(self, number: int) -> Piece | None:
        return self._pieces.get(number)
