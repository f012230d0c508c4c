"""What is read from a store is checked before it is used: forgeries, damage, and what contradicts itself."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import forgeries
import h5py
import numpy as np
import pytest
from runs import NEXT_BEST, REPEATED, Pair, SmallTiles, result, small_geometry, using

import longalign
from longalign.errors import InputError, StoreError
from longalign.events import Event, Notice
from longalign.model.geometry import Grid
from longalign.model.pruning import Findings, KnownBound
from longalign.model.scoring import Scoring
from longalign.model.sequence import Sequence
from longalign.model.substitution_matrix import SubstitutionMatrix
from longalign.run import pipeline
from longalign.run.outcome import Outcome
from longalign.store import DirectoryStore, Manifest
from longalign.store.hdf5_filters import inflate

KINDS = [
    *((mode, starts) for mode in ("local", "global", "semiglobal", "extend") for starts in ("lazy", "eager")),
    *((mode, "pruned") for mode in ("local", "global")),
]


def resumed(store: Path, events: list[Event] | None = None) -> Outcome:
    with small_geometry(chunk=8):
        emit = (lambda event: None) if events is None else events.append
        return pipeline.resume(store, using(SmallTiles((24, 24), leaf=60)), emit=emit)


#: Those of a pruned store.
FINDINGS = Findings(np.array([[0, 20, 0, 20], [20, 30, 21, 31]]), np.array([[0, 1000], [16, 500]]))
#: The files of a pruned store that hold them.
FINDINGS_FILES = {"seeds.h5", "row_limits.h5"}
PRUNED_FILES = {*FINDINGS_FILES, "left_out.h5"}


class Stores(dict[tuple[str, str], Path]):
    """Finished stores of 3 x 3 tiles by mode and kind of start states, each made on first use.

    Those of the kind "pruned" have lazy start states.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __missing__(self, kind: tuple[str, str]) -> Path:
        mode, starts = kind
        path = self[kind] = self.folder / f"{mode}-{starts}"
        pair = Pair(REPEATED.query, REPEATED.target, REPEATED.scoring, mode)
        devices, is_pruned = using(SmallTiles((24, 24), leaf=60)), starts == "pruned"
        with small_geometry(chunk=8), pytest.MonkeyPatch.context() as patch:
            if is_pruned:
                bound = KnownBound(int(pair.truth().score), 1.0, findings={"plus": FINDINGS})
                patch.setattr(pipeline, "find_bound", lambda *_: bound)
            pair.run(devices, path, start_states="lazy" if is_pruned else starts)
        return path


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Stores:
    return Stores(tmp_path_factory.mktemp("stores"))


def copied(store: Path, tmp_path: Path) -> Path:
    path = tmp_path / "s"
    shutil.rmtree(path, ignore_errors=True)
    return Path(shutil.copytree(store, path))


# --- forgeries of any kind


def check_forgery(store: Path, tmp_path: Path, seed: int, run: Any) -> None:
    """The right alignment, or one line that names the store."""
    want = store.with_suffix(".paf")
    if not want.exists():
        assert run("resume", store, "-o", want, "-q", "--backend", "cpu")[0] == 0
    path, output = copied(store, tmp_path), tmp_path / "got.paf"
    output.unlink(missing_ok=True)
    done = forgeries.forge(path, random.Random(seed))
    code, _, err = run("resume", path, "-o", output, "-q", "--backend", "cpu")
    lines = [line for line in err.splitlines() if line]
    assert "internal error" not in err, (seed, done, err)
    if code == 0:
        assert output.read_text() == want.read_text(), (seed, done)
    else:
        assert code == 1, (seed, done, err)
        assert lines[-1].startswith("longalign: "), (seed, done, err)
        assert str(path) in lines[-1], (seed, done, err)
        assert not output.exists()


@pytest.mark.parametrize("seed", range(12))
def test_a_forged_store_is_refused_or_mended(stores, tmp_path, seed, run):
    check_forgery(stores[KINDS[seed % len(KINDS)]], tmp_path, seed, run)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12, 112))
def test_many_forged_stores_are_refused_or_mended(stores, tmp_path, seed, run):
    check_forgery(stores[KINDS[seed % len(KINDS)]], tmp_path, seed, run)


# --- the manifest


