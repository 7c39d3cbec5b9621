"""The loops over a text: fold and cut it into tokens, hash its shingles, weigh them.

Nothing is validated or allocated here: shingles.py does both. Texts are slices of a uint8 array of
UTF-8, and never read outside it, whatever its bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int64, njit, uint8, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.unicode_table import CHARACTER, MARK, OTHER, WORD
from mr_dedup.features.xxh3 import (
    xxh3_64,
    xxh3_64_9_to_16,
    xxh3_64_17_to_32,
    xxh3_64_up_to_8,
)
from mr_dedup.kernels.bits import trailing_zeros
from mr_dedup.kernels.byte_blocks import (
    BLOCK_BYTES,
    COPY_BYTES,
    below_mask,
    copy_lower,
    word_mask,
)

_U = np.uint64
_0, _1, _2, _3, _4, _5 = (_U(n) for n in range(6))
_10 = _U(10)
_BLOCK, _COPY = _U(BLOCK_BYTES), _U(COPY_BYTES)
_ALL = ~_0
_SPACE, _NOT_ASCII = np.uint8(ord(" ")), np.uint8(0x80)
SPAN = 512
"""Shingles that are sorted by size together."""


class Scratch(NamedTuple):
    """What the features of one text are worked out in; for a text of b bytes:

    ``text`` uint8[2 b + 2 COPY_BYTES], ``token_starts`` and ``token_stops`` uint32[b // 2 + 2];
    for p tokens, or characters, at most: ``starts`` and ``stops`` uint32[p], ``hashes`` uint64[p]
    and ``weights`` int32[p] rounded up to a multiple of 8, ``keys`` uint64[c] and ``times``
    uint32[c], c a power of 2 and at least 2 p; ``spans`` uint32[4, SPAN].
    """

    text: NDArray[np.uint8]
    token_starts: NDArray[np.uint32]
    token_stops: NDArray[np.uint32]
    starts: NDArray[np.uint32]
    stops: NDArray[np.uint32]
    hashes: NDArray[np.uint64]
    weights: NDArray[np.int32]
    keys: NDArray[np.uint64]
    times: NDArray[np.uint32]
    spans: NDArray[np.uint32]


@njit(cache=True, nogil=True)
def find_features(  # type: ignore[no-untyped-def]
    content, begin, end, pages, entries, by_characters, length, steps, scratch
):
    """Work out the features of ``content[begin:end]``, written to ``scratch``.

    Returns how many shingles there are, repeats counted, and how many tokens or characters each
    has: ``length``, or fewer where there are only so many. Writes the hash of each and what it adds
    to the weight of its feature. With a ``length`` of 0 it is what ``length_by_script`` returns. A
    text without tokens has itself as its only shingle, byte by byte; a null, which begins past
    ``content``, has none.
    """
    if is_null(content, begin):
        return _0, _0
    tokens = normalise(
        content, begin, end, pages, entries, scratch.text, scratch.token_starts, scratch.token_stops
    )
    pieces = tokens
    if tokens == _0:
        pieces, length, count = _1, _1, _1
        scratch.starts[_0] = uint32(0)
        scratch.stops[_0] = uint32(copy_text(content, begin, end, scratch.text))
        scratch.hashes[_0] = xxh3_64(content, begin, end)
    elif by_characters:
        stop = uint64(scratch.token_stops[tokens - _1])
        pieces = split_characters(scratch.text, stop, scratch.starts, scratch.stops)
        count = hash_shingles(
            scratch.text, scratch.starts, scratch.stops, pieces, length, scratch.spans,
            scratch.hashes,
        )  # fmt: skip
    else:
        if length == _0:
            length = length_by_script(scratch.token_starts, scratch.token_stops, tokens)
        count = hash_shingles(
            scratch.text, scratch.token_starts, scratch.token_stops, tokens, length, scratch.spans,
            scratch.hashes,
        )  # fmt: skip
    if steps.size == 1:
        scratch.weights[:count] = steps[0]
    else:
        weigh_repeats(scratch.hashes, count, steps, scratch.weights, scratch.keys, scratch.times)
    return count, min(length, pieces)


@njit(cache=True, nogil=True)
def is_null(content, begin):  # type: ignore[no-untyped-def]
    """Return whether a text that begins at ``begin`` is a null, as ``slices`` has them."""
    return uint64(begin) > uint64(content.size)


@njit(cache=True, nogil=True)
def copy_text(content, begin, end, out):  # type: ignore[no-untyped-def]
    """Copy ``content[begin:end]`` to ``out`` as it is; return its length in bytes."""
    for i in range(end - begin):
        out[uint64(i)] = content[begin + uint64(i)]
    return end - begin


@njit(cache=True, nogil=True)
def normalise(content, begin, end, pages, entries, out, starts, stops):  # type: ignore[no-untyped-def]
    """Write the tokens of ``content[begin:end]``, folded, to ``out``; return how many there are.

    Token t is out[starts[t]:stops[t]]. Between two stands one space, or nothing if both are single
    characters of scripts without spaces, with their marks: so n tokens, with what is between them,
    are a slice. ``pages`` and ``entries`` are the Unicode table; the others as in Scratch.

    Where 64 bytes are all ASCII, letters and digits are found 64 at a time, and copied 16 at a
    time; elsewhere it goes character by character.
    """
    size = uint64(content.size)
    count = _0
    o = _0
    is_open = False  # whether token count - 1 may go on
    stands = False  # whether it is a character that is a token by itself
    extends = False  # whether that is the last one, so that marks go on with it
    i = begin
    while i < end:
        is_block = i + _BLOCK <= end and i + _BLOCK + _COPY <= size
        if is_block and below_mask(content, i, _NOT_ASCII) == _ALL:
            mask = word_mask(content, i)
            extends = False
            if is_open and mask & _1 == _0:
                stops[count - _1] = uint32(o)
                is_open = False
            at = i
            while mask != _0:
                skipped = trailing_zeros(mask)
                length = trailing_zeros(~(mask >> skipped))
                at += skipped
                if not is_open:
                    if count > _0:
                        out[o] = _SPACE
                        o += _1
                    starts[count] = uint32(o)
                    count += _1
                    stands = False
                for piece in range(_0, length, _COPY):
                    copy_lower(content, at + uint64(piece), out, o + uint64(piece))
                o += length
                at += length
                is_open = at == i + _BLOCK
                if is_open:
                    break
                stops[count - _1] = uint32(o)
                mask = mask >> skipped >> length
            i += _BLOCK
            continue
        until = min(i + _BLOCK, end)
        while i < until:
            character, width = decode(content, i, end)
            page = uint64(pages[character >> _U(8)])
            entry = entries[page << _U(8) | character & _U(255)]
            kind = entry & np.int32(3)
            goes_on = kind == MARK and (is_open or extends)
            if is_open and kind != WORD and not goes_on:
                stops[count - _1] = uint32(o)
                is_open = False
            if kind != OTHER:
                if not is_open and not goes_on:
                    if count > _0 and not (kind == CHARACTER and stands):
                        out[o] = _SPACE
                        o += _1
                    starts[count] = uint32(o)
                    count += _1
                    stands = kind == CHARACTER
                    is_open = not stands
                change = int64(entry >> np.int32(2))
                if change == 0:
                    out[o] = content[i]
                    # the others are written anew if they are not its own
                    for byte in range(_1, _4):
                        out[o + uint64(byte)] = content[min(i + uint64(byte), end - _1)]
                    o += width
                else:
                    o = encode(uint64(int64(character) + change), out, o)
                if stands:
                    stops[count - _1] = uint32(o)
            extends = stands and kind != OTHER
            i += width
    if is_open:
        stops[count - _1] = uint32(o)
    return count


@njit(cache=True, nogil=True)
def decode(content, i, end):  # type: ignore[no-untyped-def]
    """Return the code point at ``content[i]``, and how many bytes before ``end`` it takes."""
    first = uint64(content[i])
    if first & _U(0xF0) == _U(0xE0) and i + _3 <= end:
        return (
            (first & _U(15)) << _U(12)
            | (uint64(content[i + _1]) & _U(63)) << _U(6)
            | uint64(content[i + _2]) & _U(63)
        ), _3
    if first < _U(0xC0):
        return first, _1
    width = _2 if first < _U(0xE0) else _3 if first < _U(0xF0) else _4
    width = min(width, end - i)
    character = first & (_U(0xFF) >> (width + _1))
    for next_byte in range(_1, width):
        character = character << _U(6) | uint64(content[i + uint64(next_byte)]) & _U(63)
    return min(character, _U(0x10FFFF)), width


@njit(cache=True, nogil=True)
def encode(character, out, o):  # type: ignore[no-untyped-def]
    """Write a code point as UTF-8 to ``out[o:]``; return where it ends."""
    if character < _U(0x80):
        out[o] = uint8(character)
        return o + _1
    if character < _U(0x800):
        out[o] = uint8(_U(0xC0) | character >> _U(6))
        out[o + _1] = uint8(_U(0x80) | character & _U(63))
        return o + _2
    if character < _U(0x10000):
        out[o] = uint8(_U(0xE0) | character >> _U(12))
        out[o + _1] = uint8(_U(0x80) | character >> _U(6) & _U(63))
        out[o + _2] = uint8(_U(0x80) | character & _U(63))
        return o + _3
    out[o] = uint8(_U(0xF0) | character >> _U(18))
    out[o + _1] = uint8(_U(0x80) | character >> _U(12) & _U(63))
    out[o + _2] = uint8(_U(0x80) | character >> _U(6) & _U(63))
    out[o + _3] = uint8(_U(0x80) | character & _U(63))
    return o + _4


@njit(cache=True, nogil=True)
def split_characters(text, stop, starts, stops):  # type: ignore[no-untyped-def]
    """Write where each character of ``text[:stop]`` starts and stops; return how many there are."""
    count = _0
    for i in range(stop):
        if text[i] & uint8(0xC0) != uint8(0x80):
            starts[count] = uint32(i)
            if count > _0:
                stops[count - _1] = uint32(i)
            count += _1
    if count > _0:
        stops[count - _1] = uint32(stop)
    return count


@njit(cache=True, nogil=True)
def length_by_script(starts, stops, tokens):  # type: ignore[no-untyped-def]
    """Return how many tokens a shingle of a text has: 5 if a tenth of its tokens are joined, or 3.

    Joined are characters of scripts without spaces next to one another, with nothing between them
    in the normalised text.
    """
    joined = _0
    joins = False  # whether the token before and this one are
    for i in range(tokens):
        after = uint64(i) + _1
        joins_next = after < tokens and stops[i] == starts[after]
        joined += uint64(joins or joins_next)
        joins = joins_next
    return _5 if _10 * joined >= tokens else _3


@njit(cache=True, nogil=True)
def hash_shingles(text, starts, stops, count, length, spans, hashes):  # type: ignore[no-untyped-def]
    """Write the hash of every ``length`` neighbouring tokens of ``count``; return how many.

    Fewer tokens than ``length`` are one shingle; no tokens, none. ``text`` has 8 bytes of padding;
    ``spans`` is scratch.
    Shingles are sorted by the path that their size takes, a span at a time, for its branches would
    be guessed wrong: 4.6 ns a word instead of 14, and 5.2 ns for each three words of English
    instead of 13, when those of over 16 bytes went together.
    """
    if count == _0:
        return _0
    shingles = count - length + _1 if count >= length else _1
    last = min(length, count) - _1
    short, middling, longer, long = spans[0], spans[1], spans[2], spans[3]
    for begin in range(_0, shingles, _U(SPAN)):
        shorts, middlings, longers, longs = _0, _0, _0, _0
        for i in range(begin, min(uint64(begin) + _U(SPAN), shingles)):
            size = uint64(stops[uint64(i) + last]) - uint64(starts[i])
            short[shorts] = uint32(i)
            shorts += uint64(size <= _U(8))
            middling[middlings] = uint32(i)
            middlings += uint64(size > _U(8)) & uint64(size <= _U(16))
            longer[longers] = uint32(i)
            longers += uint64(size > _U(16)) & uint64(size <= _U(32))
            long[longs] = uint32(i)
            longs += uint64(size > _U(32))
        for entry in range(shorts):
            i = uint64(short[entry])
            start = uint64(starts[i])
            hashes[i] = xxh3_64_up_to_8(text, start, uint64(stops[i + last]) - start)
        for entry in range(middlings):
            i = uint64(middling[entry])
            start = uint64(starts[i])
            hashes[i] = xxh3_64_9_to_16(text, start, uint64(stops[i + last]) - start)
        for entry in range(longers):
            i = uint64(longer[entry])
            start = uint64(starts[i])
            hashes[i] = xxh3_64_17_to_32(text, start, uint64(stops[i + last]) - start)
        for entry in range(longs):
            i = uint64(long[entry])
            hashes[i] = xxh3_64(text, uint64(starts[i]), uint64(stops[i + last]))
    return shingles


@njit(cache=True, nogil=True)
def weigh_repeats(hashes, count, steps, weights, keys, times):  # type: ignore[no-untyped-def]
    """Write what each occurrence adds to the weight of its feature: steps[occurrences before it].

    ``steps`` int32[s] ends with what every later one adds. ``keys`` uint64[c] and ``times``
    uint32[c] are scratch, c a power of 2 and at least twice ``count``.
    """
    capacity = _2
    while capacity < _2 * count:
        capacity *= _2
    times[:capacity] = uint32(0)
    last = uint32(steps.size - 1)
    for i in range(count):
        feature = hashes[i]
        slot = feature & (capacity - _1)
        while times[slot] != uint32(0) and keys[slot] != feature:
            slot = (slot + _1) & (capacity - _1)
        keys[slot] = feature
        before = times[slot]
        times[slot] = before + uint32(1)
        weights[i] = steps[min(before, last)]
