"""Which GPUs are here, and if none can be used, why: never an exception, never an import at load time."""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass

#: Independent thread scheduling and `ld.acquire` need Volta.
LEAST_COMPUTE_CAPABILITY = (7, 0)

_NO_DRIVER = "no usable NVIDIA driver or GPU found"


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that this back end can use; `index` is what `CudaBackend` takes."""

    index: int
    name: str
    compute_capability: tuple[int, int]


def available() -> list[Device]:
    """The GPUs that can be used, none where no CUDA package or driver is (see `why_unavailable`)."""
    return [device for device in _found()[0] if device.compute_capability >= LEAST_COMPUTE_CAPABILITY]


def why_unavailable() -> str | None:
    """One line that says why `available` is empty, or None if it is not."""
    devices, problem = _found()
    if available():
        return None
    return problem or _too_old(devices[0])


def _too_old(device: Device) -> str:
    capability, least = (
        ".".join(map(str, pair)) for pair in (device.compute_capability, LEAST_COMPUTE_CAPABILITY)
    )
    return f"{device.name} has compute capability {capability}; at least {least} is needed"


def _found() -> tuple[list[Device], str | None]:
    if not _may_have_driver():
        return [], _NO_DRIVER
    try:
        from longalign.backends.cuda.api import CUDA_ERRORS, cuda
    except ImportError as error:
        return [], f"no CUDA package ({error}): install longalign[cuda12] or longalign[cuda13]"
    if not cuda.is_available():
        return [], _NO_DRIVER
    try:
        return [
            Device(index, _text(gpu.name), tuple(gpu.compute_capability))
            for index, gpu in enumerate(cuda.gpus)
        ], None
    except CUDA_ERRORS as error:
        return [], one_line(error)


def _may_have_driver() -> bool:
    """False where the CUDA packages would find no driver: importing them, only to ask, takes long.

    They look for the same library by the same name, unless they simulate a GPU.
    """
    if sys.platform != "linux" or "NUMBA_ENABLE_CUDASIM" in os.environ:
        return True
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def one_line(error: BaseException) -> str:
    """The text of a driver's error without its line breaks."""
    return " ".join(str(error).split())
