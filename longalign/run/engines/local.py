"""Tile steps on threads of this process, one for each device or part of one. A sweep is itself parallel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from queue import SimpleQueue
from threading import Event, Lock
from types import TracebackType
from typing import TypeVar

from longalign.backends.base import Backend, Progress
from longalign.backends.compilation import polled
from longalign.events import TileFinished
from longalign.model.geometry import Tile
from longalign.phases.lattice import StoreLattice
from longalign.phases.tile_step import sweep_tile
from longalign.system.threads import WorkerThreads

T = TypeVar("T")

#: A tile step: see `sweep_tile`.
TileStep = Callable[[StoreLattice, Backend, Tile, Progress], TileFinished]


class LocalEngine:
    """Runs tile steps on one worker thread for each of `backends`; use it as a context manager."""

    def __init__(
        self, lattice: StoreLattice, backends: Sequence[Backend], step: TileStep = sweep_tile
    ) -> None:
        self.capacity = len(backends)
        self._lattice = lattice
        self._tile_step = step
        self._idle: SimpleQueue[Backend] = SimpleQueue()
        for backend in backends:
            self._idle.put(backend)
        self._executor = WorkerThreads(len(backends), "tile")
        self._stop = Event()
        self._count_lock = Lock()
        self._cells = 0

    def submit(self, tile: Tile) -> Future[TileFinished]:
        return self.start(lambda backend, advance: self._tile_step(self._lattice, backend, tile, advance))

    def start(self, work: Callable[[Backend, Progress], T]) -> Future[T]:
        """Do some work on a thread, with a back end that is idle and a progress that `cancel` makes raise."""
        return self._executor.submit(self._with_backend, work, self._stop)

    def progress(self) -> int:
        with self._count_lock:
            cells, self._cells = self._cells, 0
        return cells

    def cancel(self) -> None:
        # Unfinished steps hold this event. Steps submitted later, after a damaged tile was dropped, need
        # another one.
        self._stop.set()
        self._stop = Event()

    def __enter__(self) -> LocalEngine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._executor.shutdown(cancel_futures=True)

    def _with_backend(self, work: Callable[[Backend, Progress], T], stop: Event) -> T:
        def advance(cells: int) -> None:
            if stop.is_set():
                raise CancelledError
            with self._count_lock:
                self._cells += cells

        backend = self._idle.get()
        try:
            with polled(lambda: advance(0)):
                return work(backend, advance)
        finally:
            self._idle.put(backend)
