"""Instructions on bytes that numba has no name for: unaligned loads, wide products, letters."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mr_dedup.formats.byte_intrinsics import (
    BLOCK_BYTES,
    BYTE,
    WORD,
    address,
    loaded,
    stored,
)

COPY_BYTES = 16
"""Bytes moved by one call of :func:`copy_lower`; outputs carry this much padding."""

_HALF, _DOUBLE = ir.IntType(32), ir.IntType(128)


@intrinsic
def load64(typing_context: Any, content: Any, start: Any) -> tuple[Any, Any]:
    """Return content[start : start + 8] as a little-endian uint64; unchecked."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return loaded(builder, address(context, builder, sig.args[0], *arguments), WORD)

    return types.uint64(content, types.uint64), codegen


@intrinsic
def load32(typing_context: Any, content: Any, start: Any) -> tuple[Any, Any]:
    """Return content[start : start + 4] as a little-endian number, uint64; unchecked."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        pointer = address(context, builder, sig.args[0], *arguments)
        return builder.zext(loaded(builder, pointer, _HALF), WORD)

    return types.uint64(content, types.uint64), codegen


@intrinsic
def folded_product(typing_context: Any, one: Any, other: Any) -> tuple[Any, Any]:
    """Return both halves of the 128-bit product of two uint64, XORed."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        wide = builder.mul(*(builder.zext(number, _DOUBLE) for number in arguments))
        high = builder.lshr(wide, ir.Constant(_DOUBLE, 64))
        return builder.trunc(builder.xor(wide, high), WORD)

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic
def byte_swapped(typing_context: Any, number: Any) -> tuple[Any, Any]:
    """Return a uint64 with its bytes in the opposite order."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), codegen


def _bytes_of(vector: Any, value: int) -> Any:
    return ir.Constant(vector, [value] * vector.count)


def _in_range(builder: Any, characters: Any, first: str, count: int) -> Any:
    """Return which bytes are one of ``count`` characters from ``first`` on."""
    vector = characters.type
    offset = builder.sub(characters, _bytes_of(vector, ord(first)))
    return builder.icmp_unsigned("<", offset, _bytes_of(vector, count))


@intrinsic
def word_mask(typing_context: Any, content: Any, start: Any) -> tuple[Any, Any]:
    """Return a uint64 whose bit j tells whether content[start + j] is an ASCII letter or digit."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        vector = ir.VectorType(BYTE, BLOCK_BYTES)
        pointer = address(context, builder, sig.args[0], *arguments)
        characters = loaded(builder, pointer, vector)
        lower = builder.or_(characters, _bytes_of(vector, 0x20))
        letter = _in_range(builder, lower, "a", 26)
        digit = _in_range(builder, characters, "0", 10)
        return builder.bitcast(builder.or_(letter, digit), WORD)

    return types.uint64(content, types.uint64), codegen


def _copy_lower(count: int) -> Any:
    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        vector = ir.VectorType(BYTE, count)
        source = address(context, builder, sig.args[0], *arguments[:2])
        characters = loaded(builder, source, vector)
        upper = _in_range(builder, characters, "A", 26)
        case = builder.select(upper, _bytes_of(vector, 0x20), _bytes_of(vector, 0))
        target = address(context, builder, sig.args[2], *arguments[2:])
        stored(builder, builder.or_(characters, case), target)
        return context.get_dummy_value()

    return codegen


@intrinsic
def copy_lower(
    typing_context: Any, content: Any, start: Any, out: Any, begin: Any
) -> tuple[Any, Any]:
    """Copy COPY_BYTES bytes from content[start] to out[begin], ASCII letters in lower case."""
    return types.void(content, types.uint64, out, types.uint64), _copy_lower(COPY_BYTES)


@intrinsic
def copy_block_lower(
    typing_context: Any, content: Any, start: Any, out: Any, begin: Any
) -> tuple[Any, Any]:
    """Copy BLOCK_BYTES bytes from content[start] to out[begin], ASCII letters in lower case."""
    return types.void(content, types.uint64, out, types.uint64), _copy_lower(BLOCK_BYTES)
