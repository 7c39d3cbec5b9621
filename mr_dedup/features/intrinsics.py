"""Instructions on bytes that numba has no name for: unaligned loads, wide products, letters."""

from __future__ import annotations

import functools
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
def high_product(typing_context: Any, one: Any, other: Any) -> tuple[Any, Any]:
    """Return the upper half of the 128-bit product of two uint64."""

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        wide = builder.mul(*(builder.zext(number, _DOUBLE) for number in arguments))
        return builder.trunc(builder.lshr(wide, ir.Constant(_DOUBLE, 64)), WORD)

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


THREES = 16
"""Characters that one call of :func:`decode_threes` decodes."""

HAN, HANS = 0x4E00, 0x9FFF + 1 - 0x4E00
"""The first of the characters that most Chinese is written in, and how many they are."""

PUNCTUATION = (
    (0x2010, 0x2027), (0x3000, 0x3003), (0x3008, 0x3011), (0xFF01, 0xFF0F), (0xFF1A, 0xFF20)
)  # fmt: skip
"""First and last of runs of characters that make no words, most of what stands between Chinese."""


@intrinsic
def decode_threes(typing_context: Any, content: Any, start: Any, out: Any) -> tuple[Any, Any]:
    """Decode content[start : start + 3 THREES] as characters of three bytes of UTF-8 each.

    Writes them to ``out`` uint32[THREES], 0 to 65,535 whatever the bytes are. Returns a uint64
    whose bit j tells whether j has the form of such a character, bit 16 + j whether it then is one
    of HANS from HAN on, and bit 32 + j whether one of PUNCTUATION. Reads BLOCK_BYTES bytes.
    """

    def codegen(context: Any, builder: Any, sig: Any, arguments: Any) -> Any:
        kind = ir.VectorType(BYTE, BLOCK_BYTES)
        block = loaded(builder, address(context, builder, sig.args[0], *arguments[:2]), kind)
        wide, mask = ir.VectorType(_HALF, THREES), ir.IntType(THREES)

        def every_third(first: int) -> Any:
            places = ir.Constant(
                ir.VectorType(_HALF, THREES), [3 * j + first for j in range(THREES)]
            )
            return builder.shuffle_vector(block, ir.Constant(kind, ir.Undefined), places)

        def begins(of: Any, bits: int, value: int) -> Any:
            leading = builder.and_(of, _bytes_of(of.type, bits))
            return builder.icmp_unsigned("==", leading, _bytes_of(of.type, value))

        def moved(of: Any, bits: int, left: int) -> Any:
            number = builder.zext(builder.and_(of, _bytes_of(of.type, bits)), wide)
            return builder.shl(number, ir.Constant(wide, [left] * THREES))

        lead, middle, last = map(every_third, range(3))
        formed = builder.and_(
            begins(lead, 0xF0, 0xE0),
            builder.and_(begins(middle, 0xC0, 0x80), begins(last, 0xC0, 0x80)),
        )
        characters = builder.or_(
            builder.or_(moved(lead, 0x0F, 12), moved(middle, 0x3F, 6)), moved(last, 0x3F, 0)
        )

        def among(first: int, last: int) -> Any:
            offset = builder.sub(characters, ir.Constant(wide, [first] * THREES))
            return builder.icmp_unsigned("<=", offset, ir.Constant(wide, [last - first] * THREES))

        is_other = functools.reduce(builder.or_, (among(*run) for run in PUNCTUATION))
        target = context.make_array(sig.args[2])(context, builder, arguments[2]).data
        stored(builder, characters, target)
        found = formed, builder.and_(formed, among(HAN, HAN + HANS - 1)), is_other
        masks = [builder.zext(builder.bitcast(bits, mask), WORD) for bits in found]
        for j in (1, 2):
            masks[j] = builder.shl(masks[j], ir.Constant(WORD, THREES * j))
        return functools.reduce(builder.or_, masks)

    return types.uint64(content, types.uint64, out), codegen


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
