"""HDF5 datasets in deflated blocks that threads compress and read in parallel; HDF5 itself is serial.

Each block is an HDF5 chunk and passes HDF5's own filters (see `hdf5_filters`), so any HDF5 reader reads the
dataset. Once HDF5 has located the blocks in the file, this module reads them without it.

The attribute `crc32` of a dataset holds the CRC-32 of the values in each block. It is checked on every read
here. Other readers have only the Adler-32 of the deflate stream, which is weaker: one flipped bit may replace
three small values by others with the same sums. HDF5 would read a block that was never written as zeros;
`BlockTable.of` refuses such a dataset.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longalign.store import hdf5_filters
from longalign.store.deflated import DeflatedArray
from longalign.store.hdf5_filters import BlockIndex, block_of, blocks_along, inflate, part
from longalign.system.threads import streamed

if TYPE_CHECKING:
    import h5py

#: Filter numbers of HDF5.
_DEFLATE, _SHUFFLE = 1, 2

#: A stored block has at most twice the bytes of its values, plus this many.
_STREAM_BYTES = 1 << 10

#: Blocks that one call of a thread reads.
_RUN = 8


def write_blocks(group: h5py.Group, name: str, values: NDArray[Any] | DeflatedArray) -> h5py.Dataset:
    """Create a dataset with these values."""
    if 0 in values.shape:
        return group.create_dataset(name, values.shape, values.dtype)
    if not isinstance(values, DeflatedArray):
        values = DeflatedArray.of(values)
    dataset = create_dataset_of(group, name, values)
    for place in np.ndindex(*values.streams.shape):
        write_block(dataset, values, place)
    write_checksums(dataset, values)
    return dataset


def create_dataset_of(group: h5py.Group, name: str, values: DeflatedArray) -> h5py.Dataset:
    """Create an empty dataset for the blocks of an array."""
    return group.create_dataset(
        name,
        values.shape,
        values.dtype,
        chunks=(*(1 for _ in values.shape[:-1]), values.length),
        shuffle=values.dtype.itemsize > 1,
        compression="gzip",
        compression_opts=hdf5_filters.DEFLATE_LEVEL,
    )


def write_block(dataset: h5py.Dataset, values: DeflatedArray, place: BlockIndex) -> None:
    """Write one block of an array."""
    begin = (*place[:-1], place[-1] * values.length)
    dataset.id.write_direct_chunk(begin, values.streams[place])


def write_checksums(dataset: h5py.Dataset, values: DeflatedArray) -> None:
    """Write the block checksums of an array; all of its blocks must be complete."""
    dataset.attrs["crc32"] = values.crcs


@dataclass(frozen=True, slots=True, eq=False)
class BlockTable:
    """Offsets, sizes and checksums of the blocks of a dataset: all that reading them needs.

    `length` is the number of values in a block; the last block of a line may have fewer. `offsets` (int64)
    and `sizes` (int32), in bytes of the file, and `crcs` (uint32) have one element per block, in the shape
    (*shape[:-1], blocks per line).
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    length: int
    offsets: NDArray[np.int64]
    sizes: NDArray[np.int32]
    crcs: NDArray[np.uint32]

    @classmethod
    def of(cls, dataset: h5py.Dataset) -> BlockTable:
        """The table of a dataset.

        Raises ValueError if it is not stored as `write_blocks` stores one, or if a block is missing; KeyError
        if its checksums are missing. Memory is allocated only in proportion to what the file really holds,
        however large a shape it claims.
        """
        shape, name = dataset.shape, dataset.name
        if 0 in shape:
            count = blocks_along(shape, 1)
            nothing = np.zeros(count, np.int64), np.zeros(count, np.int32), np.zeros(count, np.uint32)
            return cls(shape, dataset.dtype, 1, *nothing)
        length = _block_length(dataset)
        count, found = blocks_along(shape, length), list[Any]()
        if dataset.id.get_num_chunks() != prod(count):
            raise ValueError(f"{name} lacks a block")
        dataset.id.chunk_iter(found.append)
        if len(found) != prod(count) or any(info.filter_mask for info in found):
            raise ValueError(f"{name} lacks a block")
        end, largest = dataset.file.id.get_filesize(), 2 * length * dataset.dtype.itemsize + _STREAM_BYTES
        if any(info.size > largest or info.byte_offset + info.size > end for info in found):
            raise ValueError(f"{name} has a block with an impossible size or offset")
        return cls(shape, dataset.dtype, length, *_arranged(found, count, length), _checksums(dataset, count))

    @classmethod
    def written(cls, dataset: h5py.Dataset) -> BlockTable:
        """The table of a dataset that this program has just written: that of `of`, without its checks."""
        shape, found = dataset.shape, list[Any]()
        if 0 in shape:
            return cls.of(dataset)
        length = dataset.chunks[-1]
        dataset.id.chunk_iter(found.append)
        arranged = _arranged(found, blocks_along(shape, length), length)
        return cls(shape, dataset.dtype, length, *arranged, dataset.attrs["crc32"])

    def all(self, descriptor: int) -> NDArray[Any]:
        """All values, read by threads from the file open as `descriptor`.

        Raises ValueError if a block is damaged.
        """
        values = np.empty(self.shape, self.dtype)

        def read(run: list[BlockIndex]) -> None:
            for place in run:
                block_of(values, place, self.length)[:] = self._block(descriptor, place)

        with streamed(read, _runs(np.ndindex(*self.offsets.shape))) as results:
            for _ in results:
                pass
        return values

    def part(self, descriptor: int, key: Any) -> Any:
        """The result of NumPy indexing by `key`, which has integers and slices without a step.

        `descriptor` is that of the open file. Raises ValueError if a block is damaged.
        """
        return part(self.shape, self.dtype, self.length, partial(self._block, descriptor), key)

    def _block(self, descriptor: int, place: BlockIndex) -> NDArray[Any]:
        stored = os.pread(descriptor, int(self.sizes[place]), int(self.offsets[place]))
        count = min(self.length, self.shape[-1] - place[-1] * self.length)
        return inflate(stored, self.dtype, self.length, count, int(self.crcs[place]))


