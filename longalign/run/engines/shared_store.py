"""Tile steps on any `concurrent.futures.Executor` whose workers share nothing with us but the store.

The step is one module-level function of plain arguments, so a process pool runs it and so does every
cluster library that offers an executor.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import lru_cache
from pathlib import Path
from threading import Lock

from longalign.backends.base import Backend, Progress, no_progress
from longalign.events import TileFinished
from longalign.model.geometry import Tile
from longalign.phases.lattice import StoreLattice
from longalign.phases.problem import Problem
from longalign.phases.tile_step import sweep_tile
from longalign.store import DirectoryStore

#: A back end sweeps for one thread at a time, and a worker may have several.
_device = Lock()


@lru_cache(maxsize=1)
def _lattice(path: Path, mark: str) -> StoreLattice:
    """What a worker knows of a run. Every run has a mark of its own, so that none is taken for another."""
    store = DirectoryStore.attach(path, mark)
    manifest = store.manifest
    problem = Problem.of(*store.sequences(), manifest.scoring, manifest.mode)
    return StoreLattice(problem, manifest.grid, store, manifest.is_eager)


@lru_cache(maxsize=1)
def open_device(make_backend: Callable[[], Backend]) -> Backend:
    """The one device of a worker, kept from tile to tile."""
    return make_backend()


def sweep_stored_tile(
    path: Path,
    mark: str,
    make_backend: Callable[[], Backend],
    tile: Tile,
    progress: Progress = no_progress,
) -> TileFinished:
    """The tile step in a worker: `path` is the store and `mark` that of this run (`DirectoryStore.marked`).

    `make_backend` is a way to get a device, picklable, and equal wherever the device is the same. Raises
    what `sweep_tile` does, and StoreError if this process does not see the store.
    """
    with _device:
        return sweep_tile(_lattice(path, mark), open_device(make_backend), tile, progress)


class SharedStoreEngine:
    """Submits a tile step to `executor`, `capacity` of them at a time; the caller owns both and `store`.

    `step` is `sweep_stored_tile`, all arguments but the tile given.
    """

    def __init__(
        self,
        store: DirectoryStore,
        executor: Executor,
        capacity: int,
        step: Callable[[Tile], TileFinished],
    ) -> None:
        self.capacity = capacity
        self._store, self._executor, self._step = store, executor, step
        self._running: dict[Future[TileFinished], Tile] = {}

    def submit(self, tile: Tile) -> Future[TileFinished]:
        return self._watched(tile, self._executor.submit(self._step, tile))

    def _watched(self, tile: Tile, future: Future[TileFinished]) -> Future[TileFinished]:
        self._running[future] = tile
        return future

    def progress(self) -> int:
        done = {future: tile for future, tile in self._running.items() if future.done()}
        if done:
            self._store.refresh()
        for future in done:
            del self._running[future]
        return sum(tile.cells for future, tile in done.items() if not future.cancelled())

    def cancel(self) -> None:
        for future in self._running:
            future.cancel()
