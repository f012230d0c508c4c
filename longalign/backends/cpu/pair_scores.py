"""What a letter pair scores, plus alpha + beta, in kernels of 32 bits: traces and start states.

`costs` are match and mismatch plus alpha + beta, alpha + beta, and beta; with a matrix the first two mean
nothing.
"""

from __future__ import annotations

from typing import Any

import numba

from longalign.backends.cpu.jit import fuse
from longalign.backends.cpu.raw_memory import load
from longalign.backends.substitution_tables import PITCH


@fuse
def compared(query_letter: Any, target_letter: Any, costs: Any) -> Any:
    return costs[0] if query_letter == target_letter else costs[1]


@fuse
def looked_up(matrix: Any, query_letter: Any, target_letter: Any, costs: Any) -> Any:
    """By the matrix at this address."""
    return numba.int32(load(matrix, query_letter * PITCH + target_letter) + costs[2])
