"""The CPU back end: SIMD lanes compiled by Numba, and threads that share strips of columns.

Read the modules of the sweep in this order: `config` (terms), `sweep_kernel` (a block), `number_widths`
(proof of the number formats), `skipping` (blocks that are left out), `worker` (a thread), `workspace` and
`worklist` (the arrays), `backend` (all threads). Paths are found by `traceback_kernel` and `traceback`, start
states by `start_states_kernel` and `start_states`, both around excluded pairs by `masked_kernel`. Gains for
pruning come from `absent_words`, `placed_words` and `gain_sums`. `jit`, `lanes` and `raw_memory` hold what
kernels share.
"""

from longalign.backends.cpu.backend import CpuBackend
from longalign.backends.cpu.config import SweepGeometry

__all__ = ["CpuBackend", "SweepGeometry"]
