"""Arrays cut into blocks, and blocks as HDF5's own filters leave them in a file, applied outside of HDF5.

A block is a chunk in HDF5's sense, a block_of of one line of an array; its filters are shuffle, where numbers
are wider than a byte, and deflate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from isal import isal_zlib
from numpy.typing import NDArray

from longalign.system.threads import in_threads

#: Numbers in a block, at most: reading a part of a line inflates no more than twice this many more than the
#: part has. Each block takes Python and HDF5 some time, whatever is in it.
BLOCK_LENGTH = 1 << 18

#: Of deflate. ISA-L's higher levels are no denser on boundaries, and level 0 is no faster.
DEFLATE_LEVEL = 1

#: A part of more blocks is inflated by threads.
_MOST_WITHOUT_THREADS = 32

#: The index of a line in all dimensions but the last, and the number of a block in it.
BlockIndex = tuple[int, ...]


def blocks_along(shape: tuple[int, ...], length: int) -> tuple[int, ...]:
    """The number of blocks in each dimension of an array."""
    return *shape[:-1], -(-shape[-1] // length)


def block_of(values: NDArray[Any], place: BlockIndex, length: int) -> NDArray[Any]:
    """The numbers of a block."""
    numbers: NDArray[Any] = values[place[:-1]][place[-1] * length : (place[-1] + 1) * length]
    return numbers


def checksum(numbers: NDArray[Any], before: int = 0) -> int:
    """The CRC-32 of contiguous numbers, or of those that go on after numbers whose CRC-32 is `before`."""
    crc: int = isal_zlib.crc32(numbers, before)
    return crc


def deflate(numbers: NDArray[Any], length: int) -> bytes:
    """A block as HDF5 stores it, which fills up the last one of a line."""
    if len(numbers) < length:
        filled = np.zeros(length, numbers.dtype)
        filled[: len(numbers)] = numbers
        numbers = filled
    if numbers.itemsize > 1:
        numbers = np.ascontiguousarray(numbers.view(np.uint8).reshape(length, -1).T)
    return isal_zlib.compress(numbers, DEFLATE_LEVEL)


def inflate(stored: bytes, dtype: np.dtype[Any], length: int, count: int, crc: int) -> NDArray[Any]:
    """The first `count` numbers of what `deflate` has made. Raises ValueError if it is damaged.

    However long a forged block would become, no more than a block is made of it.
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
    """What NumPy gives for a key of integers and of slices without a step, of an array whose blocks `block`
    gives."""
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
    if len(calls) > _MOST_WITHOUT_THREADS:
        in_threads(copy, *zip(*calls, strict=True))
    else:
        for call in calls:
            copy(*call)
    return values[tuple(slice(None) if isinstance(at, range) else 0 for at in picked)]
