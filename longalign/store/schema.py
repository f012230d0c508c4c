"""The schema of a store's HDF5 files. Everything that is read is checked against it before use.

A file must belong to the run, and a tile's file to that tile. It must have the length that HDF5 recorded, so
nothing was appended. A dataset must be reached through hard links only, so it lies in the same file. Its
type, shape, blocks, filters and checksums must be those that this program writes, and its values must be in
range. Where only a part of a tile is read, the code that uses the part checks the range of its values. Shapes
are checked, and thereby bounded, before any memory is allocated.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longalign.model.boundary import BestCell, State
from longalign.model.geometry import Tile
from longalign.model.pruning import SPACING
from longalign.store.blocks import BlockTable
from longalign.store.codec import ANCHOR_STRIDE
from longalign.store.datasets import (
    ADDED,
    APART,
    APART_FROM,
    CELLS_LEFT_OUT,
    LINE_DATASETS,
    LINES,
    START_DATASETS,
    STARTS,
)
from longalign.store.line_tables import Patches, patches_of
from longalign.store.manifest import Manifest, SequenceRecord

if TYPE_CHECKING:
    import h5py

_NARROW = ("<i1", "<i2", "<i4")

_INT32 = (-(1 << 31), (1 << 31) - 1)
_STATES = (min(State), max(State))

#: Offsets in HDF5's superblock of its version and of the file's length, and its size in bytes.
_VERSION_AT, _LENGTH_AT, _SUPERBLOCK_BYTES = 8, 28, 48
_SIGNATURE, _VERSIONS = b"\x89HDF\r\n\x1a\n", (2, 3)

#: The most bytes of the attribute `run`.
_MAX_RUN_ID_BYTES = 256


@dataclass(frozen=True, slots=True)
class DatasetSpec:
    """What a dataset may be: the sizes of each dimension, the types, the least and the largest value."""

    sizes: tuple[range, ...]
    dtypes: tuple[str, ...]
    numbers: tuple[int, int] | None = None

    @classmethod
    def of(cls, *shape: int, dtypes: Sequence[str], numbers: tuple[int, int] | None = None) -> DatasetSpec:
        """A dataset of exactly this shape."""
        return cls(tuple(range(size, size + 1) for size in shape), tuple(dtypes), numbers)

    @classmethod
    def up_to(cls, longest: int, dtype: str, numbers: tuple[int, int]) -> DatasetSpec:
        """A one-dimensional dataset of at most `longest` values."""
        return cls((range(longest + 1),), (dtype,), numbers)


# --- the datasets of each file


def tile_specs(manifest: Manifest, tile: Tile) -> dict[str, DatasetSpec]:
    """The datasets of a tile's file."""
    lines, lengths = manifest.grid.kept_lines(tile, manifest.mode), (tile.j1 - tile.j0, tile.i1 - tile.i0)
    specs: dict[str, DatasetSpec] = {}
    numbers = 0
    for side, starts, index, length in zip(LINES, STARTS, lines, lengths, strict=True):
        specs |= _named(side, _line_specs(len(index), length))
        numbers += 2 * len(index) * length
        if manifest.is_eager:
            specs |= _named(starts, _start_specs(len(index), length))
    if manifest.pruned_with is not None:
        specs[APART] = DatasetSpec((range(4, 5), range(numbers + 1)), ("<i8",), _INT32)
    return specs


def _named(group: str, specs: Mapping[str, DatasetSpec]) -> dict[str, DatasetSpec]:
    return {f"{group}/{name}": spec for name, spec in specs.items()}


