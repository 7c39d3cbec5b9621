"""An instruction that decodes sixteen characters of three bytes of UTF-8."""

from __future__ import annotations

import functools
from typing import Any

from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from mr_dedup.kernels.byte_blocks import BLOCK_BYTES
from mr_dedup.kernels.llvm import INT8, INT64, constant, element_pointer, load, store

_HALF = ir.IntType(32)

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
        kind = ir.VectorType(INT8, BLOCK_BYTES)
        block = load(builder, element_pointer(context, builder, sig.args[0], *arguments[:2]), kind)
        wide, mask = ir.VectorType(_HALF, THREES), ir.IntType(THREES)

        def every_third(first: int) -> Any:
            places = ir.Constant(
                ir.VectorType(_HALF, THREES), [3 * j + first for j in range(THREES)]
            )
            return builder.shuffle_vector(block, ir.Constant(kind, ir.Undefined), places)

        def begins(of: Any, bits: int, value: int) -> Any:
            leading = builder.and_(of, constant(of.type, bits))
            return builder.icmp_unsigned("==", leading, constant(of.type, value))

        def moved(of: Any, bits: int, left: int) -> Any:
            number = builder.zext(builder.and_(of, constant(of.type, bits)), wide)
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
        store(builder, characters, target)
        found = formed, builder.and_(formed, among(HAN, HAN + HANS - 1)), is_other
        masks = [builder.zext(builder.bitcast(bits, mask), INT64) for bits in found]
        for j in (1, 2):
            masks[j] = builder.shl(masks[j], ir.Constant(INT64, THREES * j))
        return functools.reduce(builder.or_, masks)

    return types.uint64(content, types.uint64, out), codegen
