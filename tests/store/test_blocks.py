"""Datasets in deflated blocks: other HDF5 readers can read them, parts are right, damage is detected."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from longalign.store import hdf5_filters
from longalign.store.blocks import BlockTable, write_blocks
from longalign.store.deflated import DeflatedArray

shapes = st.lists(st.integers(1, 4), max_size=2).flatmap(
    lambda lines: st.integers(1, 40).map(lambda length: (*lines, length))
)
dtypes = st.sampled_from([np.int8, np.uint8, np.int16, np.int32, np.int64])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("blocks")


@contextmanager
def blocks_of(length: int) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hdf5_filters, "BLOCK_LENGTH", length)
        yield


def written(folder: Path, values: NDArray[Any]) -> Path:
    path = folder / "x.h5"
    with h5py.File(path, "w", libver="latest") as file:
        write_blocks(file, "x", values)
    return path


def found(path: Path) -> BlockTable:
    with h5py.File(path) as file:
        return BlockTable.of(file["x"])


def everything(path: Path) -> NDArray[Any]:
    with path.open("rb") as file:
        return found(path).all(file.fileno())


def small_numbers(count: int) -> NDArray[np.int8]:
    """Values like the steps of a boundary, which deflate encodes in a few bits each."""
    return np.random.default_rng(0).integers(-3, 2, count, np.int8)


@st.composite
def keys(draw: st.DrawFn, shape: tuple[int, ...]) -> tuple[int | slice, ...]:
    def key(size: int) -> int | slice:
        ends = st.none() | st.integers(-size - 1, size + 1)
        return draw(st.integers(-size, size - 1) | st.builds(slice, ends, ends))

    return tuple(key(size) for size in shape[: draw(st.integers(1, len(shape)))])


def in_deflated_memory(values: NDArray[Any], length: int) -> DeflatedArray:
    array = DeflatedArray.empty(values.shape, values.dtype, length)
    for place in np.ndindex(*array.streams.shape):
        block = hdf5_filters.block_of(values, place, length)
        array.put(place, block, hdf5_filters.checksum(block))
    return array


@given(shapes, dtypes, st.integers(1, 20), st.booleans(), st.sampled_from([0, 32]), st.data())
def test_all_readers_and_every_part_give_what_was_written(folder, shape, dtype, length, deflated, few, data):
    """Whether the array was deflated before it was written or not; whether threads read the part or not."""
    limits = np.iinfo(dtype)
    values = np.random.default_rng(sum(shape)).integers(limits.min, limits.max, shape, dtype, endpoint=True)
    array = in_deflated_memory(values, min(length, shape[-1]))
    with blocks_of(length):
        path = written(folder, array if deflated else values)
    with h5py.File(path) as file:
        assert np.array_equal(file["x"][...], values)
    assert np.array_equal(everything(path), values)
    key = data.draw(keys(shape))
    key = key if len(key) > 1 else key[0]
    with pytest.MonkeyPatch.context() as patch, path.open("rb") as file:
        patch.setattr(hdf5_filters, "_MAX_BLOCKS_WITHOUT_THREADS", few)
        parts = found(path).part(file.fileno(), key), array[key]
    for part in parts:
        assert np.array_equal(part, values[key])
        assert (part.dtype, part.shape) == (dtype, values[key].shape)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=3).map(tuple), dtypes, st.integers(1, 3))
def test_where_blocks_lie_is_known_as_soon_as_they_are_written(folder, shape, dtype, length):
    path = folder / "x.h5"
    with blocks_of(length), h5py.File(path, "w", libver="latest") as file:
        known = BlockTable.written(write_blocks(file, "x", np.ones(shape, dtype)))
        write_blocks(file, "y", np.ones(shape, dtype))
    read = found(path)
    assert (known.shape, known.dtype, known.length) == (read.shape, read.dtype, read.length)
    for name in ("offsets", "sizes", "crcs"):
        assert np.array_equal(getattr(known, name), getattr(read, name))
        assert getattr(known, name).dtype == getattr(read, name).dtype


def test_damage_to_a_deflated_array_is_noticed():
    array = in_deflated_memory(small_numbers(64), 64)
    array.streams[0] = zlib.compress(bytes(64))
    with pytest.raises(ValueError, match="another CRC-32"):
        array[:]


@pytest.mark.parametrize("shape", [(0,), (0, 0), (3, 0)])
def test_an_empty_array_comes_back(folder, shape):
    path = written(folder, np.empty(shape, np.int16))
    assert everything(path).shape == shape
    assert everything(path).dtype == np.int16


def test_an_array_that_is_not_contiguous_comes_back(folder):
    values = np.arange(300, dtype=np.int32).reshape(20, 15).T
    with blocks_of(7):
        assert np.array_equal(everything(written(folder, values)), values)


def test_an_array_in_the_other_byte_order_comes_back(folder):
    values = np.arange(15, dtype=">i4")
    with blocks_of(7):
        path = written(folder, values)
    with h5py.File(path) as file:
        assert np.array_equal(file["x"][...], values)
    assert np.array_equal(everything(path), values)


def test_every_block_has_its_checksum_however_many_there_are(folder):
    """More than 64 KiB of them: what HDF5 otherwise lets an attribute have."""
    values = small_numbers(20_000).reshape(2, 10_000)
    with blocks_of(1):
        path = written(folder, values)
    with h5py.File(path) as file:
        crcs = file["x"].attrs["crc32"]
    assert crcs.shape == values.shape
    assert crcs[1, 77] == zlib.crc32(values[1, 77].tobytes())
    assert np.array_equal(everything(path), values)


def test_narrow_and_wide_numbers_go_through_the_filters_that_hdf5_has(folder):
    for values, want in ((small_numbers(9), ["deflate"]), (np.arange(9), ["shuffle", "deflate"])):
        with h5py.File(written(folder, values)) as file:
            plan = file["x"].id.get_create_plist()
            names = [plan.get_filter(k)[3].decode() for k in range(plan.get_nfilters())]
        assert names == want


def flipped(path: Path, at: int, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        [byte] = file.read(1)
        file.seek(at)
        file.write(bytes([byte ^ 1 << bit]))


@pytest.mark.parametrize("values", [small_numbers(2000), np.arange(300, dtype=np.int32)], ids=["8", "32"])
def test_no_flipped_bit_of_a_block_changes_what_is_read(folder, values):
    path = written(folder, values)
    info = found(path)
    [at], [size] = info.offsets, info.sizes
    harmless = 0
    for bit in range(8 * size):
        flipped(path, at + bit // 8, bit % 8)
        with path.open("rb") as file:
            try:
                assert np.array_equal(info.part(file.fileno(), slice(None)), values)
                harmless += 1
            except ValueError:
                pass
        flipped(path, at + bit // 8, bit % 8)
    assert harmless < size  # another way to say the same, or a bit that deflate leaves unused


@pytest.mark.parametrize(
    ("bad", "complaint"),
    [
        (lambda good: bytes(len(good)), "cannot be inflated"),
        (lambda good: good[:-1], "cannot be inflated"),
        (lambda good: zlib.compress(bytes(65), 0)[: len(good)], "cannot be inflated|another length"),
        (lambda good: zlib.compress(b"\0" * 64), "another CRC-32"),
        (lambda good: zlib.compress(b"\0" * 63), "another length"),
        (lambda good: zlib.compress(b"\0" * 65), "another length"),
    ],
)
def test_what_is_no_block_is_refused(folder, bad, complaint):
    path = written(folder, small_numbers(64))
    with h5py.File(path, "r+") as file:
        _, good = file["x"].id.read_direct_chunk((0,))
        file["x"].id.write_direct_chunk((0,), bad(good))
    with pytest.raises(ValueError, match=complaint):
        everything(path)


def test_numbers_that_another_program_has_written_are_refused(folder):
    path = written(folder, small_numbers(64))
    with h5py.File(path, "r+") as file:
        file["x"][5] += 1
    with pytest.raises(ValueError, match="another CRC-32"):
        everything(path)


@pytest.mark.parametrize("masks", [[], [0], [0, 1]])
def test_a_block_that_is_not_there_or_not_deflated_is_noticed(folder, masks):
    path = folder / "y.h5"
    with h5py.File(path, "w", libver="latest") as file:
        dataset = file.create_dataset("x", (2, 8), "i1", chunks=(1, 8), compression="gzip")
        for line, mask in enumerate(masks):
            block = bytes(8) if mask else zlib.compress(bytes(8))
            dataset.id.write_direct_chunk((line, 0), block, filter_mask=mask)
        dataset.attrs["crc32"] = np.full((2, 1), zlib.crc32(bytes(8)), np.uint32)
    with pytest.raises(ValueError, match="x lacks a block"):
        found(path)


def test_an_array_without_checksums_is_refused(folder):
    path = written(folder, small_numbers(64))
    with h5py.File(path, "r+") as file:
        del file["x"].attrs["crc32"]
    with pytest.raises(KeyError):
        found(path)
