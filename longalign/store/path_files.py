"""The files of phases 2 and 3: the path of the best alignment, its pieces, and the next best alignments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from longalign.model.boundary import State, Waypoint
from longalign.store import schema
from longalign.store.base import FoundPath, NextBest, Piece
from longalign.store.datasets import NEXT_BEST_DATASETS, PATH_DATASETS, PIECE_DATASETS, set_text, write
from longalign.store.manifest import Manifest

if TYPE_CHECKING:
    import h5py


def write_path(file: h5py.File, waypoints: Iterable[Waypoint], complete: bool) -> None:
    """Write waypoints, in order from the end cell backwards, into a new file."""
    points = list(waypoints)
    set_text(file, "description", "waypoints from the end cell backwards")
    set_text(file, "units", "letters")
    file.attrs["complete"] = complete
    for name, words in PATH_DATASETS.items():
        write(file, name, np.array([getattr(point, name) for point in points], np.int64), *words)


def read_path(file: h5py.File, manifest: Manifest) -> tuple[list[Waypoint], bool]:
    """The waypoints in a file, and whether the path is complete. Raises ValueError if there is none."""
    rows, cols, states, values = schema.read_all(file, schema.path_specs(manifest))
    # Each waypoint lies above or to the left of the one before it.
    if any((np.diff(places) > 0).any() for places in (rows, cols)) or not np.diff(rows + cols).all():
        raise ValueError("i, j are not those of a path from its end backwards")
    columns = (column.tolist() for column in (rows, cols, states, values))
    points = [Waypoint(i, j, State(state), value) for i, j, state, value in zip(*columns, strict=True)]
    return points, schema.boolean_attribute(file, "complete")


def write_piece(file: h5py.File, piece: Piece) -> None:
    """Write a piece into a new file."""
    for name, words in PIECE_DATASETS.items():
        write(file, name, getattr(piece, name), *words)


def read_piece(file: h5py.File, manifest: Manifest) -> Piece:
    """The piece in a file. Raises ValueError if it cannot be one of an alignment."""
    return Piece(*schema.read_all(file, schema.piece_specs(manifest)))


def write_next_best(file: h5py.File, found: NextBest) -> None:
    """Write alignments into a new file."""
    set_text(file, "description", "the next best alignments, in order; their runs lie end to end")
    file.attrs["complete"] = found.are_all
    numbers = [[one.end.i, one.end.j, one.end.value, len(one.runs.ops)] for one in found.paths]
    columns = np.array(numbers, np.int64).reshape(-1, len(NEXT_BEST_DATASETS)).T
    for (name, words), column in zip(NEXT_BEST_DATASETS.items(), columns, strict=True):
        write(file, name, np.ascontiguousarray(column), *words)
    write_piece(
        file,
        Piece(
            np.concatenate([np.zeros(0, np.uint8), *(one.runs.ops for one in found.paths)]),
            np.concatenate([np.zeros(0, np.int64), *(one.runs.lengths for one in found.paths)]),
        ),
    )


def read_next_best(file: h5py.File, manifest: Manifest) -> NextBest:
    """The alignments in a file. Raises ValueError if they cannot be those of a run."""
    rows, cols, values, counts = schema.read_all(file, schema.next_best_specs(manifest))
    runs = Piece(*schema.read_all(file, schema.next_best_run_specs(manifest)))
    if counts.sum() != len(runs.ops):
        raise ValueError("runs is not the number of runs of each alignment")
    columns = (column.tolist() for column in (rows, cols, values, np.cumsum(counts) - counts, counts))
    paths = [
        FoundPath(
            Waypoint(i, j, State.H, value),
            Piece(runs.ops[first : first + count], runs.lengths[first : first + count]),
        )
        for i, j, value, first, count in zip(*columns, strict=True)
    ]
    return NextBest(paths, schema.boolean_attribute(file, "complete"))
