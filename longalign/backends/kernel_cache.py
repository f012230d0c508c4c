"""Compiled kernels on disk, so that only the first run on a machine pays for the compiler.

Numba's own cache compares the file of the compiled function only: edit a function it calls in
another file, and the old machine code runs. It also keys a closure on its pickled cells, which differ
from process to process when the cells hold compiled functions, as they do here. And two processes
that save different entries at once can leave an index that points to the other's machine code.

Here the directory is named after a digest of what decides the code: every source that goes into a
kernel, the compiler's versions and settings, and the hardware it compiles for. In it, each kernel has
one file, named after its configuration, so two processes that write it write the same.

The directory is `$XDG_CACHE_HOME/longalign` or `~/.cache/longalign`. Where it cannot be written or
read, kernels are compiled anew; nothing else changes.
"""

from __future__ import annotations

import os
import platform
from abc import ABC, abstractmethod
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

_PACKAGE = Path(__file__).parents[1]

#: Sources of the kernels of every back end, in addition to the modules of the back end itself: the cell
#: recurrence, the traceback walk, and the codes of states, operations and minus infinity.
_SHARED = (
    *("model/recurrence", "model/scoring", "model/substitution_matrix", "model/boundary", "model/alignment"),
    *("backends/kernel_cache", "backends/trace_table", "backends/substitution_tables"),
)

_CHECKSUM_BYTES = sha256().digest_size


def is_writable() -> bool:
    """Whether compiled kernels can be kept on disk."""
    try:
        root = _root()
        root.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # RuntimeError: this user has no home
        return False
    return os.access(root, os.W_OK | os.X_OK)


def _root() -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(home) if Path(home).is_absolute() else Path.home() / ".cache") / "longalign"


@cache
def cache_directory(target: str, compiler: str) -> Path:
    """The directory of the kernels that `compiler` (its versions and settings, in words) makes for a back end
    of the sources as they are now."""
    digest = sha256(f"{compiler}, Python {platform.python_version()}".encode())
    for source in _sources(target):
        name = source.relative_to(_PACKAGE).as_posix()
        digest.update(b"\0" + name.encode() + b"\0" + source.read_bytes())
    return _root() / f"{target}-{digest.hexdigest()[:16]}"


def settings(config: Any, names: Iterable[str]) -> str:
    """The settings of a compiler, in words. NUMBA_OPT=0 in one run must not slow down all later runs."""
    return ", ".join([f"{name} {getattr(config, name)}" for name in names])


def _sources(target: str) -> list[Path]:
    shared = [_PACKAGE / f"{module}.py" for module in _SHARED]
    return shared + sorted((_PACKAGE / "backends" / target).rglob("*.py"))


class KernelCache(ABC):
    """A dispatcher's cache: Numba asks it before it compiles a function and gives it the result afterwards.

    `key` is unique among the functions of this back end. A file that cannot be written is skipped. One that
    cannot be read, for any reason, is replaced.
    """

    def __init__(self, key: str) -> None:
        self._key = key

    @abstractmethod
    def directory(self) -> Path:
        """The `cache_directory` of what is compiled now."""

    @abstractmethod
    def pack(self, compiled: Any) -> bytes:
        """What Numba has compiled, to be kept."""

    @abstractmethod
    def unpack(self, packed: bytes, target_context: Any) -> Any:
        """What was packed, perhaps by another process."""

    def holds(self, signature: Any) -> bool:
        """Whether there is a sound file for a signature."""
        try:
            return self._read(signature) is not None
        except (OSError, RuntimeError):  # RuntimeError: this user has no home
            return False

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Called by Numba; None makes it compile."""
        try:
            packed = self._read(signature)
            return None if packed is None else self.unpack(packed, target_context)
        except Exception:  # damaged or foreign content may raise anything
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Called by Numba. Another process sees the complete file or none."""
        packed = self.pack(compiled)
        with suppress(OSError, RuntimeError):  # RuntimeError: this user has no home
            path = self._path(signature)
            path.parent.mkdir(parents=True, exist_ok=True)
            # Not named after the process: machines may share a home.
            temporary = path.with_name(f"{path.name}.{uuid4().hex}")
            try:
                temporary.write_bytes(sha256(packed).digest() + packed)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)

    def _read(self, signature: Any) -> bytes | None:
        """What was packed; None if it has changed since. Raises OSError if there is no file."""
        content = self._path(signature).read_bytes()
        checksum, packed = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        return packed if checksum == sha256(packed).digest() else None

    def _path(self, signature: Any) -> Path:
        """The file for one signature; its name is free of what file systems may not like."""
        return self.directory() / sha256(f"{self._key} {signature}".encode()).hexdigest()[:32]
