"""Forged stores: files with right checksums and wrong content.

`forge(store, rng)` changes one file of a store and returns a description of the change. This module imports
neither the tests nor longalign, and campaigns use it as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import h5py
import numpy as np

#: Changes a dataset of a file, which it is given by name.
DatasetForgery = Callable[[h5py.File, str, random.Random], None]

#: Values that no field of a manifest can have.
RUBBISH: list[Any] = [
    None, True, -1, 1.5, 2**70, "", "\0", "\ud800", [], {}, [[]], {"a": {}}, [0, 0], "x" * 5000, 10**400,
]  # fmt: skip

#: Fields of a manifest that change what is computed, or whether the store is read at all.
MANIFEST_FIELDS = [
    *(["version"], ["program"], ["command"], ["output"], ["mode"], ["start_states"], ["scoring"], ["grid"]),
    *(["output_format"], ["strand"], ["top"], ["min_score"], ["pruning"]),
    *(["scoring", name] for name in ("match", "mismatch", "gap_open", "gap_extend", "matrix", "what")),
    *([side, name] for side in ("query", "target") for name in ("name", "length", "sha256", "source")),
    *([side, name] for side in ("query", "target") for name in ("offset", "record_length", "what")),
    *(["grid", name] for name in ("row_cuts", "col_cuts", "tile_rows", "tile_cols", "what")),
]


def forge(store: Path, rng: random.Random) -> str:
    """Forge one file of a store; returns a description of the change."""
    kind: Callable[[Path, random.Random], str] = rng.choices(
        [forge_manifest, forge_file, forge_entry], [2, 7, 1]
    )[0]
    return kind(store, rng)


def forge_numbers(path: Path, name: str, change: Callable[[np.ndarray[Any, Any]], Any]) -> None:
    """Other numbers in a dataset, under the right checksums."""
    with h5py.File(path, "r+", libver="latest") as file:
        written(file, name, change(file[name][()]))


# --- the manifest


def forge_manifest(store: Path, rng: random.Random) -> str:
    """Change or remove one field, and set the right SHA-256."""
    data = json.loads((store / "manifest.json").read_text())
    *parents, name = rng.choice(MANIFEST_FIELDS)
    place = data
    for parent in parents:
        place = place[parent]
    old = place.get(name)
    if rng.random() < 0.2:
        place.pop(name, None)
    elif isinstance(old, list) and rng.random() < 0.5:
        place[name] = rng.choice([old[1:], old[:-1], old[::-1], [*old, old[-1] + 1], [*old, "5"]])
    else:
        place[name] = rng.choice([value for value in RUBBISH if value is not None or name != "summary"])
    write_manifest(store, data)
    return f"manifest.json: {'.'.join([*parents, name])} is {str(place.get(name, 'gone'))[:60]!r}"


def write_manifest(store: Path, data: dict[str, Any]) -> None:
    """A manifest of these fields, with the right SHA-256."""
    write_signed(store / "manifest.json", data)


def write_signed(path: Path, data: dict[str, Any]) -> None:
    """A JSON file of these fields, with the right SHA-256."""
    data.pop("sha256", None)
    digest = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps({**data, "sha256": digest}))


# --- what is in an HDF5 file


def files(store: Path) -> list[Path]:
    """The HDF5 files of a store."""
    return sorted(store.rglob("*.h5"))


def datasets(file: h5py.File) -> list[str]:
    """The names of the datasets of a file."""
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return names


def forge_file(store: Path, rng: random.Random) -> str:
    """Forge a dataset or an attribute of one HDF5 file."""
    path = rng.choice(files(store))
    with h5py.File(path, "r+", libver="latest") as file:
        is_dataset = rng.random() < 5 / 7
        done = forge_dataset(file, rng, DATASET_FORGERIES) if is_dataset else forge_attribute(file, rng)
    return f"{path.relative_to(store)}: {done}"


def forge_dataset(file: h5py.File, rng: random.Random, ways: Sequence[DatasetForgery]) -> str:
    """Forge one dataset in one of these ways."""
    name, how = rng.choice(datasets(file)), rng.choice(ways)
    how(file, name, rng)
    return f"{name}: {how.__name__}"


def written(file: h5py.File, name: str, values: np.ndarray[Any, Any], **options: Any) -> None:
    """A dataset in the place of another, in blocks of one line, with the right checksums."""
    if name in file:
        del file[name]
    if 0 in values.shape or not values.shape:
        file.create_dataset(name, data=values)
        return
    usual = {"chunks": (*(1 for _ in values.shape[:-1]), values.shape[-1]), "compression": "gzip"}
    options = {**usual, "shuffle": values.dtype.itemsize > 1, **options}
    dataset = file.create_dataset(name, data=values, **options)
    if dataset.chunks:
        length = dataset.chunks[-1]
        blocks = -(-values.shape[-1] // length)
        crcs = np.empty((*values.shape[:-1], blocks), np.uint32)
        for place in np.ndindex(*crcs.shape):
            block = values[place[:-1]][place[-1] * length : (place[-1] + 1) * length]
            crcs[place] = zlib.crc32(np.ascontiguousarray(block).tobytes())
        dataset.attrs["crc32"] = crcs


def other_type(file: h5py.File, name: str, rng: random.Random) -> None:
    values = file[name][()]
    types = [np.float64, np.uint64, np.uint8, np.int64, "S3", ">i4", np.complex64, bool]
    written(file, name, values.astype(rng.choice([kind for kind in types if np.dtype(kind) != values.dtype])))


def enumeration(file: h5py.File, name: str, rng: random.Random) -> None:
    values = file[name][()]
    kind = h5py.enum_dtype({"H": 0, "E": 1}, basetype=values.dtype)
    del file[name]
    file.create_dataset(name, data=values, dtype=kind)


def other_shape(file: h5py.File, name: str, rng: random.Random) -> None:
    values = file[name][()]
    ways = [
        lambda: values.reshape(*values.shape, 1),
        lambda: values.ravel(),
        lambda: np.concatenate([values, values], -1),
        lambda: values[..., :-1],
        lambda: values[:0],
        lambda: values.ravel()[0] if values.size else values.reshape(-1),
        lambda: values[None],
    ]
    others = [np.asarray(way()) for way in ways]
    written(file, name, rng.choice([other for other in others if other.shape != values.shape]))


def missing(file: h5py.File, name: str, rng: random.Random) -> None:
    del file[name if rng.random() < 0.5 else name.split("/")[0]]


def group_instead(file: h5py.File, name: str, rng: random.Random) -> None:
    del file[name]
    file.create_group(name)


def null_instead(file: h5py.File, name: str, rng: random.Random) -> None:
    kind = file[name].dtype
    del file[name]
    file.create_dataset(name, data=h5py.Empty(kind))


def type_instead(file: h5py.File, name: str, rng: random.Random) -> None:
    del file[name]
    file[name] = np.dtype("i4")


def link_instead(file: h5py.File, name: str, rng: random.Random) -> None:
    del file[name]
    links = [h5py.SoftLink("/elsewhere"), h5py.SoftLink(f"/{name}"), h5py.ExternalLink("/dev/zero", "/x")]
    file[name] = rng.choice(links)


def soft_link_to_the_same(file: h5py.File, name: str, rng: random.Random) -> None:
    file.move(name, "moved")
    file[name] = h5py.SoftLink("/moved")


def virtual(file: h5py.File, name: str, rng: random.Random) -> None:
    values = file[name]
    if 0 in values.shape:
        return group_instead(file, name, rng)
    layout = h5py.VirtualLayout(values.shape, values.dtype)
    layout[...] = h5py.VirtualSource(file.filename, f"other/{name}", values.shape)
    del file[name]
    file.create_virtual_dataset(name, layout)
    return None


def external(file: h5py.File, name: str, rng: random.Random) -> None:
    shape, kind = file[name].shape, file[name].dtype
    if 0 in shape:
        return group_instead(file, name, rng)
    del file[name]
    file.create_dataset(name, shape, kind, external=[("/etc/passwd", 0, h5py.h5f.UNLIMITED)])
    return None


def plain(file: h5py.File, name: str, rng: random.Random) -> None:
    """No blocks, or other filters."""
    options = [{"chunks": None, "compression": None, "shuffle": False}, {"compression": "lzf"}]
    written(file, name, file[name][()], **rng.choice([*options, {"fletcher32": True}, {"compression": None}]))


def huge(file: h5py.File, name: str, rng: random.Random) -> None:
    """A shape larger than any memory, of which almost nothing was written."""
    kind, dimensions = file[name].dtype, len(file[name].shape)
    del file[name]
    shape = (*(rng.choice([1, 2, 2**20]) for _ in range(dimensions - 1)), 2 ** rng.choice([31, 40, 60]))
    chunks = (*(1 for _ in shape[1:]), rng.choice([1, 2**18, 2**30]))
    file.create_dataset(name, shape, kind, chunks=chunks, compression="gzip", shuffle=kind.itemsize > 1)
    file[name].attrs["crc32"] = np.zeros(3, np.uint32)


def bomb(file: h5py.File, name: str, rng: random.Random) -> None:
    """A block that inflates to much more than a block."""
    dataset = file[name]
    if dataset.chunks:
        dataset.id.write_direct_chunk((0,) * len(dataset.shape), zlib.compress(bytes(10**8)))


def checksums(file: h5py.File, name: str, rng: random.Random) -> None:
    dataset = file[name]
    forged = [1, "x", np.zeros(5, np.uint32), h5py.Empty("u4"), np.zeros((2**10,)), -np.ones(1, np.int64)]
    if "crc32" in dataset.attrs:
        del dataset.attrs["crc32"]
    if rng.random() < 0.8:
        dataset.attrs["crc32"] = rng.choice(forged)


def out_of_range(file: h5py.File, name: str, rng: random.Random) -> None:
    """Values out of range, with the right checksums."""
    values = file[name][()]
    limits = np.iinfo(values.dtype)
    if values.size:
        for _ in range(rng.choice([1, values.size])):
            values.flat[rng.randrange(values.size)] = rng.choice([limits.min, limits.max, 3, -1 % limits.max])
    written(file, name, values)


def as_int16(file: h5py.File, name: str, rng: random.Random) -> None:
    """Two bytes a number: other numbers where some do not fit, with the right checksums."""
    written(file, name, file[name][()].astype(np.int16))


def shuffled(file: h5py.File, name: str, rng: random.Random) -> None:
    """The right values in another order, with the right checksums."""
    values = file[name][()]
    order = list(range(values.size))
    rng.shuffle(order)
    written(file, name, values.ravel()[order].reshape(values.shape))


#: After these, the right numbers or none are read.
NO_OTHER_NUMBERS: list[DatasetForgery] = [
    *(other_type, enumeration, other_shape, missing, group_instead, null_instead, type_instead),
    *(link_instead, soft_link_to_the_same, virtual, external, plain, huge, bomb, checksums),
]

#: After these, other numbers may be read, and nothing in the file need show that they are wrong.
OTHER_NUMBERS: list[DatasetForgery] = [out_of_range, as_int16, shuffled]

DATASET_FORGERIES = [*NO_OTHER_NUMBERS, *OTHER_NUMBERS]


# --- attributes of a file

_ATTRIBUTES = [
    "run",
    "i0",
    "i1",
    "j0",
    "j1",
    "best_score",
    "best_i",
    "best_j",
    "cells_left_out",
    "added",
    "complete",
]


def forge_attribute(file: h5py.File, rng: random.Random) -> str:
    """An attribute that is missing, or of another type, shape or range."""
    name = rng.choice([name for name in _ATTRIBUTES if name in file.attrs])
    del file.attrs[name]
    values = [
        "x",
        "x" * 5000,
        -(2**40),
        -(2**31),
        2**40,
        1.5,
        np.nan,
        np.zeros(3, int),
        h5py.Empty("i8"),
        np.bytes_("y"),
    ]
    value = rng.choice([None, *values])
    if value is not None:
        file.attrs[name] = value
    return f"attribute {name} is {str(value)[:40]!r}"


# --- what is in the place of a file


def forge_entry(store: Path, rng: random.Random) -> str:
    """Replace a file or folder by something else, or append bytes to a file."""
    names = [
        "manifest.json",
        "lock",
        "tiles",
        "pieces",
        *(str(path.relative_to(store)) for path in files(store)),
    ]
    name = rng.choice(names)
    path = store / name
    how = rng.choice(["pipe", "folder", "link to nowhere", "link to a device", "text", "longer"])
    if how == "longer" and path.is_file() and path.suffix == ".h5":
        with path.open("ab") as file:
            file.write(bytes(rng.choice([1, 8, 4096])))
        return f"{name}: longer"
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    match how:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "link to nowhere":
            path.symlink_to(store / "nowhere")
        case "link to a device":
            path.symlink_to("/dev/zero")
        case _:
            path.write_text("some text")
    return f"{name}: {how}"
