"""Boundaries as narrow differences: neighbouring values of a boundary differ by little.

Along a line, H is kept as the steps between neighbours and the gap state as its distance below H, in
the narrowest integers that hold them (8 bits for usual scorings), with the absolute H at every
ANCHOR_STRIDE-th cell so that a part of a line is read without the rest. All arithmetic wraps modulo
2^32, so even the step from minus infinity to a large score comes back exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.boundary import Boundary, IntArray
from longalign.scoring import NEG_INF

ANCHOR_STRIDE = 4096


@dataclass(frozen=True, slots=True, eq=False)
class PackedLines:
    """Several boundaries of equal length, packed. The arrays may be NumPy's or HDF5 datasets.

    - `index` (k,) int64: boundary index of each line within its tile
    - `anchors` (k, length // ANCHOR_STRIDE + 1) int32: H at cells 0, ANCHOR_STRIDE, ...
    - `steps` (k, length): H[x+1] - H[x]
    - `gaps` (k, length): H[x+1] - gap[x+1]
    """

    index: Any
    anchors: Any
    steps: Any
    gaps: Any

    def part(self, index: int, start: int, stop: int) -> Boundary:
        """Cells start..stop of the line at boundary index `index`."""
        line = int(np.searchsorted(self.index[:], index))
        anchor = start // ANCHOR_STRIDE
        steps = self.steps[line, anchor * ANCHOR_STRIDE : stop]
        h = np.empty(len(steps) + 1, np.int32)
        h[0] = self.anchors[line, anchor]
        np.cumsum(steps, dtype=np.int32, out=h[1:])
        h[1:] += h[0]
        h = h[start - anchor * ANCHOR_STRIDE :]
        gap = np.full(len(h), NEG_INF, np.int32)
        np.subtract(h[1:], self.gaps[line, start:stop], out=gap[1:], dtype=np.int32)
        return Boundary(h, gap)

    def highest(self, index: int, stop: int) -> tuple[int, int]:
        """A cell up to `stop` of the line at boundary index `index` where H is high, and H there.

        It is the last highest one around the highest anchor. Where H falls off evenly on both sides of its
        peak, as beside a long alignment, that is the peak.
        """
        line = int(np.searchsorted(self.index[:], index))
        nearest = int(np.argmax(self.anchors[line, : stop // ANCHOR_STRIDE + 1])) * ANCHOR_STRIDE
        start = max(0, nearest - ANCHOR_STRIDE)
        h = self.part(index, start, min(stop, nearest + ANCHOR_STRIDE)).h
        last = len(h) - 1 - int(np.argmax(h[::-1]))
        return start + last, int(h[last])


#: No boundary at all.
NO_LINES = PackedLines(*(np.empty((0, 0), np.int8) for _ in range(4)))


class Packer:
    """Packs boundaries of equal length that come piece by piece, each from its beginning on.

    `index` is that of `PackedLines`, increasing; `corners` (k,) holds H at index 0 of each line. Different
    lines may come from different threads.
    """

    def __init__(self, index: Sequence[int], corners: IntArray, length: int) -> None:
        self._index = np.array(index, np.int64)
        self._anchors = np.empty((len(index), length // ANCHOR_STRIDE + 1), np.int32)
        self._anchors[:, 0] = corners
        self._last = self._anchors[:, 0].copy()
        self._filled = [0] * len(index)
        self._steps, self._gaps = (_NarrowTable(len(index), length) for _ in range(2))

    def put(self, line: int, h: IntArray, gap: IntArray) -> None:
        """The next cells of the line of this number: H and the gap state, int32 of equal length."""
        start = self._filled[line]
        stop = start + len(h)
        steps = np.empty_like(h)
        np.subtract(h[:1], self._last[line : line + 1], out=steps[:1])
        np.subtract(h[1:], h[:-1], out=steps[1:])
        self._steps.put(line, start, steps)
        self._gaps.put(line, start, h - gap)
        first = start // ANCHOR_STRIDE + 1
        anchors = h[first * ANCHOR_STRIDE - 1 - start :: ANCHOR_STRIDE]
        self._anchors[line, first : first + len(anchors)] = anchors
        self._last[line], self._filled[line] = h[-1], stop

    def packed(self) -> PackedLines:
        """All lines, once they are complete."""
        if not len(self._index):
            return NO_LINES
        return PackedLines(self._index, self._anchors, self._steps.values(), self._gaps.values())


class _NarrowTable:
    """Lines of integers in 8 bits, as long as they fit; those that do not are kept aside."""

    def __init__(self, lines: int, length: int) -> None:
        self._table = np.empty((lines, length), np.int8)
        self._wide: dict[int, IntArray] = {}

    def put(self, line: int, start: int, values: IntArray) -> None:
        place = slice(start, start + len(values))
        if line not in self._wide:
            if _narrowest(values) == np.int8:
                self._table[line, place] = values
                return
            wide = np.empty(self._table.shape[1], np.int32)
            wide[:start] = self._table[line, :start]
            self._wide[line] = wide
        self._wide[line][place] = values

    def values(self) -> NDArray[np.signedinteger[Any]]:
        """All lines in the narrowest integers that hold them."""
        if not self._wide:
            return self._table
        widest = np.result_type(*map(_narrowest, self._wide.values()))
        table: NDArray[np.signedinteger[Any]] = self._table.astype(widest)
        for line, values in self._wide.items():
            table[line] = values
        return table


def pack(index: Sequence[int], lines: Sequence[Boundary]) -> PackedLines:
    """Pack boundaries of equal length, in increasing order of index."""
    if not lines:
        return NO_LINES
    packer = Packer(index, np.array([line.h[0] for line in lines], np.int32), len(lines[0]))
    for number, line in enumerate(lines):
        packer.put(number, line.h[1:], line.gap[1:])
    return packer.packed()


def _narrowest(values: NDArray[np.int32]) -> np.dtype[np.signedinteger[Any]]:
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    types = (np.int8, np.int16, np.int32)
    return np.dtype(next(t for t in types if np.iinfo(t).min <= low and high <= np.iinfo(t).max))


def narrow(values: NDArray[np.int32]) -> NDArray[np.signedinteger[Any]]:
    """The same in the narrowest integers that hold them."""
    return values.astype(_narrowest(values))
