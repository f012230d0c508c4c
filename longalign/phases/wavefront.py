"""The order of tiles. A tile may run when its upper and its left neighbour are done."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from heapq import heappop, heappush


class Wavefront:
    """The tiles of a grid in dependency order, those nearest the upper left corner first.

    The tiles in `done` need not run. Any set of finished tiles is a valid start, even one with the holes that
    a crash or a damaged file leaves: a tile becomes ready only when its neighbours are done. Tiles
    in the tile rows `first_rows` do not wait for those above.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        done: Iterable[tuple[int, int]] = (),
        first_rows: Collection[int] = (0,),
    ) -> None:
        self._rows, self._cols = shape
        self._done, self._first_rows = set(done), first_rows
        self._given: set[tuple[int, int]] = set(self._done)
        self._ready: list[tuple[int, int, int]] = []
        for row in range(self._rows):
            for col in range(self._cols):
                self._offer(row, col)

    @property
    def finished(self) -> bool:
        """Whether every tile is done."""
        return len(self._done) == self._rows * self._cols

    def take(self) -> tuple[int, int] | None:
        """Remove and return a tile that may run now; None if no tile is ready until another one is done."""
        if not self._ready:
            return None
        _, row, col = heappop(self._ready)
        return row, col

    def complete(self, row: int, col: int) -> None:
        """Record that a tile is done; its lower and right neighbours may become ready."""
        self._done.add((row, col))
        self._offer(row + 1, col)
        self._offer(row, col + 1)

    def give_back(self, row: int, col: int) -> None:
        """Make a tile ready again that was taken but not completed."""
        heappush(self._ready, (row + col, row, col))

    def _offer(self, row: int, col: int) -> None:
        if row >= self._rows or col >= self._cols or (row, col) in self._given:
            return
        above = row in self._first_rows or (row - 1, col) in self._done
        beside = col == 0 or (row, col - 1) in self._done
        if above and beside:
            self._given.add((row, col))
            heappush(self._ready, (row + col, row, col))
