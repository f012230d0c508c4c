"""Runs of several pairs, the properties of a spec, and false reports of damage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from runs import PAIR, REPEATED, Pair, SmallTiles, result, small_geometry, tiles_in, using

from longalign.errors import InputError, StoreError
from longalign.events import Event, PhaseStarted, TileFinished
from longalign.model.mode import GLOBAL
from longalign.model.scoring import Scoring
from longalign.run import pipeline
from longalign.run.outcome import Outcome
from longalign.run.spec import RunSpec
from longalign.store import DirectoryStore, directory
from longalign.store.base import DamagedTile

GLOBALLY = replace(PAIR, mode=GLOBAL)


def test_pairs_run_one_after_the_other_on_the_same_resources(tmp_path):
    resources, events = using(SmallTiles((24, 24))), list[Event]()
    specs = [REPEATED.spec(tmp_path / "first"), GLOBALLY.spec(tmp_path / "second", start_states="eager")]
    with small_geometry():
        outcomes = pipeline.run_all(specs, resources, events.append)
        first = next(outcomes)
        assert [event.name for event in events if isinstance(event, PhaseStarted)] == [
            "score",
            "stitch",
            "recompute",
        ]
        assert not (tmp_path / "second").exists()
        second, *others = outcomes
    assert not others
    for pair, outcome, spec in ((REPEATED, first, specs[0]), (GLOBALLY, second, specs[1])):
        pair.check(outcome)
        assert outcome.spec is spec
        assert tiles_in(spec.store) > 0
        with small_geometry():
            assert result(outcome) == result(pipeline.run(spec, resources))


def test_an_error_in_one_pair_leaves_the_outcomes_before_it(tmp_path):
    with small_geometry():
        PAIR.run(store=tmp_path)
        outcomes = pipeline.run_all([PAIR.spec(), GLOBALLY.spec(tmp_path), PAIR.spec()], using())
        PAIR.check(next(outcomes))
        with pytest.raises(StoreError, match="another run: mode is local in the store and global now"):
            next(outcomes)


@pytest.mark.parametrize("strand", ["plus", "both"])
@pytest.mark.parametrize(
    ("taken", "message"),
    [
        ("file", "file: a file, not a directory: it cannot hold a store"),
        ("folder", "folder: neither empty nor a store: it holds x"),
        ("folder/x", "x: a file, not a directory: it cannot hold a store"),
    ],
)
def test_a_place_where_no_store_can_be_made_is_refused_before_anything_is_computed(
    tmp_path, monkeypatch, taken, message, strand
):
    (tmp_path / "folder").mkdir()
    for name in ("file", "folder/x"):
        (tmp_path / name).touch()
    monkeypatch.setattr(pipeline, "_find_bound", lambda *_: pytest.fail("seeds are looked for"))
    with pytest.raises(StoreError, match=message):
        pipeline.run(replace(PAIR.spec(tmp_path / taken), strand=strand), using())


@pytest.mark.parametrize("strand", ["plus", "both"])
def test_a_run_goes_on_with_a_store_that_the_same_run_has_made_meanwhile(tmp_path, monkeypatch, strand):
    spec, find_bound = replace(PAIR.spec(tmp_path / "s"), strand=strand), pipeline._find_bound

    def find_slowly(*arguments):
        monkeypatch.setattr(pipeline, "_find_bound", find_bound)
        pipeline.run(spec, using())
        return find_bound(*arguments)

    monkeypatch.setattr(pipeline, "_find_bound", find_slowly)
    events = list[Event]()
    assert result(pipeline.run(spec, using(), events.append)) == result(pipeline.run(spec, using()))
    assert not [event for event in events if isinstance(event, TileFinished)]


def test_a_store_that_another_run_makes_before_the_lock_is_taken_is_not_touched(tmp_path, monkeypatch):
    spec, lock = PAIR.spec(tmp_path), directory.Lock

    def lock_late(path):
        monkeypatch.setattr(directory, "Lock", lock)
        pipeline.run(spec, using())
        return lock(path)

    monkeypatch.setattr(directory, "Lock", lock_late)
    with pytest.raises(StoreError, match="another run has just made a store here: run the command again"):
        pipeline.run(spec, using())
    PAIR.check(pipeline.run(spec, using()))


def test_no_pairs_have_no_outcomes():
    assert list(pipeline.run_all([], using())) == []


def test_a_spec_refuses_what_its_scoring_cannot_score():
    query, target = Pair("A" * 200, "A" * 200).sequences()
    with pytest.raises(InputError, match="beyond the 32-bit limit"):
        RunSpec(query, target, Scoring(match=2**24))


def test_a_manifest_is_made_of_a_spec_and_belongs_to_it(tmp_path):
    with small_geometry():
        outcome = PAIR.run(store=tmp_path, start_states="eager", command="score")
    manifest = DirectoryStore.attach(tmp_path).manifest
    assert outcome.spec.manifest(manifest.grid) == manifest
    again = RunSpec.of_store(tmp_path, manifest, *PAIR.sequences())
    assert again.manifest(manifest.grid) == manifest
    manifest.refuse_other(tmp_path, again.manifest(manifest.grid))


def test_the_note_of_a_caller_is_stored_before_phase_1(tmp_path):
    noted: list[str] = []

    def note(manifest):
        return replace(manifest, output="/here.paf", summary="/here.json")

    def emit(event: Event) -> None:
        manifest = DirectoryStore.attach(tmp_path).manifest
        noted.extend([manifest.command, manifest.output, str(manifest.summary)])
        raise KeyboardInterrupt

    for command in ("score", "align"):
        noted.clear()
        resources = replace(using(), store_budget=None)
        with pytest.raises(KeyboardInterrupt):
            pipeline.run(PAIR.spec(tmp_path, command), resources, emit, note=note)
        assert noted == [command, "/here.paf", "/here.json"]


# --- false reports of damage


class FailsOnce:
    """A method of a store that reports damage of one undamaged tile, once."""

    def __init__(self, method, place=(1, 1), times=1):
        self.method, self.place, self.times = method, place, times

    def __get__(self, store, owner):
        return lambda tile: self(store, tile)

    def __call__(self, store, tile):
        if (tile.row, tile.col) == self.place and self.times:
            self.times -= 1
            raise DamagedTile(*self.place, "an interrupt inside HDF5")
        return self.method(store, tile)


def rerun(store, events) -> Outcome:
    with small_geometry(chunk=8):
        return REPEATED.run(using(SmallTiles((24, 24), leaf=60)), store, events.append)


@pytest.mark.parametrize("method", ["check_tile", "get_tile"])
def test_a_tile_that_reads_well_a_second_time_is_kept(tmp_path, monkeypatch, method):
    """Both when a run checks its store and when phase 2 reads the tile."""
    answer = result(rerun(tmp_path, []))
    (tmp_path / "path.h5").unlink()
    file = DirectoryStore.attach(tmp_path).tile_path(1, 1)
    inode, events = file.stat().st_ino, []
    failing = FailsOnce(getattr(DirectoryStore, method))
    monkeypatch.setattr(DirectoryStore, method, failing)
    assert result(rerun(tmp_path, events)) == answer
    assert failing.times == 0
    assert file.stat().st_ino == inode
    [text] = [event.text for event in events if hasattr(event, "text")]
    assert text == "an interrupt inside HDF5; on a second read it is sound, and it is kept"
