"""Where the matrix is cut: tiles, chunks, and how a budget in bytes becomes a lattice.

Pure integer arithmetic. A *cut* is a boundary index; cuts always begin with 0, end with the length, and
increase. A side of length 0 has the one cut 0: a grid with such a side has no tiles.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise, product
from math import ceil
from typing import Any

from longalign.errors import BudgetTooSmall, InputError
from longalign.model.json_fields import Fields
from longalign.system.sizes import format_size, round_size

#: Bytes that one stored boundary cell takes, H and a gap state together: two 8-bit differences, and
#: the anchors and file headers around them. Steep scorings take more: see `Scoring.difference_bytes`.
BYTES_PER_STORED_CELL = 2.5

#: Bytes that the start states of one stored boundary cell take beside it: in a file, where they are
#: compressed, and in memory, where they are not.
BYTES_PER_STORED_START = 4.0
BYTES_PER_KEPT_START = 18.0

#: Bytes of one boundary cell in memory: two int32.
BYTES_PER_CELL = 8

#: Bytes of its start states there: two int64, and their parts while they are packed.
BYTES_PER_START = 24

#: Chunks finer than this cost more in bookkeeping than they save in phases 2 and 3.
SMALLEST_CHUNK = 4096

#: What lines are at multiples of, where they are at least so many of these apart: back ends sweep rows in
#: pairs, and strips of columns whose parts most often divide this.
LINE_STEP, _STEPS_A_PART = 64, 5

#: How many times as tall as a short last tile the others are, at most: its sweep should not be over before
#: the file of the tile above it is written.
_TALLER = 3

#: The most tiles that a grid from a file may have. Plans have far fewer, because each tile is a file.
MOST_TILES = 1 << 24

#: Where a disk has room for more boundaries, chunks are sized for this `path_share` at least, but not made
#: smaller for that than this many letters a side.
_FINE_SHARE, _LEAST_FINE_CHUNK = 80, 1 << 16


@dataclass(frozen=True, slots=True)
class Tile:
    """Tile (row, col) of the grid: the cells i0 < i <= i1, j0 < j <= j1, letters i0..i1 and j0..j1."""

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
    """The lattice whose rows and columns are stored, and the tiles that are swept in one call each.

    `tile_rows` and `tile_cols` are subsets of `row_cuts` and `col_cuts`, so a tile holds whole chunks.
    """

    row_cuts: tuple[int, ...]
    col_cuts: tuple[int, ...]
    tile_rows: tuple[int, ...]
    tile_cols: tuple[int, ...]

    @classmethod
    def without_cells(cls, rows: int, cols: int) -> Grid:
        """The grid of a matrix with no rows or no columns: no sweep is needed, and nothing is stored."""
        assert 0 in (rows, cols)
        row_cuts, col_cuts = ((0, length) if length else (0,) for length in (rows, cols))
        return cls(row_cuts, col_cuts, row_cuts, col_cuts)

    @classmethod
    def from_json(cls, data: Any, rows: int, cols: int) -> Grid:
        """The grid of a matrix of `rows` x `cols` letters from its fields, after a way through a file.

        Raises InputError, naming the field, for anything that is not such a grid.
        """
        fields = Fields(data, "grid")
        fields.only("row_cuts", "col_cuts", "tile_rows", "tile_cols")
        row_cuts, tile_rows = _cuts(fields, "row_cuts", "tile_rows", rows)
        col_cuts, tile_cols = _cuts(fields, "col_cuts", "tile_cols", cols)
        tiles = (len(tile_rows) - 1) * (len(tile_cols) - 1)
        if tiles > MOST_TILES:
            raise InputError(f"grid: has {tiles:,} tiles; more than {MOST_TILES:,} cannot be handled")
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
        """Rows and columns of a chunk, about; 0 for a side without letters."""
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
        """The tile that computes cell (i, j), both at least 1."""
        return self.tile(owner(self.tile_rows, i), owner(self.tile_cols, j))

    def rows_in(self, tile: Tile) -> tuple[int, ...]:
        """The lattice rows that a tile computes, its bottom edge among them, counted from its top edge."""
        return tuple(cut - tile.i0 for cut in self.row_cuts if tile.i0 < cut <= tile.i1)

    def rows_kept(self, tile: Tile, last_row: bool) -> tuple[int, ...]:
        """The lattice rows that a tile keeps, counted from its top edge.

        `last_row` says whether the bottom edge of the matrix is kept. Without it, the chunk in which an
        alignment ends is swept again up to the end cell.
        """
        rows = self.rows_in(tile)
        return rows[:-1] if not last_row and tile.i1 == self.rows else rows

    def cols_in(self, tile: Tile) -> tuple[int, ...]:
        """The lattice columns inside the matrix that a tile computes, counted from its left edge.

        The right edge of the tile is one of them, unless it is that of the matrix. That one costs more than
        others, because it can lie inside a part of a strip.
        """
        return tuple(cut - tile.j0 for cut in self.col_cuts[:-1] if tile.j0 < cut <= tile.j1)

    def cols_kept(self, tile: Tile, last_col: bool) -> tuple[int, ...]:
        """The lattice columns that a tile keeps, counted from its left edge.

        `last_col` says whether the right edge of the matrix is kept.
        """
        cols = self.cols_in(tile)
        return (*cols, tile.j1 - tile.j0) if last_col and tile.j1 == self.cols else cols

    @property
    def stored_cells(self) -> int:
        """Boundary cells that the whole lattice holds at most: the matrix's own far edges are not kept."""
        return stored_cells(self.rows, self.cols, len(self.row_cuts) - 1, len(self.col_cuts) - 1)


