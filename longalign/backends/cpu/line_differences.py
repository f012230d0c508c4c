"""The differences by which the values of a line are kept: from cell to cell, and from the gap state to H.

The kernels run without the GIL. The same in NumPy takes a dozen calls. Each of them releases the GIL and
takes it again, and threads that pack lines would wait for it longer than they work.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numba
import numpy as np

from longalign.backends.base import Kernel
from longalign.backends.cpu.jit import compile_entry, compiled_once, inline_by_llvm
from longalign.errors import InternalError
from longalign.model.boundary import IntArray
from longalign.model.narrow_values import NarrowValues

#: The integer types of differences, by their width in bytes.
_TYPES = {1: numba.int8, 2: numba.int16, 4: numba.int32}

#: What `narrow_differences` finds for each kind of difference: the number of wide ones, and the ends of the
#: stretch outside of which all have the level value.
_WIDE, _FIRST, _STOP = range(3)


def line_differences(
    before: IntArray, h: IntArray, gap: IntArray, level_gap: int, width: int
) -> tuple[NarrowValues, NarrowValues]:
    """The steps of H, and H minus the gap state, modulo 2^32, in integers of `width` bytes (1, 2 or 4).

    `before` (1,) is H before the first cell; `h` and `gap` (n,) are int32. The level step is 0, and the level
    distance of the gap state is `level_gap`. Raises InternalError if the lengths differ, or if the values
    change meanwhile.
    """
    if len(h) != len(gap):
        raise InternalError(f"a line has H in {len(h)} cells, and the gap state in {len(gap)}")
    # The kernels take no other kinds of arrays.
    h, gap = (np.require(values, np.int32, ["C", "W"]) for values in (h, gap))
    narrow = [np.empty(len(h), f"i{width}") for _ in range(2)]
    found = np.empty((2, 3), np.int64)
    _narrower(width)(before, h, gap, level_gap, *narrow, found)
    (wide_steps, *step_ends), (wide_gaps, *gap_ends) = found.tolist()
    places, wide = np.empty(wide_steps + wide_gaps, np.int64), np.empty(wide_steps + wide_gaps, np.int32)
    if len(places) and _lister(width)(before, h, gap, places, wide) != len(places):
        raise InternalError("the values of a line have changed while they were packed")
    steps = NarrowValues(narrow[0], places[:wide_steps], wide[:wide_steps], *step_ends)
    return steps, NarrowValues(narrow[1], places[wide_steps:], wide[wide_steps:], *gap_ends)


def load_kernels(width: int) -> None:
    """Compile now what `line_differences` needs for this width."""
    for kernel in _kernels(width):
        kernel.load()


def kernels() -> list[Kernel]:
    """What is compiled here."""
    return [kernel for width in _TYPES for kernel in _kernels(width)]


def _kernels(width: int) -> list[Kernel]:
    narrower = Kernel(f"differences of lines, {width} bytes", partial(_narrower, width))
    if width == 4:  # no difference is too wide
        return [narrower]
    return [narrower, Kernel(f"wide differences, {width} bytes", partial(_lister, width))]


def _make_narrower(kind: Any) -> Callable[..., None]:
    @inline_by_llvm
    def find_ends(values: Any, level: Any, found: Any) -> None:
        first, stop = 0, len(values)
        while first < stop and values[first] == level:
            first += 1
        while first < stop and values[stop - 1] == level:
            stop -= 1
        found[_FIRST], found[_STOP] = first, stop

    def narrow_differences(
        before: Any, h: Any, gap: Any, level_gap: Any, steps: Any, gaps: Any, found: Any
    ) -> None:
        wide_steps, wide_gaps = numba.int32(0), numba.int32(0)
        previous = before[0]
        for x in range(len(h)):
            step, below = numba.int32(h[x] - previous), numba.int32(h[x] - gap[x])
            previous = h[x]
            steps[x], gaps[x] = kind(step), kind(below)
            wide_steps += numba.int32(kind(step) != step)
            wide_gaps += numba.int32(kind(below) != below)
        found[0, _WIDE], found[1, _WIDE] = wide_steps, wide_gaps
        find_ends(steps, 0, found[0])
        find_ends(gaps, level_gap, found[1])

    return narrow_differences


def _make_lister(kind: Any) -> Callable[..., int]:
    def list_wide(before: Any, h: Any, gap: Any, places: Any, wide: Any) -> int:
        """Returns the number of wide differences: more than fit the arrays if the values have changed."""
        count = 0
        previous = before[0]
        for x in range(len(h)):
            step = numba.int32(h[x] - previous)
            previous = h[x]
            if kind(step) != step:
                if count < len(places):
                    places[count], wide[count] = x, step
                count += 1
        for x in range(len(h)):
            below = numba.int32(h[x] - gap[x])
            if kind(below) != below:
                if count < len(places):
                    places[count], wide[count] = x, below
                count += 1
        return count

    return list_wide


_NUMBERS, _LINE = np.zeros(1, np.int64), np.zeros(1, np.int32)


@compiled_once
def _narrower(width: int) -> Callable[..., None]:
    narrow = np.zeros(1, f"i{width}")
    examples = [_LINE, _LINE, _LINE, 0, narrow, narrow, _NUMBERS.reshape(1, 1)]
    return compile_entry(_make_narrower(_TYPES[width]), f"differences of lines, {width} bytes", examples)


@compiled_once
def _lister(width: int) -> Callable[..., int]:
    examples = [_LINE, _LINE, _LINE, _NUMBERS, _LINE]
    return compile_entry(_make_lister(_TYPES[width]), f"wide differences, {width} bytes", examples)
