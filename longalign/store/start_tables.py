"""Start states along the lines of a tile, packed as narrow differences: neighbouring cells mostly share one.

A start state is a row and a column, counted from the tile's corner, and a state. Along a line, rows and
columns are stored as steps from cell to cell, in the narrowest integers that hold them. Their absolute values
at every ANCHOR_STRIDE-th cell allow one start state to be read without the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.model.boundary import StartLine, start_parts
from longalign.store.codec import ANCHOR_STRIDE, narrow
from longalign.system.threads import in_threads


@dataclass(frozen=True, slots=True, eq=False)
class PackedStarts:
    """The start states on several lines of equal length, packed. The arrays may be NumPy or lazily read ones.

    - `index` (k,) int64: boundary index of each line within its tile
    - `anchors` (k, 4, (length - 1) // ANCHOR_STRIDE + 1) int32: row and column of the start of H, then of the
      gap state, for cells 1, 1 + ANCHOR_STRIDE, ...
    - `steps` (k, 4, length - 1): those of cell x + 2 less those of cell x + 1
    - `states` (k, 2, length) uint8: the state in which H starts, and in which the gap state does
    """

    index: Any
    anchors: Any
    steps: Any
    states: Any

    def at(self, index: int, cell: int, *, gap: bool) -> tuple[int, int, int]:
        """Where H, or the gap state, of a cell starts: row, column and the number of a state.

        Cells of a line count from 1. The numbers are those of the file, so the caller must check them.
        """
        line = int(np.searchsorted(self.index[:], index))
        anchor = (cell - 1) // ANCHOR_STRIDE
        pair = slice(2 * gap, 2 * gap + 2)
        steps = self.steps[line, pair, anchor * ANCHOR_STRIDE : cell - 1]
        row, col = (self.anchors[line, pair, anchor] + steps.sum(axis=1, dtype=np.int64)).tolist()
        return row, col, int(self.states[line, int(gap), cell - 1])


#: An empty set of lines.
NO_STARTS = PackedStarts(*(np.empty((0, 0), np.int8) for _ in range(4)))


def pack_starts(index: Sequence[int], lines: Sequence[StartLine]) -> PackedStarts:
    """Pack start states, counted from the tile's corner, on lines of equal length, by increasing index."""
    if not lines:
        return NO_STARTS
    anchors, steps, states = zip(*in_threads(_packed, lines), strict=True)
    return PackedStarts(
        index=np.array(index, np.int64),
        anchors=np.stack(anchors),
        steps=np.stack(steps, dtype=np.result_type(*steps)),
        states=np.stack(states),
    )


def _packed(line: StartLine) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """The anchors, steps and states of one line."""
    h_row, h_col, h_state = start_parts(line.h)
    gap_row, gap_col, gap_state = start_parts(line.gap)
    places = np.stack([h_row, h_col, gap_row, gap_col], dtype=np.int32, casting="same_kind")
    states = np.stack([h_state, gap_state], dtype=np.uint8, casting="unsafe")
    return places[:, ::ANCHOR_STRIDE], narrow(np.diff(places)), states
