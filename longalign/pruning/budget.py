"""What a lower bound may cost: a small share of the time that a sweep of the whole matrix takes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from longalign.backends.base import Backend
from longalign.model.scoring import Scoring

#: The share of the time of a sweep that a bound may take, and seconds that do not matter.
_SHARE, _SECONDS = 0.02, 0.01

#: Letters that are searched for words in a second, at least.
_LETTERS_A_SECOND = 5e7

#: Cells that are traced in a second, and seconds that a rectangle takes besides, at most.
_TRACED_A_SECOND, _TRACE = 2.5e9, 5e-6

#: Sweeps until all rectangles are halved so often that they can be traced, in sweeps of the whole.
_SWEEPS = 2

#: Seconds that a rectangle takes besides its sweeps.
_CALL = 1e-4


@dataclass(frozen=True, slots=True)
class Budget:
    """Seconds that a bound may take."""

    seconds: float

    @classmethod
    def of(cls, rows: int, cols: int, scoring: Scoring, local: bool, backend: Backend) -> Budget:
        """The one for two sequences."""
        return cls(_SHARE * backend.sweep_seconds(rows, cols, scoring, local) + _SECONDS)

    def allows_words(self, letters: int) -> bool:
        """Whether sequences of so many letters may be searched for words."""
        return letters / _LETTERS_A_SECOND <= self.seconds

    def affordable_traces(self, cells: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rectangles may be traced, in half of the time, by their cells: the smallest."""
        return self._first(cells / _TRACED_A_SECOND + _TRACE)

    def affordable_sweeps(
        self, gaps: NDArray[np.int64], scoring: Scoring, backend: Backend
    ) -> NDArray[np.bool_]:
        """Which rectangles may be halved by sweeps, in half of the time: those that take least.

        A row of `gaps` is the first and the last row boundary, then the columns.
        """
        sides = zip((gaps[:, 1] - gaps[:, 0]).tolist(), (gaps[:, 3] - gaps[:, 2]).tolist(), strict=True)
        seconds = np.array(
            [_SWEEPS * backend.sweep_seconds(*shape, scoring, False) + _CALL for shape in sides],
            np.float64,
        )
        return self._first(seconds)

    def _first(self, seconds: NDArray[np.float64]) -> NDArray[np.bool_]:
        """The shortest of some tasks, which take half of the time together."""
        order = np.argsort(seconds, kind="stable")
        affordable = np.empty(len(seconds), np.bool_)
        affordable[order] = np.cumsum(seconds[order]) <= self.seconds / 2
        return affordable