@pytest.mark.parametrize("field", forgeries.MANIFEST_FIELDS, ids=".".join)
def test_a_wrong_value_in_a_manifest_is_refused_and_the_field_named(stores, tmp_path, field):
    store = copied(stores["local", "lazy"], tmp_path)
    good = json.loads((store / "manifest.json").read_text())
    for value in (*forgeries.RUBBISH, "gone"):
        data = json.loads(json.dumps(good))
        *parents, name = field
        place = data
        for parent in parents:
            place = place[parent]
        place[name] = value
        if value == "gone":
            del place[name]
        forgeries.write_manifest(store, data)
        complaint = complaint_of(lambda: Manifest.read(store / "manifest.json"))
        if complaint is None:  # it may have this value, or is of no account
            manifest = json.loads(json.dumps(Manifest.read(store / "manifest.json").to_json()))
            if_gone = {"strand": "plus", "top": 1}.get(field[0])
            assert manifest.get(field[0]) == data.get(field[0], if_gone)
        else:
            assert complaint.startswith(f"{store}/manifest.json: ")
            assert len(complaint) < len(str(store)) + 300
            assert field[0] in complaint


def complaint_of(read: Callable[[], object]) -> str | None:
    """The line with which a store refuses to be read; None if it does not."""
    try:
        read()
    except StoreError as error:
        complaint = str(error)
    else:
        return None
    assert "\n" not in complaint
    return complaint


def test_the_strand_is_a_part_of_the_identity(stores, tmp_path):
    store = copied(stores["local", "lazy"], tmp_path)
    manifest = Manifest.read(store / "manifest.json")
    fields = json.loads(json.dumps(manifest.to_json()))
    # The digest of a store is that of all stores before strands, rules and pruning were known.
    names = ("query", "target", "mode", "scoring", "start_states", "grid")
    content = json.dumps({name: fields[name] for name in names}, sort_keys=True)
    assert manifest.run == hashlib.sha256(content.encode()).hexdigest()
    minus = replace(manifest, strand="minus")
    assert Manifest.from_json(json.loads(json.dumps(minus.to_json()))) == minus
    assert minus.run != manifest.run
    for strand in ("both", "+", None, 1):
        with pytest.raises(InputError, match="strand: must be plus or minus"):
            Manifest.from_json({**fields, "strand": strand})
    with pytest.raises(InputError, match="coordinates: contradicts the scoring or the strand"):
        Manifest.from_json({**fields, "strand": "minus"})


def test_what_is_only_noted_is_no_part_of_the_identity(stores, tmp_path):
    manifest = Manifest.read(copied(stores["local", "lazy"], tmp_path) / "manifest.json")
    noted = replace(manifest, output="/x.tsv", output_format="tsv", summary="/x.json", top=3, min_score=7)
    assert noted.run == manifest.run
    assert Manifest.from_json(json.loads(json.dumps(noted.to_json()))) == noted


def test_a_manifest_of_the_minus_strand_of_proteins_is_refused(tmp_path):
    scoring = Scoring(gap_open=10, gap_extend=1, matrix=SubstitutionMatrix.load("BLOSUM62"))
    longalign.align("MKV", "MKV", scoring=scoring, store=tmp_path / "s", backend="cpu")
    data = json.loads((tmp_path / "s/manifest.json").read_text())
    with pytest.raises(InputError, match="strand: BLOSUM62 has no minus strand"):
        Manifest.from_json({**data, "strand": "minus"})


def test_a_summary_that_is_no_text_is_refused(stores, tmp_path):
    store = copied(stores["local", "lazy"], tmp_path)
    data = json.loads((store / "manifest.json").read_text())
    forgeries.write_manifest(store, {**data, "summary": 5})
    with pytest.raises(StoreError, match=r"manifest\.json: damaged: summary: must be a text, not 5"):
        DirectoryStore.open(store)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "9" * 5000, "NaN", '{"format": NaN}'])
def test_json_that_no_program_writes_is_refused(stores, tmp_path, text):
    store = copied(stores["local", "lazy"], tmp_path)
    (store / "manifest.json").write_text(text)
    with pytest.raises(StoreError, match=r"manifest\.json: (damaged: |not the manifest)"):
        DirectoryStore.open(store)


