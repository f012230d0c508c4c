"""Phase 1 on a Dask cluster: every worker is one device, and has one tile at a time.

A worker that is lost costs the tile that it had: another one begins it anew. The run goes on with the workers
that are left and those that come; without any it waits. A tile that has lost too many workers ends the run,
and so does the loss of the scheduler. If this process ends, in whatever way, the workers drop what they have
in hand. All that is finished is in the store.

Tiles are bound to their workers, and it is our wavefront that submits them again: Dask would put two tiles on
a worker of several threads, and keep a tile that had been meant for a lost worker waiting for that one.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import sleep
from typing import Any, TypeVar

from distributed import Client, Security, Worker, get_worker, rpc
from distributed import Future as Task

from longalign._version import __version__
from longalign.backends.base import Backend, DeviceFacts, Workers
from longalign.backends.select import open_backends
from longalign.errors import BackendError, LongalignError, StoreError
from longalign.events import Emit, Notice, TileFinished
from longalign.model.geometry import Tile
from longalign.run.engines.shared_store import SharedStoreEngine, open_device, sweep_stored_tile
from longalign.store import DirectoryStore
from longalign.store.base import DamagedTile
from longalign.system.memory_limits import free_memory

T = TypeVar("T")

#: Seconds until a scheduler must have answered, and until it must have a worker.
_ANSWER_SECONDS = 5
_WORKER_SECONDS = 10

#: Of a worker's memory limit, what is planned with: from 80 % on, Dask gives a worker nothing to do.
_MEMORY_SHARE = 0.7

#: The loss of so many workers that had the same tile ends the run.
_LOSSES = 4

#: Seconds between two looks for a worker where none is left.
_WAIT_SECONDS = 0.5

#: The Dask topic under which workers tell how far they are.
_TOPIC = "longalign"


@contextmanager
def connect(address: str, backend: str, rows: int, cols: int) -> Iterator[Cluster]:
    """The cluster of a Dask scheduler, given by its address (tcp://host:8786) or its scheduler file.

    It is to sweep a matrix of `rows` x `cols` letters. `backend` says what device a worker opens, as for
    `longalign.backends.select.open_backends`; on a CPU it sweeps with as many threads as Dask gave it.
    Raises BackendError if there is no scheduler or no worker, and, naming it, if a worker has no such device
    or another version of longalign.
    """
    with _quiet(), _client(address) as client:
        yield Cluster(client, address, backend, rows, cols)


class Cluster:
    """Workers of a scheduler: `workers` is what they can do, `description` how many of them are where."""

    def __init__(self, client: Client, address: str, backend: str, rows: int, cols: int) -> None:
        self._client, self._address, self._backend = client, address, backend
        count = len(client.nthreads())
        answers = self._ask(_look_at_device, backend, rows, cols, count)
        for worker, (version, _, _) in answers.items():
            if version != __version__:
                raise BackendError(f"worker {worker} has longalign {version}, and this is {__version__}")
        _, devices, memory = zip(*answers.values(), strict=True)
        self.workers = Workers(devices, min(memory))
        self.description = f"{count} of {address}"

    @contextmanager
    def engine(self, store: DirectoryStore, emit: Emit) -> Iterator[DaskEngine]:
        """An engine over the workers. Raises StoreError, naming the worker, if one does not see the store."""
        path = store.path.absolute()
        with store.marked() as mark:
            try:
                self._ask(_look_at_store, path, mark)
            except StoreError as error:
                raise StoreError(f"{error} (all workers must see the store under its path)") from error
            step = partial(_sweep, path, mark, self._backend)
            yield DaskEngine(store, self._client, self._address, step, mark, emit)

    def _ask(self, question: Callable[..., Any], *arguments: object) -> dict[str, Any]:
        """The answer of every worker, by its address. Raises the first that is an exception."""
        answers = self._client.run(question, *arguments, on_error="return")
        for worker, answer in answers.items():
            if isinstance(answer, BaseException):
                raise _said_by(worker, answer) from answer
        return dict(answers)


class DaskEngine(SharedStoreEngine):
    """Has as many tiles in hand as there are workers, one on each; `emit` hears of workers that are lost."""

    def __init__(
        self,
        store: DirectoryStore,
        client: Client,
        address: str,
        step: Callable[[Tile], TileFinished],
        mark: str,
        emit: Emit,
    ) -> None:
        self._client, self._address, self._mark, self._emit = client, address, mark, emit
        self._tasks = _Tasks(client)
        self._workers = self._workers_now()
        super().__init__(store, self._tasks, len(self._workers), step)
        self._latest: dict[str, Future[TileFinished]] = {}
        self._losses: Counter[Tile] = Counter()
        self._told: dict[tuple[int, int], int] = {}
        self._finished = self._reported = 0
        client.subscribe_topic(_TOPIC, self._hear)

    def submit(self, tile: Tile) -> Future[TileFinished]:
        """Start a tile on a worker that has none: Dask may queue it at one that is busy."""
        self._check_connection()
        self._told.pop((tile.row, tile.col), None)
        worker = min(worker for worker in self._workers if not self._is_busy(worker))
        self._latest[worker] = self._watched(tile, self._tasks.submit(self._step, tile, workers=[worker]))
        return self._latest[worker]

    def progress(self) -> int:
        """Cells of finished tiles, and those that workers have told of since this was last asked."""
        self._notice_workers()
        self._finished += super().progress()
        in_hand = sum(self._told.get((tile.row, tile.col), 0) for tile in self._running.values())
        # A tile that begins anew on another worker is behind what was reported of it.
        news = max(0, self._finished + in_hand - self._reported)
        self._reported += news
        return news

    def _is_busy(self, worker: str) -> bool:
        return worker in self._latest and not self._latest[worker].done()

    def _notice_workers(self) -> None:
        """Count them, and have the tiles of lost ones submitted again."""
        before, self._workers = self._workers, self._workers_now()
        self.capacity = len(self._workers)
        for worker in sorted(before - self._workers):
            if self._is_busy(worker):
                self._emit(Notice(f"worker {worker} is lost; its tile is computed again"))
                self._lose(self._latest[worker])
            else:
                self._emit(Notice(f"worker {worker} is lost"))
        if not self._workers:
            if before:
                self._emit(Notice("no worker is left; waiting for one"))
            sleep(_WAIT_SECONDS)  # nothing is in hand that the caller could wait for

    def _lose(self, future: Future[TileFinished]) -> None:
        tile = self._running[future]
        self._losses[tile] += 1
        if self._losses[tile] == _LOSSES:
            raise BackendError(
                f"tile ({tile.row}, {tile.col}): {_LOSSES} workers were lost that had it: see their logs"
            )
        future.cancel()

    def _workers_now(self) -> set[str]:
        """The addresses of the workers. Raises BackendError if the scheduler is gone."""
        self._check_connection()
        try:
            return set(self._client.nthreads())
        except OSError as error:
            raise self._scheduler_is_gone() from error

    def _check_connection(self) -> None:
        if self._client.status != "running":
            raise self._scheduler_is_gone()

    def _scheduler_is_gone(self) -> BackendError:
        return BackendError(f"{self._address}: the Dask scheduler is gone")

    def _hear(self, event: tuple[float, dict[str, Any]]) -> None:
        """Called in Dask's thread with what a worker has told, perhaps of another run."""
        _, message = event
        if message["run"] == self._mark:
            self._told[message["row"], message["col"]] = message["cells"]


class _Tasks(Executor):
    """Tasks of a Dask client as futures of the standard library.

    Unlike those of `Client.get_executor` they end in any case: there, one whose result was on its way when
    the scheduler died stays pending for ever.
    """

    def __init__(self, client: Client) -> None:
        self._client = client

    def submit(self, fn: Callable[..., T], /, *args: Any, **options: Any) -> Future[T]:
        """Run `fn(*args)` on a worker; `options` are those of `Client.submit`."""
        future: Future[T] = Future()
        task = self._client.submit(fn, *args, pure=False, **options)
        task.add_done_callback(partial(_settle, future))
        future.add_done_callback(partial(_drop_if_cancelled, task))
        return future


def _settle(future: Future[T], task: Task) -> None:
    """Pass on how a task has ended. Called in a thread of Dask's."""
    with suppress(InvalidStateError):  # cancelled meanwhile
        if task.cancelled():
            future.cancel()
            return
        try:
            result = task.result()
        except BaseException as error:
            future.set_exception(error)
        else:
            future.set_result(result)


def _drop_if_cancelled(task: Task, future: Future[T]) -> None:
    if future.cancelled():
        future.set_running_or_notify_cancel()  # without this, `concurrent.futures.wait` goes on waiting
        with suppress(Exception):  # the scheduler may be gone, and the task with it
            task.cancel()


# --- what runs in a worker


@dataclass(frozen=True, slots=True)
class _DeviceOf:
    """How a worker opens its device."""

    backend: str
    threads: int

    def __call__(self) -> Backend:
        return open_backends(self.backend, self.threads)[0]


def _look_at_device(
    backend: str, rows: int, cols: int, devices: int, *, dask_worker: Worker
) -> tuple[str, DeviceFacts, int]:
    """The version of longalign, the facts about the device, and bytes of memory to plan with."""
    device = open_device(_DeviceOf(backend, dask_worker.state.nthreads))
    limit = dask_worker.memory_manager.memory_limit or free_memory()
    return __version__, DeviceFacts.of(device, rows, cols, devices), int(limit * _MEMORY_SHARE)


def _look_at_store(path: Path, mark: str) -> None:
    DirectoryStore.attach(path, mark)


def _sweep(path: Path, mark: str, backend: str, tile: Tile) -> TileFinished:
    """The tile step on a worker's thread."""
    worker = get_worker()
    device = _DeviceOf(backend, worker.state.nthreads)
    try:
        return sweep_stored_tile(path, mark, device, tile, _Report(worker, mark, tile))
    except (DamagedTile, CancelledError):
        raise
    except Exception as error:
        failure = _said_by(worker.address, error)
    # Raised from here it does not bring the other one along: if that could not be pickled, the client would
    # never hear of it.
    raise failure


class _Report:
    """The `Progress` of a tile on a worker: tells the client, and ends a sweep that nobody waits for."""

    def __init__(self, worker: Worker, mark: str, tile: Tile) -> None:
        self._worker, self._task = worker, worker.get_current_task()
        self._message = {"run": mark, "row": tile.row, "col": tile.col}
        self._cells = 0

    def __call__(self, cells: int) -> None:
        # Cancelled by the client, or because the client is gone, or given to another worker.
        task = self._worker.state.tasks.get(self._task)
        if task is None or task.state == "cancelled":
            raise CancelledError
        self._cells += cells
        self._worker.log_event(_TOPIC, {**self._message, "cells": self._cells})


def _said_by(worker: str, error: BaseException) -> LongalignError:
    if isinstance(error, LongalignError):
        return type(error)(f"worker {worker}: {error}")
    return BackendError(f"worker {worker}: {type(error).__name__}: {error}")


# --- getting there


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep Dask from logging what is raised here, once and in one line, a second time and at length."""
    loggers = [logging.getLogger(name) for name in ("distributed", "distributed.client")]
    levels = [logger.level for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.CRITICAL)
        yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


@contextmanager
def _client(address: str) -> Iterator[Client]:
    """A client of the scheduler. Raises BackendError if there is none, or if it has no workers."""
    contact = _contact(address)
    try:
        # A client that meets something else than a scheduler hangs and complains; so ask first who is there.
        # A thread of its own, because this one may have an event loop already.
        with ThreadPoolExecutor(1) as thread:
            who = thread.submit(asyncio.run, _who_answers(contact)).result()
        if who != "Scheduler":
            raise ValueError(f"it is the address of a {who}")
        client = Client(contact, timeout=_ANSWER_SECONDS, set_as_default=False)
    except Exception as error:  # whatever listens at a wrong address may make Dask raise anything
        reason = " ".join(str(error).split()) or f"nothing within {_ANSWER_SECONDS} s"
        raise BackendError(f"{address}: no Dask scheduler answers: {reason}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            raise BackendError(f"{address}: the Dask scheduler has no workers") from error
        yield client


def _contact(address: str) -> str:
    """An address, or the one in a scheduler file."""
    if "://" in address or re.fullmatch(r"[^/]+:\d+", address):
        return address
    try:
        return str(json.loads(Path(address).read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it holds no address"
        raise BackendError(
            f"{address}: neither the address of a Dask scheduler (tcp://HOST:PORT) nor its file: {reason}"
        ) from error


async def _who_answers(contact: str) -> str:
    arguments = Security().get_connection_args("client")
    async with rpc(contact, timeout=_ANSWER_SECONDS, connection_args=arguments) as server:
        return str((await asyncio.wait_for(server.identity(), _ANSWER_SECONDS))["type"])
