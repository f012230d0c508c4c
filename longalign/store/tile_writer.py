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

from longalign.store.blocks import begin_blocks, end_blocks, write_block, write_blocks
from longalign.store.deflated import DeflatedArray
from longalign.store.hdf5_filters import Place

if TYPE_CHECKING:
    import h5py


class _Abandoned(Exception):
    """Ends a file that is not wanted."""


class TileWriter:
    """A file that `new` gives when there is something to write. Blocks may come from several threads.

    An error before the end is raised at the end, by `finished`.
    """

    def __init__(self, new: Callable[[], AbstractContextManager[h5py.File]]) -> None:
        self._new, self._lock, self._stack = new, Lock(), ExitStack()
        self._file: h5py.File | None = None
        self._followed: dict[str, DeflatedArray] = {}
        self._begun: dict[str, tuple[h5py.Dataset, set[Place]]] = {}
        self._error: Exception | None = None
        self._over = False

    def follow(self, name: str, array: DeflatedArray) -> None:
        """From now on, write the blocks of an array to the dataset of this name as they are put there."""
        self._followed[name] = array
        array.followers.append(partial(self._write, name))

    def _write(self, name: str, place: Place) -> None:
        with self._lock:
            if self._over or self._error is not None:
                return
            try:
                if name not in self._begun:
                    self._begun[name] = begin_blocks(self._opened(), name, self._followed[name]), set()
                dataset, written = self._begun[name]
                write_block(dataset, self._followed[name], place)
                written.add(place)
            except Exception as error:  # not a matter of the sweep
                self._error = error

    def _opened(self) -> h5py.File:
        if self._file is None:
            self._file = self._stack.enter_context(self._new())
        return self._file

    def is_of(self, values: Mapping[str, Any]) -> bool:
        """Whether the datasets that have been begun are those of arrays among these, by their names."""
        return all(values.get(name) is self._followed[name] for name in self._begun)

    @contextmanager
    def finished(self) -> Iterator[h5py.File]:
        """The file, for the rest; it is whole when the block ends well. Raises what has gone wrong so far."""
        with self._ending():
            if self._error is not None:
                raise self._error
            yield self._opened()

    def finish(self, name: str, values: Any) -> h5py.Dataset:
        """A whole dataset in the file: a new one, or one that has been begun, with what it lacks."""
        if name not in self._begun:
            return write_blocks(self._opened(), name, values)
        array, (dataset, written) = self._followed[name], self._begun[name]
        for place in np.ndindex(*array.streams.shape):
            if place not in written:
                write_block(dataset, array, place)
        end_blocks(dataset, array)
        return dataset

    def abandon(self) -> None:
        """Leave nothing of the file, whatever has gone wrong with it."""
        with suppress(Exception), self._ending():
            raise _Abandoned

    @contextmanager
    def _ending(self) -> Iterator[None]:
        """Nothing is written of its own accord from here on. In the end the file is closed; and arrays let go
        of it, as they would keep one another in memory."""
        with self._lock, ExitStack() as ending:
            self._over = True
            ending.callback(self._let_go)
            ending.push(self._stack)
            yield

    def _let_go(self) -> None:
        for array in self._followed.values():
            array.followers.clear()
        self._followed.clear()
        self._begun.clear()
        self._error = None
