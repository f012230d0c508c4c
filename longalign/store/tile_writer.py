"""Writes a tile's file while the tile is swept: each block is written as soon as it is deflated.

Little is left to write after the sweep, unless values are wider than expected: then the file is written anew.
The file takes its final name only when it is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from longalign.store.blocks import create_dataset_of, write_block, write_blocks, write_checksums
from longalign.store.deflated import DeflatedArray
from longalign.store.hdf5_filters import BlockIndex

if TYPE_CHECKING:
    import h5py


class _Discarded(Exception):
    """Raised within the context of a new file to discard it."""


class TileWriter:
    """Writes a file that `new` opens when the first block arrives. Blocks may come from several threads.

    An error on writing a block does not disturb the sweep; `completed` raises it.
    """

    def __init__(self, new: Callable[[], AbstractContextManager[h5py.File]]) -> None:
        self._new, self._lock, self._stack = new, Lock(), ExitStack()
        self._file: h5py.File | None = None
        self._streamed: dict[str, DeflatedArray] = {}
        self._started: dict[str, tuple[h5py.Dataset, set[BlockIndex]]] = {}
        self._error: Exception | None = None
        self._ended = False

    def stream(self, name: str, array: DeflatedArray) -> None:
        """From now on, write each block that is put into `array` to the dataset of this name."""
        self._streamed[name] = array
        array.listeners.append(partial(self._write, name))

    def _write(self, name: str, place: BlockIndex) -> None:
        with self._lock:
            if self._ended or self._error is not None:
                return
            try:
                if name not in self._started:
                    self._started[name] = create_dataset_of(self._opened(), name, self._streamed[name]), set()
                dataset, written = self._started[name]
                write_block(dataset, self._streamed[name], place)
                written.add(place)
            except Exception as error:  # raised by `completed`, not in the sweep
                self._error = error

    def _opened(self) -> h5py.File:
        if self._file is None:
            self._file = self._stack.enter_context(self._new())
        return self._file

    def agrees_with(self, values: Mapping[str, Any]) -> bool:
        """Whether each dataset started so far holds the array of that name in `values`."""
        return all(values.get(name) is self._streamed[name] for name in self._started)

    @contextmanager
    def completed(self) -> Iterator[h5py.File]:
        """The file, to write what it lacks. It is renamed if the block ends well. Raises earlier errors."""
        with self._ending():
            if self._error is not None:
                raise self._error
            yield self._opened()

    def complete_dataset(self, name: str, values: Any) -> h5py.Dataset:
        """Write a dataset; of one that was streamed, only the missing blocks. Returns it."""
        if name not in self._started:
            return write_blocks(self._opened(), name, values)
        array, (dataset, written) = self._streamed[name], self._started[name]
        for place in np.ndindex(*array.streams.shape):
            if place not in written:
                write_block(dataset, array, place)
        write_checksums(dataset, array)
        return dataset

    def discard(self) -> None:
        """Remove the file; errors are ignored."""
        with suppress(Exception), self._ending():
            raise _Discarded

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """End streaming; on leaving, close the file and detach from the arrays.

        Without that, arrays and writer would keep each other in memory until the next garbage collection.
        """
        with self._lock, ExitStack() as ending:
            self._ended = True
            ending.callback(self._release)
            ending.push(self._stack)
            yield

    def _release(self) -> None:
        for array in self._streamed.values():
            array.listeners.clear()
        self._streamed.clear()
        self._started.clear()
        self._error = None
