"""The compilation of kernels, as far as it can be tested without a GPU."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from threading import Barrier
from time import sleep
from types import SimpleNamespace

import pytest

pytest.importorskip("numba_cuda")

from numba.cuda import dispatcher

from longalign.backends.cuda import kernel_library
from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.kernels import fill_edges as edge_kernel
from longalign.backends.cuda.kernels import start_states as start_kernel
from longalign.backends.cuda.kernels import sweep as sweep_kernel
from longalign.backends.cuda.kernels import traceback as trace_kernel
from longalign.backends.cuda.numba_api import cuda


@pytest.mark.parametrize(
    "build",
    [
        lambda: sweep_kernel.build_kernel(KernelConfig(local=True, track_best=True)),
        edge_kernel.build_kernel,
        lambda: start_kernel.build_kernel(True, False, False),
        lambda: trace_kernel.build_kernel(False),
    ],
    ids=["sweep", "edges", "starts", "trace"],
)
def test_a_kernel_is_not_optimised_again_when_it_is_linked(build):
    assert build().targetoptions["lto"] is False


class SlowKernel:
    """Stands for Numba's dispatcher. Like Numba, it fails if two threads load it at once."""

    def __init__(self):
        self.overloads, self.steps, self._is_loading = {}, [], False
        self._cache = SimpleNamespace(holds=lambda signature: True)

    def compile(self, signature):
        self.steps.append("compiled")
        sleep(0.02)
        self.overloads[signature] = self

    @property
    def regs_per_thread(self):
        assert not self._is_loading
        self._is_loading = True
        sleep(0.02)
        self._is_loading = False
        self.steps.append("loaded")


def test_threads_that_need_a_kernel_at_once_compile_and_load_it_one_after_the_other(monkeypatch):
    kernel, together = SlowKernel(), Barrier(3)
    monkeypatch.setattr(kernel_library, "dispatcher", lambda *_: kernel)

    def get(device):
        together.wait()
        found = kernel_library.compiled(kernel_library.edge_spec(), f"cuda:{device}", nullcontext())
        return found is kernel

    with ThreadPoolExecutor(3) as threads:
        assert list(threads.map(get, range(3))) == [True] * 3
    assert kernel.steps == ["compiled", *3 * ["loaded"]]


def test_the_device_of_a_kernel_is_current_when_its_cache_is_asked_and_when_it_is_compiled(monkeypatch):
    current, seen = [], []

    class Device:
        def __enter__(self):
            current.append("cuda:1")

        def __exit__(self, *error):
            current.pop()

    class Noted(SlowKernel):
        def compile(self, signature):
            seen.append(("compile", *current))
            super().compile(signature)

    kernel = Noted()
    kernel._cache = SimpleNamespace(holds=lambda signature: seen.append(("cache", *current)) or True)
    monkeypatch.setattr(kernel_library, "dispatcher", lambda *_: kernel)
    kernel_library.compiled(kernel_library.edge_spec(), "cuda:1", Device())
    assert seen == [("cache", "cuda:1"), ("compile", "cuda:1")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        KernelConfig(local=True, track_best=True, columns=2, block_rows=64, numbers="packed"),
        KernelConfig(local=False, track_best=False, columns=2, letter_scoring="compare"),
    ],
    ids=["packed", "int32"],
)
def test_device_functions_are_compiled_for_one_kind_of_arguments(config, monkeypatch):
    capability = (9, 0)
    device = SimpleNamespace(compute_capability=capability)
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: device)
    compiled: Counter[object] = Counter()
    compile_device = dispatcher.CUDADispatcher.compile_device

    def count(function, args, return_type=None):
        compiled[function] += args not in function.overloads
        return compile_device(function, args, return_type)

    monkeypatch.setattr(dispatcher.CUDADispatcher, "compile_device", count)
    cuda.compile_ptx(sweep_kernel.build_kernel(config).py_func, sweep_kernel.SIGNATURE, cc=capability)
    del compiled[sweep_kernel._rounded]  # it takes the address of an array of any kind
    assert not [function.py_func for function, times in compiled.items() if times > 1]
