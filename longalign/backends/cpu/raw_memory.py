"""Raw loads and stores for the kernels, and atomics for the threads that share a work list.

Numba's indexing wraps negative indices, which costs a select for each access and hides from LLVM that
addresses are consecutive. An array passed to a callee is reference-counted, which prevents vectorisation. The
kernels therefore use pointers, without bounds checks: every index must be inside its array.

The atomics are those of LLVM, on int64, and are correct on every architecture.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types

from longalign.backends.cpu.jit import intrinsic

Emitted = tuple[Any, Any]


@intrinsic
def pointer(typing: Any, array: Any) -> Emitted:
    """The address of a contiguous array's first element."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, args[0]).data

    return types.CPointer(array.dtype)(array), emit


def make_copy(count: int) -> Callable[..., None]:
    """A function that copies `count` elements from one address to another as one vector."""

    @intrinsic
    def copy(typing: Any, target: Any, source: Any) -> Emitted:
        def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(context.get_data_type(target.dtype), count).as_pointer()
            to, of = (builder.bitcast(address, vector) for address in args)
            size = context.get_abi_sizeof(context.get_data_type(target.dtype))
            builder.store(builder.load(of, align=size), to, align=size)
            return context.get_dummy_value()

        return types.void(target, source), emit

    return copy


@intrinsic
def advance(typing: Any, address: Any, count: Any) -> Emitted:
    """The address `count` elements further on."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.gep(args[0], [args[1]], inbounds=True)

    return address(address, types.int64), emit


@intrinsic
def load(typing: Any, address: Any, index: Any) -> Emitted:
    """The element at `index`, which is not checked."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.gep(args[0], [args[1]], inbounds=True))

    return address.dtype(address, types.int64), emit


@intrinsic
def store(typing: Any, address: Any, index: Any, value: Any) -> Emitted:
    """Write the element at `index`, which is not checked."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[2], builder.gep(args[0], [args[1]], inbounds=True))
        return context.get_dummy_value()

    return types.void(address, types.int64, address.dtype), emit


@intrinsic
def load_acquire(typing: Any, address: Any, index: Any) -> Emitted:
    """Load a number with acquire semantics: writes before the matching release are visible afterwards."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load_atomic(builder.gep(args[0], [args[1]]), "acquire", 8)

    return types.int64(types.CPointer(types.int64), types.int64), emit


@intrinsic
def store_release(typing: Any, address: Any, index: Any, value: Any) -> Emitted:
    """Store a number with release semantics: a thread that acquires it sees all earlier writes."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store_atomic(args[2], builder.gep(args[0], [args[1]]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.CPointer(types.int64), types.int64, types.int64), emit


@intrinsic
def fetch_add(typing: Any, address: Any, index: Any, value: Any) -> Emitted:
    """Add atomically to a shared number; returns its previous value."""

    def emit(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.atomic_rmw("add", builder.gep(args[0], [args[1]]), args[2], "monotonic")

    return types.int64(types.CPointer(types.int64), types.int64, types.int64), emit
