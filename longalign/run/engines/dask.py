"""Phase 1 on a Dask cluster. Every worker is one device and sweeps one tile at a time.

If a worker is lost, another worker sweeps its tile again from the start. The run continues with the
remaining workers and with new ones, but for those that cannot take part. Without any worker, it waits. The
run fails if the scheduler is lost, or if too many workers are lost while they have the same tile. If this
process ends for any reason, the workers drop their unfinished tiles. Finished tiles are in the store.

Each tile is bound to one worker, and the wavefront in this process submits it again if the worker is lost.
Left to itself, Dask would put two tiles on a worker with several threads, and a tile bound to a lost worker
would wait for that worker for ever.
"""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, InvalidStateError, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from time import sleep
from typing import Any, TypeVar

from distributed import Client, Security, Worker, get_worker, rpc
from distributed import Future as Task
from distributed.comm import CommClosedError

from longalign._version import __version__
from longalign.backends.base import Backend, DeviceFacts, FactsAbout, Workers
from longalign.backends.select import open_backends
from longalign.errors import BackendError, LongalignError, StoreError, reason_of
from longalign.events import Emit, Notice, TileFinished
from longalign.model.geometry import Tile
from longalign.phases.left_out import LeftOut
from longalign.run.engines.shared_store import SharedStoreEngine, open_device, sweep_stored_tile
from longalign.store import DirectoryStore
from longalign.store.base import DamagedTile, TilePlace
from longalign.system.memory_limits import free_memory

T = TypeVar("T")

#: The time limits for a scheduler to answer, and to have a worker, in seconds.
_ANSWER_SECONDS = 5
_WORKER_SECONDS = 10

#: The part of a worker's memory limit that a plan uses. Above 80 % of the limit, Dask pauses a worker.
_MEMORY_SHARE = 0.7

#: The run fails when this many workers have been lost while they had the same tile.
_MAX_LOSSES = 4

#: Seconds between two queries for a new worker when none is left.
_WAIT_SECONDS = 0.5

#: The Dask topic under which workers report their progress.
_TOPIC = "longalign"


@contextmanager
def connect(address: str, backend: str, facts_about: FactsAbout) -> Iterator[Cluster]:
    """The cluster of a Dask scheduler, given by its address (tcp://host:8786) or its scheduler file.

    `backend` selects the device that a worker opens, as in `longalign.backends.select.open_backends`. Each
    worker calls `facts_about` with it and the number of workers. A worker on a CPU uses its number of Dask
    threads. Raises BackendError if there is no scheduler or no worker, and, naming the worker, if a worker
    has no such device or another version of longalign.
    """
    with _silenced_loggers(), _client(address) as client:
        yield Cluster(client, address, backend, facts_about)


class Cluster:
    """The workers of a scheduler. `workers` holds their devices and memory; `description` is for messages."""

    def __init__(self, client: Client, address: str, backend: str, facts_about: FactsAbout) -> None:
        self._client, self._address, self._backend = client, address, backend
        # A function of the standard library: one of longalign may not exist in another version.
        versions = self._ask(resolve_name, "longalign._version:__version__")
        for worker, found in versions.items():
            if found != __version__:
                raise BackendError(f"worker {worker} {_other_version(found, __version__)}")
        answers = self._ask(_describe_device, backend, facts_about, len(versions), workers=versions)
        if not answers:
            raise BackendError(f"{address}: all workers are lost")
        devices, memory = zip(*answers.values(), strict=True)
        self._able = set(answers)
        self.workers = Workers(devices, min(memory))
        self.description = f"{len(answers)} of {address}"

    @contextmanager
    def engine(self, store: DirectoryStore, left_out: LeftOut, emit: Emit) -> Iterator[DaskEngine]:
        """An engine over the workers. `left_out` says what need not be swept.

        Raises StoreError, naming the worker, if one does not see the store.
        """
        path = store.path.absolute()
        with store.marked() as mark:
            try:
                able = set(self._ask(_check_store, path, mark, workers=self._able))
            except StoreError as error:
                raise StoreError(f"{error} (all workers must see the store under its path)") from error
            for worker in sorted(self._able - able):
                emit(Notice(f"worker {worker} is lost"))
            self._able = able
            step = partial(_sweep, path, mark, self._backend)
            check = partial(_check_worker, __version__, self.workers.memory, path, mark, self._backend)
            yield DaskEngine(store, self._client, self._address, step, left_out, mark, emit, able, check)

    def _ask(
        self, question: Callable[..., Any], *arguments: object, workers: Iterable[str] | None = None
    ) -> dict[str, Any]:
        """The answers of all workers, or of these, by address. Those that are lost are left out.

        Raises the first exception of a worker, and BackendError if the scheduler is gone.
        """
        try:
            there = self._client.nthreads()
            asked = list(there) if workers is None else [one for one in workers if one in there]
            answers = self._client.run(question, *arguments, workers=asked, on_error="return")
            there = self._client.nthreads()
        except OSError as error:
            raise _scheduler_is_gone(self._address) from error
        for worker, answer in answers.items():
            is_lost = worker not in there or isinstance(answer, CommClosedError)
            if isinstance(answer, BaseException) and not is_lost:
                raise _from_worker(worker, answer) from answer
        return {one: answer for one, answer in answers.items() if not isinstance(answer, BaseException)}


