"""Tables of small integers whose lines arrive piece by piece.

A `PlainTable` keeps them in an array. A `DeflatingTable` deflates them at once. Where cells were left out,
all values are equal, and a few beside them are wide. For such lines there are a `BandTable`, which keeps only
the other values, and a `PatchedDeflatingTable`. Both keep wide values apart.

A table has the integer width that its maker expects. Lines with many wider values are kept as int32.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from longalign.model.boundary import IntArray
from longalign.model.narrow_values import NarrowValues
from longalign.store import hdf5_filters
from longalign.store.deflated import DeflatedArray
from longalign.store.hdf5_filters import BlockIndex, checksum
from longalign.system.threads import in_threads

#: A line has at least this many blocks, which bounds the memory of incomplete blocks; but no block is made
#: shorter than `_MIN_BLOCK_LENGTH` for that.
_BLOCKS_PER_LINE, _MIN_BLOCK_LENGTH = 8, 1 << 12

#: The wide values of a piece of a line are kept apart if they are at most this share of its values, or at
#: most this many. Otherwise the whole line is kept as int32.
_PATCHED_SHARE, _PATCHES = 1 / 16, 64

#: Up to this many level values between two stretches are kept with these: to leave them out takes longer.
_FEW = 1 << 12


def narrowest(values: NDArray[np.int32]) -> np.dtype[np.signedinteger[Any]]:
    """The narrowest signed integer type that holds these values."""
    low, high = (int(values.min()), int(values.max())) if values.size else (0, 0)
    types = (np.int8, np.int16, np.int32)
    return np.dtype(next(t for t in types if np.iinfo(t).min <= low and high <= np.iinfo(t).max))


#: The first position of a stretch of a line, and its values.
Stretch = tuple[int, NDArray[np.signedinteger[Any]]]

#: The positions of wide values in a line, in increasing order, and the values.
Patches = tuple[NDArray[np.int64], IntArray]


def patched(
    values: NDArray[np.signedinteger[Any]], line: int, start: int, patches: Mapping[int, Patches]
) -> NDArray[Any]:
    """The values of a line from position `start` on: int32 if some of them are wide.

    `values` are the narrow ones, and `patches` the wide ones of each line that has any.
    """
    if line not in patches:
        return values
    places, wide = patches[line]
    first, last = np.searchsorted(places, (start, start + len(values)))
    if first == last:
        return values
    changed = values.astype(np.int32)
    changed[places[first:last] - start] = wide[first:last]
    return changed


class NarrowTable(ABC):
    """Lines of equal length whose values are expected to fit `dtype`.

    `level` is the value where cells were left out. Different lines may come from different threads.
    """

    def __init__(
        self, lines: int, length: int, dtype: np.dtype[np.signedinteger[Any]], level: int = 0
    ) -> None:
        self._shape, self._dtype, self._level = (lines, length), dtype, level
        self._wide: dict[int, IntArray] = {}
        self._patches: dict[int, Patches] = {}

    def constant(self, value: int, count: int) -> NarrowValues:
        """The same value `count` times, which must fit, for `put`."""
        return NarrowValues.constant(value, count, self._dtype, self._level)

    def put(self, line: int, start: int, values: NarrowValues) -> None:
        """Append values of this table's type and level to a line, from position `start` on.

        They may be kept without a copy.
        """
        if line not in self._wide:
            if not len(values.places) or self._keep_apart(line, start, values):
                self._keep(line, start, values)
                return
            wide = np.empty(self._shape[1], np.int32)
            wide[:start] = patched(self._kept(line, start), line, 0, self._patches)
            self._wide[line] = wide
            self._forget(line)
        self._wide[line][start : start + len(values.narrow)] = values.whole()

    def values(self) -> Any:
        """All lines, which must be complete: an array, or an object that is indexed like one."""
        if not self._wide:
            return self._all()
        table = np.empty(self._shape, np.result_type(*map(narrowest, self._wide.values())))
        for line in range(self._shape[0]):
            table[line] = self._wide[line] if line in self._wide else self._kept(line, self._shape[1])
        return table

    def _keep_apart(self, line: int, start: int, values: NarrowValues) -> bool:
        """Keep the wide values of a piece apart, if this table does so. Returns whether it was done."""
        return False

    def _forget(self, line: int) -> None:
        """Free what was kept of the narrow values of a line that is kept as int32 now."""
        self._patches.pop(line, None)

    @abstractmethod
    def _keep(self, line: int, start: int, values: NarrowValues) -> None:
        """Append the narrow values of a piece."""
        ...

    @abstractmethod
    def _kept(self, line: int, stop: int) -> NDArray[np.signedinteger[Any]]:
        """The values of a line up to position `stop`; no more have arrived."""
        ...

    @abstractmethod
    def _all(self) -> Any: ...


class PlainTable(NarrowTable):
    """Keeps values in a plain array."""

    def __init__(
        self, lines: int, length: int, dtype: np.dtype[np.signedinteger[Any]], level: int = 0
    ) -> None:
        super().__init__(lines, length, dtype, level)
        self._table = np.empty((lines, length), dtype)

    def _keep(self, line: int, start: int, values: NarrowValues) -> None:
        self._table[line, start : start + len(values.narrow)] = values.narrow

    def _kept(self, line: int, stop: int) -> NDArray[np.signedinteger[Any]]:
        return self._table[line, :stop]

    def _all(self) -> NDArray[np.signedinteger[Any]]:
        return self._table


class DeflatingTable(NarrowTable):
    """Deflates each block of values into `deflated` as soon as it is complete.

    The checksum of a block is computed from the values as they arrive, not from the buffer that collects
    them. If the buffer is corrupted before it is deflated, reading the block fails.
    """

    def __init__(
        self, lines: int, length: int, dtype: np.dtype[np.signedinteger[Any]], level: int = 0
    ) -> None:
        super().__init__(lines, length, dtype, level)
        block = min(
            length, max(_MIN_BLOCK_LENGTH, min(hdf5_filters.BLOCK_LENGTH, -(-length // _BLOCKS_PER_LINE)))
        )
        self.deflated = DeflatedArray.empty((lines, length), dtype, block)
        self._open_blocks = np.empty((lines, block), dtype)
        self._crcs = [0] * lines

    def _keep(self, line: int, start: int, values: NarrowValues) -> None:
        block, values_so_far, end = self.deflated.length, self._open_blocks[line], self._shape[1]
        narrow = values.narrow
        taken = 0
        while taken < len(narrow):
            at = (start + taken) % block
            count = min(block - at, len(narrow) - taken)
            piece = np.ascontiguousarray(narrow[taken : taken + count])
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


@dataclass(frozen=True, slots=True, eq=False)
class PatchedArray:
    """The lines of a table that keeps wide values apart, each read as `array[line, start:stop]`.

    - `narrow` (lines, length): the values that fit, in an array or deflated
    - `patches`: the few wide values of each line that has any
    - `wide`: the lines with many wide values, int32
    """

    narrow: Any
    patches: Mapping[int, Patches]
    wide: Mapping[int, IntArray]

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of lines, and their length."""
        shape: tuple[int, ...] = self.narrow.shape
        return shape

    def __getitem__(self, key: tuple[int, slice]) -> NDArray[np.signedinteger[Any]]:
        """A part of a line: int32 if it has wide values, else of the type of `narrow`."""
        line, part = key
        if line in self.wide:
            return self.wide[line][part]
        return patched(self.narrow[line, part], line, part.start or 0, self.patches)

    @property
    def nbytes(self) -> int:
        """Bytes of the values that are kept."""
        apart = sum(places.nbytes + values.nbytes for places, values in self.patches.values())
        return int(self.narrow.nbytes) + apart + sum(values.nbytes for values in self.wide.values())

    def whole(self) -> IntArray:
        """All values in one array."""
        lines, length = self.shape
        values = np.empty((lines, length), np.int32)
        for line in range(lines):
            values[line] = self[line, :length]
        return values

    def listed(self) -> NDArray[np.int64]:
        """The wide values that are kept apart, as a file has them: line, position and value, (3, values)."""
        if not self.patches:
            return NONE_APART
        columns = [
            (np.full(len(places), line), places, wide)
            for line, (places, wide) in sorted(self.patches.items())
        ]
        return np.concatenate([np.array(column, np.int64) for column in columns], axis=1)


