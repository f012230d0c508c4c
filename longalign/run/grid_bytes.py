"""The bytes of memory and disk that a grid takes, and what is said where they are not there."""

from __future__ import annotations

import os
from dataclasses import replace
from math import ceil
from pathlib import Path
from shutil import disk_usage

from longalign.backends.base import Workers
from longalign.errors import DiskTooSmall, MemoryTooSmall, UsageError
from longalign.events import Notice
from longalign.model.geometry import (
    BYTES_PER_CELL,
    BYTES_PER_START,
    BYTES_PER_WIDE_STEP,
    Grid,
    Tile,
    stored_cells,
)
from longalign.model.mode import Mode
from longalign.run.cost_model import format_share, path_share
from longalign.run.host_memory import fixed_bytes, fixed_bytes_of_worker
from longalign.run.request import Request, Resources
from longalign.system.sizes import round_size, size_in_words

#: Boundaries kept in memory may take 1 / `_LATTICE_SHARE` of the memory that is left.
_LATTICE_SHARE = 4

#: The part of a disk's free space that a plan may fill with boundaries.
_DISK_SHARE = 0.8


def check_memory(grid: Grid, request: Request, resources: Resources) -> None:
    """Raise UsageError, with figures, if a run over `grid` needs more host memory than it may use."""
    kept = request.lattices_in_memory * kept_bytes(grid, request)
    _check_memory(request, _bytes_without_lattices(grid, request, resources) + kept, resources.memory)


def max_kept_bytes(grid: Grid, request: Request, resources: Resources, tiles: int) -> int:
    """The bytes of memory that are left for the boundaries of each strand, if `tiles` are swept at a time."""
    needed = _fixed_bytes(request, resources) + tiles * _largest_tile_bytes(grid, request, resources)
    spare = resources.memory - needed
    return spare // (request.lattices_in_memory * request.strands)


def tiles_in_memory(grid: Grid, request: Request, resources: Resources) -> int:
    """The number of tiles that may be swept at a time in this process.

    Their boundaries may take half of the memory that is left besides those that the run keeps.
    """
    kept = request.lattices_in_memory * kept_bytes(grid, request)
    left = resources.memory - _fixed_bytes(request, resources) - kept
    return left // 2 // max(1, _largest_tile_bytes(grid, request, resources))


def _largest_tile_bytes(grid: Grid, request: Request, resources: Resources) -> int:
    devices = request.workers.devices if request.workers else resources.backends
    return tile_bytes(grid, request, max(device.line_bytes for device in devices))


def _bytes_without_lattices(grid: Grid, request: Request, resources: Resources) -> int:
    """Bytes of host memory that this process needs besides lattices. Raises UsageError for small workers."""
    workers, tile = request.workers, _largest_tile_bytes(grid, request, resources)
    needed = _fixed_bytes(request, resources)
    if workers is None:
        needed += resources.tiles_at_once(request, min(grid.shape)) * tile
    else:
        of_worker = fixed_bytes_of_worker(request.rows + request.cols, request.strands)
        _check_worker(request, of_worker + tile, workers)
    return needed


def check_memory_of_paths(request: Request, resources: Resources) -> None:
    """Raise UsageError, with figures, if phases 2 and 3 alone need more host memory than they may use.

    A request for a score counts as one for an alignment, since `trace` follows paths in the store of a score.
    """
    request = replace(request, command="align")
    _check_memory(request, _fixed_bytes(request, resources), resources.memory)


def fits_without_tiles(request: Request, resources: Resources) -> bool:
    """Whether there is host memory for all that a run needs besides tiles and the lattice."""
    return _fixed_bytes(request, resources) <= resources.memory


def check_disk(grid: Grid, request: Request, missing: float = 1.0) -> None:
    """Raise DiskTooSmall, with figures, if a disk has too little space for the boundaries of a store.

    `missing` is the share of the matrix whose boundaries the store does not hold yet.
    """
    assert request.store_path is not None
    needed = ceil(missing * kept_bytes(grid, request))
    free = disk_usage(_existing(request.store_path)).free
    if needed > free:
        coarser = (grid.row_cuts, grid.col_cuts) != (grid.tile_rows, grid.tile_cols)
        raise DiskTooSmall(
            f"{request.store_path}: the boundaries of {request} take about {_about(needed)}, and "
            f"{_at_most(free)} of the disk are free: make room, or begin a store "
            f"{'with a smaller --store-budget, or ' * coarser}on another disk"
        )


def kept_bytes(grid: Grid, request: Request) -> int:
    """Bytes of the boundaries that a run keeps."""
    cells = grid.stored_cells
    if request.keeps_front_only:
        cells = min(cells, grid.rows + grid.cols)
    return ceil(request.kept_share * cells * request.cell_bytes)


def spare_bytes(request: Request, resources: Resources) -> int:
    """Bytes of host memory for each tile that is swept. Raises UsageError if not even the letters fit."""
    fixed = _fixed_bytes(request, resources)
    _check_memory(request, fixed, resources.memory)
    if request.workers is None:
        return (resources.memory - fixed) // resources.tiles_at_once(request)
    of_worker = fixed_bytes_of_worker(request.rows + request.cols, request.strands)
    _check_worker(request, of_worker, request.workers)
    return request.workers.memory - of_worker


