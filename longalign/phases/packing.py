"""Packs boundaries into the form of `longalign.store.codec` while a sweep delivers them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from longalign.backends.cpu.line_differences import line_differences, load_kernels
from longalign.errors import InternalError
from longalign.model.boundary import Boundary, IntArray
from longalign.model.narrow_values import NarrowValues
from longalign.store import codec
from longalign.store.codec import NO_LINES, PackedLines
from longalign.store.deflated import DeflatedArray
from longalign.store.line_tables import DeflatingTable, NarrowTable, PlainTable

_INT32 = np.dtype(np.int32)


class Packer:
    """Packs boundaries of equal length that arrive piece by piece, each in order from its first cell.

    `index` is that of `PackedLines`, increasing; `corners` (k,) holds H at index 0 of each line. Different
    lines may come from different threads. `table` keeps the differences: a `DeflatingTable` deflates complete
    blocks at once, which suits lines that go to a file; see `line_tables` for others. `level_gap` is H minus
    the gap state where cells were left out, and must fit `width` bytes.
    Differences are expected to fit `width` bytes (see `Scoring.difference_bytes`); wider ones are packed
    correctly, but take more time and memory.
    """

    def __init__(
        self,
        index: Sequence[int],
        corners: IntArray,
        length: int,
        *,
        width: int = 1,
        table: type[NarrowTable] = PlainTable,
        level_gap: int = 0,
    ) -> None:
        self._index = np.array(index, np.int64)
        self._last = np.array(corners, np.int32)
        self._filled = [0] * len(index)
        self._width, self._level_gap = width, level_gap
        self._narrow = range(-(1 << (8 * width - 1)), 1 << (8 * width - 1))
        narrow = np.dtype(f"i{width}")
        self._steps, self._gaps = (table(len(index), length, narrow, level) for level in (0, level_gap))
        self._anchors = table(len(index), length // codec.ANCHOR_STRIDE + 1, _INT32, 0)
        for line in range(len(index)):
            self._put_anchors(line, 0, self._last[line : line + 1])
        if len(index):
            load_kernels(width)  # in this thread, which an interrupt may reach

    def deflated(self) -> dict[str, DeflatedArray]:
        """The arrays that are deflated while lines arrive, by their names in `PackedLines`."""
        tables = {"steps": self._steps, "gaps": self._gaps}
        return {name: table.deflated for name, table in tables.items() if isinstance(table, DeflatingTable)}

    def put(self, line: int, start: int, h: IntArray, gap: IntArray) -> None:
        """See `LineSink`: H and the gap state, int32 of equal length, at least one cell."""
        if start != self._filled[line]:
            raise InternalError(f"line {line}: cells from {start} on came after {self._filled[line]} cells")
        if _is_repeated(h) and _is_repeated(gap) and (below := int(h[0]) - int(gap[0])) in self._narrow:
            self._put_differences(line, start, h[:1], gap[:1])  # H may change before the first cell
            self._put_level(line, start + 1, len(h) - 1, below)
        else:
            self._put_differences(line, start, h, gap)
        first = start // codec.ANCHOR_STRIDE + 1
        self._put_anchors(line, first, h[first * codec.ANCHOR_STRIDE - 1 - start :: codec.ANCHOR_STRIDE])
        self._last[line], self._filled[line] = h[-1], start + len(h)

    def packed(self) -> PackedLines:
        """All lines, once they are complete."""
        if not len(self._index):
            return NO_LINES
        return PackedLines(self._index, self._anchors.values(), self._steps.values(), self._gaps.values())

    def _put_differences(self, line: int, start: int, h: IntArray, gap: IntArray) -> None:
        before = self._last[line : line + 1]
        steps, gaps = line_differences(before, h, gap, self._level_gap, self._width)
        self._steps.put(line, start, steps)
        self._gaps.put(line, start, gaps)

    def _put_level(self, line: int, start: int, count: int, gap: int) -> None:
        """Append cells of the same H as the cell before, and with the same distance of the gap state."""
        self._steps.put(line, start, self._steps.constant(0, count))
        self._gaps.put(line, start, self._gaps.constant(gap, count))

    def _put_anchors(self, line: int, start: int, h: IntArray) -> None:
        if _is_repeated(h):
            self._anchors.put(line, start, self._anchors.constant(int(h[0]), len(h)))
        else:
            self._anchors.put(line, start, NarrowValues.all_fit(h.copy()))


def _is_repeated(values: IntArray) -> bool:
    """Whether these are one value in memory, repeated by `np.broadcast_to`."""
    return values.strides == (0,) and len(values) > 0


def pack(index: Sequence[int], lines: Sequence[Boundary]) -> PackedLines:
    """Pack boundaries of equal length, in increasing order of index."""
    if not lines:
        return NO_LINES
    packer = Packer(index, np.array([line.h[0] for line in lines], np.int32), len(lines[0]))
    for number, line in enumerate(lines):
        packer.put(number, 0, line.h[1:], line.gap[1:])
    return packer.packed()
