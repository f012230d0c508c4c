"""What bytes of boundaries buy: the finer the lattice, the less phases 2 and 3 sweep."""

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

#: The grid for so many bytes of boundaries, or, for None, for as many as are useful.
#: Raises UsageError, BudgetTooSmall where fewer bytes are given than any lattice takes.
Cut = Callable[[int | None], Grid]

#: The default is far from the smallest budget that works if it is so many times as much.
_FAR = 4

#: Units of time, longest first: from how many seconds on a time is said in one, and how many seconds it has.
_UNITS = {"days": (48 * 3600, 24 * 3600), "h": (7200, 3600), "min": (120, 60), "s": (0.1, 1), "ms": (0, 1e-3)}


@dataclass(frozen=True, slots=True)
class Cost:
    """About what a run takes: seconds of phase 1, None if they are not known, seconds of phases 2 and 3
    together, and what these sweep (see `path_share`)."""

    phase_1: float | None
    path: float
    share: float


@dataclass(frozen=True, slots=True)
class Budget:
    """So many bytes of boundaries, and what a run takes with them."""

    size: int
    cost: Cost
    is_default: bool

    @property
    def name(self) -> str:
        return format_size(self.size) + " (the default)" * self.is_default


@dataclass(frozen=True, slots=True)
class SpeedModel:
    """How fast a run is: its devices, the first of which alone does phases 2 and 3, and what they sweep.

    `known` is False if something else does phase 1, or more in it than `Backend.sweep_seconds` speaks of.
    With `eager` start states phase 2 sweeps nothing.
    """

    backends: Sequence[Backend]
    scoring: Scoring
    mode: Mode
    known: bool = True
    eager: bool = False

    def cost(self, grid: Grid) -> Cost:
        """About what a run over a lattice takes."""
        if grid.cells == 0:
            return Cost(0.0 if self.known else None, 0.0, 0.0)
        phase_1 = self._phase_1(grid) if self.known else None
        return Cost(phase_1, self._path(grid), path_share(grid, self.eager))

    def _phase_1(self, grid: Grid) -> float:
        size = ceil(grid.rows / grid.shape[0]), ceil(grid.cols / grid.shape[1])
        slowest = max(
            device.sweep_seconds(*size, self.scoring, self.mode.starts_anywhere) for device in self.backends
        )
        return tile_rounds(*grid.shape, len(self.backends)) * slowest

    def _path(self, grid: Grid) -> float:
        """Phase 2 sweeps one chunk after the other, which may be too small to keep a device busy; phase 3 all
        it has to at once. Their paths have known ends, as in global mode.

        Where chunks are small, phase 2 sweeps several at once, too, but phase 3 has more to do beside its
        sweeps: together these come out right to a factor of two.
        """
        stitched, recomputed = _chunks_swept(grid, self.eager)
        chunk, matrix = (
            self.backends[0].sweep_seconds(*size, self.scoring, False)
            for size in (grid.chunk_shape, (grid.rows, grid.cols))
        )
        return stitched * chunk + recomputed / _chunk_count(grid) * matrix


def path_share(grid: Grid, eager: bool = False) -> float:
    """The cells that phases 2 and 3 sweep, as a share of those of phase 1, if the path spans the matrix.

    Real paths are not straight, local ones may be shorter, and phase 3 stops halving at what it can trace:
    right to a factor of two.
    """
    return sum(_chunks_swept(grid, eager)) / _chunk_count(grid)


def _chunks_swept(grid: Grid, eager: bool) -> tuple[float, float]:
    """Of how many chunks phases 2 and 3 sweep the cells.

    Through r x c chunks the path crosses r + c lines, and each time phase 2 sweeps the chunk before the line,
    back from where the path leaves it. A straight path does so anywhere on the edge: half a chunk on average,
    so (r + c) / 2 chunks, or none with `eager` start states. Between two lines the path runs through a
    rectangle from corner to corner. With s the smaller of r and c, and l the larger, these rectangles are
    together s (1 - s / 3l) chunks; phase 3 sweeps them about twice, since it halves what it sweeps each time.
    """
    rows, cols = len(grid.row_cuts) - 1, len(grid.col_cuts) - 1
    short, long = sorted((rows, cols))
    return 0 if eager else (rows + cols) / 2, 2 * short * (1 - short / (3 * long))


def _chunk_count(grid: Grid) -> int:
    return (len(grid.row_cuts) - 1) * (len(grid.col_cuts) - 1)


def format_share(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else f"{100 * share:.1g}%"


def format_seconds(seconds: float) -> str:
    """A rough time, to a digit."""
    unit, (_, factor) = next(item for item in _UNITS.items() if seconds >= item[1][0])
    return f"{float(f'{max(seconds, 1e-3) / factor:.1g}'):,g} {unit}"


def budgets_worth_knowing(cut: Cut, cell_bytes: float, speed: SpeedModel) -> list[Budget]:
    """The smallest budget that works, the default, and one between if these are far apart; smallest first.

    `cell_bytes` is what a stored cell takes. Raises UsageError if none works.
    """
    smallest, grid = _smallest(cut)
    grids, default = {smallest: grid}, None
    with suppress(UsageError):
        grid = cut(None)
        default = max(smallest, round_size(ceil(grid.stored_cells * cell_bytes)))
        grids[default] = grid
        if default > _FAR * smallest:
            between = round_size(isqrt(smallest * default))
            grids[between] = cut(between)
    return [Budget(size, speed.cost(grids[size]), size == default) for size in sorted(grids)]


def _smallest(cut: Cut) -> tuple[int, Grid]:
    """The smallest budget that works, rounded up, and its grid."""
    size = 1
    while True:
        try:
            return size, cut(size)
        except BudgetTooSmall as refused:
            size = round_size(refused.needed)


def in_words(budgets: Sequence[Budget]) -> str:
    """What some budgets cost, for a message that has named the first one."""
    first, *others = budgets
    phase_1, path = _phase_1(first), format_seconds(first.cost.path)
    words = f"phase 1 then takes about {phase_1}, phases 2 and 3 another {path}"
    if phase_1 is None:
        words = f"phases 2 and 3 then take about {path}"
    # Where several devices share phase 1, few boundaries leave some of them idle.
    both = any(_phase_1(budget) != phase_1 for budget in others)
    for budget in others:
        path = format_seconds(budget.cost.path)
        words += f"; with {budget.name} {f'{_phase_1(budget)} and {path}' if both else path}"
    return words


def _phase_1(budget: Budget) -> str | None:
    return None if budget.cost.phase_1 is None else format_seconds(budget.cost.phase_1)
