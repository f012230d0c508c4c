"""Everything that the back end uses of numba-cuda: a change of package is a change here and in `device.ptx`.

`cuda` is the module that kernels use. Numba's simulator has neither `intrinsic` nor a compiler, so these
are imported where they are used.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.cudadrv.error import CudaDriverError, CudaSupportError, NvvmError, NvvmSupportError
from numpy.typing import NDArray

from longalign.backends.kernel_cache import settings

__all__ = [
    "compiler_versions",
    "cuda",
    "download",
    "intrinsic",
    "is_cuda_error",
    "jit_kernel",
    "pack_kernel",
    "package_version",
    "part_of",
    "unpack_kernel",
    "upload",
]

_ERRORS = (CudaDriverError, CudaSupportError, NvvmError, NvvmSupportError)


def is_cuda_error(error: Exception) -> bool:
    """Whether the driver, the compiler or a loader of theirs raised it.

    Numba lets errors of NVIDIA's own package `cuda` pass, as where a context finds no memory. Their class
    has no public name.
    """
    return isinstance(error, _ERRORS) or type(error).__module__.partition(".")[0] == "cuda"


def intrinsic(function: Callable[..., Any]) -> Any:
    """Numba's decorator for a function that emits its own machine code."""
    from numba.cuda.extending import intrinsic as decorate

    return decorate(function)


def jit_kernel(max_registers: int | None = None) -> Callable[[Callable[..., None]], Any]:
    """Numba's decorator for a kernel, without optimisation at link time.

    A kernel is all there is to link. Numba would make its PTX all the same, put that aside, and have the
    linker optimise once more. So machine code comes from the same PTX here as where there is no GPU.
    """

    def compiled(function: Callable[..., None]) -> Any:
        # As a decorator with options, numba-cuda 0.30 forgets this one.
        return cuda.jit(function, max_registers=max_registers, lto=False)

    return compiled


def part_of(block: Any, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array in a one-dimensional device array of bytes, from byte `start` on; it does not copy.

    The same as a slice, a view and a new shape, each of which takes as long.
    """
    from numba.cuda.cudadrv.devicearray import DeviceNDArray

    strides = tuple(dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape)))
    memory = block.gpu_data.view(start, start + dtype.itemsize * math.prod(shape))
    return DeviceNDArray(shape, strides, dtype, gpu_data=memory)


def upload(to: Any, array: NDArray[Any], stream: Any) -> None:
    """Begin to copy an array without gaps to a device array of its size.

    The same as the device array's own method, which takes several times as long to look at both.
    """
    from numba.cuda.cudadrv.driver import host_to_device

    host_to_device(to, array, array.nbytes, stream=stream)


def download(to: NDArray[Any], array: Any, start: int, stream: Any) -> None:
    """Begin to fill a host array from element `start` of a device array on, both without gaps.

    The same as a slice's own method; the slice alone takes longer than a small copy.
    """
    from numba.cuda.cudadrv.driver import device_to_host

    first = start * array.dtype.itemsize
    device_to_host(to, array.gpu_data.view(first, first + to.nbytes), to.nbytes, stream=stream)


def package_version() -> str:
    """Name and version of the package behind `cuda`."""
    return f"numba-cuda {version('numba-cuda')}"


#: What compiles and links, where it is installed as a Python package.
_COMPILER_PACKAGES = (
    *("numba", "llvmlite", "cuda-core", "cuda-bindings"),
    *("nvidia-nvvm", "nvidia-cuda-nvcc-cu12", "nvidia-nvjitlink", "nvidia-nvjitlink-cu12"),
)

#: Of Numba's settings, those that change machine code.
_SETTINGS = ("OPT", "CUDA_DEBUGINFO_DEFAULT")


def compiler_versions() -> str:
    """Everything that decides what a kernel becomes on the current device, but for its source."""
    from numba.cuda.core import config
    from numba.cuda.cudadrv.runtime import runtime

    found = [package_version(), settings(config, _SETTINGS)]
    for name in _COMPILER_PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    capability = cuda.current_context().device.compute_capability
    driver = cuda.cudadrv.driver.get_version()
    return f"{', '.join(found)}, toolkit {runtime.get_version()}, driver {driver}, for {capability}"


def pack_kernel(kernel: Any) -> bytes:
    """A compiled kernel, machine code included, as bytes."""
    from numba.cuda.serialize import dumps

    packed: bytes = dumps(kernel._reduce_states())
    return packed


def unpack_kernel(packed: bytes) -> Any:
    """The kernel that was packed, to be loaded on the device when it is first needed."""
    from numba.cuda.dispatcher import _Kernel

    # Numba's own cache makes the compiler ready here, which takes longer than all the rest; a launch does not
    # need it.
    return _Kernel._rebuild(**pickle.loads(packed))
