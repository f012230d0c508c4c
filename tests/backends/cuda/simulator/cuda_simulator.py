"""What Numba's CUDA simulator lacks, in plain Python: warp primitives, inline PTX, and device properties.

`install()` must run before the back end is imported, with NUMBA_ENABLE_CUDASIM=1 set. The simulator runs the
threads of a block from barrier to barrier, and blocks one after another. Here a block has one warp. A warp
primitive stores a value in a slot, waits at a barrier, and reads another slot. These tests thus cover logic,
not concurrency.
"""

from __future__ import annotations

import math
import sys
from functools import lru_cache, partial
from operator import mul
from types import ModuleType, SimpleNamespace

import numpy as np
from greenlet import getcurrent, greenlet
from numba import cuda
from numba.cuda.simulator import kernel, kernelapi
from numba.cuda.simulator.cudadrv import devices, driver, error

LANES = 32


class Lane(kernel.BlockThread):
    """A thread of a block that is none: a coroutine, which gives way at every barrier.

    The simulator's own threads run at the same time and poll. With 32 of them a barrier takes milliseconds.
    """

    def __init__(self, *args):
        super().__init__(*args)
        self.exchanges = 0
        self.coroutine = greenlet(self.run)
        self.coroutine.lane = self
        self.syncthreads = self.coroutine.parent.switch

    def run(self):
        with np.errstate(over="ignore"):  # sums wrap, as they do on the device
            super().run()


def current_lane():
    """The lane that calls this."""
    return getcurrent().lane


class Block(kernel.BlockManager):
    """Runs the lanes of a block one after another, from barrier to barrier."""

    def run(self, grid_point, *args):
        self.slots = [None] * (2 * LANES)
        running = [
            Lane(lambda: self._f(*args), self, grid_point, point, self._debug)
            for point in np.ndindex(*self._block_dim)
        ]
        while running:
            for lane in running:
                lane.coroutine.switch()
                if lane.exception:
                    raise lane.exception[0].with_traceback(lane.exception[1])
            running = [lane for lane in running if not lane.coroutine.dead]


def _exchange(lane, value, source):
    """Every lane passes a value and gets that of lane `source`, or its own if there is no such lane.

    Exchanges alternate between two sets of slots. A lane that is ahead thus cannot overwrite a value that
    others have yet to read.
    """
    slots, base = lane._manager.slots, lane.exchanges % 2 * LANES
    lane.exchanges += 1
    slots[base + lane.thread_id] = value
    lane.syncthreads()
    return slots[base + source] if 0 <= source < LANES else value


def _shfl(_, mask, value, source):
    return _exchange(current_lane(), value, source)


def _shfl_up(_, mask, value, delta):
    lane = current_lane()
    return _exchange(lane, value, lane.thread_id - delta)


def _shfl_down(_, mask, value, delta):
    lane = current_lane()
    return _exchange(lane, value, lane.thread_id + delta)


def _any(_, mask, predicate):
    lane = current_lane()
    _exchange(lane, bool(predicate), lane.thread_id)
    base = (lane.exchanges - 1) % 2 * LANES
    return any(lane._manager.slots[base : base + LANES])


#: What warps have and the simulator lacks, as methods of its `cuda`.
_WARP = {
    "shfl_sync": _shfl,
    "shfl_up_sync": _shfl_up,
    "shfl_down_sync": _shfl_down,
    "any_sync": _any,
    "syncwarp": lambda _: current_lane().syncthreads(),
}


class _Cuda:
    """Replaces `cuda` in modules with device functions: while a kernel runs, the kernel's view of `cuda`."""

    def __getattr__(self, name):
        return getattr(kernel._get_kernel_context() or cuda, name)


def _jit(jit):
    """`cuda.jit` that returns device functions unchanged. The simulator would wrap each of their calls."""
    proxy = _Cuda()

    def decorate(function=None, *, device=False, max_registers=None, lto=None, **options):
        if function is None:
            return partial(decorate, device=device, **options)
        if not device:
            return jit(function, **options)
        function.__globals__["cuda"] = proxy
        return function

    return decorate


def _int32(word):
    """The 32 bits of a whole number from 0 on."""
    return np.int32(word - (1 << 32) if word >> 31 else word)


@lru_cache(1 << 16)
def _permute_bytes(low, high, selector):
    source = (int(high) & 0xFFFFFFFF) << 32 | int(low) & 0xFFFFFFFF
    result, selector = 0, int(selector)
    for position in (0, 8, 16, 24):
        nibble = selector >> (position >> 1) & 15
        byte = source >> 8 * (nibble & 7) & 255
        if nibble & 8:
            byte = 255 if byte & 128 else 0
        result |= byte << position
    return _int32(result)


@lru_cache(1 << 16)
def _signed_bytes(word):
    return [(int(word) >> shift & 255 ^ 128) - 128 for shift in (0, 8, 16, 24)]


def _dot_bytes(x, y, total):
    return np.int32(total + sum(map(mul, _signed_bytes(x), _signed_bytes(y))))


# Pairs of 16 bits. NumPy would take ten times as long.


@lru_cache(1 << 16)
def _add_pairs(x, y):
    x, y = int(x), int(y)
    return _int32((x + y & 0xFFFF) | ((x & 0xFFFF0000) + (y & 0xFFFF0000) & 0xFFFF0000))


@lru_cache(1 << 16)
def _maximum_pairs(x, y):
    x, y = int(x), int(y)
    low, other_low, high, other_high = x & 0xFFFF, y & 0xFFFF, x & 0xFFFF0000, y & 0xFFFF0000
    return _int32((low if low > other_low else other_low) | (high if high > other_high else other_high))


