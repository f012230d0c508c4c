"""Eager start states: the results of lazy runs, the path of the whole matrix, and the path to any cell."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import sleep

import forgeries
import h5py
import numpy as np
import pytest
from examples import share_of_examples
from hypothesis import given
from hypothesis import strategies as st
from runs import (
    CPU,
    PAIR,
    REPEATED,
    Interrupts,
    SmallTiles,
    found_path,
    geometries,
    notices,
    problems,
    result,
    run_all,
    run_in_small_steps,
    score_columns,
    small_geometry,
    stop_everywhere,
    swept,
    swept_lattice,
    tiles_in,
    using,
    walked,
)
from small_tile_runs import align, finish, start

from longalign.backends.base import no_progress
from longalign.backends.compilation import compile_or_load
from longalign.cli import main
from longalign.errors import InputError, StoreError, UsageError
from longalign.events import CompileFinished, CompileStarted, Event
from longalign.model.boundary import StartLine, State, Waypoint, start_code
from longalign.model.geometry import BYTES_PER_KEPT_START, BYTES_PER_STORED_CELL, BYTES_PER_STORED_START, Grid
from longalign.model.scoring import Scoring
from longalign.phases.lattice import StoreLattice
from longalign.phases.left_out import LeftOut
from longalign.phases.problem import Problem
from longalign.phases.tile_step import sweep_tile
from longalign.phases.walk import walk
from longalign.run import pipeline
from longalign.run.engines.local import LocalEngine
from longalign.run.engines.shared_store import SharedStoreEngine, sweep_stored_tile
from longalign.run.planner import plan
from longalign.run.request import Request
from longalign.run.trace_cell import trace_cell
from longalign.store import DirectoryStore, Manifest, MemoryStore
from longalign.store.base import DamagedTile
from longalign.store.codec import ANCHOR_STRIDE
from longalign.store.deflated import DeflatedArray
from longalign.store.manifest import SequenceRecord
from longalign.store.start_tables import pack_starts
from longalign.testing.inputs import any_scorings
from longalign.testing.reference import ReferenceBackend, matrices

TILES = 3 * 3


def eager_run(pair, geometry, *backends, store=None):
    tiled = [SmallTiles(geometry.tile, backend, geometry.leaf) for backend in backends]
    with small_geometry(geometry.chunk, geometry.group):
        return pair.run(using(*tiled), store, start_states="eager")


# --- the path of the whole matrix, as in lazy runs


@share_of_examples(0.4)
@given(problems(scorings=any_scorings, shortest=0), geometries)
def test_the_path_is_that_of_the_whole_matrix_wherever_it_is_cut(pair, geometry):
    outcome = eager_run(pair, geometry, CPU)
    pair.check(outcome)
    assert found_path(outcome) == walked(pair, outcome.end.i, outcome.end.j), pair


def test_phase_2_sweeps_nothing_but_the_part_of_a_chunk_before_the_end():
    lattice = swept_lattice(REPEATED, chunk=8)
    eager = StoreLattice(lattice.problem, lattice.grid, MemoryStore(), eager=True)
    sweep_tile(eager, CPU, lattice.grid.tile(0, 0))
    end = REPEATED.truth()
    counts = []
    path = walk(eager, [Waypoint(end.i, end.j, State.H, end.score)], ReferenceBackend(), counts.append)
    assert len(path) > 5
    assert sum(counts) <= 8 * 8
    assert walk(eager, path[:3], ReferenceBackend(), counts.append) == path


# --- any cell


@share_of_examples(0.3)
@given(problems(scorings=any_scorings), geometries, st.data())
def test_any_cell_can_be_traced_and_nothing_is_swept_again(tmp_path_factory, pair, geometry, data):
    geometry = replace(geometry, tile=(15 + geometry.tile[0], 15 + geometry.tile[1]))  # few files
    store = tmp_path_factory.mktemp("eager") / "s"
    command = data.draw(st.sampled_from(["align", "score"]))
    with small_geometry(geometry.chunk, geometry.group):
        pair.run(
            using(SmallTiles(geometry.tile, CPU, geometry.leaf)), store, command=command, start_states="eager"
        )
        h, _, _ = matrices(pair.whole())
        cells = st.tuples(st.integers(1, len(pair.query)), st.integers(1, len(pair.target)))
        for i, j in data.draw(st.lists(cells, min_size=1, max_size=5)):
            backend = SmallTiles(geometry.tile, CPU, leaf=10**6)  # which phase 3 sweeps not at all
            if pair.mode == "local" and h[i][j] == 0:
                with pytest.raises(InputError, match=rf"no alignment ends in cell \({i}, {j}\)"):
                    trace_cell(store, (i, j), using(backend))
                continue
            outcome = trace_cell(store, (i, j), using(backend))
            alignment = outcome.alignment
            assert backend.swept == 1, "only the part of a chunk, for the value"
            assert alignment.score == h[i][j] == score_columns(alignment), (pair, i, j)
            assert (alignment.query_end, alignment.target_end) == (i, j)
            assert found_path(outcome) == walked(pair, i, j), (pair, i, j)


@pytest.fixture(scope="module")
def finished(tmp_path_factory) -> Path:
    store = tmp_path_factory.mktemp("finished") / "s"
    small_eager(store)
    return store


def small_eager(store, emit=lambda _: None, backend=None, command="align"):
    """A run of 3 x 3 tiles."""
    return run_in_small_steps(REPEATED.spec(store, command, "eager"), emit, backend)


@pytest.mark.parametrize("cell", [(0, 5), (5, 0), (62, 5), (5, 57), (10**8, 1)])
def test_a_cell_outside_the_matrix_is_refused(finished, cell):
    with pytest.raises(UsageError, match=r"outside the matrix: rows are 1 to 61, columns 1 to 56"):
        trace_cell(finished, cell, using())


def test_a_lazy_store_is_refused(tmp_path):
    with small_geometry():
        REPEATED.run(using(), tmp_path / "s")
    with pytest.raises(StoreError, match="no start states are stored"):
        trace_cell(tmp_path / "s", (5, 5), using())


def test_an_unfinished_tile_is_refused_and_a_finished_one_is_not(tmp_path, finished):
    shutil.copytree(finished, tmp_path / "s")
    store = DirectoryStore.attach(tmp_path / "s")
    store.drop_tile(2, 2)
    last = store.manifest.grid.tile(2, 2)
    with pytest.raises(
        StoreError, match=rf"tile \(2, 2\), which holds cell \({last.i1}, {last.j1}\), is not"
    ):
        trace_cell(tmp_path / "s", (last.i1, last.j1), using())
    before = store.manifest.grid.tile(1, 2)
    assert trace_cell(tmp_path / "s", (before.i1, before.j1), using()).alignment.query_end == before.i1


def test_a_damaged_tile_on_the_way_is_named(tmp_path, finished):
    shutil.copytree(finished, tmp_path / "s")
    store = DirectoryStore.attach(tmp_path / "s")
    store.tile_path(1, 1).write_bytes(b"rubbish")
    end = REPEATED.truth()
    with pytest.raises(
        StoreError, match=r"r00001c00001\.h5: damaged: .*; longalign resume .* this tile again"
    ):
        trace_cell(tmp_path / "s", (end.i, end.j), using())


def test_an_impossible_state_on_the_way_is_damage(tmp_path, finished):
    shutil.copytree(finished, tmp_path / "s")
    for tile in (tmp_path / "s" / "tiles").iterdir():
        for side in ("row_starts", "col_starts"):
            forgeries.forge_numbers(tile, f"{side}/states", lambda values: values + 7)
    end = REPEATED.truth()
    with pytest.raises(
        StoreError, match=r"r\d+c\d+\.h5: damaged: no path .* at the stored start .* in state 7;"
    ):
        trace_cell(tmp_path / "s", (end.i, end.j), using())


def test_eager_scores_need_a_store():
    with pytest.raises(UsageError, match="eager needs --store DIR"):
        REPEATED.run(command="score", start_states="eager")


def test_a_store_of_one_kind_is_not_gone_on_with_as_the_other(finished):
    with small_geometry(), pytest.raises(StoreError, match="start_states is eager in the store and lazy now"):
        REPEATED.run(using(), finished)


# --- stopped and damaged


@pytest.mark.parametrize(
    "moments", [(3, 6, 7), pytest.param(range(1, 1000), marks=pytest.mark.slow)], ids=["some", "all"]
)
def test_an_interrupt_in_phase_2_or_3_loses_nothing(tmp_path, finished, moments):
    """A run for the score becomes an alignment."""
    answer = result(small_eager(finished))
    scored = tmp_path / "scored"
    small_eager(scored, command="score")

    def run(store, emit, backend):
        if not store.exists():
            shutil.copytree(scored, store)
        return small_eager(store, emit, backend)

    stops = list(stop_everywhere(run, tmp_path, answer, TILES, moments))
    assert {"stitch", "recompute"} <= {phase for phase, _ in stops}
    assert not any(count for _, count in stops)


@pytest.mark.slow
@pytest.mark.parametrize("at", [2, 8, 14])
def test_resume_continues_with_eager_start_states(tmp_path, finished, at):
    with pytest.raises(KeyboardInterrupt):
        small_eager(tmp_path, Interrupts(at))
    there = tiles_in(tmp_path)
    assert there < TILES
    with small_geometry():
        outcome = pipeline.resume(tmp_path, using(SmallTiles((24, 24), leaf=60)))
    REPEATED.check(outcome)
    again, before = (DirectoryStore.attach(store) for store in (tmp_path, finished))
    for tile in before.manifest.grid.tiles():
        steps = [store.get_tile(tile).row_starts.steps[:] for store in (again, before)]
        assert (steps[0] == steps[1]).all()


@pytest.mark.parametrize("name", ["row_starts/steps", "col_starts/states", "row_starts/anchors"])
@pytest.mark.parametrize("how", ["a bit on the disk", "rewritten"])
def test_damaged_start_states_are_noticed_and_computed_again(tmp_path, finished, name, how):
    store, events = tmp_path / "s", []
    shutil.copytree(finished, store)
    (store / "path.h5").unlink()
    file = DirectoryStore.attach(store).tile_path(1, 1)
    with h5py.File(file, "r+") as content:
        dataset = content[name]
        if how == "rewritten":
            dataset[...] = dataset[...] + 1
        chunk = dataset.id.get_chunk_info(0)
    if how != "rewritten":
        image = bytearray(file.read_bytes())
        image[chunk.byte_offset] ^= 4
        file.write_bytes(image)
    assert result(small_eager(store, events.append)) == result(small_eager(finished))
    assert swept(events) == 1
    [notice] = notices(events)
    assert str(file) in notice


@pytest.mark.slow
def test_kill_9_in_phase_2_or_3_is_gone_on_with(tmp_path):
    """A run of many small tiles by the command line. The store then traces the end of the alignment again."""
    eager = partial(align, extra=["--start-states", "eager"])
    line, _ = finish(eager(tmp_path / "whole"))
    for number, moment in enumerate(["stitch", "recompute"]):
        store = tmp_path / str(number)
        with start(eager(store)) as process:
            next((event for event in process.stderr if f'"{moment}"' in event), None)
            process.kill()
            process.communicate()
        there = tiles_in(store)
        assert there  # the last tiles may still have been waiting to be written
        again, events = finish(eager(store))
        assert again == line
        assert [event["event"] for event in events].count("tile_finished") == 36 - there
        assert "notice" not in [event["event"] for event in events]


@pytest.mark.slow
@pytest.mark.cluster
def test_processes_make_the_same_start_states(tmp_path):
    local = StoreLattice(
        Problem.of(*REPEATED.sequences(), REPEATED.scoring, REPEATED.mode), small_grid(), MemoryStore(), True
    )
    with LocalEngine(local, [ReferenceBackend()]) as engine:
        run_all(local, engine)
    records = map(SequenceRecord.of, REPEATED.sequences())
    manifest = Manifest(*records, REPEATED.mode, REPEATED.scoring, small_grid(), "0", start_states="eager")
    with (
        DirectoryStore.create(tmp_path, manifest, *REPEATED.sequences()) as store,
        store.marked() as mark,
        ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool,
    ):
        step = partial(sweep_stored_tile, tmp_path, mark, ReferenceBackend)
        run_all(replace(local, store=store), SharedStoreEngine(store, pool, 2, step, LeftOut()))
        for tile in small_grid().tiles():
            ours, theirs = store.get_tile(tile), local.store.get_tile(tile)
            for side in ("row_starts", "col_starts"):
                for name in ("index", "anchors", "steps", "states"):
                    here, there = (getattr(getattr(record, side), name)[:] for record in (ours, theirs))
                    assert here.dtype == there.dtype
                    assert (here == there).all()


def small_grid():
    rows, cols = len(REPEATED.query), len(REPEATED.target)
    return Grid((0, 9, 30, rows), (0, 20, 41, cols), (0, 30, rows), (0, 41, cols))


# --- packed, planned, on the command line


@given(
    st.lists(
        st.tuples(st.integers(0, 2**31 - 1), st.integers(0, 2**30 - 1), st.sampled_from(State)), min_size=1
    ),
    st.integers(1, 3),
)
def test_start_states_come_back_from_any_cell(monkeypatch_stride, cells, lines):
    row, col, state = (np.array(values, np.int64) for values in zip(*cells, strict=True))
    h, gap = start_code(row, col, state), start_code(row[::-1], col[::-1], state[::-1])
    packed = pack_starts(range(3, 3 + lines), [StartLine(h, gap)] * lines)
    for k, want in enumerate(cells):
        assert packed.at(2 + lines, k + 1, gap=False) == want
        assert packed.at(2 + lines, len(cells) - k, gap=True) == want


@pytest.fixture(scope="module", params=[4, ANCHOR_STRIDE])
def monkeypatch_stride(request):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("longalign.store.start_tables.ANCHOR_STRIDE", request.param)
        yield


@pytest.mark.parametrize("in_memory", [True, False])
def test_start_states_count_in_the_budget(tmp_path, in_memory):
    """The same number of bytes holds a coarser lattice, and a still coarser one in memory."""
    request = Request(10**6, 10**6, "align", None if in_memory else tmp_path)
    lazy, eager = (
        plan(replace(request, start_states=kind), using_budget(200 << 20)) for kind in ("lazy", "eager")
    )
    cost = BYTES_PER_STORED_CELL + (BYTES_PER_KEPT_START if in_memory else BYTES_PER_STORED_START)
    assert eager.stored_cells * cost <= 200 << 20
    assert eager.stored_cells * cost > 150 << 20
    assert lazy.stored_cells > 2 * eager.stored_cells


def using_budget(budget):
    return replace(using(SmallTiles((10**6, 10**6))), store_budget=budget)


def test_an_eager_score_keeps_the_lattice(tmp_path):
    grids = [
        plan(Request(10**6, 10**6, "score", tmp_path, start_states=kind), using_budget(200 << 20))
        for kind in ("lazy", "eager")
    ]
    assert [len(grid.row_cuts) > 2 for grid in grids] == [False, True]


def test_a_trace_says_how_long_kernels_were_compiled(finished):
    events: list[Event] = []

    class Compiling(SmallTiles):
        def sweep(self, jobs, progress=no_progress):
            compile_or_load("a device", lambda: False, partial(sleep, 0.01))
            return super().sweep(jobs, progress)

    outcome = trace_cell(finished, (20, 20), using(Compiling()), emit=events.append)
    assert outcome.compile_seconds >= 0.01
    assert {type(event) for event in events} >= {CompileStarted, CompileFinished}


def test_trace_on_the_command_line(tmp_path, capsys):
    query, target = tmp_path / "q.fa", tmp_path / "t.fa"
    query.write_text(f">q\nTT{REPEATED.query}\n")
    target.write_text(f">t\n{REPEATED.target}\n")
    store = str(tmp_path / "s")
    run = ["--backend", "cpu", "--quiet"]
    names = f"{query}:q:2-63", str(target)
    assert main(["score", *names, "--store", store, "--start-states", "eager", *run]) == 0
    assert main(["inspect", store, "--json"]) == 0
    assert json.loads(capsys.readouterr().out.partition("\n")[2])["start_states"] == "eager"
    paf = tmp_path / "o.paf"
    assert main(["trace", store, "--end", "20,20", "-o", str(paf), "--json", "-", *run]) == 0
    summary = json.loads(capsys.readouterr().out)
    assert summary["end"] == {"query": 22, "target": 20}
    assert summary["score"] == 20
    fields = paf.read_text().split("\t")
    assert fields[:4] == ["q", "63", "2", "22"]
    assert fields[5:9] == ["t", "56", "0", "20"]
    assert main(["verify", str(paf), *names]) == 0
    capsys.readouterr()
    for arguments, code in ((["62,1"], 2), (["1,2"], 1)):
        assert main(["trace", store, "--end", *arguments, *run]) == code
        out, err = capsys.readouterr()
        assert out == ""
        assert err.startswith("longalign: ")
        assert err.count("\n") == 1


@pytest.mark.parametrize("text", ["5", "5,", "-1,5", "5,5,5", "a,b", "5, 5"])
def test_a_malformed_cell_is_refused(tmp_path, capsys, text):
    with pytest.raises(SystemExit) as caught:
        main(["trace", str(tmp_path), f"--end={text}"])
    assert caught.value.code == 2
    assert "is not a cell such as 1200,1350" in capsys.readouterr().err


def test_a_global_trace_aligns_the_letters_before_the_cell(tmp_path):
    pair = replace(REPEATED, mode="global", scoring=Scoring(match=2))
    with small_geometry():
        pair.run(using(SmallTiles((24, 24))), tmp_path / "s", start_states="eager")
    alignment = trace_cell(tmp_path / "s", (30, 25), using(SmallTiles((24, 24)))).alignment
    shorter = replace(pair, query=pair.query[:30], target=pair.target[:25])
    assert alignment.score == shorter.truth().score
    assert (alignment.query.length, alignment.query.record_length) == (30, 61)


@pytest.mark.parametrize("side", ["rows", "cols", "row_starts", "col_starts"])
def test_checksums_are_made_with_the_numbers_and_not_by_the_writer(tmp_path, monkeypatch, side):
    """Numbers that change in memory before they are written are detected on reading."""
    put = DirectoryStore.put_tile

    def put_changed(store, tile, record, *writer):
        array = getattr(record, side).steps
        first = (0,) * array.streams.ndim
        array.streams[first] = DeflatedArray.of(np.full_like(array[:], 5)).streams[first]
        put(store, tile, record, *writer)

    monkeypatch.setattr(DirectoryStore, "put_tile", put_changed)
    with small_geometry():
        PAIR.run(using(SmallTiles((100, 100))), tmp_path / "s", start_states="eager", command="score")
    store = DirectoryStore.attach(tmp_path / "s")
    with pytest.raises(DamagedTile, match="CRC-32"):
        store.check_tile(*store.manifest.grid.tiles())
