"""What a run does about damaged files of its store: it drops them, and their steps run again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from longalign.errors import InternalError, StoreError
from longalign.events import Emit, Notice
from longalign.model.geometry import Grid, Tile
from longalign.phases.lattice import StoreLattice
from longalign.store import Store
from longalign.store.base import DamagedFile, DamagedTile, TilePlace

T = TypeVar("T")

#: A tile is swept again at most once for damage, and this many times for a missing file: a network file
#: system may report for a while that a new file does not exist.
_MAX_SWEEPS_FOR_DAMAGE, _MAX_SWEEPS_FOR_MISSING = 1, 10

#: A step that finds a tile damaged, whose file then reads well, runs again at most this many times before the
#: tile is dropped after all: its numbers may be wrong although its checksums are right.
_MAX_READS_AGAIN = 3


def mending(step: Callable[[], T], lattice: StoreLattice, emit: Emit) -> T:
    """Run a step that reads tiles; if it finds one damaged, drop that tile and run the step again.

    The step must begin by sweeping the tiles that the store lacks. A tile is dropped only if a second read
    confirms the damage: an interrupt or a passing I/O error inside HDF5 can look like damage, and a finished
    tile must not be lost for it. Otherwise the step simply runs again.

    Raises StoreError if a tile is damaged again although it was swept again: the disk then returns something
    else than what was written.
    """
    reads: Counter[TilePlace] = Counter()
    sweeps: Counter[tuple[int, int, bool]] = Counter()
    while True:
        try:
            return step()
        except DamagedTile as damage:
            place = damage.row, damage.col
            if reads[place] < _MAX_READS_AGAIN and _reads_well(lattice.store, lattice.grid.tile(*place)):
                reads[place] += 1
                _report_sound(damage, emit)
                continue
            missing = isinstance(damage.__cause__, FileNotFoundError)
            if sweeps[*place, missing] == (_MAX_SWEEPS_FOR_MISSING if missing else _MAX_SWEEPS_FOR_DAMAGE):
                raise StoreError(f"{damage}; it was computed again, in vain: check the disk") from damage
            sweeps[*place, missing] += 1
            _drop(damage, lattice.store, emit)


def drop_damaged(store: Store, grid: Grid, emit: Emit) -> None:
    """Read all tiles of a store, and drop those that a second read finds damaged as well."""
    for place in sorted(store.stored_tiles()):
        tile = grid.tile(*place)
        try:
            store.check_tile(tile)
        except DamagedTile as damage:
            if _reads_well(store, tile):
                _report_sound(damage, emit)
            else:
                _drop(damage, store, emit)


def _reads_well(store: Store, tile: Tile) -> bool:
    try:
        store.check_tile(tile)
    except DamagedTile:
        return False
    return True


def _report_sound(damage: DamagedTile, emit: Emit) -> None:
    emit(Notice(f"{damage}; on a second read it is sound, and it is kept"))


def _drop(damage: DamagedTile, store: Store, emit: Emit) -> None:
    emit(Notice(f"{damage}; this tile is computed again"))
    store.drop_tile(damage.row, damage.col)


def read_unless_damaged(read: Callable[[], T], nothing: T, emit: Emit) -> T:
    """What a store holds, or `nothing` if its file is damaged: the step that wrote it then runs again."""
    try:
        return read()
    except DamagedFile as damage:
        emit(Notice(f"{damage}; this step is done again"))
        return nothing


@contextmanager
def contradictions_refused(store: Path) -> Iterator[None]:
    """Raise StoreError if no path fits the numbers in a store: its files are sound, but the numbers wrong."""
    try:
        yield
    except InternalError as error:
        raise StoreError(
            f"{store}: what is stored contradicts the sequences ({error}): without path.h5, next_best.h5 "
            "and pieces the paths are found again, and without tiles all is computed again"
        ) from error
