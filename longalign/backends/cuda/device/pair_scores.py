"""What a letter pair scores, plus alpha + beta, in kernels of 32 bits: traces and start states.

A matrix is read from shared memory, into which a warp, the only one of its block, copies it. Both ways have
the same arguments.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np

from longalign.backends.cuda.config import LANES
from longalign.backends.cuda.numba_api import cuda
from longalign.backends.substitution_tables import PITCH

#: Letter scores plus alpha + beta, alpha + beta, and beta; with a matrix the first two mean nothing.
PairCosts = namedtuple("PairCosts", "match mismatch opening extend")

#: Scores of a matrix, int32.
SCORES = PITCH * PITCH


@cuda.jit(device=True)
def load_matrix(matrix, matrices, at, opening, lane):
    """Copy the matrix that begins there, alpha + beta added; all lanes of a warp together."""
    cuda.syncwarp()  # no lane looks anything up in the one before any more
    for k in range(lane, SCORES, LANES):
        matrix[k] = matrices[at + k] + opening
    cuda.syncwarp()


@cuda.jit(device=True)
def _compared(matrix, query_letter, target_letter, costs):
    return costs.match if target_letter == query_letter else costs.mismatch


@cuda.jit(device=True)
def _looked_up(matrix, query_letter, target_letter, costs):
    # Numba wraps a signed index that is negative, which would cost more than all the rest.
    return matrix[np.uint32(query_letter * PITCH + target_letter)]


def pair_score(has_matrix: bool) -> Any:
    """The device function (matrix, query letter, target letter, costs)."""
    return _looked_up if has_matrix else _compared
