"""The layout of device memory. Host memory replaces the device's."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from longalign.backends.cuda.launch import device_memory
from longalign.backends.cuda.launch.download import _LARGEST_SLICE
from longalign.errors import BackendError


@pytest.fixture
def waits(monkeypatch):
    """Gives a workspace host memory. Returns the list of streams that it has waited for, in order."""
    waited = []

    def new_stream():
        stream = SimpleNamespace(synchronize=lambda: waited.append(stream))
        return stream

    free = SimpleNamespace(deallocations=SimpleNamespace(clear=lambda: None))
    context = SimpleNamespace(memory_manager=free, get_memory_info=lambda: SimpleNamespace(free=1 << 30))
    host = SimpleNamespace(
        stream=new_stream,
        event=lambda: None,
        pinned_array=lambda shape, dtype: np.full(shape, 77, dtype),
        device_array=lambda shape, dtype: np.full(shape, 99, dtype),
        current_context=lambda: context,
    )
    monkeypatch.setattr(device_memory, "cuda", host)
    monkeypatch.setattr(device_memory, "part_of", part_of)
    monkeypatch.setattr(device_memory, "upload", lambda to, array, stream: np.copyto(to, array))
    return waited


def part_of(block, start, shape, dtype):
    size = int(np.prod(shape)) * dtype.itemsize
    return block[start : start + size].view(dtype).reshape(shape)


def test_inputs_and_uploads_have_separate_memory_that_grows(waits):
    workspace = device_memory.Workspace()
    inputs = workspace.pinned_allocator(100)((100,), np.dtype(np.uint8))
    uploads = workspace.uploads(100)
    assert not np.shares_memory(inputs, uploads)
    assert np.shares_memory(workspace.uploads(10), uploads)
    assert len(workspace.uploads(1000)) == 1000


@pytest.mark.parametrize("share", [1, 2, 6, 100])
def test_workspaces_of_one_device_share_the_memory_for_downloads(waits, share):
    staged = [device_memory.Workspace(share).staging(half) for half in range(2)]
    assert len(staged[0]) == len(staged[1]) == max(device_memory._STAGED // share, 2 * _LARGEST_SLICE)


def test_a_block_is_returned_when_earlier_work_on_it_has_ended(waits):
    workspace = device_memory.Workspace()
    for _ in range(3):
        waits.clear()
        workspace.block(1000, "a launch")
        assert waits == [workspace.stream, workspace.side_stream]


def test_a_launch_that_is_a_little_larger_uses_the_same_block(waits):
    workspace = device_memory.Workspace()
    block = workspace.block(6400, "a launch")
    assert workspace.block(6500, "a launch") is block
    assert workspace.block(6501, "a launch") is not block


def test_a_block_with_room_to_grow_is_no_larger_than_free_memory(waits, monkeypatch):
    free = 10_000
    monkeypatch.setattr(device_memory, "_RESERVE", (1 << 30) - free)
    workspace = device_memory.Workspace()
    block = workspace.block(free - 1, "a launch")
    letters = np.dtype(np.uint8)
    assert len(block(0, (free,), letters)) == free
    with pytest.raises(ValueError, match="reshape"):
        block(0, (free + 1,), letters)
    with pytest.raises(BackendError):
        device_memory.Workspace().block(free + 1, "a launch")


def test_uploads_do_not_depend_on_the_content_of_pinned_memory(waits):
    rng = np.random.default_rng(1)
    workspace = device_memory.Workspace()
    shapes = [(1,), (300,), (0,), (7, 5), (device_memory._SMALL + 3,), (2, 0)]
    kinds = (np.uint8, np.int32, np.int64)
    arrays = [
        np.ascontiguousarray(rng.integers(0, 99, shape)).astype(kind) for shape in shapes for kind in kinds
    ]
    arrays.append(arrays[0])
    arena = device_memory.Arena(workspace.block(1 << 25, "a launch"), workspace)
    placed = arena._upload(arrays)
    assert [part.dtype for part in placed] == [array.dtype for array in arrays]
    assert [part.tolist() for part in placed] == [array.tolist() for array in arrays]
    assert not any(
        np.shares_memory(one, other)
        for number, one in enumerate(placed[:-1])
        for other in placed[:number]
        if one.size and other.size
    )


@pytest.mark.parametrize(
    ("sizes", "room", "launches"),
    [
        (np.zeros((0, 1)), (9,), []),
        ([(4,), (5,), (1,)], (9,), [[0, 1], [2]]),
        ([(4,), (6,), (3,)], (9,), [[0], [1, 2]]),
        ([(20,), (1,), (8,), (20,)], (9,), [[0], [1, 2], [3]]),
        ([(1, 5), (1, 5), (1, 5)], (9, 10), [[0, 1], [2]]),
        ([(5, 1), (5, 1), (4, 1)], (9, 10), [[0], [1, 2]]),
    ],
)
def test_launches_take_what_fits_in_order(sizes, room, launches):
    found = device_memory.in_launches(range(len(sizes)), np.array(sizes, np.int64), room)
    assert list(found) == launches


def test_a_launch_leaves_half_of_the_free_memory(waits):
    workspace = device_memory.Workspace()
    assert workspace.launch_room(1 << 40) == workspace.free_bytes() // 2
    assert workspace.launch_room(1000) == 1000
