"""A Dask preload: workers with small tiles, which tests control by files in a directory.

`dask worker ... --preload small_tile_worker.py`, with LONGALIGN_TEST_ORDERS naming the directory:

    swept-PID       written by a worker at its first sweep
    kill            the next sweep removes it, reports half of its cells and kills its process
    kill-all        every sweep kills its process
    kill-asked      the next worker that is asked whether it sees the store removes it and kills its process
    blind           the next worker that starts removes it and sees no store
    fail            the next sweep removes it and raises an exception
    hold            sweeps wait while it exists, and report one cell every 10 ms
    cancelled-PID   written by a worker whose sweep was cancelled
"""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import CancelledError
from pathlib import Path

from longalign.backends.cpu import CpuBackend
from longalign.run.engines import dask

ORDERS = Path(os.environ["LONGALIGN_TEST_ORDERS"])

#: Two mitochondria of 16.5 kb then have 4 x 4 tiles.
TILE = 4200


def dask_setup(worker: object) -> None:
    """Called once in every worker."""
    sweep = CpuBackend.sweep

    def obey(self, jobs, progress):
        (ORDERS / f"swept-{os.getpid()}").touch()
        if (ORDERS / "kill-all").exists() or taken(ORDERS / "kill"):
            progress(jobs[0].cells // 2)
            time.sleep(0.2)  # time for the report to be sent
            os.kill(os.getpid(), signal.SIGKILL)
        if taken(ORDERS / "fail"):
            fail()
        try:
            while (ORDERS / "hold").exists():
                progress(1)
                time.sleep(0.01)
        except CancelledError:
            (ORDERS / f"cancelled-{os.getpid()}").touch()
            raise
        return sweep(self, jobs, progress)

    check, is_blind = dask._check_store, taken(ORDERS / "blind")

    def asked(path, mark):
        if taken(ORDERS / "kill-asked"):
            os.kill(os.getpid(), signal.SIGKILL)
        check(Path("/blind") if is_blind else path, mark)

    dask._check_store = asked
    CpuBackend.sweep = obey
    CpuBackend.tile_shape = lambda self, rows, cols, devices=1: (TILE, TILE)


def fail() -> None:
    """Recurse without end: the traceback is too long to be pickled."""
    fail()


def taken(order: Path) -> bool:
    """Remove a file; return whether this process did so before any other."""
    try:
        order.unlink()
    except FileNotFoundError:
        return False
    return True
