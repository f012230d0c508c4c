"""Arrays that are deflated in memory, block by block, as they are in a file."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.store.filters import Place, blocks_along, deflate, inflate, part


@dataclass(frozen=True, slots=True, eq=False)
class DeflatedArray:
    """Indexed like a dataset: by integers and by slices without a step.

    `length` is that of a block but for the last one of a line. `streams` (bytes) and `crcs` (uint32), those
    of the numbers of each block, have an element for each block, in the shape of these. `followers` are told
    of each block that is put.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    length: int
    streams: NDArray[np.object_]
    crcs: NDArray[np.uint32]
    followers: list[Callable[[Place], None]] = field(default_factory=list)

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: Any, length: int) -> DeflatedArray:
        """One whose blocks are yet to be put."""
        count = blocks_along(shape, length)
        return cls(shape, np.dtype(dtype), length, np.empty(count, object), np.empty(count, np.uint32))

    def put(self, place: Place, numbers: NDArray[Any], crc: int) -> None:
        """The numbers of a block, and their `checksum`, from where they were made."""
        self.streams[place], self.crcs[place] = deflate(numbers, self.length), crc
        for follow in self.followers:
            follow(place)

    def __getitem__(self, key: Any) -> Any:
        return part(self.shape, self.dtype, self.length, self._block, key)

    def _block(self, place: Place) -> NDArray[Any]:
        count = min(self.length, self.shape[-1] - place[-1] * self.length)
        return inflate(self.streams[place], self.dtype, self.length, count, int(self.crcs[place]))
