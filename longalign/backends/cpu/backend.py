"""The CPU back end: threads that sweep the strips of rectangles, find start states, and trace leaves."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import product
from math import isqrt
from typing import NamedTuple

import llvmlite
import numba
import numpy as np
from llvmlite import binding

from longalign.backends.base import (
    PROGRESS_SECONDS,
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
from longalign.backends.compilation import polled
from longalign.backends.cpu import (
    absent_words,
    gain_sums,
    line_differences,
    masked_kernel,
    placed_words,
    start_states,
    traceback,
)
from longalign.backends.cpu.config import DEFAULT_GEOMETRY, KernelConfig, SweepGeometry
from longalign.backends.cpu.speed import sweep_seconds
from longalign.backends.cpu.start_states_kernel import START_GEOMETRY, strip_starts
from longalign.backends.cpu.traceback_kernel import leaf_tracer
from longalign.backends.cpu.worker import Kernels, Status, kernel_address, strip_sweep
from longalign.backends.cpu.worklist import PRUNED_ROWS, PreparedJobs, cut_columns
from longalign.backends.cpu.workspace import (
    ABORT,
    CELLS,
    NOTHING,
    POSITION,
    WorkList,
    make_block_edges,
    make_lane_buffers,
)
from longalign.errors import BackendError
from longalign.model.geometry import shared_tile_shape
from longalign.model.scoring import Scoring
from longalign.system.processor_name import processor_name
from longalign.system.threads import processors

#: Cells that a thread sweeps before it returns to Python to report progress: about a hundredth of a second.
_CELLS_PER_CALL = 1 << 28

#: Seconds that a thread sleeps when it waits for its left neighbour: about the time of a block.
_WAIT_SECONDS = 2e-4

#: How many times in a row a thread asks for its left neighbour's rows, for some microseconds, before it
#: sleeps. In a narrow band strips wait for one another all the time, and a sleep takes longer than a block.
_POLLS = 100

#: Cells of a tile for each thread, about five seconds of work.
_TILE_CELLS = 1 << 37

#: Longer sequences are cut into about this many tiles, which are larger. The edges of all tiles then take
#: memory in proportion to the lengths, and a tile is less than 1 % of the run.
_MAX_TILES = 256

#: Tile shapes are chosen for this scoring, whatever the scoring of the run.
_DEFAULT_SCORING = Scoring()

#: Cells after which a back end compiles specialised kernels. Compiling takes some seconds on the first run on
#: a machine. For fewer cells than this, specialised kernels would save at most a second.
_CELLS_WORTH_COMPILING = 1 << 31


class _KernelFamily(NamedTuple):
    """What the kernels of a group of jobs must support, and the number widths in bits that they may use."""

    local: bool
    track: bool
    matrix: bool
    widths: tuple[int, ...]


#: The general kernel, which sweeps any job. A short run compiles only this one, and its 32-bit variant if
#: needed.
_GENERAL_KERNELS = _KernelFamily(local=True, track=True, matrix=False, widths=(16,))


class CpuBackend:
    """A back end that runs on `threads` threads (default: all processors), the calling thread included.

    The other arguments exist for tests and experiments, and no result depends on them: `geometry` of sweeps,
    `start_geometry` of start states, and `widths`, the allowed number widths in bits (32 is always allowed).
    By default a back end starts with one general kernel, and compiles specialised ones after enough cells.

    Raises BackendError if `threads` is less than 1.
    """

    name = "cpu"
    min_chunk, saturating_side = 1024, 4096
    max_share_pruned = max_share_stored = 1.0  # a block that is left out costs next to nothing
    min_pruned_cells = 1 << 24
    excludes_pairs = False
    cells_per_path_cell = 40
    host_bytes_per_call = 256 << 20
    program_bytes = 288 << 20  # 137 MB; the first run on a machine, which compiles, has taken up to 392 MB
    line_bytes = 16  # while it is swept (two int32), and while it is packed and written to a file
    tile_overhead = 0.012  # a tile takes more of a processor, most of it beside the next sweep
    band_row_seconds = 4.5e-7  # two cores: 9.1 and 11.3 s for 21 M rows (`pruning_cpu_zen4.json`)

    def __init__(
        self,
        threads: int | None = None,
        geometry: SweepGeometry = DEFAULT_GEOMETRY,
        widths: Sequence[int] | None = None,
        start_geometry: SweepGeometry = START_GEOMETRY,
    ) -> None:
        if threads is not None and threads < 1:
            raise BackendError(f"a sweep needs at least one thread, not {threads}")
        self.threads = threads or processors()
        self._geometry = geometry
        self._start_geometry = start_geometry
        self._widths = (8, 16) if widths is None else tuple(widths)
        self._specialised = widths is not None
        self._cells = 0
        self._workers: list[_Worker] = []

    def tiles_at_once(self, rows: int, cols: int, *, small: bool) -> int:
        """See `longalign.backends.base.Backend`. All threads sweep the same tile."""
        return 1

    def parts(self, max_parts: int, cells: int, *, streams: bool) -> Sequence[Backend]:
        """See `longalign.backends.base.Backend`. The threads of a sweep keep the processors busy."""
        return (self,)

    def sweep(self, jobs: Sequence[SweepJob], progress: Progress = no_progress) -> list[SweepResult]:
        """See `longalign.backends.base.Backend`.

        Raises BackendError if a thread fails, and whatever `progress` raises.
        """
        self._cells += sum(job.cells for job in jobs)
        families: dict[_KernelFamily, list[int]] = {}
        for k, job in enumerate(jobs):
            families.setdefault(self._family(job), []).append(k)
        results: dict[int, SweepResult] = {}
        for family, indices in families.items():
            prepared = PreparedJobs([jobs[k] for k in indices], self._geometry, self.threads)
            self._run(prepared.work, family, progress)
            results.update(zip(indices, prepared.results(), strict=True))
        return [results[k].delivered(job) for k, job in enumerate(jobs)]

    def kernels(self, scoring: Scoring | None = None, *, local: bool = True) -> list[Kernel]:
        """See `longalign.backends.base.Backend`.

        With a `scoring`, they are the kernels that are used after a phase 1 long enough for specialised
        kernels.
        """
        if scoring is not None:
            matrix = scoring.table is not None
            starts = (self._start_kernel(floor, matrix) for floor in sorted({False, local}))
            return [self._block_kernel(16, False, local, matrix), *starts, _tracer(matrix)]
        local_kinds = product((8, 16, 32), (True,), (True,), (True, False))
        global_kinds = product((16, 32), (False,), (True, False), (True, False))
        parts = absent_words, placed_words, gain_sums, masked_kernel, line_differences
        return [
            Kernel("strips", strip_sweep),
            *(self._block_kernel(*kind) for kind in (*local_kinds, *global_kinds)),
            *(self._start_kernel(*kind) for kind in product((True, False), repeat=2)),
            *map(_tracer, (True, False)),
            *(kernel for part in parts for kernel in part.kernels()),
        ]

    def max_compilers(self) -> int:
        """See `longalign.backends.base.Backend`."""
        return processors()

    def max_boundary_cells(self) -> int:
        """See `longalign.backends.base.Backend`: only host memory limits them."""
        return sys.maxsize

    def can_trace(self, rows: int, cols: int, detour: int | None = None) -> bool:
        """See `longalign.backends.base.Backend`. Each thread may trace a leaf at the same time."""
        return traceback.can_trace(rows, cols, detour, self.host_bytes_per_call // (2 * self.threads))

    def trace(self, jobs: Sequence[TraceJob], progress: Progress = no_progress) -> list[Runs]:
        """See `longalign.backends.base.Backend`."""
        return traceback.trace(jobs, self.threads, progress)

    def starts(self, jobs: Sequence[Rectangle], progress: Progress = no_progress) -> list[EdgeStarts]:
        """See `longalign.backends.base.Backend`: one rectangle for each thread at a time."""
        return start_states.starts(jobs, self.threads, self._start_geometry, progress)

    def tile_shape(self, rows: int, cols: int, devices: int = 1) -> tuple[int, int]:
        """See `longalign.backends.base.Backend`. Tiles are nearly square: five seconds of work, or more."""
        return shared_tile_shape(rows, cols, self._largest_tile(rows, cols), devices, self._tile_seconds)

    def strip_width(self, rows: int, cols: int) -> int:
        """See `longalign.backends.base.Backend`: the columns of a group of lanes."""
        return self._geometry.columns * self._geometry.group

    def _largest_tile(self, rows: int, cols: int) -> tuple[int, int]:
        cells = max(_TILE_CELLS * self.threads, rows * cols // _MAX_TILES)
        if rows * cols <= cells:
            return rows, cols
        side = isqrt(cells)
        height = min(rows, max(side, cells // cols))
        return height, min(cols, cells // height)

    def _tile_seconds(self, rows: int, cols: int) -> float:
        return self.tile_overhead + self.sweep_seconds(rows, cols, _DEFAULT_SCORING, local=True)

    def sweep_seconds(self, rows: int, cols: int, scoring: Scoring, local: bool) -> float:
        """See `longalign.backends.base.Backend`."""
        return sweep_seconds(rows, cols, scoring, local, self._geometry, self.threads)

    def explain(self, job: SweepJob) -> dict[str, str]:
        """See `longalign.backends.base.Backend`."""
        geometry, widths = self._geometry, sorted({*self._widths_for(job), 32})
        strips = len(cut_columns(len(job.target), job.cols, geometry, self.threads))
        rows = min(geometry.block_rows, PRUNED_ROWS) if job.is_prunable else geometry.block_rows
        return {
            "kernel": f"SIMD lanes of {geometry.columns} columns",
            "letters": "match or mismatch" if job.scoring.table is None else "a profile of each strip",
            "numbers": f"{', '.join(map(str, widths))} bits: of each block, the fewest that hold its values",
            "strips": f"{strips} of at most {geometry.strip} columns",
            "row block": f"at most {rows} rows",
        }

    def describe(self) -> dict[str, str]:
        """See `longalign.backends.base.Backend`."""
        return {
            "name": self.name,
            "hardware": processor_name(),
            "threads": str(self.threads),
            "compiled for": str(numba.config.CPU_NAME or binding.get_host_cpu_name()),
            "numba": numba.__version__,
            "llvmlite": llvmlite.__version__,
        }

    def _block_kernel(self, bits: int, local: bool, track: bool, matrix: bool) -> Kernel:
        config = self._geometry.kernel(bits, local, track, matrix)
        return Kernel(f"sweep {config}", partial(kernel_address, config))

    def _start_kernel(self, local: bool, matrix: bool) -> Kernel:
        load = partial(strip_starts, self._start_geometry, local, matrix)
        return Kernel(f"start states {self._start_geometry} {local=} {matrix=}", load)

    def _family(self, job: SweepJob) -> _KernelFamily:
        matrix = job.scoring.table is not None
        if not self._specialised and self._cells < _CELLS_WORTH_COMPILING:
            return _GENERAL_KERNELS._replace(matrix=matrix)
        return _KernelFamily(job.local, job.finds_best, matrix, self._widths_for(job))

    def _widths_for(self, job: SweepJob) -> tuple[int, ...]:
        """The bits of numbers to choose from. Without the floor of 0, values spread too far for 8 bits."""
        return tuple(bits for bits in self._widths if bits > 8 or job.local)

    def _run(self, work: WorkList, family: _KernelFamily, progress: Progress) -> None:
        """Sweep all strips of a work list. The calling thread is one of the workers."""
        *kind, widths = family
        addresses = {f"block_{b}": kernel_address(self._geometry.kernel(b, *kind)) for b in widths}
        kernels = Kernels(self._geometry.columns, self._geometry.min_rows, **addresses)
        config_32 = self._geometry.kernel(32, *kind)
        count = min(self.threads, len(work.strips))
        while len(self._workers) < count:
            self._workers.append(_Worker(self._geometry))
        own_worker, *others = self._workers[:count]
        failures: list[BaseException] = []
        helpers = [
            threading.Thread(
                target=copy_context().run,  # which knows the run, to report waits for the compiler
                args=(worker.help, work, kernels, config_32, failures),
                daemon=True,
            )
            for worker in others
        ]
        report = _ProgressReport(work, progress)
        try:
            with suppress(RuntimeError):  # the system limits the threads of this process: continue with fewer
                for helper in helpers:
                    helper.start()
            own_worker.run(work, kernels, config_32, report)
            for helper in helpers:
                while helper.is_alive():
                    helper.join(PROGRESS_SECONDS)
                    report()
        finally:
            # If this thread was interrupted, helpers that are still sweeping stop at their next block.
            work.counters[ABORT] = 1
            for helper in helpers:
                if helper.ident is not None:  # it was started
                    helper.join()
        for failure in failures:
            raise failure
        report.flush()


class _ProgressReport:
    """Reports the cells that all threads have finished since the last report, ten times a second."""

    def __init__(self, work: WorkList, progress: Progress) -> None:
        self._cells = work.counters[CELLS:]
        self._progress = progress
        self._reported = 0
        self._due = time.monotonic() + PROGRESS_SECONDS

    def __call__(self) -> None:
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + PROGRESS_SECONDS
            self.flush()

    def flush(self) -> None:
        """Report now."""
        cells = int(self._cells[0])
        new_cells, self._reported = cells - self._reported, cells
        self._progress(new_cells)


class _Worker:
    """The arrays of one thread, reused in later sweeps, and its loop around the compiled code."""

    def __init__(self, geometry: SweepGeometry) -> None:
        self._edges = make_block_edges(geometry)
        self._lanes = tuple(make_lane_buffers(geometry, bits) for bits in (8, 16, 32))
        self._position = np.zeros(1, POSITION)
        self._sweep = strip_sweep()

    def help(
        self, work: WorkList, kernels: Kernels, config_32: KernelConfig, failures: list[BaseException]
    ) -> None:
        """Run in a helper thread. Any failure is recorded for the calling thread, and ends the other threads.

        Otherwise they would wait forever for a strip whose thread has ended.
        """
        try:
            with polled(lambda: _refuse_aborted(work)):
                self.run(work, kernels, config_32, _report_nothing)
        except BaseException as failure:
            failures.append(failure)
            work.counters[ABORT] = 1

    def run(
        self, work: WorkList, kernels: Kernels, config_32: KernelConfig, report: Callable[[], None]
    ) -> None:
        """Sweep strips until none is left or another thread has failed.

        Raises BackendError if the compiled code fails, and whatever `report` raises.
        """
        self._position["ticket"] = self._position["job"] = NOTHING
        for lanes in self._lanes:
            lanes.profile_ticket[0] = NOTHING
        polls = 0
        while True:
            try:
                status = self._sweep(work, self._position, self._edges, self._lanes, kernels, _CELLS_PER_CALL)
            except Exception as failure:
                raise BackendError(f"cpu: a sweep failed: {failure}") from failure
            if status in (Status.FINISHED, Status.ABORTED):
                return
            if status == Status.NEEDS_32_BITS:
                kernels = kernels._replace(block_32=kernel_address(config_32))
            if status == Status.WAITING:
                polls += 1
                time.sleep(0.0 if polls < _POLLS else _WAIT_SECONDS)
            else:
                polls = 0
            report()


def _tracer(matrix: bool) -> Kernel:
    return Kernel(f"traceback {matrix=}", partial(leaf_tracer, matrix))


def _refuse_aborted(work: WorkList) -> None:
    """Raise CancelledError if the sweep was aborted."""
    if work.counters[ABORT]:
        raise CancelledError


def _report_nothing() -> None:
    """The report of a helper thread: only the calling thread reports progress."""