def _cuts(fields: Fields, cuts: str, tiles: str, length: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cuts of one side, and those among them between tiles. Raises InputError, naming the field."""
    chunk_cuts, tile_cuts = (fields.wholes(name, 0, length) for name in (cuts, tiles))
    for name, values in ((cuts, chunk_cuts), (tiles, tile_cuts)):
        increasing = all(before < after for before, after in pairwise(values))
        if not values or (values[0], values[-1]) != (0, length) or not increasing:
            raise InputError(f"{fields.name(name)}: must increase from 0 to the length {length}")
    if not set(tile_cuts) <= set(chunk_cuts):
        raise InputError(f"{fields.name(tiles)}: must be among {cuts}")
    return chunk_cuts, tile_cuts


def stored_cells(rows: int, cols: int, lattice_rows: int, lattice_cols: int) -> int:
    return lattice_rows * cols + lattice_cols * rows


def owner(cuts: tuple[int, ...], index: int) -> int:
    """Which interval between cuts computes boundary index `index` >= 1: cuts[k] < index <= cuts[k+1]."""
    return bisect_left(cuts, index) - 1


def parts(length: int, largest: int) -> int:
    """How many nearly equal parts (up to one letter) it takes so that none is longer than `largest`."""
    return max(1, ceil(length / largest))


def _cuts_into(length: int, count: int, step: int = 1) -> tuple[int, ...]:
    return (*(length * k // count // step * step for k in range(count)), length)


def _cut_side(
    length: int, tile: int, lines: int, wide_step: int = LINE_STEP, *, short_last: bool = False
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cuts of `lines` chunks, and those among them between tiles of at most `tile` letters.

    `wide_step` is as for `line_steps`, `short_last` as for `plan_grid`.
    """
    count = parts(length, tile)
    for step in line_steps(length, lines, wide_step):
        cuts, tiles = _cuts_into(length, lines, step), _cuts_into(length, count, step)
        wished = _TALLER * lines // (_TALLER * (count - 1) + 1)
        # As cuts are rounded down to steps, some chunks may span almost a step more than their share.
        chunks_a_tile = min(wished, lines * (tile - step + 1) // length)
        if short_last and chunks_a_tile * count > lines:
            tiles = (*cuts[:-1:chunks_a_tile], length)
        if max(end - start for start, end in pairwise(tiles)) <= tile:
            break
    return cuts, tiles


def line_steps(length: int, lines: int, wide_step: int = LINE_STEP) -> list[int]:
    """What so many lines across a side should be at multiples of, best first; 1 is the last.

    `wide_step` is the width of strips, if it is columns that are cut: strips then end at the lines.
    """
    return [*(step for step in (wide_step, LINE_STEP) if length // lines >= _STEPS_A_PART * step), 1]


def roomy(length: int, tile: int, wide_step: int = LINE_STEP) -> int:
    """A little more than a tile, if no fewer of that size make up a side: so they can be cut at multiples of
    `wide_step`, as lines best are, even where they have no letter to spare.

    The last one may be almost a step longer than the others.
    """
    step = line_steps(length, parts(length, tile), wide_step)[0]
    larger = (ceil(tile / step) + 1) * step
    return larger if step > 1 and tile < length and parts(length, larger) == parts(length, tile) else tile


def _chunks(length: int, tile: int, chunk: int) -> int:
    """How many equal parts of at most `chunk` it takes if equal tiles of at most `tile` hold whole ones.

    Tiles that several devices share are of equal size, as all wait for the one that has the largest.
    """
    tiles = parts(length, tile)
    return min(length, tiles * parts(ceil(length / tiles), chunk))


def share(
    rows: int, cols: int, largest: tuple[int, int], devices: int, seconds: Callable[[int, int], float]
) -> tuple[int, int]:
    """The tile shape, within `largest`, with which so many devices are done with a matrix soonest.

    `seconds(rows, cols)` is what a device takes for a tile of that shape, with what it takes beside the
    sweep: small tiles soon give every device one, large ones waste less of its time. A wavefront over
    them lasts as long as `tile_rounds` of them.
    """

    def shape_of(counts: tuple[int, int]) -> tuple[int, int]:
        return ceil(rows / counts[0]), ceil(cols / counts[1])

    def duration(counts: tuple[int, int]) -> tuple[float, int]:
        return tile_rounds(*counts, devices) * seconds(*shape_of(counts)), counts[0] * counts[1]

    if devices == 1:
        return largest
    grids = product(_counts(rows, largest[0], devices), _counts(cols, largest[1], devices))
    return shape_of(min(grids, key=duration))


def tile_rounds(tile_rows: int, tile_cols: int, devices: int) -> float:
    """How long a wavefront over so many tiles lasts, in tiles.

    As many devices are busy as there are rows and columns of tiles, except that they begin one after the
    other and end one after the other.
    """
    busy = min(devices, tile_rows, tile_cols)
    return tile_rows * tile_cols / busy + busy - 1


def _counts(length: int, largest: int, devices: int) -> list[int]:
    """Numbers of tiles along a side worth a look: the fewest, one a device, and each of these doubled."""
    fewest = parts(length, largest)
    candidates = {start << doublings for start in (fewest, devices) for doublings in range(7)}
    return [count for count in candidates if fewest <= count <= length]


def default_budget(
    rows: int,
    cols: int,
    least_chunk: int,
    path_share: int,
    bytes_per_cell: float = BYTES_PER_STORED_CELL,
    *,
    fine: bool = False,
) -> int:
    """Bytes of lattice that make phases 2 and 3 cheap beside phase 1.

    `least_chunk` and `path_share` are those of `Backend`. Where it may be `fine`, large chunks are smaller.
    """

    def chunk_for(share: int, least: int) -> int:
        return max(SMALLEST_CHUNK, least_chunk, least, rows * cols // (share * (rows + cols)))

    chunk = chunk_for(path_share, 0)
    if fine:
        chunk = min(chunk, chunk_for(_FINE_SHARE, _LEAST_FINE_CHUNK))
    return ceil(2 * rows * cols / chunk * bytes_per_cell) + (1 << 20)


def smallest_budget(
    rows: int, cols: int, tile_shape: tuple[int, int], bytes_per_cell: float = BYTES_PER_STORED_CELL
) -> int:
    """Bytes of the edges of tiles alone: what any run stores."""
    lines = parts(rows, tile_shape[0]), parts(cols, tile_shape[1])
    return ceil(stored_cells(rows, cols, *lines) * bytes_per_cell)


def too_small(rows: int, cols: int, budget: int, needed: int) -> BudgetTooSmall:
    """What is wrong with a `budget` of fewer bytes than `needed`."""
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
    *,
    short_last: bool = False,
) -> Grid:
    """The finest lattice whose stored cells fit `budget` bytes, in tiles of at most `tile_shape`.

    Columns are cut at multiples of `strip_width` where cuts are far enough apart. Without a budget only the
    edges of tiles are stored. Tiles are of nearly equal size; with `short_last`, those of the last row have
    fewer rows than the others, about a third if there is room in these, and the lattice is the same. Raises
    BudgetTooSmall if the edges of tiles alone need more.
    """
    if budget is None:
        (_, tile_rows), (_, tile_cols) = (
            _cut_side(length, tile, parts(length, tile), step)
            for length, tile, step in zip((rows, cols), tile_shape, (LINE_STEP, strip_width), strict=True)
        )
        return Grid(tile_rows, tile_cols, tile_rows, tile_cols)
    needed = smallest_budget(rows, cols, tile_shape, bytes_per_cell)
    if needed > budget:
        raise too_small(rows, cols, budget, needed)

    def lines(chunk: int) -> tuple[int, int]:
        return _chunks(rows, tile_shape[0], chunk), _chunks(cols, tile_shape[1], chunk)

    def spared(chunk: int) -> int:
        return budget - ceil(stored_cells(rows, cols, *lines(chunk)) * bytes_per_cell)

    # Larger chunks store less, and chunks as large as a tile fit.
    sizes = range(SMALLEST_CHUNK, max(tile_shape))
    chunk = SMALLEST_CHUNK + bisect_left(sizes, 0, key=spared)
    row_lines, col_lines = lines(chunk)
    row_cuts, tile_rows = _cut_side(rows, tile_shape[0], row_lines, short_last=short_last)
    col_cuts, tile_cols = _cut_side(cols, tile_shape[1], col_lines, strip_width)
    return Grid(row_cuts, col_cuts, tile_rows, tile_cols)