def test_a_manifest_without_end_is_refused_by_its_size(stores, tmp_path):
    store = copied(stores["local", "lazy"], tmp_path)
    with (store / "manifest.json").open("ab") as file:
        file.truncate(1 << 40)
    with pytest.raises(StoreError, match=r"manifest\.json: damaged: larger than the manifest"):
        DirectoryStore.open(store)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"row_cuts": [0, 5, 5, 10]}, "row_cuts: must increase from 0 to the length 10"),
        ({"row_cuts": [0, 7, 5, 10]}, "row_cuts: must increase"),
        ({"col_cuts": [0, 8]}, "col_cuts: must increase from 0 to the length 9"),
        ({"col_cuts": [1, 9]}, "col_cuts: must increase"),
        ({"tile_cols": [9]}, "tile_cols: must increase"),
        ({"tile_rows": [0, 4, 10]}, "tile_rows: must be among row_cuts"),
        ({"tile_rows": [0, True, 10]}, "tile_rows: must be a whole number from 0 to 10, not True"),
        ({"tile_rows": None}, "tile_rows: must be a list, not None"),
        ({"more": []}, "'more': there is no such field"),
    ],
)
def test_a_grid_that_cuts_no_such_matrix_is_refused(change, complaint):
    good = {"row_cuts": [0, 5, 10], "col_cuts": [0, 9], "tile_rows": [0, 10], "tile_cols": [0, 9]}
    assert Grid.from_json(good, 10, 9) == Grid((0, 5, 10), (0, 9), (0, 10), (0, 9))
    with pytest.raises(InputError, match=f"grid.{re.escape(complaint)}"):
        Grid.from_json({**good, **change}, 10, 9)


def test_a_grid_of_more_tiles_than_any_plan_has_is_refused():
    cuts = [*range(5001)]
    grid = dict.fromkeys(("row_cuts", "col_cuts", "tile_rows", "tile_cols"), cuts)
    with pytest.raises(InputError, match="grid: has 25,000,000 tiles"):
        Grid.from_json(grid, 5000, 5000)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (5, "scoring.matrix: must be an object, not 5"),
        ({"name": "x", "letters": "AB"}, "scoring.matrix.scores: is missing"),
        ({"name": "x", "letters": 5, "scores": []}, "scoring.matrix.letters: must be a text, not 5"),
        ({"name": "x", "letters": "AB", "scores": [[1, 2], 3]}, "scoring.matrix.scores: must be rows of 2"),
        ({"name": "x", "letters": "AB", "scores": [[1, 2], [3, "4"]]}, "matrix.scores: must be a whole"),
    ],
)
def test_a_malformed_matrix_is_refused(data, complaint):
    with pytest.raises(InputError, match=complaint):
        SubstitutionMatrix.from_json(data)
    with pytest.raises(InputError, match=complaint):
        Scoring.from_json({"gap_open": 1, "gap_extend": 1, "matrix": data})


# --- the HDF5 files


def visible(path: Path) -> list[object]:
    """All that an HDF5 reader sees of a file."""
    found: list[object] = []
    with h5py.File(path) as file:
        items = [file]
        file.visititems(lambda _, item: items.append(item) if item is not None else None)
        for item in items:
            found.append((item.name, sorted((name, repr(value)) for name, value in item.attrs.items())))
            if isinstance(item, h5py.Dataset):
                found.append((item.dtype.str, item.shape, item[()].tobytes()))
    return found


FILES = [
    "tiles/r00001c00001.h5",
    "path.h5",
    "pieces/p000000.h5",
    "sequences.h5",
    "seeds.h5",
    "row_limits.h5",
    "next_best.h5",
    "left_out.h5",
]


def read_file(store: DirectoryStore, name: str) -> None:
    """Read a file as a run does. Raises what the store raises."""
    if name.startswith("tiles"):
        store.check_tile(store.manifest.grid.tile(1, 1))
    elif name.startswith("pieces"):
        store.get_piece(0)
    elif name == "path.h5":
        store.get_path()
    elif name in FINDINGS_FILES:
        _, damages = store.get_findings()
        if damages:
            raise damages[0]
    elif name == "next_best.h5":
        store.get_next_best()
    elif name == "left_out.h5":
        store.get_left_out()
    else:
        store.sequences()


