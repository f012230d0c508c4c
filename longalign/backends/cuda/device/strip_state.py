"""The state of a strip: stored when a band interrupts it, and before a row block that may be replayed.

Any warp can load the state and continue the strip. The flag that says that a band is done is published after
the state has been stored, and waited for before it is loaded.
"""

# mypy: allow-untyped-defs
# Device functions have the types that numba infers.
from __future__ import annotations

from collections import namedtuple
from functools import cache
from typing import Any

import numpy as np

from longalign.backends.cuda.config import LANES, KernelConfig
from longalign.backends.cuda.device.row import LaneEdge
from longalign.backends.cuda.device.row_block import LaneCarry
from longalign.backends.cuda.numba_api import cuda

#: The state besides the columns of a lane: what the lane carries; H on the left edge above the next row; the
#: base; the row up to which some part is still at an ambiguous letter; the number of the next requested row.
StripState = namedtuple("StripState", "carry edge base ambiguous_until next_requested")


@cache
def make_state_store(config: KernelConfig) -> tuple[Any, Any]:
    """Device functions that store what a lane holds in `state`, from `at` on, and load it again."""
    columns = config.columns

    @cuda.jit(device=True)
    def slot(at, number, lane):
        return np.uint64(at + LANES * number + lane)

    @cuda.jit(device=True)
    def store(state, at, lane, opened, e, strip_state):
        for k in range(columns):
            state[slot(at, k, lane)] = opened[k]
            state[slot(at, columns + k, lane)] = e[k]
        carry, first = strip_state.carry, 2 * columns
        state[slot(at, first, lane)] = carry.upper.open
        state[slot(at, first + 1, lane)] = carry.upper.gap
        state[slot(at, first + 2, lane)] = carry.lower.open
        state[slot(at, first + 3, lane)] = carry.lower.gap
        state[slot(at, first + 4, lane)] = carry.diagonal
        state[slot(at, first + 5, lane)] = strip_state.edge
        state[slot(at, first + 6, lane)] = strip_state.base
        state[slot(at, first + 7, lane)] = strip_state.ambiguous_until
        state[slot(at, first + 8, lane)] = strip_state.next_requested

    @cuda.jit(device=True)
    def load(state, at, lane, opened, e):
        for k in range(columns):
            opened[k] = state[slot(at, k, lane)]
            e[k] = state[slot(at, columns + k, lane)]
        first = 2 * columns
        carry = LaneCarry(
            LaneEdge(state[slot(at, first, lane)], state[slot(at, first + 1, lane)]),
            LaneEdge(state[slot(at, first + 2, lane)], state[slot(at, first + 3, lane)]),
            state[slot(at, first + 4, lane)],
        )  # fmt: skip
        return StripState(
            carry, state[slot(at, first + 5, lane)], state[slot(at, first + 6, lane)],
            state[slot(at, first + 7, lane)], state[slot(at, first + 8, lane)],
        )  # fmt: skip

    return store, load