#: No wide values, in the form of `PatchedArray.listed`.
NONE_APART = np.empty((3, 0), np.int64)


def patches_of(listed: NDArray[np.int64], shape: tuple[int, ...]) -> dict[int, Patches]:
    """The patches that `PatchedArray.listed` has listed, for lines of this shape.

    Raises ValueError if they cannot be those of such lines.
    """
    line, place, value = listed
    inside = shape[0] > 0 and ((line >= 0) & (line < shape[0]) & (place >= 0) & (place < shape[1])).all()
    in_order = (np.diff(line) > 0) | ((np.diff(line) == 0) & (np.diff(place) > 0))
    if len(line) and not (inside and in_order.all()):
        raise ValueError("wide values are listed for other places than those of the lines")
    firsts = np.flatnonzero(np.diff(line, prepend=-1))
    places, values = (np.split(numbers, firsts[1:]) for numbers in (place, value.astype(np.int32)))
    return {int(line[k]): (places[n], values[n]) for n, k in enumerate(firsts.tolist())}


def stored_form(values: Any) -> tuple[Any, NDArray[np.int64]]:
    """What the file of a pruned tile holds of the values of a table: narrow ones, and a list of those apart.

    All values are in the first array if a line has many wide ones.
    """
    if not isinstance(values, PatchedArray):
        return values, NONE_APART
    if values.wide:
        return values.whole(), NONE_APART
    return complete(values.narrow), values.listed()


def complete(values: Any) -> Any:
    """An array in which the values of cells left out are kept, too."""
    return values.deflated() if isinstance(values, BandArray) else values


