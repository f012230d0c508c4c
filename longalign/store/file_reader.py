"""Reads the HDF5 files of a run, and caches what was located in them.

No file stays open between reads. Cached block tables hold for one file only: if any process has replaced it,
the new file is examined afresh.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from longalign.errors import StoreError
from longalign.store import schema
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
        self._located: dict[Path, tuple[_Stamp, Any]] = {}
        self._lock = Lock()

    def read(self, path: Path, read: Callable[[h5py.File], T], failure: Failure) -> T:
        """`read(file)`. Raises `failure` if the file is missing or damaged."""
        with read_errors_as(failure, path), open_hdf5(path) as file:
            schema.check_file(file, self._run)
            return read(file)

    def read_located(
        self,
        path: Path,
        locate: Callable[[h5py.File], T],
        use: Callable[[T, int], U],
        failure: Failure,
    ) -> U:
        """`use(located, descriptor)`, where `located` is `locate(file)`, cached for this very file.

        HDF5 opens the file only if nothing is cached. A block table takes about 16 bytes per block. Raises
        `failure` if the file is missing or damaged.
        """

        def locate_and_use(file: h5py.File) -> U:
            descriptor = file.id.get_vfd_handle()
            with self._lock:
                located = self._known(path, descriptor)
                if located is None:
                    located = locate(file)
                    self._located[path] = _stamp_of(os.fstat(descriptor)), located
            return use(located, descriptor)

        with read_errors_as(failure, path), open_regular_file(path) as file:
            located = self._known(path, file.fileno())
            if located is not None:
                return use(located, file.fileno())
        return self.read(path, locate_and_use, failure)

    def remember(self, path: Path, located: Any) -> None:
        """Cache what is located in a file that was just written, so that it need not be opened for that."""
        with suppress(OSError):  # it is gone already: the next read reports that
            self._located[path] = _stamp_of(path.stat()), located

    def forget(self, path: Path) -> None:
        """Drop what is cached for a file."""
        self._located.pop(path, None)

    def _known(self, path: Path, descriptor: int) -> Any:
        """What is cached for the file open as `descriptor`; None if it is not the file that was located."""
        stamp, located = self._located.get(path, (None, None))
        return located if stamp == _stamp_of(os.fstat(descriptor)) else None


def _stamp_of(status: os.stat_result) -> _Stamp:
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns


class LazyDataset:
    """A dataset that is indexed like an array; `part` reads what an index asks for."""

    def __init__(self, part: Callable[[Any], Any]) -> None:
        self._part = part

    def __getitem__(self, key: Any) -> Any:
        return self._part(key)
