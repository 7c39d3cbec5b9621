"""Take the texts out of JSON lines: into Arrow's memory, without a Python string for each.

A text is most of its line. It is found by its member's name, decoded 64 bytes at a time, and an
empty string is left in its place; the line, now a short one, is for a JSON library to judge. So
only strings are parsed here. Where a line could mean anything else than what is found, nothing is
taken from it, nor from those around it.

Taking texts out and decoding what is left takes 0.25 to 0.5 of the time that msgspec takes to
decode the lines with their texts, before these are encoded again for Arrow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import int64, njit, uint8, uint64
from numpy.typing import NDArray

from mr_dedup.kernels.bits import population_count, trailing_zeros
from mr_dedup.kernels.byte_blocks import BLOCK_BYTES, below_mask, copy_block, equal_mask

_U = np.uint64
_0, _1, _2, _3, _4, _6, _12 = (_U(n) for n in (0, 1, 2, 3, 4, 6, 12))
_BLOCK, _ALL = _U(BLOCK_BYTES), ~_0
_UNUSUAL = _ALL
"""Returned instead of a place: there is something that only the JSON library shall judge."""

_QUOTE, _BACKSLASH, _COLON, _LETTER_U = (np.uint8(ord(byte)) for byte in '"\\:u')
_OPEN, _CLOSE, _OPEN_ARRAY, _CLOSE_ARRAY = (np.uint8(ord(byte)) for byte in "{}[]")
_SPACE, _TAB, _RETURN, _NEWLINE = (np.uint8(ord(byte)) for byte in " \t\r\n")

_ESCAPED = np.zeros(256, np.uint8)
"""What a letter behind a backslash stands for; 0 if nothing, or more than a byte."""
_ESCAPED[[ord(letter) for letter in '"\\/bfnrt']] = [ord(byte) for byte in '"\\/\b\f\n\r\t']

_NO_DIGIT = 16
_DIGITS = np.full(256, _NO_DIGIT, np.uint8)
"""What a hexadecimal digit is worth."""
_DIGITS[[ord(digit) for digit in "0123456789abcdef"]] = range(16)
_DIGITS[[ord(digit) for digit in "ABCDEF"]] = range(10, 16)

_USUAL_BYTES = 1 << 19
"""Scratch for so many bytes of lines is kept: new memory would take as long as the work."""

_SHORTEST_LINE = len(b'{"":""}')


class TakenTexts(NamedTuple):
    """The ``texts`` of n lines; the lines are those between ``edges``, int64[n + 1].

    ``rest`` is the lines with an empty string for each text; it changes with the next call.
    """

    rest: memoryview
    texts: pa.LargeStringArray
    edges: NDArray[np.int64]


class _Scratch(NamedTuple):
    """Room for lines of b bytes and their texts: uint8[b + BLOCK_BYTES] and int64[b // 7 + 1]."""

    rest: NDArray[np.uint8]
    texts: NDArray[np.uint8]
    offsets: NDArray[np.int64]
    edges: NDArray[np.int64]

    @classmethod
    def of(cls, size_bytes: int) -> _Scratch:
        content, lines = size_bytes + BLOCK_BYTES, size_bytes // _SHORTEST_LINE + 1
        return cls(
            np.empty(content, np.uint8),
            np.empty(content, np.uint8),
            np.empty(lines, np.int64),
            np.empty(lines, np.int64),
        )


class TextTaker:
    """Takes texts out of lines, one run of them after another; ``name`` is that of the member.

    In memory: twice the size of the lines, and 2 MB.
    """

    def __init__(self, name: str) -> None:
        self._key = np.array(list(f'{name}"'.encode()), np.uint8)
        self._scratch = _Scratch.of(_USUAL_BYTES)

    def take(self, lines: bytearray, begin: int, size: int) -> TakenTexts | None:
        """Take the text out of each of the lines in ``lines[begin:size]``.

        None if one of them is unusual: does not begin with { and end with }, has no text that is a
        string, or two, or a text that is not sound, or a name with an escape. If what is left is
        JSON, then so was the line, and if that is an object, the text is the one it had.
        """
        content = np.frombuffer(lines, np.uint8)
        if content.size < size + BLOCK_BYTES:
            content = np.concatenate([content, np.zeros(BLOCK_BYTES, np.uint8)])
        scratch = self._scratch if size <= _USUAL_BYTES else _Scratch.of(size)
        count, rest_bytes, text_bytes = _take_texts(
            content, _U(begin), _U(size), self._key, *scratch
        )
        if not count:
            return None
        buffers = [_copied(scratch.offsets[: count + 1]), _copied(scratch.texts[:text_bytes])]
        return TakenTexts(
            scratch.rest[:rest_bytes].data,
            pa.LargeStringArray.from_buffers(count, *buffers),
            scratch.edges[: count + 1].copy(),
        )


def _copied(array: NDArray[Any]) -> pa.Buffer:
    """Return a copy in Arrow's memory, which is used again sooner than NumPy's."""
    buffer = pa.allocate_buffer(array.nbytes)
    np.frombuffer(buffer, array.dtype)[:] = array
    return buffer


@njit(cache=True, nogil=True)
def _is_object(content, start, stop):  # type: ignore[no-untyped-def]
    """Return whether a line, without its end, begins with { and ends with }."""
    stop -= uint64(content[stop - _1] == _RETURN)
    return content[start] == _OPEN and content[stop - _1] == _CLOSE


@njit(cache=True, nogil=True)
def _is_name(content, i, size):  # type: ignore[no-untyped-def]
    """Return whether a string that ends before ``i`` is the name of a member."""
    i = _pass_blanks(content, i, size)
    return i < size and content[i] == _COLON


@njit(cache=True, nogil=True)
def _value_of(content, i, size, key):  # type: ignore[no-untyped-def]
    """Return where the value of a member begins, a string, if ``key`` is its name at ``i``.

    0 if it is not, _UNUSUAL if the value is no string.
    """
    length = uint64(key.size)
    if i + length >= size:
        return _0
    for k in range(length):
        if content[i + uint64(k)] != key[k]:
            return _0
    i = _pass_blanks(content, i + length, size)
    if i >= size or content[i] != _COLON:
        return _0
    i = _pass_blanks(content, i + _1, size)
    return i if i < size and content[i] == _QUOTE else _UNUSUAL


@njit(cache=True, nogil=True)
def _pass_blanks(content, i, size):  # type: ignore[no-untyped-def]
    while i < size and (content[i] == _SPACE or content[i] == _TAB or content[i] == _RETURN):
        i += _1
    return i


@njit(cache=True, nogil=True)
def _unescape(content, i, size, texts, o):  # type: ignore[no-untyped-def]
    """Decode a string from behind its first quote on; return where it ends, and ``texts`` goes on.

    _UNUSUAL if it is not sound: does not end, has control characters, escapes that JSON lacks,
    surrogates that are no pair, or bytes that are not UTF-8.
    """
    while i < size:
        ends = equal_mask(content, i, _QUOTE) | equal_mask(content, i, _BACKSLASH)
        ends |= below_mask(content, i, _SPACE)
        copy_block(content, i, texts, o)
        count = trailing_zeros(ends)
        if count != _0 and ~below_mask(content, i, uint8(0x80)) & (_ALL >> (_BLOCK - count)):
            whole = _utf8_bytes(content, i, count)
            if whole == _0:
                break
            if whole < count:
                i += whole
                o += whole
                continue
        i += count
        o += count
        if count == _BLOCK:
            continue
        if i >= size or content[i] < _SPACE:
            break
        if content[i] == _QUOTE:
            return i + _1, o
        while content[i] == _BACKSLASH:
            texts[o] = _ESCAPED[content[i + _1]]
            if texts[o] == uint8(0):
                break
            i += _2
            o += _1
        if content[i] == _BACKSLASH:
            character, width = _unescape_character(content, i)
            if width == _0:
                break
            i += width
            o = _encode(character, texts, o)
    return _UNUSUAL, o


@njit(cache=True, nogil=True)
def _unescape_character(content, i):  # type: ignore[no-untyped-def]
    """Return the code point escaped at ``i`` by its number, and in how many bytes; in 0 if none."""
    unit = _code_unit(content, i)
    if unit >> _U(11) != _U(0xD800 >> 11):
        return unit, _0 if unit == _UNUSUAL else _6
    low = _code_unit(content, i + _6)
    if unit >= _U(0xDC00) or low >> _U(10) != _U(0xDC00 >> 10):
        return unit, _0
    return _U(0x10000) + (unit - _U(0xD800) << _U(10) | low - _U(0xDC00)), _12


@njit(cache=True, nogil=True)
def _code_unit(content, i):  # type: ignore[no-untyped-def]
    """Return the 16 bits escaped at ``i``, _UNUSUAL if none are."""
    if content[i] != _BACKSLASH or content[i + _1] != _LETTER_U:
        return _UNUSUAL
    unit = _0
    for k in range(_2, _6):
        digit = uint64(_DIGITS[content[i + uint64(k)]])
        if digit == _U(_NO_DIGIT):
            return _UNUSUAL
        unit = unit << _4 | digit
    return unit


@njit(cache=True, nogil=True)
def _encode(character, texts, o):  # type: ignore[no-untyped-def]
    """Write a code point as UTF-8; return where ``texts`` goes on."""
    if character < _U(0x80):
        texts[o] = uint8(character)
        return o + _1
    length = _2 if character < _U(0x800) else _3 if character < _U(0x10000) else _4
    stop = o + length
    for k in range(_1, length):
        texts[stop - uint64(k)] = uint8(_U(0x80) | character & _U(63))
        character >>= _6
    texts[o] = uint8(~(_U(0xFF) >> length) & _U(0xFF) | character)
    return stop


@njit(cache=True, nogil=True)
def _utf8_bytes(content, i, count):  # type: ignore[no-untyped-def]
    """Return how many of ``count`` bytes are whole characters of UTF-8; 0 if any are none.

    All of them if there are less than 64; of 64, those before a character that goes on behind
    them. A bit of each mask is a byte: those that begin a character say where others must follow.
    """
    to_80, to_c0 = below_mask(content, i, uint8(0x80)), below_mask(content, i, uint8(0xC0))
    to_c2, to_e0 = below_mask(content, i, uint8(0xC2)), below_mask(content, i, uint8(0xE0))
    to_f0, to_f5 = below_mask(content, i, uint8(0xF0)), below_mask(content, i, uint8(0xF5))
    of_2, of_3, of_4 = to_e0 & ~to_c2, to_f0 & ~to_e0, to_f5 & ~to_f0
    if count == _BLOCK:
        cut = of_2 & _U(1 << 63) | of_3 & _U(3 << 62) | of_4 & _U(7 << 61)
        count = trailing_zeros(cut)
    inside = _ALL >> (_BLOCK - count)
    of_2, of_3, of_4 = of_2 & inside, of_3 & inside, of_4 & inside
    following = (of_2 | of_3 | of_4) << _1 | (of_3 | of_4) << _2 | of_4 << _3
    wrong = following ^ to_c0 & ~to_80 & inside
    # overlong, or no byte of UTF-8
    wrong |= (to_c2 & ~to_c0 | ~to_f5) & inside
    after_e0, after_ed = equal_mask(content, i, uint8(0xE0)), equal_mask(content, i, uint8(0xED))
    after_f0, after_f4 = equal_mask(content, i, uint8(0xF0)), equal_mask(content, i, uint8(0xF4))
    if (after_e0 | after_ed | after_f0 | after_f4) & inside != _0:
        # overlong, a surrogate, or beyond the last character
        to_a0, to_90 = below_mask(content, i, uint8(0xA0)), below_mask(content, i, uint8(0x90))
        second = after_e0 << _1 & to_a0 | after_ed << _1 & ~to_a0
        second |= after_f0 << _1 & to_90 | after_f4 << _1 & ~to_90
        wrong |= second & inside
    return _0 if wrong != _0 else count


_TYPES = (
    "UniTuple(uint64, 3)(uint8[::1], uint64, uint64,"
    "uint8[::1], uint8[::1], uint8[::1], int64[::1], int64[::1])"
)
"""With these it is compiled as soon as it is imported, before tasks are forked."""


@njit(_TYPES, cache=True, nogil=True)
def _take_texts(content, begin, size, key, rest, texts, offsets, edges):  # type: ignore[no-untyped-def]
    """Take the text out of each line; return how many, and the sizes of ``rest`` and ``texts``.

    0 lines if one is unusual. ``key`` is the name of the text's member and a quote. One loop from
    string to string: to call a function for each would take as long as to pass over it.
    """
    unusual = _0, _0, _0
    i, r, o, count = begin, _0, _0, _0
    edges[0], offsets[0] = int64(begin), int64(0)
    depth = _0  # in how many objects and arrays i is
    is_taken = False
    while i < size:
        quotes = equal_mask(content, i, _QUOTE)
        newlines = equal_mask(content, i, _NEWLINE)
        opening = equal_mask(content, i, _OPEN) | equal_mask(content, i, _OPEN_ARRAY)
        closing = equal_mask(content, i, _CLOSE) | equal_mask(content, i, _CLOSE_ARRAY)
        copy_block(content, i, rest, r)
        passed = min(trailing_zeros(quotes | newlines), size - i)
        if passed != _0:
            inside = _ALL >> (_BLOCK - passed)
            depth += population_count(opening & inside) - population_count(closing & inside)
        i += passed
        r += passed
        if passed == _BLOCK and i < size:
            continue
        if i >= size or content[i] == _NEWLINE:
            if not is_taken or not _is_object(content, uint64(edges[count]), i):
                return unusual
            rest[r] = _NEWLINE
            i += _1
            r += _1
            count += _1
            edges[count], offsets[count] = int64(min(i, size)), int64(o)
            is_taken = False
            continue
        i += _1
        r += _1
        if depth == _1 and content[i] == key[0]:
            value = _value_of(content, i, size, key)
            if value != _0:
                if is_taken or value == _UNUSUAL:
                    return unusual
                # what is copied too much is written over
                for piece in range(_0, value - i, _BLOCK):
                    copy_block(content, i + uint64(piece), rest, r + uint64(piece))
                r += value - i
                rest[r], rest[r + _1] = _QUOTE, _QUOTE
                r += _2
                i, o = _unescape(content, value + _1, size, texts, o)
                if i == _UNUSUAL:
                    return unusual
                is_taken = True
                continue
        is_escaped = False
        while True:
            ends = equal_mask(content, i, _QUOTE) | equal_mask(content, i, _BACKSLASH)
            ends |= equal_mask(content, i, _NEWLINE)
            copy_block(content, i, rest, r)
            passed = trailing_zeros(ends)
            i += passed
            r += passed
            if i >= size or content[i] == _NEWLINE:
                return unusual
            if passed == _BLOCK:
                continue
            if content[i] == _QUOTE:
                break
            if content[i + _1] == _NEWLINE:
                return unusual
            is_escaped = True
            rest[r], rest[r + _1] = _BACKSLASH, content[i + _1]
            i += _2
            r += _2
        i += _1
        r += _1
        if is_escaped and depth == _1 and _is_name(content, i, size):
            return unusual
    # a line that ends with a string is no object
    return (count, r, o) if uint64(edges[count]) == size else unusual