class _KeepsWideApart(NarrowTable):
    """Keeps wide values apart where a piece of a line has only few of them."""

    def _keep_apart(self, line: int, start: int, values: NarrowValues) -> bool:
        if len(values.places) > max(_PATCHES, _PATCHED_SHARE * len(values.narrow)):
            return False
        patches = start + values.places, values.wide.copy()  # not all of the array that this is a view of
        if line in self._patches:
            before = self._patches[line]
            patches = np.concatenate([before[0], patches[0]]), np.concatenate([before[1], patches[1]])
        self._patches[line] = patches
        return True

    def values(self) -> Any:
        """See `NarrowTable`: what keeps the narrow values, or a `PatchedArray` if some values are wide."""
        is_narrow = not self._patches and not self._wide
        return self._all() if is_narrow else PatchedArray(self._all(), self._patches, self._wide)


@dataclass(frozen=True, slots=True, eq=False)
class BandArray:
    """Lines of equal length that have the value `level` but for some stretches.

    `stretches` has, for each line, the first position of each stretch and its values, in order.
    """

    shape: tuple[int, int]
    dtype: np.dtype[np.signedinteger[Any]]
    level: int
    stretches: Sequence[Sequence[Stretch]]

    @property
    def nbytes(self) -> int:
        """Bytes of the values that are kept."""
        return sum(values.nbytes for line in self.stretches for _, values in line)

    def __getitem__(self, key: tuple[int, slice]) -> NDArray[np.signedinteger[Any]]:
        """A part of a line, given by its number and a slice without a step."""
        line, part = key
        start, stop, _ = part.indices(self.shape[1])
        stretches = self.stretches[line]
        for begin, stretch in stretches:
            if begin <= start and stop <= begin + len(stretch):
                return stretch[start - begin : stop - begin]
        values = np.full(max(0, stop - start), self.level, self.dtype)
        for begin, stretch in stretches:
            first, end = max(begin, start), min(begin + len(stretch), stop)
            if first < end:
                values[first - start : end - start] = stretch[first - begin : end - begin]
        return values

    def deflated(self) -> DeflatedArray:
        """The same values, deflated. That is done once for all blocks without other values than `level`."""
        length = min(self.shape[1], hdf5_filters.BLOCK_LENGTH)
        array = DeflatedArray.empty(self.shape, self.dtype, length)
        level: dict[int, list[BlockIndex]] = defaultdict(list)  # by their number of values
        others: list[BlockIndex] = []
        for place in np.ndindex(*array.streams.shape):
            span = range(place[1] * length, min((place[1] + 1) * length, self.shape[1]))
            (level[len(span)] if self._is_level(place[0], span) else others).append(place)

        def put(place: BlockIndex) -> None:
            line, block = place
            numbers = self[line, block * length : (block + 1) * length]
            array.put(place, numbers, checksum(numbers))

        in_threads(put, [*others, *(places[0] for places in level.values())])
        for first, *places in level.values():
            for place in places:
                array.repeat(first, place)
        return array

    def _is_level(self, line: int, span: range) -> bool:
        stretches = self.stretches[line]
        return not any(begin < span.stop and span.start < begin + len(values) for begin, values in stretches)


class BandTable(_KeepsWideApart):
    """Keeps the stretches of lines that are not level in plain arrays, and wide values apart."""

    def __init__(
        self, lines: int, length: int, dtype: np.dtype[np.signedinteger[Any]], level: int = 0
    ) -> None:
        super().__init__(lines, length, dtype, level)
        self._stretches: list[list[Stretch]] = [[] for _ in range(lines)]

    def put(self, line: int, start: int, values: NarrowValues) -> None:
        """See `NarrowTable`. The pieces of a line are joined as soon as it is complete."""
        super().put(line, start, values)
        if start + len(values.narrow) == self._shape[1]:
            pieces, spans = self._all(), _spans(self._stretches[line])
            self._stretches[line] = [(begin, pieces[line, begin:end]) for begin, end in spans]

    def _keep(self, line: int, start: int, values: NarrowValues) -> None:
        if values.first < values.stop:
            kept = values.narrow[values.first : values.stop]
            is_all = len(kept) == len(values.narrow)
            self._stretches[line].append((start + values.first, kept if is_all else kept.copy()))

    def _kept(self, line: int, stop: int) -> NDArray[np.signedinteger[Any]]:
        return self._all()[line, :stop]

    def _forget(self, line: int) -> None:
        super()._forget(line)
        self._stretches[line] = []

    def _all(self) -> BandArray:
        return BandArray(self._shape, self._dtype, self._level, self._stretches)


def _spans(stretches: Sequence[Stretch]) -> Iterator[tuple[int, int]]:
    """The beginnings and ends of stretches; those with little between them count as one."""
    ends = [begin + len(values) for begin, values in stretches]
    firsts = [k for k in range(len(ends)) if k == 0 or stretches[k][0] > ends[k - 1] + _FEW]
    for first, stop in pairwise([*firsts, len(ends)]):
        yield stretches[first][0], ends[stop - 1]


class PatchedDeflatingTable(_KeepsWideApart, DeflatingTable):
    """Deflates narrow values at once, and keeps wide ones apart."""
