"""What kernels and launches use of numba-cuda.

`cuda` is the module that kernels use. Numba's simulator has neither `intrinsic` nor a compiler. What needs
them is therefore imported inside functions.
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from threading import Lock
from typing import Any

import numpy as np
from numba import cuda
from numba.cuda.cudadrv.error import CudaDriverError, CudaSupportError, NvvmError, NvvmSupportError
from numpy.typing import NDArray

from longalign.backends.kernel_cache import settings

__all__ = [
    "compiler_versions",
    "configured",
    "cuda",
    "download",
    "intrinsic",
    "is_cuda_error",
    "jit_inlined",
    "jit_kernel",
    "load_kernel",
    "pack_kernel",
    "package_version",
    "part_of",
    "unpack_kernel",
    "upload",
]

#: Held while a setting of Numba is changed.
_config_lock = Lock()

_ERRORS = (CudaDriverError, CudaSupportError, NvvmError, NvvmSupportError)


def is_cuda_error(error: Exception) -> bool:
    """Whether the driver, the compiler, or code that loads these raised the error.

    Numba lets errors of NVIDIA's package `cuda` pass through, for example if there is no memory for a
    context. Their class has no public name.
    """
    return isinstance(error, _ERRORS) or type(error).__module__.partition(".")[0] == "cuda"


def intrinsic(function: Callable[..., Any]) -> Any:
    """Numba's decorator for a function that generates its own LLVM code."""
    from numba.cuda.extending import intrinsic as decorate

    return decorate(function)


def jit_kernel(max_registers: int | None = None) -> Callable[[Callable[..., None]], Any]:
    """Numba's decorator for a kernel, without link-time optimisation.

    A kernel is linked with nothing else. With link-time optimisation, Numba would generate PTX, discard it,
    and let the linker optimise again. Without it, machine code is made from the same PTX as on a machine
    without a GPU.
    """

    def compiled(function: Callable[..., None]) -> Any:
        # numba-cuda 0.30 ignores `lto` if `jit` is used as a decorator with options.
        return cuda.jit(function, max_registers=max_registers, lto=False)

    return compiled


def jit_inlined(function: Callable[..., Any]) -> Any:
    """Numba's decorator for a device function whose statements become the caller's own before they are typed.

    A kernel that is split into such functions becomes the same machine code as one that is not. Of other
    device functions the optimiser makes slightly different code: some registers and instructions more.
    """
    return cuda.jit(device=True, inline="always")(function)


def configured(kernel: Any, grid: Any, threads: int, stream: Any, shared_bytes: int = 0) -> Any:
    """The kernel, ready to be launched in `grid` thread blocks with `shared_bytes` of dynamic shared memory.

    Numba warns of fewer than 128 blocks, since they may leave a device idle. Here that is intended.
    """
    from numba.cuda.core import config

    with _config_lock:
        warns, config.CUDA_LOW_OCCUPANCY_WARNINGS = config.CUDA_LOW_OCCUPANCY_WARNINGS, 0
        try:
            return kernel[grid, threads, stream, shared_bytes]
        finally:
            config.CUDA_LOW_OCCUPANCY_WARNINGS = warns


def load_kernel(kernel: Any, signature: tuple[Any, ...]) -> None:
    """Load a compiled kernel onto the current device, unless that has been done."""
    _ = kernel.overloads[signature].regs_per_thread  # Numba loads a kernel to look up a property


def part_of(block: Any, start: int, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Any:
    """An array in a one-dimensional device array of bytes, from byte `start` on, without a copy.

    A slice, a view and a reshape give the same, but each of the three takes as long as this function.
    """
    from numba.cuda.cudadrv.devicearray import DeviceNDArray

    strides = tuple(dtype.itemsize * math.prod(shape[k + 1 :]) for k in range(len(shape)))
    memory = block.gpu_data.view(start, start + dtype.itemsize * math.prod(shape))
    return DeviceNDArray(shape, strides, dtype, gpu_data=memory)


def upload(to: Any, array: NDArray[Any], stream: Any) -> None:
    """Queue the copy of a contiguous array to a device array of the same size.

    The device array's own method does the same, but takes several times as long to check both.
    """
    from numba.cuda.cudadrv.driver import host_to_device

    host_to_device(to, array, array.nbytes, stream=stream)


def download(to: NDArray[Any], array: Any, start: int, stream: Any) -> None:
    """Queue a copy to a host array from element `start` of a device array on. Both are contiguous.

    The method of a slice does the same, but the slice alone takes longer than a small copy.
    """
    from numba.cuda.cudadrv.driver import device_to_host

    first = start * array.dtype.itemsize
    device_to_host(to, array.gpu_data.view(first, first + to.nbytes), to.nbytes, stream=stream)


def package_version() -> str:
    """The name and version of the package that provides `cuda`."""
    return f"numba-cuda {version('numba-cuda')}"


#: The Python packages that compile and link. Some of them may not be installed.
_COMPILER_PACKAGES = (
    *("numba", "llvmlite", "cuda-core", "cuda-bindings"),
    *("nvidia-nvvm", "nvidia-cuda-nvcc-cu12", "nvidia-nvjitlink", "nvidia-nvjitlink-cu12"),
)

#: Those of Numba's settings that change machine code.
_SETTINGS = ("OPT", "CUDA_DEBUGINFO_DEFAULT")


def compiler_versions() -> str:
    """Everything except its source that decides the machine code of a kernel for the current device."""
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
    """A compiled kernel, including its machine code, as bytes."""
    from numba.cuda.serialize import dumps

    packed: bytes = dumps(kernel._reduce_states())
    return packed


def unpack_kernel(packed: bytes) -> Any:
    """The kernel from the bytes of `pack_kernel`. The device loads it at its first use."""
    from numba.cuda.dispatcher import _Kernel

    # Numba's own cache initialises the compiler here. That takes longer than everything else, and a launch
    # does not need it.
    return _Kernel._rebuild(**pickle.loads(packed))
