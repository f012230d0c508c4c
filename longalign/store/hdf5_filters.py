"""HDF5's shuffle and deflate filters, applied outside of HDF5 to the blocks of an array.

A block is an HDF5 chunk: consecutive values of one line of an array, where a line runs along the last
dimension. It is shuffled if its values are wider than a byte, and then deflated.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from longalign.system.threads import in_threads

#: The most values in a block. Reading a part of a line inflates at most two blocks more than the part needs;
#: smaller blocks would cost more time per value in Python and HDF5.
BLOCK_LENGTH = 1 << 18

#: ISA-L's higher levels compress boundaries no better, and level 0 is no faster.
DEFLATE_LEVEL = 1

#: If a part takes more blocks than this, threads inflate them.
_MAX_BLOCKS_WITHOUT_THREADS = 32

#: The index of a line in all dimensions but the last, followed by the number of the block in that line.
BlockIndex = tuple[int, ...]


def blocks_along(shape: tuple[int, ...], length: int) -> tuple[int, ...]:
    """The number of blocks in each dimension of an array."""
    return *shape[:-1], -(-shape[-1] // length)


def block_of(values: NDArray[Any], place: BlockIndex, length: int) -> NDArray[Any]:
    """The values of one block."""
    numbers: NDArray[Any] = values[place[:-1]][place[-1] * length : (place[-1] + 1) * length]
    return numbers


def checksum(numbers: NDArray[Any], before: int = 0) -> int:
    """The CRC-32 of contiguous values; `before` is the CRC-32 of the values that precede them."""
    crc: int = isal_zlib.crc32(numbers, before)
    return crc


def deflate(numbers: NDArray[Any], length: int) -> bytes:
    """A block as HDF5 stores it: the last block of a line is padded with zeros to `length`."""
    if len(numbers) < length:
        filled = np.zeros(length, numbers.dtype)
        filled[: len(numbers)] = numbers
        numbers = filled
    if numbers.itemsize > 1:
        numbers = np.ascontiguousarray(numbers.view(np.uint8).reshape(length, -1).T)
    return isal_zlib.compress(numbers, DEFLATE_LEVEL)


def inflate(stored: bytes, dtype: np.dtype[Any], length: int, count: int, crc: int) -> NDArray[Any]:
    """The first `count` values of a stored block. Raises ValueError if it is damaged.

    At most one block and a byte is inflated, however large a forged stream would become.
    """
    size, stream = length * dtype.itemsize, isal_zlib.decompressobj()
    try:
        content = stream.decompress(stored, size + 1)
    except isal_zlib.error as error:  # type: ignore[misc]  # its stub has an instance
        raise ValueError(f"a block cannot be inflated: {error}") from error
    if len(content) <= size and not stream.eof:
        raise ValueError("a block cannot be inflated: its end is missing")
    if len(content) != size:
        raise ValueError("a block has another length than when it was written")
    columns = np.frombuffer(content, np.uint8).reshape(dtype.itemsize, length)
    numbers: NDArray[Any] = np.ascontiguousarray(columns.T).view(dtype)[:count, 0]
    if checksum(numbers) != crc:
        raise ValueError("a block has another CRC-32 than when it was written")
    return numbers


def part(
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    length: int,
    block: Callable[[BlockIndex], NDArray[Any]],
    key: Any,
) -> Any:
    """The result of NumPy indexing by `key`, which has integers and slices without a step.

    `block` returns the values of each block of the array.
    """
    keys = key if isinstance(key, tuple) else (key,)
    keys = (*keys, *(slice(None) for _ in shape[len(keys) :]))
    picked = [range(size)[at] for size, at in zip(shape, keys, strict=True)]
    *lines, along = (at if isinstance(at, range) else range(at, at + 1) for at in picked)
    values = np.empty([len(at) for at in (*lines, along)], dtype)
    start, stop = along.start, max(along.start, along.stop)
    numbers = range(start // length, -(-stop // length))

    def copy(at: BlockIndex, number: int) -> None:
        line = [places[k] for places, k in zip(lines, at, strict=True)]
        begin = number * length
        found = block((*line, number))[max(0, start - begin) : stop - begin]
        to = max(0, begin - start)
        values[at][to : to + len(found)] = found

    calls = [(at, number) for at in np.ndindex(*map(len, lines)) for number in numbers]
    if len(calls) > _MAX_BLOCKS_WITHOUT_THREADS:
        in_threads(copy, *zip(*calls, strict=True))
    else:
        for call in calls:
            copy(*call)
    return values[tuple(slice(None) if isinstance(at, range) else 0 for at in picked)]
