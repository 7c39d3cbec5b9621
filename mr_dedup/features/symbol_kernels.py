# mypy: ignore-errors
"""Loops that mark the symbols of ASCII that are tokens, see ``preparation.marked``.

Nothing is validated or allocated here. Texts are slices of a uint8 array of UTF-8, and never read
outside it. All take linear time.
"""

from __future__ import annotations

import string

import numpy as np
from numpy import int64, uint8, uint64
from numpy.typing import NDArray

from mr_dedup.features.text_batch import TextBatch
from mr_dedup.features.token_kernels import is_null
from mr_dedup.features.unicode_table import ASCII_SYMBOLS, FIRST_MARKED
from mr_dedup.kernels.bits import population_count, trailing_zeros
from mr_dedup.kernels.byte_blocks import BLOCK_BYTES, below_mask, copy_block, word_mask
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import ALL_BITS, U0, U1, U2, U3, U
from mr_dedup.kernels.utf8 import encode

_BLOCK = U(BLOCK_BYTES)
_FIRST, _PAST = np.uint8(0x21), np.uint8(0x7F)
_SPACE, _MINUS, _SLASH, _BAR = (np.uint8(ord(c)) for c in " -/|")

_NUMBERS = np.array([ASCII_SYMBOLS.find(chr(byte)) for byte in range(256)], np.int32)
"""The number of each byte among the symbols of ASCII, -1 if it is none."""

_OPERATOR, _WORD, _DIGIT, _OPENING, _CLOSING, _QUOTE = (U(1 << bit) for bit in range(6))
_BINARY, _SIGN, _SUFFIX, _NEGATION, _ANGLE = (U(1 << bit) for bit in range(6, 11))
_LEFT, _RIGHT = _WORD | _CLOSING | _QUOTE, _WORD | _OPENING | _QUOTE
"""What a byte is: bits of its element of _KINDS."""

_CHARACTERS = {
    _OPERATOR: "-+*/<>=%&|!^~?#$", _BINARY: "-+*/<>=%&|!^~?", _SIGN: "-+$#<>=~", _SUFFIX: "+#%",
    _NEGATION: "!~", _ANGLE: "<>", _OPENING: "([{", _CLOSING: ")]}", _QUOTE: "\"'",
    _WORD: "_" + string.ascii_letters + string.digits, _DIGIT: string.digits,
}  # fmt: skip

_KINDS = np.array(
    [sum(int(kind) for kind, characters in _CHARACTERS.items() if chr(byte) in characters)
     for byte in range(128)] + [int(_WORD)] * 128,
    np.uint64,
)  # fmt: skip

_LONGEST = U3
"""The characters of the longest operator."""


@entry
def count_marks(batch: TextBatch, everywhere: bool, counts: NDArray[np.int64]) -> int:
    """Write to ``counts`` int64[n] how many symbols of each text are tokens; return their sum."""
    content, starts, stops = batch
    total = int64(0)
    for i in range(starts.size):
        counts[i] = 0
        if not is_null(content, starts[i]):
            counts[i] = int64(_mark(content, starts[i], stops[i], everywhere, None, U0))
        total += counts[i]
    return total


@entry
def write_marked(
    batch: TextBatch,
    everywhere: bool,
    counts: NDArray[np.int64],
    out: NDArray[np.uint8],
    edges: NDArray[np.int64],
) -> int:
    """Write all texts to ``out``, their tokens among symbols marked; return the end.

    ``counts`` are those of ``count_marks``. Text i is then ``out[edges[i]:edges[i + 1]]``.
    """
    content, starts, stops = batch
    written = U0
    edges[0] = 0
    for i in range(starts.size):
        if counts[i] != 0:
            written = _mark(content, starts[i], stops[i], everywhere, out, written)
        else:
            for at in range(starts[i], stops[i], _BLOCK):
                size = min(stops[i] - uint64(at), _BLOCK)
                written = _copy(content, uint64(at), size, U0, out, written)
        edges[i + 1] = written
    return written


