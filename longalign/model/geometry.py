"""Where the DP matrix is cut: tiles, chunks, and how a budget in bytes becomes a lattice.

Nothing here touches files or devices. A *cut* is a boundary index. The cuts of a side increase from 0 to its
length. A side of length 0 has the single cut 0, and a grid with such a side has no tiles.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise, product
from math import ceil
from typing import Any

from longalign.errors import BudgetTooSmall, InputError
from longalign.model.json_fields import Fields
from longalign.model.mode import Mode
from longalign.system.sizes import format_size, round_size

#: Bytes on disk of one stored boundary cell, H and a gap state together: two 8-bit differences, and a part of
#: the anchors and the file header. Scorings with large parameters need more: see `Scoring.difference_bytes`.
BYTES_PER_STORED_CELL = 2.5

#: Additional bytes of a boundary cell in a pruned run in memory. The plan is that one in 16 differences is
#: too wide for its table, and is kept apart in 12 bytes. Lines may have more of them (`store.line_tables`).
BYTES_PER_WIDE_STEP = 1.5

#: Additional bytes for the start states of one stored boundary cell: compressed in a file, and uncompressed
#: in a store that is kept in memory.
BYTES_PER_STORED_START = 4.0
BYTES_PER_KEPT_START = 18.0

#: Bytes of one boundary cell in memory: H and a gap state, both int32.
BYTES_PER_CELL = 8

#: Bytes of the start states of one boundary cell in memory: two int64, and temporary arrays while packing.
BYTES_PER_START = 24

#: Smallest side of a chunk. Smaller chunks cost more in bookkeeping than they save in phases 2 and 3.
SMALLEST_CHUNK = 4096

#: Lattice lines lie at multiples of LINE_STEP if chunks are at least _MIN_STEPS of these steps long. Back
#: ends sweep pairs of rows, and the width of a lane's columns usually divides LINE_STEP.
LINE_STEP, _MIN_STEPS = 64, 5

#: Largest number of tiles accepted in a grid from a file. Planned grids have far fewer: each tile is a file.
MAX_TILES = 1 << 24

#: For a fine lattice on disk, chunks are sized for a `Backend.cells_per_path_cell` of at least this, but
#: their sides are not made shorter than _MIN_FINE_CHUNK letters for that.
_FINE_CELLS_PER_PATH_CELL, _MIN_FINE_CHUNK = 80, 1 << 16

#: The factor by which checkpoints may make phase 1 longer.
_MAX_CHECKPOINT_COST = 1.01

#: A tile takes at least this many seconds, and at least this share of phase 1.
_MIN_CHECKPOINT_SECONDS, _MIN_CHECKPOINT_SHARE = 5.0, 0.005

#: How many heights of tiles are tried. Every fourth one is half as high.
_CHECKPOINT_STEPS = 33


@dataclass(frozen=True, slots=True)
class Tile:
    """Tile (row, col) of the grid: the cells i0 < i <= i1, j0 < j <= j1.

    Its letters are query[i0:i1] and target[j0:j1].
    """

    row: int
    col: int
    i0: int
    i1: int
    j0: int
    j1: int

    @property
    def cells(self) -> int:
        return (self.i1 - self.i0) * (self.j1 - self.j0)


@dataclass(frozen=True, slots=True)
class Grid:
    """The lattice of stored rows and columns, and the tiles, each of which is swept in one call.

    `row_cuts` and `col_cuts` are the lattice: neighbouring cuts bound chunks. `tile_rows` and `tile_cols` are
    subsets of these cuts, so every tile consists of whole chunks.
    """

    row_cuts: tuple[int, ...]
    col_cuts: tuple[int, ...]
    tile_rows: tuple[int, ...]
    tile_cols: tuple[int, ...]

    @classmethod
    def without_cells(cls, rows: int, cols: int) -> Grid:
        """The grid of a DP matrix with no rows or no columns. It has no tiles, and nothing is stored."""
        assert 0 in (rows, cols)
        row_cuts, col_cuts = ((0, length) if length else (0,) for length in (rows, cols))
        return cls(row_cuts, col_cuts, row_cuts, col_cuts)

    @classmethod
    def from_json(cls, data: Any, rows: int, cols: int) -> Grid:
        """The grid of a DP matrix of `rows` x `cols` letters, from the JSON object of its fields.

        Raises InputError, naming the field, if the object does not describe such a grid.
        """
        fields = Fields(data, "grid")
        fields.only("row_cuts", "col_cuts", "tile_rows", "tile_cols")
        row_cuts, tile_rows = _cuts(fields, "row_cuts", "tile_rows", rows)
        col_cuts, tile_cols = _cuts(fields, "col_cuts", "tile_cols", cols)
        tiles = (len(tile_rows) - 1) * (len(tile_cols) - 1)
        if tiles > MAX_TILES:
            raise InputError(f"grid: has {tiles:,} tiles; more than {MAX_TILES:,} cannot be handled")
        return cls(row_cuts, col_cuts, tile_rows, tile_cols)

    @property
    def shape(self) -> tuple[int, int]:
        """Number of tile rows and tile columns."""
        return len(self.tile_rows) - 1, len(self.tile_cols) - 1

    @property
    def rows(self) -> int:
        return self.row_cuts[-1]

    @property
    def cols(self) -> int:
        return self.col_cuts[-1]

    @property
    def cells(self) -> int:
        return self.rows * self.cols

    @property
    def chunk_shape(self) -> tuple[int, int]:
        """Mean rows and columns of a chunk, rounded up; 0 for a side without letters."""
        row_chunks, col_chunks = max(1, len(self.row_cuts) - 1), max(1, len(self.col_cuts) - 1)
        return ceil(self.rows / row_chunks), ceil(self.cols / col_chunks)

    def tile(self, row: int, col: int) -> Tile:
        return Tile(
            row,
            col,
            self.tile_rows[row],
            self.tile_rows[row + 1],
            self.tile_cols[col],
            self.tile_cols[col + 1],
        )

    def tiles(self) -> list[Tile]:
        """All tiles, row by row."""
        rows, cols = self.shape
        return [self.tile(row, col) for row in range(rows) for col in range(cols)]

    def tile_owning(self, i: int, j: int) -> Tile:
        """The tile that computes cell (i, j), with i >= 1 and j >= 1."""
        return self.tile(owning_interval(self.tile_rows, i), owning_interval(self.tile_cols, j))

    def kept_lines(self, tile: Tile, mode: Mode) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The lattice rows and columns that a tile keeps, counted from its corner.

        Its bottom and right edge are among them. The last row and column of the DP matrix are kept only where
        the mode needs them. Phase 2 sweeps the chunk in which an alignment ends once more, up to the end
        cell. The last column need not be a multiple of a strip's width, so it costs more than others.
        """
        last_row, last_col = mode.needs_last_row, mode.needs_last_column
        rows = [cut for cut in self.row_cuts if tile.i0 < cut <= tile.i1 and (last_row or cut < self.rows)]
        cols = [cut for cut in self.col_cuts if tile.j0 < cut <= tile.j1 and (last_col or cut < self.cols)]
        return tuple([cut - tile.i0 for cut in rows]), tuple([cut - tile.j0 for cut in cols])

    @property
    def stored_cells(self) -> int:
        """Upper bound of the number of boundary cells stored for the whole lattice.

        It counts the bottom and right edges of the DP matrix, which are not always stored.
        """
        return stored_cells(self.rows, self.cols, len(self.row_cuts) - 1, len(self.col_cuts) - 1)


