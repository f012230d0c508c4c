"""The ways this package compiles a function, typed so that the type checker sees through them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numba
from numba.core import cgutils, types
from numba.extending import intrinsic as numba_intrinsic

from longalign.backends.cpu.cache import KernelCache

Function = TypeVar("Function", bound=Callable[..., Any])


def fuse(body: Function) -> Function:
    """Compile a function into its callers as machine code: a loop around a call is not vectorised."""
    compiled: Function = numba.njit(forceinline=True)(body)
    return compiled


def inline(body: Function) -> Function:
    """Paste a function into its callers before they are compiled, so that it is compiled only there."""
    compiled: Function = numba.njit(inline="always")(body)
    return compiled


def compile_entry(body: Function, key: str, examples: Sequence[Any]) -> tuple[Function, int]:
    """Compile a function for arguments of these types; it runs without the GIL, kept on disk under `key`.

    Returns it for Python to call, and its address for compiled functions, by `call_address`. Functions
    that meet at an address are compiled once each, where a plain call would optimise the callee again
    inside every caller.
    """
    compiled = numba.njit(nogil=True)(body)
    compiled._cache = KernelCache(body, key)
    signature = tuple(numba.typeof(example) for example in examples)
    compiled.compile(signature)
    result = compiled.overloads[signature]
    address: int = result.library.get_pointer_to_function(result.fndesc.llvm_func_name)
    return compiled, address


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that emits LLVM code."""
    emitter: Callable[..., Any] = numba_intrinsic(function)
    return emitter


@intrinsic
def call_address(typing: Any, address: Any, arguments: Any) -> tuple[Any, Any]:
    """Call the function at an address that `compile_entry` gave, with a tuple of arguments; returns bool.

    The argument types must be those that it was compiled for.
    """

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        convention, kinds = context.call_conv, tuple(arguments.types)
        values = cgutils.unpack_tuple(builder, args[1])
        function_type = convention.get_function_type(types.boolean, kinds)
        callee = builder.inttoptr(args[0], function_type.as_pointer())
        status, result = convention.call_function(builder, callee, types.boolean, kinds, values)
        with cgutils.if_unlikely(builder, status.is_error):
            convention.return_status_propagate(builder, status)
        return result

    return types.boolean(types.int64, arguments), emit
