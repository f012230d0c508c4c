"""The names of the files in a store's directory, and the rules for other files in it.

Only temporary files of this program are removed unasked, and only where this program makes them: in the
directory itself, in `tiles` and in `pieces`. Links are not followed.
"""

from __future__ import annotations

import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from longalign.errors import StoreError
from longalign.store.files import final_name, kind_of

_FOLDERS = ("tiles", "pieces")
#: Names in a store whose creation was interrupted.
_BEGINNINGS = {"lock", *_FOLDERS, "sequences.h5"}
#: Names in a complete store.
OWN_NAMES = frozenset({*_BEGINNINGS, "manifest.json", "path.h5"})
#: The name of the list of pairs in a directory of many stores.
LIST_NAME = "pairs.json"

#: Final names of temporary files, by folder. The empty name is that of a mark (`DirectoryStore.marked`).
_TEMPORARIES = {
    ".": re.compile(r"|manifest\.json|sequences\.h5|path\.h5"),
    "tiles": re.compile(r"r\d{5,}c\d{5,}\.h5"),
    "pieces": re.compile(r"p\d{6,}\.h5"),
}


def tile_name(row: int, col: int) -> str:
    return f"tiles/r{row:05d}c{col:05d}.h5"


def piece_name(number: int) -> str:
    return f"pieces/p{number:06d}.h5"


def refuse_foreign(path: Path) -> None:
    """Raise StoreError if a directory without a manifest holds what no interrupted `create` leaves."""
    with os.scandir(path) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.name in _FOLDERS:
                ours = entry.is_dir(follow_symlinks=False) and not any(Path(entry).iterdir())
            else:
                ours = entry.name in _BEGINNINGS or _is_temporary(entry, ".")
                ours = ours and entry.is_file(follow_symlinks=False)
            if not ours:
                raise StoreError(f"{path}: neither empty nor a store: it holds {entry.name}")


def make_folders(path: Path) -> None:
    """Make the missing folders. Raises StoreError if the name of one is taken by something else."""
    for folder in (path / name for name in _FOLDERS):
        try:
            folder.mkdir(exist_ok=True)
        except FileExistsError:
            raise StoreError(f"{folder}: is {kind_of(folder.lstat())}, not a directory") from None


def remove_temporaries(path: Path) -> None:
    """Remove the temporary files of interrupted writes, as far as the system permits."""
    for folder in _TEMPORARIES:
        with suppress(OSError), os.scandir(path / folder) as entries:
            if stat.S_ISLNK((path / folder).lstat().st_mode) and folder != ".":
                continue
            for entry in entries:
                if _is_temporary(entry, folder) and entry.is_file(follow_symlinks=False):
                    with suppress(OSError):
                        Path(entry).unlink()


def _is_temporary(entry: os.DirEntry[str], folder: str) -> bool:
    name = final_name(entry.name)
    return name is not None and _TEMPORARIES[folder].fullmatch(name) is not None
