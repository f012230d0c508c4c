"""`CudaBackend`: the sweep on one NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import Any

from longalign.backends.base import Progress, SweepJob, SweepResult, no_progress
from longalign.backends.cuda import launch, memory, planning, worklist
from longalign.backends.cuda.api import CUDA_ERRORS, cuda, package_version
from longalign.backends.cuda.config import LANES, KernelConfig, Numbers
from longalign.backends.cuda.devices import available, one_line, why_unavailable
from longalign.backends.cuda.kernel import SIGNATURE, build_kernel
from longalign.backends.cuda.letters import letters_for
from longalign.errors import BackendError

_kernel = cache(build_kernel)


class CudaBackend:
    """Sweeps on the GPU of the given index, in 32-bit integers, one launch for a whole work list.

    `columns` (of a lane) fixes what is otherwise chosen for the rectangles at hand, and `letters` is the
    way to score letters that is tried first: these, `batch` and `warps` are there to be measured, see
    `KernelConfig`. Raises BackendError if there is no such GPU or it cannot be used.
    """

    def __init__(
        self,
        device: int = 0,
        *,
        numbers: Numbers | None = None,
        columns: int | None = None,
        batch: int = 32,
        warps: int = 4,
    ) -> None:
        devices = {found.index: found for found in available()}
        if device not in devices:
            raise BackendError(f"cuda:{device}: {why_unavailable() or f'only {len(devices)} GPU(s) found'}")
        self.name = f"cuda:{device}"
        self._device = devices[device]
        self._numbers, self._columns, self._batch, self._warps = numbers, columns, batch, warps

    def sweep(self, jobs: Sequence[SweepJob], progress: Progress = no_progress) -> list[SweepResult]:
        """One launch for all jobs that agree on `local` and `track_best`; see `Backend.sweep`."""
        results: dict[int, SweepResult] = {}
        with self._current():
            for config, members in self._groups(jobs).items():
                swept = self._sweep_group(config, [jobs[k] for k in members], progress)
                results.update(zip(members, swept, strict=True))
        return [results[k] for k in range(len(jobs))]

    def tile_shape(self, rows: int, cols: int) -> tuple[int, int]:
        """About twenty seconds of work within half of the device's free memory; see `planning`."""
        with self._current():
            return planning.tile_shape(rows, cols, memory.free_bytes())

    def describe(self) -> dict[str, str]:
        """Name of back end and hardware, compute capability, driver's CUDA version, memory, package."""
        with self._current() as context:
            free, total = context.get_memory_info()
            return {
                "name": self.name,
                "hardware": self._device.name,
                "compute capability": ".".join(map(str, self._device.compute_capability)),
                "multiprocessors": str(context.device.MULTIPROCESSOR_COUNT),
                "driver": "CUDA " + ".".join(map(str, cuda.cudadrv.driver.get_version())),
                "memory": f"{total / 1e9:.1f} GB, {free / 1e9:.1f} GB free",
                "package": package_version(),
            }

    @contextmanager
    def _current(self) -> Iterator[Any]:
        """The device's context, current; what CUDA raises in it becomes a BackendError."""
        try:
            with cuda.gpus[self._device.index]:
                yield cuda.current_context()
        except CUDA_ERRORS as error:
            raise BackendError(f"{self.name} ({self._device.name}): {one_line(error)}") from error

    def _groups(self, jobs: Sequence[SweepJob]) -> dict[KernelConfig, list[int]]:
        """The jobs, by number, that one kernel can sweep in one launch."""
        groups: dict[KernelConfig, list[int]] = {}
        for number, job in enumerate(jobs):
            groups.setdefault(self._config(job), []).append(number)
        return {
            replace(config, columns=self._columns or self._columns_for(config, [jobs[k] for k in group])): group
            for config, group in groups.items()
        }

    def _config(self, job: SweepJob) -> KernelConfig:
        """The configuration for a rectangle, but for the width of strips."""
        config = KernelConfig(job.local, job.track_best, self._columns or 0, letters_for(job), self._batch)
        config = replace(config, warps=self._warps)
        capability = self._device.compute_capability
        numbers = self._numbers or planning.numbers_for(job, config, capability)
        return replace(config, numbers=numbers)

    def _columns_for(self, config: KernelConfig, jobs: list[SweepJob]) -> int:
        multiprocessors = cuda.current_context().device.MULTIPROCESSOR_COUNT
        return planning.columns_of_part(jobs, config, multiprocessors)

    def _sweep_group(
        self, config: KernelConfig, jobs: list[SweepJob], progress: Progress
    ) -> list[SweepResult]:
        memory.require(jobs, config.strip_width)
        work = worklist.build(jobs, config)
        stream = cuda.stream()
        buffers = memory.DeviceBuffers(work, stream)
        kernel = _kernel(config)
        blocks = min(_resident_blocks(kernel, config), -(-len(work.strips) // config.warps))
        reported = launch.run(kernel, config, blocks, buffers, stream, progress)
        swept = worklist.results(jobs, work, *buffers.outputs())
        progress(sum(job.cells for job in jobs) - reported)
        return swept


def _resident_blocks(kernel: Any, config: KernelConfig) -> int:
    """How many blocks the device runs at a time; compiles the kernel if need be."""
    try:
        kernel.compile(SIGNATURE)
    except Exception as error:  # compiler, linker and driver each have their own kinds of error
        raise BackendError(f"no kernel for this GPU and driver: {one_line(error)}") from error
    return int(kernel.overloads[SIGNATURE].max_cooperative_grid_blocks(config.warps * LANES))
