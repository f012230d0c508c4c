"""Tables of small integers whose lines arrive piece by piece.

A `PlainTable` keeps them in an array. A `DeflatingTable` deflates them at once. A `PatchedTable` keeps the
lines of a tile of which cells were left out: usually only a few of their values are wide, those beside the
cells left out.

A table has the integer width that its maker expects. Lines with many wider values are kept as int32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.model.boundary import IntArray
from longalign.store import hdf5_filters
from longalign.store.deflated import DeflatedArray
from longalign.store.hdf5_filters import checksum

#: A line has at least this many blocks, which bounds the memory of incomplete blocks; but no block is made
#: shorter than `_MIN_BLOCK_LENGTH` for that.
_BLOCKS_PER_LINE, _MIN_BLOCK_LENGTH = 8, 1 << 12

#: Of each piece of a line, a `PatchedTable` keeps at most this many wide values apart. If there are more, it
#: keeps the line as int32.
_MOST_PATCHES = 64


def narrowest(values: NDArray[np.int32]) -> np.dtype[np.signedinteger[Any]]:
    """The narrowest signed integer type that holds these values."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    types = (np.int8, np.int16, np.int32)
    return np.dtype(next(t for t in types if np.iinfo(t).min <= low and high <= np.iinfo(t).max))


class NarrowTable(ABC):
    """Lines of equal length whose values are expected to fit `dtype`.

    Different lines may come from different threads.
    """

    def __init__(self, lines: int, length: int, dtype: np.dtype[np.signedinteger[Any]]) -> None:
        self._shape, self._dtype = (lines, length), dtype
        self._wide: dict[int, IntArray] = {}

    def put(self, line: int, start: int, values: IntArray, narrow: bool = False) -> None:
        """Append values to a line, from position `start` on; `narrow` says that they are known to fit."""
        if line not in self._wide:
            if narrow or narrowest(values).itemsize <= self._dtype.itemsize:
                self._keep(line, start, values)
                return
            if self._keep_patched(line, start, values):
                return
            wide = np.empty(self._shape[1], np.int32)
            wide[:start] = self._kept(line, start)
            self._wide[line] = wide
        self._wide[line][start : start + len(values)] = values

    def values(self) -> Any:
        """All lines, which must be complete: an array, or an object that is indexed like one."""
        if not self._wide:
            return self._all()
        table = np.empty(self._shape, np.result_type(*map(narrowest, self._wide.values())))
        for line in range(self._shape[0]):
            table[line] = self._wide[line] if line in self._wide else self._kept(line, self._shape[1])
        return table

    def _keep_patched(self, line: int, start: int, values: IntArray) -> bool:
        """Append values of which some do not fit. Returns whether it was done."""
        return False

    @abstractmethod
    def _keep(self, line: int, start: int, values: IntArray) -> None: ...

    @abstractmethod
    def _kept(self, line: int, stop: int) -> NDArray[np.signedinteger[Any]]:
        """The values of a line up to position `stop`; no more have arrived."""
        ...

    @abstractmethod
    def _all(self) -> Any: ...


class PlainTable(NarrowTable):
    """Keeps values in a plain array."""

    def __init__(self, lines: int, length: int, dtype: np.dtype[np.signedinteger[Any]]) -> None:
        super().__init__(lines, length, dtype)
        self._table = np.empty((lines, length), dtype)

    def _keep(self, line: int, start: int, values: IntArray) -> None:
        self._table[line, start : start + len(values)] = values

    def _kept(self, line: int, stop: int) -> NDArray[np.signedinteger[Any]]:
        return self._table[line, :stop]

    def _all(self) -> NDArray[np.signedinteger[Any]]:
        return self._table


#: The positions of wide values in a line, in increasing order, and the values.
_Patches = tuple[NDArray[np.intp], IntArray]


