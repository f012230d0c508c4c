"""A directory of many stores, one for each of many pairs, and the list of the pairs.

    pairs.json       what was asked for, and the pairs; missing where Python functions were called
    000000/          the store of the first pair, once its run has started: see `longalign.store.directory`
    000001/          that of the second one, and so on
    lock             held by the one process that runs

The stores are independent of one another and hold all that is known about their pairs. A run that goes on
opens them in the order of the list. It only reads those of finished pairs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from itertools import zip_longest
from pathlib import Path
from typing import Any, get_args

from longalign.errors import InputError, OtherRun, StoreError, reason_of
from longalign.model.json_fields import Fields, shown
from longalign.model.scoring import Scoring
from longalign.store.files import final_name, no_check
from longalign.store.layout import LIST_NAME, MANIFEST_NAME, is_store, naming_place, remove_temporaries
from longalign.store.lock import Lock
from longalign.store.manifest import Command
from longalign.store.sealed_json import SealedJson

_LIST = SealedJson("a list of pairs of longalign", "longalign-pairs", versions=(1,), max_bytes=1 << 30)

_FOLDER = re.compile(r"\d{6,}")


@dataclass(frozen=True, slots=True)
class PairList:
    """Many pairs, and what is wanted of them.

    - `command`: "align" or "score".
    - `options`: the options of that command, with absolute paths; `scoring` is that of `Scoring.to_json`.
    - `pairs`: the selectors of the query's and the target's record, for each pair.
    - `program`: the version of longalign that wrote the list.
    """

    command: Command
    options: dict[str, Any]
    pairs: tuple[tuple[str, str], ...]
    program: str

    def write(self, folder: Path, check: Callable[[], None] = no_check) -> None:
        """Write the file of the list, see `SealedJson.write`. Raises StoreError."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        _LIST.write(folder / LIST_NAME, values, check)

    @classmethod
    def read(cls, folder: Path) -> PairList:
        """The list in a directory. Raises StoreError if it is damaged, or of another format or version."""
        path = folder / LIST_NAME
        try:
            return _LIST.read(path, cls._from_json)
        except OSError as error:
            raise StoreError(f"{path}: cannot be read: {reason_of(error)}") from error

    @classmethod
    def _from_json(cls, content: dict[str, Any]) -> PairList:
        given = Fields(content)
        options, pairs = given.any("options"), given.items("pairs")
        if not isinstance(options, dict):
            raise InputError(f"options: must be an object, not {shown(options)}")
        Scoring.from_json(Fields(options, "options").any("scoring"))  # raises InputError
        for pair in pairs:
            if not isinstance(pair, list) or [type(name) for name in pair] != [str, str]:
                raise InputError(f"pairs: must be lists of two names, not {shown(pair)}")
        return cls(
            command=given.choice("command", get_args(Command)),
            options=options,
            pairs=tuple((query, target) for query, target in pairs),
            program=given.text("program"),
        )


class PairStores:
    """The directory of the stores of many pairs, locked: `with PairStores.open(folder) as stores`."""

    def __init__(self, folder: Path, lock: Lock) -> None:
        self.folder = folder
        self._lock = lock

    @staticmethod
    def are_in(folder: Path) -> bool:
        """Whether a directory is not a store, but has a list of pairs."""
        return _has_list(folder) and not is_store(folder)

    @classmethod
    @contextmanager
    def open(cls, folder: Path) -> Iterator[PairStores]:
        """Make the directory, if there is none, and hold its lock.

        Raises StoreError if it holds something else, cannot be written, or is in use.
        """
        with naming_place(folder):
            folder.mkdir(parents=True, exist_ok=True)
            _refuse_foreign(folder)
            lock = Lock(folder)
        try:
            remove_temporaries(folder)
            yield cls(folder, lock)
        finally:
            lock.release()

    def note(self, asked: PairList, may_differ: Collection[str]) -> None:
        """Note what is asked for now; `resume` repeats it.

        If scores are asked for in the stores of alignments, `resume` still makes the alignments. Raises
        StoreError if the stores belong to other pairs, or if an option is another one than it was, unless it
        is among those that `may_differ`.
        """
        if _has_list(self.folder):
            noted = PairList.read(self.folder)
            _refuse_other(self.folder, noted, asked, may_differ)
            if noted == asked or (noted.command, asked.command) == ("align", "score"):
                return
        asked.write(self.folder, self._lock.check)

    def store(self, number: int) -> Path:
        """The store of the pair with this number, counted from 0."""
        return pair_store(self.folder, number)


def pair_store(folder: Path, number: int) -> Path:
    """The store of the pair with this number, counted from 0, in a directory of such stores."""
    return folder / f"{number:06d}"


def is_pair_name(name: str) -> bool:
    """Whether a file or folder of this name is the list of pairs or the store of one."""
    return name == LIST_NAME or _FOLDER.fullmatch(name) is not None


def _has_list(folder: Path) -> bool:
    return os.path.exists(folder / LIST_NAME)  # noqa: PTH110 - Path.exists raises EACCES


def _refuse_foreign(folder: Path) -> None:
    """Raise StoreError if a directory holds anything but stores of pairs and the list of these."""
    if _has_list(folder):
        return
    for name in sorted(entry.name for entry in os.scandir(folder)):
        if name == MANIFEST_NAME:
            raise StoreError(f"{folder}: is the store of a single pair")
        if name != "lock" and final_name(name) != LIST_NAME and not is_pair_name(name):
            raise StoreError(f"{folder}: neither empty nor a directory of many stores: it holds {name}")


def _refuse_other(folder: Path, noted: PairList, asked: PairList, may_differ: Collection[str]) -> None:
    for number, (there, now) in enumerate(zip_longest(noted.pairs, asked.pairs), 1):
        if there != now:
            raise OtherRun(
                f"{folder}: the stores belong to other pairs: pair {number:,} is {_in_words(there)} there, "
                f"{_in_words(now)} now"
            )
    differing = [
        f"{name} is {_option(name, noted.options.get(name))} there and {_option(name, value)} now"
        for name, value in asked.options.items()
        if name not in may_differ and noted.options.get(name) != value
    ]
    if differing:
        raise OtherRun(f"{folder}: the stores belong to another run: {'; '.join(differing)}")


def _option(name: str, value: Any) -> str:
    """The value of an option in words."""
    if name != "scoring":
        return str(value)
    scoring = Scoring.from_json(value)
    return f"{scoring.letter_scores}, {scoring.convention},"


def _in_words(pair: tuple[str, str] | None) -> str:
    return "missing" if pair is None else " and ".join(pair)
