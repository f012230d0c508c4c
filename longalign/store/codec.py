"""Boundaries as narrow differences: neighbouring values of a boundary differ by little.

Along a line, H is kept as the steps between neighbours and the gap state as its distance below H, in
the narrowest integers that hold them (8 bits for usual scorings), with the absolute H at every
ANCHOR_STRIDE-th cell so that a part of a line is read without the rest. All arithmetic wraps modulo
2^32, so even the step from minus infinity to a large score comes back exactly.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.boundary import Boundary
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


def pack(index: Sequence[int], lines: Sequence[Boundary]) -> PackedLines:
    """Pack boundaries of equal length, in increasing order of index.

    Threads share the lines: on a GPU's host this takes longer than the sweep would, else.
    """
    if not lines:
        return NO_LINES
    with ThreadPoolExecutor(min(len(lines), os.cpu_count() or 1)) as executor:
        steps = list(executor.map(lambda line: narrow(np.diff(line.h)), lines))
        gaps = list(executor.map(lambda line: narrow(line.h[1:] - line.gap[1:]), lines))
    return PackedLines(
        index=np.array(index, np.int64),
        anchors=np.stack([line.h[::ANCHOR_STRIDE] for line in lines]),
        steps=np.stack(steps, dtype=np.result_type(*steps)),
        gaps=np.stack(gaps, dtype=np.result_type(*gaps)),
    )


def narrow(values: NDArray[np.int32]) -> NDArray[np.signedinteger[Any]]:
    """The same in the narrowest integers that hold them."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    types = (np.int8, np.int16, np.int32)
    return values.astype(next(t for t in types if np.iinfo(t).min <= low and high <= np.iinfo(t).max))
