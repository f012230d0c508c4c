"""One launch of the kernel: started, watched while it runs, and stopped early if the caller asks.

The kernel runs on one stream and the host talks to it over another, by copies of single numbers from
and to pinned memory: the device's copy engines work while the kernel fills every multiprocessor, and
the kernel itself reads and writes device memory only.
"""

from __future__ import annotations

import time
from typing import Any

from longalign.backends.base import PROGRESS_SECONDS, Progress
from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.launch.device_memory import DeviceBuffers, Workspace
from longalign.backends.cuda.launch.download import Download
from longalign.backends.cuda.numba_api import cuda

#: Numba warns about launches of fewer blocks. Blocks without a strip end at once.
LEAST_BLOCKS = 128

#: Short kernels are watched without pause; then pauses grow with the time so far, of which each is one part
#: of `_PAUSES`.
_ATTENTION = 2e-2
_PAUSES = 200
_LONGEST_WAIT = 5e-4

#: The pause between two looks at boundaries is one part of `_FETCHES` of the time so far, within these
#: bounds. A line is fetched when at least so many new values of it, for each second of the pause, are final:
#: of a short sweep little is left for the end.
_FETCHES, _SHORTEST_PAUSE, _LONGEST_PAUSE = 50, 5e-3, 2e-2
_VALUES_A_SECOND = 4_500_000


def run(
    kernel: Any,
    config: KernelConfig,
    blocks: int,
    shared_bytes: int,
    buffers: DeviceBuffers,
    workspace: Workspace,
    download: Download,
    progress: Progress,
) -> int:
    """Launch, and wait; returns the number of cells reported to `progress`.

    `blocks` are LEAST_BLOCKS or more, `shared_bytes` is dynamic shared memory of each.

    An exception from `progress`, and KeyboardInterrupt, stop the kernel and are raised again.
    """
    stream, finished = workspace.stream, workspace.finished
    workspace.started.record(stream)
    try:
        kernel[blocks, config.warps * LANES, stream, shared_bytes](*buffers.arguments)
        finished.record(stream)
        buffers.fetch_best()  # queued now, so that the results arrive without a round trip
        with cuda.defer_cleanup():  # freeing device memory would wait for the kernel
            return _watch(buffers, workspace, download, progress)
    except BaseException:
        # Without this wait, the upload that clears `stop` could overwrite the 1.
        workspace.started.wait(workspace.talk)
        buffers.stop.copy_to_device(workspace.yes, stream=workspace.talk)
        stream.synchronize()
        raise


def _watch(buffers: DeviceBuffers, workspace: Workspace, download: Download, progress: Progress) -> int:
    """Report progress, and fetch boundaries, until the kernel has finished."""
    reported = 0
    started = time.monotonic()
    next_report, next_fetch = started + PROGRESS_SECONDS, started + _SHORTEST_PAUSE
    while not workspace.finished.query():
        so_far = time.monotonic() - started
        if so_far > _ATTENTION:
            time.sleep(min(so_far / _PAUSES, _LONGEST_WAIT))
        if download.streams and time.monotonic() >= next_fetch:
            pause = min(max(so_far / _FETCHES, _SHORTEST_PAUSE), _LONGEST_PAUSE)
            download.advance(int(pause * _VALUES_A_SECOND))
            next_fetch = time.monotonic() + pause
        if time.monotonic() >= next_report:
            buffers.progress.copy_to_host(workspace.swept, stream=workspace.talk)
            workspace.talk.synchronize()
            swept = int(workspace.swept[0])
            progress(swept - reported)
            reported = swept
            next_report = time.monotonic() + PROGRESS_SECONDS
    return reported
