"""The ways this package compiles a function, typed so that the type checker sees through them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba.extending import intrinsic as numba_intrinsic

from longalign.backends.cpu.cache import KernelCache

Function = TypeVar("Function", bound=Callable[..., Any])


def inline(function: Function) -> Function:
    """Compile a small function into each of its callers: a loop around a call is not vectorised."""
    compiled: Function = numba.njit(forceinline=True)(function)
    return compiled


def function(body: Function) -> Function:
    """Compile a function that other compiled functions call."""
    compiled: Function = numba.njit(body)
    return compiled


def compile_entry(function: Function, key: str) -> Function:
    """Compile a function that Python calls: without the GIL, kept on disk under `key`."""
    compiled = numba.njit(nogil=True)(function)
    compiled._cache = KernelCache(function, key)
    entry: Function = compiled
    return entry


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that emits LLVM code."""
    emitter: Callable[..., Any] = numba_intrinsic(function)
    return emitter
