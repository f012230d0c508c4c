"""Before a run: how the matrix is cut, so that host and device memory stay inside their budgets."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from shutil import disk_usage
from typing import TYPE_CHECKING

from longalign.backends.base import Backend, DeviceFacts, Workers
from longalign.errors import BackendError, BudgetTooSmall, MemoryTooSmall, UsageError
from longalign.model.geometry import (
    BYTES_PER_CELL,
    BYTES_PER_KEPT_START,
    BYTES_PER_START,
    BYTES_PER_STORED_CELL,
    BYTES_PER_STORED_START,
    LINE_STEP,
    Grid,
    Tile,
    budget_error,
    default_budget,
    enlarged_tile_side,
    plan_grid,
    smallest_budget,
    stored_cells,
)
from longalign.model.mode import LOCAL, Mode
from longalign.model.scoring import Scoring
from longalign.run.cost_model import Budget, SpeedModel, budgets_worth_knowing, in_words
from longalign.run.spec import RunSpec
from longalign.store.manifest import Command, StartStates
from longalign.system.sizes import format_size, round_size

if TYPE_CHECKING:  # it brings Dask along
    from longalign.run.engines.dask import Cluster

#: What Python, Numba and the libraries take before the first letter is read.
_PROGRAM_BYTES = 400 << 20

#: Letters, codes, these backwards, the edges of the matrix and of a tile, and a back end's buffers.
_BYTES_PER_LETTER = 48

#: Of the memory that is left, the part that boundaries kept there may take, and that a tile's may.
_LATTICE_SHARE = 4
_TILE_SHARE = 4

#: Bytes of boundaries that one tile returns, at most: what a crash may cost, and a file may hold.
_LARGEST_TILE = 6 << 30

#: Tiles are not made smaller than this many letters a side, nor, for want of memory, than this many cells:
#: each has a file, which takes its time.
_SMALLEST_TILE, _FEWEST_CELLS = 1024, 1 << 30

#: Bytes of memory that no machine has.
_NO_MACHINE = 1 << 50

#: Tiles of fewer rows than columns are cut in width, not in height, from this ratio on: the fewer tiles stand
#: side by side, the fewer pipelines of strips are filled.
_FLATTEST = 8

#: Of the free space of a disk, the part that a store plans to fill.
_DISK_SHARE = 0.8

_USUAL_SCORING = Scoring()


@dataclass(frozen=True, slots=True)
class Resources:
    """What a run may use: devices, bytes of host memory, and bytes of boundaries.

    `store_budget` None means as many bytes as make phases 2 and 3 cheap, if memory or disk has them.
    `cluster`, where there is one, connects for a matrix of so many rows and columns to workers that sweep its
    tiles instead of `backends`.
    """

    backends: Sequence[Backend]
    memory: int
    store_budget: int | None = None
    cluster: Callable[[int, int], AbstractContextManager[Cluster]] | None = None


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be run, as far as the way to cut its matrix of `rows` x `cols` letters depends on it.

    `command` "score" keeps no lattice beyond the edges of tiles, unless it is to hold eager start states.
    Without `store_path`, boundaries are kept in memory. `workers`, if there are any, sweep the tiles instead
    of the devices of the resources.
    """

    rows: int
    cols: int
    command: Command = "align"
    store_path: Path | None = None
    workers: Workers | None = None
    start_states: StartStates = "lazy"
    scoring: Scoring = _USUAL_SCORING
    mode: Mode = LOCAL

    @classmethod
    def of(cls, spec: RunSpec, workers: Workers | None = None) -> Request:
        """What the plan for a run depends on."""
        return cls(
            spec.query.length,
            spec.target.length,
            spec.command,
            spec.store,
            workers,
            spec.start_states,
            spec.scoring,
            spec.mode,
        )

    @property
    def in_memory(self) -> bool:
        """Whether the lattice is kept there."""
        return self.store_path is None

    @property
    def is_eager(self) -> bool:
        """Whether it holds start states as well."""
        return self.start_states == "eager"

    @property
    def edges_only(self) -> bool:
        """Whether there is no lattice beyond the edges of tiles."""
        return self.command == "score" and not self.is_eager

    @property
    def cell_bytes(self) -> float:
        """Bytes that are planned for a boundary cell, with its start states where they are eager."""
        cell_bytes = BYTES_PER_STORED_CELL * self.scoring.difference_bytes
        if not self.is_eager:
            return cell_bytes
        return cell_bytes + (BYTES_PER_KEPT_START if self.in_memory else BYTES_PER_STORED_START)

    @property
    def fixed_bytes(self) -> int:
        """Bytes of memory that every process which sweeps tiles needs beside them."""
        return _PROGRAM_BYTES + _BYTES_PER_LETTER * (self.rows + self.cols)

    def __str__(self) -> str:
        return f"{self.rows:,} x {self.cols:,} letters"


