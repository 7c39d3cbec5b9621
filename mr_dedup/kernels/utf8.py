# mypy: ignore-errors
"""UTF-8 and Unicode tables, for kernels: decode a character, encode it, look it up.

Reads nothing outside ``content[:end]``, whatever its bytes.
"""

from __future__ import annotations

from numpy import uint8, uint64

from mr_dedup.kernels.entry import kernel
from mr_dedup.kernels.unsigned import U1, U2, U3, U4, U6, U8, U


@kernel
def decode(content, i, end):
    """Return the code point at ``content[i]`` and its width in bytes, at most ``end - i``."""
    first = uint64(content[i])
    if first & U(0xF0) == U(0xE0) and i + U3 <= end:
        return (
            (first & U(15)) << U(12)
            | (uint64(content[i + U1]) & U(63)) << U6
            | uint64(content[i + U2]) & U(63)
        ), U3
    if first < U(0xC0):
        return first, U1
    width = U2 if first < U(0xE0) else U3 if first < U(0xF0) else U4
    width = min(width, end - i)
    character = first & (U(0xFF) >> (width + U1))
    for next_byte in range(U1, width):
        character = character << U6 | uint64(content[i + uint64(next_byte)]) & U(63)
    return min(character, U(0x10FFFF)), width


@kernel
def encode(character, out, o):
    """Write a code point as UTF-8 to ``out[o:]``; return the end index."""
    if character < U(0x80):
        out[o] = uint8(character)
        return o + U1
    if character < U(0x800):
        out[o] = uint8(U(0xC0) | character >> U6)
        out[o + U1] = uint8(U(0x80) | character & U(63))
        return o + U2
    if character < U(0x10000):
        out[o] = uint8(U(0xE0) | character >> U(12))
        out[o + U1] = uint8(U(0x80) | character >> U6 & U(63))
        out[o + U2] = uint8(U(0x80) | character & U(63))
        return o + U3
    out[o] = uint8(U(0xF0) | character >> U(18))
    out[o + U1] = uint8(U(0x80) | character >> U(12) & U(63))
    out[o + U2] = uint8(U(0x80) | character >> U6 & U(63))
    out[o + U3] = uint8(U(0x80) | character & U(63))
    return o + U4


@kernel(inline="always")
def encoded_size(character):
    """Return the bytes of a code point in UTF-8."""
    return (
        U1
        + uint64(character >= U(0x80))
        + uint64(character >= U(0x800))
        + uint64(character >= U(0x10000))
    )


@kernel
def table_entry(table, character):
    """Return the entry of a code point in a table of ``pages`` and ``entries``."""
    page = uint64(table.pages[character >> U8])
    return table.entries[page << U8 | character & U(0xFF)]
