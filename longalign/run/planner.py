"""Choose how the DP matrix is cut before a run, so that memory and disk stay inside their budgets."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path

from longalign.backends.base import DeviceFacts, Workers
from longalign.errors import BackendError, BudgetTooSmall, MemoryTooSmall, UsageError
from longalign.events import Emit, ignore
from longalign.model.geometry import (
    LINE_STEP,
    Grid,
    budget_error,
    default_budget,
    enlarged_tile_side,
    plan_grid,
    smallest_budget,
)
from longalign.run.cost_model import (
    Budget,
    SpeedModel,
    describe_budgets,
    example_budgets,
)
from longalign.run.grid_bytes import (
    boundary_cells_per_tile,
    check_disk,
    check_memory,
    check_room,
    disk_is_short,
    kept_bytes,
    lattice_room,
    memory_is_short,
    spare_bytes,
    tile_bytes,
    too_little,
)
from longalign.run.host_memory import WORKER_PROGRAM_BYTES
from longalign.run.request import Request, Resources

#: The boundaries of one tile may take 1 / `_TILE_SHARE` of the memory that programs and letters leave.
_TILE_SHARE = 4

#: The most bytes of boundaries that one tile may have: it limits the work lost in a crash, and the file size.
_MAX_TILE_BYTES = 6 << 30

#: The smallest side of a tile in letters, and the fewest cells of a tile that is made smaller for lack of
#: memory. Every tile has a file, and writing a file takes time.
_MIN_TILE_SIDE, _MIN_TILE_CELLS = 1024, 1 << 30

#: The share of the cells that a pruned run of similar sequences computes, and how much less memory it must
#: need for that to be said.
_NEARLY_NONE, _MUCH_LESS = 0.001, 0.8

#: More bytes of memory than any machine has.
_BEYOND_ANY_MEMORY = 1 << 50

#: A tile that does not fit in memory is halved in width if it is more than this many times as wide as it is
#: high, otherwise in height. Each tile has to fill the pipeline of strips anew, so few wide tiles cost less
#: than many narrow ones.
_MAX_ASPECT = 8

#: The side of a small tile, in letters, is at least this.
_MIN_SMALL_SIDE = 1 << 16

#: The side of a small tile of a pruned run is at least this many times the least chunk of the device. On a
#: GPU, smaller tiles cost more for their edges than they save by being left out.
_CHUNKS_IN_SMALL_SIDE = 20

#: A matrix that would have at most this many small tiles on a side is not cut into them. On a GPU, one sweep
#: that leaves out most of it takes less time.
_FEW_SMALL_TILES = 3

#: There are at most about this many small tiles on a side of the matrix, unless their sides would exceed the
#: second number.
_MAX_SMALL_TILES, _LARGEST_SMALL_SIDE = 256, 1 << 20

#: In a run that is not pruned and looks for several alignments, there are at most this many small tiles on a
#: side of the matrix, and a side is at least this many times the least chunk. After each alignment, the tiles
#: whose results can have changed are swept again: small ones, so that little is swept again. On a GPU, a
#: sweep in many small tiles takes much longer than one in a few.
_MAX_UNPRUNED_TILES, _CHUNKS_IN_UNPRUNED_SIDE = 32, 6

#: In plentiful memory, where lines are not deflated, `Backend.min_chunk` is divided by this number. In
#: narrow bands, and with eager start states, it is not.
_SHORTER_IN_MEMORY = 2

#: The least side of a chunk of a pruned run, in letters, unless `Backend.min_chunk` is larger.
_MIN_PRUNED_CHUNK = 1 << 15

#: Chunks for which there is too little room are enlarged in proportion: fewer lines inside of tiles are then
#: kept. The edges of tiles remain, so they are enlarged at least by this factor.
_MIN_GROWTH = 1.1

#: If memory is plentiful, the lattice of a narrow band may be planned to take this many times its usual share
#: of it. Plans are cautious: from 2 M to 200 M letters, such lattices took a tenth to a fifth of what was
#: planned (`lattice_planned.json`).
_MORE_IN_MEMORY = 3

#: Between nearly equal sequences, phases 2 and 3 mostly follow diagonals and sweep few chunks. So the least
#: side of a chunk is this many times as long.
_CHUNK_OF_EQUALS = 8

#: If the usual lattice does not fit in memory, it is made coarser at most this often before all lines inside
#: of tiles are given up.
_MAX_HALVINGS = 10


def plan(request: Request, resources: Resources, emit: Emit = ignore) -> Grid:
    """Cut the DP matrix of a run into a grid with which the run stays inside `resources`.

    Raises UsageError, with figures, if the store budget, the memory or the space on the store's disk is too
    small. For a store budget, the message names larger ones and about how long a run would take with each.
    """
    try:
        return _cut_or_name_budgets(request, resources, emit)
    except MemoryTooSmall:
        raise _lack_of_memory(request, resources) from None


def _lack_of_memory(request: Request, resources: Resources) -> UsageError:
    """The error for too little memory: how much is needed.

    It also says if the store budget would be too small with any memory, or if a store would need less memory.
    """
    also = ""
    refused = _refusal(request, replace(resources, memory=_BEYOND_ANY_MEMORY))
    if isinstance(refused, BudgetTooSmall):
        needed = _min_memory(request, replace(resources, store_budget=None))
        try:
            _cut_or_name_budgets(request, replace(resources, memory=needed), ignore)
        except UsageError as too_small:
            also = f"; {too_small}"
    else:
        needed = _min_memory(request, resources)
        if request.in_memory and _refusal(replace(request, store_path=Path()), resources) is None:
            also = "; with --store DIR, which keeps boundaries on disk, that would do"
    return UsageError(too_little(request, needed, resources.memory) + also)


def _refusal(request: Request, resources: Resources) -> UsageError | None:
    """Why there is no plan, even with the coarsest lattice; None if there is one."""
    try:
        if request.rows * request.cols == 0:
            _plan_without_cells(request, resources)
        else:
            _fitting_grid(replace(_Cutter.of(request, resources), fineness=0.0), resources)
    except UsageError as refused:
        return refused
    return None


def check_letters(request: Request, resources: Resources, prunes: bool) -> None:
    """Raise UsageError, with figures, if not even programs and letters fit in memory.

    `plan` would raise the same, but the bound of a run that `prunes` takes long to find.
    """
    try:
        spare_bytes(request, resources)
    except MemoryTooSmall:
        if prunes:
            _refuse_letters(request, resources)
        plan(request, resources)


def _refuse_letters(request: Request, resources: Resources) -> None:
    """Raise UsageError with two figures if a run needs much less memory where most cells can be left out."""
    needed = _min_memory(request, resources)
    least = _min_memory(replace(request, share=_NEARLY_NONE), resources)
    if least < _MUCH_LESS * needed:
        raise UsageError(too_little(request, needed, resources.memory, least))


def _cut_or_name_budgets(request: Request, resources: Resources, emit: Emit) -> Grid:
    """The grid for the store budget. If that is too small, UsageError names budgets that are large enough."""
    try:
        return _plan(request, resources, emit)
    except BudgetTooSmall:
        assert resources.store_budget is not None
        try:
            others = _budgets(request, resources)
        except MemoryTooSmall:  # for every budget
            raise _lack_of_memory(request, resources) from None
        named = budget_error(request.rows, request.cols, resources.store_budget, others[0].size)
        raise UsageError(f"{named}; {describe_budgets(others)}") from None


def _min_memory(request: Request, resources: Resources) -> int:
    """The fewest bytes of memory for which there is a plan, or up to a hundredth more.

    There is none for `resources.memory`. Raises BackendError if no memory of any machine would be enough.
    """

    def fits(memory: int) -> bool:
        refused = _refusal(request, replace(resources, memory=memory))
        if refused is not None and not isinstance(refused, MemoryTooSmall | BudgetTooSmall):
            raise refused
        return refused is None

    refused = resources.memory
    low, high = refused, 2 * max(refused, WORKER_PROGRAM_BYTES)
    while not fits(high):
        if high > _BEYOND_ANY_MEMORY:
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
    """A few store budgets for an alignment, from the smallest sufficient one upwards, and what each costs.

    Raises UsageError, with figures, if memory or disk is too small for all of them.
    """
    return _budgets(replace(request, command="align"), resources)


def _budgets(request: Request, resources: Resources) -> list[Budget]:
    def cut(budget: int | None) -> Grid:
        return _plan(request, replace(resources, store_budget=budget))

    return example_budgets(cut, request.cell_bytes, speed_model_of(request, resources))


def speed_model_of(request: Request, resources: Resources) -> SpeedModel:
    """The model that predicts how long a run takes."""
    known = not (request.workers or request.is_eager)
    return SpeedModel(
        resources.backends,
        request.scoring,
        request.mode,
        known=known,
        eager=request.is_eager,
        strands=request.strands,
    )


def _plan(request: Request, resources: Resources, emit: Emit = ignore) -> Grid:
    """The grid for the store budget. Raises UsageError, in particular BudgetTooSmall and MemoryTooSmall."""
    if request.rows * request.cols == 0:
        return _plan_without_cells(request, resources)
    cutter = _Cutter.of(request, resources)
    try:
        grid = _fitting_grid(cutter, resources)
    except (BudgetTooSmall, MemoryTooSmall):
        grid = _grid_of_coarser_lattice(cutter, resources)
        if not request.edges_only:
            emit(memory_is_short(grid, request))
    if not request.in_memory:
        check_disk(grid, request)
        if cutter.lacks_disk:
            emit(disk_is_short(grid, request))
    return grid


def _fitting_grid(cutter: _Cutter, resources: Resources) -> Grid:
    """The grid whose tiles fit in memory, and the run as well. Raises UsageError, as `_plan` does."""
    request, shape = cutter.request, cutter.first_shape()
    while not cutter.fits(grid := cutter.grid(shape)):
        shape = _next_smaller(shape, cutter.min_tile_cells, request.workers)
    check_memory(grid, request, resources)
    return grid


def _grid_of_coarser_lattice(cutter: _Cutter, resources: Resources) -> Grid:
    """The grid with the finest lattice, to a factor of two, with which the run fits in memory after all.

    It may fit although the usual lattice does not: tiles through which many lines run take more memory, and
    smaller tiles have more edges. Raises UsageError, as `_plan` does, if no lattice will do.
    """
    coarsest = _fitting_grid(replace(cutter, fineness=0.0), resources)
    for halvings in range(1, _MAX_HALVINGS + 1):
        with suppress(UsageError):
            return _fitting_grid(replace(cutter, fineness=0.5**halvings), resources)
    return coarsest


@dataclass(frozen=True, slots=True, eq=False)
class _Cutter:
    """Cuts the matrix of `request` into grids of tiles for `devices`.

    `lattice_room` is the number of bytes of memory or disk that a lattice may take if there is no store
    budget. `tile_room` is the number of bytes of host memory that the boundaries of one tile may take.
    `fineness`, 0..1, says how much of the room inside of tiles the lattice uses; at 0, it consists of the
    edges of tiles.
    """

    request: Request
    store_budget: int | None
    devices: Sequence[DeviceFacts]
    lattice_room: int
    tile_room: int
    fineness: float = 1.0

    @classmethod
    def of(cls, request: Request, resources: Resources) -> _Cutter:
        """The cutter for a request. Raises UsageError if not even the letters fit in memory.

        Raises BackendError if the boundaries of even a small tile do not fit in device memory.
        """
        tile_room = min(spare_bytes(request, resources) // _TILE_SHARE, _MAX_TILE_BYTES)
        room = lattice_room(request, resources)
        workers = request.workers
        devices = workers.devices if workers else _local_devices(request, resources)
        if min(device.max_boundary_cells for device in devices) < 2 * _MIN_TILE_SIDE:
            raise BackendError("too little device memory is free for the boundaries of even a small tile")
        return cls(request, resources.store_budget, devices, room, tile_room)

    @property
    def min_tile_cells(self) -> int:
        """The fewest cells of a tile that is made smaller for lack of memory.

        Where memory is plentiful, there is no such limit, because more memory would not help.
        """
        return 0 if self._memory_is_plentiful else _MIN_TILE_CELLS

    @property
    def _memory_is_plentiful(self) -> bool:
        return self.tile_room == _MAX_TILE_BYTES

    def first_shape(self) -> tuple[int, int]:
        """The shape of tiles that occupies all devices; with a store, low enough that a stop costs little.

        Where a pruned run computes only a narrow band of the matrix, tiles are small: most of them are left
        out, and the others are checkpoints. Tiles are small as well where several alignments are looked for,
        because some tiles are swept again after each.

        If the edges of these tiles would take more bytes than allowed, larger tiles are tried: first those
        that share the matrix among all devices, then the largest that every device can sweep. These are also
        the tiles of the coarsest lattice.
        """
        request = self.request
        if self.fineness == 0:
            return _common_shape(request, [device.largest for device in self.devices])
        budget = self.lattice_room
        if self.store_budget is not None and not request.edges_only:
            budget = self.store_budget
        shared = _common_shape(request, [device.shared for device in self.devices])
        small = min(self._small_side(), shared[0]), min(self._small_side(), shared[1])
        low = min(shared[0], *(device.stored_rows for device in self.devices)), shared[1]
        shapes = [shared if request.in_memory else low, shared]
        if (request.is_narrow or request.top > 1) and small != shared:
            shapes.insert(0, small)
        for shape in shapes:
            smallest = smallest_budget(request.rows, request.cols, shape, request.cell_bytes)
            if request.keeps_front_only or request.kept_share * smallest <= budget:
                return shape
        return _common_shape(request, [device.largest for device in self.devices])

    def _small_side(self) -> int:
        """The side of small tiles. In a narrow band it is not much smaller than the band is wide."""
        request = self.request
        longest, shortest = max(request.rows, request.cols), min(request.rows, request.cols)
        min_chunk = max(device.min_chunk for device in self.devices)
        if not request.is_narrow:
            least = max(_MIN_SMALL_SIDE, _CHUNKS_IN_UNPRUNED_SIDE * min_chunk)
            return max(least, ceil(longest / _MAX_UNPRUNED_TILES))
        least = max(_MIN_SMALL_SIDE, _CHUNKS_IN_SMALL_SIDE * min_chunk)
        if longest <= _FEW_SMALL_TILES * least:
            return longest
        few = min(ceil(longest / _MAX_SMALL_TILES), _LARGEST_SMALL_SIDE)
        return max(least, round(request.share * shortest) // 2, few)

    def _pruned_grid(self, tile_shape: tuple[int, int], strip_width: int) -> Grid:
        """The grid of a pruned run. Its chunks are as small as the room for the lattice allows.

        Phases 2 and 3 sweep the chunks along the path a few times. If there is room only for the edges of
        tiles, each tile is one chunk, and that can take longer than phase 1. Raises BudgetTooSmall if these
        edges take more than the store budget.
        """
        request = self.request
        budget, room = self.store_budget, self.lattice_room
        if request.in_memory and self._memory_is_plentiful:
            room *= _MORE_IN_MEMORY
        if budget is not None:
            room = min(budget, room)
        room = int(self.fineness * room)
        longer = _CHUNK_OF_EQUALS if request.is_of_equals else 1
        side = longer * max(_MIN_PRUNED_CHUNK, *(device.min_chunk for device in self.devices))
        while True:
            grid = plan_grid(
                request.rows, request.cols, tile_shape, None, strip_width=strip_width, chunk=side
            )
            kept = kept_bytes(grid, request)
            if kept <= room and self.fits(grid):
                return grid
            if side >= max(tile_shape):
                break
            side = ceil(side * max(_MIN_GROWTH, kept / max(1, room)))
        if budget is not None and kept > budget:
            raise budget_error(request.rows, request.cols, budget, kept)
        return grid

    def grid(self, shape: tuple[int, int]) -> Grid:
        """The grid of tiles of about this shape.

        Raises BudgetTooSmall or another UsageError if the edges of its tiles take more bytes than allowed.
        """
        request = self.request
        rows, cols, cell_bytes = request.rows, request.cols, request.cell_bytes
        strip_width = max(device.strip_width for device in self.devices)
        tile_shape = (
            enlarged_tile_side(rows, shape[0], LINE_STEP),
            enlarged_tile_side(cols, shape[1], strip_width),
        )
        if request.is_narrow and not request.edges_only:
            return self._pruned_grid(tile_shape, strip_width)
        if request.edges_only:
            return plan_grid(rows, cols, tile_shape, None, cell_bytes, strip_width)
        smallest = smallest_budget(rows, cols, tile_shape, cell_bytes)
        if self.store_budget is not None:
            budget = self.store_budget
        elif self.fineness == 0 and request.in_memory:
            budget = smallest  # whether that is too much, `check_memory` decides
        else:
            check_room(request, smallest, self.lattice_room, shape != self.first_shape())
            budget = min(self.lattice_room, max(self._useful_budget(), smallest))
        if budget > smallest:
            budget = smallest + int(self.fineness * (budget - smallest))
        return plan_grid(rows, cols, tile_shape, budget, cell_bytes, strip_width)

    @property
    def lacks_disk(self) -> bool:
        """Whether with more free space on the disk the lattice would be finer."""
        is_default = self.store_budget is None and not (self.request.edges_only or self.request.is_narrow)
        return is_default and not self.request.in_memory and self.lattice_room < self._useful_budget()

    def _useful_budget(self) -> int:
        """The bytes of the lattice with which phases 2 and 3 take little time.

        A fine lattice costs too much with eager start states. With little memory, it would need small tiles.
        """
        request = self.request
        min_chunk = max(device.min_chunk for device in self.devices)
        finer = not request.is_eager and self._memory_is_plentiful
        return default_budget(
            request.rows,
            request.cols,
            min_chunk // _SHORTER_IN_MEMORY if request.in_memory and finer else min_chunk,
            max(device.cells_per_path_cell for device in self.devices),
            request.cell_bytes,
            fine=finer and not request.in_memory,
        )

    def fits(self, grid: Grid) -> bool:
        """Whether the boundaries of each tile fit in device memory and in host memory."""
        cells = boundary_cells_per_tile(grid, self.request.mode)
        line_bytes = max(device.line_bytes for device in self.devices)
        fits_device = cells <= min(device.max_boundary_cells for device in self.devices)
        return fits_device and tile_bytes(grid, self.request, line_bytes) <= self.tile_room


def _plan_without_cells(request: Request, resources: Resources) -> Grid:
    """The grid if a sequence has no letters. No back end is involved, and any store budget is enough."""
    grid = Grid.without_cells(request.rows, request.cols)
    check_memory(grid, request, resources)
    return grid


def _next_smaller(shape: tuple[int, int], min_cells: int, workers: Workers | None) -> tuple[int, int]:
    """The shape of tiles to try after `shape`, whose boundaries do not fit in memory.

    Raises MemoryTooSmall (on a cluster, UsageError) if smaller tiles are not allowed.
    """
    height, width = shape
    halve_height = width <= _MIN_TILE_SIDE or (height > _MIN_TILE_SIDE and height * _MAX_ASPECT >= width)
    if max(shape) <= _MIN_TILE_SIDE or height * width < 2 * min_cells:
        refused = f"the boundaries of a tile of {height:,} x {width:,} letters do not fit"
        if workers is not None:
            raise UsageError(f"{refused} in the memory of the workers: more of that would do")
        raise MemoryTooSmall(refused)
    return (ceil(height / 2), width) if halve_height else (height, ceil(width / 2))


def _local_devices(request: Request, resources: Resources) -> list[DeviceFacts]:
    """The devices of this process. If one sweeps several tiles at a time, each of its parts is a device.

    Parts keep their device memory during phases 2 and 3. So as much as one of them has is left for these.
    """
    count = resources.tiles_at_once(request)
    parts = count // len(resources.backends)
    shares = parts + 1 if parts > 1 else 1
    devices = [request.facts_about(backend, count) for backend in resources.backends]
    return [replace(one, max_boundary_cells=one.max_boundary_cells // shares) for one in devices]


def _common_shape(request: Request, shapes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The largest shape inside the matrix and inside all of `shapes`."""
    heights, widths = zip(*shapes, strict=True)
    return min(request.rows, *heights), min(request.cols, *widths)
