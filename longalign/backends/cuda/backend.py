"""`CudaBackend`: sweeps, start states and traces on one NVIDIA GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from longalign.backends import trace_table
from longalign.backends.base import (
    Backend,
    EdgeStarts,
    Kernel,
    Progress,
    Rectangle,
    Runs,
    SweepJob,
    SweepResult,
    TraceJob,
    no_progress,
)
from longalign.backends.cuda.config import LANES, KernelConfig, NumberFormat
from longalign.backends.cuda.device.strip_profile import profile_bytes
from longalign.backends.cuda.devices import available, one_line, why_unusable
from longalign.backends.cuda.kernel_library import (
    KernelSpec,
    compiled,
    computed_blocks_spec,
    edge_spec,
    every_spec,
    path_specs,
    start_spec,
    sweep_spec,
    trace_spec,
)
from longalign.backends.cuda.kernels.fill_edges import grid_for
from longalign.backends.cuda.kernels.sweep import SIGNATURE
from longalign.backends.cuda.launch import device_memory, start_states, sweep_launch, traceback, worklist
from longalign.backends.cuda.launch.download import ComputedBlocks, Download
from longalign.backends.cuda.numba_api import configured, cuda, is_cuda_error, package_version
from longalign.backends.cuda.planning import cost_model, kernel_shape
from longalign.backends.cuda.planning.cost_model import Hardware
from longalign.backends.cuda.planning.kernel_shape import Choice, Overrides
from longalign.backends.cuda.planning.strips import count_bands, count_strips
from longalign.errors import BackendError
from longalign.model.boundary import State, entry_edges
from longalign.model.scoring import Scoring
from longalign.system.threads import processors

#: Bytes of device memory that a process needs to compile kernels: its CUDA context.
_CONTEXT_BYTES = 1 << 30


class CudaBackend:
    """Sweeps and traces many rectangles in a launch, on the GPU with the index `device`.

    The keyword arguments override what is otherwise chosen for the rectangles of a call (see `KernelConfig`).
    They serve measurements and tests. `numbers="packed"` is used only where packed numbers are exact.

    One of `share` back ends that sweep tiles at the same time takes that part of the device's thread blocks.
    With `streams`, boundaries are fetched while a kernel runs. Without, a pruned sweep fetches them when the
    kernel has ended, and only the blocks of them in which cells were computed.

    Raises BackendError if there is no such GPU or it cannot be used.
    """

    #: One warp sweeps a whole strip, and the next strip starts only a little later. The length of a side
    #: therefore decides how long a chunk takes. With smaller chunks in a store, boundaries would arrive
    #: faster than threads can pack and deflate them.
    min_chunk, saturating_side = 49_152, 1 << 20
    #: To leave out half of the cells of two genomes of E. coli saves a quarter of the time of their sweep.
    #: With a store nothing is saved: to deflate their boundaries takes as long as to sweep all cells.
    max_share_pruned, max_share_stored = 0.6, 0.3
    min_pruned_cells = 1 << 34  # swept in 4 ms where there are several
    excludes_pairs = True
    cells_per_path_cell = 52  # chunks are swept at half the speed of tiles
    host_bytes_per_call = 1 << 30
    program_bytes = 512 << 20  # 381 MB with the driver, and more where kernels are compiled
    line_bytes = 3  # deflated as they arrive, those of the preceding tile included; plain without a file
    tile_overhead = kernel_shape.TILE_OVERHEAD
    #: In slabs: 2.3 to 2.9 s for 22 M rows (`pruning_cuda_repeated.json`), 23 s for 200 M
    #: (`long_pair_cuda.json`).
    band_row_seconds = 1.1e-7

    def __init__(
        self,
        device: int = 0,
        *,
        numbers: NumberFormat | None = None,
        columns: int | None = None,
        block_rows: int | None = None,
        warps: int = 4,
        max_registers: int | None = None,
        band_rows: int | None = None,
        share: int = 1,
        streams: bool = True,
    ) -> None:
        devices = {found.index: found for found in available()}
        if device not in devices:
            raise BackendError(f"cuda:{device}: {why_unusable(device)}")
        self.name = f"cuda:{device}"
        #: Seconds that sweep kernels have run so far, without the work of the host before and after them, and
        #: without those of parts.
        self.kernel_seconds = 0.0
        self._device = devices[device]
        self._workspace: device_memory.Workspace | None = None
        self._known: Hardware | None = None
        self._blocks: dict[tuple[KernelConfig, int], int] = {}
        self._share, self._streams = share, streams
        self._parts: tuple[CudaBackend, ...] = ()  # those that were asked for last
        self._overrides = Overrides(numbers, columns, block_rows, warps, max_registers, band_rows)

    def sweep(self, jobs: Sequence[SweepJob], progress: Progress = no_progress) -> list[SweepResult]:
        """One launch for all jobs with the same kernel (`kernel_shape.choose`); see `Backend.sweep`."""
        results: dict[int, SweepResult] = {}
        groups: dict[KernelConfig, list[int]] = {}
        with self._current():
            for number, choice in enumerate(kernel_shape.choose(jobs, self._hardware(), self._overrides)):
                groups.setdefault(choice.config, []).append(number)
            for config, members in groups.items():
                swept = self._sweep_group(config, [jobs[k] for k in members], progress)
                results.update(zip(members, swept, strict=True))
        return [results[k] for k in range(len(jobs))]

    def parts(self, max_parts: int, cells: int, *, streams: bool) -> Sequence[Backend]:
        """As many as the device has memory for; see `longalign.backends.base.Backend`."""
        with self._current():
            free = self._get_workspace().free_bytes() + sum(part._held_bytes for part in self._parts)
            count = min(max_parts, device_memory.max_boundary_cells(free) // max(1, cells))
            if count <= 1:
                return (self,)
            if len(self._parts) != count or self._parts[0]._streams != streams:
                self._parts = ()  # their memory, and that of this back end, was counted as free
                self._get_workspace().release_block()
                options = {"share": count, "streams": streams, **asdict(self._overrides)}
                self._parts = tuple(CudaBackend(self._device.index, **options) for _ in range(count))
        return self._parts

    def tiles_at_once(self, rows: int, cols: int, *, small: bool) -> int:
        """See `longalign.backends.base.Backend`."""
        return kernel_shape.tiles_at_once(rows, cols, small)

    def kernels(self, scoring: Scoring | None = None, *, local: bool = True) -> list[Kernel]:
        """See `longalign.backends.base.Backend`."""
        if scoring is None:
            specs = every_spec(self._device.compute_capability)
        else:
            specs = path_specs(self._path_config(scoring, local))
        return [Kernel(spec.name, partial(self._load, spec)) for spec in specs]

    def max_compilers(self) -> int:
        """See `longalign.backends.base.Backend`. Each process has a CUDA context of its own."""
        with self._current():
            return min(processors(), self._get_workspace().free_bytes() // _CONTEXT_BYTES)

    def max_boundary_cells(self) -> int:
        """See `longalign.backends.base.Backend`."""
        with self._current():
            return device_memory.max_boundary_cells(self._get_workspace().free_bytes())

    def can_trace(self, rows: int, cols: int, detour: int | None = None) -> bool:
        """See `longalign.backends.base.Backend`."""
        return traceback.can_trace(rows, cols, detour)

    def trace(self, jobs: Sequence[TraceJob], progress: Progress = no_progress) -> list[Runs]:
        """As few launches as memory allows; see `Backend.trace`."""

        def trace_kind(has_matrix: bool, jobs: list[TraceJob]) -> list[Runs]:
            return traceback.trace(
                jobs, self._compiled(trace_spec(has_matrix)), self._get_workspace(), progress
            )

        with self._current():
            return trace_table.trace_by_kind(jobs, trace_kind)

    def starts(self, jobs: Sequence[Rectangle], progress: Progress = no_progress) -> list[EdgeStarts]:
        """As few launches for each kind of job as memory and time allow; see `Backend.starts`."""

        def kernel_of(*kind: bool) -> Any:
            return self._compiled(start_spec(*kind))

        with self._current():
            return start_states.starts(
                jobs, kernel_of, self._hardware().multiprocessors, self._get_workspace(), progress
            )

    def tile_shape(self, rows: int, cols: int, devices: int = 1) -> tuple[int, int]:
        """About half a minute of work within half of the device's free memory; see `kernel_shape`."""
        with self._current():
            return kernel_shape.tile_shape(
                rows, cols, self._get_workspace().free_bytes(), devices, self._hardware()
            )

    def strip_width(self, rows: int, cols: int) -> int:
        """See `longalign.backends.base.Backend`. It is the width of the kernel for usual scorings."""
        with self._current():
            return kernel_shape.strip_width(rows, cols, self._hardware())

    def sweep_seconds(self, rows: int, cols: int, scoring: Scoring, local: bool) -> float:
        """See `longalign.backends.base.Backend`."""
        with self._current():
            return kernel_shape.sweep_seconds(rows, cols, self._hardware(), scoring, local, self._overrides)

    def explain(self, job: SweepJob) -> dict[str, str]:
        """See `longalign.backends.base.Backend`."""
        [choice] = self.choices([job])
        config = choice.config
        strips = count_strips(job, config)
        with self._current():
            resident = cost_model.resident_warps(config, self._hardware(), job.scoring.letters)
        band_rows = kernel_shape.band_rows([job], config, resident, self._overrides)
        bands = count_bands(len(job.query), config, band_rows)
        return {
            "kernel": "local" if config.local else "global",
            "numbers": f"{config.numbers}: {choice.why_numbers}",
            "letters": kernel_shape.LETTER_SCORING_IN_WORDS[config.letter_scoring],
            "strips": f"{strips} of at most {config.strip_width} columns, {config.columns} a part",
            "bands": f"at most {bands} a strip, in which {resident} warps take the strips in turn",
            "row block": f"{config.block_rows} rows",
            "device memory": f"{device_memory.bytes_needed([job], config, band_rows) / 1e9:.3f} GB",
            "shape": choice.why_shape,
        }

    def describe(self) -> dict[str, str]:
        """The back end, the hardware, its compute capability and memory, the driver and the CUDA package."""
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
        """Make the device's context current. Errors that CUDA raises inside become BackendErrors."""
        try:
            with cuda.gpus[self._device.index]:
                yield cuda.current_context()
        except Exception as error:
            if not is_cuda_error(error):
                raise
            raise BackendError(f"{self.name} ({self._device.name}): {one_line(error)}") from error

    def choices(self, jobs: Sequence[SweepJob]) -> list[Choice]:
        """The kernel that would sweep each of these rectangles if they came in one call, and why."""
        with self._current():
            return kernel_shape.choose(jobs, self._hardware(), self._overrides)

    def _load(self, spec: KernelSpec) -> None:
        with self._current():
            self._compiled(spec)

    def _compiled(self, spec: KernelSpec) -> Any:
        return compiled(spec, self.name, cuda.gpus[self._device.index])

    def _path_config(self, scoring: Scoring, local: bool) -> KernelConfig:
        """A kernel that phases 2 and 3 use, chosen for a rectangle that all paths enter at a corner."""
        letters, edges = np.zeros(2, np.uint8), entry_edges(State.H, 2, 2, scoring)
        job = SweepJob(letters, letters, scoring, *edges, local=False, track_best=local)
        [choice] = self.choices([job])
        return choice.config

    def _hardware(self) -> Hardware:
        """The device's properties for planning. At the first call, the device's context must be current."""
        if self._known is None:
            device = cuda.current_context().device
            shared_bytes, clock = device.MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 1e3 * device.CLOCK_RATE
            known = Hardware(device.MULTIPROCESSOR_COUNT, self._device.compute_capability, shared_bytes)
            # Virtual devices may report no clock.
            self._known = replace(known, clock=clock) if clock > 0 else known
        return self._known

    def _sweep_group(
        self, config: KernelConfig, jobs: list[SweepJob], progress: Progress
    ) -> list[SweepResult]:
        workspace = self._get_workspace()
        shared_bytes = profile_bytes(config, max(job.scoring.letters for job in jobs))
        resident = self._resident_blocks(config, shared_bytes)
        band_rows = kernel_shape.band_rows(jobs, config, resident * config.warps, self._overrides)
        cells = sum(job.cells for job in jobs)
        what = f"sweeping {len(jobs)} rectangle(s) of {cells:.3g} cells with the requested boundaries"
        block = workspace.block(device_memory.bytes_needed(jobs, config, band_rows), what)
        allocate = workspace.pinned_allocator(worklist.input_bytes(jobs))
        work = worklist.build(jobs, config, band_rows, allocate)
        kernel = self._compiled(sweep_spec(config))
        blocks = min(resident, -(-len(work.strips) // config.warps))
        warp_memory = workspace.warp_memory(blocks * config.warps * config.warp_values)
        buffers = device_memory.DeviceBuffers(work, block, warp_memory, workspace)
        if len(work.linear_edges):
            self._fill_edges(work, buffers, config.warps * LANES)
        alone, computed = self._share == 1, None
        with Download(jobs, work, buffers.lines, buffers.flags, workspace, self._streams) as download:
            reported = sweep_launch.run(
                kernel, config, blocks, shared_bytes, buffers, workspace, download, progress, alone=alone
            )
            if config.prunes and not self._streams and download.feeds:
                computed = self._computed_blocks(jobs, work, buffers)
            lines = download.finish(computed)
        self.kernel_seconds += workspace.kernel_seconds()
        workspace.stream.synchronize()
        left_out = buffers.cells_left_out() if config.prunes else [0] * len(jobs)
        swept = worklist.results(jobs, work, lines, buffers.best, left_out)
        progress(cells - reported)
        return swept

    def _fill_edges(
        self, work: worklist.WorkList, buffers: device_memory.DeviceBuffers, threads: int
    ) -> None:
        """Fill the linear edges on the device. A thread block has this many `threads`."""
        fill, grid = self._compiled(edge_spec()), grid_for(work.linear_edges, threads)
        configured(fill, grid, threads, self._get_workspace().stream)(*buffers.edges)

    def _computed_blocks(
        self, jobs: Sequence[SweepJob], work: worklist.WorkList, buffers: device_memory.DeviceBuffers
    ) -> ComputedBlocks:
        """The blocks of the requested lines in which cells were computed, once the sweep has ended."""
        table, find = worklist.line_table(jobs, work), self._compiled(computed_blocks_spec())
        return ComputedBlocks(table, buffers.computed_blocks(find, table))

    @property
    def _held_bytes(self) -> int:
        return self._workspace.block_bytes if self._workspace else 0

    def _get_workspace(self) -> device_memory.Workspace:
        if self._workspace is None:
            self._workspace = device_memory.Workspace(self._share)
        return self._workspace

    def _resident_blocks(self, config: KernelConfig, shared_bytes: int) -> int:
        """The thread blocks that the device runs at a time. Compiles the kernel if necessary."""
        if (config, shared_bytes) not in self._blocks:
            kernel = self._compiled(sweep_spec(config)).overloads[SIGNATURE]
            blocks = int(kernel.max_cooperative_grid_blocks(config.warps * LANES, shared_bytes))
            if self._share > 1:
                # In a band, some are left for other kernels, which would otherwise wait for a sweep to end.
                left = blocks // 16 if config.prunes else 0
                blocks = max(1, (blocks - left) // self._share)
            self._blocks[config, shared_bytes] = blocks
        return self._blocks[config, shared_bytes]
