"""How fast a sweep is, roughly: processors differ by a factor of two or three, and so do sequences."""

from __future__ import annotations

from longalign.backends.cpu.config import SweepGeometry
from longalign.backends.cpu.number_widths import LARGEST_16
from longalign.model.scoring import Scoring

#: Cells that a thread sweeps in a second, by the bits of most numbers. 8 bits: less than the 28e9 and 27e9 of
#: the longest sweeps of `cpu_sweep_100k.json` and of `golden_cpu.json` in `experiments/results`, as
#: processors differ. The other numbers, and letter pairs scored by a matrix, are about in proportion.
_RATES = {8: 22e9, 16: 12e9, 32: 6e9}
_MATRIX_RATE = 3.5e9


def sweep_seconds(
    rows: int, cols: int, scoring: Scoring, local: bool, geometry: SweepGeometry, threads: int
) -> float:
    """About how long so many threads take for a rectangle."""
    rate = _RATES[_bits(scoring, local, geometry)] if scoring.matrix is None else _MATRIX_RATE
    narrowest = geometry.columns * geometry.group
    return rows * cols / (rate * min(threads, max(1, cols // narrowest)))


def _bits(scoring: Scoring, local: bool, geometry: SweepGeometry) -> int:
    """The bits of the numbers in which most blocks are swept: `widths` proves what is exact for each."""
    if (scoring.highest + scoring.gap_extend) * geometry.strip > LARGEST_16:
        return 32
    return 8 if local else 16
