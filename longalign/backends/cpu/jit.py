"""How this back end compiles functions, with types for the type checker."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import numba
from numba.core import cgutils, types
from numba.extending import intrinsic as numba_intrinsic

from longalign.backends.compilation import compile_or_load, kernel_lock
from longalign.backends.cpu.kernel_cache import CpuCache
from longalign.errors import BackendError
from longalign.system.gc_pause import collector_at_rest
from longalign.system.threads import in_own_thread

Function = TypeVar("Function", bound=Callable[..., Any])
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def inline_by_llvm(body: Function) -> Function:
    """Let LLVM inline a function into its callers: loops that contain a call are not vectorised."""
    compiled: Function = numba.njit(forceinline=True)(body)
    return compiled


def inline_by_numba(body: Function) -> Function:
    """Let Numba inline a function into its callers. The function is then not compiled separately."""
    compiled: Function = numba.njit(inline="always")(body)
    return compiled


def compile_entry(body: Function, key: str, examples: Sequence[Any]) -> Function:
    """Compile a function that Python calls with arguments of these types. The cache keeps it under `key`.

    The function runs without the GIL, and must not allocate. Raises BackendError if it does not compile.
    """
    compiled, _ = _compile(body, key, examples)
    return compiled


def compile_callee(body: Callable[..., Any], key: str, examples: Sequence[Any]) -> int:
    """Like `compile_entry`, for a function that compiled code calls. Returns its address, for `call_address`.

    With calls by address, each function is compiled once. With plain calls, LLVM would optimise the callee
    again in each caller.
    """
    _, address = _compile(body, key, examples, no_cpython_wrapper=True)
    return address


def _compile(body: Function, key: str, examples: Sequence[Any], **options: bool) -> tuple[Function, int]:
    """A compiled function, and its address.

    Reference counting and wrappers for other callers are omitted. They are not used and take long to compile.
    """
    compiled = in_own_thread(lambda: _dispatcher(body, key, options))
    signature = tuple(numba.typeof(example) for example in examples)

    def compile_it() -> int:
        try:
            with collector_at_rest():
                compiled.compile(signature)
            made = compiled.overloads[signature]
            address: int = made.library.get_pointer_to_function(made.fndesc.llvm_func_name)
        except Exception as failure:  # Numba and LLVM each have their own kinds of error
            raise BackendError(f"cpu: {key} does not compile: {failure}") from failure
        return address

    return compiled, compile_or_load("cpu", lambda: compiled._cache.holds(signature), compile_it)


def _dispatcher(body: Function, key: str, options: dict[str, bool]) -> Any:
    """Numba's dispatcher of a function, not compiled yet. The first one initialises the compiler."""
    compiled = numba.njit(nogil=True, _nrt=False, no_cfunc_wrapper=True, **options)(body)
    compiled._cache = CpuCache(key)
    return compiled


def compiled_once(make: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Like `functools.cache`, but thread-safe: concurrent calls wait for the first one to finish."""
    kept, making = cache(make), threading.Lock()

    @wraps(make)
    def get(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with kernel_lock(making, "cpu"):
            return kept(*args, **kwargs)  # type: ignore[arg-type]  # all arguments are hashable

    return get


def intrinsic(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare a function that emits LLVM code."""
    emitter: Callable[..., Any] = numba_intrinsic(function)
    return emitter


@intrinsic
def call_address(typing: Any, address: Any, arguments: Any) -> tuple[Any, Any]:
    """Call the function at an address from `compile_callee` with a tuple of arguments. Returns its bool.

    The types of the arguments must be those that the function was compiled for.
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
