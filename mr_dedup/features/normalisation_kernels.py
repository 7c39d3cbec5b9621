"""The loops of normalisation: whether texts are normal already, and what becomes of the others.

Unicode Standard Annex 15. Nothing is validated or allocated here: normalisation.py does both. Texts
are slices of a uint8 array of UTF-8, never read outside, whatever their bytes.
"""

from __future__ import annotations

import numpy as np
from numba import int32, njit, uint8, uint32, uint64

from mr_dedup.features.kernels import decode, encode
from mr_dedup.features.normalisation_table import (
    CHANGES,
    HANGUL,
    HANGUL_SYLLABLES,
    IOTA,
    JOINS,
    LEADING,
    LEADING_COUNT,
    SEPARATES,
    TRAILING,
    TRAILING_COUNT,
    VOWEL_COUNT,
    VOWELS,
    YPOGEGRAMMENI,
)
from mr_dedup.features.unicode_table import OTHER
from mr_dedup.kernels.bits import trailing_zeros
from mr_dedup.kernels.byte_blocks import BLOCK_BYTES, below_mask, copy_block

_U = np.uint64
_0, _1, _2, _3, _8, _16, _32 = (_U(n) for n in (0, 1, 2, 3, 8, 16, 32))
_BLOCK, _ALL = _U(BLOCK_BYTES), ~_U(0)
_NOT_ASCII = np.uint8(0x80)
_FIRST_LEAD, _HAN_LEAD, _PAST_HAN_LEADS = np.uint8(0xC0), np.uint8(0xE4), np.uint8(0xEA)
"""Bytes that begin characters of several; of U+4000 to U+9FFF, none of which ever changes."""

_BYTE, _NUMBER = _U(0xFF), _U((1 << 14) - 1)
_CHANGES, _JOINS, _SEPARATES = _U(CHANGES), _U(JOINS), _U(SEPARATES)
_HANGUL, _HANGUL_SYLLABLES = _U(HANGUL), _U(HANGUL_SYLLABLES)
_LEADING, _VOWELS, _TRAILING = _U(LEADING), _U(VOWELS), _U(TRAILING)
_LEADING_COUNT, _VOWEL_COUNT, _TRAILING_COUNT = (
    _U(LEADING_COUNT), _U(VOWEL_COUNT), _U(TRAILING_COUNT)
)  # fmt: skip
_YPOGEGRAMMENI, _IOTA = _U(YPOGEGRAMMENI), _U(IOTA)


@njit(cache=True, nogil=True)
def find_others(content, starts, stops, table, rows):  # type: ignore[no-untyped-def]
    """Write which content[starts[i]:stops[i]] are not normal to ``rows``; return how many."""
    found = _0
    for i in range(starts.size):
        if not _is_normal(content, starts[i], stops[i], table):
            rows[found] = i
            found += _1
    return found


@njit(cache=True, nogil=True)
def _is_normal(content, begin, end, table):  # type: ignore[no-untyped-def]
    """Return whether nothing of a text changes, by the quick check (section 9)."""
    size = uint64(content.size)
    last_class = _0
    i = begin
    while i < end:
        plain = _plain(content, i, size)
        if plain != _0:
            last_class = _0
            i += plain
            continue
        character, width = decode(content, i, end)
        entry = entry_of(table, character)
        check = entry & _BYTE
        if check != _0:
            if check == _CHANGES:
                if entry & _SEPARATES == _0:
                    return False
                check = _0
            elif check < last_class:
                return False
        last_class = check
        i += width
    return True


@njit(cache=True, nogil=True)
def find_words(content, starts, stops, pages, entries, has_words):  # type: ignore[no-untyped-def]
    """Write which content[starts[i]:stops[i]] have a token to ``has_words`` bool[n].

    ``pages`` and ``entries`` are the Unicode table. Most texts begin with a token or nearly so: no
    more than that is read.
    """
    for i in range(starts.size):
        j, end = starts[i], stops[i]
        kind = int32(OTHER)
        while j < end and kind == OTHER:
            character, width = decode(content, j, end)
            entry = entries[uint64(pages[character >> _8]) << _8 | character & _BYTE]
            kind = entry & int32(3)
            j += width
        has_words[i] = kind != OTHER


@njit(cache=True, nogil=True, inline="always")
def _plain(content, i, size):  # type: ignore[no-untyped-def]
    """Return how many bytes from ``i`` on are of ASCII or of U+4000 to U+9FFF: nothing to look up.

    Up to 64, the last ones perhaps of a character that goes on behind them. Of Chinese it makes the
    check three times as fast.
    """
    if i + _BLOCK <= size:
        others = below_mask(content, i, _FIRST_LEAD)
        han = below_mask(content, i, _PAST_HAN_LEADS) & ~below_mask(content, i, _HAN_LEAD)
        return trailing_zeros(~(others | han))
    byte = content[i]
    return uint64(byte < _FIRST_LEAD or (byte >= _HAN_LEAD and byte < _PAST_HAN_LEADS))


