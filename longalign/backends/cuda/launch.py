"""One launch of the kernel: started, watched while it runs, and stopped early if the caller asks.

The kernel runs on one stream and the host talks to it over another, by copies of single numbers from
and to pinned memory: the device's copy engines work while the kernel fills every multiprocessor, and
the kernel itself reads and writes device memory only.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from longalign.backends.base import Progress
from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.memory import DeviceBuffers

#: Numba warns of a launch of fewer blocks; those without a strip leave at once.
LEAST_BLOCKS = 128

_REPORT_SECONDS = 0.1
_SHORTEST_WAIT, _LONGEST_WAIT = 20e-6, 2e-3


def run(
    kernel: Any, config: KernelConfig, blocks: int, buffers: DeviceBuffers, stream: Any, progress: Progress
) -> int:
    """Launch and wait; returns the number of cells reported to `progress`.

    Lets pass what `progress` raises, and KeyboardInterrupt, after the kernel has left the device.
    """
    talk = cuda.stream()
    finished = cuda.event(timing=False)
    stream.synchronize()  # the uploads: their sources may be reused from here on
    kernel[max(blocks, LEAST_BLOCKS), config.warps * LANES, stream](*buffers.arguments)
    try:
        finished.record(stream)
        with cuda.defer_cleanup():  # giving memory back would wait for the kernel
            return _watch(finished, buffers.progress, talk, progress)
    except BaseException:
        _tell_to_stop(buffers.stop, talk)
        finished.synchronize()
        raise


def _watch(finished: Any, counter: Any, talk: Any, progress: Progress) -> int:
    """Report progress until the kernel has finished."""
    reported = 0
    swept = cuda.pinned_array(1, np.int64)
    started = time.monotonic()
    next_report = started + _REPORT_SECONDS
    while not finished.query():
        so_far = time.monotonic() - started
        time.sleep(min(max(so_far / 20, _SHORTEST_WAIT), _LONGEST_WAIT))  # five per cent late at most
        if time.monotonic() >= next_report:
            counter.copy_to_host(swept, stream=talk)
            talk.synchronize()
            progress(int(swept[0]) - reported)
            reported = int(swept[0])
            next_report = time.monotonic() + _REPORT_SECONDS
    return reported


def _tell_to_stop(stop: Any, talk: Any) -> None:
    yes = cuda.pinned_array(1, np.int32)
    yes[0] = 1
    stop.copy_to_device(yes, stream=talk)
    talk.synchronize()
