"""A run may be stopped at any moment and in any way, and continued. Finished work is not repeated."""

from __future__ import annotations

import errno
import os
import random
import shutil
import signal
import tarfile
import threading
import time
from collections import Counter
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
from examples import share_of_examples
from hypothesis import given
from hypothesis import strategies as st
from inputs import DATA
from runs import (
    CPU,
    REPEATED,
    Interrupts,
    SmallTiles,
    damaging,
    geometries,
    notices,
    problems,
    result,
    run_in_small_steps,
    small_geometry,
    stop_again_and_again,
    stop_everywhere,
    swept,
    tiles_in,
    using,
)
from small_tile_runs import align, command, finish, start

import longalign
from longalign.errors import StoreError, UsageError
from longalign.events import Emit, Event, PhaseFinished, TileFinished, ignore
from longalign.fasta import read_sequence
from longalign.run import pipeline, three_phases
from longalign.run.outcome import Outcome
from longalign.run.request import Resources
from longalign.run.spec import RunSpec
from longalign.store import DirectoryStore, directory, file_reader

TILES, LAST_TILE = 3 * 3, (2, 2)


def small_run(store: Path | None, emit: Emit = ignore, backend=None) -> Outcome:
    """A run of 3 x 3 tiles."""
    return run_in_small_steps(REPEATED.spec(store), emit, backend)


