"""One launch of the sweep kernel: the host starts it, watches it, and stops it early if the caller asks.

The kernel runs on one stream. The host communicates with it through another stream, by copies of single
numbers from and to pinned memory. The copy engines of the device work while the kernel occupies all
multiprocessors. The kernel itself accesses device memory only.
"""

from __future__ import annotations

import time
from typing import Any

from longalign.backends.base import PROGRESS_SECONDS, Progress
from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.launch.device_memory import DeviceBuffers, Workspace
from longalign.backends.cuda.launch.download import Download
from longalign.backends.cuda.numba_api import configured, cuda

#: In its first `_EAGER_SECONDS` seconds a kernel is polled without pause. Then the pause between two polls is
#: the time so far divided by `_POLL_FRACTION`, but at most `_LONGEST_POLL_PAUSE` seconds. Where several
#: threads wait for their kernels, the pause is `_PATIENT_PAUSE`, as they contend for the GIL.
_EAGER_SECONDS, _PATIENT_PAUSE = 2e-2, 2e-3
_POLL_FRACTION = 200
_LONGEST_POLL_PAUSE = 5e-4

#: The pause between two fetches of boundaries is the time so far divided by `_FETCH_FRACTION`, within these
#: bounds in seconds. A line is fetched if at least the pause times `_VALUES_A_SECOND` new values of it are
#: final. In a short sweep, little then remains to be fetched at the end.
_FETCH_FRACTION, _SHORTEST_FETCH_PAUSE, _LONGEST_FETCH_PAUSE = 50, 5e-3, 2e-2
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
    *,
    alone: bool,
) -> int:
    """Launch the kernel and wait for it. Returns the number of cells reported to `progress`.

    `shared_bytes` is the dynamic shared memory of each of the `blocks` thread blocks. Unless it is `alone`,
    other threads wait for their kernels at the same time, and take turns with this one.

    An exception from `progress`, and KeyboardInterrupt, stop the kernel and are raised again.
    """
    stream, finished = workspace.stream, workspace.finished
    workspace.started.record(stream)
    try:
        configured(kernel, blocks, config.warps * LANES, stream, shared_bytes)(*buffers.arguments)
        finished.record(stream)
        if alone:
            buffers.fetch_best()  # queued now, so that the results arrive without a round trip
        with cuda.defer_cleanup():  # a call that frees device memory would wait for the kernel
            reported = _watch(buffers, workspace, download, progress, alone)
        if not alone:
            buffers.fetch_best()  # a copy that waits for its kernel would block those of other streams
        return reported
    except BaseException:
        # Without this wait, the upload that clears `stop` could overwrite the 1.
        workspace.started.wait(workspace.side_stream)
        buffers.stop.copy_to_device(workspace.pinned_one, stream=workspace.side_stream)
        stream.synchronize()
        raise


def _watch(
    buffers: DeviceBuffers, workspace: Workspace, download: Download, progress: Progress, alone: bool
) -> int:
    """Report progress and fetch boundaries until the kernel has finished. Returns the cells reported."""
    reported = 0
    started = time.monotonic()
    next_report, next_fetch = started + PROGRESS_SECONDS, started + _SHORTEST_FETCH_PAUSE
    while not workspace.finished.query():
        so_far = time.monotonic() - started
        if not alone:
            time.sleep(_PATIENT_PAUSE)
        elif so_far > _EAGER_SECONDS:
            time.sleep(min(so_far / _POLL_FRACTION, _LONGEST_POLL_PAUSE))
        if download.streams and time.monotonic() >= next_fetch:
            pause = min(max(so_far / _FETCH_FRACTION, _SHORTEST_FETCH_PAUSE), _LONGEST_FETCH_PAUSE)
            download.advance(int(pause * _VALUES_A_SECOND))
            next_fetch = time.monotonic() + pause
        if time.monotonic() >= next_report:
            buffers.progress.copy_to_host(workspace.pinned_cells, stream=workspace.side_stream)
            workspace.side_stream.synchronize()
            swept = int(workspace.pinned_cells[0])
            progress(swept - reported)
            reported = swept
            next_report = time.monotonic() + PROGRESS_SECONDS
    return reported
