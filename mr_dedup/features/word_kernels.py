# mypy: ignore-errors
"""Loops over a text whose features are single words: count each, hash those that are new.

Most words of a text occur in the texts before it. So words are stored with their hashes in a
vocabulary, and a word that occurs again costs a look at a hash table and an addition; a character
of Chinese costs an addition alone. So ``mr-dedup fingerprint`` takes 0.85 of its CPU time for half
a gigabyte of made-up pages, 0.92 for 28 MB of Chinese documentation and 0.96 for 30 MB of licence
texts, 0.7 s of start included.

Nothing is validated here. Texts are slices of a uint8 array of UTF-8, never read outside it,
whatever their bytes; the words of bytes that are not UTF-8 are undefined.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import int32, int64, uint8, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.token_kernels import is_null
from mr_dedup.features.unicode_table import (
    CHARACTER,
    KIND,
    KIND_BITS,
    MARK,
    SYMBOL,
    WORD,
    UnicodeTable,
)
from mr_dedup.features.xxh3_kernels import xxh3_64
from mr_dedup.kernels.bits import folded_product, population_count, trailing_zeros
from mr_dedup.kernels.byte_blocks import BLOCK_BYTES, below_mask, copy_block_lower, word_mask
from mr_dedup.kernels.entry import kernel
from mr_dedup.kernels.memory import load64
from mr_dedup.kernels.unsigned import ALL_BITS, FACTORS, U0, U1, U2, U3, U4, U6, U8, U
from mr_dedup.kernels.utf8 import decode, encode, table_entry

_KIND, _KIND_BITS = KIND, np.int32(KIND_BITS)
_BLOCK = U(BLOCK_BYTES)
_NOT_ASCII = np.uint8(0x80)

_FIRST_HAN = U(0x4E00)
_HAN_RANGE = U(0x9FFF - 0x4E00)

CODE_POINTS = 0x40000
"""A bound of the code points of characters that are tokens by themselves."""

_KEY_BYTES = 16
_LOW_BYTES = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(_KEY_BYTES + 1)], np.uint64)
_HIGH_BYTES = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(_KEY_BYTES + 1)], np.uint64)
"""Masks of the bits of a key that a word of n bytes has."""

_MAX_WORDS = U(1 << 16)
"""Words above which the vocabulary is emptied before the next text.

