"""Which rows of each strip of a pruned rectangle can be needed, found before the sweep.

A sweep tests every row block with the values around it (`device.left_out_blocks`). But most of a tile of a
narrow band lies so far from the band that the tile's edges tell that it is not needed. Strips have no row
blocks there.

**The values.** Paths come from the upper or the left edge. On its way from (0, c) to (i, j), a path has at
most min(i, j - c) letter pairs, each worth at most s, and gaps only cost. So H is at most the lower one of

    h(0, c) + s*i    and    (h(0, c) - s*c) + s*j

The highest h(0, c) and the highest h(0, c) - s*c of all c <= j give a bound for all paths from the upper
edge, and likewise for those from the left edge. A gap state is not above H. In local mode a path may also
begin inside, with 0: the corner has no lower H, and a path from there may have as many letter pairs.

**The test.** It is that of `model.pruning`. Strips are cut into boxes, which include the boundaries around
them. A box is needed if the bound of the values at its lower right corner, with the most that can be gained
from anywhere in the box, reaches the bound of the sweep. So no path of interest visits a boundary of a box
that is not needed, and the box may be left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import SweepJob
from longalign.model.boundary import UNBOUNDED, Edge

#: Places or columns, or numbers of them.
Places = NDArray[np.int64]

#: The most boxes on a side of a rectangle. A box has the columns of one strip or of a few.
_BOXES = 512


class NeededRows(NamedTuple):
    """The rows of each strip that may be needed, `first` <= row < `end`, int64 of shape (strips,).

    No strip begins above its left neighbour. One without rows has the same `first` and `end`.
    """

    first: Places
    end: Places


def needed_rows(job: SweepJob, column: Places, width: Places, block_rows: int) -> NeededRows:
    """The rows that may be needed of strips that begin at the columns `column`, in order.

    `first` is a multiple of `block_rows`. `end` is one as well, or the number of rows. `job` is pruned.
    """
    assert job.pruning is not None
    rows, pair, strips = len(job.query), job.scoring.highest, len(column)
    height = -(-rows // (_BOXES * block_rows)) * block_rows
    above = np.arange(0, rows, height)
    below = np.minimum(above + height, rows)
    together = -(-strips // _BOXES)
    box = np.arange(strips) // together  # of each strip
    last = np.append(np.flatnonzero(np.diff(box)), strips - 1)
    left, right = column[::together, None], (column + width)[last, None]
    highest = np.maximum(_reached(job.top, pair, right, below), _reached(job.left, pair, below, right))
    gain = job.pruning.gain(above, below, left, right)
    is_needed = highest + gain >= job.pruning.bound - job.scoring.gap_open
    is_any = is_needed.any(axis=1)
    first = np.where(is_any, above[is_needed.argmax(axis=1)], rows)
    end = np.where(is_any, below[len(above) - 1 - is_needed[:, ::-1].argmax(axis=1)], 0)
    first = np.minimum.accumulate(first[::-1])[::-1]
    return NeededRows(first[box], _connected(first, np.maximum(first, end), min(block_rows, rows))[box])


def _connected(first: Places, end: Places, least: int) -> Places:
    """Further ends: between strips that have rows, all have some, and each begins above its neighbour's end.

    `device.sync` says why. A strip and its left neighbour share at least `least` rows.
    """
    has_rows = np.flatnonzero(end > first)
    if len(has_rows):
        part = slice(has_rows[0], has_rows[-1] + 1)
        end[part][:-1] = np.maximum(end[part][:-1], first[part][1:] + least)
        end[part] = np.maximum.accumulate(end[part])
    return end


def _reached(edge: Edge, pair: int, along: Places, across: Places) -> Places:
    """A bound of H of paths from an edge: in cells so many letters along it, and across from it, at most.

    The arrays broadcast.
    """
    starts, highest = edge.stretches()
    ends = [*starts[1:].tolist(), len(edge) + 1]
    for k in np.flatnonzero(highest == UNBOUNDED).tolist():
        highest[k] = edge.cells(int(starts[k]), ends[k])[0].max()
    at = np.searchsorted(starts, along, side="right") - 1
    here = np.maximum.accumulate(highest.astype(np.int64))[at]
    on_diagonal = np.maximum.accumulate(highest - pair * starts)[at]
    return np.minimum(here + pair * across, on_diagonal + pair * along)