def test_a_store_of_an_earlier_version_is_continued(tmp_path):
    """The store was written by commit 8959798, and stopped after 8 of its 16 tiles.

    That version had neither pruning nor strands, nor a rule for ties. The path follows this rule now,
    whichever version swept the tiles.
    """
    with tarfile.open(DATA / "stopped_store.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    swept: list[TileFinished] = []

    def note(event: Event) -> None:
        if isinstance(event, TileFinished):
            swept.append(event)

    found = longalign.resume(tmp_path / "stopped", backend="cpu", emit=note)
    names = ("hiv1_SF33.AY352275.1.fa.gz", "hiv1_MB2059.AF133821.1.fa.gz")
    new = longalign.align(*(read_sequence(DATA / name) for name in names), backend="cpu")
    assert (found.score, found.cigar) == (new.score, new.cigar)
    assert found.rescore() == found.score == 5091
    assert len(swept) == 8


@pytest.fixture(scope="module")
def answer() -> tuple[object, ...]:
    outcome = small_run(None)
    REPEATED.check(outcome)
    return result(outcome)


# --- in this process


@pytest.mark.slow
def test_an_interrupt_at_any_event_loses_nothing(tmp_path, answer):
    phases = {phase for phase, _ in stop_everywhere(small_run, tmp_path, answer, TILES)}
    assert phases == {None, "score", "stitch", "recompute"}


def test_interrupts_again_and_again_end_in_the_answer(tmp_path, answer):
    assert result(stop_again_and_again(small_run, tmp_path)) == answer


@share_of_examples(0.3)
@given(problems(shortest=0), geometries, st.sampled_from(["lazy", "eager"]), st.integers(0, 40))
def test_a_run_in_any_mode_goes_on_after_an_interrupt(tmp_path_factory, pair, geometry, start_states, at):
    tile = 15 + geometry.tile[0], 15 + geometry.tile[1]  # few files
    store = tmp_path_factory.mktemp("interrupted") / "s"
    with small_geometry(geometry.chunk, geometry.group):
        run = partial(pair.run, using(SmallTiles(tile, CPU, geometry.leaf)), start_states=start_states)
        with suppress(KeyboardInterrupt):
            run(store, Interrupts(at))
        there, events = tiles_in(store) if store.exists() else 0, []
        outcome = run(store, events.append)
        pair.check(outcome)
        assert result(outcome) == result(run())
        assert swept(events) + there == len(DirectoryStore.attach(store).manifest.grid.tiles())


def test_a_finished_run_is_not_swept_again(tmp_path, answer):
    small_run(tmp_path)
    events, backend = [], SmallTiles()
    assert result(small_run(tmp_path, events.append, backend)) == answer
    assert backend.swept == 0
    assert [event.cells for event in events if isinstance(event, PhaseFinished)] == [0]


def test_a_score_may_go_on_to_an_alignment(tmp_path, answer):
    with small_geometry():
        REPEATED.run(replace(using(SmallTiles((24, 24))), store_budget=None), tmp_path, command="score")
    events = []
    outcome = small_run(tmp_path, events.append)
    REPEATED.check(outcome)
    assert outcome.end == answer[0]
    assert swept(events) == 0
    [said] = notices(events)
    assert said.startswith(
        f"{tmp_path}: made for a score, so it has few boundaries: phases 2 and 3 compute about 78%"
    )
    events.clear()
    small_run(tmp_path, events.append)  # it is the store of an alignment now
    assert notices(events) == []


# --- damage


def finished_store(path: Path) -> Path:
    small_run(path)
    return path


@pytest.mark.parametrize("name", ["tiles/r00001c00002.h5", "path.h5", "pieces/p000001.h5"])
@pytest.mark.parametrize("how", ["rubbish", "empty", "gone"])
def test_what_is_damaged_or_gone_is_done_again_and_said(tmp_path, answer, name, how):
    store, events = finished_store(tmp_path / "s"), []
    if how == "gone":
        (store / name).unlink()
    else:
        (store / name).write_bytes(b"rubbish" if how == "rubbish" else b"")
    assert result(small_run(store, events.append)) == answer
    assert swept(events) == name.startswith("tiles")
    complaints = notices(events)
    assert len(complaints) == (how != "gone")
    assert all(str(store / name) in text and "\n" not in text for text in complaints)
    assert not notices_of_a_new_run(store)


def notices_of_a_new_run(store: Path) -> list[str]:
    events: list[Event] = []
    small_run(store, events.append)
    return notices(events)


@pytest.mark.parametrize("after", [1, 2, TILES - 1, TILES])
def test_a_tile_damaged_while_the_run_goes_on_is_swept_again(tmp_path, answer, after, monkeypatch):
    """Damaged right after it was written, before its neighbours or the path have read it."""
    monkeypatch.setattr(pipeline, "WriteBehind", lambda store, *_: nullcontext(store))
    events: list[Event] = []
    assert result(small_run(tmp_path, damaging(tmp_path, after, events))) == answer
    assert swept(events) == TILES + 1
    assert len(notices(events)) == 1


def test_a_tile_damaged_as_soon_as_it_is_written_is_swept_again(tmp_path, answer, monkeypatch):
    """Before the one who wrote it has looked at it."""
    new_hdf5, events, written = directory.new_hdf5, [], []

    @contextmanager
    def damaged_once(path, *arguments):
        with new_hdf5(path, *arguments) as file:
            yield file
        if path.parent.name == "tiles":
            written.append(path)
            if len(written) == 1:
                path.write_bytes(b"rubbish")

    monkeypatch.setattr(directory, "new_hdf5", damaged_once)
    assert result(small_run(tmp_path, events.append)) == answer
    assert len(written) == TILES + 1
    assert len(notices(events)) == 1


@pytest.mark.parametrize(
    ("name", "number"),
    [
        ("tiles/r00001c00001.h5", errno.EACCES),
        ("path.h5", errno.EMFILE),
        ("pieces/p000000.h5", errno.EMFILE),
    ],
)
def test_what_cannot_be_read_now_is_kept(tmp_path, answer, monkeypatch, name, number):
    small_run(tmp_path)
    file = tmp_path / name
    before = file.stat()

    def refuse(how):
        def refusing(path, *args, **options):
            if path == file:
                raise OSError(number, os.strerror(number))
            return how(path, *args, **options)

        return refusing

    calls = [(file_reader, "open_hdf5"), (Path, "stat")]
    is_listed = file.parent.name == "tiles"  # and not looked up
    for owner, name_of_call in calls[: 2 - is_listed]:
        with monkeypatch.context() as patch:
            patch.setattr(owner, name_of_call, refuse(getattr(owner, name_of_call)))
            with pytest.raises(StoreError) as refused:
                small_run(tmp_path)
        assert str(refused.value) == f"{file}: cannot be read: {os.strerror(number).lower()}"
    again = []
    assert result(small_run(tmp_path, again.append)) == answer
    assert not notices(again)
    assert file.stat().st_mtime_ns == before.st_mtime_ns


def test_tiles_that_cannot_be_listed_now_are_kept(tmp_path, answer, monkeypatch):
    small_run(tmp_path)
    scan, again = os.scandir, []

    def refusing(path):
        if Path(path) == tmp_path / "tiles":
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        return scan(path)

    with monkeypatch.context() as patch:
        patch.setattr(os, "scandir", refusing)
        with pytest.raises(StoreError, match=r"tiles: cannot be read: permission denied$"):
            small_run(tmp_path)
    assert result(small_run(tmp_path, again.append)) == answer
    assert not notices(again)
    assert swept(again) == 0


@pytest.mark.parametrize(("number", "times"), [(errno.EIO, 1), (errno.ENOENT, 10)])
def test_a_disk_that_never_returns_what_was_written_ends_the_run(tmp_path, monkeypatch, number, times):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pread", fail)
    events = []
    with pytest.raises(StoreError, match=r"r0000.c0000.\.h5: damaged: .*in vain: check the disk"):
        small_run(tmp_path, events.append)
    assert max(Counter(notices(events)).values()) == times, "computed again so often for one tile"


def test_phase_2_starts_while_the_last_tile_is_written(tmp_path, answer, monkeypatch):
    put_tile, stitch = DirectoryStore.put_tile, three_phases.stitch
    writing, started = threading.Event(), threading.Event()

    def put_late(self, tile, record, *writer):
        if (tile.row, tile.col) == LAST_TILE:
            writing.set()
            assert started.wait(60)
        put_tile(self, tile, record, *writer)

    def begin(*arguments):
        assert writing.wait(60)
        started.set()
        return stitch(*arguments)

    monkeypatch.setattr(DirectoryStore, "put_tile", put_late)
    monkeypatch.setattr(three_phases, "stitch", begin)
    assert result(small_run(tmp_path)) == answer
    assert tiles_in(tmp_path) == TILES


def test_a_disk_that_is_full_at_the_last_tile_ends_the_run_before_a_path_is_stored(
    tmp_path, answer, monkeypatch
):
    put_tile, events = DirectoryStore.put_tile, []

    def full(self, tile, record, *writer):
        if (tile.row, tile.col) == LAST_TILE:
            raise StoreError("cannot be written: No space left on device")
        put_tile(self, tile, record, *writer)

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "put_tile", full)
        with pytest.raises(StoreError, match="No space left"):
            small_run(tmp_path, events.append)
    assert not (tmp_path / "path.h5").exists()
    events.clear()
    assert result(small_run(tmp_path, events.append)) == answer
    assert swept(events) == 1


