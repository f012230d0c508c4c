"""Costs, and scores of letter pairs plus alpha + beta, in the int32 kernels of traces and start states.

Letters are compared, or looked up in a substitution matrix. A thread block has a single warp, which copies
the matrix to shared memory.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from typing import Any

import numpy as np

from longalign.backends.cuda.config import LANES
from longalign.backends.cuda.numba_api import cuda
from longalign.backends.substitution_tables import PITCH, PairCosts

#: The number of scores (int32) in a matrix.
SCORES = PITCH * PITCH


@cuda.jit(device=True)
def pair_costs(table, row, match):
    """The `PairCosts` in a row of a table, of which `match` is the first column."""
    return PairCosts(
        np.int32(table[row, match]), np.int32(table[row, match + 1]),
        np.int32(table[row, match + 2]), np.int32(table[row, match + 3]),
    )  # fmt: skip


@cuda.jit(device=True)
def load_matrix(matrix, matrices, at, opening, lane):
    """Copy the matrix that begins at index `at` of `matrices`, and add alpha + beta; all lanes together."""
    cuda.syncwarp()  # no lane still reads the preceding matrix
    for k in range(lane, SCORES, LANES):
        matrix[k] = matrices[at + k] + opening
    cuda.syncwarp()


@cuda.jit(device=True)
def _compared(matrix, query_letter, target_letter, costs):
    return costs.match if target_letter == query_letter else costs.mismatch


@cuda.jit(device=True)
def _looked_up(matrix, query_letter, target_letter, costs):
    # For a signed index Numba generates code that wraps negative values, which would cost more than the rest.
    return matrix[np.uint32(query_letter * PITCH + target_letter)]


def pair_score(has_matrix: bool) -> Any:
    """The device function that scores a pair. Its arguments: matrix, query letter, target letter, costs."""
    return _looked_up if has_matrix else _compared