def _arranged(
    found: Sequence[Any], count: tuple[int, ...], length: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """The offsets and the sizes of blocks that HDF5 has found, by their places in the array."""
    offsets, sizes = np.zeros(count, np.int64), np.zeros(count, np.int32)
    begins = np.fromiter(chain.from_iterable(info.chunk_offset for info in found), np.int64)
    chunks = np.array((*(1 for _ in count[:-1]), length))
    places = tuple(begins.reshape(len(found), -1).T // chunks[:, None])
    offsets[places] = np.fromiter((info.byte_offset for info in found), np.int64)
    sizes[places] = np.fromiter((info.size for info in found), np.int32)
    return offsets, sizes


def _block_length(dataset: h5py.Dataset) -> int:
    """Values in a block. Raises ValueError if a dataset is not stored as `write_blocks` stores one."""
    name, chunks, shape = dataset.name, dataset.chunks, dataset.shape
    if chunks is None:
        raise ValueError(f"{name} is not stored in blocks")
    *lines, length = chunks
    if any(size != 1 for size in lines) or not 1 <= length <= min(hdf5_filters.BLOCK_LENGTH, shape[-1]):
        raise ValueError(f"{name} has blocks of shape {chunks}, which none has")
    plan = dataset.id.get_create_plist()
    used = [plan.get_filter(number)[0] for number in range(plan.get_nfilters())]
    if used != [_SHUFFLE, _DEFLATE][dataset.dtype.itemsize == 1 :]:
        raise ValueError(f"{name} has other filters than shuffle and deflate")
    return int(length)


def _checksums(dataset: h5py.Dataset, count: tuple[int, ...]) -> NDArray[np.uint32]:
    """The attribute `crc32`. Raises KeyError if it is missing, ValueError if its shape or type is wrong."""
    attribute = dataset.attrs.get_id("crc32")
    if attribute.shape != count or attribute.dtype != np.dtype("<u4"):
        raise ValueError(f"{dataset.name} has an attribute crc32 of another shape or type than its blocks")
    checksums: NDArray[np.uint32] = dataset.attrs["crc32"]
    return checksums


def _runs(places: Iterable[BlockIndex]) -> list[list[BlockIndex]]:
    places = list(places)
    return [places[start : start + _RUN] for start in range(0, len(places), _RUN)]
