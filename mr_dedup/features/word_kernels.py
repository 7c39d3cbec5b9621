"""The loops over a text whose features are single words: count each, hash it when it is new.

Most words of a text are those of the texts before it. So they are kept, with their hashes, in a
vocabulary, and a word that occurs again takes a look at a table and an addition. Chinese is
decoded sixteen characters at a time. The features of a text take 0.26 (Chinese) to 0.4 to 0.5
(English) of the time that ``kernels.find_features`` takes.

Nothing is validated here. Texts are slices of a uint8 array of UTF-8; never read outside it,
whatever their bytes, but what the words are of others than UTF-8 is not defined.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int32, int64, njit, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.intrinsics import HAN, THREES, decode_threes
from mr_dedup.features.kernels import decode, encode, is_null
from mr_dedup.features.unicode_table import CHARACTER, MARK, OTHER, WORD
from mr_dedup.features.xxh3 import xxh3_64
from mr_dedup.kernels.bits import folded_product, population_count, trailing_zeros
from mr_dedup.kernels.byte_blocks import BLOCK_BYTES, below_mask, copy_block_lower, word_mask
from mr_dedup.kernels.memory import load64

_U = np.uint64
_0, _1, _2, _3, _4, _8 = (_U(n) for n in (0, 1, 2, 3, 4, 8))
_BLOCK, _ALL = _U(BLOCK_BYTES), ~_0
_NOT_ASCII = np.uint8(0x80)

_HAN, _THREES, _LANES = _U(HAN), _U(THREES), _U((1 << THREES) - 1)

_LEAST_THREES = _U(2)
"""Characters of three bytes in a row that are worth decoding sixteen."""

CODE_POINTS = 0x40000
"""Characters that are tokens by themselves are below."""

_KEY_BYTES = 16
_LOW_BYTES = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(_KEY_BYTES + 1)], np.uint64)
_HIGH_BYTES = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(_KEY_BYTES + 1)], np.uint64)
"""Which bits of a key a word of n bytes has."""

_FACTORS = _U(0x9E3779B97F4A7C15), _U(0xD6E8FEB86659FD93)

_FORGET = _U(1 << 16)
"""Tokens from which on a vocabulary is given up before the next text.