class DaskEngine(SharedStoreEngine):
    """Runs one tile step on each worker. `emit` gets a `Notice` for every worker that is lost or left out.

    The workers in `able` take part. Each other one does once it has made the call `check` without an error.
    """

    def __init__(
        self,
        store: DirectoryStore,
        client: Client,
        address: str,
        step: Callable[[Tile, LeftOut], TileFinished],
        left_out: LeftOut,
        mark: str,
        emit: Emit,
        able: set[str],
        check: Callable[[], None],
    ) -> None:
        self._client, self._address, self._mark, self._emit = client, address, mark, emit
        self._tasks = _Tasks(client)
        self._workers, self._check, self._is_waiting = set(able), check, False
        #: The calls of workers that are not in `_workers`; None for one that is left out.
        self._checks: dict[str, Future[None] | None] = {}
        super().__init__(store, self._tasks, len(self._workers), step, left_out)
        self._latest: dict[str, Future[TileFinished]] = {}
        self._losses: Counter[Tile] = Counter()
        self._reported_cells: dict[TilePlace, int] = {}
        self._finished = self._reported = 0
        client.subscribe_topic(_TOPIC, self._receive)

    def submit(self, tile: Tile) -> Future[TileFinished]:
        """Start a tile on an idle worker. The worker is named because Dask might choose a busy one."""
        self._check_connection()
        self._reported_cells.pop((tile.row, tile.col), None)
        worker = min(worker for worker in self._workers if not self._is_busy(worker))
        task = self._tasks.submit(self._step, tile, self._before(tile), workers=[worker])
        self._latest[worker] = self._watched(tile, task)
        return self._latest[worker]

    def progress(self) -> int:
        """Cells swept since the last call: those of finished tiles, and those that workers have reported."""
        self._update_workers()
        self._finished += super().progress()
        unfinished = sum(self._reported_cells.get((tile.row, tile.col), 0) for tile in self._running.values())
        # A tile that starts again on another worker has fewer cells than were reported before.
        new_cells = max(0, self._finished + unfinished - self._reported)
        self._reported += new_cells
        return new_cells

    def _is_busy(self, worker: str) -> bool:
        return worker in self._latest and not self._latest[worker].done()

    def _update_workers(self) -> None:
        """Update the set of workers, and cancel the steps of lost ones, so that the caller repeats them."""
        before, now = self._workers, self._workers_now()
        self._workers = {one for one in now if one in before or self._is_able(one)}
        self.capacity = len(self._workers)
        for worker in self._checks.keys() - now:  # one that comes back is asked again
            if check := self._checks.pop(worker):
                check.cancel()
        for worker in sorted(before - self._workers):
            if self._is_busy(worker):
                self._emit(Notice(f"worker {worker} is lost; its tile is computed again"))
                self._abandon(self._latest[worker])
            else:
                self._emit(Notice(f"worker {worker} is lost"))
        if not self._workers:
            if not self._is_waiting:
                self._emit(Notice("no worker is left; waiting for one"))
            sleep(_WAIT_SECONDS)  # without an unfinished step to wait for, the caller polls without a pause
        self._is_waiting = not self._workers

    def _is_able(self, worker: str) -> bool:
        """Whether a new worker is known to be able to take part. It is asked, and not waited for."""
        if worker not in self._checks:
            self._checks[worker] = self._tasks.submit(self._check, workers=[worker])
        check = self._checks[worker]
        if check is None or not check.done():
            return False
        if check.cancelled():  # by Dask, which does so if it loses the scheduler
            del self._checks[worker]
            return False
        if (error := check.exception()) is not None:
            failure = error if isinstance(error, LongalignError) else _from_worker(worker, error)
            self._emit(Notice(f"{failure}; this worker is left out"))
            self._checks[worker] = None
            return False
        del self._checks[worker]
        return True

    def _abandon(self, future: Future[TileFinished]) -> None:
        """Cancel the step of a lost worker. Raises BackendError if its tile has lost too many workers."""
        tile = self._running[future]
        self._losses[tile] += 1
        if self._losses[tile] == _MAX_LOSSES:
            raise BackendError(
                f"tile ({tile.row}, {tile.col}): {_MAX_LOSSES} workers were lost while they had it; "
                "see their logs"
            )
        future.cancel()

    def _workers_now(self) -> set[str]:
        """The addresses of the workers. Raises BackendError if the scheduler is gone."""
        self._check_connection()
        try:
            return set(self._client.nthreads())
        except OSError as error:
            raise _scheduler_is_gone(self._address) from error

    def _check_connection(self) -> None:
        if self._client.status != "running":
            raise _scheduler_is_gone(self._address)

    def _receive(self, event: tuple[float, dict[str, Any]]) -> None:
        """Record a progress report. Dask calls this in its own thread, also for reports of other runs."""
        _, message = event
        if message["run"] == self._mark:
            self._reported_cells[message["row"], message["col"]] = message["cells"]


