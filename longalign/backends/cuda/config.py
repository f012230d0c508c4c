"""What the kernel is specialised on. Nothing here needs a CUDA package."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

LANES = 32

#: How letter pairs are scored, the fastest first. "dot": a target letter's four 8-bit scores against
#: A C G T, times the query letter as a one among zeros, added to the diagonal by one instruction outside
#: the pipe that the rest keeps busy. "bytes": the score picked from those four, or a fifth for ambiguous
#: query letters. "compare": any codes and any scores.
Letters = Literal["dot", "bytes", "compare"]


@dataclass(frozen=True, slots=True)
class KernelConfig:
    """Compile-time choices of one kernel; everything else is a run-time argument.

    A warp sweeps a strip of `columns` x 32 lanes and exchanges boundary values every `batch` rows, at
    most 32. A block is `warps` independent warps.
    """

    local: bool
    track_best: bool
    columns: int = 16
    letters: Letters = "bytes"
    batch: int = 32
    warps: int = 4

    def __post_init__(self) -> None:
        if not 1 <= self.batch <= LANES:
            raise ValueError(f"a lane loads one row of a batch, so 1 <= batch <= {LANES}, not {self.batch}")

    @property
    def strip_width(self) -> int:
        """Columns of a full strip."""
        return self.columns * LANES

    @property
    def lag(self) -> int:
        """Rows by which a strip follows its left neighbour.

        The neighbour has swept a batch, and its last lane has come as far only 31 rows later.
        """
        return -(-(self.batch + LANES - 1) // self.batch) * self.batch
