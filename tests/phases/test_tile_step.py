"""The tile step on threads and on processes: the same tiles, also after failures."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import shutil
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor, ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, nullcontext
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from runs import PAIR, Pair, SmallTiles, run_all, whole_sweep

from longalign.backends.base import Backend, no_progress
from longalign.errors import BackendError
from longalign.events import TileFinished
from longalign.model.geometry import Grid, Tile
from longalign.model.mode import MODES
from longalign.model.pruning import KnownBound
from longalign.phases.lattice import StoreLattice
from longalign.phases.left_out import LeftOut
from longalign.phases.problem import Problem
from longalign.phases.tile_step import run_tiles, sweep_tile
from longalign.run.engines.local import LocalEngine
from longalign.run.engines.shared_store import SharedStoreEngine, sweep_stored_tile
from longalign.run.spec import RunSpec
from longalign.store import DirectoryStore, Manifest, MemoryStore, Store
from longalign.store.base import DamagedTile, TileRecord
from longalign.store.deflated import DeflatedArray
from longalign.store.files import new_hdf5
from longalign.store.line_tables import BandArray, PatchedArray
from longalign.store.manifest import SequenceRecord
from longalign.store.tile_writer import TileWriter
from longalign.store.write_behind import WriteBehind
from longalign.testing.reference import ReferenceBackend

GRID = Grid((0, 8, 16, 25, 33), (0, 10, 20, 34), (0, 8, 25, 33), (0, 10, 20, 34))
ALL_TILES = {(tile.row, tile.col) for tile in GRID.tiles()}


def lattice_in(store: Store) -> StoreLattice:
    return StoreLattice(Problem.of(*PAIR.sequences(), PAIR.scoring, PAIR.mode), GRID, store)


def new_store(path: Path, pair: Pair = PAIR, **fields: Any) -> DirectoryStore:
    records = map(SequenceRecord.of, pair.sequences())
    manifest = Manifest(*records, pair.mode, pair.scoring, GRID, program="0", **fields)
    return DirectoryStore.create(path, manifest, *pair.sequences())


class Jumping(ReferenceBackend):
    """Sweeps as if the cells before the fifth column of the last requested row had been left out."""

    def sweep(self, jobs, progress=no_progress):
        [job] = jobs
        [swept] = super().sweep([replace(job, sinks=None)], progress)
        for row in swept.rows[-1:]:
            row.h[5:] += 21_000_000
            row.gap[5:] += 21_000_000
        return [swept.delivered(job)]


def pruned(lattice: StoreLattice) -> StoreLattice:
    """The same lattice, with the lowest bound."""
    problem = lattice.problem
    return replace(lattice, problem=replace(problem, pruning=problem.pruning_by(1)))


def test_lines_in_memory_keep_narrow_steps_beside_cells_left_out():
    store, tile = MemoryStore(), GRID.tile(0, 0)
    sweep_tile(pruned(lattice_in(store)), Jumping(), tile)
    rows = store.get_tile(tile).rows
    assert isinstance(rows.steps, PatchedArray)
    assert isinstance(rows.steps.narrow, BandArray)
    assert rows.steps.narrow.dtype == np.int8
    assert (rows.part(int(rows.index[0]), 0, 10).h[5:] > 20_000_000).all()


@pytest.mark.parametrize(("is_pruned", "files"), [(True, 1), (False, 2)])
def test_the_file_of_a_pruned_tile_is_written_once(tmp_path, monkeypatch, is_pruned, files):
    """Without pruning, narrow lines are in a file when a wide one comes, and a second file replaces it. With
    it, wide values are listed apart."""
    created, tile = [], GRID.tile(1, 0)

    def note(path, check):
        created.append(path)
        return new_hdf5(path, check)

    with new_store(tmp_path / "s", pruned_with=KnownBound(1, 1.0) if is_pruned else None) as store:
        lattice = lattice_in(store)
        sweep_tile(lattice, ReferenceBackend(), GRID.tile(0, 0))
        monkeypatch.setattr("longalign.store.directory.new_hdf5", note)
        sweep_tile(pruned(lattice) if is_pruned else lattice, Jumping(), tile)
        rows = store.get_tile(tile).rows
        last = len(rows.index) - 1
        assert rows.steps[last, 0:10].dtype == np.int32
        assert rows.steps[last, 6:10].dtype == (np.int8 if is_pruned else np.int32)
        assert (rows.part(int(rows.index[-1]), 0, 10).h[5:] > 20_000_000).all()
        assert created == [store.tile_path(1, 0)] * files


@pytest.mark.parametrize("behind", [False, True])
def test_lines_that_go_to_files_come_deflated(tmp_path, behind):
    def deflated(store: Store) -> set[bool]:
        kept: list[TileRecord] = []
        put_tile = type(store).put_tile

        def put(self: Store, tile: Tile, record: TileRecord, *writer: object) -> None:
            kept.append(record)
            put_tile(self, tile, record, *writer)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(type(store), "put_tile", put)
            with WriteBehind(store, 1) if behind else nullcontext(store) as used:
                sweep_tile(lattice_in(used), ReferenceBackend(), GRID.tile(0, 0))
        lines = [kept[0].rows, kept[0].cols]
        return {isinstance(values, DeflatedArray) for line in lines for values in (line.steps, line.gaps)}

    assert deflated(MemoryStore()) == {False}
    with new_store(tmp_path / "s") as store:
        assert deflated(store) == {True}


def content(store: Store) -> list[object]:
    """All numbers of all tiles."""
    records = [store.get_tile(tile) for tile in GRID.tiles()]
    lines = [lines for record in records for lines in (record.rows, record.cols)]
    arrays = [
        np.array(values[:]) for part in lines for values in (part.index, part.anchors, part.steps, part.gaps)
    ]
    return [record.best for record in records] + [array.tolist() for array in arrays]


@pytest.fixture(scope="module")
def want() -> list[object]:
    lattice = lattice_in(MemoryStore())
    with LocalEngine(lattice, [ReferenceBackend()]) as engine:
        list(run_tiles(lattice, engine))
    return content(lattice.store)


# --- far edges


@pytest.mark.parametrize(
    ("mode", "stored"),
    [*((mode, False) for mode in MODES.values()), (MODES["fit"], True), (MODES["semiglobal"], True)],
    ids=str,
)
def test_the_far_edges_that_a_mode_needs_are_kept(tmp_path, mode, stored):
    spec = RunSpec(*PAIR.sequences(), PAIR.scoring, mode)
    problem = Problem.of(spec.query, spec.target, spec.scoring, mode)
    whole = whole_sweep(problem, (GRID.rows,), (GRID.cols,))
    are_free = mode.ends.target_start, mode.ends.query_start
    assert [edge.h.any() for edge in (whole.top, whole.left)] == [not free for free in are_free]
    [want] = ReferenceBackend().sweep([whole])
    with ExitStack() as stack:
        store: Store = MemoryStore()
        if stored:
            new = DirectoryStore.create(tmp_path / "s", spec.manifest(GRID), spec.query, spec.target)
            store = stack.enter_context(new)
        lattice = StoreLattice(problem, GRID, store)
        engine = stack.enter_context(LocalEngine(lattice, [ReferenceBackend()]))
        assert run_all(lattice, engine) == ALL_TILES
        if stored:
            assert [store.check_tile(tile) for tile in GRID.tiles()]
        last = store.get_tile(GRID.tile(2, 2))
        assert (last.rows.index[-1:].tolist() == [8]) == mode.needs_last_row
        assert (last.cols.index[-1:].tolist() == [14]) == mode.needs_last_column
        if mode.needs_last_row:
            kept = [lattice.row(GRID.rows, j0, j1).h[1:] for j0, j1 in pairwise(GRID.tile_cols)]
            assert np.concatenate(kept).tolist() == want.rows[0].h[1:].tolist()
        if mode.needs_last_column:
            kept = [lattice.column(GRID.cols, i0, i1).h[1:] for i0, i1 in pairwise(GRID.tile_rows)]
            assert np.concatenate(kept).tolist() == want.cols[0].h[1:].tolist()


# --- threads


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_any_number_of_workers_makes_the_same_tiles(want, workers):
    lattice = lattice_in(MemoryStore())
    with LocalEngine(lattice, [ReferenceBackend() for _ in range(workers)]) as engine:
        assert run_all(lattice, engine) == ALL_TILES
    assert content(lattice.store) == want


def test_blocks_go_to_the_file_of_a_tile_while_it_is_swept(tmp_path, monkeypatch):
    followed: list[tuple[str, int]] = []
    follow = TileWriter.stream

    def note(self, name, array):
        follow(self, name, array)
        array.listeners.append(lambda place: followed.append((name, place[0])))

    monkeypatch.setattr(TileWriter, "stream", note)
    with new_store(tmp_path / "s") as store:
        lattice = lattice_in(store)
        sweep_tile(lattice, ReferenceBackend(), GRID.tile(0, 0))
        assert store.stored_tiles() == {(0, 0)}
    both = {(f"rows/{name}", 0) for name in ("steps", "gaps")}
    assert set(followed) == both | {(f"cols/{name}", 0) for name in ("steps", "gaps")}


def test_no_back_end_need_look_at_the_edges_of_a_tile():
    class Notes(ReferenceBackend):
        def sweep(self, jobs, progress=no_progress):
            known.extend(job.of_matrix for job in jobs)
            return super().sweep(jobs, progress)

    known: list[bool] = []
    lattice = lattice_in(MemoryStore())
    with LocalEngine(lattice, [Notes()]) as engine:
        run_all(lattice, engine)
    assert known == [True] * len(ALL_TILES)


@given(st.sets(st.sampled_from(sorted(ALL_TILES))), st.integers(1, 3))
def test_tiles_that_are_gone_are_swept_again_and_only_they(want, gone, workers):
    lattice = lattice_in(MemoryStore())
    with LocalEngine(lattice, [ReferenceBackend()]) as engine:
        run_all(lattice, engine)
    for tile in gone:
        lattice.store.drop_tile(*tile)
    backends = [SmallTiles() for _ in range(workers)]
    with LocalEngine(lattice, backends) as engine:
        assert run_all(lattice, engine) == gone
    assert sum(backend.swept for backend in backends) == len(gone)
    assert content(lattice.store) == want


class Scripted(ReferenceBackend):
    """Sweeps the first tile; then one sweep waits to be cancelled, and the next one fails."""

    def __init__(self) -> None:
        self.calls = iter(range(9))
        self.waiting = threading.Event()
        self.cancelled = False

    def sweep(self, jobs, progress):
        call = next(self.calls)
        if call == 1:
            self.wait_to_be_cancelled(progress)
        if call > 1:
            self.waiting.wait()
            raise BackendError("the device fell off")
        return super().sweep(jobs, progress)

    def wait_to_be_cancelled(self, progress):
        self.waiting.set()
        try:
            for _ in range(20_000):
                progress(0)
                time.sleep(0.001)
            raise AssertionError("no one cancelled this sweep")
        finally:
            self.cancelled = True


def test_a_failing_step_cancels_the_others_and_passes_its_exception(want):
    lattice = lattice_in(MemoryStore())
    backend = Scripted()
    with LocalEngine(lattice, [backend, backend]) as engine:
        with pytest.raises(BackendError, match="the device fell off"):
            run_all(lattice, engine)
        assert backend.cancelled
        assert lattice.store.stored_tiles() == {(0, 0)}
    with LocalEngine(lattice, [ReferenceBackend()]) as engine:
        assert run_all(lattice, engine) == ALL_TILES - {(0, 0)}
    assert content(lattice.store) == want


def test_an_engine_goes_on_after_it_was_cancelled(want):
    lattice = lattice_in(MemoryStore())
    with LocalEngine(lattice, [ReferenceBackend()]) as engine:
        events = run_tiles(lattice, engine)
        next(event for event in events if isinstance(event, TileFinished))
        events.close()
        run_all(lattice, engine)
    assert content(lattice.store) == want


# --- processes that share only the store


class Dies(ReferenceBackend):
    """A back end whose process is killed in its third sweep."""

    def __init__(self) -> None:
        self.sweeps = 0

    def sweep(self, jobs, progress):
        self.sweeps += 1
        if self.sweeps == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().sweep(jobs, progress)


class Fails(ReferenceBackend):
    def sweep(self, jobs, progress):
        raise BackendError("the device fell off")


@pytest.fixture
def processes():
    """Sweeps the tiles that the store at `path` lacks in two new processes."""

    def run(path: Path, make_backend: Callable[[], Backend] = ReferenceBackend) -> set[tuple[int, int]]:
        spawn = multiprocessing.get_context("spawn")
        with (
            DirectoryStore.open(path) as store,
            store.marked() as mark,
            ProcessPoolExecutor(2, spawn) as pool,
        ):
            step = partial(sweep_stored_tile, path, mark, make_backend)
            return run_all(lattice_in(store), SharedStoreEngine(store, pool, 2, step, LeftOut()))

    return run


def tiles_in(path: Path) -> set[tuple[int, int]]:
    return DirectoryStore.attach(path).stored_tiles()


@pytest.mark.slow
@pytest.mark.cluster
def test_processes_make_the_same_tiles(tmp_path, want, processes):
    new_store(tmp_path).close()
    assert processes(tmp_path) == ALL_TILES
    assert content(DirectoryStore.attach(tmp_path)) == want


@pytest.mark.slow
@pytest.mark.cluster
def test_a_killed_worker_costs_its_tile(tmp_path, want, processes):
    new_store(tmp_path).close()
    with pytest.raises(BrokenProcessPool):
        processes(tmp_path, Dies)
    finished = tiles_in(tmp_path)
    assert finished
    assert processes(tmp_path) == ALL_TILES - finished
    assert content(DirectoryStore.attach(tmp_path)) == want


@pytest.mark.cluster
def test_the_exception_of_a_worker_comes_back(tmp_path, processes):
    new_store(tmp_path).close()
    with pytest.raises(BackendError, match="the device fell off"):
        processes(tmp_path, Fails)
    assert not tiles_in(tmp_path)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_worker_that_meets_a_damaged_tile_says_which(tmp_path, processes):
    new_store(tmp_path).close()
    processes(tmp_path)
    store = DirectoryStore.attach(tmp_path)
    store.tile_path(0, 1).write_bytes(b"rubbish")
    store.drop_tile(1, 1)
    with pytest.raises(DamagedTile, match=r"r00000c00001\.h5: damaged") as caught:
        processes(tmp_path)
    assert (caught.value.row, caught.value.col) == (0, 1)


def test_any_executor_will_do(tmp_path, want):
    with new_store(tmp_path) as store, store.marked() as mark, ThreadPoolExecutor(3) as pool:
        step = partial(sweep_stored_tile, tmp_path, mark, ReferenceBackend)
        run_all(lattice_in(store), SharedStoreEngine(store, pool, 3, step, LeftOut()))
        assert content(store) == want


def test_a_worker_knows_one_run_from_the_next_in_the_same_directory(tmp_path, want):
    """A worker keeps what it has read of a run, and must read again for another run."""
    other = Pair(PAIR.query[::-1], PAIR.target[::-1])
    for pair in (other, PAIR):
        shutil.rmtree(tmp_path)
        with new_store(tmp_path, pair) as store, store.marked() as mark:
            for tile in GRID.tiles() if pair is PAIR else [GRID.tile(0, 0)]:
                sweep_stored_tile(tmp_path, mark, ReferenceBackend, tile, LeftOut())
    assert content(DirectoryStore.attach(tmp_path)) == want


def test_a_device_of_several_threads_has_one_tile_at_a_time(tmp_path):
    device = SweepsAlone()
    with new_store(tmp_path) as store, store.marked() as mark, ThreadPoolExecutor(4) as pool:
        step = partial(sweep_stored_tile, tmp_path, mark, device.get)
        run_all(lattice_in(store), SharedStoreEngine(store, pool, 4, step, LeftOut()))
    assert device.sweeps == len(ALL_TILES)


class SweepsAlone(ReferenceBackend):
    def __init__(self) -> None:
        self.sweeps = 0
        self.lock = threading.Lock()

    def get(self) -> Backend:
        return self

    def sweep(self, jobs, progress):
        assert self.lock.acquire(blocking=False), "two sweeps at a time"
        self.sweeps += 1
        result = super().sweep(jobs, progress)
        self.lock.release()
        return result


class LosesWorkers:
    """An executor that cancels every other future, like an engine that has lost its worker."""

    def __init__(self, pool):
        self.pool, self.count = pool, 0

    def submit(self, step, *arguments):
        self.count += 1
        if self.count % 2:
            return self.pool.submit(step, *arguments)
        lost = Future()
        lost.cancel()
        lost.set_running_or_notify_cancel()
        return lost


def test_a_tile_whose_worker_is_lost_runs_again(tmp_path, want):
    with new_store(tmp_path) as store, store.marked() as mark, ThreadPoolExecutor(2) as pool:
        step = partial(sweep_stored_tile, tmp_path, mark, ReferenceBackend)
        executor = LosesWorkers(pool)
        assert run_all(lattice_in(store), SharedStoreEngine(store, executor, 2, step, LeftOut())) == ALL_TILES
        assert content(store) == want
    assert executor.count > len(ALL_TILES)


def test_the_step_of_a_worker_is_plain_data():
    step = partial(sweep_stored_tile, Path("/store"), "mark", ReferenceBackend, GRID.tile(1, 1))
    assert pickle.loads(pickle.dumps(step)).args == step.args
