"""Reads the HDF5 files of a run, and caches what was located in them.

No file stays open between reads. Cached block tables hold for one file only: if any process has replaced it,
the new file is examined afresh.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from longalign.errors import StoreError
from longalign.store import schema
from longalign.store.blocks import BlockTable
from longalign.store.files import open_hdf5, open_regular_file
from longalign.store.read_errors import read_errors_as

if TYPE_CHECKING:
    import h5py

T = TypeVar("T")
U = TypeVar("U")

#: Makes the exception for a damaged file from its text.
Failure = Callable[[str], StoreError]

#: Device, inode, size and time of modification. Files are never changed in place, only replaced.
_Stamp = tuple[int, int, int, int]


class FileReader:
    """Reads files that belong to `run`. It may be used by several threads."""

    def __init__(self, run: np.bytes_) -> None:
        self._run = run
        self._located: dict[Path, tuple[_Stamp, dict[str, Any]]] = {}
        self._lock = Lock()

    def read(self, path: Path, read: Callable[[h5py.File], T], failure: Failure) -> T:
        """`read(file)`. Raises `failure` if the file is missing or damaged."""
        with read_errors_as(failure, path), open_hdf5(path) as file:
            schema.check_file(file, self._run)
            return read(file)

    def read_located(
        self,
        path: Path,
        name: str,
        locate: Callable[[h5py.File], T],
        use: Callable[[T, int], U],
        failure: Failure,
    ) -> U:
        """`use(located, descriptor)`, where `located` is `locate(file)`, cached as `name` for this very file.

        HDF5 opens the file only if nothing is cached. A block table takes about 16 bytes per block. Raises
        `failure` if the file is missing or damaged.
        """

        def locate_and_use(file: h5py.File) -> U:
            descriptor = file.id.get_vfd_handle()
            with self._lock:
                located = self._located_in(path, descriptor)
                if name not in located:
                    located[name] = locate(file)
            return use(located[name], descriptor)

        with read_errors_as(failure, path), open_regular_file(path) as file:
            located = self._located_in(path, file.fileno())
            if name in located:
                return use(located[name], file.fileno())
        return self.read(path, locate_and_use, failure)

    def forget(self, path: Path) -> None:
        """Drop what is cached for a file."""
        self._located.pop(path, None)

    def _located_in(self, path: Path, descriptor: int) -> dict[str, Any]:
        """The cache of the file open as `descriptor`: empty if another file was cached for this path."""
        stamp = _stamp_of(descriptor)
        known = self._located.get(path)
        if known is None or known[0] != stamp:
            known = self._located[path] = stamp, {}
        return known[1]


def _stamp_of(descriptor: int) -> _Stamp:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class LazyDataset:
    """A dataset that is indexed like an array; its file is opened for each read."""

    def __init__(
        self, reader: FileReader, path: Path, name: str, spec: schema.DatasetSpec, failure: Failure
    ) -> None:
        self._reader, self._path, self._name = reader, path, name
        self._spec, self._failure = spec, failure

    def __getitem__(self, key: Any) -> Any:
        return self._with_blocks(lambda blocks, descriptor: blocks.part(descriptor, key))

    def locate(self) -> None:
        """Cache the block table."""
        self._with_blocks(lambda blocks, descriptor: None)

    def _with_blocks(self, use: Callable[[BlockTable, int], U]) -> U:
        def locate(file: h5py.File) -> BlockTable:
            return schema.locate(file, self._name, self._spec)

        return self._reader.read_located(self._path, self._name, locate, use, self._failure)