@lru_cache(1 << 16)
def _minimum_signed_pairs(x, y):
    """With the signs inverted, the order is that of unsigned numbers."""
    x, y = int(x) ^ 0x80008000, int(y) ^ 0x80008000
    low, other_low, high, other_high = x & 0xFFFF, y & 0xFFFF, x & 0xFFFF0000, y & 0xFFFF0000
    least = (low if low < other_low else other_low) | (high if high < other_high else other_high)
    return _int32(least ^ 0x80008000)


def _store(array, index, value):
    array[index] = value


def _store_if(condition, array, index, value):
    if condition:
        array[index] = value


def _store_pair(array, index, first, second):
    array[index], array[index + 1] = first, second


def _shared_address(array):
    """The address of an array. It is aligned no better than the elements are, which can occur on a device."""
    return array.itemsize


def _shared_index(array, address, count, alignment):
    """The index of the first of `count` elements at an address, after a check of bounds and alignment."""
    index = address // array.itemsize - 1
    assert address % alignment == 0
    assert 0 <= index <= len(array) - count
    return index


def _load_shared(array, address):
    return array[_shared_index(array, address, 1, array.itemsize)]


def _store_shared(array, address, value):
    array[_shared_index(array, address, 1, array.itemsize)] = value


def _load_shared_two(array, address):
    first = _shared_index(array, address, 2, 8)
    return array[first], array[first + 1]


def _store_shared_two(array, address, first, second):
    at = _shared_index(array, address, 2, 8)
    array[at], array[at + 1] = first, second


def _load_shared_words(count):
    def load(array, address):
        first = _shared_index(array, address, count, count * array.itemsize)
        return tuple(array[first : first + count])

    return load


def _upload(to, array, stream):
    to.copy_to_device(array, stream=stream)


def _download(to, array, start, stream):
    array[start : start + len(to)].copy_to_host(to, stream=stream)


def _part_of(block, start, shape, dtype):
    return block[start : start + math.prod(shape) * dtype.itemsize].view(dtype).reshape(shape)


def _ptx() -> ModuleType:
    module = ModuleType("longalign.backends.cuda.device.ptx")
    module.load_acquire = module.load_relaxed = lambda array, index: array[index]
    module.load_pair = lambda array, index: (array[index], array[index + 1])
    module.store_pair = _store_pair
    module.store_release = _store
    module.store_if = _store_if
    module.opaque = lambda value: value
    for name, count in (("single", 1), ("quad", 4)):
        setattr(module, f"load_shared_{name}", _load_shared_words(count))
    module.shared_address = _shared_address
    module.load_shared = _load_shared
    module.store_shared = _store_shared
    module.load_shared_two = _load_shared_two
    module.store_shared_two = _store_shared_two
    module.permute_bytes = _permute_bytes
    module.dot_bytes = _dot_bytes
    module.add_pairs = _add_pairs
    module.maximum_pairs = _maximum_pairs
    module.minimum_signed_pairs = _minimum_signed_pairs
    return module


def install() -> None:
    """Patch the simulator, and replace the module of PTX intrinsics."""
    for name, function in _WARP.items():
        setattr(kernelapi.FakeCUDAModule, name, function)
        setattr(_Cuda, name, function)  # found at once, as they are called more often than all else
    kernelapi.FakeCUDAModule.nanosleep = lambda self, nanoseconds: None
    cuda.jit = _jit(cuda.jit)
    kernel.BlockManager = Block
    # Kernels get plain arrays. The simulator's wrapper serves records, and takes a fifth of the time.
    kernel.FakeWithinKernelCUDAArray = lambda array: array._ary
    kernelapi.threading = SimpleNamespace(current_thread=current_lane)
    kernel.FakeCUDAKernel.compile = lambda self, signature: None
    kernel.FakeOverload.max_cooperative_grid_blocks = lambda self, threads, shared_bytes: 1
    kernel.FakeOverload.regs_per_thread = 0
    cuda.Event.query = lambda self: True
    cuda.Event.elapsed_time = lambda self, end: 0.0
    cuda.Event.__init__ = cuda.event.__init__ = lambda self, timing=True: None
    devices.FakeCUDADevice.name = "simulator"
    devices.FakeCUDADevice.MULTIPROCESSOR_COUNT = 2
    devices.FakeCUDADevice.CLOCK_RATE = 1_980_000
    devices.FakeCUDADevice.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 228 << 10
    devices.FakeCUDADevice.compute_capability = (9, 0)
    devices.FakeCUDAContext.name = "simulator"
    devices.FakeCUDAContext.compute_capability = (9, 0)
    devices.FakeCUDAContext.memory_manager = SimpleNamespace(deallocations=set())
    devices.FakeCUDAContext.get_memory_info = lambda self: devices._MemoryInfo(1 << 32, 1 << 32)
    driver.get_version = lambda: (13, 0)
    for name in ("CudaDriverError", "NvvmError", "NvvmSupportError"):
        setattr(error, name, type(name, (Exception,), {}))
    sys.modules["numba.cuda.cudadrv.error"] = error
    sys.modules["longalign.backends.cuda.device.ptx"] = _ptx()
    from longalign.backends.cuda import kernel_cache, numba_api

    kernel_cache.CudaCache.holds = lambda self, signature: True  # nothing is compiled: no message about it
    numba_api.part_of, numba_api.upload, numba_api.download = _part_of, _upload, _download
