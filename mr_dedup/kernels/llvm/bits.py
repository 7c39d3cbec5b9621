"""The LLVM code of kernels/bits.py."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mr_dedup.kernels.llvm.building import INT64, INT128


@intrinsic
def population_count(typing_context: Any, number: Any) -> tuple[Any, Any]:

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def trailing_zeros(typing_context: Any, number: Any) -> tuple[Any, Any]:
    kind = types.uint32 if number == types.uint32 else types.uint64

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

    return kind(kind), codegen


@intrinsic
def folded_product(typing_context: Any, one: Any, other: Any) -> tuple[Any, Any]:

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        product = builder.mul(*(builder.zext(number, INT128) for number in arguments))
        high = builder.lshr(product, ir.Constant(INT128, 64))
        return builder.trunc(builder.xor(product, high), INT64)

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic
def byte_swapped(typing_context: Any, number: Any) -> tuple[Any, Any]:

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), codegen
