# mypy: ignore-errors
"""Loops that mark the symbols of ASCII that are tokens, see ``preparation.marked``.

Nothing is validated or allocated here. Texts are slices of a uint8 array of UTF-8, and never read
outside it. All take linear time: 0.2 ns a byte of prose.
"""

from __future__ import annotations

import numpy as np
from numpy import int64, uint8, uint64
from numpy.typing import NDArray

from mr_dedup.features.text_batch import TextBatch
from mr_dedup.features.token_kernels import is_null
from mr_dedup.features.unicode_table import ASCII_SYMBOLS, FIRST_MARKED
from mr_dedup.kernels.bits import population_count, trailing_zeros
from mr_dedup.kernels.byte_blocks import BLOCK_BYTES, below_mask, copy_block, word_mask
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import ALL_BITS, U0, U1, U16, U31, U32, U63, U
from mr_dedup.kernels.utf8 import encode

_BLOCK = U(BLOCK_BYTES)
_FIRST, _PAST = np.uint8(0x21), np.uint8(0x7F)

_OF_PROSE = "!\"',-.:?"
"""Symbols that prose has as well, and that make no code."""

_MARKS = np.array([ASCII_SYMBOLS.find(chr(byte)) + 1 for byte in range(256)], np.uint64)
"""For each byte 1 + its number among the symbols of ASCII, 0 if it is none."""

_OF_CODE = np.array([number > 0 and chr(byte) not in _OF_PROSE
                     for byte, number in enumerate(_MARKS)], np.uint64)  # fmt: skip

_RADIUS, _SHARE = U32, U16
"""A symbol is in code if one in _SHARE bytes or more around it, _RADIUS on either side, is a symbol
of code. With one in 24 as many symbols of plain prose were tokens twice over, with one in 12 a
third fewer of Python."""


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
    before = U0
    symbols = _symbols(content, begin, end)
    now = _of_code(content, begin, symbols)
    for at in range(begin, end, _BLOCK):
        i = uint64(at)
        further = _symbols(content, i + _BLOCK, end)
        after = _of_code(content, i + _BLOCK, further)
        kept = symbols
        if not everywhere:
            kept = _in_code(before, now, after, symbols, i - begin, end - i)
        if out is None:
            o += population_count(kept)
        else:
            o = _copy(content, i, min(end - i, _BLOCK), kept, out, o)
        before, now, symbols = now, after, further
    return o


@kernel
def _symbols(content, i, end):
    """Return a mask of the symbols of ASCII in the block at ``content[i:end]``."""
    if i >= end:
        return U0
    size = min(end - i, _BLOCK)
    if i + _BLOCK <= uint64(content.size):
        mask = below_mask(content, i, _PAST) & ~below_mask(content, i, _FIRST)
        return mask & ~word_mask(content, i) & ALL_BITS >> (_BLOCK - size)
    mask = U0
    for j in range(size):
        mask |= uint64(_MARKS[content[i + uint64(j)]] != U0) << uint64(j)
    return mask


@kernel
def _of_code(content, i, symbols):
    """Return which ``symbols`` of the block at content[i] are symbols of code."""
    found = U0
    while symbols != U0:
        j = trailing_zeros(symbols)
        found |= _OF_CODE[content[i + j]] << j
        symbols &= symbols - U1
    return found


@kernel
def _in_code(before, now, after, symbols, preceding, following):
    """Return which ``symbols`` of a block are in code.

    ``before``, ``now`` and ``after`` are the symbols of code in three blocks; before the middle one
    are ``preceding`` bytes of the text, from its first byte on ``following``.
    """
    kept = U0
    if before | now | after == U0:
        return kept
    while symbols != U0:
        j = trailing_zeros(symbols)
        symbols &= symbols - U1
        # two shifts, as one by 64 is undefined
        up_to = now << (U63 - j) | before >> j >> U1
        behind = (now >> j >> U1 | after << (U63 - j)) & ((U1 << _RADIUS) - U1)
        count = population_count(up_to >> U31) + population_count(behind)
        size = min(preceding + j, _RADIUS) + min(following - j, _RADIUS + U1)
        kept |= uint64(count * _SHARE >= size) << j
    return kept


@kernel
def _copy(content, i, size, kept, out, o):
    """Copy up to a block, with marks for the symbols in ``kept``; return the end."""
    if kept == U0 and i + _BLOCK <= uint64(content.size):
        copy_block(content, i, out, o)
        return o + size
    for j in range(size):
        byte = content[i + uint64(j)]
        if kept >> uint64(j) & U1 != U0:
            o = encode(U(FIRST_MARKED - 1) + _MARKS[byte], out, o)
        else:
            out[o] = uint8(byte)
            o += U1
    return o