def _scheduler_is_gone(address: str) -> BackendError:
    return BackendError(f"{address}: the Dask scheduler is gone")


class _Tasks(Executor):
    """Tasks of a Dask client as futures of the standard library.

    Unlike those of `Client.get_executor`, these futures always end. There, a future stays pending for ever if
    the scheduler dies while the result is being transferred.
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
    """Copy the outcome of a finished task to `future`. Dask calls this in a thread of its own."""
    with suppress(InvalidStateError):  # `future` was cancelled in the meantime
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
        future.set_running_or_notify_cancel()  # or `concurrent.futures.wait` would keep waiting
        with suppress(Exception):  # the scheduler may be lost, and the task with it
            task.cancel()


# --- functions that run in a worker


@dataclass(frozen=True, slots=True)
class _DeviceOf:
    """Opens the device of a worker."""

    backend: str
    threads: int

    def __call__(self) -> Backend:
        return open_backends(self.backend, self.threads)[0]


def _describe_device(
    backend: str, facts_about: FactsAbout, devices: int, *, dask_worker: Worker
) -> tuple[DeviceFacts, int]:
    """The facts about the worker's device, and its bytes of memory to plan with."""
    device = open_device(_DeviceOf(backend, dask_worker.state.nthreads))
    return facts_about(device, devices), _memory_of(dask_worker)


def _memory_of(worker: Worker) -> int:
    limit = worker.memory_manager.memory_limit or free_memory()
    return int(limit * _MEMORY_SHARE)


def _check_store(path: Path, mark: str) -> None:
    """Raise StoreError if this worker sees no store at this path, or another one."""
    DirectoryStore.attach(path, mark)


def _check_worker(version: str, memory: int, path: Path, mark: str, backend: str) -> None:
    """Raise LongalignError if a worker that joins a run cannot take part in it.

    The run is of this version of longalign, and its tiles were cut for workers with `memory` bytes.
    """
    worker = get_worker()
    try:
        if version != __version__:
            raise BackendError(_other_version(__version__, version))
        if worker.memory_manager.memory_limit and _memory_of(worker) < memory:
            raise BackendError("has less memory than the workers with which the run began")
        open_device(_DeviceOf(backend, worker.state.nthreads))
        _check_store(path, mark)
        return
    except Exception as error:
        failure = _from_worker(worker.address, error)
    raise failure  # outside the handler, as in `_sweep`