def store_with(stores: Stores, name: str, starts: str = "lazy") -> Path:
    """One that has a file of this name."""
    path = stores["local", "pruned" if name in PRUNED_FILES else starts]
    with DirectoryStore.open(path) as store:
        if name == "next_best.h5":
            store.put_next_best(NEXT_BEST)
        elif name == "left_out.h5":
            store.put_left_out([(0, 2), (2, 0)])
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_no_reader_sees_a_changed_byte(stores, tmp_path, name):
    store = copied(store_with(stores, name, "eager"), tmp_path)
    path, opened = store / name, DirectoryStore.attach(store)
    good, want, unnoticed = path.read_bytes(), visible(path), 0
    for at in range(0, len(good), 1 + len(good) // 300):
        path.write_bytes(good[:at] + bytes([good[at] ^ 0x55]) + good[at + 1 :])
        complaint = complaint_of(partial(read_file, DirectoryStore(store, opened.manifest, None), name))
        if complaint is None:
            unnoticed += 1
            with suppress(RuntimeError, OSError):  # HDF5 notices damage to what we do not need
                assert visible(path) == want, at
        else:
            assert str(path) in complaint
    assert unnoticed < 300


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("more", [1, 8, 5000])
def test_appended_bytes_are_noticed(stores, tmp_path, name, more):
    store = copied(store_with(stores, name), tmp_path)
    with (store / name).open("ab") as file:
        file.write(bytes(more))
    with pytest.raises(StoreError, match="damaged: it has another length than when it was written"):
        read_file(DirectoryStore.attach(store), name)


@pytest.mark.parametrize("how", forgeries.DATASET_FORGERIES, ids=lambda how: how.__name__)
@pytest.mark.parametrize(
    ("name", "dataset"),
    [
        (FILES[0], "cols/anchors"),
        ("path.h5", "state"),
        ("seeds.h5", "row"),
        ("row_limits.h5", "most"),
        ("next_best.h5", "runs"),
        ("left_out.h5", "col"),
    ],
)
def test_a_dataset_that_is_another_thing_is_damage_and_named(stores, tmp_path, how, name, dataset):
    store = copied(store_with(stores, name), tmp_path)
    with h5py.File(store / name, "r+", libver="latest") as file:
        how(file, dataset, random.Random(1))
    complaint = complaint_of(lambda: read_file(DirectoryStore.attach(store), name))
    if complaint is None:
        assert how in forgeries.OTHER_NUMBERS
    else:
        assert complaint.startswith(f"{store / name}: damaged: ")


def test_a_block_does_not_inflate_to_more_than_a_block():
    bomb = zlib.compress(bytes(10**8))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="another length"):
            inflate(bomb, np.dtype(np.int8), 4096, 4096, 0)
        assert tracemalloc.get_traced_memory()[1] < 10**6
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("file", "attribute", "value", "complaint"),
    [
        (FILES[0], "best_i", 5, "best_score, best_i and best_j are not those of a cell of the tile"),
        (FILES[0], "best_score", -1, "best_score, best_i and best_j are not those"),
        (FILES[0], "best_score", 10**6, "best_score 1000000 is more than any alignment that ends there"),
        (FILES[0], "best_score", 1.5, "attribute best_score has another type or shape"),
        (FILES[0], "i0", "x", "attribute i0 has another type or shape"),
        (FILES[0], "i0", 5, "it belongs to another tile"),
        ("path.h5", "complete", 1, "attribute complete has another type or shape"),
        ("path.h5", "run", "x", "attribute run is not of a fixed length"),
        ("path.h5", "run", np.bytes_("x"), "it belongs to another run"),
    ],
)
def test_a_wrong_attribute_is_damage_and_named(stores, tmp_path, file, attribute, value, complaint):
    store = copied(stores["local", "lazy"], tmp_path)
    with h5py.File(store / file, "r+", libver="latest") as opened:
        opened.attrs[attribute] = value
    with pytest.raises(StoreError, match=f"{file}: damaged: {complaint}"):
        read_file(DirectoryStore.attach(store), file)


