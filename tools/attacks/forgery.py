"""Forged files of a store: impossible content under valid checksums.

`hdf5` and `manifest` change one file and return a description of the change. Datasets and attributes are
forged as in tests, but for forgeries after which a run may read wrong numbers that nothing contradicts.
"""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from forgeries import (
    NO_OTHER_NUMBERS,
    RUBBISH,
    datasets,
    forge_attribute,
    forge_dataset,
    write_signed,
    written,
)

#: Datasets of indices, states, operations, lengths or letters.
_BOUNDED = {"index", "i", "j", "state", "states", "ops", "lengths", "query", "target"}

#: Values that few fields of a manifest can have.
_ODD_VALUES = [*RUBBISH, 0, 7, "x", [1], {"a": 1}, "é" * 50, -(1 << 40)]


def hdf5(path: Path, rng: random.Random) -> str:
    """Forge one dataset or attribute of an HDF5 file."""
    with h5py.File(path, "r+", libver="latest") as file:
        kind = rng.choices(["dataset", "attribute", "number"], [6, 1, 1])[0]
        if kind == "attribute":
            return forge_attribute(file, rng)
        bounded = [name for name in datasets(file) if name.split("/")[-1] in _BOUNDED and file[name].size]
        if kind == "number" and bounded:
            return out_of_range(file, rng.choice(bounded), rng)
        return forge_dataset(file, rng, [*NO_OTHER_NUMBERS, another])


def another(file: h5py.File, name: str, rng: random.Random) -> None:
    """A dataset that is also in the place of this one."""
    others = [other for other in datasets(file) if other != name]
    del file[name]
    if others:
        file[name] = file[rng.choice(others)]


def out_of_range(file: h5py.File, name: str, rng: random.Random) -> str:
    """An impossible value in a dataset whose values are bounded."""
    values = file[name][()]
    limits = np.iinfo(values.dtype)
    forged = rng.choice([limits.max, limits.min if limits.min < 0 else limits.max - 1])
    values[np.unravel_index(rng.randrange(values.size), values.shape)] = forged
    written(file, name, values)
    return f"{name} holds {forged}"


def manifest(path: Path, rng: random.Random) -> str:
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
        what = f"{key} is {str(parent[key])[:60]!r}"
    write_signed(path, data)
    return what


def _places(data: Any) -> Any:
    """The container and key of every value in nested dictionaries and lists."""
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(items):
        yield data, key
        yield from _places(value)
