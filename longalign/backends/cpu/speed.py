"""A rough model of the time of a sweep, right to a factor of two or three."""

from __future__ import annotations

from longalign.backends.cpu.config import SweepGeometry
from longalign.backends.cpu.number_widths import LARGEST_16
from longalign.model.scoring import Scoring

#: Cells per second of a thread, by the number width of most blocks. The rate for 8 bits is below the 28e9 of
#: `cpu_sweep_100k.json` (`experiments/results`), to allow for slower processors. The other rates, and the one
#: with a substitution matrix, are in proportion.
_CELLS_PER_SECOND = {8: 22e9, 16: 12e9, 32: 6e9}
_CELLS_PER_SECOND_WITH_MATRIX = 3.5e9


def sweep_seconds(
    rows: int, cols: int, scoring: Scoring, local: bool, geometry: SweepGeometry, threads: int
) -> float:
    """The approximate time of `threads` threads for a rectangle, in seconds."""
    if scoring.table is None:
        rate = _CELLS_PER_SECOND[_max_bits(scoring, local, geometry)]
    else:
        rate = _CELLS_PER_SECOND_WITH_MATRIX
    narrowest = geometry.columns * geometry.group
    return rows * cols / (rate * min(threads, max(1, cols // narrowest)))


def _max_bits(scoring: Scoring, local: bool, geometry: SweepGeometry) -> int:
    """The number width in which most blocks are swept; see `number_widths`."""
    if (scoring.highest + scoring.gap_extend) * geometry.strip > LARGEST_16:
        return 32
    return 8 if local else 16