def _line_specs(lines: int, length: int) -> dict[str, DatasetSpec]:
    """See `longalign.store.codec.PackedLines`, and `NO_LINES` there."""
    if not lines:
        return dict.fromkeys(LINE_DATASETS, DatasetSpec.of(0, 0, dtypes=["<i1"]))
    return {
        "index": DatasetSpec.of(lines, dtypes=["<i8"]),
        "anchors": DatasetSpec.of(lines, length // ANCHOR_STRIDE + 1, dtypes=["<i4"]),
        "steps": DatasetSpec.of(lines, length, dtypes=_NARROW),
        "gaps": DatasetSpec.of(lines, length, dtypes=_NARROW),
    }


def _start_specs(lines: int, length: int) -> dict[str, DatasetSpec]:
    """See `longalign.store.start_tables.PackedStarts`, and `NO_STARTS` there."""
    if not lines:
        return dict.fromkeys(START_DATASETS, DatasetSpec.of(0, 0, dtypes=["<i1"]))
    return {
        "index": DatasetSpec.of(lines, dtypes=["<i8"]),
        "anchors": DatasetSpec.of(lines, 4, (length - 1) // ANCHOR_STRIDE + 1, dtypes=["<i4"]),
        "steps": DatasetSpec.of(lines, 4, length - 1, dtypes=_NARROW),
        "states": DatasetSpec.of(lines, 2, length, dtypes=["|u1"], numbers=_STATES),
    }


def path_specs(manifest: Manifest) -> dict[str, DatasetSpec]:
    """The datasets of the path. Waypoints go up or to the left, which bounds their number."""
    rows, cols = manifest.query.length, manifest.target.length
    numbers = {"i": (0, rows), "j": (0, cols), "state": _STATES, "value": _INT32}
    return _number_specs(rows + cols + 1, numbers)


def left_out_specs(manifest: Manifest) -> dict[str, DatasetSpec]:
    """The datasets of the list of tiles that were left out."""
    rows, cols = manifest.grid.shape
    numbers = {"row": (0, rows - 1), "col": (0, cols - 1)}
    return _number_specs(rows * cols, numbers)


def seeds_specs(manifest: Manifest) -> dict[str, DatasetSpec]:
    """The datasets of the anchors. Each has at least one letter pair."""
    rows, cols = manifest.query.length, manifest.target.length
    pairs = min(rows, cols)
    numbers = {"row": (0, rows), "col": (0, cols), "length": (1, max(1, pairs))}
    return _number_specs(pairs, numbers)


def row_limits_specs(manifest: Manifest) -> dict[str, DatasetSpec]:
    """The datasets of the row limits."""
    rows = manifest.query.length
    return _number_specs(rows // SPACING + 1, {"row": (0, max(0, rows - 1)), "most": _INT32})


def piece_specs(manifest: Manifest) -> dict[str, DatasetSpec]:
    """The datasets of a piece. Each run takes at least one letter."""
    letters = manifest.query.length + manifest.target.length
    return _run_specs(letters, letters)


def next_best_specs(manifest: Manifest) -> dict[str, DatasetSpec]:
    """The datasets of the next best alignments, one number for each. No two end in the same cell."""
    rows, cols = manifest.query.length, manifest.target.length
    numbers = {"i": (0, rows), "j": (0, cols), "value": (1, _INT32[1]), "runs": (1, rows + cols)}
    return _number_specs(rows * cols, numbers)


def next_best_run_specs(manifest: Manifest) -> dict[str, DatasetSpec]:
    """The datasets of the runs of these alignments.

    No letter pair is in two runs, and at most two gaps follow each run of pairs.
    """
    rows, cols = manifest.query.length, manifest.target.length
    return _run_specs(3 * rows * cols, rows + cols)


def _number_specs(max_length: int, limits: Mapping[str, tuple[int, int]]) -> dict[str, DatasetSpec]:
    """Datasets of at most `max_length` int64 each, with the least and the largest number of each."""
    return {name: DatasetSpec.up_to(max_length, "<i8", of_one) for name, of_one in limits.items()}


def _run_specs(max_length: int, longest: int) -> dict[str, DatasetSpec]:
    """The datasets of at most `max_length` runs of at most `longest` columns."""
    return {
        "ops": DatasetSpec.up_to(max_length, "|u1", (0, 2)),
        "lengths": DatasetSpec.up_to(max_length, "<i8", (1, longest)),
    }


def letters_spec(record: SequenceRecord) -> DatasetSpec:
    """The letters of a sequence."""
    return DatasetSpec.of(record.length, dtypes=["|u1"])


# --- reading


def check_file(file: h5py.File, run: bytes) -> None:
    """Raise ValueError unless a file belongs to a run and has the length that HDF5 recorded."""
    descriptor = file.id.get_vfd_handle()
    head = os.pread(descriptor, _SUPERBLOCK_BYTES, 0)
    if not head.startswith(_SIGNATURE) or head[_VERSION_AT] not in _VERSIONS:
        raise ValueError("it does not begin as a file of this program does")
    if int.from_bytes(head[_LENGTH_AT : _LENGTH_AT + 8], "little") != os.fstat(descriptor).st_size:
        raise ValueError("it has another length than when it was written")
    if _run_id(file) != run:
        raise ValueError("it belongs to another run")


def locate(file: h5py.File, name: str, spec: DatasetSpec) -> BlockTable:
    """The block table of a dataset. Raises ValueError or KeyError unless it is as `spec` says."""
    dataset = _dataset(file, name)
    if not _has_type(dataset, spec.dtypes):
        raise ValueError(f"{name} has another type than when it was written")
    if not _fits(dataset.shape, spec.sizes):
        raise ValueError(f"{name} has the shape {dataset.shape}, which it cannot have here")
    return BlockTable.of(dataset)


def read(file: h5py.File, name: str, spec: DatasetSpec) -> NDArray[Any]:
    """All values of a dataset. Raises ValueError or KeyError unless it is as `spec` says."""
    return values_of(locate(file, name, spec), file.id.get_vfd_handle(), name, spec)


def values_of(blocks: BlockTable, descriptor: int, name: str, spec: DatasetSpec) -> NDArray[Any]:
    """All values of a dataset that was located in the file open as `descriptor`.

    Raises ValueError unless they are as `spec` says.
    """
    values = blocks.all(descriptor)
    if spec.numbers is not None and values.size:
        minimum, maximum = spec.numbers
        if not minimum <= values.min() <= values.max() <= maximum:
            raise ValueError(f"{name} has a number outside {minimum} to {maximum}")
    return values


def read_all(file: h5py.File, specs: Mapping[str, DatasetSpec]) -> list[NDArray[Any]]:
    """Datasets of equal length. Raises ValueError or KeyError unless they are as `specs` says."""
    columns = [read(file, name, spec) for name, spec in specs.items()]
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"{', '.join(specs)} have different lengths")
    return columns


@dataclass(frozen=True, slots=True, eq=False)
class LocatedTile:
    """What a tile's file holds: its best cell, and where the blocks of each dataset lie.

    `apart` has the wide values that the file lists, by the dataset and the line that they belong to.
    `left_out` and `added` are those of `TileRecord`.
    """

    best: BestCell
    blocks: Mapping[str, BlockTable]
    apart: Mapping[str, Mapping[int, Patches]]
    left_out: int
    added: int


def locate_tile(file: h5py.File, manifest: Manifest, tile: Tile) -> LocatedTile:
    """What the file of a tile holds.

    Raises ValueError or KeyError unless it is that of this tile, with the lines that the tile keeps.
    """
    if any(integer_attribute(file, name) != getattr(tile, name) for name in ("i0", "i1", "j0", "j1")):
        raise ValueError("it belongs to another tile")
    specs, descriptor = tile_specs(manifest, tile), file.id.get_vfd_handle()
    blocks = {name: locate(file, name, spec) for name, spec in specs.items()}
    kept = manifest.grid.kept_lines(tile, manifest.mode)
    for sides in (LINES, STARTS) if manifest.is_eager else (LINES,):
        for side, lines in zip(sides, kept, strict=True):
            index = blocks[f"{side}/index"].all(descriptor)
            if index.ravel().tolist() != [*lines]:
                raise ValueError(f"{side}/index names other lines than the tile keeps")
    is_pruned = manifest.pruned_with is not None
    left_out = _later_attribute(file, CELLS_LEFT_OUT, 0, tile.cells if is_pruned else 0)
    added = _later_attribute(file, ADDED, -_INT32[1] if is_pruned else 0, 0)
    wide = _listed_apart(descriptor, specs, blocks)
    return LocatedTile(_best_cell(file, manifest, tile), blocks, wide, left_out, added)


def _later_attribute(file: h5py.File, name: str, minimum: int, maximum: int) -> int:
    """An integer attribute that files have not always had; 0 if it is missing.

    Raises ValueError or TypeError if it is of another type, or outside of these limits.
    """
    value = integer_attribute(file, name) if name in file.attrs else 0
    if not minimum <= value <= maximum:
        raise ValueError(f"{name} is {value}")
    return value


def _listed_apart(
    descriptor: int, specs: Mapping[str, DatasetSpec], blocks: Mapping[str, BlockTable]
) -> dict[str, dict[int, Patches]]:
    """The wide values that a tile's file lists. Raises ValueError if they cannot be those of its lines."""
    if APART not in specs:
        return {}
    listed = values_of(blocks[APART], descriptor, APART, specs[APART])
    return apart_by_name(listed, [blocks[name].shape for name in APART_FROM])


def apart_by_name(
    listed: NDArray[np.int64], shapes: Sequence[tuple[int, ...]]
) -> dict[str, dict[int, Patches]]:
    """The values of the dataset `APART`, by the names and lines of the datasets `APART_FROM`.

    `shapes` are the shapes of these. Raises ValueError if the values cannot be from there.
    """
    number, *places = listed
    if len(number) and not (number[0] >= 0 and (np.diff(number) >= 0).all() and number[-1] < len(APART_FROM)):
        raise ValueError("wide values are listed for other datasets than there are")
    cuts = np.searchsorted(number, np.arange(1, len(APART_FROM)))
    parts = np.split(np.array(places), cuts, axis=1)
    return {
        name: patches_of(part, shape) for name, part, shape in zip(APART_FROM, parts, shapes, strict=True)
    }


def _best_cell(file: h5py.File, manifest: Manifest, tile: Tile) -> BestCell:
    """The best cell of a tile. Raises ValueError if the tile cannot have it."""
    best = BestCell(*(integer_attribute(file, f"best_{name}") for name in ("score", "i", "j")))
    if best == BestCell():
        return best
    inside = tile.i0 < best.i <= tile.i1 and tile.j0 < best.j <= tile.j1
    if not manifest.mode.ends_anywhere or not inside or best.score <= 0:
        raise ValueError("best_score, best_i and best_j are not those of a cell of the tile")
    if best.score > manifest.scoring.highest * min(best.i, best.j):
        raise ValueError(f"best_score {best.score} is more than any alignment that ends there scores")
    return best


def integer_attribute(file: h5py.File, name: str) -> int:
    """An integer attribute. Raises ValueError or TypeError if it is of another type."""
    import h5py

    return int(_attribute(file, name, h5py.h5t.INTEGER))


def boolean_attribute(file: h5py.File, name: str) -> bool:
    """A boolean attribute. Raises ValueError or TypeError if it is of another type."""
    import h5py

    return bool(_attribute(file, name, h5py.h5t.ENUM))


def _run_id(file: h5py.File) -> Any:
    """The attribute `run`.

    A text of variable length is refused unread: HDF5 stores it without a checksum, and may hang on damage.
    """
    import h5py

    kind = file.attrs.get_id("run").get_type()
    if kind.get_class() == h5py.h5t.STRING and (
        kind.is_variable_str() or kind.get_size() > _MAX_RUN_ID_BYTES
    ):
        raise ValueError("attribute run is not of a fixed length")
    return _attribute(file, "run", h5py.h5t.STRING)


def _attribute(file: h5py.File, name: str, kind: int) -> Any:
    """A scalar attribute of the file. Raises ValueError if it is of another kind, KeyError if missing."""
    attribute = file.attrs.get_id(name)
    if attribute.shape != () or attribute.get_type().get_class() != kind:
        raise ValueError(f"attribute {name} has another type or shape than when it was written")
    return file.attrs[name]


def _dataset(file: h5py.File, name: str) -> h5py.Dataset:
    """A dataset that lies in this file. Raises ValueError if there is none of this name."""
    import h5py

    found: Any = file
    for step in name.split("/"):
        if not isinstance(found, h5py.Group) or not found.id.links.exists(step.encode()):
            raise ValueError(f"{name} is missing")
        if found.id.links.get_info(step.encode()).type != h5py.h5l.TYPE_HARD:
            raise ValueError(f"{name} is a link to elsewhere")
        found = found[step]
    if not isinstance(found, h5py.Dataset):
        raise ValueError(f"{name} is not a dataset")
    return found


def _has_type(dataset: h5py.Dataset, dtypes: Sequence[str]) -> bool:
    """Whether its type is one of these. HDF5 types are compared, as h5py maps enumerations to integers."""
    import h5py

    stored = dataset.id.get_type()
    return any(stored.equal(h5py.h5t.py_create(np.dtype(dtype))) for dtype in dtypes)


def _fits(shape: tuple[int, ...] | None, sizes: tuple[range, ...]) -> bool:
    if shape is None or len(shape) != len(sizes):
        return False
    return all(size in known for size, known in zip(shape, sizes, strict=True))
