"""PTX instructions that Numba does not offer, each as an intrinsic.

The tests' simulator replaces this module by plain Python.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import types

from longalign.backends.cuda.numba_api import intrinsic

_I32 = ir.IntType(32)
_I64 = ir.IntType(64)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    """The address of array[index] as a 64-bit integer; index >= 0."""
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


#: `load_acquire(array, index)`: an int32 from global memory. Whatever its writer released is visible then.
load_acquire = _load("acquire")
#: `load_relaxed(array, index)`: an int32 from global memory, never from a stale cache line.
load_relaxed = _load("relaxed")


@intrinsic
def opaque(typing_context: Any, value: Any) -> Any:
    """An int32, unchanged. The compiler cannot compute in advance what is derived from the result."""
    instruction = ir.InlineAsm(ir.FunctionType(_I32, [_I32]), "mov.b32 $0, $1;", "=r,r", side_effect=True)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(instruction, args)

    return types.int32(types.int32), generate


@intrinsic
def store_if(typing_context: Any, condition: Any, array: Any, index: Any, value: Any) -> Any:
    """Store an int32 to global memory if a condition is true, by a predicated store without a branch."""
    ptx = (
        "{ .reg .u64 p; .reg .pred q; cvta.to.global.u64 p, $1; setp.ne.b32 q, $0, 0; "
        "@q st.global.b32 [p], $2; }"
    )
    instruction = ir.InlineAsm(
        ir.FunctionType(ir.VoidType(), [_I32, _I64, _I32]), ptx, "r,l,r,~{memory}", side_effect=True
    )

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _, array_type, index_type, _ = signature.args
        index = context.cast(builder, args[2], index_type, types.int64)
        address = _address(context, builder, array_type, args[1], index)
        builder.call(instruction, [builder.zext(args[0], _I32), address, args[3]])
        return context.get_dummy_value()

    return types.void(types.boolean, array, index, types.int32), generate


@intrinsic
def load_pair(typing_context: Any, array: Any, index: Any) -> Any:
    """The int64 at an even index of global memory and the next one, as a tuple. Each is read atomically."""
    ptx = "{ .reg .u64 p; cvta.to.global.u64 p, $2; ld.relaxed.gpu.global.v2.b64 {$0, $1}, [p]; }"
    pair = ir.LiteralStructType([_I64, _I64])
    instruction = ir.InlineAsm(ir.FunctionType(pair, [_I64]), ptx, "=l,=l,l,~{memory}", side_effect=True)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        index = context.cast(builder, args[1], signature.args[1], types.int64)
        words = builder.call(instruction, [_address(context, builder, signature.args[0], args[0], index)])
        return context.make_tuple(
            builder, signature.return_type, [builder.extract_value(words, k) for k in range(2)]
        )

    return types.containers.UniTuple(types.int64, 2)(array, index), generate


@intrinsic
def store_pair(typing_context: Any, array: Any, index: Any, first: Any, second: Any) -> Any:
    """Store two int64 at an even index of global memory and the next one. Each is written atomically."""
    ptx = "{ .reg .u64 p; cvta.to.global.u64 p, $0; st.relaxed.gpu.global.v2.b64 [p], {$1, $2}; }"
    instruction = ir.InlineAsm(
        ir.FunctionType(ir.VoidType(), [_I64, _I64, _I64]), ptx, "l,l,l,~{memory}", side_effect=True
    )

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        array_type, index_type = signature.args[:2]
        index = context.cast(builder, args[1], index_type, types.int64)
        builder.call(instruction, [_address(context, builder, array_type, args[0], index), *args[2:]])
        return context.get_dummy_value()

    return types.void(array, index, types.int64, types.int64), generate


@intrinsic
def store_release(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Store an int32 to global memory, ordered after everything that this thread wrote or observed before."""
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


def _shared_pointer(context: Any, array_type: Any) -> Any:
    return ir.PointerType(context.get_data_type(array_type.dtype), 3)