@pytest.mark.parametrize(
    ("file", "name", "change", "complaint"),
    [
        ("path.h5", "i", lambda values: values + 10**6, "i has a number outside 0 to "),
        ("path.h5", "i", lambda values: values[::-1].copy(), "i, j are not those of a path"),
        ("path.h5", "j", lambda values: values[:-1].copy(), "i, j, state, value have different lengths"),
        ("path.h5", "state", lambda values: values + 3, "state has a number outside 0 to 2"),
        ("path.h5", "value", lambda values: values + 2**40, "value has a number outside"),
        ("pieces/p000000.h5", "ops", lambda values: values + 3, "ops has a number outside 0 to 2"),
        ("pieces/p000000.h5", "lengths", lambda values: values * 0, "lengths has a number outside 1 to "),
        ("seeds.h5", "row", lambda values: values + 10**6, "row has a number outside 0 to "),
        (
            "seeds.h5",
            "col",
            lambda values: values[::-1].copy(),
            "row, col, length are not those of stretches",
        ),
        (
            "seeds.h5",
            "row",
            lambda values: values - values + 1,
            "row, col, length are not those of stretches",
        ),
        (
            "seeds.h5",
            "length",
            lambda values: values + np.array([0, 30]),
            "row, col, length are not those of stretches",
        ),
        ("seeds.h5", "length", lambda values: values[1:].copy(), "row, col, length have different lengths"),
        ("row_limits.h5", "row", lambda values: values + 10**6, "row has a number outside 0 to "),
        ("row_limits.h5", "row", lambda values: values + 1, "row is not in order, or no multiple of 8"),
        ("row_limits.h5", "row", lambda values: values[::-1].copy(), "row is not in order"),
        ("row_limits.h5", "most", lambda values: values + 2**40, "most has a number outside"),
        ("row_limits.h5", "most", lambda values: values[1:].copy(), "row, most have different lengths"),
        ("next_best.h5", "i", lambda values: values + 10**6, "i has a number outside 0 to "),
        ("next_best.h5", "value", lambda values: values - 9, "value has a number outside 1 to "),
        ("next_best.h5", "runs", lambda values: values + 1, "runs is not the number of runs"),
        ("next_best.h5", "j", lambda values: values[:-1].copy(), "i, j, value, runs have different lengths"),
        ("next_best.h5", "lengths", lambda values: values * 0, "lengths has a number outside 1 to "),
        ("left_out.h5", "row", lambda values: values + 1, "row has a number outside 0 to 2"),
        ("left_out.h5", "col", lambda values: values[1:].copy(), "row, col have different lengths"),
        (FILES[0], "rows/index", lambda values: values + 1, "rows/index names other lines than the tile"),
        (FILES[0], "col_starts/states", lambda values: values + 3, "col_starts/states has a number outside"),
    ],
)
def test_numbers_that_cannot_be_there_are_damage_and_named(stores, tmp_path, file, name, change, complaint):
    store = copied(store_with(stores, file, "eager"), tmp_path)
    forgeries.forge_numbers(store / file, name, change)
    with pytest.raises(StoreError, match=f"{file}: damaged: {complaint}"):
        read_file(DirectoryStore.attach(store), file)


# --- numbers that may be there, and contradict one another


def without_path(store: Path) -> None:
    (store / "path.h5").unlink()
    for piece in (store / "pieces").iterdir():
        piece.unlink()


def test_a_path_that_does_not_lead_from_the_end_to_a_start_is_found_again(stores, tmp_path):
    want = result(resumed(stores["local", "lazy"]))
    for change in (lambda values: values[1:], lambda values: values[:-1]):
        store, events = copied(stores["local", "lazy"], tmp_path), list[Event]()
        with h5py.File(store / "path.h5", "r+", libver="latest") as file:
            for name in ("i", "j", "state", "value"):
                forgeries.written(file, name, change(file[name][()]).copy())
        assert result(resumed(store, events)) == want
        [notice] = [event.text for event in events if isinstance(event, Notice)]
        complaint = "damaged: the path does not lead from the end cell to a start"
        assert notice.startswith(f"{store / 'path.h5'}: {complaint}")


def detour(path: Path) -> None:
    """Let the path pass through a corner, where it takes a diagonal."""
    with h5py.File(path, "r+", libver="latest") as file:
        i, j, state = (file[name][()] for name in ("i", "j", "state"))
        corner = next(k for k in range(1, len(i) - 1) if i[k] - i[k + 1] > 1 and j[k] - j[k + 1] > 1)
        i[corner], state[corner] = i[corner + 1], 0
        for name, values in (("i", i), ("j", j), ("state", state)):
            forgeries.written(file, name, values)


