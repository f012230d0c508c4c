"""The score of a letter pair, plus alpha + beta, in the 32-bit kernels of tracebacks and start states.

`costs` are match and mismatch, both plus alpha + beta, then alpha + beta, and beta. With a substitution
matrix the first two are not used.
"""

from __future__ import annotations

from typing import Any

import numba

from longalign.backends.cpu.jit import inline_by_llvm
from longalign.backends.cpu.raw_memory import load
from longalign.backends.substitution_tables import PITCH


@inline_by_llvm
def compared(query_letter: Any, target_letter: Any, costs: Any) -> Any:
    return costs[0] if query_letter == target_letter else costs[1]


@inline_by_llvm
def looked_up(matrix: Any, query_letter: Any, target_letter: Any, costs: Any) -> Any:
    """The score in the substitution matrix at this address."""
    return numba.int32(load(matrix, query_letter * PITCH + target_letter) + costs[2])
