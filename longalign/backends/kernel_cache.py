"""The cache of compiled kernels on disk. Only the first run on a machine has to compile them.

Numba's own cache is not used, for three reasons. It compares only the file of the compiled function. After an
edit of a function in another file that this one calls, the old machine code would still run. It keys a
closure on its pickled cells, which differ from process to process if they hold compiled functions, as they do
here. Two processes that save different entries at the same time can leave an index that points to the other
process's machine code.

This cache names its directory after a digest of everything that determines the machine code: all sources of
the kernels, the versions and settings of the compiler, and the hardware. Each kernel has one file there,
named after its configuration. Two processes that write the same file therefore write the same content.

The directory is inside `$XDG_CACHE_HOME/longalign` or `~/.cache/longalign`. If it cannot be read or written,
kernels are compiled again, and a run says so; nothing else changes.
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

#: Sources of the kernels of every back end, besides its own modules. Kernels use a few modules of these
#: packages. All count: a kernel that is compiled once more than needed costs less than a list to be kept.
_SHARED = (
    "model",
    "pruning",
    "backends/kernel_cache.py",
    "backends/trace_table.py",
    "backends/substitution_tables.py",
)

_CHECKSUM_BYTES = sha256().digest_size


def why_not_writable() -> str | None:
    """Why compiled kernels cannot be kept on disk, in words; None if they can."""
    if is_writable():
        return None
    try:
        return f"{_root()} cannot be written"
    except RuntimeError:
        return "this user has no home directory"


def is_writable() -> bool:
    """Whether compiled kernels can be stored on disk."""
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
    """The directory of the kernels of the back end `target`, compiled from the present sources.

    `compiler` names the compiler's versions, its settings and the hardware.
    """
    digest = sha256(f"{compiler}, Python {platform.python_version()}".encode())
    for source in _sources(target):
        name = source.relative_to(_PACKAGE).as_posix()
        digest.update(b"\0" + name.encode() + b"\0" + source.read_bytes())
    return _root() / f"{target}-{digest.hexdigest()[:16]}"


def settings(config: Any, names: Iterable[str]) -> str:
    """The names and values of a compiler's settings as text.

    Settings are a part of the key, so NUMBA_OPT=0 in one run does not slow down later runs.
    """
    return ", ".join([f"{name} {getattr(config, name)}" for name in names])


def _sources(target: str) -> list[Path]:
    paths = [_PACKAGE / name for name in (*_SHARED, f"backends/{target}")]
    return [file for path in paths for file in ([path] if path.is_file() else sorted(path.rglob("*.py")))]


class KernelCache(ABC):
    """The cache of a dispatcher. Numba queries it before it compiles a function, and then saves the result.

    `key` is unique among the functions of a back end. A file that cannot be written is skipped. A file that
    cannot be read, for any reason, is replaced.
    """

    def __init__(self, key: str) -> None:
        self._key = key

    @abstractmethod
    def directory(self) -> Path:
        """The `cache_directory` for the present sources, compiler and hardware."""

    @abstractmethod
    def pack(self, compiled: Any) -> bytes:
        """The file content for a compiled function."""

    @abstractmethod
    def unpack(self, packed: bytes, target_context: Any) -> Any:
        """The compiled function from its file content, which another process may have packed."""

    def holds(self, signature: Any) -> bool:
        """Whether there is an undamaged file for a signature."""
        try:
            return self._read(signature) is not None
        except (OSError, RuntimeError):  # RuntimeError: this user has no home
            return False

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """Called by Numba. Returns None if Numba has to compile."""
        try:
            packed = self._read(signature)
            return None if packed is None else self.unpack(packed, target_context)
        except Exception:  # damaged or foreign content may raise any exception
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Called by Numba. Another process sees either the complete file or no file."""
        packed = self.pack(compiled)
        with suppress(OSError, RuntimeError):  # RuntimeError: this user has no home
            path = self._path(signature)
            path.parent.mkdir(parents=True, exist_ok=True)
            # A process number would not be unique: several machines may share a home directory.
            temporary = path.with_name(f"{path.name}.{uuid4().hex}")
            try:
                temporary.write_bytes(sha256(packed).digest() + packed)
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)

    def _read(self, signature: Any) -> bytes | None:
        """The packed content of a file, or None if it is damaged. Raises OSError if there is no file."""
        content = self._path(signature).read_bytes()
        checksum, packed = content[:_CHECKSUM_BYTES], content[_CHECKSUM_BYTES:]
        return packed if checksum == sha256(packed).digest() else None

    def _path(self, signature: Any) -> Path:
        """The file for one signature. Its name is a digest, which every file system accepts."""
        return self.directory() / sha256(f"{self._key} {signature}".encode()).hexdigest()[:32]