def gap_instead_of_a_pair(path: Path) -> None:
    """As many letters as before in a piece, but two gaps instead of its first pair of letters."""
    with h5py.File(path, "r+", libver="latest") as file:
        runs = [*zip(file["ops"][()].tolist(), file["lengths"][()].tolist(), strict=True)]
        first = next(number for number, (op, _) in enumerate(runs) if op == 0)
        runs[first : first + 1] = [(0, runs[first][1] - 1), (1, 1), (2, 1)]
        runs = [(op, length) for op, length in runs if length]
        forgeries.written(file, "ops", np.array([op for op, _ in runs], np.uint8))
        forgeries.written(file, "lengths", np.array([length for _, length in runs], np.int64))


@pytest.mark.parametrize("mode", ["local", "global"])
@pytest.mark.parametrize("file", ["path.h5", "pieces/p000000.h5", "tiles"])
def test_what_contradicts_the_sequences_is_one_line(stores, tmp_path, mode, file):
    store = copied(stores[mode, "lazy"], tmp_path)
    if file == "path.h5":
        shutil.rmtree(store / "pieces")
        detour(store / file)
    elif file == "tiles":
        without_path(store)
        for tile in (store / "tiles").iterdir():
            if int(tile.stem[-1]) < 2:  # the end of a global alignment stays what it is
                forgeries.forge_numbers(tile, "cols/anchors", lambda values: values - 500)
                forgeries.forge_numbers(tile, "rows/anchors", lambda values: values - 500)
    else:
        gap_instead_of_a_pair(store / file)
    with pytest.raises(StoreError, match="s: what is stored contradicts the sequences"):
        resumed(store)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["row_starts/anchors", "col_starts/anchors"])
def test_start_states_that_cannot_be_are_computed_again(stores, tmp_path, name):
    store, events = copied(stores["local", "eager"], tmp_path), list[Event]()
    want = result(resumed(stores["local", "eager"]))
    without_path(store)
    for tile in (store / "tiles").iterdir():
        forgeries.forge_numbers(tile, name, lambda values: values + 10**6)
    assert result(resumed(store, events)) == want
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices
    assert all(
        re.match(rf"{store}/tiles/\S+\.h5: damaged: no path to cell .* can start at the stored", text)
        for text in notices
    )


@pytest.mark.parametrize("name", ["alphabet", "gap_convention", "coordinates"])
def test_words_that_contradict_a_manifest_are_refused(stores, name):
    data = json.loads((stores["local", "lazy"] / "manifest.json").read_text())
    data[name] = "something else"
    with pytest.raises(InputError, match=f"{name}: contradicts the scoring"):
        Manifest.from_json(data)


@pytest.mark.parametrize(
    "facts", [{"source": ""}, {"offset": 3, "record_length": 99}, {"source": "caf\u00e9"}]
)
def test_a_store_of_any_sequence_from_python_can_be_resumed(tmp_path, facts):
    query = Sequence.from_letters("query", "ACGTTTACG", **facts)
    found = longalign.align(query, "ACGTTACG", store=tmp_path / "s", backend="cpu")
    assert longalign.resume(tmp_path / "s", backend="cpu").cigar == found.cigar


@pytest.mark.parametrize(
    "facts", [{"offset": -3}, {"offset": 3, "record_length": 5}, {"record_length": 1 << 63}]
)
def test_letters_that_are_no_part_of_their_record_are_refused(facts):
    with pytest.raises(InputError, match=r"'query': 4 letters from -?\d+ on are no part of a record of \d+"):
        Sequence.from_letters("query", "ACGT", **facts)


@pytest.mark.slow
def test_a_store_is_read_in_a_locale_that_cannot_spell_its_names(tmp_path):
    (tmp_path / "a.fa").write_text(">caf\u00e9\nACGTACGT\n", encoding="utf-8")
    for arguments in (["align", "a.fa", "a.fa", "--store", "s"], ["resume", "s"]):
        done = subprocess.run(
            [sys.executable, "-m", "longalign", *arguments, "-q", "-o", "out.paf", "--backend", "cpu"],
            cwd=tmp_path, env={**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