@njit(cache=True, nogil=True)
def entry_of(table, character):  # type: ignore[no-untyped-def]
    """Return the entry of a code point, uint64."""
    page = uint64(table.pages[character >> _8])
    return uint64(table.entries[page << _8 | character & _BYTE])


@njit(cache=True, nogil=True)
def room_for(content, begin, end, table):  # type: ignore[no-untyped-def]
    """Return bytes and code points that a text never needs more of.

    The bytes are of what it becomes, the code points of what is composed together.
    """
    room, together = _0, _0
    i = begin
    while i < end:
        if content[i] < _NOT_ASCII:
            i += _1
            room += _1
            together += _1
            continue
        character, width = decode(content, i, end)
        number = entry_of(table, character) >> _16 & _NUMBER
        if number != _0:
            mapped = uint64(table.sizes[number])
            together += uint64(table.offsets[number + _1] - table.offsets[number])
        else:
            # single bytes that are no UTF-8 may take two
            mapped = max(width, _2)
            together += _3
        room += max(mapped, width)
        i += width
    return room, together


@njit(cache=True, nogil=True)
def room_for_texts(content, starts, stops, rows, table):  # type: ignore[no-untyped-def]
    """Return bytes that the texts at ``rows`` become at most, and the most code points of one."""
    total, most = _0, _0
    for row in rows:
        room, together = room_for(content, starts[row], stops[row], table)
        total += room
        most = max(most, together)
    return total, most


@njit(cache=True, nogil=True)
def write_texts(content, starts, stops, rows, table, characters, classes, out, edges):  # type: ignore[no-untyped-def]
    """Write each content[starts[i]:stops[i]], those at ``rows`` normalised, to ``out``.

    Text i is then out[edges[i]:edges[i + 1]], ``edges`` int64[n + 1]; ``rows`` ascend.
    ``characters`` uint32[c] and ``classes`` uint8[c] are scratch. Returns how much is written.
    """
    written, row = _0, _0
    edges[0] = 0
    for i in range(starts.size):
        if row < uint64(rows.size) and rows[row] == i:
            written = _write_normal(
                content, starts[i], stops[i], table, characters, classes, out, written
            )
            row += _1
        else:
            written = _copy(content, starts[i], stops[i], out, written)
        edges[i + 1] = written
    return written


@njit(cache=True, nogil=True)
def _copy(content, begin, end, out, written):  # type: ignore[no-untyped-def]
    last = min(uint64(content.size), uint64(out.size) - written + begin)
    while begin + _BLOCK <= end and begin + _BLOCK <= last:
        copy_block(content, begin, out, written)
        begin += _BLOCK
        written += _BLOCK
    while begin < end:
        out[written] = content[begin]
        begin += _1
        written += _1
    return written


@njit(cache=True, nogil=True)
def _write_normal(content, begin, end, table, characters, classes, out, written):  # type: ignore[no-untyped-def]
    """Write a text in its form from out[written] on; return where it ends.

    What is normal is copied. Where something is not, all from the last starter that it may combine
    with to the next character that stands for itself is decomposed and composed again.
    """
    size = uint64(content.size)
    copied = begin
    starter = begin
    last_class = _0
    i = begin
    while i < end:
        plain = _plain(content, i, size)
        if plain != _0:
            i = min(i + plain, end)
            starter = i - _1
            while starter > copied and content[starter] & uint8(0xC0) == uint8(0x80):
                starter -= _1
            last_class = _0
            continue
        character, width = decode(content, i, end)
        entry = entry_of(table, character)
        check = entry & _BYTE
        if check == _CHANGES and entry & _SEPARATES != _0:
            check = _0
        if check == _0:
            starter = i
        elif check == _CHANGES or check < last_class:
            first = starter if check != _CHANGES or entry & _JOINS != _0 else i
            written = _copy(content, copied, first, out, written)
            i, count = _decompose(content, first, end, table, characters, classes)
            _order(characters, classes, count)
            count = _compose(characters, classes, count, table)
            for j in range(count):
                written = encode(uint64(characters[j]), out, written)
            copied = starter = i
            last_class = _0
            continue
        last_class = check
        i += width
    return _copy(content, copied, end, out, written)


