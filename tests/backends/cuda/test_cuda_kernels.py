"""How kernels are compiled, as far as that can be seen without a GPU."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext, suppress
from multiprocessing import get_context
from types import SimpleNamespace
from unittest import mock

import pytest

pytest.importorskip("numba_cuda")

from numba.cuda import codegen, compiler, dispatcher, types
from numba.cuda.core import base, postproc
from numba.cuda.cudadrv import nvvm
from numba.cuda.descriptor import cuda_target
from numba.cuda.typing import context as typing_context

from longalign.backends.cuda.compiler import short_compiler
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
        lambda: start_kernel.build_kernel(True, False),
        lambda: trace_kernel.build_kernel(False),
    ],
    ids=["sweep", "edges", "starts", "trace"],
)
def test_a_kernel_is_not_optimised_again_when_it_is_linked(build):
    assert build().targetoptions["lto"] is False


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
    assert not [function.py_func for function, times in compiled.items() if times > 1]


#: One of each kind, and sweeps that have little in common.
KERNELS = {
    "edges": (edge_kernel.build_kernel, edge_kernel.SIGNATURE),
    "starts": (lambda: start_kernel.build_kernel(True, True), start_kernel.SIGNATURE),
    "trace": (lambda: trace_kernel.build_kernel(False), trace_kernel.SIGNATURE),
    "packed": (
        lambda: sweep_kernel.build_kernel(
            KernelConfig(local=True, track_best=True, columns=3, block_rows=64, numbers="packed")
        ),
        sweep_kernel.SIGNATURE,
    ),
    "profile": (
        lambda: sweep_kernel.build_kernel(
            KernelConfig(local=False, track_best=False, columns=2, letter_scoring="profile")
        ),
        sweep_kernel.SIGNATURE,
    ),
}


def ptx_of_all(short: bool) -> dict[str, list[str]]:
    """The PTX of every kernel above, without what depends on the order in which functions are met."""
    device = SimpleNamespace(compute_capability=(9, 0))
    found = {}
    with mock.patch.object(dispatcher, "get_current_device", return_value=device):
        for name, (build, signature) in KERNELS.items():
            with short_compiler() if short else nullcontext():
                ptx, _ = cuda.compile_ptx(build().py_func, signature, cc=(9, 0))
            lines = re.sub(r"B\d+v\d+B", "", ptx).splitlines()
            found[name] = [line for line in lines if "NumbaEnv" not in line]
    return found


@pytest.mark.slow
def test_the_short_compiler_makes_the_same_code_as_the_whole_one():
    # In processes of their own: what one has compiled, the other would use.
    with ProcessPoolExecutor(2, get_context("spawn"), max_tasks_per_child=1) as processes:
        whole, short = processes.map(ptx_of_all, (False, True))
    assert short == whole


def modules_of_trace(monkeypatch) -> list[str]:
    """What NVVM gets when a kernel is compiled."""
    handed: list[str] = []

    def compile_ir(modules, **options):
        handed.extend(modules)
        return b""

    monkeypatch.setattr(dispatcher, "get_current_device", lambda: SimpleNamespace(compute_capability=(9, 0)))
    monkeypatch.setattr(nvvm, "compile_ir", compile_ir)
    cuda.compile_ptx(trace_kernel.build_kernel(False).py_func, trace_kernel.SIGNATURE, cc=(9, 0))
    return handed


def test_the_short_compiler_hands_each_function_on_once(monkeypatch):
    with short_compiler():
        once = modules_of_trace(monkeypatch)
    repeated = modules_of_trace(monkeypatch)
    assert len(once) == len(set(once)) == len(set(repeated)) < len(repeated)


def test_the_whole_compiler_is_back_after_the_short_one():
    def parts():
        typing = cuda_target.typing_context
        found = compiler.CUDACompiler, compiler.CUDAFlags, postproc.PostProcessor
        look_ups = typing.resolve_function_type, types.BaseFunction.get_call_type
        refreshes = typing_context.BaseContext.refresh, base.BaseContext.refresh
        return [*found, *look_ups, *refreshes, codegen.CUDACodeLibrary.modules]

    before = parts()
    with short_compiler():
        assert not set(before) & set(parts())
        with suppress(KeyError), short_compiler():
            raise KeyError
        assert not set(before) & set(parts())
    assert parts() == before
    assert "resolve_function_type" not in vars(cuda_target.typing_context)
