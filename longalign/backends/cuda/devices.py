"""Which GPUs can be used, and the reason if there are none. Importing this module imports no CUDA package."""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from threading import Thread

#: Independent thread scheduling and `ld.acquire` need Volta.
MIN_COMPUTE_CAPABILITY = (7, 0)

_NO_DRIVER = "no usable NVIDIA driver or GPU found"
_INSTALL = "install longalign[cuda12] or longalign[cuda13]"


@dataclass(frozen=True, slots=True)
class Device:
    """A GPU that this back end can use; `index` is what `CudaBackend` takes."""

    index: int
    name: str
    compute_capability: tuple[int, int]


def preload_driver(index: int) -> None:
    """Start to initialise the driver, if there is one, and the context of a GPU.

    A thread does this in a few tenths of a second, while the calling thread imports the CUDA packages. A use
    of the GPU in the meantime waits. The thread is not a daemon, because the driver must not be unloaded
    while it starts.
    """
    if _has_package() and _finds_driver_by_name() and (driver := _driver()):
        with suppress(RuntimeError):  # if no thread can be started, the first use initialises the driver
            Thread(target=_make_context, args=(driver, index), daemon=False).start()


def available() -> list[Device]:
    """The GPUs that can be used; none without a CUDA package or a driver (see `why_unavailable`)."""
    return [device for device in _found()[0] if device.compute_capability >= MIN_COMPUTE_CAPABILITY]


def why_unavailable() -> str | None:
    """One line that says why `available` is empty, or None if it is not."""
    devices, problem = _found()
    if available():
        return None
    return problem or _too_old(devices[0])


def why_unusable(index: int) -> str:
    """One line that says why the GPU with this number is not `available`."""
    devices, problem = _found()
    if index < len(devices):
        return _too_old(devices[index])
    return problem or f"only {len(devices)} GPU(s) found"


def _too_old(device: Device) -> str:
    capability, least = (
        ".".join(map(str, pair)) for pair in (device.compute_capability, MIN_COMPUTE_CAPABILITY)
    )
    return f"{device.name} has compute capability {capability}; at least {least} is needed"


def _found() -> tuple[list[Device], str | None]:
    if not _may_have_driver():
        return [], _NO_DRIVER
    if not _has_package():
        return [], f"no CUDA package: {_INSTALL}"
    try:
        from longalign.backends.cuda.numba_api import cuda, is_cuda_error
    except ImportError as error:
        return [], f"no usable CUDA package ({error}): {_INSTALL}"
    if not cuda.is_available():
        return [], _NO_DRIVER
    try:
        return [
            Device(index, _text(gpu.name), tuple(gpu.compute_capability))
            for index, gpu in enumerate(cuda.gpus)
        ], None
    except Exception as error:
        if not is_cuda_error(error):
            raise
        return [], one_line(error)


def _has_package() -> bool:
    """Whether numba-cuda is installed. The `numba.cuda` of Numba itself cannot compile the kernels."""
    return find_spec("numba_cuda") is not None


def _may_have_driver() -> bool:
    """False if the CUDA packages would find no driver. To import them for this question would take long."""
    return not _finds_driver_by_name() or _driver() is not None


def _finds_driver_by_name() -> bool:
    """Whether the CUDA packages load the library of `_driver`. They do not if they simulate a GPU."""
    return sys.platform == "linux" and "NUMBA_ENABLE_CUDASIM" not in os.environ


@cache
def _driver() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None


def _make_context(driver: ctypes.CDLL, index: int) -> None:
    """Create and keep the primary context, which the packages use. If this fails, they report the error."""
    device, context = ctypes.c_int(), ctypes.c_void_p()
    if driver.cuInit(0) == 0 and driver.cuDeviceGet(ctypes.byref(device), ctypes.c_int(index)) == 0:
        driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def one_line(error: BaseException) -> str:
    """The text of a driver's error without its line breaks."""
    return " ".join(str(error).split())
