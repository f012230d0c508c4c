"""Device memory: what a work list takes, whether it fits, and the arrays themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from longalign.backends.base import SweepJob
from longalign.backends.cuda import layout
from longalign.backends.cuda.api import cuda
from longalign.backends.cuda.worklist import WorkList
from longalign.errors import BackendError

_VALUE = 8  # bytes of a packed boundary value
_LETTER = 1
_STRIP = 4 * (layout.STRIP_FIELDS + layout.BEST_FIELDS + 1)

#: Left free for the driver, the kernels' code and the rounding of allocations.
_RESERVE = 256 << 20


def bytes_needed(jobs: Sequence[SweepJob], strip_width: int) -> int:
    """Device bytes of a launch, rounded up a little: O(m + n) and the requested boundaries."""
    total = 0
    for job in jobs:
        rows, cols = len(job.query), len(job.target)
        total += (rows + cols) * _LETTER + (rows + cols + 2) * _VALUE
        total += (len(job.rows) * cols + len(job.cols) * rows) * _VALUE
        total += (
            (cols // strip_width + len(job.cols) + 2) * _STRIP + layout.JOB_FIELDS * 8 + len(job.rows) * 4
        )
    return total


def free_bytes() -> int:
    """Device bytes that may be planned with, in the current context."""
    context = cuda.current_context()
    context.memory_manager.deallocations.clear()  # memory of earlier sweeps that numba has not given back yet
    return int(max(0, context.get_memory_info().free - _RESERVE))


def require(jobs: Sequence[SweepJob], strip_width: int) -> None:
    """Raise BackendError, with the figures, if these rectangles do not fit on the device."""
    needed, free = bytes_needed(jobs, strip_width), free_bytes()
    if needed > free:
        raise BackendError(
            f"the GPU has {free / 1e9:.2f} GB of free memory, but sweeping {len(jobs)} rectangle(s) of "
            f"{sum(job.cells for job in jobs):.3g} cells with the requested boundaries takes "
            f"{needed / 1e9:.2f} GB: use smaller tiles or a coarser lattice"
        )


class DeviceBuffers:
    """The arrays of one launch on the device, `arguments` in the kernel's order."""

    def __init__(self, work: WorkList, stream: Any) -> None:
        def upload(array: Any) -> Any:
            return cuda.to_device(array, stream=stream)

        def empty(shape: Any, dtype: Any) -> Any:
            return cuda.device_array(shape, dtype, stream=stream)

        self._stream = stream
        self.stop = upload(np.zeros(1, np.int32))
        self.progress = upload(np.zeros(1, np.int64))
        self._row_out = empty(max(1, work.row_values), np.int64)
        self._col_out = empty(max(1, work.col_values), np.int64)
        self._best = empty((len(work.strips), layout.BEST_FIELDS), np.int32)
        self.arguments = (
            upload(work.jobs),
            upload(work.strips),
            upload(work.query),
            upload(work.target),
            upload(work.top),
            upload(work.column),
            upload(work.wanted_rows),
            upload(work.flags),
            upload(np.zeros(1, np.int32)),
            self.stop,
            self.progress,
            self._row_out,
            self._col_out,
            self._best,
        )

    def outputs(self) -> tuple[Any, Any, Any]:
        """Copies of the wanted rows, the wanted columns, and the best cell of each strip."""
        copies = [
            array.copy_to_host(stream=self._stream) for array in (self._row_out, self._col_out, self._best)
        ]
        self._stream.synchronize()
        return copies[0], copies[1], copies[2]