@dataclass(frozen=True, slots=True, eq=False)
class PatchedArray:
    """The lines of a `PatchedTable`, each read as `array[line, start:stop]`.

    - `narrow` (lines, length): the values that fit
    - `patches`: the few wide values of each line that has any
    - `wide`: the lines with many wide values, int32
    """

    narrow: NDArray[np.signedinteger[Any]]
    patches: Mapping[int, _Patches]
    wide: Mapping[int, IntArray]

    def __getitem__(self, key: tuple[int, slice]) -> NDArray[np.signedinteger[Any]]:
        """A part of a line: int32 if it has wide values, else of the type of `narrow`."""
        line, part = key
        if line in self.wide:
            return self.wide[line][part]
        values: NDArray[np.signedinteger[Any]] = self.narrow[line, part]
        if line not in self.patches:
            return values
        places, wide = self.patches[line]
        start, stop, _ = part.indices(self.narrow.shape[1])
        first, last = np.searchsorted(places, (start, stop))
        if first == last:
            return values
        patched = values.astype(np.int32)
        patched[places[first:last] - start] = wide[first:last]
        return patched


class PatchedTable(PlainTable):
    """Keeps values in a plain array, and wide ones apart."""

    def __init__(self, lines: int, length: int, dtype: np.dtype[np.signedinteger[Any]]) -> None:
        super().__init__(lines, length, dtype)
        self._patches: dict[int, _Patches] = {}

    def _keep_patched(self, line: int, start: int, values: IntArray) -> bool:
        narrow = values.astype(self._dtype)
        places = np.flatnonzero(narrow != values)
        if len(places) > _MOST_PATCHES:
            return False
        self._keep(line, start, narrow)
        before, wide_before = self._patches.get(line, (places[:0], values[:0]))
        self._patches[line] = (
            np.concatenate([before, start + places]), np.concatenate([wide_before, values[places]])
        )  # fmt: skip
        return True

    def values(self) -> Any:
        """See `NarrowTable`: an array, or a `PatchedArray` if some values are wide."""
        is_narrow = not self._patches and not self._wide
        return self._table if is_narrow else PatchedArray(self._table, self._patches, self._wide)

    def _kept(self, line: int, stop: int) -> NDArray[np.signedinteger[Any]]:
        return PatchedArray(self._table, self._patches, self._wide)[line, :stop]


class DeflatingTable(NarrowTable):
    """Deflates each block of values into `deflated` as soon as it is complete.

    The checksum of a block is computed from the values as they arrive, not from the buffer that collects
    them. If the buffer is corrupted before it is deflated, reading the block fails.
    """

    def __init__(self, lines: int, length: int, dtype: np.dtype[np.signedinteger[Any]]) -> None:
        super().__init__(lines, length, dtype)
        block = min(
            length, max(_MIN_BLOCK_LENGTH, min(hdf5_filters.BLOCK_LENGTH, -(-length // _BLOCKS_PER_LINE)))
        )
        self.deflated = DeflatedArray.empty((lines, length), dtype, block)
        self._open_blocks = np.empty((lines, block), dtype)
        self._crcs = [0] * lines

    def _keep(self, line: int, start: int, values: IntArray) -> None:
        block, values_so_far, end = self.deflated.length, self._open_blocks[line], self._shape[1]
        narrow = values.astype(self._dtype)
        taken = 0
        while taken < len(values):
            at = (start + taken) % block
            count = min(block - at, len(values) - taken)
            piece = narrow[taken : taken + count]
            crc = checksum(piece, self._crcs[line] if at else 0)
            values_so_far[at : at + count] = piece
            taken += count
            if at + count == block or start + taken == end:
                self.deflated.put((line, (start + taken - 1) // block), values_so_far[: at + count], crc)
            self._crcs[line] = crc

    def _kept(self, line: int, stop: int) -> NDArray[np.signedinteger[Any]]:
        whole = stop // self.deflated.length * self.deflated.length
        deflated: NDArray[np.signedinteger[Any]] = self.deflated[line, :whole]
        return np.concatenate([deflated, self._open_blocks[line, : stop - whole]])

    def _all(self) -> DeflatedArray:
        return self.deflated
