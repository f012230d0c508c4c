"""Open back ends for the devices that the user has chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from longalign.backends.base import Backend
from longalign.errors import BackendError, UsageError
from longalign.system.gc_pause import collector_at_rest

CHOICES = ("auto", "cpu", "cuda")

#: `auto` leaves sweeps to the CPU if they take at most this many seconds. A GPU takes longer to start.
_MAX_CPU_SECONDS = 0.1


@collector_at_rest()
def open_backends(
    choice: str = "auto",
    threads: int | None = None,
    devices: Sequence[int] = (),
    seconds: Callable[[Backend], float] | None = None,
) -> list[Backend]:
    """One back end for each device. `auto` chooses a CUDA device if one is usable, otherwise the CPU.

    `seconds`, if given, says how long a device takes for the sweeps of a run. `auto` leaves short ones to
    the CPU, unless there are `devices`. `threads` applies to the CPU (default: all processors). `devices`
    are the numbers of CUDA devices (default: the first usable one). Raises BackendError if the choice is not
    available, and UsageError if there is no such choice or if `devices` are given for the CPU.
    """
    if choice not in CHOICES:
        raise UsageError(f"the back end must be one of {', '.join(CHOICES)}, not {choice!r}")
    if choice == "auto" and seconds is not None and not devices:
        [cpu] = open_backends("cpu", threads)
        if seconds(cpu) <= _MAX_CPU_SECONDS:
            return [cpu]
    if choice != "cpu":
        # Imported only here, because a machine without a GPU need not have the CUDA packages.
        from longalign.backends import cuda

        cuda.preload_driver(devices[0] if devices else 0)
        found = cuda.available()
        if not found and (choice == "cuda" or devices):
            raise BackendError(f"no usable CUDA device: {cuda.why_unavailable()}")
        if found:
            from longalign.backends.cuda.backend import CudaBackend

            return [CudaBackend(index) for index in dict.fromkeys(devices) or [found[0].index]]
    if devices:
        raise UsageError("CUDA devices were chosen (--device), but the CPU back end is to be used")
    from longalign.backends.cpu import CpuBackend

    return [CpuBackend(threads)]
