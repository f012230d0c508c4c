"""The on-disk cache of CPU kernels, as machine code for this processor."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba import config
from numba.core.compiler import CompileResult
from numba.core.registry import cpu_target
from numba.core.serialize import dumps

from longalign.backends.kernel_cache import KernelCache, cache_directory, settings

#: Settings of Numba that change machine code.
_SETTINGS = ("OPT", "LOOP_VECTORIZE", "SLP_VECTORIZE", "DEBUGINFO_DEFAULT", "BOUNDSCHECK")


class CpuCache(KernelCache):
    """See `KernelCache`."""

    def directory(self) -> Path:
        processor = cpu_target.target_context.codegen().magic_tuple()
        compiler = f"numba {numba.__version__}, llvmlite {llvmlite.__version__}, for {processor}"
        return cache_directory("cpu", f"{compiler}, {settings(config, _SETTINGS)}")

    def pack(self, compiled: Any) -> bytes:
        packed: bytes = dumps(compiled._reduce())
        return packed

    def unpack(self, packed: bytes, target_context: Any) -> Any:
        # Numba's own cache initialises the compiler here, which takes longer than all other steps. Machine
        # code needs this only for reference counts, which these kernels do not have (see `jit`).
        return CompileResult._rebuild(target_context, *pickle.loads(packed))
