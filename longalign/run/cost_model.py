"""Predict how long a run takes with a given store budget. A finer lattice makes phases 2 and 3 faster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, isqrt

from longalign.backends.base import Backend
from longalign.errors import BudgetTooSmall, UsageError
from longalign.model.geometry import Grid, tile_rounds
from longalign.model.mode import Mode
from longalign.model.scoring import Scoring
from longalign.system.sizes import format_size, round_size

#: Returns the grid for a number of bytes of boundaries, or the default grid for None. Raises UsageError, in
#: particular BudgetTooSmall if the bytes are too few for any lattice.
Cut = Callable[[int | None], Grid]

#: If the default budget exceeds the smallest one by more than this factor, one between them is shown as well.
_SHOW_MIDDLE_FROM = 4

#: Units of time, longest first: the fewest seconds that are given in the unit, and the seconds in one unit.
_UNITS = {"days": (48 * 3600, 24 * 3600), "h": (7200, 3600), "min": (120, 60), "s": (0.1, 1), "ms": (0, 1e-3)}

#: Seconds of the host in phases 2 and 3 for each letter of both sequences, beside the sweeps. They follow
#: from `phases_cuda.json`; a CPU takes so much longer for the sweeps that they hardly count.
_HOST_SECONDS_PER_LETTER = 6e-8


@dataclass(frozen=True, slots=True)
class Cost:
    """The predicted cost of a run.

    `phase_1` is the time of phase 1 in seconds, or None if unknown. `path` is the time of phases 2 and 3
    together in seconds. `share` is the number of cells that phases 2 and 3 sweep, as a share of those of
    phase 1 (see `path_share`).
    """

    phase_1: float | None
    path: float
    share: float


@dataclass(frozen=True, slots=True)
class Budget:
    """A number of bytes of boundaries, and the cost of a run with this store budget."""

    size: int
    cost: Cost
    is_default: bool

    @property
    def name(self) -> str:
        return format_size(self.size) + " (the default)" * self.is_default


@dataclass(frozen=True, slots=True)
class SpeedModel:
    """Predicts the cost of a run. All `backends` share phase 1, and the first one alone does phases 2 and 3.

    `known` is False if `Backend.sweep_seconds` does not predict phase 1, because workers of a cluster sweep
    it or start states are computed as well. With `eager` start states, phase 2 sweeps nothing. Phase 1
    sweeps a matrix for each of `strands` strands of the query, the other phases only one of these.
    """

    backends: Sequence[Backend]
    scoring: Scoring
    mode: Mode
    known: bool = True
    eager: bool = False
    strands: int = 1

    def cost(self, grid: Grid) -> Cost:
        """The predicted cost of a run with this grid."""
        if grid.cells == 0:
            return Cost(0.0 if self.known else None, 0.0, 0.0)
        phase_1 = self._phase_1(grid) if self.known else None
        return Cost(phase_1, self._path(grid), path_share(grid, self.eager) / self.strands)

    def _phase_1(self, grid: Grid) -> float:
        size = ceil(grid.rows / grid.shape[0]), ceil(grid.cols / grid.shape[1])
        slowest = max(
            device.sweep_seconds(*size, self.scoring, self.mode.starts_anywhere) for device in self.backends
        )
        return self.strands * tile_rounds(*grid.shape, len(self.backends)) * slowest

    def _path(self, grid: Grid) -> float:
        """Seconds of phases 2 and 3, to within a factor of two.

        Phase 2 is taken to sweep one chunk after the other, which may be too small to keep a device busy, and
        phase 3 to sweep all its rectangles at once. Their paths have known ends, as in global mode. If chunks
        are small, phase 2 in fact sweeps several at once. The host takes time for each letter.
        """
        stitched, recomputed = _chunks_swept(grid, self.eager)
        chunk, matrix = (
            self.backends[0].sweep_seconds(*size, self.scoring, False)
            for size in (grid.chunk_shape, (grid.rows, grid.cols))
        )
        sweeps = stitched * chunk + recomputed / _chunk_count(grid) * matrix
        return sweeps + _HOST_SECONDS_PER_LETTER * (grid.rows + grid.cols)


def path_share(grid: Grid, eager: bool = False) -> float:
    """The cells that phases 2 and 3 sweep, as a share of the cells of phase 1, to within a factor of two.

    The path is taken to be straight and to span the matrix. Real paths are not straight, local ones may be
    shorter, and phase 3 stops halving segments as soon as they can be traced.
    """
    return sum(_chunks_swept(grid, eager)) / _chunk_count(grid)


def _chunks_swept(grid: Grid, eager: bool) -> tuple[float, float]:
    """The cells that phase 2 and phase 3 sweep, each as a number of chunks.

    Through r x c chunks the path crosses r + c lines. At each crossing, phase 2 sweeps the part of the chunk
    before the line that lies above and to the left of the crossing. A straight path crosses an edge anywhere,
    so that is half a chunk on average, and (r + c) / 2 chunks in all, or none with `eager` start states.
    Between two crossings the path runs through a rectangle from corner to corner. With s the smaller of r and
    c, and l the larger, these rectangles have s (1 - s / 3l) chunks in all. Phase 3 sweeps them about twice,
    since each of its rounds sweeps half as many cells as the one before.
    """
    rows, cols = len(grid.row_cuts) - 1, len(grid.col_cuts) - 1
    short, long = sorted((rows, cols))
    return 0 if eager else (rows + cols) / 2, 2 * short * (1 - short / (3 * long))


def _chunk_count(grid: Grid) -> int:
    return (len(grid.row_cuts) - 1) * (len(grid.col_cuts) - 1)


def format_share(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else f"{100 * share:.1g}%"


def format_seconds(seconds: float) -> str:
    """A time, rounded to one significant digit."""
    unit, (_, factor) = next(item for item in _UNITS.items() if seconds >= item[1][0])
    return f"{float(f'{max(seconds, 1e-3) / factor:.1g}'):,g} {unit}"


def example_budgets(cut: Cut, cell_bytes: float, speed: SpeedModel) -> list[Budget]:
    """The smallest sufficient budget and the default, with one between them if they are far apart.

    The smallest comes first. `cell_bytes` is the number of bytes of a stored cell. Raises UsageError if no
    budget is sufficient.
    """
    smallest, grid = _smallest(cut)
    grids, default = {smallest: grid}, None
    with suppress(UsageError):
        grid = cut(None)
        default = max(smallest, round_size(ceil(grid.stored_cells * cell_bytes)))
        grids[default] = grid
        if default > _SHOW_MIDDLE_FROM * smallest:
            middle = round_size(isqrt(smallest * default))
            grids[middle] = cut(middle)
    return [Budget(size, speed.cost(grids[size]), size == default) for size in sorted(grids)]


def _smallest(cut: Cut) -> tuple[int, Grid]:
    """The smallest sufficient budget, rounded up, and its grid."""
    size = 1
    while True:
        try:
            return size, cut(size)
        except BudgetTooSmall as refused:
            size = round_size(refused.needed)


def describe_budgets(budgets: Sequence[Budget]) -> str:
    """The cost of each budget, for a message that has already named the first one."""
    first, *others = budgets
    phase_1, path = _phase_1(first), format_seconds(first.cost.path)
    words = f"phase 1 then takes about {phase_1}, phases 2 and 3 another {path}"
    if phase_1 is None:
        words = f"phases 2 and 3 then take about {path}"
    # If several devices share phase 1, it may take longer with a small budget: with few tiles some are idle.
    phase_1_differs = any(_phase_1(budget) != phase_1 for budget in others)
    for budget in others:
        path = format_seconds(budget.cost.path)
        words += f"; with {budget.name} {f'{_phase_1(budget)} and {path}' if phase_1_differs else path}"
    return words


def _phase_1(budget: Budget) -> str | None:
    return None if budget.cost.phase_1 is None else format_seconds(budget.cost.phase_1)