With 2**14, which with its slots fits the second-level cache, texts of 27,000 words by Zipf's law
took 1.7 times as long, those of a million 1.2 times: inserting words again costs more than looking
up the rare ones in the third level. 2**15 and 2**17 are within a tenth. To prefetch the slots and
words of 8 to 32 words gained nothing.
"""

_FIRST_SLOTS = U(1 << 10)

_TOGETHER = U(8)
"""Edges written per step. The last step writes as many, too: a whole text takes 0.95 of the time of
a loop with a test."""


class WordRule(NamedTuple):
    """What words are, and what they weigh.

    Attributes:
        table: The character table for prepared texts.
        totals: int32[s]; a word that occurs t times weighs totals[t], and beyond the end as much
            more for each occurrence as the last two differ.
    """

    table: UnicodeTable
    totals: NDArray[np.int32]


class WordScratch(NamedTuple):
    """Space for the words of one text of up to b bytes, so w = b // 2 + 1 words; a vocabulary.

    Attributes:
        text: uint8[2 b + BLOCK_BYTES], the case-folded text.
        edges: uint32[2 w + 9], the starts and stops of words in it, alternating.
        found: uint32[w + 1], the distinct characters that are tokens, then the offsets in ``words``
            of the distinct words.
        hashes: uint64[w + 8], those of the distinct characters and words.
        weights: int32[w + 8], theirs.
        words: uint64[4 (w + n)], n a little above _MAX_WORDS: four numbers a word of the
            vocabulary, its key of twice 64 bits, its hash, and its occurrences in the text, which
            are 0 between texts. All are 0 at offset 0.
        slots: uint32[c], a hash table of keys, c a power of 2 and at least 4 (w + n): offsets in
            ``words``, 0 where a slot is free.
        used: uint64[2], the parts of ``words`` and of ``slots`` in use.
        times: uint32[CODE_POINTS], the occurrences of characters in the text, 0 between texts.
        character_hashes: uint64[CODE_POINTS], 0 where not known yet.
    """

    text: NDArray[np.uint8]
    edges: NDArray[np.uint32]
    found: NDArray[np.uint32]
    hashes: NDArray[np.uint64]
    weights: NDArray[np.int32]
    words: NDArray[np.uint64]
    slots: NDArray[np.uint32]
    used: NDArray[np.uint64]
    times: NDArray[np.uint32]
    character_hashes: NDArray[np.uint64]


def word_scratch_for(size_bytes: int) -> WordScratch:
    """Return space for texts of up to ``size_bytes``, with an empty vocabulary.

    Reserves up to 50 bytes a byte of text and 6 MB; a text touches a third of that, and little if
    most of its words are in the vocabulary. To keep it for more than 8 MB of texts gains up to a
    sixth where most words are rare, and loses as much where few are: the common words are then far
    apart.
    """
    max_tokens = size_bytes // 2 + 1
    size = 4 * (max_tokens + int(_MAX_WORDS) + 2)
    words = np.empty(size, np.uint64)
    slots = np.empty(1 << (size - 1).bit_length(), np.uint32)
    words[:4] = 0
    slots[:_FIRST_SLOTS] = 0
    return WordScratch(
        np.empty(2 * size_bytes + BLOCK_BYTES, np.uint8),
        np.empty(2 * max_tokens + 9, np.uint32),
        np.empty(max_tokens + 1, np.uint32),
        np.empty(max_tokens + 8, np.uint64),
        np.empty(max_tokens + 8, np.int32),
        words,
        slots,
        np.array([4, _FIRST_SLOTS], np.uint64),
        # zeros take no memory until they are touched
        np.zeros(CODE_POINTS, np.uint32),
        np.zeros(CODE_POINTS, np.uint64),
    )


@kernel
def find_words(content, begin, end, rule, scratch):
    """Find the features of ``content[begin:end]``: its tokens.

    Writes the hash and the weight of each distinct token to ``scratch``; returns the number of
    tokens, and of distinct ones. A text without tokens has one feature, all its bytes; a null has
    none.
    """
    if is_null(content, begin):
        return U0, U0
    if scratch.used[0] > U4 * _MAX_WORDS:
        scratch.used[0] = U4
        scratch.used[1] = _FIRST_SLOTS
        scratch.slots[:_FIRST_SLOTS] = uint32(0)
    words, characters, distinct_characters = _find_edges(content, begin, end, rule.table, scratch)
    if words + characters == U0:
        scratch.hashes[U0] = xxh3_64(content, begin, end)
        scratch.weights[U0] = rule.totals[U1]
        return U1, U1
    distinct = _count_words(scratch, words, distinct_characters)
    _weigh_characters(scratch, rule.totals, distinct_characters)
    _weigh_words(scratch, rule.totals, distinct_characters, distinct)
    return words + characters, distinct


# these are inlined: calls count references to their arrays, 0.2 us a text in all


@kernel(inline="always")
def _find_edges(content, begin, end, table, scratch):
    """Case-fold a text, find the edges of its words, count characters that are tokens.

    Such characters with marks are words. Returns the number of words, of characters, and of
    distinct characters. A run of ASCII is folded 64 bytes at a time, with what is between its
    words; a run of Han characters without the character table, with which ``mr-dedup fingerprint``
    takes 1.13 times the CPU time for 0.6 GB of made-up Chinese pages; other text is read character
    by character.
    """
    out, edges, times, found = scratch.text, scratch.edges, scratch.times, scratch.found
    size = uint64(content.size)
    # not where words of several Han characters are tokens
    han_are_tokens = table_entry(table, _FIRST_HAN) == np.int32(CHARACTER)
    counted, distinct = U0, U0
    count = U0  # of edges
    is_open = U0  # 1 if the last one is where a word starts
    before = ALL_BITS  # the character counted last, if marks may follow it
    extends = False  # whether the last word is such a character with marks
    o = U0
    i = begin
    while i < end:
        if i + _BLOCK <= size:
            run = min(trailing_zeros(~below_mask(content, i, _NOT_ASCII)), end - i)
            if run != U0:
                before, extends = ALL_BITS, False
                inside = ALL_BITS >> (_BLOCK - run)
                mask = word_mask(content, i) & inside
                copy_block_lower(content, i, out, o)
                changes = (mask ^ (mask << U1 | is_open)) & inside
                is_open = mask >> (run - U1)
                stop = count + population_count(changes)
                while count < stop:
                    for k in range(_TOGETHER):
                        edges[count + uint64(k)] = uint32(o + trailing_zeros(changes))
                        changes &= changes - U1
                    count += _TOGETHER
                count = stop
                i += run
                o += run
                continue
        han = _han(content, i, end) if han_are_tokens else U0
        if han != U0:
            edges[count] = uint32(o)
            count += is_open
            is_open = U0
            extends = False
            while han != U0:
                earlier = times[han]
                times[han] = earlier + uint32(1)
                found[distinct] = uint32(han)
                distinct += uint64(earlier == uint32(0))
                counted += U1
                before = han
                i += U3
                han = _han(content, i, end)
            continue
        character, width = decode(content, i, end)
        entry = table_entry(table, character)
        kind = entry & _KIND
        folded = uint64(int64(character) + int64(entry >> _KIND_BITS))
        if kind == MARK and before != ALL_BITS:
            # counted as a character, but with its marks it is a word
            times[before] -= uint32(1)
            distinct -= uint64(times[before] == uint32(0))
            counted -= U1
            edges[count] = uint32(o)
            o = encode(before, out, o)
            count += U2
            before, extends = ALL_BITS, True
        if kind == MARK and extends:
            o = encode(folded, out, o)
            edges[count - U1] = uint32(o)
            i += width
            continue
        before, extends = ALL_BITS, False
        edges[count] = uint32(o)
        if kind in (WORD, MARK):
            count += U1 - is_open
            is_open = U1
            if folded == character:
                for byte in range(width):
                    out[o + uint64(byte)] = content[i + uint64(byte)]
                o += width
            else:
                o = encode(folded, out, o)
        else:
            count += is_open
            is_open = U0
            if kind in (CHARACTER, SYMBOL):
                earlier = times[folded]
                times[folded] = earlier + uint32(1)
                found[distinct] = uint32(folded)
                distinct += uint64(earlier == uint32(0))
                counted += U1
                before = folded
        i += width
    edges[count] = uint32(o)
    return (count + is_open) // U2, counted, distinct


@kernel(inline="always")
def _han(content, i, end):
    """Return the character of three bytes at content[i] if it is a Han character, else 0."""
    if i + U3 > end:
        return U0
    character = uint64(content[i] & uint8(0x0F)) << U(12)
    character |= uint64(content[i + U1] & uint8(0x3F)) << U6 | uint64(content[i + U2] & uint8(0x3F))
    is_han = content[i] & uint8(0xF0) == uint8(0xE0) and character - _FIRST_HAN <= _HAN_RANGE
    return character if is_han else U0


@kernel(inline="always")
def _count_words(scratch, count, distinct):
    """Count the words of a text with ``distinct`` features before; return the number after.

    The key of a word is its bytes, or its hash if it is longer than a key.
    """
    text, edges, slots, words, used = (
        scratch.text, scratch.edges, scratch.slots, scratch.words, scratch.used
    )  # fmt: skip
    last = used[1] - U1
    for word in range(count):
        start = uint64(edges[U2 * uint64(word)])
        stop = uint64(edges[U2 * uint64(word) + U1])
        length = stop - start
        if length > U(_KEY_BYTES):
            # no word ends with such bytes
            low, high = xxh3_64(text, start, stop), ALL_BITS
        else:
            low = load64(text, start) & _LOW_BYTES[length]
            high = load64(text, start + U8) & _HIGH_BYTES[length]
        slot = _hash(low, high) & last
        offset = uint64(slots[slot])
        while words[offset] ^ low | words[offset + U1] ^ high:
            if offset == U0:
                offset = _new_word(low, high, text, start, stop, words, used)
                slots[slot] = uint32(offset)
                # at most one in four is taken
                if offset > last:
                    last = _grow_slots(slots, words, used)
                break
            slot = (slot + U1) & last
            offset = uint64(slots[slot])
        times = words[offset + U3]
        words[offset + U3] = times + U1
        scratch.found[distinct] = uint32(offset)
        distinct += uint64(times == U0)
    return distinct


@kernel(inline="always")
def _weigh_characters(scratch, totals, count):
    """Write the hashes and weights of distinct characters; reset their counts."""
    times, character_hashes = scratch.times, scratch.character_hashes
    last = uint64(totals.size - 1)
    step = totals[last] - totals[last - U1]
    for i in range(count):
        character = uint64(scratch.found[i])
        if character_hashes[character] == U0:
            stop = encode(character, scratch.text, U0)
            character_hashes[character] = xxh3_64(scratch.text, U0, stop)
        scratch.hashes[i] = character_hashes[character]
        each = uint64(times[character])
        times[character] = uint32(0)
        scratch.weights[i] = totals[min(each, last)]
        if each > last:
            scratch.weights[i] += int32(each - last) * step


@kernel(inline="always")
def _weigh_words(scratch, totals, first, count):
    """Write the hashes and weights of distinct words; reset their counts."""
    words = scratch.words
    last = uint64(totals.size - 1)
    step = totals[last] - totals[last - U1]
    for i in range(first, count):
        offset = uint64(scratch.found[i])
        each = words[offset + U3]
        words[offset + U3] = U0
        scratch.hashes[i] = words[offset + U2]
        scratch.weights[i] = totals[min(each, last)]
        if each > last:
            scratch.weights[i] += int32(each - last) * step


@kernel
def _new_word(low, high, text, start, stop, words, used):
    """Add a word to the vocabulary; return its offset."""
    offset = used[0]
    words[offset] = low
    words[offset + U1] = high
    words[offset + U2] = xxh3_64(text, start, stop)
    words[offset + U3] = U0
    used[0] = offset + U4
    return offset


@kernel
def _grow_slots(slots, words, used):
    """Use four slots a word; return the last slot."""
    while used[1] < used[0]:
        used[1] *= U2
    last = used[1] - U1
    slots[: used[1]] = uint32(0)
    for offset in range(U4, used[0], U4):
        slot = _hash(words[offset], words[uint64(offset) + U1]) & last
        while slots[slot] != uint32(0):
            slot = (slot + U1) & last
        slots[slot] = uint32(offset)
    return last


@kernel
def _hash(low, high):
    return folded_product(low ^ FACTORS[0], high ^ FACTORS[1])
