# mypy: ignore-errors
"""The loop that decodes JSON strings which follow one another."""

from __future__ import annotations

import numpy as np
from numpy import uint8, uint64
from numpy.typing import NDArray

from mr_dedup.kernels.bits import trailing_zeros
from mr_dedup.kernels.byte_blocks import BLOCK_BYTES, below_mask, copy_block, equal_mask
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import U0, U1, U2, U4, U6, U10, U
from mr_dedup.kernels.utf8 import encode

_QUOTE, _BACKSLASH, _U, _SPACE = (np.uint8(ord(c)) for c in '"\\u ')
_BLOCK = U(BLOCK_BYTES)

_NO_DIGIT = 255
_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
for _digit in "0123456789abcdefABCDEF":
    _DIGITS[ord(_digit)] = int(_digit, 16)

_ESCAPED = np.zeros(256, np.uint8)
for _letter, _character in zip('"\\/bfnrt', '"\\/\b\f\n\r\t', strict=True):
    _ESCAPED[ord(_letter)] = ord(_character)

_NO_UNIT = ~U0


@entry
def decode_strings(
    content: NDArray[np.uint8],
    size: np.uint64,
    texts: NDArray[np.uint8],
    offsets: NDArray[np.int64],
) -> bool:
    """Decode the n JSON strings content[:size]; return whether there are n, all of them sound.

    ``texts`` uint8[size + BLOCK_BYTES] and ``offsets`` int64[n + 1] get what they stand for.
    ``content`` uint8 has BLOCK_BYTES more bytes, which are 0. Not sound is a string that does not
    end, a control character, an escape that JSON lacks, a surrogate that is not one of a pair.
    That the bytes are UTF-8 is not checked.
    """
    i, o = U0, U0
    offsets[0] = 0
    for n in range(uint64(1), uint64(offsets.size)):
        if i >= size or content[i] != _QUOTE:
            return False
        i, o = _decode_string(content, i + U1, texts, o)
        if i == U0:
            return False
        offsets[n] = o
    return i == size


@kernel
def _decode_string(content, i, texts, o):
    """Decode a string from behind its first quote on; return where it and its text end, or 0."""
    while True:
        copy_block(content, i, texts, o)
        special = equal_mask(content, i, _QUOTE) | equal_mask(content, i, _BACKSLASH)
        special |= below_mask(content, i, _SPACE)
        plain = trailing_zeros(special)
        i += plain
        o += plain
        if plain == _BLOCK:
            continue
        if content[i] == _QUOTE:
            return i + U1, o
        if content[i] != _BACKSLASH:
            return U0, o
        escaped = _ESCAPED[content[i + U1]]
        if escaped:
            texts[o] = escaped
            i += U2
            o += U1
            continue
        unit = _code_unit(content, i)
        i += U6
        if unit == _NO_UNIT:
            return U0, o
        if unit >> U(11) == U(0xD800 >> 11):
            low = _code_unit(content, i)
            if unit >> U10 != U(0xD800 >> 10) or low >> U10 != U(0xDC00 >> 10):
                return U0, o
            unit = U(0x10000) + ((unit & U(0x3FF)) << U10 | low & U(0x3FF))
            i += U6
        o = encode(unit, texts, o)


@kernel
def _code_unit(content, i):
    """Return the 16 bits that are escaped at content[i], _NO_UNIT if none are."""
    if content[i] != _BACKSLASH or content[i + U1] != _U:
        return _NO_UNIT
    unit = U0
    for j in range(i + U2, i + U6):
        digit = _DIGITS[content[j]]
        if digit == uint8(_NO_DIGIT):
            return _NO_UNIT
        unit = unit << U4 | uint64(digit)
    return unit
