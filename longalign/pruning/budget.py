"""What a lower bound may cost: a small share of the time that a sweep of the whole matrix takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Backend
from longalign.model.scoring import Scoring

#: Finding a bound may take this share of the time of a sweep of the whole matrix, plus these seconds. They
#: are too short to be noticed.
_SHARE, _SECONDS = 0.02, 0.01

#: The share for closely related sequences, where the bound will save much more.
_SHARE_OF_RELATED = 0.1

#: Letters that are searched for words in a second, at least.
_LETTERS_A_SECOND = 5e7

#: Cells that are traced in a second, at least, and seconds that each rectangle takes besides, at most.
_TRACED_A_SECOND, _TRACE = 2.5e9, 5e-6

#: Halving a rectangle until no part is large takes this many sweeps of it: 1 + 1/2 + 1/4 + ...
_SWEEPS = 2

#: Seconds that halving a rectangle takes besides its sweeps.
_CALL = 1e-4


@dataclass(frozen=True, slots=True)
class TimeBudget:
    """The seconds that a bound may take.

    A sweep of the whole matrix takes `seconds_a_cell` for each of its cells.
    """

    seconds: float
    seconds_a_cell: float

    @classmethod
    def of(
        cls, rows: int, cols: int, scoring: Scoring, local: bool, backend: Backend, *, related: bool = False
    ) -> TimeBudget:
        """The budget for the bound of a matrix of `rows` x `cols` letters.

        `related`: whether the two sequences are known to be closely related.
        """
        sweep = backend.sweep_seconds(rows, cols, scoring, local)
        share = _SHARE_OF_RELATED if related else _SHARE
        return cls(share * sweep + _SECONDS, sweep / max(1, rows * cols))

    def allows_words(self, letters: int) -> bool:
        """Whether there is time to search both sequences, of `letters` letters together, for words."""
        return letters / _LETTERS_A_SECOND <= self.seconds

    def affordable_traces(self, cells: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rectangles may be traced in half of the time, given their numbers of cells: the smallest."""
        return self._first(cells / _TRACED_A_SECOND + _TRACE)

    def affordable_sweeps(
        self, rectangles: NDArray[np.int64], scoring: Scoring, backend: Backend
    ) -> NDArray[np.bool_]:
        """Which rectangles may be halved by sweeps in half of the time: those that take least.

        A row of `rectangles` is the first and the last row boundary, then the first and last column boundary.
        They are swept side by side, so there must be time for the slowest one, and for all cells.
        """
        sides = rectangles[:, 1::2] - rectangles[:, ::2]
        alone = np.array(
            [_SWEEPS * backend.sweep_seconds(rows, cols, scoring, False) for rows, cols in sides.tolist()],
            np.float64,
        )
        together = np.where(
            alone <= self.seconds / 2, _SWEEPS * self.seconds_a_cell * sides.prod(axis=1) + _CALL, np.inf
        )
        return self._first(together)

    def _first(self, seconds: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Which tasks are done, given their times: shortest first, until half of the budget is used up."""
        order = np.argsort(seconds, kind="stable")
        affordable = np.empty(len(seconds), np.bool_)
        affordable[order] = np.cumsum(seconds[order]) <= self.seconds / 2
        return affordable
