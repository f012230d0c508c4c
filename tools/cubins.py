"""Every CUDA kernel that the back end can launch, as a cubin, without a GPU or a driver."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

PACKED_ARCH = 90

#: What a thread can have.
MAX_REGISTERS = 255

#: With 64 registers a thread, a multiprocessor has room for 32 blocks of one warp, the most that it runs;
#: with 96, for 20 warps, which hide one another's latency.
TRACE_REGISTERS, START_REGISTERS = 64, 96

#: With 64 registers a thread, a multiprocessor has room for 32 warps, which keep its memory busy.
EDGE_REGISTERS = 64


@dataclass(frozen=True)
class Kernel:
    """Something to compile: its name, what makes it, the types of its arguments, and what it may take."""

    name: str
    build: Callable[[], Any]
    signature: tuple[Any, ...]
    registers_allowed: int
    max_registers: int | None = None
    min_arch: int = 0


def every_kernel() -> Iterator[Kernel]:
    """All that the back end launches."""
    from longalign.backends.cuda.kernels import computed_blocks
    from longalign.backends.cuda.kernels import fill_edges as edge_kernel
    from longalign.backends.cuda.kernels import start_states as start_kernel
    from longalign.backends.cuda.kernels import traceback as trace_kernel
    from longalign.backends.cuda.planning import kernel_shape

    yield from map(sweep_kernel, kernel_shape.every_configuration())
    yield Kernel("edges", edge_kernel.build_kernel, edge_kernel.SIGNATURE, EDGE_REGISTERS)
    yield Kernel("computed", computed_blocks.build_kernel, computed_blocks.SIGNATURE, EDGE_REGISTERS)
    for has_matrix, suffix in ((False, ""), (True, "_matrix")):
        for mode, local in (("local", True), ("global", False)):
            for excludes, excluding in ((False, ""), (True, "_excluding")):
                build = partial(start_kernel.build_kernel, local, has_matrix, excludes)
                name = f"starts_{mode}{excluding}{suffix}"
                yield Kernel(name, build, start_kernel.SIGNATURE, START_REGISTERS)
        build = partial(trace_kernel.build_kernel, has_matrix)
        yield Kernel(f"trace{suffix}", build, trace_kernel.SIGNATURE, TRACE_REGISTERS)


def sweep_kernel(config) -> Kernel:
    """The kernel of a configuration."""
    from longalign.backends.cuda.kernels import sweep as sweep_kernel

    build, least = (
        partial(sweep_kernel.build_kernel, config),
        PACKED_ARCH if config.numbers == "packed" else 0,
    )
    allowed = config.max_registers or MAX_REGISTERS  # the assembler is held to it, and spills otherwise
    return Kernel(sweep_name(config), build, sweep_kernel.SIGNATURE, allowed, allowed, least)


def sweep_name(config) -> str:
    """Such as local_best_packed_16_bytes."""
    mode = "local" if config.local else "global"
    best = "best" if config.track_best else "plain"
    pruned = "_pruned" if config.prunes else ""
    excluding = "_excluding" if config.excludes else ""
    return f"{mode}_{best}_{config.numbers}_{config.columns}_{config.letter_scoring}{pruned}{excluding}"


def find_program(name: str) -> str | None:
    """A program of the CUDA toolkit: of its Python packages, of an installed toolkit, or one of Triton's."""
    return (
        _in_package("nvidia", f"*/bin/{name}")
        or shutil.which(name)
        or _in_package("triton", f"backends/nvidia/bin/{name}")  # brings the disassembler, too
    )


def program_version(program: str) -> str:
    """What a program of the CUDA toolkit says last of itself."""
    report = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
    return report.strip().splitlines()[-1]


def _in_package(package: str, pattern: str) -> str | None:
    spec = find_spec(package)
    folders = (spec and spec.submodule_search_locations) or ()
    return next((str(file) for folder in folders for file in Path(folder).glob(pattern)), None)


def compile_kernel(kernel: Kernel, arch: int, ptxas: str, folder: Path) -> tuple[Path, str]:
    """Leave a kernel's PTX and cubin in `folder`: where the cubin is, and the assembler's report."""
    from longalign.backends.cuda.numba_api import cuda

    capability = divmod(arch, 10)
    # Numba asks the current device what to compile a device function for; there is none here.
    device = SimpleNamespace(compute_capability=capability)
    with mock.patch("numba.cuda.dispatcher.get_current_device", return_value=device):
        ptx, _ = cuda.compile_ptx(kernel.build().py_func, kernel.signature, cc=capability)
    source = folder / f"{kernel.name}.sm_{arch}.ptx"
    source.write_text(ptx)
    cubin = source.with_suffix(".cubin")
    command = [ptxas, f"-arch=sm_{arch}", "-v", str(source), "-o", str(cubin)]
    if kernel.max_registers:
        command.append(f"-maxrregcount={kernel.max_registers}")
    return cubin, subprocess.run(command, capture_output=True, text=True, check=True).stderr
