"""Compiled kernels on disk, so that only the first run on a machine pays for the compiler.

Numba's own cache compares the file of the compiled function only: edit a function it calls in
another file, and the old machine code runs. It also keys a closure on its pickled cells, which differ
from process to process when the cells hold compiled functions, as they do here. This cache is keyed
on what really decides the code: a digest of every source that goes into a kernel and the versions of
the compiler in the directory's name, and the kernel's configuration in the key. Numba adds the
argument types and the CPU's name and features.

The directory is `$XDG_CACHE_HOME/longalign` or `~/.cache/longalign`. Where it cannot be written or
read, kernels are compiled anew; nothing else changes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import llvmlite
import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

import longalign


@cache
def cache_directory() -> Path:
    """Where the kernels of this version of the sources and of the compiler lie."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(home) if Path(home).is_absolute() else Path.home() / ".cache"
    return root / "longalign" / f"cpu-{_digest()}"


def _digest() -> str:
    """A digest of everything that a kernel is compiled from: the recurrence, this package, the compiler."""
    package = Path(longalign.__file__).parent
    digest = hashlib.sha256(f"numba {numba.__version__} llvmlite {llvmlite.__version__}".encode())
    for source in [package / "recurrence.py", *sorted((package / "backends" / "cpu").glob("*.py"))]:
        digest.update(source.name.encode() + b"\0" + source.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


class _Locator(_CacheLocator):  # type: ignore[misc]
    """Tells Numba to keep a function in `cache_directory`, whose name already vouches for freshness."""

    def __init__(self, py_file: str) -> None:
        self._py_file = py_file  # read by numba when it warns

    def get_cache_path(self) -> str:
        return str(cache_directory())

    def get_source_stamp(self) -> str:
        return ""

    def get_disambiguator(self) -> str:
        return ""

    @classmethod
    def from_function(cls, py_func: Callable[..., Any], py_file: str) -> _Locator:
        return cls(py_file)


class _Files(CompileResultCacheImpl):  # type: ignore[misc]
    _locator_classes = (_Locator,)


class KernelCache(FunctionCache):  # type: ignore[misc]
    """Numba's cache of one function, keyed on a stable text instead of the pickled closure.

    A file that cannot be written is not kept, and one that cannot be read, whatever is wrong with it,
    is compiled again.
    """

    _impl_class = _Files

    def __init__(self, function: Callable[..., Any], key: str) -> None:
        super().__init__(function)
        self._key = key

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        with suppress(Exception):
            return super().load_overload(sig, target_context)
        return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return sig, codegen.magic_tuple(), self._key