def test_no_piece_is_stored_while_a_tile_cannot_be_written(tmp_path, answer, monkeypatch):
    """The path is known, because only a tile and the pieces are missing."""
    store = finished_store(tmp_path)
    DirectoryStore.attach(store).tile_path(*LAST_TILE).unlink()
    for piece in (store / "pieces").iterdir():
        piece.unlink()

    def full(self, tile, record, *writer):
        raise StoreError("cannot be written: No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(DirectoryStore, "put_tile", full)
        with pytest.raises(StoreError, match="No space left"):
            small_run(store)
    assert not list((store / "pieces").iterdir())
    assert result(small_run(store)) == answer


# --- changed sequences and scorings


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "query.fa", tmp_path / "target.fa"]
    for path, letters in zip(paths, (REPEATED.query, REPEATED.target), strict=True):
        path.write_text(f">{path.stem} some words\n{letters}\n")
    return paths


def begin(files: list[Path], store: Path) -> None:
    """A run of two files that is stopped in its first tiles."""
    with small_geometry(chunk=8), pytest.raises(KeyboardInterrupt):
        pipeline.run(spec_of(files, store), using(SmallTiles((24, 24))), Interrupts(4))


def spec_of(files: list[Path], store: Path) -> RunSpec:
    return RunSpec(*map(read_sequence, files), REPEATED.scoring, REPEATED.mode, store=store)


