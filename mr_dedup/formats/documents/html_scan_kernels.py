# mypy: ignore-errors
"""One pass over the bytes of a page of HTML, before it is parsed."""

from __future__ import annotations

import numpy as np
from numpy import uint64
from numpy.typing import NDArray

from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.hash_table import find_slot
from mr_dedup.kernels.unsigned import FACTORS, U0, U1, U2, U3, U4, U5, U32, U64, U

PADDING_BYTES = 8
"""Zeros before and behind a page: bytes around one are read without a check."""

# what a name stands for, as bits: elements that need no end tag, are empty in XML, option, select;
# a class or id of furniture. Above them the number of a formatting element
NOT_NESTED, VOID, OPTION, SELECT, FURNITURE = 1, 2, 4, 8, 16
FORMATTING_SHIFT = 5

# what is in a page, as bits
MAY_BE_XML, HAS_ROLE, HAS_LABEL, HAS_ADVERT_DATA = 1, 2, 4, 8

_NOT_NESTED, _VOID, _OPTION, _SELECT = U(NOT_NESTED), U(VOID), U(OPTION), U(SELECT)
_MAY_BE_XML, _HAS_ROLE, _HAS_LABEL, _HAS_ADVERT_DATA = U(1), U(2), U(4), U(8)
_FORMATTING = U(FORMATTING_SHIFT)
_PADDING = U(PADDING_BYTES)
_MULTIPLIER = FACTORS[0]

_LESS, _GREATER, _SLASH, _DASH, _BANG, _BRACKET, _A = (np.uint8(ord(c)) for c in "<>/-![a")
_IS_SPECIAL = np.zeros(256, np.uint8)
_IS_SPECIAL[list(b"<>=-")] = 1
_IS_SPACE = np.zeros(256, np.uint8)
_IS_SPACE[list(b" \t\n\r\f\v")] = 1
_ENDS_NAME = _IS_SPACE.copy()
_ENDS_NAME[list(b"/>")] = 1
_IS_QUOTE = np.zeros(256, np.uint8)
_IS_QUOTE[list(b"\"'")] = 1
_LOWER = np.arange(256, dtype=np.uint8)
_LOWER[ord("A") : ord("Z") + 1] += 32
# letters in lower case, digits; 0 for all else
_NAME = np.zeros(256, np.uint8)
for _byte in b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz":
    _NAME[_byte] = _LOWER[_byte]

_ID, _ROLE, _CLASS, _LABEL, _DATA, _AD = (
    U(int.from_bytes(word, "big")) for word in (b"id", b"role", b"class", b"label", b"data", b"ad")
)
_2_BYTES, _4_BYTES = U(0xFFFF), U(0xFFFFFFFF)

_MAX_EQUAL = U3
"""Formatting elements of one name without attributes that are reopened."""


def name_key(name: str) -> int:
    """Return the key of a name in lower case, in the table of ``scan_page``."""
    key = 0
    for byte in name.encode():
        key = (key ^ byte) * int(_MULTIPLIER) % 2**64
    return key ^ key >> 32


