"""A piece of a line in narrow integers: most values fit, and the few that do not are listed."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from longalign.model.boundary import IntArray


class NarrowValues(NamedTuple):
    """Some int32 values.

    - `narrow` (n,): the values, modulo 2 to the power of the bits of these signed integers
    - `places` (k,) int64: the positions of the values that do not fit, in increasing order
    - `wide` (k,) int32: these values
    - `first`, `stop`: all values of `narrow` outside of first..stop - 1 are the level value, which is that of
      cells that were left out
    """

    narrow: NDArray[np.signedinteger[Any]]
    places: NDArray[np.int64]
    wide: IntArray
    first: int
    stop: int

    @classmethod
    def constant(
        cls, value: int, count: int, dtype: np.dtype[np.signedinteger[Any]], level: int
    ) -> NarrowValues:
        """The same value `count` times, kept once. It must fit `dtype`."""
        values = np.broadcast_to(dtype.type(value), count)
        return cls(values, _NO_PLACES, _NOT_WIDE, 0, 0 if value == level else count)

    @classmethod
    def all_fit(cls, values: NDArray[np.signedinteger[Any]]) -> NarrowValues:
        """These values, of which none are wide."""
        return cls(values, _NO_PLACES, _NOT_WIDE, 0, len(values))

    def whole(self) -> NDArray[np.signedinteger[Any]]:
        """All values in one array: int32 if some are wide, else `narrow` itself."""
        if not len(self.places):
            return self.narrow
        values = self.narrow.astype(np.int32)
        values[self.places] = self.wide
        return values


_NO_PLACES, _NOT_WIDE = np.empty(0, np.int64), np.empty(0, np.int32)
