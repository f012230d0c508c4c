"""Compiled kernels on disk, so that only the first run on a machine pays for the compiler.

Numba's own cache compares the file of the compiled function only: edit a function it calls in
another file, and the old machine code runs. It also keys a closure on its pickled cells, which differ
from process to process when the cells hold compiled functions, as they do here. And two processes
that save different entries at once can leave an index that points to the other's machine code.

Here the directory is named after a digest of what decides the code: every source that goes into a
kernel, the compiler's versions, and the processor it compiles for. In it, each kernel has files of its
own, named after its configuration, so whoever writes them writes the same.

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
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile, _CacheLocator
from numba.core.registry import cpu_target


@cache
def cache_directory() -> Path:
    """Where the kernels of this version of the sources and of the compiler lie."""
    home = os.environ.get("XDG_CACHE_HOME", "")
    root = Path(home) if Path(home).is_absolute() else Path.home() / ".cache"
    return root / "longalign" / f"cpu-{_digest()}"


def _digest() -> str:
    """A digest of all that a kernel is compiled from, and of what it is compiled with and for."""
    package = Path(__file__).parents[2]
    processor = cpu_target.target_context.codegen().magic_tuple()
    compiler = f"numba {numba.__version__} llvmlite {llvmlite.__version__} for {processor}"
    digest = hashlib.sha256(compiler.encode())
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
    """Numba's cache of one function, in files named after `key` instead of the pickled closure.

    A file that cannot be written is not kept, and one that cannot be read, whatever is wrong with it,
    is compiled over.
    """

    _impl_class = _Files

    def __init__(self, function: Callable[..., Any], key: str) -> None:
        super().__init__(function)
        self._key = key
        name = f"{function.__name__.strip('_')}-{hashlib.sha256(key.encode()).hexdigest()[:16]}"
        self._cache_file = IndexDataCacheFile(self.cache_path, name, source_stamp="")

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(sig, target_context)
        except Exception:
            with suppress(OSError):
                self.flush()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        with suppress(OSError):
            super().save_overload(sig, data)

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        return sig, codegen.magic_tuple(), self._key
