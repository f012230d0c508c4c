"""A Dask scheduler and its workers as processes of this machine, for tests that kill some of them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from distributed import Client

HERE = Path(__file__).parent


@dataclass
class Cluster:
    """A scheduler and workers that work in `folder`. Each is a process group of its own."""

    folder: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def orders(self) -> Path:
        return self.folder / "orders"

    @property
    def address(self) -> str:
        return str(self.folder / "scheduler.json")

    def start(self, *arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "dask", *map(str, arguments), "--no-dashboard"]
        environment = {**os.environ, "LONGALIGN_TEST_ORDERS": str(self.orders), "PYTHONWARNINGS": "ignore"}
        with (self.folder / "log.txt").open("ab") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdout=log, stderr=log, start_new_session=True
            )
        self.started.append(process)
        return process

    def start_scheduler(self) -> subprocess.Popen[bytes]:
        # If the tests are killed, it ends by itself, and so do workers that have none.
        place = ("--host", "127.0.0.1", "--port", 0, "--idle-timeout", "5 minutes")
        process = self.start("scheduler", *place, "--scheduler-file", self.address)
        until(lambda: Path(self.address).exists() and Path(self.address).read_text().endswith("}"))
        return process

    def start_workers(self, count: int) -> None:
        preload = ("--preload", HERE / "small_tile_worker.py", "--local-directory", self.folder)
        shape = ("--nworkers", count, "--nthreads", 1, "--death-timeout", 60)
        self.start("worker", "--scheduler-file", self.address, *shape, *preload)
        self.wait_for_workers(count)

    def wait_for_workers(self, count: int) -> list[str]:
        """Wait until there are `count` workers; returns the addresses of all."""
        with Client(scheduler_file=self.address, set_as_default=False) as client:
            client.wait_for_workers(count, timeout=60)
            return list(client.nthreads())

    def end(self) -> None:
        for process in self.started:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def until(condition: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until `condition()` holds, for at most `seconds`."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


@contextmanager
def cluster_in(folder: Path) -> Iterator[Cluster]:
    """A cluster without processes as yet. All that are started are killed at the end of the block."""
    started = Cluster(folder)
    started.orders.mkdir()
    try:
        yield started
    finally:
        started.end()