def go_on(store: Path, emit: Emit = ignore) -> Outcome:
    with small_geometry():
        return pipeline.resume(store, using(), emit=emit)


def test_resume_needs_the_store_alone(tmp_path, files, answer):
    begin(files, tmp_path / "s")
    outcome = go_on(tmp_path / "s")
    assert outcome.end == answer[0]
    assert (outcome.spec.query.name, outcome.spec.target.source) == ("query", str(files[1]))
    REPEATED.check(outcome)


def test_a_changed_file_is_refused_and_the_field_named(tmp_path, files):
    begin(files, tmp_path / "s")
    files[1].write_text(">target\n" + REPEATED.target[::-1] + "\n")
    with pytest.raises(
        StoreError,
        match=r"another run: the letters of the target 'target' of \S+t\S*\.fa differ from those in",
    ):
        go_on(tmp_path / "s")


def test_a_file_that_is_gone_or_a_pipe_is_taken_from_the_store(tmp_path, files, answer):
    begin(files, tmp_path / "s")
    for path in files:
        path.unlink()
    os.mkfifo(files[1])
    events: list[Event] = []
    assert go_on(tmp_path / "s", events.append).end == answer[0]
    assert len(notices(events)) == 2
    for path, text in zip(files, notices(events), strict=True):
        assert text == f"{path}: cannot be read again; going on with the copy in the store"


def damage(store: Path, how: str) -> None:
    copy = store / "sequences.h5"
    copy.unlink() if how == "gone" else copy.write_bytes(b"rubbish")


@pytest.mark.parametrize("how", ["rubbish", "gone"])
@pytest.mark.parametrize("again", ["resume", "run"])
def test_a_damaged_copy_of_sequences_is_made_again_from_their_files(tmp_path, files, answer, how, again):
    store = tmp_path / "s"
    begin(files, store)
    files[0].write_text(files[0].read_text().replace(">query", ">renamed"))
    damage(store, how)
    events: list[Event] = []
    if again == "resume":
        outcome = go_on(store, events.append)
        assert outcome.spec.query.name == "query"
    else:
        outcome = pipeline.run(spec_of(files, store), using(), events.append)
    assert outcome.end == answer[0]
    [text] = notices(events)
    assert text.startswith(f"{store}/sequences.h5: damaged: ")
    assert text.endswith("; this copy is made again")
    for path in files:
        path.unlink()
    assert go_on(store).end == answer[0]


@pytest.mark.parametrize("how", ["rubbish", "gone"])
@pytest.mark.parametrize("lost", [0, 1])
def test_sequences_damaged_in_the_store_whose_files_are_gone_are_noticed(tmp_path, files, lost, how):
    begin(files, tmp_path / "s")
    damage(tmp_path / "s", how)
    files[lost].unlink()
    events: list[Event] = []
    with pytest.raises(StoreError, match=r"sequences\.h5: damaged"):
        go_on(tmp_path / "s", events.append)
    assert not events


def test_a_damaged_copy_is_not_made_again_from_files_that_have_changed(tmp_path, files):
    begin(files, tmp_path / "s")
    damage(tmp_path / "s", "rubbish")
    files[1].write_text(">target\n" + REPEATED.target[::-1] + "\n")
    with pytest.raises(
        StoreError,
        match=r"another run: the letters of the target 'target' of \S+t\S*\.fa differ from those in",
    ):
        go_on(tmp_path / "s")
    assert (tmp_path / "s" / "sequences.h5").read_bytes() == b"rubbish"


