"""JSON files that say what they are and reveal damage: the manifest of a store, and the list of many pairs.

The first fields are `format` and `version`. The last one, `sha256`, is the digest of all others.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from longalign.errors import DamagedStore, InputError, StoreError
from longalign.model.json_fields import shown
from longalign.store.files import atomic_path, no_check, open_regular_file

T = TypeVar("T")

#: Unlike other files of a store, these cannot be made again from the run.
ADVICE = "; begin a new store"


@dataclass(frozen=True, slots=True)
class SealedJson:
    """A kind of such files. `what` is its name in messages. No file of it has more than `max_bytes`.

    Files of all `versions` are read. The last one is written.
    """

    what: str
    format: str
    versions: tuple[int, ...]
    max_bytes: int

    def sealed(self, fields: dict[str, Any]) -> dict[str, Any]:
        """The content of a file with these fields."""
        content = {"format": self.format, "version": self.versions[-1], **fields}
        return {**content, "sha256": digest(content)}

    def write(self, path: Path, fields: dict[str, Any], check: Callable[[], None] = no_check) -> None:
        """Write a file under a temporary name, call `check`, and rename it. Raises StoreError."""
        with atomic_path(path, check) as temporary, temporary.open("x") as file:
            file.write(json.dumps(self.sealed(fields), indent=2) + "\n")

    def read(self, path: Path, parse: Callable[[dict[str, Any]], T]) -> T:
        """What `parse` makes of the content of a file, without its digest. InputError from it means damage.

        Raises DamagedStore if the file is damaged, StoreError if it is of another format or version, and
        OSError if it cannot be read.
        """
        with open_regular_file(path) as file:
            text = file.read(self.max_bytes + 1)
        if len(text) > self.max_bytes:
            raise DamagedStore(
                f"{path}: damaged: larger than {self.what}, which has at most {self.max_bytes:,} "
                f"bytes{ADVICE}"
            )
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise DamagedStore(f"{path}: damaged: it is not JSON{ADVICE}") from error
        try:
            if not isinstance(content, dict) or content.get("format") != self.format:
                raise StoreError(f"{path}: not {self.what}")
            version = content.get("version")
            if type(version) is not int or version not in self.versions:
                known = " and ".join(map(str, self.versions))
                raise StoreError(f"{path}: version {shown(version)}; this program reads {known}")
            if content.pop("sha256", None) != digest(content):
                raise DamagedStore(f"{path}: damaged: its SHA-256 differs from the one in it{ADVICE}")
            return parse(content)
        except (ValueError, RecursionError, InputError) as error:
            raise DamagedStore(f"{path}: damaged: {error}{ADVICE}") from error


def digest(fields: dict[str, Any]) -> str:
    """SHA-256 of the fields of a JSON object. It depends neither on their order nor on white space."""
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()
