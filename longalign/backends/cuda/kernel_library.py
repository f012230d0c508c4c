"""The kernels that the CUDA back end launches, compiled for the current device or loaded from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from threading import Lock
from typing import Any

from longalign.backends.compilation import compile_or_load, kernel_lock
from longalign.backends.cuda.config import KernelConfig
from longalign.backends.cuda.devices import one_line
from longalign.backends.cuda.kernel_cache import CudaCache
from longalign.backends.cuda.kernels import computed_blocks, fill_edges, start_states, sweep, traceback
from longalign.backends.cuda.numba_api import load_kernel
from longalign.backends.cuda.planning import kernel_shape
from longalign.backends.cuda.planning.kernel_shape import Kind
from longalign.errors import BackendError
from longalign.system.gc_pause import collector_at_rest


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """Identifies a kernel by the function that builds it (`build`) and that function's arguments (`options`).

    `name` is shown to users. `signature` holds the types of the kernel's arguments.
    """

    name: str = field(compare=False)
    build: Callable[..., Any]
    options: tuple[Any, ...]
    signature: tuple[Any, ...] = field(compare=False)


def sweep_spec(config: KernelConfig) -> KernelSpec:
    """The sweep kernel of a configuration."""
    mode, best = ("local" if config.local else "global"), ("best " if config.track_best else "")
    pruned, excluding = "pruned " if config.prunes else "", "excluding " if config.excludes else ""
    kind = f"{mode} {best}{pruned}{excluding}{config.numbers} {config.letter_scoring}"
    name = f"sweep {kind} {config.columns} columns"
    return KernelSpec(name, sweep.build_kernel, (config,), sweep.SIGNATURE)


def edge_spec() -> KernelSpec:
    """The kernel that fills in linear edges."""
    return KernelSpec("linear edges", fill_edges.build_kernel, (), fill_edges.SIGNATURE)


def computed_blocks_spec() -> KernelSpec:
    """The kernel that finds what of requested lines was computed."""
    return KernelSpec("computed blocks", computed_blocks.build_kernel, (), computed_blocks.SIGNATURE)


def trace_spec(has_matrix: bool) -> KernelSpec:
    """The kernel that traces leaves."""
    name = f"traceback{_with_matrix(has_matrix)}"
    return KernelSpec(name, traceback.build_kernel, (has_matrix,), traceback.SIGNATURE)


def start_spec(local: bool, has_matrix: bool, excludes: bool) -> KernelSpec:
    """The kernel that finds start states."""
    mode, excluding = "local" if local else "global", " excluding" if excludes else ""
    name = f"start states {mode}{excluding}{_with_matrix(has_matrix)}"
    return KernelSpec(name, start_states.build_kernel, (local, has_matrix, excludes), start_states.SIGNATURE)


def _with_matrix(has_matrix: bool) -> str:
    return " with a matrix" if has_matrix else ""


def every_spec(compute_capability: tuple[int, int]) -> Iterator[KernelSpec]:
    """All kernels that a device may need. The widest sweeps come first, as they take longest to compile."""
    has_packed = compute_capability >= kernel_shape.PACKED_CAPABILITY
    configs = [
        config for config in kernel_shape.every_configuration() if has_packed or config.numbers != "packed"
    ]
    yield from map(sweep_spec, sorted(configs, key=lambda config: config.strip_width, reverse=True))
    yield from (start_spec(*kind) for kind in product((True, False), repeat=3))
    yield from map(trace_spec, (False, True))
    yield edge_spec()
    yield computed_blocks_spec()


def path_specs(usual: KernelConfig) -> Iterator[KernelSpec]:
    """The kernels of phases 2 and 3, if their sweeps have the mode, numbers and letter scoring of `usual`.

    Those sweeps track the best cell in local mode only. Start states have the floor of 0 in phase 2 of local
    mode, and otherwise not. Kernels for excluded pairs are compiled when they are first needed.
    """
    kind, has_matrix = Kind.of(usual), usual.letter_scoring == "profile"
    configs = (config for config in kernel_shape.every_configuration() if Kind.of(config) == kind)
    yield from map(sweep_spec, configs)
    yield from (start_spec(local, has_matrix, False) for local in sorted({False, usual.track_best}))
    yield trace_spec(has_matrix)
    yield edge_spec()


@cache
def dispatcher(spec: KernelSpec, device: str) -> Any:
    """Numba's dispatcher of a kernel, not compiled yet.

    Each device has its own. Numba unloads a kernel once for each device that it was loaded on. If these
    share the machine code, the driver unloads it several times, and the process crashes at its end.
    """
    kernel = spec.build(*spec.options)
    kernel._cache = CudaCache(f"{spec.build.__module__} {spec.options}")
    return kernel


#: Held while a kernel is compiled and loaded. Two back ends may share a device and use the same kernel for
#: the first time at once, and Numba does not expect two threads to load one kernel.
_loading = Lock()


def compiled(spec: KernelSpec, device: str, made_current: AbstractContextManager[object]) -> Any:
    """Numba's dispatcher of a kernel, compiled for the current device and loaded there.

    The user calls the device `device`. Threads of their own look into the cache and compile. Within
    `made_current`, the device is the current one of such a thread.

    Raises BackendError if the kernel does not compile.
    """
    with kernel_lock(_loading, device):
        kernel = dispatcher(spec, device)

        def is_cached() -> bool:
            with made_current:  # the folder of the cache is that of the current device
                return bool(kernel._cache.holds(spec.signature))

        def compile_it() -> None:
            try:
                with made_current, collector_at_rest():
                    kernel.compile(spec.signature)
            except Exception as error:  # compiler, linker and driver have different types of errors
                raise BackendError(f"no kernel for this GPU and driver: {one_line(error)}") from error

        if spec.signature not in kernel.overloads:
            compile_or_load(device, is_cached, compile_it)
        load_kernel(kernel, spec.signature)
    return kernel
