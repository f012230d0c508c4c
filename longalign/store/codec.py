"""Boundaries packed as narrow differences: neighbouring values of a boundary differ by little.

H is stored as the steps between neighbours, and the gap state as its distance below H, in the narrowest
integers that hold them (8 bits for usual scorings). The absolute H at every ANCHOR_STRIDE-th cell allows a
part of a line to be read without the rest. All arithmetic wraps modulo 2^32, so even the step from minus
infinity to a large score is restored exactly. `longalign.phases.packing` packs boundaries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.model.boundary import IntArray
from longalign.model.scoring import NEG_INF
from longalign.store.line_tables import narrowest

ANCHOR_STRIDE = 4096

#: Steps up or down by at most this much are true differences; larger ones may have wrapped modulo 2^32.
_LARGEST_BOUNDED = 1 << 15


@dataclass(frozen=True, slots=True, eq=False)
class PackedLines:
    """Several boundaries of equal length, packed.

    The arrays may be NumPy, deflated or lazily read ones. Of all but `index`, only parts of one line are
    read, so they may also be arrays of `line_tables`.

    - `index` (k,) int64: boundary index of each line within its tile
    - `anchors` (k, length // ANCHOR_STRIDE + 1) int32: H at cells 0, ANCHOR_STRIDE, ...
    - `steps` (k, length): H[x+1] - H[x]
    - `gaps` (k, length): H[x+1] - gap[x+1]
    """

    index: Any
    anchors: Any
    steps: Any
    gaps: Any

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the lines, which must not be deflated."""
        return sum(int(array.nbytes) for array in (self.anchors, self.steps, self.gaps))

    def part(self, index: int, start: int, stop: int) -> PackedEdge:
        """Cells start..stop of the line at boundary index `index`."""
        line = int(np.searchsorted(self.index[:], index))
        first = start // ANCHOR_STRIDE
        return PackedEdge(
            self.anchors[line, first : stop // ANCHOR_STRIDE + 1],
            self.steps[line, first * ANCHOR_STRIDE : stop],
            self.gaps[line, start:stop],
        )

    def highest(self, index: int, stop: int) -> tuple[int, int]:
        """A cell up to `stop` of the line at boundary index `index` where H is high, and H there.

        It is the last highest one around the highest anchor. Where H falls off evenly on both sides of its
        peak, as beside a long alignment, that is the peak.
        """
        line = int(np.searchsorted(self.index[:], index))
        anchors = self.anchors[line, : stop // ANCHOR_STRIDE + 1]
        nearest = int(np.argmax(anchors))
        first = max(0, nearest - 1)
        start, end = first * ANCHOR_STRIDE, min(stop, (nearest + 1) * ANCHOR_STRIDE)
        h = _summed(anchors[first], self.steps[line, start:end])
        last = len(h) - 1 - int(np.argmax(h[::-1]))
        return start + last, int(h[last])


@dataclass(frozen=True, eq=False)
class PackedEdge:
    """A part of a packed line: an `Edge` that unpacks only the cells that are accessed.

    - `anchors` (k,) int32: H at every ANCHOR_STRIDE-th cell, the first of them at the edge's corner or before
    - `steps` (letters from the first anchor on,): H[x+1] - H[x]
    - `gaps` (length,): H[x+1] - gap[x+1], from the corner on

    The arrays `h` and `gap` are unpacked on first access.
    """

    anchors: IntArray
    steps: NDArray[np.signedinteger[Any]]
    gaps: NDArray[np.signedinteger[Any]]

    @cached_property
    def h(self) -> IntArray:
        """See `Edge`."""
        return self._h(0, len(self) + 1)

    @cached_property
    def gap(self) -> IntArray:
        """See `Edge`."""
        return self._gap(0, self.h)

    def h_at(self, places: Sequence[int]) -> IntArray:
        """See `Edge`."""
        return np.array([self._h(place, place + 1)[0] for place in places], np.int32)

    def cells(self, start: int, stop: int) -> tuple[IntArray, IntArray]:
        """See `Edge`."""
        h = self._h(start, stop)
        return h, self._gap(start, h)

    def part(self, start: int, stop: int) -> PackedEdge:
        """See `Edge`."""
        start, stop = start + self._skipped, stop + self._skipped
        first = start // ANCHOR_STRIDE
        return PackedEdge(
            self.anchors[first : stop // ANCHOR_STRIDE + 1],
            self.steps[first * ANCHOR_STRIDE : stop],
            self.gaps[start - self._skipped : stop - self._skipped],
        )

    def stretches(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """See `Edge`. The bounds follow from the anchors and the extreme steps between them."""
        firsts = np.arange(len(self.anchors)) * ANCHOR_STRIDE
        begins = firsts - self._skipped
        begins[0] = 0
        rise, fall = np.zeros((2, len(firsts)), np.int64)
        followed = firsts[firsts < len(self.steps)]  # the last anchor may have no steps after it
        if len(followed):
            rise[: len(followed)] = np.maximum.reduceat(self.steps, followed)
            fall[: len(followed)] = np.minimum.reduceat(self.steps, followed)
        highest = self.anchors + ANCHOR_STRIDE * np.maximum(rise, 0)
        from_next = self.anchors[1:] - ANCHOR_STRIDE * np.minimum(fall[:-1], 0)
        np.minimum(highest[:-1], from_next, out=highest[:-1])
        highest[np.maximum(rise, -fall) > _LARGEST_BOUNDED] = np.iinfo(np.int32).max
        return begins, highest

    def __len__(self) -> int:
        return len(self.gaps)

    @property
    def _skipped(self) -> int:
        """Letters between the first anchor and the corner."""
        return len(self.steps) - len(self.gaps)

    def _h(self, start: int, stop: int) -> IntArray:
        """H at the cells start..stop - 1."""
        start, stop = start + self._skipped, stop + self._skipped
        anchor = start // ANCHOR_STRIDE
        first = anchor * ANCHOR_STRIDE
        return _summed(self.anchors[anchor], self.steps[first : stop - 1])[start - first :]

    def _gap(self, start: int, h: IntArray) -> IntArray:
        """The gap state at the cells from `start` on; `h` is H at these cells."""
        gap = np.empty_like(h)
        corner = int(start == 0)
        gap[:corner] = NEG_INF
        gaps = self.gaps[start + corner - 1 : start + len(h) - 1]
        np.subtract(h[corner:], gaps, out=gap[corner:], dtype=np.int32)
        return gap


def _summed(start: np.int32, steps: NDArray[np.signedinteger[Any]]) -> IntArray:
    """H at a cell, which is `start`, and at the cells after it, from the steps between them."""
    h = np.empty(len(steps) + 1, np.int32)
    h[0] = start
    np.cumsum(steps, dtype=np.int32, out=h[1:])
    h[1:] += start
    return h


#: An empty set of boundaries.
NO_LINES = PackedLines(*(np.empty((0, 0), np.int8) for _ in range(4)))


def narrow(values: NDArray[np.int32]) -> NDArray[np.signedinteger[Any]]:
    """The same values in the narrowest integers that hold them."""
    return values.astype(narrowest(values))
