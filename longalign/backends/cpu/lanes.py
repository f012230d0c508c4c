"""Small functions that several kernels share. LLVM inlines them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba

from longalign.backends.cpu.jit import inline_by_llvm
from longalign.backends.cpu.raw_memory import advance


@inline_by_llvm
def maximum(x: Any, y: Any) -> Any:
    return x if x > y else y


@inline_by_llvm
def subtract(x: Any, y: Any) -> Any:
    return numba.int32(x - y)


@inline_by_llvm
def lane_counts(cols: int, columns: int, group: int) -> Any:
    """The lanes that `cols` columns need, and the lanes of whole groups that hold these."""
    used = (cols + columns - 1) // columns
    return used, (used + group - 1) // group * group


def unroll_columns(one_column: Callable[..., Any], count: int, pitch: int) -> Callable[..., Any]:
    """A function that applies `one_column` to `count` columns of a lane, which lie `pitch` numbers apart.

    `one_column(state, p, letter, carried, costs)` computes the cell of lane p in the first column from
    `state` on, and returns the values that it carries to the next column. The columns are unrolled as two
    halves, each of which is again two halves. That makes few functions to compile.
    """
    made = {1: one_column}

    def make(count: int) -> Callable[..., Any]:
        if count not in made:
            half = count // 2
            made[count] = _one_after_the_other(make(half), make(count - half), half * pitch)
        return made[count]

    return make(count)


def _one_after_the_other(
    left_half: Callable[..., Any], right_half: Callable[..., Any], offset: int
) -> Callable[..., Any]:
    @inline_by_llvm
    def both(state: Any, p: int, letter: Any, carried: Any, costs: Any) -> Any:
        carried = left_half(state, p, letter, carried, costs)
        return right_half(advance(state, offset), p, letter, carried, costs)

    return both
