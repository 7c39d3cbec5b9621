"""Instructions on bytes that numba has no name for: unaligned loads, wide products, byte masks."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

BLOCK_BYTES = 64
"""Bytes tested by one call of :func:`word_mask`: a bit each of a uint64."""

COPY_BYTES = 16
"""Bytes moved by one call of :func:`copy_lower`; outputs carry this much padding."""

_BYTE, _HALF, _WORD, _DOUBLE = (ir.IntType(bits) for bits in (8, 32, 64, 128))


def _pointer(context: Any, builder: Any, kind: Any, array: Any, start: Any) -> Any:
    """Return the address of ``array[start]``, an array of type ``kind``."""
    return builder.gep(context.make_array(kind)(context, builder, array).data, [start])


def _loaded(builder: Any, pointer: Any, kind: Any) -> Any:
    value = builder.load(builder.bitcast(pointer, kind.as_pointer()))
    value.align = 1
    return value


@intrinsic
def load64(typing_context: Any, content: Any, start: Any) -> tuple[Any, Any]:
    """Return content[start : start + 8] as a little-endian uint64; unchecked."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return _loaded(builder, _pointer(context, builder, sig.args[0], *arguments), _WORD)

    return types.uint64(content, types.uint64), codegen


@intrinsic
def load32(typing_context: Any, content: Any, start: Any) -> tuple[Any, Any]:
    """Return content[start : start + 4] as a little-endian number, uint64; unchecked."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, sig.args[0], *arguments)
        return builder.zext(_loaded(builder, pointer, _HALF), _WORD)

    return types.uint64(content, types.uint64), codegen


@intrinsic
def folded_product(typing_context: Any, one: Any, other: Any) -> tuple[Any, Any]:
    """Return both halves of the 128-bit product of two uint64, XORed."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        wide = builder.mul(*(builder.zext(number, _DOUBLE) for number in arguments))
        high = builder.lshr(wide, ir.Constant(_DOUBLE, 64))
        return builder.trunc(builder.xor(wide, high), _WORD)

    return types.uint64(types.uint64, types.uint64), codegen


@intrinsic
def byte_swapped(typing_context: Any, number: Any) -> tuple[Any, Any]:
    """Return a uint64 with its bytes in the opposite order."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.bswap(arguments[0])

    return types.uint64(types.uint64), codegen


@intrinsic
def trailing_zeros64(typing_context: Any, number: Any) -> tuple[Any, Any]:
    """Return the position of the lowest bit set in a uint64, uint64; 64 if it is 0."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 0))

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
        vector = ir.VectorType(_BYTE, BLOCK_BYTES)
        pointer = _pointer(context, builder, sig.args[0], *arguments)
        characters = _loaded(builder, pointer, vector)
        lower = builder.or_(characters, _bytes_of(vector, 0x20))
        letter = _in_range(builder, lower, "a", 26)
        digit = _in_range(builder, characters, "0", 10)
        return builder.bitcast(builder.or_(letter, digit), _WORD)

    return types.uint64(content, types.uint64), codegen


@intrinsic
def non_ascii_mask(typing_context: Any, content: Any, start: Any) -> tuple[Any, Any]:
    """Return a uint64: bit j is set if content[start + j] is 128 or more; unchecked."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_BYTE, BLOCK_BYTES)
        pointer = _pointer(context, builder, sig.args[0], *arguments)
        characters = _loaded(builder, pointer, vector)
        negative = builder.icmp_signed("<", characters, _bytes_of(vector, 0))
        return builder.bitcast(negative, _WORD)

    return types.uint64(content, types.uint64), codegen


@intrinsic
def copy_lower(
    typing_context: Any, content: Any, start: Any, out: Any, begin: Any
) -> tuple[Any, Any]:
    """Copy COPY_BYTES bytes from content[start] to out[begin], ASCII letters in lower case."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        vector = ir.VectorType(_BYTE, COPY_BYTES)
        source = _pointer(context, builder, sig.args[0], arguments[0], arguments[1])
        target = _pointer(context, builder, sig.args[2], arguments[2], arguments[3])
        characters = _loaded(builder, source, vector)
        upper = _in_range(builder, characters, "A", 26)
        case = builder.select(upper, _bytes_of(vector, 0x20), _bytes_of(vector, 0))
        stored = builder.store(
            builder.or_(characters, case), builder.bitcast(target, vector.as_pointer())
        )
        stored.align = 1
        return context.get_dummy_value()

    return types.void(content, types.uint64, out, types.uint64), codegen