def plan(request: Request, resources: Resources) -> Grid:
    """Cut a matrix so that a run stays inside `resources`.

    Raises UsageError, with figures, if a budget is too small, or memory, or the space on the store's disk;
    how long runs with other budgets would take also depends on the scoring and the mode.
    """

    def fits(memory: int) -> bool:
        try:
            _plan(request, replace(resources, memory=memory))
        except MemoryTooSmall:
            return False
        return True

    def fits_with_store() -> bool:
        with suppress(UsageError):
            _plan(replace(request, store_path=Path()), resources)
            return True
        return False

    try:
        return _cut_or_name_budgets(request, resources)
    except MemoryTooSmall:
        needed, memory = _least_memory(fits, resources.memory), resources.memory
        stored = request.in_memory and fits_with_store()
        elsewhere = "; with --store DIR, which keeps boundaries on disk, that would do" * stored
        raise UsageError(f"{_too_little(request, needed, memory)}{elsewhere}") from None


def _cut_or_name_budgets(request: Request, resources: Resources) -> Grid:
    """The grid for a budget; if that is too small, UsageError says which ones would do."""
    try:
        return _plan(request, resources)
    except BudgetTooSmall as refused:
        assert resources.store_budget is not None
        try:
            others = _budgets(request, resources)
        except MemoryTooSmall:  # for any of them: more of it would not mend this one
            raise UsageError(str(refused)) from None
        named = budget_error(request.rows, request.cols, resources.store_budget, others[0].size)
        raise UsageError(f"{named}; {in_words(others)}") from None


def _least_memory(fits: Callable[[int], bool], too_little: int) -> int:
    """About the fewest bytes of memory that do, a hundredth more at most."""
    low, high = too_little, 2 * max(too_little, _PROGRAM_BYTES)
    while not fits(high):
        if high > _NO_MACHINE:
            raise BackendError(
                "too little device memory is free for the boundaries of tiles: a smaller --store-budget, or "
                "smaller sequences, would do"
            )
        low, high = high, 2 * high
    while high - low > high // 128:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def store_budgets(request: Request, resources: Resources) -> list[Budget]:
    """Some store budgets for an alignment, from the smallest that works on, and what each costs.

    Raises UsageError, with figures, if there is too little memory or disk for any.
    """
    return _budgets(replace(request, command="align"), resources)


def _budgets(request: Request, resources: Resources) -> list[Budget]:
    def cut(budget: int | None) -> Grid:
        return _plan(request, replace(resources, store_budget=budget))

    return budgets_worth_knowing(cut, request.cell_bytes, speed_model_of(request, resources))


def speed_model_of(request: Request, resources: Resources) -> SpeedModel:
    """How fast a run is."""
    known = not (request.workers or request.is_eager)
    return SpeedModel(resources.backends, request.scoring, request.mode, known, request.is_eager)


