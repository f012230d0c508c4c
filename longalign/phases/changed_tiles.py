"""Phase 1 once more, after letter pairs were excluded: only tiles whose results can have changed are swept.

A tile's results follow from its letters, its excluded pairs, and its top and left edge. If these are those of
the sweep before, so are the results.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from time import perf_counter

import numpy as np

from longalign.backends.base import Backend, Progress
from longalign.events import TileFinished
from longalign.model.boundary import Edge
from longalign.model.geometry import Tile
from longalign.phases.lattice import StoreLattice
from longalign.phases.tile_step import sweep_tile
from longalign.store import TileRecord
from longalign.store.base import DamagedTile, TilePlace


class ChangedTiles:
    """A tile step like `sweep_tile`, for a lattice with more excluded pairs than `before`, a complete one.

    An unchanged tile keeps its record from there, unless that is damaged. A tile that is asked for again, as
    its record was found damaged later, is swept. May be called by several threads, for different tiles.
    """

    def __init__(self, before: StoreLattice) -> None:
        self._before = before
        self._unchanged: set[TilePlace] = set()
        self._asked_for: set[TilePlace] = set()

    def __call__(
        self, lattice: StoreLattice, backend: Backend, tile: Tile, progress: Progress
    ) -> TileFinished:
        started = perf_counter()
        is_new = (tile.row, tile.col) not in self._asked_for
        self._asked_for.add((tile.row, tile.col))
        record = self._record_before(lattice, tile) if is_new else None
        if record is None:
            return sweep_tile(lattice, backend, tile, progress)
        lattice.store.put_tile(tile, record)
        self._unchanged.add((tile.row, tile.col))
        progress(tile.cells)
        return TileFinished(tile.row, tile.col, tile.cells, perf_counter() - started, left_out=tile.cells)

    def _record_before(self, lattice: StoreLattice, tile: Tile) -> TileRecord | None:
        """The record from before, or None if it may differ now or is damaged."""
        if self._may_differ(lattice, tile):
            return None
        with suppress(DamagedTile):
            return self._before.store.get_tile(tile)
        return None

    def _may_differ(self, lattice: StoreLattice, tile: Tile) -> bool:
        place = tile.i0, tile.i1, tile.j0, tile.j1
        pairs_before, pairs = (one.problem.excluded.within(*place) for one in (self._before, lattice))
        return (
            len(pairs) > len(pairs_before)
            or self._top_differs(lattice, tile)
            or self._left_differs(lattice, tile)
        )

    def _top_differs(self, lattice: StoreLattice, tile: Tile) -> bool:
        if tile.row == 0 or (tile.row - 1, tile.col) in self._unchanged:
            return False
        place = tile.i0, tile.j0, tile.j1
        return _differ(lattice.row(*place), partial(self._before.row, *place))

    def _left_differs(self, lattice: StoreLattice, tile: Tile) -> bool:
        if tile.col == 0 or (tile.row, tile.col - 1) in self._unchanged:
            return False
        place = tile.j0, tile.i0, tile.i1
        return _differ(lattice.column(*place), partial(self._before.column, *place))


def _differ(edge: Edge, read_before: Callable[[], Edge]) -> bool:
    """Whether an edge differs from the one before, or that is damaged."""
    try:
        before = read_before()
    except DamagedTile:
        return True
    return not (np.array_equal(edge.h, before.h) and np.array_equal(edge.gap, before.gap))