def check_room(request: Request, needed: int, room: int, lacks_memory: bool) -> None:
    """Raise an error, with figures, if the edges of tiles, which take `needed` bytes, exceed `room`.

    It is MemoryTooSmall if a lattice is kept in memory, and if tiles are small for lack of memory. Otherwise
    it is DiskTooSmall.
    """
    if needed > room:
        refused = f"the boundaries of {request} take at least {_about(needed)}"
        refused += f", and there is room for {_at_most(room)}"
        if request.lattices_in_memory or lacks_memory:
            raise MemoryTooSmall(refused)
        raise DiskTooSmall(f"{refused}: make room, or begin a store on another disk")


def lattice_room(request: Request, resources: Resources) -> int:
    """The bytes of memory or disk that a lattice may take if no store budget is given."""
    in_memory = (resources.memory - _fixed_bytes(request, resources)) // _LATTICE_SHARE
    if request.store_path is None:
        return in_memory
    on_disk = int(disk_usage(_existing(request.store_path)).free * _DISK_SHARE)
    return min(on_disk, in_memory) if request.lattices_in_memory else on_disk


def _existing(path: Path) -> Path:
    """The path, or, if it does not exist, the nearest parent folder that does."""
    folders = (path, *path.absolute().parents)
    return next(folder for folder in folders if os.path.exists(folder))  # noqa: PTH110 - Path.exists raises EACCES


def tile_bytes(grid: Grid, request: Request, line_bytes: int) -> int:
    """Bytes of host memory that one tile's lattice takes, from its sweep until it is in its file.

    With eager start states, the whole lattice and all start states are in memory, first unpacked and then
    packed as well.
    """
    cell_bytes: float = line_bytes * request.scoring.difference_bytes
    if request.is_pruned and request.in_memory:
        cell_bytes += BYTES_PER_WIDE_STEP
    if request.is_eager:
        cell_bytes = 2 * (BYTES_PER_CELL + BYTES_PER_START)
    return ceil(cell_bytes * boundary_cells_per_tile(grid, request.mode))


def boundary_cells_per_tile(grid: Grid, mode: Mode) -> int:
    """The largest number of boundary cells in any tile. The first or the last tile has it."""
    if grid.cells == 0:
        return 0
    first, last = grid.tile(0, 0), grid.tile(*(n - 1 for n in grid.shape))
    return max(_boundary_cells(grid, tile, mode) for tile in (first, last))


def _boundary_cells(grid: Grid, tile: Tile, mode: Mode) -> int:
    lines = map(len, grid.kept_lines(tile, mode))
    return stored_cells(tile.i1 - tile.i0, tile.j1 - tile.j0, *lines)


def _fixed_bytes(request: Request, resources: Resources) -> int:
    """Bytes of host memory that this process needs besides tiles and the lattice."""
    letters, has_paths = request.rows + request.cols, request.command == "align"
    return fixed_bytes(letters, resources.backends, has_paths, request.strands)


def _check_memory(request: Request, needed: int, memory: int) -> None:
    if needed > memory:
        raise MemoryTooSmall(too_little(request, needed, memory))


def too_little(request: Request, needed: int, memory: int, pruned: int | None = None) -> str:
    """The message where a run needs more host memory than it may use, or `pruned` bytes in the best case."""
    best = "" if pruned is None else f", or {_enough(pruned)} if nearly all cells can be left out"
    budget = _at_most(memory)
    return f"{request} need about {_enough(needed)} of memory{best}, and the budget is {budget} (--mem)"


def memory_is_short(grid: Grid, request: Request) -> Notice:
    """That the lattice is coarse for lack of memory."""
    return Notice(f"memory is short (--mem), so fewer boundaries are kept: {_later_phases(grid, request)}")


def disk_is_short(grid: Grid, request: Request) -> Notice:
    """The same for lack of space on the disk of the store."""
    return Notice(
        f"{request.store_path}: little of the disk is free, so few boundaries are stored: "
        f"{_later_phases(grid, request)}"
    )


def _later_phases(grid: Grid, request: Request) -> str:
    share = format_share(path_share(grid, request.is_eager))
    return f"phases 2 and 3 compute about {share} as many cells as phase 1"


def _check_worker(request: Request, needed: int, workers: Workers) -> None:
    if needed > workers.memory:
        raise UsageError(
            f"{request} need about {_about(needed)} of memory on every worker, "
            f"and one can spare {_at_most(workers.memory)}"
        )


def _about(needed: int) -> str:
    """A size, rounded up, for a message."""
    return size_in_words(round_size(needed))


def _enough(needed: int) -> str:
    """A size of memory that is enough now and in another process, which may take a little more itself."""
    return _about(needed + needed // 50)


def _at_most(size: int) -> str:
    """A size, rounded down, for a message."""
    return size_in_words(round_size(size, up=False))
