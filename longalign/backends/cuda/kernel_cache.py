"""CUDA kernels on disk, as machine code for the device that they were compiled for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from longalign.backends.cuda.numba_api import compiler_versions, pack_kernel, unpack_kernel
from longalign.backends.kernel_cache import KernelCache, cache_directory


class CudaCache(KernelCache):
    """The files of one kernel. The device that it is compiled for must be current."""

    def directory(self) -> Path:
        return cache_directory("cuda", compiler_versions())

    def pack(self, compiled: Any) -> bytes:
        return pack_kernel(compiled)

    def unpack(self, packed: bytes, target_context: Any) -> Any:
        return unpack_kernel(packed)