@intrinsic
def shared_address(typing_context: Any, array: Any) -> Any:
    """The address at which an array in shared memory begins, as an int32 in bytes."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        [array_type] = signature.args
        data = context.make_array(array_type)(context, builder, args[0]).data
        return builder.ptrtoint(builder.addrspacecast(data, _shared_pointer(context, array_type)), _I32)

    return types.int32(array), generate


@intrinsic
def load_shared(typing_context: Any, array: Any, address: Any) -> Any:
    """The element at an address of shared memory; the type is that of the array's elements."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[1], _shared_pointer(context, signature.args[0]))
        return builder.load(pointer)

    return array.dtype(array, types.int32), generate


def _load_neighbours(count: int) -> Any:
    def load(typing_context: Any, array: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            vector = ir.VectorType(context.get_data_type(array.dtype), count)
            words = builder.load(builder.inttoptr(args[1], ir.PointerType(vector, 3)), align=4 * count)
            found = [builder.extract_element(words, ir.Constant(_I32, k)) for k in range(count)]
            return context.make_tuple(builder, signature.return_type, found)

        return types.containers.UniTuple(array.dtype, count)(array, types.int32), generate

    return intrinsic(load)


#: `load_shared_single(array, address)`, `load_shared_two`, `load_shared_quad`: one, two or four neighbouring
#: elements of shared memory, as a tuple, by one instruction. The address is a multiple of 4, 8 or 16.
load_shared_single = _load_neighbours(1)
load_shared_two = _load_neighbours(2)
load_shared_quad = _load_neighbours(4)


@intrinsic
def store_shared(typing_context: Any, array: Any, address: Any, value: Any) -> Any:
    """Store an element at an address of shared memory; the type is that of the array's elements."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[1], _shared_pointer(context, signature.args[0]))
        builder.store(args[2], pointer)
        return context.get_dummy_value()

    return types.void(array, types.int32, array.dtype), generate


@intrinsic
def store_shared_two(typing_context: Any, array: Any, address: Any, first: Any, second: Any) -> Any:
    """Store two neighbouring elements of shared memory. The address is a multiple of 8."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        vector = ir.VectorType(context.get_data_type(signature.args[0].dtype), 2)
        both = ir.Constant(vector, ir.Undefined)
        for k in range(2):
            both = builder.insert_element(both, args[2 + k], ir.Constant(_I32, k))
        builder.store(both, builder.inttoptr(args[1], ir.PointerType(vector, 3)), align=8)
        return context.get_dummy_value()

    return types.void(array, types.int32, array.dtype, array.dtype), generate


def _arithmetic(ptx: str, operands: int) -> Any:
    """An intrinsic for an instruction that computes one 32-bit number from two or three others."""
    constraints = ",".join(["=r", *["r"] * operands])
    instruction = ir.InlineAsm(ir.FunctionType(_I32, [_I32] * operands), ptx, constraints)

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.call(instruction, args)

    def of_two(typing_context: Any, x: Any, y: Any) -> Any:
        return types.int32(types.int32, types.int32), generate

    def of_three(typing_context: Any, x: Any, y: Any, z: Any) -> Any:
        return types.int32(types.int32, types.int32, types.int32), generate

    return intrinsic(of_two if operands == 2 else of_three)


#: `permute_bytes(low, high, selector)`: PRMT. Each of the selector's four lowest nibbles gives a byte of the
#: result: byte 0-7 of high:low or, with 8 added, that byte's sign bit in all eight bits.
permute_bytes = _arithmetic("prmt.b32 $0, $1, $2, $3;", 3)
#: `dot_bytes(x, y, total)`: DP4A, `total` plus the sum of the products of the four signed bytes of x and y.
dot_bytes = _arithmetic("dp4a.s32.s32 $0, $1, $2, $3;", 3)
#: `add_pairs(x, y)`: the sums of two pairs of 16-bit numbers, modulo 2^16.
add_pairs = _arithmetic("add.u16x2 $0, $1, $2;", 2)
#: `maximum_pairs(x, y)`: the maxima of two pairs of unsigned 16-bit numbers. The assembler fuses a sum and a
#: maximum, or two maxima, into one instruction.
maximum_pairs = _arithmetic("max.u16x2 $0, $1, $2;", 2)
#: `minimum_signed_pairs(x, y)`: the minima of two pairs of signed 16-bit numbers.
minimum_signed_pairs = _arithmetic("min.s16x2 $0, $1, $2;", 2)
