"""The CUDA back end: one persistent kernel that sweeps a work list of rectangles in one launch.

Importing this package imports no CUDA package; `CudaBackend` lives in `longalign.backends.cuda.backend`.
"""

from longalign.backends.cuda.devices import Device, available, why_unavailable

__all__ = ["Device", "available", "why_unavailable"]
