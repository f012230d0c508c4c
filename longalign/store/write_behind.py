"""A store that writes a tile while the next one is swept, and the last one while phase 2 begins.

What a sweep does before its kernel runs, and what a device waits for, takes turns with writing at Python's
lock. So a write begins a little later than it could, unless somebody waits for it or hurries it.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager
from dataclasses import dataclass
from threading import Event, Lock
from time import monotonic
from types import TracebackType

from longalign.model.boundary import BestCell, Waypoint
from longalign.model.geometry import Tile
from longalign.store.base import Piece, Store, TileRecord
from longalign.store.tile_writer import TileWriter
from longalign.system.threads import WorkerThreads

#: Seconds by which a write is put off: with threads at work, a sweep begins in less.
_HEAD_START = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class _Write:
    """A tile on its way; `hurry` is set when it is to be put off no longer."""

    key: tuple[int, int]
    future: Future[None]
    hurry: Event


class WriteBehind:
    """Hands tiles to one thread, which writes them to `store`; reads them from memory until they are there.

    At most one tile is on its way for each of `devices` that sweep. What writing raises is raised by whatever
    waits for it next: whoever puts or drops something, or `flush`. Leaving the context waits for what is on
    its way, and raises what that raises, unless something else has been raised.
    """

    def __init__(self, store: Store, devices: int) -> None:
        self._store, self._devices = store, devices
        self._executor = WorkerThreads(1, "store")
        self._lock, self._putting = Lock(), Lock()
        self._error: BaseException | None = None
        self._writes: list[_Write] = []
        self._records: dict[tuple[int, int], TileRecord] = {}  # of tiles that are not in `store` yet

    def __enter__(self) -> WriteBehind:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.hurry()
        self._executor.shutdown()
        if error is None:
            self.flush()

    def open_writer(self, tile: Tile) -> AbstractContextManager[TileWriter | None]:
        return self._store.open_writer(tile)

    def put_tile(self, tile: Tile, record: TileRecord) -> None:
        key, hurry = (tile.row, tile.col), Event()
        with self._putting:
            self._settle(self._devices - 1)
            with self._lock:
                self._records[key] = record
            # Not under the lock, which the write takes: without a thread it is made here.
            future = self._executor.submit(self._write, tile, record, monotonic() + _HEAD_START, hurry)
            with self._lock:
                self._writes.append(_Write(key, future, hurry))

    def _write(self, tile: Tile, record: TileRecord, begin: float, hurry: Event) -> None:
        hurry.wait(max(0.0, begin - monotonic()))
        self._store.put_tile(tile, record)
        with self._lock:  # the same write: nobody puts a tile twice without dropping it, which waits
            self._records.pop((tile.row, tile.col), None)

    def hurry(self) -> None:
        """Put off no longer what is on its way."""
        with self._lock:
            for write in self._writes:
                write.hurry.set()

    def flush(self) -> None:
        """Wait until all tiles are written. Raises StoreError if one cannot be."""
        self._settle(0)

    def _settle(self, most: int) -> None:
        """Wait until no more than `most` tiles are on their way, the first of them first."""
        with self._lock:
            writes = list(self._writes)
        for number, write in enumerate(writes):
            if write.future.done() or len(writes) - number > most:
                write.hurry.set()
                self._error = self._error or write.future.exception()
                with self._lock:
                    if write in self._writes:  # another thread may settle it, too
                        self._writes.remove(write)
                    self._records.pop(write.key, None)
        self._raise_failure()

    def _raise_failure(self) -> None:
        if self._error is not None:
            raise self._error

    def has_tile(self, tile: Tile) -> bool:
        return (tile.row, tile.col) in self._records or self._store.has_tile(tile)

    def get_tile(self, tile: Tile) -> TileRecord:
        self._raise_failure()  # rather than that a tile is missing
        with self._lock:
            on_its_way = self._records.get((tile.row, tile.col))
        return self._store.get_tile(tile) if on_its_way is None else on_its_way

    def check_tile(self, tile: Tile) -> BestCell:
        self._raise_failure()
        with self._lock:
            waiting = self._records.get((tile.row, tile.col))
        return self._store.check_tile(tile) if waiting is None else waiting.best

    def drop_tile(self, row: int, col: int) -> None:
        self.flush()
        self._store.drop_tile(row, col)

    def put_path(self, waypoints: Iterable[Waypoint], complete: bool) -> None:
        self.flush()  # a path leads through tiles that are there
        self._store.put_path(waypoints, complete)

    def get_path(self) -> tuple[list[Waypoint], bool]:
        return self._store.get_path()

    def put_piece(self, number: int, piece: Piece) -> None:
        self.flush()
        self._store.put_piece(number, piece)

    def get_piece(self, number: int) -> Piece | None:
        return self._store.get_piece(number)