def test_a_smaller_memory_budget_is_refused_on_resume_too(tmp_path, files):
    begin(files, tmp_path / "s")
    small = Resources([SmallTiles()], memory=1 << 20)
    with pytest.raises(UsageError, match="the budget is 1M"):
        pipeline.resume(tmp_path / "s", small)


def test_a_disk_that_lacks_room_for_the_missing_tiles_is_refused_and_a_finished_phase_needs_none(
    tmp_path, answer, monkeypatch
):
    monkeypatch.setattr("longalign.run.grid_bytes.disk_usage", lambda _: SimpleNamespace(free=10**6))
    with pytest.raises(KeyboardInterrupt):
        small_run(tmp_path, Interrupts(5))
    there = tiles_in(tmp_path)
    assert 0 < there < TILES
    monkeypatch.setattr("longalign.run.grid_bytes.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(UsageError, match="and 10 bytes of the disk are free"):
        small_run(tmp_path)
    assert tiles_in(tmp_path) == there
    monkeypatch.undo()
    assert result(small_run(tmp_path)) == answer
    monkeypatch.setattr("longalign.run.grid_bytes.disk_usage", lambda _: SimpleNamespace(free=0))
    assert result(small_run(tmp_path)) == answer


def test_a_disk_that_lacks_room_for_tiles_found_damaged_is_refused(tmp_path, answer, monkeypatch):
    """Empty files, which a power failure may leave behind, free no space."""
    small_run(tmp_path)
    for tile in (tmp_path / "tiles").iterdir():
        tile.write_bytes(b"")
    monkeypatch.setattr("longalign.run.grid_bytes.disk_usage", lambda _: SimpleNamespace(free=10))
    with pytest.raises(UsageError, match="and 10 bytes of the disk are free"):
        small_run(tmp_path)
    monkeypatch.undo()
    assert result(small_run(tmp_path)) == answer


def test_a_piece_of_another_stretch_is_computed_again(tmp_path, answer):
    """The piece is undamaged and of this run, as if a path had been stored again in other groups."""
    small_run(tmp_path)
    first, second = (tmp_path / "pieces" / f"p{number:06d}.h5" for number in (0, 1))
    shutil.copy(second, first)
    events: list[Event] = []
    assert result(small_run(tmp_path, events.append)) == answer
    complaint = f"{first}: damaged: it does not fit the path; this step is done again"
    assert notices(events) == [complaint]


# --- killed runs of the command line


MITOCHONDRIA_TILES = 6 * 6
MITOCHONDRIA_SCORE = 10637


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, float]:
    """The output line of an undisturbed run, and its duration in seconds."""
    store = tmp_path_factory.mktemp("whole") / "s"
    started = time.monotonic()
    line, events = finish(align(store))
    assert f"AS:i:{MITOCHONDRIA_SCORE}\t" in line
    assert sum(event["event"] == "tile_finished" for event in events) == MITOCHONDRIA_TILES
    return line, time.monotonic() - started


@pytest.mark.slow
def test_kill_9_loses_at_most_the_tiles_being_swept(tmp_path, whole):
    """Killed repeatedly, some time after the start of a random phase, and then run to the end."""
    line, seconds = whole
    rng = random.Random(20)
    kills = 0
    for number in range(100):
        store = tmp_path / str(number)
        for _ in range(rng.randrange(1, 4)):
            with start(align(store)) as process:
                moment = rng.choice(["", "score", "tile_finished", "stitch", "recompute"])
                next((line for line in process.stderr if moment in line), None)
                time.sleep(rng.uniform(0, 0.3) * seconds)
                process.kill()
                process.communicate()
            kills += process.returncode == -signal.SIGKILL
        there = tiles_in(store)
        again, events = finish(align(store))
        assert again == line
        assert sum(event["event"] == "tile_finished" for event in events) == MITOCHONDRIA_TILES - there
        assert not [event for event in events if event["event"] == "notice"]
        shutil.rmtree(store)
        if kills >= 10:
            return
    raise AssertionError(f"only {kills} of the runs were killed")


