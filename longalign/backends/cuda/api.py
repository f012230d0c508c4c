"""The one place that imports numba's CUDA package, so that a change of package is a change of this file.

`cuda` is the module as kernels use it. Numba's simulator has no `intrinsic`, so that is imported late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import cuda
from numba.cuda.cudadrv.error import CudaDriverError, CudaSupportError, NvvmError, NvvmSupportError

__all__ = ["CUDA_ERRORS", "cuda", "intrinsic", "package_version"]

#: What the driver, the compiler and their loaders raise.
CUDA_ERRORS: tuple[type[Exception], ...] = (CudaDriverError, CudaSupportError, NvvmError, NvvmSupportError)


def intrinsic(function: Callable[..., Any]) -> Any:
    """Numba's decorator for a function that emits its own machine code."""
    from numba.cuda.extending import intrinsic as decorate

    return decorate(function)


def package_version() -> str:
    """Name and version of the package behind `cuda`."""
    from importlib.metadata import version

    return f"numba-cuda {version('numba-cuda')}"
