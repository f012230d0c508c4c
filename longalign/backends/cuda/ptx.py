"""Single PTX instructions that numba has no name for.

Each is an intrinsic of a few lines. The tests' simulator replaces this module by plain Python.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from longalign.backends.cuda.api import intrinsic

_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """The address of array[index], index >= 0, as an integer."""
    data = context.make_array(array_type)(context, builder, array).data
    return builder.ptrtoint(builder.gep(data, [index]), _I64)


def _load(qualifier: str) -> Any:
    ptx = f"{{ .reg .u64 p; cvta.to.global.u64 p, $1; ld.{qualifier}.gpu.global.b32 $0, [p]; }}"
    instruction = ir.InlineAsm(ir.FunctionType(_I32, [_I64]), ptx, "=r,l,~{memory}", side_effect=True)

    def load(typing_context: Any, array: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            index = context.cast(builder, args[1], signature.args[1], types.int64)
            return builder.call(instruction, [_address(context, builder, signature.args[0], args[0], index)])

        return types.int32(array, index), generate

    return intrinsic(load)


#: `load_acquire(array, index)`: an int32 from global memory; whatever its writer released is visible after.
load_acquire = _load("acquire")
#: `load_relaxed(array, index)`: an int32 from global memory, never from a stale cache line.
load_relaxed = _load("relaxed")


@intrinsic
def store_release(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Store an int32 to global memory, after everything that this thread wrote or saw before."""
    ptx = "{ .reg .u64 p; cvta.to.global.u64 p, $0; st.release.gpu.global.b32 [p], $1; }"
    instruction = ir.InlineAsm(
        ir.FunctionType(ir.VoidType(), [_I64, _I32]), ptx, "l,r,~{memory}", side_effect=True
    )

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_type, index_type, value_type = signature.args
        index = context.cast(builder, args[1], index_type, types.int64)
        number = context.cast(builder, args[2], value_type, types.int32)
        builder.call(instruction, [_address(context, builder, array_type, args[0], index), number])
        return context.get_dummy_value()

    return types.void(array, index, value), generate


@intrinsic
def permute_bytes(typing_context: Any, low: Any, high: Any, selector: Any) -> Any:
    """PRMT: each nibble of `selector` names a byte of high:low (0-7), or with 8 added its sign, repeated."""
    instruction = ir.InlineAsm(ir.FunctionType(_I32, [_I32] * 3), "prmt.b32 $0, $1, $2, $3;", "=r,r,r,r")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(instruction, args)

    return types.int32(types.int32, types.int32, types.int32), generate


@intrinsic
def dot_bytes(typing_context: Any, x: Any, y: Any, total: Any) -> Any:
    """DP4A: `total` plus the sum of the products of the four signed bytes of x and y."""
    instruction = ir.InlineAsm(ir.FunctionType(_I32, [_I32] * 3), "dp4a.s32.s32 $0, $1, $2, $3;", "=r,r,r,r")

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(instruction, args)

    return types.int32(types.int32, types.int32, types.int32), generate
