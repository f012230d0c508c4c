"""Tile steps on any `concurrent.futures.Executor` whose workers share nothing with us but the store.

The step is one module-level function of plain arguments, so a process pool runs it and so does every
cluster library that offers an executor.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import lru_cache
from pathlib import Path

from longalign.backends.base import Backend
from longalign.engine import sweep_tile
from longalign.events import TileFinished
from longalign.geometry import Tile
from longalign.lattice import StoreLattice
from longalign.problem import Problem
from longalign.store import DirectoryStore


@lru_cache(maxsize=1)
def _lattice(path: Path) -> StoreLattice:
    store = DirectoryStore.attach(path)
    manifest = store.manifest
    problem = Problem.of(*store.sequences(), manifest.scoring, manifest.mode)
    return StoreLattice(problem, manifest.grid, store)


@lru_cache(maxsize=1)
def _backend(make: Callable[[], Backend]) -> Backend:
    return make()


def sweep_stored_tile(path: Path, make_backend: Callable[[], Backend], tile: Tile) -> TileFinished:
    """The tile step in a worker: `path` is the store, `make_backend` a picklable way to get a device."""
    return sweep_tile(_lattice(path), _backend(make_backend), tile)


class SharedStoreEngine:
    """Submits `sweep_stored_tile` to `executor`; the caller owns executor and store."""

    def __init__(
        self, path: Path, executor: Executor, capacity: int, make_backend: Callable[[], Backend]
    ) -> None:
        self.capacity = capacity
        self._path, self._executor, self._make_backend = path, executor, make_backend
        self._running: list[tuple[Future[TileFinished], Tile]] = []

    def submit(self, tile: Tile) -> Future[TileFinished]:
        future = self._executor.submit(sweep_stored_tile, self._path, self._make_backend, tile)
        self._running.append((future, tile))
        return future

    def progress(self) -> int:
        done = [(future, tile) for future, tile in self._running if future.done()]
        self._running = [pair for pair in self._running if pair not in done]
        return sum(tile.cells for _, tile in done)

    def cancel(self) -> None:
        for future, _ in self._running:
            future.cancel()
