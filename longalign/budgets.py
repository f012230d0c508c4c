"""What bytes of boundaries buy: the finer the lattice, the less phases 2 and 3 sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, isqrt

from longalign.errors import BudgetTooSmall, UsageError
from longalign.geometry import Grid
from longalign.size import format_size, round_size

#: The grid for so many bytes of boundaries, or, for None, for as many as are useful.
#: Raises UsageError, BudgetTooSmall where fewer bytes are given than any lattice takes.
Cut = Callable[[int | None], Grid]

#: The default is far from the smallest budget that works if it is so many times as much.
_FAR = 4


@dataclass(frozen=True, slots=True)
class Budget:
    """So many bytes of boundaries, and what phases 2 and 3 sweep with them: see `path_share`."""

    size: int
    share: float
    is_default: bool

    @property
    def name(self) -> str:
        return format_size(self.size) + " (the default)" * self.is_default


def path_share(grid: Grid, eager: bool = False) -> float:
    """The cells that phases 2 and 3 sweep, as a share of those of phase 1, if the path spans the matrix.

    Through r x c chunks the path crosses r + c lines, and each time phase 2 sweeps the chunk before the line,
    back from where the path leaves it. A straight path does so anywhere on the edge: half a chunk on average,
    so (r + c) / 2 chunks, or none with `eager` start states. Between two lines the path runs through a
    rectangle from corner to corner. With s the smaller of r and c, and l the larger, these rectangles are
    together s (1 - s / 3l) chunks; phase 3 sweeps them about twice, since it halves what it sweeps each time.

    Real paths are not straight, local ones may be shorter, and phase 3 stops halving at what it can trace:
    right to a factor of two. Time follows cells only where a chunk keeps a device as busy as a tile does.
    """
    rows, cols = len(grid.row_cuts) - 1, len(grid.col_cuts) - 1
    short, long = sorted((rows, cols))
    stitch = 0 if eager else (rows + cols) / 2
    recompute = 2 * short * (1 - short / (3 * long))
    return (stitch + recompute) / (rows * cols)


def format_share(share: float) -> str:
    return f"{100 * share:.0f}%" if share >= 0.01 else f"{100 * share:.1g}%"


def budgets_worth_knowing(cut: Cut, cell_bytes: float, eager: bool) -> list[Budget]:
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
    return [Budget(size, path_share(grids[size], eager), size == default) for size in sorted(grids)]


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
    shares = "".join(f", with {budget.name} {format_share(budget.share)}" for budget in others)
    return f"phases 2 and 3 then sweep about {format_share(first.share)} as many cells as phase 1{shares}"
