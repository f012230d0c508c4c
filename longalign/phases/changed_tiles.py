"""Phase 1 once more, after letter pairs were excluded: only tiles whose results can have changed are swept.

A tile's results follow from its letters, its excluded pairs, and its top and left edge. If these are those of
the sweep before, so are the results.
"""

from __future__ import annotations

from time import perf_counter

import numpy as np

from longalign.backends.base import Backend, Progress, no_progress
from longalign.events import TileFinished
from longalign.model.boundary import Edge
from longalign.model.geometry import Tile
from longalign.phases.lattice import StoreLattice
from longalign.phases.tile_step import sweep_tile


class ChangedTiles:
    """A tile step like `sweep_tile`, for a lattice with more excluded pairs than `before`, a complete one.

    An unchanged tile keeps its record from there. May be called by several threads, for different tiles.
    """

    def __init__(self, before: StoreLattice) -> None:
        self._before = before
        self._unchanged: set[tuple[int, int]] = set()

    def __call__(
        self, lattice: StoreLattice, backend: Backend, tile: Tile, progress: Progress = no_progress
    ) -> TileFinished:
        started = perf_counter()
        if self._may_differ(lattice, tile):
            return sweep_tile(lattice, backend, tile, progress)
        lattice.store.put_tile(tile, self._before.store.get_tile(tile))
        self._unchanged.add((tile.row, tile.col))
        return TileFinished(tile.row, tile.col, 0, perf_counter() - started)

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
        return _differ(lattice.row(*place), self._before.row(*place))

    def _left_differs(self, lattice: StoreLattice, tile: Tile) -> bool:
        if tile.col == 0 or (tile.row, tile.col - 1) in self._unchanged:
            return False
        place = tile.j0, tile.i0, tile.i1
        return _differ(lattice.column(*place), self._before.column(*place))


def _differ(edge: Edge, before: Edge) -> bool:
    return not (np.array_equal(edge.h, before.h) and np.array_equal(edge.gap, before.gap))