@entry
def scan_page(
    content: NDArray[np.uint8],
    keys: NDArray[np.uint64],
    meanings: NDArray[np.uint64],
    prefix_lengths: np.uint64,
    found: NDArray[np.uint8],
) -> tuple[int, int, int, int, int, int, int]:
    """Return what is in a page of HTML, content[PADDING_BYTES:-PADDING_BYTES].

    Comments, scripts and values of attributes are scanned like the rest: tags in them count.

    Args:
        content: uint8, the page in an encoding of which ASCII is a part.
        keys: uint64[2**b], a hash table of names by ``name_key``, 0 where a slot is free.
        meanings: uint64[2**b], of the names, as bits.
        prefix_lengths: of names that a class or id may begin with, as bits.
        found: uint8[2**b], gets 1 for each name that a class or id of the page has or begins with.

    Returns:
        The number of tags; the longest run of bytes without < or without >; the number of tags
        of options, 0 without a select element; about how many formatting elements would be
        reopened; the greatest depth of elements, by the rules of HTML, and of XML; and facts, as
        bits.
    """
    end = uint64(content.size) - _PADDING
    opened = np.zeros(64, np.uint64)
    tags, options, reopened, facts, kind = U0, U0, U0, U0, U0
    all_opened, depth, highest, xml_depth, xml_highest = U0, U0, U0, U0, U0
    longest, last_less, last_greater, values_end = U0, _PADDING, _PADDING, U0
    has_select, in_comment, is_nested = False, False, False
    i = _PADDING
    while i < end:
        byte = content[i]
        if not _IS_SPECIAL[byte]:
            i += U1
        elif byte == _LESS:
            tags += U1
            reopened += all_opened
            longest = max(longest, i - last_less)
            last_less = i
            is_nested = False
            kind = U0
            if content[i + U1] == _BANG:
                if content[i + U2] == _BRACKET:
                    facts |= _MAY_BE_XML
                in_comment |= content[i + U2] == _DASH and content[i + U3] == _DASH
            is_end = content[i + U1] == _SLASH
            i += U2 if is_end else U1
            if _NAME[content[i]] < _A:
                continue
            key = U0
            letter = _NAME[content[i]]
            while letter:
                key = (key ^ uint64(letter)) * _MULTIPLIER
                i += U1
                letter = _NAME[content[i]]
            kind = meanings[find_slot(keys, keys, key ^ key >> U32)]
            if not kind & _NOT_NESTED:
                if is_end:
                    depth -= U1 if depth else U0
                    xml_depth -= U1 if xml_depth else U0
                else:
                    is_nested = True
                    depth += U1
                    xml_depth += U1
                    highest = max(highest, depth)
                    xml_highest = max(xml_highest, xml_depth)
            behind = content[i]
            formatting = kind >> _FORMATTING
            if _ENDS_NAME[behind]:
                options += U1 if kind & _OPTION else U0
                has_select |= (kind & _SELECT) != U0
                if not is_end:
                    if formatting and (behind != _GREATER or opened[formatting] < _MAX_EQUAL):
                        opened[formatting] += U1
                        all_opened += U1
                elif opened[formatting] and not in_comment:
                    opened[formatting] -= U1
                    all_opened -= U1
            if is_end:
                kind = U0
        elif byte == _GREATER:
            longest = max(longest, i - last_greater)
            last_greater = i
            before = content[i - U1]
            if before == _SLASH:
                if not kind & _VOID:
                    facts |= _MAY_BE_XML
                if is_nested and xml_depth:
                    xml_depth -= U1
            elif before == _DASH and content[i - U2] == _DASH:
                in_comment = False
            is_nested = False
            i += U1
        elif byte == _DASH:
            if _word(content, i, U4) == _DATA and _word(content, i + U3, U2) == _AD:
                facts |= _HAS_ADVERT_DATA
            i += U1
        else:
            at = i
            while _IS_SPACE[content[at - U1]]:
                at -= U1
            word = _word(content, at, U5)
            if word & _2_BYTES == _ID or word == _CLASS:
                if i >= values_end:
                    values_end = _find_names(content, i + U1, end, keys, prefix_lengths, found)
            elif word & _4_BYTES == _ROLE:
                facts |= _HAS_ROLE
            elif word == _LABEL:
                facts |= _HAS_LABEL
            i += U1
    longest = max(longest, end - min(last_less, last_greater))
    options = options if has_select else U0
    return tags, longest, options, reopened, highest, xml_highest, facts


@kernel
def _word(content, end, count):
    """Return the bytes content[end - count:end], in lower case, as a number."""
    word = U0
    for at in range(end - count, end):
        word = word << U(8) | uint64(_LOWER[content[at]])
    return word


@kernel
def _find_names(content, i, end, keys, prefix_lengths, found):
    """Mark the names in a value in ``found``; return where the value ends."""
    while _IS_SPACE[content[i]]:
        i += U1
    is_quoted = _IS_QUOTE[content[i]]
    i += U1 if is_quoted else U0
    key, length = U0, U0
    while True:
        byte = content[i]
        is_over = i >= end or _IS_QUOTE[byte] or byte == _GREATER
        if is_over or _IS_SPACE[byte]:
            found[find_slot(keys, keys, key ^ key >> U32)] = np.uint8(1)
            if is_over or not is_quoted:
                return i
            key, length = U0, U0
        else:
            key = (key ^ uint64(_LOWER[byte])) * _MULTIPLIER
            length += U1
            if length < U64 and prefix_lengths >> length & U1:
                found[find_slot(keys, keys, key ^ key >> U32)] = np.uint8(1)
        i += U1
