"""The names of the files in a store's directory, and the rules for other files in it.

A run over both strands of the query has a store for each, in the folders `plus` and `minus` of one directory.
All that the run needs stands in both manifests. Two stores of two runs, so named, can be resumed as one run.

Only temporary files of this program are removed unasked, and only where this program makes them: in the
directory itself, in `tiles` and in `pieces`. Links are not followed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from longalign.errors import OtherRun, StoreError, reason_of
from longalign.model.strand import STRANDS_OF, Strand, StrandChoice
from longalign.store.files import final_name, kind_of

#: The names of the manifest, and of the copies of the sequences.
MANIFEST_NAME, SEQUENCES_NAME = "manifest.json", "sequences.h5"
#: The name of the list of tiles that a pruned run has left out.
LEFT_OUT_NAME = "left_out.h5"
#: The name of the anchors of the alignment that seeds have found, with which a pruned run leaves out cells.
SEEDS_NAME = "seeds.h5"
#: The name of the row limits of such a run.
ROW_LIMITS_NAME = "row_limits.h5"
#: The names of the path of the best alignment, and of the next best alignments.
PATH_NAME, NEXT_BEST_NAME = "path.h5", "next_best.h5"
_FOLDERS = ("tiles", "pieces")
#: Names in a store whose creation was interrupted.
_BEGINNINGS = {"lock", *_FOLDERS, SEQUENCES_NAME, SEEDS_NAME, ROW_LIMITS_NAME}
#: Names of files in a store that are written under a temporary name first, but for those in its folders.
_WRITTEN = (
    MANIFEST_NAME,
    SEQUENCES_NAME,
    SEEDS_NAME,
    ROW_LIMITS_NAME,
    LEFT_OUT_NAME,
    PATH_NAME,
    NEXT_BEST_NAME,
)
#: Names in a complete store, and in the directory of the stores of both strands.
OWN_NAMES = frozenset({*_BEGINNINGS, *_WRITTEN, *STRANDS_OF["both"]})
#: The name of the list of pairs in a directory of many stores.
LIST_NAME = "pairs.json"

#: The names that `tile_name` gives, without the folder; the groups are the row and the column.
TILE_NAME = re.compile(r"r(\d{5}|[1-9]\d{5,})c(\d{5}|[1-9]\d{5,})\.h5", re.ASCII)

#: Final names of temporary files, by folder. The empty name is that of a mark (`DirectoryStore.marked`).
_TEMPORARIES = {
    ".": re.compile("|".join(["", *map(re.escape, (*_WRITTEN, LIST_NAME))])),
    "tiles": TILE_NAME,
    "pieces": re.compile(r"p\d{6,}\.h5"),
}


def tile_name(row: int, col: int) -> str:
    return f"tiles/r{row:05d}c{col:05d}.h5"


def piece_name(number: int) -> str:
    return f"pieces/p{number:06d}.h5"


def strand_folder(path: Path, strand: Strand) -> Path:
    """The store of a strand, where the directory `path` has one for each."""
    return path / strand


def holds_both_strands(path: Path) -> bool:
    """Whether a directory is not a store, but has one for each strand; that of minus may not be made yet."""
    plus, minus = (strand_folder(path, strand) for strand in STRANDS_OF["both"])
    return is_store(plus) and os.path.isdir(minus) and not is_store(path)  # noqa: PTH112 - is_dir raises EACCES


def place_of_both(path: Path) -> str:
    """Where the stores of both strands are of which the one at `path` is one, for messages."""
    both = path.resolve().parent
    return str(both) if holds_both_strands(both) else "the directory of both"


def is_store(path: Path) -> bool:
    """Whether there is a store of one strand at `path`."""
    return os.path.exists(path / MANIFEST_NAME)  # noqa: PTH110 - Path.exists raises EACCES


def first_store(path: Path) -> Path:
    """The store at `path`, or, if there is one for each strand, that of plus."""
    return strand_folder(path, "plus") if holds_both_strands(path) else path


@contextmanager
def naming_place(path: Path) -> Iterator[None]:
    """Turn errors of the system, on making or opening a store at `path`, into StoreErrors that name it."""
    try:
        yield
    except OSError as error:
        place = error.filename or path
        is_taken = isinstance(error, FileExistsError | NotADirectoryError)
        if is_taken and os.path.isfile(place):  # noqa: PTH113 - Path.is_file raises EACCES
            raise StoreError(f"{place}: a file, not a directory: it cannot hold a store") from error
        raise StoreError(f"{path}: {reason_of(error)}") from error


def make_strand_folders(path: Path) -> None:
    """Make the folders for the stores of both strands. Raises StoreError if `path` holds something else."""
    if holds_both_strands(path):
        return
    with naming_place(path):
        path.mkdir(parents=True, exist_ok=True)
        _refuse_foreign_to_strands(path)
        for strand in STRANDS_OF["both"]:
            strand_folder(path, strand).mkdir(exist_ok=True)


def refuse_taken(path: Path, strand: StrandChoice) -> None:
    """Raise StoreError if a look at `path` shows that no store for this choice of strands can be made there.

    It is OtherRun if there is a store of one strand, and one of both is asked for.
    """
    if not os.path.exists(path):  # noqa: PTH110 - Path.exists raises EACCES
        return
    refuse = _refuse_foreign_to_strands if strand == "both" else refuse_foreign
    with naming_place(path):
        refuse(path)


def _refuse_foreign_to_strands(path: Path) -> None:
    if is_store(path):
        raise OtherRun(f"{path}: the store belongs to another run: it is of one strand, not of both")
    if others := sorted({*os.listdir(path)} - {*STRANDS_OF["both"]}):  # noqa: PTH208 - names only
        raise StoreError(f"{path}: neither empty nor a store: it holds {others[0]}")


def refuse_foreign(path: Path) -> None:
    """Raise StoreError if a directory without a manifest holds what no interrupted `create` leaves."""
    if os.path.exists(path / LIST_NAME):  # noqa: PTH110 - Path.exists raises EACCES
        raise StoreError(f"{path}: holds the stores of many pairs")
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
