"""How several tiles of a band are swept at once: below guessed rows (`phases.guessed_lines`)."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, replace
from functools import partial

from longalign.backends.base import Backend, Progress
from longalign.model.geometry import Grid
from longalign.model.pruning import Milestones
from longalign.phases.guessed_lines import GuessedLine, guessed_line, rows_to_guess
from longalign.phases.lattice import StoreLattice
from longalign.run.engines.local import LocalEngine
from longalign.run.grid_bytes import boundary_cells_per_tile, tiles_in_memory
from longalign.run.parts import parts_of, sweepers
from longalign.run.request import Request, Resources

#: The most slabs, unless there are more devices than this. With more slabs, each kernel has fewer thread
#: blocks and takes longer, and the host's threads lose more time to the GIL than is gained.
_MAX_SLABS = 6

#: A band of more letters is wide, even if it is a narrow part of the matrix (`Request.is_narrow`). There, the
#: sweep of one tile keeps much of a device busy.
_WIDE_BAND = 1 << 20

#: In a run with a store, rows are guessed only if phase 1 would take at most this many seconds on devices at
#: full speed. In a narrow band it takes several times as long. A stop before its end loses all tiles.
_LONGEST_HELD = 2.5

#: The most slabs of a wide band for each device: while the host packs the boundaries of one tile, the device
#: sweeps another (`two_gpus_cuda.json`). With more slabs little was gained (`slabs_cuda.json`).
_MAX_WIDE_SLABS = 2


@dataclass(frozen=True, slots=True, eq=False)
class Slabs:
    """The rows of a matrix that are guessed, from which milestones, and the back ends that sweep its tiles.

    There are no rows if the matrix is swept from one end to the other. Otherwise there are several back ends.
    """

    rows: tuple[int, ...]
    milestones: Milestones | None
    backends: Sequence[Backend]

    @classmethod
    def of(cls, grid: Grid, milestones: Milestones | None, request: Request, resources: Resources) -> Slabs:
        """The slabs of a run.

        There is one if there are no milestones, if more would gain nothing, and in most stored long runs.

        A wide band has several back ends even if no row can be guessed.
        """
        one = cls((), milestones, sweepers(grid, request, resources))
        if milestones is None or not request.is_narrow:
            return one
        if not request.in_memory and _full_speed_seconds(request, resources) > _LONGEST_HELD:
            return one
        is_wide = request.share * min(request.rows, request.cols) > _WIDE_BAND
        devices = len(resources.backends)
        wanted = _MAX_WIDE_SLABS * devices if is_wide else max(_MAX_SLABS, devices)
        # Even with a store, tiles stay in memory until guesses are checked.
        count = min(wanted, tiles_in_memory(grid, replace(request, store_path=None), resources))
        if is_wide and count > devices:
            count -= count % devices  # each device has as many
        rows = rows_to_guess(grid, milestones, count)
        tiles_at_once = count if is_wide else 1 + len(rows)
        cells = boundary_cells_per_tile(grid, request.mode)
        parts = parts_of(resources.backends, tiles_at_once, cells, streams=is_wide)
        return cls(rows, milestones, parts) if len(parts) > 1 else one

    def rows_above(self, grid: Grid) -> set[int]:
        """The tile rows that end at a row that is guessed."""
        return {grid.tile_rows.index(row) - 1 for row in self.rows}

    def open_engine(self, lattice: StoreLattice) -> LocalEngine:
        """Guess the rows, unless the matrix is swept already, and return what sweeps all slabs at once."""
        if self.rows and not lattice.store.stored_tiles():
            with LocalEngine(lattice, self.backends) as engine:
                lines = self._guessed(lattice, engine)
            lattice.guesses.update({line.row: line for line in lines if line is not None})
        return LocalEngine(lattice, self.backends)

    def _guessed(self, lattice: StoreLattice, engine: LocalEngine) -> list[GuessedLine | None]:
        def guess(row: int, backend: Backend, progress: Progress) -> GuessedLine | None:
            assert self.milestones is not None
            return guessed_line(lattice.problem, self.milestones, row, backend, lambda _: progress(0))

        running: list[Future[GuessedLine | None]] = []
        try:
            for row in self.rows:
                running.append(engine.start(partial(guess, row)))
            return [future.result() for future in running]
        except BaseException:
            engine.cancel()
            wait(running)
            raise


def _full_speed_seconds(request: Request, resources: Resources) -> float:
    """The seconds of phase 1 of a pruned run, if it kept all devices busy."""
    backend, local = resources.backends[0], request.mode.starts_anywhere
    seconds = backend.sweep_seconds(request.rows, request.cols, request.scoring, local)
    return request.share * seconds * request.strands / len(resources.backends)
