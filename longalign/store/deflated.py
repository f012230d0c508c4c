"""Arrays that are deflated in memory, block by block, in the form in which a file stores them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from longalign.store import hdf5_filters
from longalign.store.hdf5_filters import BlockIndex, block_of, blocks_along, checksum, deflate, inflate, part
from longalign.system.threads import in_threads

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Packed = TypeVar("Packed", bound="DataclassInstance")


@dataclass(frozen=True, slots=True, eq=False)
class DeflatedArray:
    """An array in deflated blocks, indexed like a dataset: by integers and slices without a step.

    `length` is the number of values in a block; the last block of a line may have fewer. `streams` (bytes)
    and `crcs` (uint32, of the values) have one element per block, in the shape (*shape[:-1], blocks per
    line). `listeners` are called with the index of each block that is put.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    length: int
    streams: NDArray[np.object_]
    crcs: NDArray[np.uint32]
    listeners: list[Callable[[BlockIndex], None]] = field(default_factory=list)

    @classmethod
    def empty(cls, shape: tuple[int, ...], dtype: Any, length: int) -> DeflatedArray:
        """An array without blocks; `put` adds them."""
        count = blocks_along(shape, length)
        return cls(shape, np.dtype(dtype), length, np.empty(count, object), np.empty(count, np.uint32))

    @classmethod
    def of(cls, values: NDArray[Any]) -> DeflatedArray:
        """Deflate an array in threads. The checksums are those of its values now."""
        values, length = np.ascontiguousarray(values), min(values.shape[-1], hdf5_filters.BLOCK_LENGTH)
        array = cls.empty(values.shape, values.dtype, length)

        def put(place: BlockIndex) -> None:
            numbers = block_of(values, place, length)
            array.put(place, numbers, checksum(numbers))

        in_threads(put, np.ndindex(*array.streams.shape))
        return array

    def put(self, place: BlockIndex, numbers: NDArray[Any], crc: int) -> None:
        """Add a block; `crc` is the `checksum` of its values, computed where they were made."""
        self.streams[place], self.crcs[place] = deflate(numbers, self.length), crc
        self._tell(place)

    def repeat(self, there: BlockIndex, place: BlockIndex) -> None:
        """Add a block with the same values as the one that is `there`."""
        self.streams[place], self.crcs[place] = self.streams[there], self.crcs[there]
        self._tell(place)

    def _tell(self, place: BlockIndex) -> None:
        for listener in self.listeners:
            listener(place)

    def __getitem__(self, key: Any) -> Any:
        return part(self.shape, self.dtype, self.length, self._block, key)

    def _block(self, place: BlockIndex) -> NDArray[Any]:
        count = min(self.length, self.shape[-1] - place[-1] * self.length)
        return inflate(self.streams[place], self.dtype, self.length, count, int(self.crcs[place]))


def deflated(packed: Packed) -> Packed:
    """Packed lines or start states with deflated arrays. Their checksums are computed now."""
    arrays = {field.name: getattr(packed, field.name) for field in fields(packed)}
    return replace(packed, **{name: DeflatedArray.of(array) for name, array in arrays.items() if array.size})
