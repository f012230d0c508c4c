"""The file of a tile, which blocks enter as soon as they are deflated: while the tile is being swept.

When the sweep has ended, little is left to be written, unless lines are wider than those who began expected:
then all is written anew. The file has its name only when it is whole.
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
    """Ends a file that is not wanted."""


class TileWriter:
    """A file that `new` gives when there is something to write. Blocks may come from several threads.

    An error before the end is raised at the end, by `completed`.
    """

    def __init__(self, new: Callable[[], AbstractContextManager[h5py.File]]) -> None:
        self._new, self._lock, self._stack = new, Lock(), ExitStack()
        self._file: h5py.File | None = None
        self._streamed: dict[str, DeflatedArray] = {}
        self._started: dict[str, tuple[h5py.Dataset, set[BlockIndex]]] = {}
        self._error: Exception | None = None
        self._ended = False

    def stream(self, name: str, array: DeflatedArray) -> None:
        """From now on, write the blocks of an array to the dataset of this name as they are put there."""
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
            except Exception as error:  # not a matter of the sweep
                self._error = error

    def _opened(self) -> h5py.File:
        if self._file is None:
            self._file = self._stack.enter_context(self._new())
        return self._file

    def agrees_with(self, values: Mapping[str, Any]) -> bool:
        """Whether the datasets that have been begun are those of arrays among these, by their names."""
        return all(values.get(name) is self._streamed[name] for name in self._started)

    @contextmanager
    def completed(self) -> Iterator[h5py.File]:
        """The file, for the rest; it is whole when the block ends well. Raises what has gone wrong so far."""
        with self._ending():
            if self._error is not None:
                raise self._error
            yield self._opened()

    def complete_dataset(self, name: str, values: Any) -> h5py.Dataset:
        """A whole dataset in the file: a new one, or one that has been begun, with what it lacks."""
        if name not in self._started:
            return write_blocks(self._opened(), name, values)
        array, (dataset, written) = self._streamed[name], self._started[name]
        for place in np.ndindex(*array.streams.shape):
            if place not in written:
                write_block(dataset, array, place)
        write_checksums(dataset, array)
        return dataset

    def discard(self) -> None:
        """Leave nothing of the file, whatever has gone wrong with it."""
        with suppress(Exception), self._ending():
            raise _Discarded

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Nothing is written of its own accord from here on. In the end the file is closed; and arrays let go
        of it, as they would keep one another in memory."""
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
