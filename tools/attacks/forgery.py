"""Forged files of a store: impossible content under valid checksums.

Each function changes one file and returns a description of the change, or None if it does not apply to the
file.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from longalign.store.blocks import write_blocks

Forge = Callable[[Path, random.Random], str | None]


def _datasets(file: h5py.File) -> list[str]:
    names: list[str] = []
    file.visititems(lambda name, item: names.append(name) if isinstance(item, h5py.Dataset) else None)
    return sorted(names)


def _replace(file: h5py.File, name: str, values: Any) -> None:
    """Replace a dataset by other values, with matching checksums and the same attributes."""
    attributes = dict(file[name].attrs)
    del file[name]
    written = write_blocks(file, name, values)
    for key, value in attributes.items():
        if key not in written.attrs:
            written.attrs[key] = value


def _chosen(file: h5py.File, rng: random.Random) -> str:
    return rng.choice(_datasets(file))


def other_type(path: Path, rng: random.Random) -> str | None:
    with h5py.File(path, "r+") as file:
        name = _chosen(file, rng)
        values, kind = file[name][()], rng.choice([np.float64, np.int8, np.uint64, np.complex64, np.bool_])
        # Narrower signed integers are a type that a store may have: other numbers under valid checksums.
        if values.dtype == kind or (kind is np.int8 and np.issubdtype(values.dtype, np.signedinteger)):
            return None
        _replace(file, name, values.astype(kind))
        return f"{name} as {np.dtype(kind)}"


def other_shape(path: Path, rng: random.Random) -> str | None:
    with h5py.File(path, "r+") as file:
        name = _chosen(file, rng)
        values = file[name][()]
        change = rng.choice(["empty", "shorter", "longer", "deeper", "flat"])
        forged = {
            "empty": values[..., :0],
            "shorter": values[..., :-1],
            "longer": np.append(values, values[..., -1:], axis=-1),
            "deeper": values[None],
            "flat": values.ravel(),
        }[change]
        if forged.shape == values.shape:
            return None
        _replace(file, name, forged)
        return f"{name} of shape {forged.shape}, not {values.shape}"


def group_for_dataset(path: Path, rng: random.Random) -> str | None:
    with h5py.File(path, "r+") as file:
        name = _chosen(file, rng)
        del file[name]
        file.create_group(name)
        return f"{name} is a group"


def dataset_deleted(path: Path, rng: random.Random) -> str | None:
    with h5py.File(path, "r+") as file:
        name = _chosen(file, rng)
        del file[name]
        return f"{name} is deleted"


def odd_link(path: Path, rng: random.Random) -> str | None:
    with h5py.File(path, "r+") as file:
        name = _chosen(file, rng)
        others = [other for other in _datasets(file) if other != name]
        kind = rng.choice(["dangling", "external", "hard"])
        del file[name]
        if kind == "hard" and others:
            file[name] = file[rng.choice(others)]
        elif kind == "external":
            file[name] = h5py.ExternalLink("/dev/null", "/x")
        else:
            file[name] = h5py.SoftLink("/nowhere")
        return f"{name} is a {kind} link"


def bare_dataset(path: Path, rng: random.Random) -> str | None:
    """A dataset without blocks: contiguous, or huge and never written."""
    with h5py.File(path, "r+") as file:
        name = _chosen(file, rng)
        values = file[name][()]
        del file[name]
        if rng.random() < 0.5:
            file.create_dataset(name, data=values)
            return f"{name} is contiguous"
        file.create_dataset(name, (1 << 50,), values.dtype, chunks=(1 << 16,))
        return f"{name} has 2**50 numbers"


def out_of_range(path: Path, rng: random.Random) -> str | None:
    """An impossible value in a dataset of indices, states, operations, lengths or letters."""
    with h5py.File(path, "r+") as file:
        known = [name for name in _datasets(file) if name.split("/")[-1] in _BOUNDED and file[name].size]
        if not known:
            return None
        name = rng.choice(known)
        values = file[name][()]
        limits = np.iinfo(values.dtype)
        forged = rng.choice([limits.max, limits.min if limits.min < 0 else limits.max - 1])
        values[np.unravel_index(rng.randrange(values.size), values.shape)] = forged
        _replace(file, name, values)
        return f"{name} holds {forged}"


_BOUNDED = {"index", "i", "j", "state", "states", "ops", "lengths", "query", "target"}


def odd_attribute(path: Path, rng: random.Random) -> str | None:
    with h5py.File(path, "r+") as file:
        places = ["/", *_datasets(file)]
        place = rng.choice([name for name in places if len(file[name].attrs)] or places)
        attributes = file[place].attrs
        names = [name for name in attributes if name not in ("description", "units")]
        if not names:
            return None
        name, kind = (
            rng.choice(names),
            rng.choice(["gone", "text", "array", "huge", "negative", "nan", "empty"]),
        )
        del attributes[name]
        if kind != "gone":
            attributes[name] = {
                "text": "x", "array": np.arange(7), "huge": 1 << 60, "negative": -5, "nan": float("nan"),
                "empty": h5py.Empty("i4"),
            }[kind]  # fmt: skip
        return f"attribute {name} of {place} is {kind}"


HDF5: tuple[Forge, ...] = (
    other_type,
    other_shape,
    group_for_dataset,
    dataset_deleted,
    odd_link,
    bare_dataset,
    out_of_range,
    odd_attribute,
)

_ODD_VALUES = (
    None,
    True,
    -1,
    0,
    1 << 70,
    1.5,
    "x",
    "",
    [],
    {},
    [1],
    {"a": 1},
    "\x00",
    "é" * 50,
    -(1 << 40),
    7,
)


def manifest(path: Path, rng: random.Random) -> str | None:
    """Change one value of the manifest, under a valid SHA-256."""
    data = json.loads(path.read_text())
    data.pop("sha256")
    places = list(_places(data))
    parent, key = rng.choice(places)
    kind = rng.random()
    if kind < 0.2:
        del parent[key]
        what = f"{key} is deleted"
    elif kind < 0.3 and isinstance(parent, dict):
        parent["unknown"] = rng.choice(_ODD_VALUES)
        what = f"an unknown field beside {key}"
    else:
        parent[key] = rng.choice([value for value in _ODD_VALUES if value != parent[key]])
        what = f"{key} is {parent[key]!r}"
    sign(data)
    path.write_text(json.dumps(data))
    return what


def sign(data: dict[str, Any]) -> None:
    """Give a manifest its right SHA-256."""
    data.pop("sha256", None)
    data["sha256"] = hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _places(data: Any) -> Any:
    """The container and key of every value in nested dictionaries and lists."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(items):
        yield data, key
        yield from _places(value)