With 2**14, which with its slots fits the second-level cache, texts of 27,000 words by Zipf's law
took 1.7 times as long, those of a million 1.2 times: to learn words anew costs more than to look
for the rare ones in the third level. 2**15 and 2**17 are within a tenth. To fetch the slots
and tokens of 8 to 32 words before they are looked at gained nothing.
"""

_FIRST_SLOTS = _U(1 << 10)

_TOGETHER = _U(8)
"""Edges that are written without asking whether there are so many: 0.95 of the time for all."""


class WordScratch(NamedTuple):
    """What the words of texts are counted in; of texts of up to b bytes, so w = b // 2 + 1 words.

    ``text`` uint8[2 b + BLOCK_BYTES] is the text, folded, ``edges`` uint32[2 w + 9] where words
    start and stop in it, ``threes`` uint32[THREES] some of its characters. ``found`` uint32[w + 1]
    are first the characters that the text has, then the offsets of its words, ``hashes``
    uint64[w + 8] and ``weights`` int32[w + 8] theirs.

    The vocabulary: words are called by their places in ``words`` uint64[4 (w + n)], n somewhat more
    than _FORGET. There are the word's key, twice 64 bits, its hash, and how often the text has it,
    which between texts is 0; all are 0 at place 0. Places are found in ``slots`` uint32[4 (w + n)
    or more, a power of 2] by a word's key; 0 where there is none. ``used`` uint64[2] says how much
    of ``words`` and of ``slots`` is in use. Of characters ``times`` uint32[CODE_POINTS] says
    how often the text has each, 0 between texts, and ``character_hashes`` uint64[CODE_POINTS] their
    hashes, 0 where they are not known yet.
    """

    text: NDArray[np.uint8]
    edges: NDArray[np.uint32]
    threes: NDArray[np.uint32]
    found: NDArray[np.uint32]
    hashes: NDArray[np.uint64]
    weights: NDArray[np.int32]
    words: NDArray[np.uint64]
    slots: NDArray[np.uint32]
    used: NDArray[np.uint64]
    times: NDArray[np.uint32]
    character_hashes: NDArray[np.uint64]


def word_scratch_for(size_bytes: int) -> WordScratch:
    """Return scratch for texts of up to ``size_bytes``, with an empty vocabulary.

    Takes up to 50 bytes a byte and 6 MB; a text touches a third of that, and little where most of
    its words occur again. To keep it beyond 8 MB of texts gains up to a sixth where most words are
    rare, and loses as much where few are: the common ones then lie far apart.
    """
    most = size_bytes // 2 + 1
    places = 4 * (most + int(_FORGET) + 2)
    words = np.empty(places, np.uint64)
    slots = np.empty(1 << (places - 1).bit_length(), np.uint32)
    words[:4] = 0
    slots[:_FIRST_SLOTS] = 0
    return WordScratch(
        np.empty(2 * size_bytes + BLOCK_BYTES, np.uint8),
        np.empty(2 * most + 9, np.uint32),
        np.empty(THREES, np.uint32),
        np.empty(most + 1, np.uint32),
        np.empty(most + 8, np.uint64),
        np.empty(most + 8, np.int32),
        words,
        slots,
        np.array([4, _FIRST_SLOTS], np.uint64),
        # zeros cost nothing until they are touched
        np.zeros(CODE_POINTS, np.uint32),
        np.zeros(CODE_POINTS, np.uint64),
    )


@njit(cache=True, nogil=True)
def find_words(content, begin, end, pages, entries, totals, scratch):  # type: ignore[no-untyped-def]
    """Work out the features of ``content[begin:end]``: its words, each character of CJK being one.

    Writes the hash of each and what it weighs: totals[t] if it occurs t times, and where t is more
    than ``totals`` int32[n] has, as much more for each time as the last two differ. A text without
    words has itself as its only feature; a null, which begins past ``content``, has none. Returns
    how many there are, repeats counted, and how many of them differ.
    """
    if is_null(content, begin):
        return _0, _0
    if scratch.used[0] > _4 * _FORGET:
        scratch.used[0] = _4
        scratch.used[1] = _FIRST_SLOTS
        scratch.slots[:_FIRST_SLOTS] = uint32(0)
    words, characters, distinct_characters = _cut(
        content, begin, end, pages, entries, scratch.text, scratch.edges, scratch.threes,
        scratch.times, scratch.found,
    )  # fmt: skip
    if words + characters == _0:
        scratch.hashes[_0] = xxh3_64(content, begin, end)
        scratch.weights[_0] = totals[_1]
        return _1, _1
    distinct = _count_words(
        scratch.text, scratch.edges, words, scratch.slots, scratch.words, scratch.used,
        scratch.found, distinct_characters,
    )  # fmt: skip
    _weigh_characters(
        scratch.found, distinct_characters, scratch.times, scratch.character_hashes, totals,
        scratch.hashes, scratch.weights, scratch.text,
    )  # fmt: skip
    _weigh_words(
        scratch.found, distinct_characters, distinct, scratch.words, totals,
        scratch.hashes, scratch.weights,
    )  # fmt: skip
    return words + characters, distinct


# these are inlined here: a call counts references to its arrays, 0.2 us a text in all


@njit(cache=True, nogil=True, inline="always")
def _cut(  # type: ignore[no-untyped-def]
    content, begin, end, pages, entries, out, edges, threes, times, found
):
    """Fold a text and find the edges of its words; count characters that are tokens by themselves.

    Those with marks are words. Returns how many words and characters there are, and how many of
    these differ. A run of
    ASCII is folded 64 bytes at a time, with what is between its words; one of characters of three
    bytes, 16 at a time, as long as they make no words (1.6 to 2.4 ns a character, 3.5 one by one).
    What else there is goes character by character.
    """
    size = uint64(content.size)
    # where they make words, each is looked up
    han_are_cjk = entries[uint64(pages[_HAN >> _8]) << _8] == np.int32(CHARACTER)
    all_han = _LANES if han_are_cjk else _0
    counted, distinct = _0, _0
    count = _0  # of edges
    is_open = _0  # 1 if the last one is where a word starts
    before = _ALL  # the character that was counted last, if marks would go on with it
    extends = False  # whether such a one with its marks is the last word
    o = _0
    i = begin
    while i < end:
        is_block = i + _BLOCK <= size
        if is_block:
            run = min(trailing_zeros(~below_mask(content, i, _NOT_ASCII)), end - i)
            if run != _0:
                before, extends = _ALL, False
                inside = _ALL >> (_BLOCK - run)
                mask = word_mask(content, i) & inside
                copy_block_lower(content, i, out, o)
                changes = (mask ^ (mask << _1 | is_open)) & inside
                is_open = mask >> (run - _1)
                stop = count + population_count(changes)
                while count < stop:
                    for k in range(_TOGETHER):
                        edges[count + uint64(k)] = uint32(o + trailing_zeros(changes))
                        changes &= changes - _1
                    count += _TOGETHER
                count = stop
                i += run
                o += run
                continue
        while is_block:
            masks = decode_threes(content, i, threes)
            run = min(trailing_zeros(~(masks & _LANES)), (end - i) // _3)
            if run < _LEAST_THREES:
                break
            are_cjk = masks >> _THREES & all_han
            others = ~(are_cjk | masks >> _2 * _THREES) & ((_1 << run) - _1)
            while others != _0:
                at = trailing_zeros(others)
                others &= others - _1
                character = uint64(threes[at])
                entry = entries[uint64(pages[character >> _8]) << _8 | character & _U(255)]
                if entry == np.int32(CHARACTER):
                    are_cjk |= _1 << at
                elif entry != np.int32(OTHER):
                    run = at
                    break
            if run == _0:
                break
            are_cjk &= (_1 << run) - _1
            extends = False
            before = _ALL
            if are_cjk >> (run - _1) != _0:
                before = uint64(threes[run - _1])
            edges[count] = uint32(o)
            count += is_open
            is_open = _0
            counted += population_count(are_cjk)
            # those past the run, or no tokens, count for 0: to ask which takes longer
            for at in range(_THREES):
                character = uint64(threes[at])
                is_cjk = are_cjk >> uint64(at) & _1
                earlier = times[character]
                times[character] = earlier + uint32(is_cjk)
                found[distinct] = uint32(character)
                distinct += is_cjk & uint64(earlier == uint32(0))
            i += _3 * run
            is_block = i + _BLOCK <= size
            if run < _THREES:
                break
        if i >= end or (is_block and content[i] < _NOT_ASCII):
            continue
        character, width = decode(content, i, end)
        entry = entries[uint64(pages[character >> _8]) << _8 | character & _U(255)]
        kind = entry & np.int32(3)
        folded = uint64(int64(character) + int64(entry >> np.int32(2)))
        if kind == MARK and before != _ALL:
            # it was counted, but is a word with its marks
            times[before] -= uint32(1)
            distinct -= uint64(times[before] == uint32(0))
            counted -= _1
            edges[count] = uint32(o)
            o = encode(before, out, o)
            count += _2
            before, extends = _ALL, True
        if kind == MARK and extends:
            o = encode(folded, out, o)
            edges[count - _1] = uint32(o)
            i += width
            continue
        before, extends = _ALL, False
        edges[count] = uint32(o)
        if kind in (WORD, MARK):
            count += _1 - is_open
            is_open = _1
            if folded == character:
                for byte in range(width):
                    out[o + uint64(byte)] = content[i + uint64(byte)]
                o += width
            else:
                o = encode(folded, out, o)
        else:
            count += is_open
            is_open = _0
            if kind == CHARACTER:
                distinct = _count_character(folded, times, found, distinct)
                counted += _1
                before = folded
        i += width
    edges[count] = uint32(o)
    return (count + is_open) // _2, counted, distinct


@njit(cache=True, nogil=True, inline="always")
def _count_words(text, edges, count, slots, words, used, found, distinct):  # type: ignore[no-untyped-def]
    """Count the words of a text that has ``distinct`` features without them; return how many then.

    The key of a word is the word itself, or if it is longer than a key, its hash.
    """
    last = used[1] - _1
    for word in range(count):
        start = uint64(edges[_2 * uint64(word)])
        stop = uint64(edges[_2 * uint64(word) + _1])
        length = stop - start
        if length > _U(_KEY_BYTES):
            # no word ends in such bytes
            low, high = xxh3_64(text, start, stop), _ALL
        else:
            low = load64(text, start) & _LOW_BYTES[length]
            high = load64(text, start + _8) & _HIGH_BYTES[length]
        slot = _hash(low, high) & last
        place = uint64(slots[slot])
        while words[place] ^ low | words[place + _1] ^ high:
            if place == _0:
                place = _new_word(low, high, text, start, stop, words, used)
                slots[slot] = uint32(place)
                # at most one in four is taken
                if place > last:
                    last = _spread_out(slots, words, used)
                break
            slot = (slot + _1) & last
            place = uint64(slots[slot])
        times = words[place + _3]
        words[place + _3] = times + _1
        found[distinct] = uint32(place)
        distinct += uint64(times == _0)
    return distinct


@njit(cache=True, nogil=True, inline="always")
def _weigh_characters(  # type: ignore[no-untyped-def]
    found, count, times, character_hashes, totals, hashes, weights, scratch
):
    """Write hashes and weights of the characters that the text has; count them no longer."""
    last = uint64(totals.size - 1)
    step = totals[last] - totals[last - _1]
    for i in range(count):
        character = uint64(found[i])
        if character_hashes[character] == _0:
            stop = encode(character, scratch, _0)
            character_hashes[character] = xxh3_64(scratch, _0, stop)
        hashes[i] = character_hashes[character]
        each = uint64(times[character])
        times[character] = uint32(0)
        weights[i] = totals[min(each, last)]
        if each > last:
            weights[i] += int32(each - last) * step


@njit(cache=True, nogil=True, inline="always")
def _weigh_words(found, first, count, words, totals, hashes, weights):  # type: ignore[no-untyped-def]
    """Write hashes and weights of the words that the text has, and count them no longer."""
    last = uint64(totals.size - 1)
    step = totals[last] - totals[last - _1]
    for i in range(first, count):
        place = uint64(found[i])
        each = words[place + _3]
        words[place + _3] = _0
        hashes[i] = words[place + _2]
        weights[i] = totals[min(each, last)]
        if each > last:
            weights[i] += int32(each - last) * step


@njit(cache=True, nogil=True)
def _count_character(character, times, found, distinct):  # type: ignore[no-untyped-def]
    """Count a character of a text that has ``distinct`` without it; return how many then."""
    before = times[character]
    times[character] = before + uint32(1)
    found[distinct] = uint32(character)
    return distinct + uint64(before == uint32(0))


@njit(cache=True, nogil=True)
def _new_word(low, high, text, start, stop, words, used):  # type: ignore[no-untyped-def]
    """Take a word into the vocabulary; return its place."""
    place = used[0]
    words[place] = low
    words[place + _1] = high
    words[place + _2] = xxh3_64(text, start, stop)
    words[place + _3] = _0
    used[0] = place + _4
    return place


@njit(cache=True, nogil=True)
def _spread_out(slots, words, used):  # type: ignore[no-untyped-def]
    """Have four slots a word in use; return the last of them."""
    while used[1] < used[0]:
        used[1] *= _2
    last = used[1] - _1
    slots[: used[1]] = uint32(0)
    for place in range(_4, used[0], _4):
        slot = _hash(words[place], words[uint64(place) + _1]) & last
        while slots[slot] != uint32(0):
            slot = (slot + _1) & last
        slots[slot] = uint32(place)
    return last


@njit(cache=True, nogil=True)
def _hash(low, high):  # type: ignore[no-untyped-def]
    return folded_product(low ^ _FACTORS[0], high ^ _FACTORS[1])
