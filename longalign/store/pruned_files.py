"""The files that only a pruned store has: anchors, row limits, and the list of tiles that were left out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from longalign.model.pruning import SPACING, Anchors, RowLimits
from longalign.store import schema
from longalign.store.base import TilePlace
from longalign.store.datasets import LEFT_OUT_DATASETS, ROW_LIMITS_DATASETS, SEEDS_DATASETS, set_text, write
from longalign.store.manifest import Manifest

if TYPE_CHECKING:
    import h5py


def write_anchors(file: h5py.File, anchors: Anchors) -> None:
    """Write anchors into a new file."""
    columns = anchors[:, 0], anchors[:, 2], anchors[:, 1] - anchors[:, 0]
    _write_columns(file, "letter pairs of an alignment that seeds have found", SEEDS_DATASETS, columns)


def read_anchors(file: h5py.File, manifest: Manifest) -> Anchors:
    """The anchors in a file. Raises ValueError if they cannot be those of an alignment."""
    row, col, length = schema.read_all(file, schema.seeds_specs(manifest))
    sides = (row, row + length, manifest.query), (col, col + length, manifest.target)
    if any((np.append(start[1:], side.length) < end).any() for start, end, side in sides):
        raise ValueError("row, col, length are not those of stretches of an alignment")
    return np.stack([row, row + length, col, col + length], axis=1)


def write_row_limits(file: h5py.File, limits: RowLimits) -> None:
    """Write row limits into a new file."""
    _write_columns(file, "how much a path gains at most from some rows on", ROW_LIMITS_DATASETS, limits.T)


def read_row_limits(file: h5py.File, manifest: Manifest) -> RowLimits:
    """The row limits in a file. Raises ValueError if they cannot be such."""
    row, most = schema.read_all(file, schema.row_limits_specs(manifest))
    if (row % SPACING).any() or (np.diff(row) <= 0).any():
        raise ValueError(f"row is not in order, or no multiple of {SPACING}")
    return np.stack([row, most], axis=1)


def write_left_out(file: h5py.File, places: Iterable[TilePlace]) -> None:
    """Write the places of tiles into a new file."""
    values = np.array(sorted(places), np.int64).reshape(-1, 2)
    _write_columns(file, "tiles left out, which no optimal alignment visits", LEFT_OUT_DATASETS, values.T)


def read_left_out(file: h5py.File, manifest: Manifest) -> set[TilePlace]:
    """The places of tiles in a file. Raises ValueError if they cannot be those of tiles."""
    rows, cols = schema.read_all(file, schema.left_out_specs(manifest))
    return set(zip(rows.tolist(), cols.tolist(), strict=True))


def _write_columns(
    file: h5py.File,
    description: str,
    datasets: Mapping[str, tuple[str, str]],
    columns: Iterable[NDArray[np.int64]],
) -> None:
    """Write one dataset for each column, with the description and units that `datasets` gives it."""
    set_text(file, "description", description)
    for (name, words), column in zip(datasets.items(), columns, strict=True):
        write(file, name, np.ascontiguousarray(column), *words)
