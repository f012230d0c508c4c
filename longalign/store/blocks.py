"""Arrays in blocks that threads deflate and inflate side by side: HDF5 itself does one thing at a time.

A block is a chunk in HDF5's sense, a stretch of one line of an array. It goes through HDF5's own filters, so
any HDF5 reader reads the array: shuffle, where numbers are wider than a byte, and deflate. Here they are
applied outside of HDF5, and once HDF5 has said where the blocks of a file lie, it is not needed to read them.

The attribute `crc32` of an array holds the CRC-32 of the numbers of each block, so damage is noticed on
reading any of them here. Other readers have the Adler-32 of the deflate stream, which sees less: one flipped
bit may exchange three small numbers for others with the same sums. A block that was never written, which HDF5
would read as zeros, is noticed when the array is looked up.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from longalign.threads import streamed

if TYPE_CHECKING:
    import h5py

#: Numbers in a block: reading a part of a line inflates at most twice this many more than the part has.
_LENGTH = 1 << 16

#: Of deflate. ISA-L's higher levels are no denser on boundaries, and level 0 is no faster.
_LEVEL = 1

#: Blocks that a thread takes at a time.
_RUN = 8

#: The index of a line in all dimensions but the last, and the number of a block in it.
Place = tuple[int, ...]


def write_blocks(group: h5py.Group, name: str, values: NDArray[Any]) -> h5py.Dataset:
    """A new dataset with these values."""
    if not values.size:
        return group.create_dataset(name, data=values)
    values, length = np.ascontiguousarray(values), min(values.shape[-1], _LENGTH)
    dataset = group.create_dataset(
        name,
        values.shape,
        values.dtype,
        chunks=(*(1 for _ in values.shape[:-1]), length),
        shuffle=values.itemsize > 1,
        compression="gzip",
        compression_opts=_LEVEL,
    )

    def deflated(run: list[Place]) -> list[tuple[bytes, int]]:
        blocks = [_stretch(values, place, length) for place in run]
        return [(_deflated(block, length), isal_zlib.crc32(block)) for block in blocks]

    count = _blocks_along(values.shape, length)
    crcs, runs = np.empty(count, np.uint32), _runs(np.ndindex(*count))
    with streamed(deflated, runs) as results:
        for run, blocks in zip(runs, results, strict=True):
            for place, (block, crc) in zip(run, blocks, strict=True):
                dataset.id.write_direct_chunk((*place[:-1], place[-1] * length), block)
                crcs[place] = crc
    dataset.attrs["crc32"] = crcs
    return dataset


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """Where the blocks of a dataset lie in its file, and their checksums: all that reading them takes.

    `length` is that of a block but for the last one of a line. `offsets` (int64) and `sizes` (int32), in
    bytes of the file, and `crcs` (uint32) have an element for each block, in the shape of those blocks:
    (*shape[:-1], blocks in a line).
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    length: int
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int32]
    crcs: NDArray[np.uint32]

    @classmethod
    def of(cls, dataset: h5py.Dataset) -> Blocks:
        """Look a dataset up. Raises ValueError if a block is missing, KeyError if its checksums are."""
        shape, chunks = dataset.shape, dataset.chunks or (1,)
        count = _blocks_along(shape, chunks[-1])
        offsets, sizes = np.zeros(count, np.int64), np.zeros(count, np.int32)
        if not offsets.size:
            return cls(shape, dataset.dtype, chunks[-1], offsets, sizes, np.zeros(count, np.uint32))
        found: list[Any] = []
        dataset.id.chunk_iter(found.append)
        if len(found) != offsets.size or any(info.filter_mask for info in found):
            raise ValueError(f"{dataset.name} lacks a block")
        begins = np.fromiter(chain.from_iterable(info.chunk_offset for info in found), np.int64)
        places = tuple(begins.reshape(len(found), -1).T // np.array(chunks)[:, None])
        offsets[places] = np.fromiter((info.byte_offset for info in found), np.int64)
        sizes[places] = np.fromiter((info.size for info in found), np.int32)
        return cls(shape, dataset.dtype, chunks[-1], offsets, sizes, dataset.attrs["crc32"])

    def all(self, descriptor: int) -> NDArray[Any]:
        """All numbers, read by threads; `descriptor` is that of the file.

        Raises ValueError if a block is damaged.
        """
        values = np.empty(self.shape, self.dtype)

        def read(run: list[Place]) -> None:
            for place in run:
                _stretch(values, place, self.length)[:] = self._block(descriptor, place)

        with streamed(read, _runs(np.ndindex(*self.offsets.shape))) as results:
            for _ in results:
                pass
        return values

    def part(self, descriptor: int, key: Any) -> Any:
        """What NumPy gives for a key of integers and of slices without a step, read by the calling thread.

        Raises ValueError if a block is damaged.
        """
        keys = key if isinstance(key, tuple) else (key,)
        keys = (*keys, *(slice(None) for _ in self.shape[len(keys) :]))
        picked = [range(size)[at] for size, at in zip(self.shape, keys, strict=True)]
        *lines, along = (at if isinstance(at, range) else range(at, at + 1) for at in picked)
        values = np.empty([len(at) for at in (*lines, along)], self.dtype)
        start, stop = along.start, max(along.start, along.stop)
        for at in np.ndindex(*map(len, lines)):
            line = [numbers[k] for numbers, k in zip(lines, at, strict=True)]
            for number in range(start // self.length, -(-stop // self.length)):
                begin = number * self.length
                block = self._block(descriptor, (*line, number))[max(0, start - begin) : stop - begin]
                to = max(0, begin - start)
                values[at][to : to + len(block)] = block
        return values[tuple(slice(None) if isinstance(at, range) else 0 for at in picked)]

    def _block(self, descriptor: int, place: Place) -> NDArray[Any]:
        stored = os.pread(descriptor, int(self.sizes[place]), int(self.offsets[place]))
        numbers = _inflated(stored, self.dtype, self.length)[: self.shape[-1] - place[-1] * self.length]
        if isal_zlib.crc32(numbers) != self.crcs[place]:
            raise ValueError("a block has another CRC-32 than when it was written")
        return numbers


def _blocks_along(shape: tuple[int, ...], length: int) -> tuple[int, ...]:
    """The number of blocks in each dimension of an array."""
    return *shape[:-1], -(-shape[-1] // length)


def _runs(places: Iterable[Place]) -> list[list[Place]]:
    places = list(places)
    return [places[start : start + _RUN] for start in range(0, len(places), _RUN)]


def _stretch(values: NDArray[Any], place: Place, length: int) -> NDArray[Any]:
    """The numbers of a block."""
    stretch: NDArray[Any] = values[place[:-1]][place[-1] * length : (place[-1] + 1) * length]
    return stretch


def _deflated(numbers: NDArray[Any], length: int) -> bytes:
    """A block as HDF5 stores it, which fills up the last one of a line."""
    if len(numbers) < length:
        filled = np.zeros(length, numbers.dtype)
        filled[: len(numbers)] = numbers
        numbers = filled
    if numbers.itemsize > 1:
        numbers = np.ascontiguousarray(numbers.view(np.uint8).reshape(length, -1).T)
    stream: bytes = isal_zlib.compress(numbers, _LEVEL)
    return stream


def _inflated(stored: bytes, dtype: np.dtype[Any], length: int) -> NDArray[Any]:
    """What `_deflated` was given, filled up. Raises ValueError."""
    try:
        content = isal_zlib.decompress(stored, bufsize=length * dtype.itemsize)
    except isal_zlib.error as error:  # type: ignore[misc]  # its stub has an instance
        raise ValueError(f"a block cannot be inflated: {error}") from error
    if len(content) != length * dtype.itemsize:
        raise ValueError("a block has another length than when it was written")
    columns = np.frombuffer(content, np.uint8).reshape(dtype.itemsize, length)
    return np.ascontiguousarray(columns.T).view(dtype)[:, 0]
