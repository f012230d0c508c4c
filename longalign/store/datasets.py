"""The names, descriptions and units of a store's datasets, and how a dataset is written with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from longalign.store.blocks import write_blocks
from longalign.store.codec import ANCHOR_STRIDE
from longalign.store.deflated import DeflatedArray
from longalign.store.line_tables import complete, stored_form

if TYPE_CHECKING:
    import h5py

    from longalign.store.base import TileRecord

#: The groups of a tile's file: boundaries, and start states on boundaries.
LINES, STARTS = ("rows", "cols"), ("row_starts", "col_starts")

LINE_DATASETS = {
    "index": ("boundary index of each line, counted from the tile's corner", "letters"),
    "anchors": (f"H at every {ANCHOR_STRIDE}-th cell of each line, from index 0", "score"),
    "steps": ("H[x+1] - H[x] along each line, modulo 2^32", "score"),
    "gaps": ("H[x+1] - gap[x+1] along each line (gap = E in rows, F in columns), modulo 2^32", "score"),
}

#: The attribute of the file of a pruned tile that says how many of its cells were not computed.
CELLS_LEFT_OUT = "cells_left_out"

#: The attribute of the file of a pruned tile with the constant that is to be added to its values.
ADDED = "added"

#: The name of the dataset that lists wide values, and the datasets that these belong to.
APART, APART_FROM = "apart", tuple(f"{side}/{name}" for side in LINES for name in ("steps", "gaps"))
APART_WORDS = (
    f"numbers kept apart as too wide: of which dataset ({', '.join(APART_FROM)}), line, place, value",
    "score",
)

START_DATASETS = {
    "index": ("boundary index of each line, counted from the tile's corner", "letters"),
    "anchors": (
        f"start of every {ANCHOR_STRIDE}-th cell of each line, from cell 1: row and column of H's, row and "
        "column of the gap state's, boundary indices counted from the tile's corner",
        "letters",
    ),
    "steps": ("those of cell x + 2 less those of cell x + 1, in the order of anchors", "letters"),
    "states": (
        "the state in which H starts, and in which the gap state (E in rows, F in columns) does: 0 = H, "
        "1 = E, 2 = F",
        "enum",
    ),
}
PATH_DATASETS = {
    "i": ("row boundary index", "letters"),
    "j": ("column boundary index", "letters"),
    "state": ("0 = H, 1 = E (vertical gap), 2 = F (horizontal gap)", "enum"),
    "value": ("value of the state", "score"),
}

PIECE_DATASETS = {
    "ops": ("operation of each run: 0 letter pair, 1 insertion, 2 deletion", "enum"),
    "lengths": ("length of each run", "columns"),
}

NEXT_BEST_DATASETS = {
    "i": ("row boundary index of the end of each alignment", "letters"),
    "j": ("column boundary index of its end", "letters"),
    "value": ("scaled score", "score"),
    "runs": ("number of its runs", "runs"),
}

SEEDS_DATASETS = {
    "row": ("row boundary index above the first letter pair of each stretch", "letters"),
    "col": ("column boundary index before it", "letters"),
    "length": ("number of letter pairs", "letters"),
}

ROW_LIMITS_DATASETS = {
    "row": ("row boundary index", "letters"),
    "most": ("the most that a path in H gains from there on, scaled", "score"),
}

LEFT_OUT_DATASETS = {
    "row": ("row of a tile in the grid", "tiles"),
    "col": ("column of a tile in the grid", "tiles"),
}


def write(
    file: h5py.File, name: str, values: NDArray[Any] | DeflatedArray, description: str, units: str
) -> None:
    describe(write_blocks(file, name, values), description, units)


def describe(dataset: h5py.Dataset, description: str, units: str) -> None:
    set_text(dataset, "description", description)
    set_text(dataset, "units", units)


def set_text(item: h5py.HLObject, name: str, text: str) -> None:
    """Set a text attribute of fixed length: HDF5 stores variable-length texts without a checksum."""
    item.attrs[name] = np.bytes_(text)


def tile_datasets(record: TileRecord, is_pruned: bool) -> dict[str, tuple[Any, str, str]]:
    """The datasets of a tile's file, each with its description and units.

    Only tiles that are pruned have values so wide that they are kept apart.
    """
    datasets = {
        f"{side}/{name}": (complete(getattr(packed, name)), *words)
        for group, known in ((LINES, LINE_DATASETS), (STARTS, START_DATASETS))
        for side in group
        if (packed := getattr(record, side)) is not None
        for name, words in known.items()
    }
    if not is_pruned:
        return datasets
    parts = []
    for number, name in enumerate(APART_FROM):
        values, *words = datasets[name]
        values, wide = stored_form(values)
        datasets[name] = values, *words
        parts.append(np.insert(wide, 0, number, axis=0))
    return {**datasets, APART: (np.concatenate(parts, axis=1), *APART_WORDS)}
