"""The CUDA back end: persistent kernels, each of which sweeps a work list of rectangles in one launch.

Importing this package imports no CUDA package; `CudaBackend` lives in `longalign.backends.cuda.backend`.

Device functions are closures over a `KernelConfig`, made by `make_...`. Where more than one function uses
what such a factory makes, it is cached: Numba then types and lowers each device function once for a kernel.
"""

from longalign.backends.cuda.devices import Device, available, preload_driver, why_unavailable

__all__ = ["Device", "available", "preload_driver", "why_unavailable"]
