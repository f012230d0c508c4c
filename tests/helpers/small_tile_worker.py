"""A Dask preload: workers with small tiles, which do what the files in a directory say.

`dask worker ... --preload small_tile_worker.py`, with LONGALIGN_TEST_ORDERS naming the directory:

    swept-PID       made by a worker at its first sweep
    kill            the next sweep removes it and kills its process, half done
    kill-all        every sweep kills its process
    fail            the next sweep removes it and raises an exception
    hold            sweeps go on as long as it is there, and tell of a cell a turn
    cancelled-PID   made by a worker whose sweep was cancelled
"""

from __future__ import annotations

import os
import signal
import time
from concurrent.futures import CancelledError
from pathlib import Path

from longalign.backends.cpu import CpuBackend

ORDERS = Path(os.environ["LONGALIGN_TEST_ORDERS"])

#: Of two mitochondria of 16.5 kb: 4 x 4 tiles.
TILE = 4200


def dask_setup(worker: object) -> None:
    """Called once in every worker."""
    sweep = CpuBackend.sweep

    def obey(self, jobs, progress):
        (ORDERS / f"swept-{os.getpid()}").touch()
        if (ORDERS / "kill-all").exists() or taken(ORDERS / "kill"):
            progress(jobs[0].cells // 2)
            time.sleep(0.2)  # so that it is told
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

    CpuBackend.sweep = obey
    CpuBackend.tile_shape = lambda self, rows, cols, devices=1: (TILE, TILE)


def fail() -> None:
    """With a traceback that is too long to be pickled."""
    fail()


def taken(order: Path) -> bool:
    """Whether this process was the one to remove a file."""
    try:
        order.unlink()
    except FileNotFoundError:
        return False
    return True