@njit(cache=True, nogil=True)
def _decompose(content, i, end, table, characters, classes):  # type: ignore[no-untyped-def]
    """Write what becomes of content[i] and of all up to a character that stands for itself.

    Returns where that is, and how many code points are written.
    """
    count = _0
    is_first = True
    while i < end:
        character, width = decode(content, i, end)
        entry = entry_of(table, character)
        if not is_first and (entry & _BYTE == _0 or entry & _SEPARATES != _0):
            break
        is_first = False
        number = entry >> _16 & _NUMBER
        if number != _0:
            for place in range(uint64(table.offsets[number]), uint64(table.offsets[number + _1])):
                mapped = uint64(table.code_points[place])
                characters[count] = uint32(mapped)
                classes[count] = uint8(entry_of(table, mapped) >> _8)
                count += _1
        elif character - _HANGUL < _HANGUL_SYLLABLES:
            syllable = character - _HANGUL
            trailing = syllable % _TRAILING_COUNT
            others = syllable // _TRAILING_COUNT
            characters[count] = uint32(_LEADING + others // _VOWEL_COUNT)
            characters[count + _1] = uint32(_VOWELS + others % _VOWEL_COUNT)
            characters[count + _2] = uint32(_TRAILING + trailing)
            classes[count : count + _3] = uint8(0)
            count += _2 + uint64(trailing != _0)
        else:
            characters[count] = uint32(character)
            classes[count] = uint8(entry >> _8)
            count += _1
        i += width
    return i, count


@njit(cache=True, nogil=True)
def _order(characters, classes, count):  # type: ignore[no-untyped-def]
    """Order the marks that follow one another by their classes, those of equal ones as they are.

    By insertion, for marks are few. Of more than 32 classes are counted, or a text of nothing but
    marks would take time by its square: the rest of both arrays is scratch then.
    """
    begin = _0
    while begin < count:
        stop = begin
        while stop < count and classes[stop] != uint8(0):
            stop += _1
        if stop - begin > _32:
            _order_many(characters, classes, begin, stop, count)
        else:
            for i in range(begin + _1, stop):
                character, its_class = characters[i], classes[i]
                hole = uint64(i)
                while hole > begin and classes[hole - _1] > its_class:
                    characters[hole], classes[hole] = characters[hole - _1], classes[hole - _1]
                    hole -= _1
                characters[hole], classes[hole] = character, its_class
        begin = stop + _1


@njit(cache=True, nogil=True)
def _order_many(characters, classes, begin, stop, scratch):  # type: ignore[no-untyped-def]
    places = np.zeros(257, np.uint64)
    for i in range(begin, stop):
        places[uint64(classes[i]) + _1] += _1
    for its_class in range(_1, _U(257)):
        places[its_class] += places[its_class - _1]
    for i in range(begin, stop):
        place = scratch + places[classes[i]]
        places[classes[i]] += _1
        characters[place], classes[place] = characters[i], classes[i]
    for i in range(stop - begin):
        characters[begin + uint64(i)] = characters[scratch + uint64(i)]
        classes[begin + uint64(i)] = classes[scratch + uint64(i)]


@njit(cache=True, nogil=True)
def _compose(characters, classes, count, table):  # type: ignore[no-untyped-def]
    """Compose ordered characters in place; return how many are left (3.11, D117)."""
    written, starter, last_class = _0, _ALL, _0
    for i in range(count):
        character, its_class = uint64(characters[i]), uint64(classes[i])
        if character == _YPOGEGRAMMENI and table.folds:
            character, its_class = _IOTA, _0
        if starter != _ALL and (written == starter + _1 or last_class < its_class):
            composite = _composite(uint64(characters[starter]), character, table)
            if composite != _0:
                characters[starter] = uint32(composite)
                continue
        if its_class == _0:
            starter = written
        last_class = its_class
        characters[written] = uint32(character)
        written += _1
    return written


@njit(cache=True, nogil=True)
def _composite(first, second, table):  # type: ignore[no-untyped-def]
    """Return the character that two are composed to, 0 if they are not."""
    if first - _LEADING < _LEADING_COUNT and second - _VOWELS < _VOWEL_COUNT:
        others = (first - _LEADING) * _VOWEL_COUNT + second - _VOWELS
        return _HANGUL + others * _TRAILING_COUNT
    # TRAILING itself is none of these letters
    is_trailing = second - _TRAILING - _1 < _TRAILING_COUNT - _1
    syllable = first - _HANGUL
    if is_trailing and syllable < _HANGUL_SYLLABLES and syllable % _TRAILING_COUNT == _0:
        return first + second - _TRAILING
    key = first << _32 | second
    low, high = _0, uint64(table.pairs.size)
    while low < high:
        middle = (low + high) >> _1
        if table.pairs[middle] < key:
            low = middle + _1
        else:
            high = middle
    if low < uint64(table.pairs.size) and table.pairs[low] == key:
        return uint64(table.composites[low])
    return _0