def _plan(request: Request, resources: Resources) -> Grid:
    """The grid for a budget. Raises BudgetTooSmall and MemoryTooSmall, too."""
    rows, cols, workers, cell_bytes = request.rows, request.cols, request.workers, request.cell_bytes
    if rows * cols == 0:
        return _plan_without_cells(request, resources)
    spare, room = _spare_bytes(request, resources), _room(request, resources)
    devices = workers.devices if workers else _devices_here(rows, cols, resources)
    budget = room if request.edges_only or resources.store_budget is None else resources.store_budget
    shape = _tile_shape(rows, cols, devices, budget, cell_bytes)
    strip_width = max(device.strip_width for device in devices)
    least_chunk = max(device.least_chunk for device in devices)
    stored = not request.in_memory
    # Eager start states take more of everything; and with little memory, a fine lattice means small tiles.
    fine = stored and not request.is_eager and spare // _TILE_SHARE >= _LARGEST_TILE
    path_share = max(device.path_share for device in devices)
    useful = default_budget(rows, cols, least_chunk, path_share, cell_bytes, fine=fine)
    line_bytes = max(device.line_bytes for device in devices)
    max_boundary_cells = min(device.max_boundary_cells for device in devices)
    most_bytes = min(spare // _TILE_SHARE, _LARGEST_TILE)
    if max_boundary_cells < 2 * _SMALLEST_TILE:
        raise BackendError("too little device memory is free for the boundaries of even a small tile")

    def grid_of(shape: tuple[int, int]) -> Grid:
        """The grid of tiles of about this shape."""
        largest = (
            enlarged_tile_side(rows, shape[0], LINE_STEP),
            enlarged_tile_side(cols, shape[1], strip_width),
        )
        if request.edges_only:
            return plan_grid(rows, cols, largest, None, strip_width=strip_width)
        if resources.store_budget is None:
            _check_room(request, smallest_budget(rows, cols, largest, cell_bytes), room)
        return _cut(rows, cols, largest, useful, room, resources.store_budget, cell_bytes, strip_width)

    def fits(grid: Grid) -> bool:
        tile_bytes = _tile_bytes(grid, request, line_bytes)
        return _most_boundary_cells(grid, request.mode) <= max_boundary_cells and tile_bytes <= most_bytes

    fewest_cells = 0 if most_bytes == _LARGEST_TILE else _FEWEST_CELLS  # else more memory is of no use
    while not fits(grid := grid_of(shape)):
        shape = _next_smaller(shape, fewest_cells, workers)
    check_memory(grid, request, resources)
    if stored:
        check_disk(grid, request)
    return grid


def _plan_without_cells(request: Request, resources: Resources) -> Grid:
    """The grid where a sequence has no letters: back ends are not asked, and any budget will do."""
    grid = Grid.without_cells(request.rows, request.cols)
    check_memory(grid, request, resources)
    return grid


def _next_smaller(shape: tuple[int, int], fewest_cells: int, workers: Workers | None) -> tuple[int, int]:
    """The shape of tiles to try next, where these have boundaries for which there is no memory."""
    height, width = shape
    tall = width <= _SMALLEST_TILE or (height > _SMALLEST_TILE and height * _FLATTEST >= width)
    if max(shape) <= _SMALLEST_TILE or height * width < 2 * fewest_cells:
        refused = f"the boundaries of a tile of {height:,} x {width:,} letters do not fit"
        if workers is not None:
            raise UsageError(f"{refused} in the memory of the workers: more of that would do")
        raise MemoryTooSmall(refused)
    return (ceil(height / 2), width) if tall else (height, ceil(width / 2))


def check_memory(grid: Grid, request: Request, resources: Resources) -> None:
    """Raise UsageError, with figures, if a run over `grid` needs more memory than it may use."""
    workers = request.workers
    line_bytes = max(device.line_bytes for device in (workers.devices if workers else resources.backends))
    tile = _tile_bytes(grid, request, line_bytes)
    needed = request.fixed_bytes + _host_bytes_per_call(resources)
    if workers is None:
        needed += len(resources.backends) * tile
    else:
        _check_worker(request, request.fixed_bytes + tile, workers)
    kept = ceil(grid.stored_cells * request.cell_bytes) if request.in_memory else 0
    _check_memory(request, needed + kept, resources.memory)


def check_memory_of_paths(request: Request, resources: Resources) -> None:
    """Raise UsageError, with figures, if phases 2 and 3 alone, over a store, need more memory."""
    _check_memory(request, request.fixed_bytes + _host_bytes_per_call(resources), resources.memory)


def check_disk(grid: Grid, request: Request, missing: float = 1.0) -> None:
    """Raise UsageError, with figures, if a disk has too little space for the boundaries of a store.

    `missing` is the share of the matrix of which it does not hold them yet.
    """
    assert request.store_path is not None
    needed = ceil(missing * grid.stored_cells * request.cell_bytes)
    free = disk_usage(_existing(request.store_path)).free
    if needed > free:
        coarser = (grid.row_cuts, grid.col_cuts) != (grid.tile_rows, grid.tile_cols)
        raise UsageError(
            f"{request.store_path}: the boundaries of {request} take about {_about(needed)}, and "
            f"{_no_more_than(free)} of the disk are free: make room, or begin a store "
            f"{'with a smaller --store-budget, or ' * coarser}on another disk"
        )


def _spare_bytes(request: Request, resources: Resources) -> int:
    """Bytes of memory that a device has for its tile. Raises UsageError if not even the letters fit."""
    fixed = request.fixed_bytes
    _check_memory(request, fixed + _host_bytes_per_call(resources), resources.memory)
    if request.workers is None:
        return (resources.memory - fixed - _host_bytes_per_call(resources)) // len(resources.backends)
    _check_worker(request, fixed, request.workers)
    return request.workers.memory - fixed


def _devices_here(rows: int, cols: int, resources: Resources) -> list[DeviceFacts]:
    count = len(resources.backends)
    return [DeviceFacts.of(backend, rows, cols, count) for backend in resources.backends]


def _tile_shape(
    rows: int, cols: int, devices: Sequence[DeviceFacts], budget: int, cell_bytes: float
) -> tuple[int, int]:
    """Tiles for all devices; as few as may be where their edges would take more than `budget` bytes."""
    shape = _smallest(rows, cols, [device.shared for device in devices])
    if smallest_budget(rows, cols, shape, cell_bytes) > budget:
        shape = _smallest(rows, cols, [device.largest for device in devices])
    return shape


def _smallest(rows: int, cols: int, shapes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    return min(rows, *(shape[0] for shape in shapes)), min(cols, *(shape[1] for shape in shapes))


def _cut(
    rows: int,
    cols: int,
    shape: tuple[int, int],
    useful: int,
    room: int,
    wanted: int | None,
    cell_bytes: float,
    strip_width: int,
) -> Grid:
    """The grid for tiles of `shape`: in `wanted` bytes, else in as many `useful` ones as `room` has."""
    least = smallest_budget(rows, cols, shape, cell_bytes)
    default = min(room, max(useful, least))
    budget = default if wanted is None else wanted
    return plan_grid(rows, cols, shape, budget, cell_bytes, strip_width)


def _check_room(request: Request, least: int, room: int) -> None:
    """Raise UsageError, with figures, if there is no room for the edges of tiles."""
    if least > room:
        refused = f"the boundaries of {request} take at least {_about(least)}"
        refused += f", and there is room for {_no_more_than(room)}"
        if request.in_memory:
            raise MemoryTooSmall(refused)
        raise UsageError(f"{refused}: make room, or begin a store on another disk")


def _room(request: Request, resources: Resources) -> int:
    """Bytes of memory or disk that a lattice may take if nobody says how many."""
    if request.store_path is None:
        spare = resources.memory - request.fixed_bytes - _host_bytes_per_call(resources)
        return spare // _LATTICE_SHARE
    return int(disk_usage(_existing(request.store_path)).free * _DISK_SHARE)


def _existing(path: Path) -> Path:
    """The path, or the folder above it in which it would be made."""
    folders = (path, *path.absolute().parents)
    return next(folder for folder in folders if os.path.exists(folder))  # noqa: PTH110 - Path.exists raises EACCES


def _tile_bytes(grid: Grid, request: Request, line_bytes: int) -> int:
    """Bytes of host memory for one tile's lattice, from its sweep to its file.

    Where it is eager, the lattice is there as a whole before it is packed, start states as well.
    """
    cell_bytes = line_bytes * request.scoring.difference_bytes
    if request.is_eager:
        cell_bytes = 2 * (BYTES_PER_CELL + BYTES_PER_START)
    return cell_bytes * _most_boundary_cells(grid, request.mode)


def _most_boundary_cells(grid: Grid, mode: Mode) -> int:
    """The boundary cells of the tile that has the most of them: the first one or the last one."""
    if grid.cells == 0:
        return 0
    first, last = grid.tile(0, 0), grid.tile(*(n - 1 for n in grid.shape))
    return max(_boundary_cells(grid, tile, mode) for tile in (first, last))


def _boundary_cells(grid: Grid, tile: Tile, mode: Mode) -> int:
    lines = len(grid.rows_in(tile)), len(grid.cols_kept(tile, mode.needs_last_column))
    return stored_cells(tile.i1 - tile.i0, tile.j1 - tile.j0, *lines)


def _host_bytes_per_call(resources: Resources) -> int:
    """Bytes of memory that phases 2 and 3 need beside the lattice; they run on the first device."""
    return resources.backends[0].host_bytes_per_call


def _check_memory(request: Request, needed: int, memory: int) -> None:
    if needed > memory:
        raise MemoryTooSmall(_too_little(request, needed, memory))


def _too_little(request: Request, needed: int, memory: int) -> str:
    return (
        f"{request} need about {_about(needed)} of memory, and the budget is {_no_more_than(memory)} (--mem)"
    )


def _check_worker(request: Request, needed: int, workers: Workers) -> None:
    if needed > workers.memory:
        raise UsageError(
            f"{request} need about {_about(needed)} of memory on every worker, "
            f"and one can spare {_no_more_than(workers.memory)}"
        )


def _about(needed: int) -> str:
    return format_size(round_size(needed))


def _no_more_than(size: int) -> str:
    return format_size(round_size(size, up=False))
