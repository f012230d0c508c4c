"""A store in memory, for runs without a store directory."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from threading import Lock

from longalign.errors import MemoryTooSmall
from longalign.model.boundary import BestCell, Waypoint
from longalign.model.geometry import Tile
from longalign.store.base import NONE_FOUND, NextBest, Piece, TilePlace, TileRecord
from longalign.store.codec import NO_LINES, PackedLines
from longalign.store.tile_writer import TileWriter
from longalign.system.sizes import round_size, size_in_words


class KeptBytes:
    """Counts the bytes of packed boundaries in memory.

    Those of a pruned run may take more than was planned, if more cells are needed than was expected. Beyond
    `max_bytes` (None: no limit), MemoryTooSmall is raised; its message ends with `advice`.
    """

    def __init__(self, max_bytes: int | None, advice: str) -> None:
        self._max_bytes, self._advice, self._bytes = max_bytes, advice, 0

    def change(self, kept: Iterable[PackedLines], dropped: Iterable[PackedLines] = ()) -> None:
        """Count boundaries that are kept from now on, and some that no longer are."""
        if self._max_bytes is None:
            return
        self._bytes += sum(lines.nbytes for lines in kept) - sum(lines.nbytes for lines in dropped)
        if self._bytes > self._max_bytes:
            raise MemoryTooSmall(
                "more of the matrix is needed than was expected, and its boundaries take more than "
                f"{size_in_words(round_size(self._max_bytes, up=False))} of memory: give more (--mem), "
                f"{self._advice}"
            )


class MemoryStore:
    """Keeps packed boundaries in memory, of at most `max_bytes` bytes (see `KeptBytes`).

    With `edges_only` it drops a boundary as soon as the tile that reads it is stored. That leaves O(m + n)
    cells, enough for the score, provided that each tile is stored after those above and to the left of it.
    The bottom edges of the tile rows in `kept` are not dropped, so the tiles below may be stored before.
    """

    def __init__(
        self, edges_only: bool = False, max_bytes: int | None = None, kept: Collection[int] = ()
    ) -> None:
        self._edges_only, self._kept = edges_only, kept
        self._bytes = KeptBytes(max_bytes, "or a store (--store DIR), which keeps them on disk")
        self._tiles: dict[TilePlace, TileRecord] = {}
        self._lock = Lock()
        self._left_out: set[TilePlace] = set()
        self._path: tuple[list[Waypoint], bool] = ([], False)
        self._pieces: dict[int, Piece] = {}
        self._next_best = NONE_FOUND

    def path_in_words(self, name: str) -> str:
        return f"{name} in memory"

    def open_writer(self, tile: Tile) -> AbstractContextManager[None]:
        return nullcontext()

    def stored_tiles(self) -> set[TilePlace]:
        with self._lock:
            return set(self._tiles)

    def put_tile(self, tile: Tile, record: TileRecord, writer: TileWriter | None = None) -> None:
        with self._lock:  # two devices may each drop a boundary of the same tile
            before = self._tiles.get((tile.row, tile.col))
            self._tiles[tile.row, tile.col] = record
            above, beside = (tile.row - 1, tile.col), (tile.row, tile.col - 1)
            dropped = [] if before is None else [before.rows, before.cols]
            if self._edges_only and above in self._tiles and above[0] not in self._kept:
                dropped.append(self._tiles[above].rows)
                self._tiles[above] = replace(self._tiles[above], rows=NO_LINES)
            if self._edges_only and beside in self._tiles:
                dropped.append(self._tiles[beside].cols)
                self._tiles[beside] = replace(self._tiles[beside], cols=NO_LINES)
            self._bytes.change([record.rows, record.cols], dropped)

    def get_tile(self, tile: Tile) -> TileRecord:
        return self._tiles[tile.row, tile.col]

    def check_tile(self, tile: Tile) -> BestCell:
        """See `Store`. Lines that are shared with a store on disk are read from there."""
        record = self._tiles[tile.row, tile.col]
        for lines, length in (record.rows, tile.j1 - tile.j0), (record.cols, tile.i1 - tile.i0):
            for index in lines.index:
                lines.part(int(index), 0, length)
        return record.best

    def drop_tile(self, row: int, col: int) -> None:
        with self._lock:
            record = self._tiles.pop((row, col), None)
            if record is not None:
                self._bytes.change([], [record.rows, record.cols])

    def put_left_out(self, places: Iterable[TilePlace]) -> None:
        self._left_out = set(places)

    def get_left_out(self) -> set[TilePlace]:
        return self._left_out

    def put_path(self, waypoints: Iterable[Waypoint], complete: bool) -> None:
        self._path = (list(waypoints), complete)

    def get_path(self) -> tuple[list[Waypoint], bool]:
        return self._path

    def put_piece(self, number: int, piece: Piece) -> None:
        self._pieces[number] = piece

    def get_piece(self, number: int) -> Piece | None:
        return self._pieces.get(number)

    def put_next_best(self, found: NextBest) -> None:
        self._next_best = found

    def get_next_best(self) -> NextBest:
        return self._next_best