@kernel
def _mark(content, begin, end, everywhere, out, o):
    """Write a text to ``out`` from ``o`` on; return the end.

    If ``out`` is None, return ``o`` and the number of symbols that are tokens.
    """
    for at in range(begin, end, _BLOCK):
        i = uint64(at)
        size = min(end - i, _BLOCK)
        kept = _symbols(content, i, size)
        if not everywhere:
            kept = _operators(content, begin, end, i, kept)
        if out is None:
            o += population_count(kept)
        else:
            o = _copy(content, i, size, kept, out, o)
    return o


@kernel
def _symbols(content, i, size):
    """Return a mask of the symbols of ASCII in the block at content[i]."""
    if i + _BLOCK <= uint64(content.size):
        mask = below_mask(content, i, _PAST) & ~below_mask(content, i, _FIRST)
        return mask & ~word_mask(content, i) & ALL_BITS >> (_BLOCK - size)
    mask = U0
    for j in range(size):
        mask |= uint64(_NUMBERS[content[i + uint64(j)]] >= 0) << uint64(j)
    return mask


@kernel
def _operators(content, begin, end, i, symbols):
    """Return which ``symbols`` of the block at content[i] are of operators."""
    kept = U0
    while symbols != U0:
        j = trailing_zeros(symbols)
        symbols &= symbols - U1
        if _KINDS[content[i + j]] & _OPERATOR != U0:
            kept |= uint64(_is_operator(content, begin, end, i + j)) << j
    return kept


@kernel
def _is_operator(content, begin, end, at):
    """Return whether the symbol at content[at] is of an operator, by what is around it."""
    first, past = at, at + U1
    any_kind = all_kinds = _KINDS[content[at]]
    has_slash = content[at] == _SLASH
    while past - first <= _LONGEST and _kind(content, begin, end, first - U1) & _OPERATOR != U0:
        first -= U1
        any_kind |= _KINDS[content[first]]
        all_kinds &= _KINDS[content[first]]
        has_slash |= content[first] == _SLASH
    while past - first <= _LONGEST and _kind(content, begin, end, past) & _OPERATOR != U0:
        any_kind |= _KINDS[content[past]]
        all_kinds &= _KINDS[content[past]]
        has_slash |= content[past] == _SLASH
        past += U1
    # a tag of HTML ends, or it is a line
    if past - first > _LONGEST or (has_slash and any_kind & _ANGLE != U0):
        return False
    is_single = past - first == U1
    left, right = _byte(content, begin, end, first - U1), _byte(content, begin, end, past)
    left_kind, right_kind = _KINDS[left], _KINDS[right]
    is_binary = all_kinds & _BINARY != U0
    lead = content[first]
    if left == _SPACE and right == _SPACE:
        is_between = _byte(content, begin, end, first - U2) > _SPACE
        is_between &= _byte(content, begin, end, past + U1) > _SPACE
        # a dash, a column of a table
        is_prose = is_single and lead in (_MINUS, _BAR)
        return is_binary and is_between and not is_prose
    if left_kind & _LEFT != U0:
        # a hyphen, a path
        is_prose = lead in (_MINUS, _SLASH) and (is_single or content[first + U1] == lead)
        if right_kind & _RIGHT != U0 and is_binary and not is_prose:
            return True
        follows = left_kind & _WORD != U0 and all_kinds & _SUFFIX != U0 and past - first <= U2
        return follows and right_kind & (_WORD | _OPENING) == U0
    if not is_single:
        return False
    is_sign = all_kinds & _SIGN != U0 and right_kind & _DIGIT != U0
    return is_sign or (all_kinds & _NEGATION != U0 and right_kind & (_WORD | _OPENING) != U0)


@kernel
def _byte(content, begin, end, i):
    """Return a byte of a text, a space outside of it."""
    return content[i] if begin <= i and i < end else _SPACE


@kernel
def _kind(content, begin, end, i):
    return _KINDS[_byte(content, begin, end, i)]


@kernel
def _copy(content, i, size, kept, out, o):
    """Copy up to a block, with marks for the symbols in ``kept``; return the end."""
    if kept == U0 and i + _BLOCK <= uint64(content.size):
        copy_block(content, i, out, o)
        return o + size
    for j in range(size):
        byte = content[i + uint64(j)]
        if kept >> uint64(j) & U1 != U0:
            o = encode(U(FIRST_MARKED) + uint64(_NUMBERS[byte]), out, o)
        else:
            out[o] = uint8(byte)
            o += U1
    return o
