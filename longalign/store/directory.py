"""The store on disk: a manifest, the two sequences, one HDF5 file per tile, the path, pieces.

    manifest.json            the identity of the run; written last, so a directory with it is a complete store
    sequences.h5             the letters: a worker needs nothing but the store
    tiles/r00000c00000.h5    lattice rows and columns, best cell, in an eager run start states, and in a
                             pruned run lists of the wide values beside cells that were left out
    seeds.h5                 in a pruned run that needs it, where the alignment of the seeds has letter pairs
    row_limits.h5            in a pruned run that needs it, how much a path gains at most from some rows on
    left_out.h5              the tiles that a pruned run has left out, once phase 1 is over
    path.h5                  the waypoints that phase 2 has found
    pieces/p000000.h5        parts of the alignment from phase 3
    next_best.h5             the next best alignments found so far, if several were asked for
    lock                     held by the process that leads the run: see `longalign.store.lock`

Every file is written under a temporary name, flushed and renamed. Its attribute `run` identifies the run that
it belongs to. Everything that is read is checked against `longalign.store.schema` first.

Reading any part detects damage to it. The checksums of `longalign.store.blocks` cover the data. Those of
HDF5's latest format cover the superblock, object headers, attributes and the indices of blocks. A long
attribute `crc32` has none, but a damaged one disagrees with its data. The superblock records the length of
the file, so nothing can be appended. Only gaps between these parts remain; nothing in the file refers to
them, so no reader reads them.

Only regular files, or links to them, are opened. A link is read, and replaced when the file is written anew.
The directory itself, and `tiles` and `pieces` in it, may be links as well.

A store is of one strand of the query. A run over both has two stores: see `longalign.store.layout`.

A store that cannot be written, as on a full or read-only disk, can still be read: a finished run needs no
more. Any attempt to write to it raises StoreError.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from longalign.errors import StoreError, reason_of
from longalign.model.boundary import BestCell, Waypoint
from longalign.model.geometry import Tile
from longalign.model.pruning import NO_ANCHORS, NO_FINDINGS, NO_LIMITS, Findings
from longalign.model.sequence import Sequence
from longalign.store import schema
from longalign.store.base import NONE_FOUND, DamagedFile, DamagedTile, NextBest, Piece, TilePlace, TileRecord
from longalign.store.blocks import BlockTable
from longalign.store.codec import NO_LINES, PackedLines
from longalign.store.datasets import (
    ADDED,
    APART,
    APART_FROM,
    CELLS_LEFT_OUT,
    LINE_DATASETS,
    LINES,
    START_DATASETS,
    STARTS,
    describe,
    set_text,
    tile_datasets,
    write,
)
from longalign.store.file_reader import FileReader, LazyDataset
from longalign.store.files import new_hdf5, temporary_name
from longalign.store.layout import (
    LEFT_OUT_NAME,
    MANIFEST_NAME,
    NEXT_BEST_NAME,
    PATH_NAME,
    ROW_LIMITS_NAME,
    SEEDS_NAME,
    SEQUENCES_NAME,
    TILE_NAME,
    holds_both_strands,
    is_store,
    make_folders,
    naming_place,
    piece_name,
    refuse_foreign,
    remove_temporaries,
    strand_folder,
    tile_name,
)
from longalign.store.line_tables import patched
from longalign.store.lock import Lock
from longalign.store.manifest import Manifest, SequenceRecord
from longalign.store.path_files import (
    read_next_best,
    read_path,
    read_piece,
    write_next_best,
    write_path,
    write_piece,
)
from longalign.store.pruned_files import (
    read_anchors,
    read_left_out,
    read_row_limits,
    write_anchors,
    write_left_out,
    write_row_limits,
)
from longalign.store.read_errors import file_exists, files_named, read_errors_as
from longalign.store.start_tables import PackedStarts
from longalign.store.tile_writer import TileWriter

if TYPE_CHECKING:
    import h5py

T = TypeVar("T")


class DirectoryStore:
    """A store in a directory. `create` and `open` take the lock; `attach` is for a worker of the owner."""

    def __init__(self, path: Path, manifest: Manifest, lock: Lock | None) -> None:
        self.path = path
        self.manifest = manifest
        self._lock = lock
        self._closed = False
        # Of fixed length: HDF5 stores other strings without a checksum, and may hang on damage.
        self._run = np.bytes_(manifest.run)
        self._reader = FileReader(self._run)

    @classmethod
    def create(cls, path: Path, manifest: Manifest, query: Sequence, target: Sequence) -> DirectoryStore:
        """Make a store in a new or empty directory.

        Raises StoreError if the directory holds something else or cannot be written.
        """
        with naming_place(path):
            path.mkdir(parents=True, exist_ok=True)
            refuse_foreign(path)
            store = cls(path, manifest, Lock(path))
        with store._closed_on_failure():
            store._check_writing()
            # Another process may have written here before the lock was taken.
            if is_store(path):
                raise StoreError(f"{path}: another run has just made a store here: run the command again")
            refuse_foreign(path)
            remove_temporaries(path)
            make_folders(path)
            store.put_sequences(query, target)
            known = manifest.pruned_with
            store._put_findings(known.findings.get(query.strand, NO_FINDINGS) if known else NO_FINDINGS)
            manifest.write(path / MANIFEST_NAME, store._check_writing)
        return store

    @classmethod
    def open(cls, path: Path) -> DirectoryStore:
        """Open a store to continue its run. Raises StoreError if it is not a store, or in use.

        If it cannot be written, it is opened for reading, and every write raises StoreError.
        """
        manifest = Manifest.read(path / MANIFEST_NAME)
        with naming_place(path):
            store = cls(path, manifest, Lock(path))
        with store._closed_on_failure():
            if store.is_writable:
                remove_temporaries(path)
                with suppress(OSError):  # on a full disk; a later write reports it
                    make_folders(path)  # a copy may lack them: some tools copy only files
        return store

    @classmethod
    def attach(cls, path: Path, mark: str | None = None) -> DirectoryStore:
        """Use a store without its lock: for the workers of the process that holds it, and for inspection.

        Raises StoreError if there is none, if there is one for each strand, or if it has no file `mark`: see
        `marked`.
        """
        if holds_both_strands(path):
            raise StoreError(
                f"{path}: holds a store for each strand: name one, "
                f"{strand_folder(path, 'plus')} or {strand_folder(path, 'minus')}"
            )
        store = cls(path, Manifest.read(path / MANIFEST_NAME), None)
        if mark is not None and not (path / mark).exists():
            raise StoreError(f"{path}: another directory than the one of this name where the run started")
        return store

    @contextmanager
    def marked(self) -> Iterator[str]:
        """Make a file in the store for the duration of the block; returns its name.

        A worker that sees the file sees the same store.
        """
        mark = self.path / temporary_name()
        self._check_writing()
        with naming_place(self.path):
            mark.touch(exist_ok=False)
        try:
            yield mark.name
        finally:
            with suppress(OSError):  # otherwise the next run that opens the store removes it
                mark.unlink(missing_ok=True)

    @property
    def is_writable(self) -> bool:
        """Whether the store can be written, as far as is known."""
        return self._lock is None or self._lock.refusal is None

    def _check_writing(self) -> None:
        """Raise StoreError if the store is closed or cannot be written, or if the lock is no longer held."""
        if self._closed:
            raise StoreError(f"{self.path}: the store is closed")
        lock = self._lock  # `close`, in another thread, may set it to None
        if lock is not None:
            lock.check()

    def close(self) -> None:
        """Release the lock. A thread that still writes fails when it next checks the lock."""
        self._closed = True
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> DirectoryStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None and self._lock is not None and self.is_writable:
            remove_temporaries(self.path)  # killed workers may have left some
        self.close()

    @contextmanager
    def _closed_on_failure(self) -> Iterator[None]:
        """Release the lock if opening the store fails."""
        try:
            with naming_place(self.path):
                yield
        except BaseException:
            self.close()
            raise

    # --- sequences

    def put_sequences(self, query: Sequence, target: Sequence) -> None:
        """Store the letters of the two sequences, as they stand in their records."""
        with self._new(self.path / SEQUENCES_NAME) as file:
            for name, sequence in (("query", query), ("target", target)):
                write(file, name, sequence.letters, f"letters of the {name}, upper-case ASCII", "letter")

    def sequences(self) -> tuple[Sequence, Sequence]:
        """Query and target as stored, the query on the strand of the run. Raises DamagedFile."""
        return self.sequence("query"), self.sequence("target")

    def sequence(self, name: Literal["query", "target"]) -> Sequence:
        """The query, on the strand of the run, or the target as stored. Raises DamagedFile."""
        path = self.path / SEQUENCES_NAME
        record: SequenceRecord = getattr(self.manifest, name)
        spec = schema.letters_spec(record)
        letters = self._reader.read(path, lambda file: schema.read(file, name, spec), DamagedFile)
        with read_errors_as(DamagedFile, path):
            sequence = Sequence.from_letters(
                record.name,
                letters,
                source=record.source,
                offset=record.offset,
                record_length=record.record_length,
                alphabet=self.manifest.scoring.alphabet,
            )
            if sequence.sha256 != record.sha256:
                raise ValueError(f"the {name} has another SHA-256 than the manifest says")
        return sequence.on(self.manifest.strand) if name == "query" else sequence

    # --- tiles

    def tile_path(self, row: int, col: int) -> Path:
        return self.path / tile_name(row, col)

    def stored_tiles(self) -> set[TilePlace]:
        rows, cols = self.manifest.grid.shape
        names = files_named(TILE_NAME, self.path / "tiles")
        places = ((int(name[1]), int(name[2])) for name in names)
        return {(row, col) for row, col in places if row < rows and col < cols}

    def has_results(self) -> bool:
        """Whether the store holds a path, a tile or next best alignments, perhaps of an earlier process."""
        names = PATH_NAME, NEXT_BEST_NAME
        return any(file_exists(self.path / name) for name in names) or bool(self.stored_tiles())

    @contextmanager
    def open_writer(self, tile: Tile) -> Iterator[TileWriter]:
        writer = TileWriter(partial(self._new, self.tile_path(tile.row, tile.col)))
        try:
            yield writer
        except BaseException:
            writer.discard()
            raise

    def put_tile(self, tile: Tile, record: TileRecord, writer: TileWriter | None = None) -> None:
        path = self.tile_path(tile.row, tile.col)
        datasets = tile_datasets(record, self.manifest.pruned_with is not None)
        writer = writer or TileWriter(partial(self._new, path))
        if not writer.agrees_with({name: values for name, (values, *_) in datasets.items()}):
            writer.discard()
            writer = TileWriter(partial(self._new, path))
        blocks: dict[str, BlockTable] = {}
        with writer.completed() as file:
            set_text(file, "description", "boundaries of one tile: cells i0 < i <= i1, j0 < j <= j1")
            set_text(file, "units", "letters")
            for name in ("i0", "i1", "j0", "j1"):
                file.attrs[name] = getattr(tile, name)
            for name in ("score", "i", "j"):
                file.attrs[f"best_{name}"] = getattr(record.best, name)
            if APART in datasets:
                file.attrs[CELLS_LEFT_OUT], file.attrs[ADDED] = record.left_out, record.added
            for name, (values, description, units) in datasets.items():
                dataset = writer.complete_dataset(name, values)
                describe(dataset, description, units)
                blocks[name] = BlockTable.written(dataset)
        wide = {}
        if APART in datasets:
            wide = schema.apart_by_name(datasets[APART][0], [blocks[name].shape for name in APART_FROM])
        # To open and examine the file of a small tile takes longer than to write it.
        self._reader.remember(
            path, schema.LocatedTile(record.best, blocks, wide, record.left_out, record.added)
        )

    def get_tile(self, tile: Tile) -> TileRecord:
        located = self._read_located(tile, lambda located, _: located)

        def datasets(side: str, names: Iterable[str]) -> dict[str, LazyDataset]:
            keys = {name: f"{side}/{name}" for name in names if name != "index"}
            return {name: LazyDataset(partial(self._part, tile, key)) for name, key in keys.items()}

        # The indices in the file are known to be these of the grid.
        lines = self.manifest.grid.kept_lines(tile, self.manifest.mode)
        indices = [np.array(line, np.int64) if line else NO_LINES.index for line in lines]
        rows, cols = (
            PackedLines(index=index, **datasets(side, LINE_DATASETS))
            for side, index in zip(LINES, indices, strict=True)
        )
        if not self.manifest.is_eager:
            return TileRecord(rows, cols, located.best, left_out=located.left_out, added=located.added)
        row_starts, col_starts = (
            PackedStarts(index=index, **datasets(side, START_DATASETS))
            for side, index in zip(STARTS, indices, strict=True)
        )
        return TileRecord(rows, cols, located.best, row_starts, col_starts)

    def check_tile(self, tile: Tile) -> BestCell:
        """Read a whole tile's file, without what is cached of it; returns its best cell.

        Raises DamagedTile, naming the file.
        """
        specs = schema.tile_specs(self.manifest, tile)
        # A second read after damage must be independent of the first.
        self._reader.forget(self.tile_path(tile.row, tile.col))

        def read_all(located: schema.LocatedTile, descriptor: int) -> BestCell:
            for name, blocks in located.blocks.items():
                schema.values_of(blocks, descriptor, name, specs[name])
            return located.best

        return self._read_located(tile, read_all)

    def _read_located(self, tile: Tile, use: Callable[[schema.LocatedTile, int], T]) -> T:
        """See `FileReader.read_located`. Raises DamagedTile."""
        path = self.tile_path(tile.row, tile.col)
        locate = partial(schema.locate_tile, manifest=self.manifest, tile=tile)
        return self._reader.read_located(path, locate, use, partial(DamagedTile, tile.row, tile.col))

    def _part(self, tile: Tile, name: str, key: Any) -> Any:
        """A part of a dataset of a tile, read when it is asked for. Raises DamagedTile."""

        def read(located: schema.LocatedTile, descriptor: int) -> Any:
            values = located.blocks[name].part(descriptor, key)
            if name not in located.apart:
                return values
            line, part = key
            return patched(values, line, part.start or 0, located.apart[name])

        return self._read_located(tile, read)

    def refresh(self) -> None:
        """Make tiles that other machines have stored visible at once.

        A network file system may cache for a minute that a file is missing; opening the directory renews the
        cache. Raises StoreError if this process no longer holds the lock.
        """
        self._check_writing()
        with os.scandir(self.path / "tiles"):
            pass

    def drop_tile(self, row: int, col: int) -> None:
        path = self.tile_path(row, col)
        self._check_writing()
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise StoreError(f"{path}: cannot be removed: {reason_of(error)}") from error
        self._reader.forget(path)

    def _put_findings(self, findings: Findings) -> None:
        for name, values, write_values in (
            (SEEDS_NAME, findings.anchors, write_anchors),
            (ROW_LIMITS_NAME, findings.limits, write_row_limits),
        ):
            path = self.path / name
            path.unlink(missing_ok=True)  # of a store whose creation was interrupted
            if len(values):
                with self._new(path) as file:
                    write_values(file, values)

    def get_findings(self) -> tuple[Findings, list[DamagedFile]]:
        """The findings of a pruned run. What is damaged is missing in them, and listed."""
        damages: list[DamagedFile] = []

        def read(name: str, read_values: Callable[[h5py.File, Manifest], T], nothing: T) -> T:
            try:
                values = self._read_if_there(name, read_values)
            except DamagedFile as damage:
                damages.append(damage)
                values = None
            return nothing if values is None else values

        anchors = read(SEEDS_NAME, read_anchors, NO_ANCHORS)
        return Findings(anchors, read(ROW_LIMITS_NAME, read_row_limits, NO_LIMITS)), damages

    def put_left_out(self, places: Iterable[TilePlace]) -> None:
        with self._new(self.path / LEFT_OUT_NAME) as file:
            write_left_out(file, places)

    def get_left_out(self) -> set[TilePlace]:
        return self._read_if_there(LEFT_OUT_NAME, read_left_out) or set()

    # --- path and pieces

    def path_in_words(self, name: str) -> str:
        return str(self.path / name)

    def put_path(self, waypoints: Iterable[Waypoint], complete: bool) -> None:
        with self._new(self.path / PATH_NAME) as file:
            write_path(file, waypoints, complete)

    def get_path(self) -> tuple[list[Waypoint], bool]:
        return self._read_if_there(PATH_NAME, read_path) or ([], False)

    def put_piece(self, number: int, piece: Piece) -> None:
        with self._new(self.path / piece_name(number)) as file:
            write_piece(file, piece)

    def get_piece(self, number: int) -> Piece | None:
        return self._read_if_there(piece_name(number), read_piece)

    def put_next_best(self, found: NextBest) -> None:
        with self._new(self.path / NEXT_BEST_NAME) as file:
            write_next_best(file, found)

    def get_next_best(self) -> NextBest:
        return self._read_if_there(NEXT_BEST_NAME, read_next_best) or NONE_FOUND

    def _read_if_there(self, name: str, read: Callable[[h5py.File, Manifest], T]) -> T | None:
        """What a file of the store holds; None if there is none. Raises DamagedFile."""
        path = self.path / name
        if not file_exists(path):
            return None
        return self._reader.read(path, lambda file: read(file, self.manifest), DamagedFile)

    def note_request(self, asked: Manifest) -> None:
        """Replace the manifest by `asked`, which differs in what is requested only; `resume` repeats that."""
        if asked != self.manifest:
            asked.write(self.path / MANIFEST_NAME, self._check_writing)
            self.manifest = asked

    @contextmanager
    def _new(self, path: Path) -> Iterator[h5py.File]:
        """A new file of this run. It is renamed only while this process holds the lock."""
        self._check_writing()
        with new_hdf5(path, self._check_writing) as file:
            file.attrs["run"] = self._run
            yield file
