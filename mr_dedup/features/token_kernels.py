# mypy: ignore-errors
"""Loops over a text that fold it and split it into tokens, and count its characters.

Texts are slices of a uint8 array of UTF-8, and never read outside it, whatever its bytes. Nothing
is validated or allocated here: the callers do both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int64, uint8, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.unicode_table import (
    CHARACTER,
    KIND,
    KIND_BITS,
    MARK,
    OTHER,
    SYMBOL,
    WORD,
    UnicodeTable,
)
from mr_dedup.kernels.arrays import uninitialised
from mr_dedup.kernels.bits import trailing_zeros
from mr_dedup.kernels.byte_blocks import (
    BLOCK_BYTES,
    COPY_BYTES,
    below_mask,
    copy_lower,
    word_mask,
)
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import ALL_BITS, U0, U1, U4, U
from mr_dedup.kernels.utf8 import decode, encode, table_entry

_KIND, _KIND_BITS = KIND, np.int32(KIND_BITS)
_BLOCK, _COPY = U(BLOCK_BYTES), U(COPY_BYTES)
_SPACE, _NOT_ASCII = np.uint8(ord(" ")), np.uint8(0x80)


class Tokens(NamedTuple):
    """Space for the tokens of a text of b bytes.

    Token t is ``text[starts[t]:stops[t]]``, UTF-8.

    Attributes:
        text: uint8[2 b + 2 COPY_BYTES]; a folded text has at most twice the bytes.
        starts: uint32[b // 2 + 2].
        stops: uint32[b // 2 + 2].
    """

    text: NDArray[np.uint8]
    starts: NDArray[np.uint32]
    stops: NDArray[np.uint32]

    @classmethod
    def allocate(cls, size_bytes: int) -> Tokens:
        """Return space for texts of up to ``size_bytes``."""
        max_tokens = size_bytes // 2 + 2
        return cls(
            uninitialised(2 * size_bytes + 2 * COPY_BYTES, np.uint8),
            uninitialised(max_tokens, np.uint32),
            uninitialised(max_tokens, np.uint32),
        )


class SourceEdges(NamedTuple):
    """Where tokens are in the text that they were found in.

    Attributes:
        starts: uint32[t], offsets in bytes from where the text begins.
        stops: uint32[t].
    """

    starts: NDArray[np.uint32]
    stops: NDArray[np.uint32]


@entry
def tokenise(
    content: NDArray[np.uint8],
    begin: np.uint64,
    end: np.uint64,
    table: UnicodeTable,
    tokens: Tokens,
) -> int:
    """Write the tokens of ``content[begin:end]``, case-folded, to ``tokens``; return their number.

    Between two tokens is one space, or nothing if both are single characters of scripts without
    spaces, with their marks. So a shingle of neighbouring tokens is a slice of ``tokens.text``.

    64 bytes of ASCII are classified at once, and their words are copied 16 bytes at a time; other
    text is read character by character.
    """
    return find_tokens(content, begin, end, table, tokens, None)


@kernel
def find_tokens(content, begin, end, table, tokens, sources):
    """Do what ``tokenise`` does, and write to ``sources``, if it is not None, where tokens are."""
    out, starts, stops = tokens
    size = uint64(content.size)
    count = U0
    o = U0
    is_open = False  # whether the last token may continue
    is_single = False  # whether the last token is a character that is one by itself
    is_joined = False  # whether it is of a script without spaces
    takes_marks = False  # whether such a token is the last thing read, so that marks continue it
    i = begin
    while i < end:
        is_block = i + _BLOCK <= end and i + _BLOCK + _COPY <= size
        if is_block and below_mask(content, i, _NOT_ASCII) == ALL_BITS:
            mask = word_mask(content, i)
            takes_marks = False
            if is_open and mask & U1 == U0:
                stops[count - U1] = uint32(o)
                if sources is not None:
                    sources.stops[count - U1] = uint32(i - begin)
                is_open = False
            at = i
            while mask != U0:
                skipped = trailing_zeros(mask)
                length = trailing_zeros(~(mask >> skipped))
                at += skipped
                if not is_open:
                    if count > U0:
                        out[o] = _SPACE
                        o += U1
                    starts[count] = uint32(o)
                    if sources is not None:
                        sources.starts[count] = uint32(at - begin)
                    count += U1
                    is_single = is_joined = False
                for piece in range(U0, length, _COPY):
                    copy_lower(content, at + uint64(piece), out, o + uint64(piece))
                o += length
                at += length
                is_open = at == i + _BLOCK
                if is_open:
                    break
                stops[count - U1] = uint32(o)
                if sources is not None:
                    sources.stops[count - U1] = uint32(at - begin)
                mask = mask >> skipped >> length
            i += _BLOCK
            continue
        until = min(i + _BLOCK, end)
        while i < until:
            character, width = decode(content, i, end)
            entry = table_entry(table, character)
            kind = entry & _KIND
            continues = kind == MARK and (is_open or takes_marks)
            if is_open and kind != WORD and not continues:
                stops[count - U1] = uint32(o)
                if sources is not None:
                    sources.stops[count - U1] = uint32(i - begin)
                is_open = False
            if kind != OTHER:
                if not is_open and not continues:
                    if count > U0 and not (kind == CHARACTER and is_joined):
                        out[o] = _SPACE
                        o += U1
                    starts[count] = uint32(o)
                    if sources is not None:
                        sources.starts[count] = uint32(i - begin)
                    count += U1
                    is_joined = kind == CHARACTER
                    is_single = is_joined or kind == SYMBOL
                    is_open = not is_single
                change = int64(entry >> _KIND_BITS)
                if change == 0:
                    out[o] = content[i]
                    # up to three bytes more than its own, which the next character overwrites
                    for byte in range(U1, U4):
                        out[o + uint64(byte)] = content[min(i + uint64(byte), end - U1)]
                    o += width
                else:
                    o = encode(uint64(int64(character) + change), out, o)
                if is_single:
                    stops[count - U1] = uint32(o)
                    if sources is not None:
                        sources.stops[count - U1] = uint32(i + width - begin)
            takes_marks = is_single and kind != OTHER
            i += width
    if is_open:
        stops[count - U1] = uint32(o)
        if sources is not None:
            sources.stops[count - U1] = uint32(end - begin)
    return count


@kernel
def is_null(content, begin):
    """Return whether the text that begins at ``begin`` is a null: see ``normalisation.slices``."""
    return uint64(begin) > uint64(content.size)


@kernel
def copy_text(content, begin, end, out):
    """Copy ``content[begin:end]`` to ``out``; return its length in bytes."""
    for i in range(end - begin):
        out[uint64(i)] = content[begin + uint64(i)]
    return end - begin


@kernel
def split_characters(text, stop, starts, stops):
    """Write the start and stop of each character of ``text[:stop]``; return their number."""
    count = U0
    for i in range(stop):
        if text[i] & uint8(0xC0) != uint8(0x80):
            starts[count] = uint32(i)
            if count > U0:
                stops[count - U1] = uint32(i)
            count += U1
    if count > U0:
        stops[count - U1] = uint32(stop)
    return count
