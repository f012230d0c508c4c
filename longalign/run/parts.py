"""The back ends that sweep the tiles of a run in this process: its devices, or parts of them."""

from __future__ import annotations

from collections.abc import Sequence

from longalign.backends.base import Backend
from longalign.model.geometry import Grid
from longalign.run.grid_bytes import boundary_cells_per_tile
from longalign.run.request import Request, Resources


def sweepers(grid: Grid, request: Request, resources: Resources) -> Sequence[Backend]:
    """The back ends for the tiles of a grid, of which at most `min(grid.shape)` can be swept at a time."""
    tiles = resources.tiles_at_once(request, min(grid.shape))
    return parts_of(resources.backends, tiles, boundary_cells_per_tile(grid, request.mode), streams=True)


def parts_of(backends: Sequence[Backend], tiles: int, cells: int, *, streams: bool) -> Sequence[Backend]:
    """Back ends for a number of tiles at once, the same number for each device, if its memory suffices.

    `cells` is the largest number of boundary cells of a tile. `streams` is as for `Backend.parts`.
    """
    each = -(-tiles // len(backends))
    if each == 1:
        return backends
    return [part for backend in backends for part in backend.parts(each, cells, streams=streams)]
