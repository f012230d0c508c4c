"""Tile steps on any `concurrent.futures.Executor` whose workers share only the store with this process.

The step is one module-level function with picklable arguments. A process pool can run it, and so can every
cluster library that offers an executor.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock

from longalign.backends.base import Backend, Progress, no_progress
from longalign.events import TileFinished
from longalign.model.geometry import Tile
from longalign.phases.lattice import StoreLattice
from longalign.phases.left_out import LeftOut
from longalign.phases.problem import Problem
from longalign.phases.tile_step import sweep_tile
from longalign.store import DirectoryStore
from longalign.store.base import TilePlace

#: Held while a tile is swept: a back end serves one thread at a time, and a worker may have several threads.
_device_lock = Lock()


@lru_cache(maxsize=1)
def _lattice(path: Path, mark: str) -> StoreLattice:
    """The lattice of a run, kept in a worker from tile to tile. The mark is unique to the run."""
    store = DirectoryStore.attach(path, mark)
    manifest = store.manifest
    problem = Problem.of(*store.sequences(), manifest.scoring, manifest.mode)
    if manifest.pruned_with is not None:
        findings, _ = store.get_findings()  # the process that has opened the store says what is damaged
        pruning = problem.pruning_by(manifest.pruned_with.score, problem.gains(findings))
        problem = replace(problem, pruning=pruning)
    return StoreLattice(problem, manifest.grid, store, manifest.is_eager)


@lru_cache(maxsize=1)
def open_device(make_backend: Callable[[], Backend]) -> Backend:
    """The one device of a worker, opened once and kept from tile to tile."""
    return make_backend()


def sweep_stored_tile(
    path: Path,
    mark: str,
    make_backend: Callable[[], Backend],
    tile: Tile,
    left_out: LeftOut,
    progress: Progress = no_progress,
) -> TileFinished:
    """The tile step in a worker: `path` is the store and `mark` that of this run (`DirectoryStore.marked`).

    `left_out` says which neighbours of the tile were left out, and what score is reached.

    `make_backend` opens the device. It must be picklable, and two of them must be equal if they open the same
    device. Raises what `sweep_tile` raises, and StoreError if this process does not see the store.
    """
    with _device_lock:
        lattice = replace(_lattice(path, mark), left_out=left_out)
        return sweep_tile(lattice, open_device(make_backend), tile, progress)


class SharedStoreEngine:
    """Submits tile steps to `executor`, of which up to `capacity` run at a time. The base of `DaskEngine`.

    The caller owns `executor` and `store`. `step` is `sweep_stored_tile` with all arguments bound except the
    tile and what was left out before it, according to `left_out`.
    """

    def __init__(
        self,
        store: DirectoryStore,
        executor: Executor,
        capacity: int,
        step: Callable[[Tile, LeftOut], TileFinished],
        left_out: LeftOut,
    ) -> None:
        self.capacity = capacity
        self._left_out = left_out
        self._store, self._executor, self._step = store, executor, step
        self._running: dict[Future[TileFinished], Tile] = {}

    def submit(self, tile: Tile) -> Future[TileFinished]:
        return self._watched(tile, self._executor.submit(self._step, tile, self._before(tile)))

    def _before(self, tile: Tile) -> LeftOut:
        """What the worker of a tile must know of that which was left out."""
        neighbours: set[TilePlace] = {(tile.row - 1, tile.col), (tile.row, tile.col - 1)}
        return LeftOut(self._left_out.tiles & neighbours, self._left_out.reached)

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
