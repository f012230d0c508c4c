"""The file of a tile, which blocks enter as soon as they are deflated: while the tile is being swept.

When the sweep has ended, little is left to be written. The file has its name only when it is whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any

from longalign.errors import StoreError
from longalign.store.blocks import begin_blocks, end_blocks, write_block, write_blocks
from longalign.store.deflated import DeflatedArray
from longalign.store.filters import Place

if TYPE_CHECKING:
    import h5py


class _Abandoned(Exception):
    """Ends a file that is not wanted."""


class BegunFile:
    """A file that `new` gives when there is something to write. Blocks may come from several threads.

    What goes wrong before the end is raised at the end, by `finished`.
    """

    def __init__(self, new: Callable[[], AbstractContextManager[h5py.File]]) -> None:
        self._new, self._lock, self._stack = new, Lock(), ExitStack()
        self._file: h5py.File | None = None
        self._begun: dict[str, tuple[h5py.Dataset, DeflatedArray]] = {}
        self._error: Exception | None = None

    def follow(self, name: str, array: DeflatedArray) -> None:
        """From now on, write the blocks of an array to the dataset of this name as they are put there."""
        array.followers.append(partial(self._write, name, array))

    def _write(self, name: str, array: DeflatedArray, place: Place) -> None:
        with self._lock:
            if self._error is not None:
                return
            try:
                if name not in self._begun:
                    self._begun[name] = begin_blocks(self._opened(), name, array), array
                write_block(self._begun[name][0], array, place)
            except Exception as error:  # not a matter of the sweep
                self._error = error

    def _opened(self) -> h5py.File:
        if self._file is None:
            self._file = self._stack.enter_context(self._new())
        return self._file

    def is_of(self, values: Mapping[str, Any]) -> bool:
        """Whether the datasets that have been begun are those of arrays among these, by their names."""
        return all(values.get(name) is array for name, (_, array) in self._begun.items())

    @contextmanager
    def finished(self) -> Iterator[h5py.File]:
        """The file, for the rest; it is whole when the block ends well. Raises what has gone wrong so far."""
        with self._lock, ExitStack() as ending:
            ending.callback(self._let_go)
            ending.push(self._stack)
            if self._error is not None:
                raise self._error
            yield self._opened()

    def finish(self, name: str, values: Any) -> h5py.Dataset:
        """A whole dataset in the file: a new one, or one that has been begun and lacks no block."""
        if name not in self._begun:
            return write_blocks(self._opened(), name, values)
        dataset, array = self._begun[name]
        end_blocks(dataset, array)
        return dataset

    def abandon(self) -> None:
        """Leave nothing of the file."""
        self._error = _Abandoned()
        with suppress(_Abandoned, StoreError), self.finished():
            pass

    def _let_go(self) -> None:
        """Arrays and what follows them would keep one another in memory."""
        for _, array in self._begun.values():
            array.followers.clear()
        self._begun.clear()
