"""A store that writes a tile while the next one is swept, and the last ones while phases 2 and 3 run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Condition
from types import TracebackType

from longalign.errors import StoreError
from longalign.events import Emit, Notice, ignore
from longalign.model.boundary import BestCell, Waypoint
from longalign.model.geometry import Tile
from longalign.store.base import NextBest, Piece, Store, TilePlace, TileRecord
from longalign.store.files import NotWritten
from longalign.store.memory import KeptBytes
from longalign.store.tile_writer import TileWriter
from longalign.system.threads import WorkerThreads


class WriteBehind:
    """Passes tiles, and what follows from them, to one thread, which writes it all to `store` in order.

    Until a tile is written, it is read from memory. While tiles are swept, at most `devices` of them wait to
    be written: one for each device, or part of one, that sweeps. The list of tiles left out, paths and pieces
    are the results that follow from tiles. If a write fails, later tiles are still written, but no results.
    `flush` and every later call that stores, drops or reads a tile, or stores a result, raise the error. Only
    calls for tiles that are held back do not.
    Leaving the context waits for all writes. It raises the error of a failed write unless the block itself
    raised one.

    In a block of `held`, tiles are only kept in memory: their values are not known to be right. They are
    written when the block has ended, and lost if it raises an exception. They may take `max_held` bytes (see
    `KeptBytes`).
    """

    def __init__(self, store: Store, devices: int, emit: Emit = ignore, max_held: int | None = None) -> None:
        self._store, self._devices, self._emit = store, devices, emit
        self._thread = WorkerThreads(1, "store")
        self._changed = Condition()  # guards those below
        self._unwritten: dict[TilePlace, TileRecord] = {}
        self._error: BaseException | None = None
        self._is_holding = False
        self._held: dict[TilePlace, tuple[Tile, TileRecord]] = {}
        self._max_held, self._held_bytes = max_held, KeptBytes(None, "")
        self._last_result: Future[None] | None = None  # the thread writes in order

    def __enter__(self) -> WriteBehind:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self._announce_wait()
        finally:
            self._thread.shutdown()
        if error is None:
            self.flush()

    def _announce_wait(self) -> None:
        """Tell the user of a stopped run that tiles which were held back are written first."""
        unwritten = len(self._unwritten)
        if unwritten > self._devices and self._error is None:
            self._emit(Notice(f"{unwritten:,} tiles are still to be written; an interrupt would lose them"))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold tiles back until the block ends well.

        If the block raises, the held tiles are lost. From then on, this store takes no more tiles: a sweep
        that still runs loses its result, too. No caller goes on with the store after such an error. In such
        a block no tile is read from disk (`Slabs.open_engine`), so none is found damaged and swept again.
        """
        advice = "or resume the run, which then holds no tiles back"
        self._is_holding, self._held_bytes = True, KeptBytes(self._max_held, advice)
        try:
            yield
        except BaseException:
            with self._changed:
                self._held = {}
            raise
        with self._changed:
            held, self._held, self._is_holding = self._held, {}, False
            self._unwritten.update({place: record for place, (_, record) in held.items()})
        for tile, record in held.values():
            self._thread.submit(self._write_tile, tile, record, None)

    def open_writer(self, tile: Tile) -> AbstractContextManager[TileWriter | None]:
        return nullcontext() if self._is_holding else self._store.open_writer(tile)

    def put_tile(self, tile: Tile, record: TileRecord, writer: TileWriter | None = None) -> None:
        place = tile.row, tile.col
        with self._changed:
            if self._is_holding:
                self._drop_held(place)
                self._held_bytes.change([record.rows, record.cols])
                self._held[place] = tile, record
                return
            self._wait_for_room(self._devices - 1)
            self._unwritten[place] = record
        try:
            # Outside of the lock: if the system grants no thread, `submit` itself writes the tile.
            self._thread.submit(self._write_tile, tile, record, writer)
        except BaseException:
            self._forget(place)
            raise

    def _write_tile(self, tile: Tile, record: TileRecord, writer: TileWriter | None) -> None:
        try:
            with self._noting_errors():
                self._store.put_tile(tile, record, writer)
        finally:
            self._forget((tile.row, tile.col))

    def _write_result(self, write: Callable[[], None]) -> None:
        """Write a result, unless an earlier write has failed."""
        if self._error is None:
            with self._noting_errors():
                write()

    @contextmanager
    def _noting_errors(self) -> Iterator[None]:
        """Note the first error of the thread."""
        try:
            yield
        except BaseException as error:
            with self._changed:
                self._error = self._error or error
            raise

    def _forget(self, place: TilePlace) -> None:
        with self._changed:
            self._unwritten.pop(place, None)
            self._changed.notify_all()

    def _write_later(self, write: Callable[[], None]) -> None:
        """Let the thread write a result after the tiles that it follows from."""
        with self._changed:
            self._raise_error()
        self._last_result = self._thread.submit(self._write_result, write)

    def flush(self) -> None:
        """Wait until everything is written. Raises StoreError if something could not be."""
        if self._last_result is not None:
            wait([self._last_result])
        with self._changed:
            self._wait_for_room(0)

    def _wait_for_room(self, max_tiles: int) -> None:
        """Wait until at most `max_tiles` tiles are unwritten. The caller holds the lock.

        Raises the error of a failed write.
        """
        self._changed.wait_for(lambda: len(self._unwritten) <= max_tiles)
        self._raise_error()

    def _raise_error(self) -> None:
        if self._error is not None:
            raise self._error

    def stored_tiles(self) -> set[TilePlace]:
        with self._changed:
            unwritten = {*self._unwritten, *self._held}
        # Those on their way first: a tile that arrives in the meantime is in the store's list.
        return unwritten | self._store.stored_tiles()

    def get_tile(self, tile: Tile) -> TileRecord:
        with self._changed:
            self._raise_error()  # otherwise a tile that could not be written would seem damaged
            unwritten = self._in_memory(tile)
        return self._store.get_tile(tile) if unwritten is None else unwritten

    def check_tile(self, tile: Tile) -> BestCell:
        with self._changed:
            self._raise_error()
            unwritten = self._in_memory(tile)
        return self._store.check_tile(tile) if unwritten is None else unwritten.best

    def _in_memory(self, tile: Tile) -> TileRecord | None:
        """The record of a tile that is not written yet. The caller holds the lock."""
        place = tile.row, tile.col
        return self._held[place][1] if place in self._held else self._unwritten.get(place)

    def drop_tile(self, row: int, col: int) -> None:
        with self._changed:
            if self._drop_held((row, col)):
                return
        self.flush()
        self._store.drop_tile(row, col)

    def _drop_held(self, place: TilePlace) -> bool:
        """Drop a tile that is held back; returns whether it was. The caller holds the lock."""
        if place not in self._held:
            return False
        _, record = self._held.pop(place)
        self._held_bytes.change([], [record.rows, record.cols])
        return True

    def path_in_words(self, name: str) -> str:
        return self._store.path_in_words(name)

    def put_left_out(self, places: Iterable[TilePlace]) -> None:
        kept = set(places)
        self._write_later(lambda: self._store.put_left_out(kept))

    def get_left_out(self) -> set[TilePlace]:
        return self._store.get_left_out()

    def put_path(self, waypoints: Iterable[Waypoint], complete: bool) -> None:
        path = list(waypoints)
        self._write_later(lambda: self._store.put_path(path, complete))

    def get_path(self) -> tuple[list[Waypoint], bool]:
        return self._store.get_path()

    def put_piece(self, number: int, piece: Piece) -> None:
        self._write_later(lambda: self._store.put_piece(number, piece))

    def get_piece(self, number: int) -> Piece | None:
        return self._store.get_piece(number)

    def put_next_best(self, found: NextBest) -> None:
        try:
            self.flush()  # the caller wants to know whether it is written
        except NotWritten as error:
            # NotWritten would mean that `found` was refused. But an earlier write failed: the run must end.
            raise StoreError(str(error)) from error.__cause__
        self._store.put_next_best(found)

    def get_next_best(self) -> NextBest:
        return self._store.get_next_best()
