# mypy: ignore-errors
"""Loops of Unicode normalisation (Unicode Standard Annex 15): find and rewrite what is not normal.

Nothing is validated or allocated here: normalisation.py does both. Texts are slices of a uint8
array of UTF-8, never read outside, whatever their bytes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int32, uint8, uint32, uint64
from numpy.typing import NDArray

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
    NormalisationTable,
)
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.features.unicode_table import KIND, OTHER, UnicodeTable
from mr_dedup.kernels.bits import trailing_zeros
from mr_dedup.kernels.byte_blocks import BLOCK_BYTES, below_mask, copy_block
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import ALL_BITS, U0, U1, U2, U3, U8, U16, U32, U
from mr_dedup.kernels.utf8 import decode, encode, encoded_size, table_entry

_BLOCK = U(BLOCK_BYTES)
_NOT_ASCII = np.uint8(0x80)
_FIRST_LEAD, _HAN_LEAD, _PAST_HAN_LEADS = np.uint8(0xC0), np.uint8(0xE4), np.uint8(0xEA)
"""First bytes of characters beyond ASCII, and of U+4000 to U+9FFF, which never change."""

_BYTE, _NUMBER = U(0xFF), U((1 << 14) - 1)
_CHANGES, _JOINS, _SEPARATES = U(CHANGES), U(JOINS), U(SEPARATES)
_HANGUL, _HANGUL_SYLLABLES = U(HANGUL), U(HANGUL_SYLLABLES)
_LEADING, _VOWELS, _TRAILING = U(LEADING), U(VOWELS), U(TRAILING)
_LEADING_COUNT, _VOWEL_COUNT, _TRAILING_COUNT = (
    U(LEADING_COUNT), U(VOWEL_COUNT), U(TRAILING_COUNT)
)  # fmt: skip
_YPOGEGRAMMENI, _IOTA = U(YPOGEGRAMMENI), U(IOTA)


class Characters(NamedTuple):
    """Space for the characters that are decomposed, ordered and composed together: c at most.

    Attributes:
        code_points: uint32[2 c]; the second half is scratch for ordering.
        classes: uint8[2 c], their combining classes.
    """

    code_points: NDArray[np.uint32]
    classes: NDArray[np.uint8]

    @classmethod
    def allocate(cls, size: int) -> Characters:
        """Return space for up to ``size`` characters."""
        return cls(np.empty(2 * size, np.uint32), np.empty(2 * size, np.uint8))


@entry
def find_changed(batch: TextBatch, table: NormalisationTable, rows: NDArray[np.int64]) -> int:
    """Write the rows of the texts that normalisation changes; return their number."""
    content, starts, stops = batch
    found = U0
    for i in range(starts.size):
        if not _is_normal(content, starts[i], stops[i], table):
            rows[found] = i
            found += U1
    return found


@kernel
def _is_normal(content, begin, end, table):
    """Return whether a text is normal, by the quick check (section 9)."""
    size = uint64(content.size)
    last_class = U0
    i = begin
    while i < end:
        unchanged = _unchanged_bytes(content, i, size, table)
        if unchanged != U0:
            last_class = U0
            i += unchanged
            continue
        character, width = decode(content, i, end)
        entry = uint64(table_entry(table, character))
        check = entry & _BYTE
        if check != U0:
            if check == _CHANGES:
                if entry & _SEPARATES == U0:
                    return False
                check = U0
            elif check < last_class:
                return False
        last_class = check
        i += width
    return True


@entry
def find_words(batch: TextBatch, table: UnicodeTable, has_words: NDArray[np.bool_]) -> None:
    """Write to ``has_words`` bool[n] which texts have a token, by the Unicode ``table``.

    A text is read up to its first token, which most texts begin with.
    """
    content, starts, stops = batch
    for i in range(starts.size):
        j, end = starts[i], stops[i]
        kind = int32(OTHER)
        while j < end and kind == OTHER:
            character, width = decode(content, j, end)
            kind = table_entry(table, character) & KIND
            j += width
        has_words[i] = kind != OTHER


@kernel(inline="always")
def _unchanged_bytes(content, i, size, table):
    """Return how many bytes from ``i`` on, up to 64, need no look at the table.

    These are of ASCII or of U+4000 to U+9FFF; the last character may continue behind them. This
    makes the check of Chinese three times as fast.
    """
    if table.reads_ascii:
        return U0
    if i + _BLOCK <= size:
        others = below_mask(content, i, _FIRST_LEAD)
        han = below_mask(content, i, _PAST_HAN_LEADS) & ~below_mask(content, i, _HAN_LEAD)
        return trailing_zeros(~(others | han))
    byte = content[i]
    return uint64(byte < _FIRST_LEAD or (byte >= _HAN_LEAD and byte < _PAST_HAN_LEADS))


@kernel
def _max_size(content, begin, end, table):
    """Return bounds of the bytes a text becomes, and of the characters composed together."""
    size, together = U0, U0
    i = begin
    while i < end:
        if content[i] < _NOT_ASCII and not table.reads_ascii:
            i += U1
            size += U1
            together += U1
            continue
        character, width = decode(content, i, end)
        number = uint64(table_entry(table, character)) >> U16 & _NUMBER
        if number != U0:
            mapped = uint64(table.sizes[number])
            together += uint64(table.offsets[number + U1] - table.offsets[number])
        else:
            # single bytes that are not UTF-8 may take two
            mapped = max(width, U2)
            together += U3
        size += max(mapped, width)
        i += width
    return size, together


@entry
def max_sizes(
    batch: TextBatch, rows: NDArray[np.int64], table: NormalisationTable
) -> tuple[int, int]:
    """Return the bytes that the texts at ``rows`` become at most, and the characters of one."""
    content, starts, stops = batch
    total, longest = U0, U0
    for row in rows:
        size, together = _max_size(content, starts[row], stops[row], table)
        total += size
        longest = max(longest, together)
    return total, longest


@entry
def write_texts(
    batch: TextBatch,
    rows: NDArray[np.int64],
    table: NormalisationTable,
    space: Characters,
    out: NDArray[np.uint8],
    edges: NDArray[np.int64],
) -> int:
    """Write all texts to ``out``, normalising those at ``rows``, ascending; return the end.

    Text i is then ``out[edges[i]:edges[i + 1]]``, ``edges`` int64[n + 1].
    """
    content, starts, stops = batch
    written, row = U0, U0
    edges[0] = 0
    for i in range(starts.size):
        if row < uint64(rows.size) and rows[row] == i:
            written = _write_normal(content, starts[i], stops[i], table, space, out, written)
            row += U1
        else:
            written = _copy(content, starts[i], stops[i], out, written)
        edges[i + 1] = written
    return written


@kernel
def _copy(content, begin, end, out, written):
    last = min(uint64(content.size), uint64(out.size) - written + begin)
    while begin + _BLOCK <= end and begin + _BLOCK <= last:
        copy_block(content, begin, out, written)
        begin += _BLOCK
        written += _BLOCK
    while begin < end:
        out[written] = content[begin]
        begin += U1
        written += U1
    return written


@kernel
def _write_normal(content, begin, end, table, space, out, written):
    """Write a normalised text from out[written] on; return the end.

    Normal parts are copied. Where a character is not normal, everything from the last starter that
    it may combine with to the next character that is always normal is decomposed and composed.
    """
    size = uint64(content.size)
    copied = begin
    starter = begin
    last_class = U0
    i = begin
    while i < end:
        unchanged = _unchanged_bytes(content, i, size, table)
        if unchanged != U0:
            i = min(i + unchanged, end)
            starter = i - U1
            while starter > copied and content[starter] & uint8(0xC0) == uint8(0x80):
                starter -= U1
            last_class = U0
            continue
        character, width = decode(content, i, end)
        entry = uint64(table_entry(table, character))
        check = entry & _BYTE
        if check == _CHANGES and entry & _SEPARATES != U0:
            check = U0
        if check == U0:
            starter = i
        elif check == _CHANGES or check < last_class:
            first = starter if check != _CHANGES or entry & _JOINS != U0 else i
            written = _copy(content, copied, first, out, written)
            i, count = _decompose(content, first, end, table, space)
            _order(space, count)
            count = _compose(space, count, table)
            for j in range(count):
                written = encode(uint64(space.code_points[j]), out, written)
            copied = starter = i
            last_class = U0
            continue
        last_class = check
        i += width
    return _copy(content, copied, end, out, written)


@kernel
def _decompose(content, i, end, table, space):
    """Decompose content[i] and what follows, up to a character that is always normal.

    Returns its index, and the number of code points written to ``space``.
    """
    characters, classes = space
    count = U0
    is_first = True
    while i < end:
        character, width = decode(content, i, end)
        entry = uint64(table_entry(table, character))
        if not is_first and (entry & _BYTE == U0 or entry & _SEPARATES != U0):
            break
        is_first = False
        number = entry >> U16 & _NUMBER
        if number != U0:
            for j in range(uint64(table.offsets[number]), uint64(table.offsets[number + U1])):
                mapped = uint64(table.code_points[j])
                characters[count] = uint32(mapped)
                classes[count] = uint8(table_entry(table, mapped) >> U8)
                count += U1
        elif character - _HANGUL < _HANGUL_SYLLABLES:
            syllable = character - _HANGUL
            trailing = syllable % _TRAILING_COUNT
            others = syllable // _TRAILING_COUNT
            characters[count] = uint32(_LEADING + others // _VOWEL_COUNT)
            characters[count + U1] = uint32(_VOWELS + others % _VOWEL_COUNT)
            characters[count + U2] = uint32(_TRAILING + trailing)
            classes[count : count + U3] = uint8(0)
            count += U2 + uint64(trailing != U0)
        else:
            characters[count] = uint32(character)
            classes[count] = uint8(entry >> U8)
            count += U1
        i += width
    return i, count


@kernel
def _order(space, count):
    """Sort each run of marks by their combining classes, stably.

    By insertion, since marks are few; runs of more than 32 by counting, so that a text of nothing
    but marks does not take quadratic time.
    """
    characters, classes = space
    begin = U0
    while begin < count:
        stop = begin
        while stop < count and classes[stop] != uint8(0):
            stop += U1
        if stop - begin > U32:
            _order_many(space, begin, stop, count)
        else:
            for i in range(begin + U1, stop):
                character, its_class = characters[i], classes[i]
                hole = uint64(i)
                while hole > begin and classes[hole - U1] > its_class:
                    characters[hole], classes[hole] = characters[hole - U1], classes[hole - U1]
                    hole -= U1
                characters[hole], classes[hole] = character, its_class
        begin = stop + U1


@kernel
def _order_many(space, begin, stop, scratch):
    """Sort a run of marks by counting; both arrays are scratch from ``scratch`` on."""
    characters, classes = space
    ends = np.zeros(257, np.uint64)
    for i in range(begin, stop):
        ends[uint64(classes[i]) + U1] += U1
    for its_class in range(U1, U(257)):
        ends[its_class] += ends[its_class - U1]
    for i in range(begin, stop):
        target = scratch + ends[classes[i]]
        ends[classes[i]] += U1
        characters[target], classes[target] = characters[i], classes[i]
    for i in range(stop - begin):
        characters[begin + uint64(i)] = characters[scratch + uint64(i)]
        classes[begin + uint64(i)] = classes[scratch + uint64(i)]


@kernel
def _compose(space, count, table):
    """Compose ordered characters in place; return how many are left (3.11, D117)."""
    characters, classes = space
    written, starter, last_class = U0, ALL_BITS, U0
    for i in range(count):
        character, its_class = uint64(characters[i]), uint64(classes[i])
        if character == _YPOGEGRAMMENI and table.folds:
            character, its_class = _IOTA, U0
        if starter != ALL_BITS and (written == starter + U1 or last_class < its_class):
            composite = _composite(uint64(characters[starter]), character, table)
            if composite != U0:
                characters[starter] = uint32(composite)
                continue
        if its_class == U0:
            starter = written
        last_class = its_class
        characters[written] = uint32(character)
        written += U1
    return written


@kernel
def _composite(first, second, table):
    """Return the composition of two characters, 0 if there is none."""
    if first - _LEADING < _LEADING_COUNT and second - _VOWELS < _VOWEL_COUNT:
        others = (first - _LEADING) * _VOWEL_COUNT + second - _VOWELS
        return _HANGUL + others * _TRAILING_COUNT
    # TRAILING itself is not one of these letters
    is_trailing = second - _TRAILING - U1 < _TRAILING_COUNT - U1
    syllable = first - _HANGUL
    if is_trailing and syllable < _HANGUL_SYLLABLES and syllable % _TRAILING_COUNT == U0:
        return first + second - _TRAILING
    key = first << U32 | second
    low, high = U0, uint64(table.pairs.size)
    while low < high:
        middle = (low + high) >> U1
        if table.pairs[middle] < key:
            low = middle + U1
        else:
            high = middle
    if low < uint64(table.pairs.size) and table.pairs[low] == key:
        return uint64(table.composites[low])
    return U0


@kernel
def piece_at(content, i, end, table, space):
    """Return the size of the piece of a text at ``i``, that of its normal form, and if it has it.

    A piece goes to the next character that does not combine with what is before it. A normalised
    text is the normal forms of its pieces, one after the other.
    """
    stop = i
    last_class = U0
    is_normal = True
    while stop < end:
        character, width = decode(content, stop, end)
        entry = uint64(table_entry(table, character))
        if stop > i and entry & _JOINS == U0:
            break
        check = entry & _BYTE
        if check == _CHANGES and entry & _SEPARATES != U0:
            check = U0
        is_normal = is_normal and check != _CHANGES and (check == U0 or check >= last_class)
        last_class = check
        stop += width
    if is_normal:
        return stop - i, stop - i, True
    size, at = U0, i
    while at < stop:
        at, count = _decompose(content, at, stop, table, space)
        _order(space, count)
        for j in range(_compose(space, count, table)):
            size += encoded_size(uint64(space.code_points[j]))
    return stop - i, size, False