#: What the events of a pruned run have in them when a phase begins, or a tile is finished.
MOMENTS = ['"name": "seed"', '"name": "score"', "tile_finished", '"name": "stitch"', '"name": "recompute"']


def kill_pruned_run(store: Path, moment: str, backend: str = "cpu") -> None:
    """Kill a run when its progress shows `moment`. Runs that end before they are killed are repeated."""
    for _ in range(10):
        with start(align(store, backend, prune="auto")) as process:
            next((line for line in process.stderr if moment in line), None)
            process.kill()
            process.communicate()
        if process.returncode == -signal.SIGKILL:
            return
        shutil.rmtree(store)
    raise AssertionError(f"no run could be killed at {moment}")


def check_that_a_pruned_run_goes_on(store: Path, line: str, backend: str = "cpu") -> None:
    """Run to the end: tiles that are stored are not swept again, and some are never swept."""
    there = tiles_in(store) if store.exists() else 0
    again, events = finish(align(store, backend, prune="auto"))
    assert again == line
    with DirectoryStore.open(store) as finished:
        needed = MITOCHONDRIA_TILES - len(finished.get_left_out())
    assert sum(event["event"] == "tile_finished" for event in events) == needed - there
    assert needed < MITOCHONDRIA_TILES
    assert not [event for event in events if event["event"] == "notice"]


@pytest.mark.slow
def test_a_pruned_run_that_is_killed_again_and_again_loses_at_most_the_tiles_being_swept(tmp_path, whole):
    line, _ = whole
    for number, moment in enumerate(MOMENTS):
        store = tmp_path / str(number)
        kill_pruned_run(store, moment)
        kill_pruned_run(store, "event")
        check_that_a_pruned_run_goes_on(store, line)


@pytest.mark.gpu
@pytest.mark.parametrize("backends", [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")], ids=str)
@pytest.mark.parametrize("moment", ["score", "tile_finished", "stitch", "recompute"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_run_on_a_gpu_goes_on_there_or_elsewhere(tmp_path, whole, backends, moment, number):
    """Stopped on one back end and finished on another: stored tiles stay, and the result is the same."""
    first, second = backends
    with start(align(tmp_path / "s", first)) as process:
        next((line for line in process.stderr if moment in line), None)
        process.send_signal(number)
        process.communicate()
    assert process.returncode in (0, 128 + number, -number)
    there = tiles_in(tmp_path / "s")
    line, events = finish(align(tmp_path / "s", second))
    assert line == whole[0]
    assert sum(event["event"] == "tile_finished" for event in events) == MITOCHONDRIA_TILES - there
    assert not [event for event in events if event["event"] == "notice"]


@pytest.mark.gpu
@pytest.mark.parametrize("backends", [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")], ids=str)
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_pruned_run_on_a_gpu_goes_on_there_or_elsewhere(tmp_path, whole, backends, moment):
    first, second = backends
    kill_pruned_run(tmp_path / "s", moment, first)
    check_that_a_pruned_run_goes_on(tmp_path / "s", whole[0], second)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("moment", "number"), [("tile_finished", signal.SIGTERM), ("recompute", signal.SIGINT)]
)
def test_a_signal_ends_with_its_exit_code_and_says_how_to_go_on(tmp_path, whole, number, moment):
    for attempt in range(10):
        store = tmp_path / f"it's mine {attempt}"
        with start(align(store)) as process:
            next(line for line in process.stderr if moment in line)
            process.send_signal(number)
            out, err = process.communicate()
        if process.returncode != 0:  # otherwise the run ended before the signal came
            break
    assert process.returncode == 128 + number
    assert out == ""
    *_, last = err.splitlines()
    assert last.startswith("longalign: interrupted; go on with: longalign resume ")
    assert not list(store.rglob(".tmp-*"))
    there = tiles_in(store)
    arguments = command("resume", store, "--progress", "json")
    again, events = finish(arguments)
    assert again == whole[0]
    assert sum(event["event"] == "tile_finished" for event in events) == MITOCHONDRIA_TILES - there