def _cuts(fields: Fields, cuts: str, tiles: str, length: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cuts of one side between chunks and between tiles. Raises InputError, naming the field."""
    chunk_cuts, tile_cuts = (fields.wholes(name, length) for name in (cuts, tiles))
    for name, values in ((cuts, chunk_cuts), (tiles, tile_cuts)):
        increasing = all(before < after for before, after in pairwise(values))
        if not values or (values[0], values[-1]) != (0, length) or not increasing:
            raise InputError(f"{fields.name(name)}: must increase from 0 to the length {length}")
    if not set(tile_cuts) <= set(chunk_cuts):
        raise InputError(f"{fields.name(tiles)}: must be among {cuts}")
    return chunk_cuts, tile_cuts


def stored_cells(rows: int, cols: int, lattice_rows: int, lattice_cols: int) -> int:
    """The number of boundary cells on the given lattice rows and columns of a `rows` x `cols` DP matrix."""
    return lattice_rows * cols + lattice_cols * rows


def owning_interval(cuts: tuple[int, ...], index: int) -> int:
    """The k with cuts[k] < index <= cuts[k + 1]: the interval whose cells include boundary index >= 1."""
    return bisect_left(cuts, index) - 1


def part_count(length: int, largest: int) -> int:
    """The smallest number of nearly equal parts of which none is longer than `largest`; at least 1."""
    return max(1, ceil(length / largest))


def _equal_cuts(length: int, count: int, step: int) -> tuple[int, ...]:
    """The cuts between `count` nearly equal parts, rounded down to multiples of `step`."""
    return (*(length * k // count // step * step for k in range(count)), length)


def _cut_side(
    length: int, tile: int, chunks: int, wide_step: int = LINE_STEP
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cuts between `chunks` chunks, and those between the fewest tiles of at most `tile` letters.

    The number of chunks is a multiple of the number of tiles, so that the latter cuts are among the former.
    `wide_step` is as for `line_steps`.
    """
    tiles = part_count(length, tile)
    for step in line_steps(length, chunks, wide_step):
        chunk_cuts, tile_cuts = _equal_cuts(length, chunks, step), _equal_cuts(length, tiles, step)
        if max(end - start for start, end in pairwise(tile_cuts)) <= tile:
            break
    return chunk_cuts, tile_cuts


def line_steps(length: int, chunks: int, wide_step: int) -> list[int]:
    """Steps whose multiples the lines between `chunks` chunks may lie at, best first; the last step is 1.

    For columns, `wide_step` is the width of strips: a strip can then end at each line.
    """
    return [*(step for step in (wide_step, LINE_STEP) if length // chunks >= _MIN_STEPS * step), 1]


def enlarged_tile_side(length: int, tile: int, wide_step: int) -> int:
    """A tile side slightly larger than `tile`, with room to round cuts to multiples of `wide_step`.

    Without this room, tiles of exactly equal size could not be cut at the preferred steps. The result is
    `tile` itself if a larger side would change the number of tiles. Because cuts are rounded down, the last
    tile may be up to a step longer than the others.
    """
    count = part_count(length, tile)
    step = line_steps(length, count, wide_step)[0]
    larger = (ceil(tile / step) + 1) * step
    return larger if step > 1 and tile < length and part_count(length, larger) == count else tile


def _chunk_count(length: int, tile: int, chunk: int) -> int:
    """The number of chunks of at most `chunk` letters when all tiles, of at most `tile`, have equally many.

    Tiles are of equal size because devices that share them all wait for the device with the largest one.
    """
    tiles = part_count(length, tile)
    return min(length, tiles * part_count(ceil(length / tiles), chunk))


def shared_tile_shape(
    rows: int, cols: int, largest: tuple[int, int], devices: int, seconds: Callable[[int, int], float]
) -> tuple[int, int]:
    """The tile shape, within `largest`, that minimises the time `devices` devices take for a DP matrix.

    `seconds(rows, cols)` is the time of one device for a tile of that shape, overhead included. Small tiles
    occupy every device soon; large tiles have less overhead. The time of the whole matrix is the number of
    `tile_rounds` times the time of a tile. Of shapes that take the same time, the largest is chosen, then the
    widest.
    """

    def shape_of(counts: tuple[int, int]) -> tuple[int, int]:
        return ceil(rows / counts[0]), ceil(cols / counts[1])

    def duration(counts: tuple[int, int]) -> tuple[float, int, int]:
        whole = tile_rounds(*counts, devices) * seconds(*shape_of(counts))
        return whole, counts[0] * counts[1], counts[1]

    if devices == 1:
        return largest
    row_counts = _candidate_counts(rows, largest[0], devices)
    col_counts = _candidate_counts(cols, largest[1], devices)
    return shape_of(min(product(row_counts, col_counts), key=duration))


def checkpoint_rows(
    rows: int, cols: int, shape: tuple[int, int], devices: int, seconds: Callable[[int, int], float]
) -> int:
    """The number of rows of a tile of a stored run: as few as pay off, and no more than in `shape`.

    A stopped run loses the tiles that are being swept, so with lower tiles it loses less. They make phase 1
    longer, by at most the factor `_MAX_CHECKPOINT_COST`. No tile is made so low that it takes less than
    `_MIN_CHECKPOINT_SECONDS`, or less than `_MIN_CHECKPOINT_SHARE` of phase 1. Narrower tiles would cost more
    than lower ones. `seconds` and `devices` are as for `shared_tile_shape`.
    """
    counts = part_count(rows, shape[0]), part_count(cols, shape[1])
    width = ceil(cols / counts[1])

    def duration(count: int) -> float:
        return tile_rounds(count, counts[1], devices) * seconds(ceil(rows / count), width)

    whole = duration(counts[0])
    least = max(_MIN_CHECKPOINT_SECONDS, _MIN_CHECKPOINT_SHARE * whole)
    candidates = {ceil(counts[0] * 2 ** (step / 4)) for step in range(_CHECKPOINT_STEPS)}
    worth = (
        count
        for count in candidates
        if seconds(ceil(rows / count), width) >= least and duration(count) <= _MAX_CHECKPOINT_COST * whole
    )
    return ceil(rows / max(worth, default=counts[0]))


def tile_rounds(tile_rows: int, tile_cols: int, devices: int) -> float:
    """The time of a wavefront over a grid of tiles, in units of the time of one tile.

    At most min(tile_rows, tile_cols) devices are busy at once. They start one round after another and finish
    one round after another, which adds a round for each device but the first.
    """
    busy = min(devices, tile_rows, tile_cols)
    return tile_rows * tile_cols / busy + busy - 1


def _candidate_counts(length: int, largest: int, devices: int) -> list[int]:
    """Numbers of tiles along a side to consider: the fewest possible and one a device, doubled repeatedly."""
    fewest = part_count(length, largest)
    candidates = {start << doublings for start in (fewest, devices) for doublings in range(7)}
    return [count for count in candidates if fewest <= count <= length]


def default_budget(
    rows: int,
    cols: int,
    min_chunk: int,
    cells_per_path_cell: int,
    bytes_per_cell: float,
    *,
    fine: bool,
) -> int:
    """Bytes of the lattice with which phases 2 and 3 take little time compared with phase 1.

    `min_chunk` is the least side of a chunk, and `cells_per_path_cell` that of `Backend`. A `fine` lattice
    has smaller chunks where they would otherwise be large.
    """

    def chunk_for(cells_per_path_cell: int, least: int) -> int:
        side = rows * cols // (cells_per_path_cell * (rows + cols))
        return max(SMALLEST_CHUNK, min_chunk, least, side)

    chunk = chunk_for(cells_per_path_cell, 0)
    if fine:
        chunk = min(chunk, chunk_for(_FINE_CELLS_PER_PATH_CELL, _MIN_FINE_CHUNK))
    return ceil(2 * rows * cols / chunk * bytes_per_cell) + (1 << 20)


def smallest_budget(
    rows: int, cols: int, tile_shape: tuple[int, int], bytes_per_cell: float = BYTES_PER_STORED_CELL
) -> int:
    """Bytes of the edges of tiles alone, which every run stores."""
    lines = part_count(rows, tile_shape[0]), part_count(cols, tile_shape[1])
    return ceil(stored_cells(rows, cols, *lines) * bytes_per_cell)


def budget_error(rows: int, cols: int, budget: int, needed: int) -> BudgetTooSmall:
    """The error for a `budget` of fewer bytes than `needed`."""
    return BudgetTooSmall(
        f"--store-budget {format_size(budget)} is too small for {rows:,} x {cols:,} letters: "
        f"at least {format_size(round_size(needed))} are needed",
        needed,
    )


def plan_grid(
    rows: int,
    cols: int,
    tile_shape: tuple[int, int],
    budget: int | None,
    bytes_per_cell: float = BYTES_PER_STORED_CELL,
    strip_width: int = LINE_STEP,
    chunk: int | None = None,
) -> Grid:
    """The finest lattice whose stored cells fit `budget` bytes, in nearly equal tiles within `tile_shape`.

    Columns are cut at multiples of `strip_width` where cuts are far enough apart. Without a budget, chunks
    have at most `chunk` letters a side; without both, they are tiles. Raises BudgetTooSmall if the edges of
    tiles alone need more than `budget`.
    """

    def chunk_counts(chunk: int) -> tuple[int, int]:
        return _chunk_count(rows, tile_shape[0], chunk), _chunk_count(cols, tile_shape[1], chunk)

    def unused_bytes(budget: int, chunk: int) -> int:
        return budget - ceil(stored_cells(rows, cols, *chunk_counts(chunk)) * bytes_per_cell)

    if budget is None:
        side = max(tile_shape) if chunk is None else chunk
    else:
        needed = smallest_budget(rows, cols, tile_shape, bytes_per_cell)
        if needed > budget:
            raise budget_error(rows, cols, budget, needed)
        # Bisection: larger chunks store less, and chunks as large as a tile fit the budget.
        sizes = range(SMALLEST_CHUNK, max(tile_shape))
        side = SMALLEST_CHUNK + bisect_left(sizes, 0, key=partial(unused_bytes, budget))
    row_chunks, col_chunks = chunk_counts(side)
    row_cuts, tile_rows = _cut_side(rows, tile_shape[0], row_chunks)
    col_cuts, tile_cols = _cut_side(cols, tile_shape[1], col_chunks, strip_width)
    return Grid(row_cuts, col_cuts, tile_rows, tile_cols)
