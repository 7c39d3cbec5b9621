"""The LLVM code of kernels/byte_blocks.py."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mr_dedup.kernels.byte_blocks import BLOCK_BYTES, COPY_BYTES
from mr_dedup.kernels.llvm.building import (
    INT8,
    INT64,
    broadcast,
    constant,
    element_pointer,
    load,
    store,
)

_BLOCK = ir.VectorType(INT8, BLOCK_BYTES)


@intrinsic
def below_mask(typing_context: Any, content: Any, start: Any, bound: Any) -> tuple[Any, Any]:

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        pointer = element_pointer(context, builder, sig.args[0], *arguments[:2])
        limit = broadcast(builder, arguments[2], _BLOCK)
        compared = builder.icmp_unsigned("<", load(builder, pointer, _BLOCK), limit)
        return builder.bitcast(compared, INT64)

    return types.uint64(content, types.uint64, types.uint8), codegen


@intrinsic
def equal_mask(typing_context: Any, content: Any, start: Any, byte: Any) -> tuple[Any, Any]:

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        pointer = element_pointer(context, builder, sig.args[0], *arguments[:2])
        wanted = broadcast(builder, arguments[2], _BLOCK)
        compared = builder.icmp_unsigned("==", load(builder, pointer, _BLOCK), wanted)
        return builder.bitcast(compared, INT64)

    return types.uint64(content, types.uint64, types.uint8), codegen


def _in_range(builder: Any, characters: Any, first: str, count: int) -> Any:
    """Return which bytes are one of ``count`` characters from ``first`` on."""
    offset = builder.sub(characters, constant(characters.type, ord(first)))
    return builder.icmp_unsigned("<", offset, constant(characters.type, count))


@intrinsic
def word_mask(typing_context: Any, content: Any, start: Any) -> tuple[Any, Any]:

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        pointer = element_pointer(context, builder, sig.args[0], *arguments)
        characters = load(builder, pointer, _BLOCK)
        letter = _in_range(builder, builder.or_(characters, constant(_BLOCK, 0x20)), "a", 26)
        digit = _in_range(builder, characters, "0", 10)
        return builder.bitcast(builder.or_(letter, digit), INT64)

    return types.uint64(content, types.uint64), codegen


@intrinsic
def copy_block(
    typing_context: Any, content: Any, start: Any, out: Any, begin: Any
) -> tuple[Any, Any]:

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        source = element_pointer(context, builder, sig.args[0], *arguments[:2])
        target = element_pointer(context, builder, sig.args[2], *arguments[2:])
        store(builder, load(builder, source, _BLOCK), target)
        return context.get_dummy_value()

    return types.void(content, types.uint64, out, types.uint64), codegen


def _copy_lower(count: int) -> Any:
    vector = ir.VectorType(INT8, count)

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        source = element_pointer(context, builder, sig.args[0], *arguments[:2])
        target = element_pointer(context, builder, sig.args[2], *arguments[2:])
        characters = load(builder, source, vector)
        upper = _in_range(builder, characters, "A", 26)
        case = builder.select(upper, constant(vector, 0x20), constant(vector, 0))
        store(builder, builder.or_(characters, case), target)
        return context.get_dummy_value()

    return codegen


@intrinsic
def copy_lower(
    typing_context: Any, content: Any, start: Any, out: Any, begin: Any
) -> tuple[Any, Any]:
    return types.void(content, types.uint64, out, types.uint64), _copy_lower(COPY_BYTES)


@intrinsic
def copy_block_lower(
    typing_context: Any, content: Any, start: Any, out: Any, begin: Any
) -> tuple[Any, Any]:
    return types.void(content, types.uint64, out, types.uint64), _copy_lower(BLOCK_BYTES)
