"""The CPU back end: SIMD lanes compiled by Numba, and threads that share strips of columns.

Read in this order: `config.py` (words), `kernel.py` (one block), `widths.py` (in which numbers),
`worker.py` (one thread), `workspace.py` and `plan.py` (its arrays), `backend.py` (all threads). Beside the
sweep stand `trace_kernel.py` and `tracing.py` (paths), `start_kernel.py` and `starting.py` (start states);
`pair_scores.py` is what these kernels share.
"""

from longalign.backends.cpu.backend import CpuBackend
from longalign.backends.cpu.config import SweepGeometry

__all__ = ["CpuBackend", "SweepGeometry"]