def _other_version(found: str, wanted: str) -> str:
    return f"has longalign {found}, and this is {wanted}"


def _sweep(path: Path, mark: str, backend: str, tile: Tile, left_out: LeftOut) -> TileFinished:
    """The tile step on a worker's thread."""
    worker = get_worker()
    device = _DeviceOf(backend, worker.state.nthreads)
    try:
        return sweep_stored_tile(path, mark, device, tile, left_out, _Report(worker, mark, tile))
    except (DamagedTile, CancelledError):
        raise
    except Exception as error:
        failure = _from_worker(worker.address, error)
    # Raised outside the handler, `failure` does not carry the original error as its context. If the latter
    # could not be pickled, the client would never get an answer.
    raise failure


class _Report:
    """The `Progress` of a tile on a worker: reports to the client, and stops a sweep that was cancelled."""

    def __init__(self, worker: Worker, mark: str, tile: Tile) -> None:
        self._worker, self._task = worker, worker.get_current_task()
        self._message = {"run": mark, "row": tile.row, "col": tile.col}
        self._cells = 0

    def __call__(self, cells: int) -> None:
        # The client has cancelled the task, or is gone, or the task was moved to another worker.
        task = self._worker.state.tasks.get(self._task)
        if task is None or task.state == "cancelled":
            raise CancelledError
        self._cells += cells
        self._worker.log_event(_TOPIC, {**self._message, "cells": self._cells})


def _from_worker(worker: str, error: BaseException) -> LongalignError:
    """An error that names the worker on which `error` was raised."""
    if isinstance(error, LongalignError):
        named = copy(error)  # with what else it holds
        named.args = (f"worker {worker}: {error}",)
        return named
    return BackendError(f"worker {worker}: {type(error).__name__}: {error}")


# --- connecting


@contextmanager
def _silenced_loggers() -> Iterator[None]:
    """Silence Dask's loggers: this module raises the same errors, each as a single line."""
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
    """A client of the scheduler. Raises BackendError if no scheduler answers, or if it has no workers."""
    contact = _contact(address)
    try:
        # A client that connects to anything but a scheduler hangs and logs errors, so the type of the server
        # is checked first, in a thread of its own, because this one may already run an event loop.
        with ThreadPoolExecutor(1) as thread:
            server_type = thread.submit(asyncio.run, _server_type(contact)).result()
        if server_type != "Scheduler":
            raise ValueError(f"it is the address of a {server_type}")
        client = Client(contact, timeout=_ANSWER_SECONDS, set_as_default=False)
    except Exception as error:  # a server of another kind can make Dask raise anything
        reason = " ".join(str(error).split()) or f"nothing within {_ANSWER_SECONDS} s"
        raise BackendError(f"{address}: no Dask scheduler answers: {reason}") from error
    with client:
        try:
            client.wait_for_workers(1, timeout=_WORKER_SECONDS)
        except TimeoutError as error:
            raise BackendError(f"{address}: the Dask scheduler has no workers") from error
        yield client


def _contact(address: str) -> str:
    """The address itself, or the one in a scheduler file."""
    if "://" in address or re.fullmatch(r"[^/]+:\d+", address):
        return address
    try:
        return str(json.loads(Path(address).read_text())["address"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = reason_of(error) if isinstance(error, OSError) else "it holds no address"
        raise BackendError(
            f"{address}: neither the address of a Dask scheduler (tcp://HOST:PORT) nor its file: {reason}"
        ) from error


async def _server_type(contact: str) -> str:
    """What kind of Dask server listens at an address: "Scheduler", "Worker" or another."""
    arguments = Security().get_connection_args("client")
    async with rpc(contact, timeout=_ANSWER_SECONDS, connection_args=arguments) as server:
        return str((await asyncio.wait_for(server.identity(), _ANSWER_SECONDS))["type"])
