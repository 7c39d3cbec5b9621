"""The loops over a text whose features are single words: count each, hash it when it is new.

Most words of a text are those of the texts before it. So they are kept, with their hashes, in a
vocabulary, and a word that occurs again takes a look at a table and an addition. The features of
a text take 0.35 (Chinese) to 0.6 (English) of the time that ``kernels.find_features`` takes.

Nothing is validated here. Texts are slices of a uint8 array of UTF-8; never read outside it,
whatever their bytes, but what the words are of others than UTF-8 is not defined.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int32, int64, njit, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.intrinsics import (
    copy_block_lower,
    folded_product,
    load32,
    load64,
    word_mask,
)
from mr_dedup.features.kernels import decode, encode
from mr_dedup.features.unicode_table import CJK, WORD
from mr_dedup.features.xxh3 import xxh3_64
from mr_dedup.formats.byte_intrinsics import (
    BLOCK_BYTES,
    below_mask,
    set_bits64,
    trailing_zeros64,
)

_U = np.uint64
_0, _1, _2, _3, _4, _8 = (_U(n) for n in (0, 1, 2, 3, 4, 8))
_BLOCK, _ALL = _U(BLOCK_BYTES), ~_0
_NOT_ASCII = np.uint8(0x80)

_HAN, _HANS = _U(0x4E00), _U(0x9FFF + 1 - 0x4E00)
"""The first of the characters that most Chinese is written in, and how many they are."""

CODE_POINTS = 0x40000
"""CJK characters are below."""

_KEY_BYTES = 16
_LOW_BYTES = np.array([(1 << 8 * min(n, 8)) - 1 for n in range(_KEY_BYTES + 1)], np.uint64)
_HIGH_BYTES = np.array([(1 << 8 * max(n - 8, 0)) - 1 for n in range(_KEY_BYTES + 1)], np.uint64)
"""Which bits of a key a word of n bytes has."""

_FACTORS = _U(0x9E3779B97F4A7C15), _U(0xD6E8FEB86659FD93)

_FORGET = _U(1 << 14)
"""Tokens from which on a vocabulary is given up before the next text: it must fit the cache."""

_FIRST_SLOTS = _U(1 << 10)

_TOGETHER = _U(8)
"""Edges that are written without asking whether there are so many: 0.95 of the time for all."""


class WordScratch(NamedTuple):
    """What the words of texts are counted in; of texts of up to b bytes, so w = b // 2 + 1 words.

    ``text`` uint8[2 b + BLOCK_BYTES] is the text, folded, ``edges`` uint32[2 w + 9] where words
    start and stop in it. ``found`` uint32[w] are the places of the tokens that the text has,
    ``hashes`` uint64[w + 8] and ``weights`` int32[w + 8] theirs.

    The vocabulary: tokens, words and CJK characters, are called by their places in ``tokens``
    uint64[4 (w + n)], n somewhat more than _FORGET. There are the token's key, twice 64 bits, its
    hash, and how often the text has it, which between texts is 0; all are 0 at place 0. Places are
    found in ``slots`` uint32[4 (w + n) or more, a power of 2] by a word's key, and in
    ``characters`` uint32[CODE_POINTS] by a CJK character; 0 where there is none. ``used``
    uint64[2] says how much of ``tokens`` and of ``slots`` is in use.
    """

    text: NDArray[np.uint8]
    edges: NDArray[np.uint32]
    found: NDArray[np.uint32]
    hashes: NDArray[np.uint64]
    weights: NDArray[np.int32]
    tokens: NDArray[np.uint64]
    slots: NDArray[np.uint32]
    characters: NDArray[np.uint32]
    used: NDArray[np.uint64]


def word_scratch_for(size_bytes: int) -> WordScratch:
    """Return scratch for texts of up to ``size_bytes``, with an empty vocabulary.

    Takes up to 50 bytes a byte and 3 MB; a text touches a third of that, and little where most of
    its words occur again.
    """
    words = size_bytes // 2 + 1
    places = 4 * (words + int(_FORGET) + 2)
    tokens = np.empty(places, np.uint64)
    slots = np.empty(1 << (places - 1).bit_length(), np.uint32)
    tokens[:4] = 0
    slots[:_FIRST_SLOTS] = 0
    return WordScratch(
        np.empty(2 * size_bytes + BLOCK_BYTES, np.uint8),
        np.empty(2 * words + 9, np.uint32),
        np.empty(words, np.uint32),
        np.empty(words + 8, np.uint64),
        np.empty(words + 8, np.int32),
        tokens,
        slots,
        # zeros cost nothing until they are touched
        np.zeros(CODE_POINTS, np.uint32),
        np.array([4, _FIRST_SLOTS], np.uint64),
    )


@njit(cache=True, nogil=True)
def find_words(content, begin, end, pages, entries, totals, scratch):  # type: ignore[no-untyped-def]
    """Work out the features of ``content[begin:end]``: its words, each CJK character being one.

    Writes the hash of each and what it weighs: totals[t] if it occurs t times, and where t is more
    than ``totals`` int32[n] has, as much more for each time as the last two differ. Returns how
    many there are, repeats counted, and how many of them differ.
    """
    if scratch.used[0] > _4 * _FORGET:
        scratch.used[0] = _4
        scratch.used[1] = _FIRST_SLOTS
        scratch.slots[:_FIRST_SLOTS] = uint32(0)
        scratch.characters[:] = uint32(0)
    words, characters, distinct = _cut(
        content, begin, end, pages, entries, scratch.text, scratch.edges, scratch.characters,
        scratch.tokens, scratch.used, scratch.found,
    )  # fmt: skip
    distinct = _count_words(
        scratch.text, scratch.edges, words, scratch.slots, scratch.tokens, scratch.used,
        scratch.found, distinct,
    )  # fmt: skip
    _weigh(scratch.found, distinct, scratch.tokens, totals, scratch.hashes, scratch.weights)
    return words + characters, distinct


# the three are inlined here: a call counts references to its arrays, 0.2 us a text in all


@njit(cache=True, nogil=True, inline="always")
def _cut(  # type: ignore[no-untyped-def]
    content, begin, end, pages, entries, out, edges, characters, tokens, used, found
):
    """Fold a text and find the edges of its words; count its CJK characters.

    Returns how many words and CJK characters there are, and how many of these differ. A run of
    ASCII is folded 64 bytes at a time, with what is between its words. What else there is goes
    character by character, the commonest CJK ones without the Unicode table.
    """
    size = uint64(content.size)
    han_are_cjk = entries[uint64(pages[_HAN >> _8]) << _8] == np.int32(CJK)
    counted, distinct = _0, _0
    count = _0  # of edges
    is_open = _0  # 1 if the last one is where a word starts
    o = _0
    i = begin
    while i < end:
        is_block = i + _BLOCK <= size
        if is_block:
            run = min(trailing_zeros64(~below_mask(content, i, _NOT_ASCII)), end - i)
            if run != _0:
                inside = _ALL >> (_BLOCK - run)
                mask = word_mask(content, i) & inside
                copy_block_lower(content, i, out, o)
                changes = (mask ^ (mask << _1 | is_open)) & inside
                is_open = mask >> (run - _1)
                stop = count + set_bits64(changes)
                while count < stop:
                    for k in range(_TOGETHER):
                        edges[count + uint64(k)] = uint32(o + trailing_zeros64(changes))
                        changes &= changes - _1
                    count += _TOGETHER
                count = stop
                i += run
                o += run
                continue
        while han_are_cjk and i + _3 <= end and i + _4 <= size:
            three = load32(content, i)
            character = (
                (three & _U(15)) << _U(12)
                | (three >> _8 & _U(63)) << _U(6)
                | three >> _U(16) & _U(63)
            )
            if three & _U(0xC0C0F0) != _U(0x8080E0) or character - _HAN >= _HANS:
                break
            edges[count] = uint32(o)
            count += is_open
            is_open = _0
            token = uint64(characters[character])
            if token == _0:
                token = _new_character(character, out, o, characters, tokens, used)
            distinct = _count(token, tokens, found, distinct)
            counted += _1
            i += _3
        if i >= end or (is_block and content[i] < _NOT_ASCII):
            continue
        character, width = decode(content, i, end)
        entry = entries[uint64(pages[character >> _8]) << _8 | character & _U(255)]
        kind = entry & np.int32(3)
        folded = uint64(int64(character) + int64(entry >> np.int32(2)))
        edges[count] = uint32(o)
        if kind == WORD:
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
            if kind == CJK:
                token = uint64(characters[folded])
                if token == _0:
                    token = _new_character(folded, out, o, characters, tokens, used)
                distinct = _count(token, tokens, found, distinct)
                counted += _1
        i += width
    edges[count] = uint32(o)
    return (count + is_open) // _2, counted, distinct


@njit(cache=True, nogil=True, inline="always")
def _count_words(text, edges, words, slots, tokens, used, found, distinct):  # type: ignore[no-untyped-def]
    """Count the words of a text that has ``distinct`` tokens without them; return how many then.

    The key of a word is the word itself, or if it is longer than a key, its hash.
    """
    last = used[1] - _1
    for word in range(words):
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
        token = uint64(slots[slot])
        while tokens[token] ^ low | tokens[token + _1] ^ high:
            if token == _0:
                token = _new_token(low, high, text, start, stop, tokens, used)
                slots[slot] = uint32(token)
                # at most one in four is taken
                if token > last:
                    last = _spread_out(slots, tokens, used)
                break
            slot = (slot + _1) & last
            token = uint64(slots[slot])
        distinct = _count(token, tokens, found, distinct)
    return distinct


@njit(cache=True, nogil=True, inline="always")
def _weigh(found, distinct, tokens, totals, hashes, weights):  # type: ignore[no-untyped-def]
    """Write hashes and weights of the tokens that the text has, and count them no longer."""
    last = uint64(totals.size - 1)
    step = totals[last] - totals[last - _1]
    for i in range(distinct):
        token = uint64(found[i])
        times = tokens[token + _3]
        tokens[token + _3] = _0
        hashes[i] = tokens[token + _2]
        weights[i] = totals[min(times, last)]
        if times > last:
            weights[i] += int32(times - last) * step


@njit(cache=True, nogil=True)
def _count(token, tokens, found, distinct):  # type: ignore[no-untyped-def]
    """Count a token of a text that has ``distinct`` without it; return how many then."""
    times = tokens[token + _3]
    tokens[token + _3] = times + _1
    found[distinct] = uint32(token)
    return distinct + uint64(times == _0)


@njit(cache=True, nogil=True)
def _new_character(character, out, o, characters, tokens, used):  # type: ignore[no-untyped-def]
    """Take a CJK character into the vocabulary; return its place. ``out[o:]`` is scratch."""
    stop = encode(character, out, o)
    low = load64(out, o) & _LOW_BYTES[stop - o]
    token = _new_token(low, _0, out, o, stop, tokens, used)
    characters[character] = uint32(token)
    return token


@njit(cache=True, nogil=True)
def _new_token(low, high, text, start, stop, tokens, used):  # type: ignore[no-untyped-def]
    """Take a token into the vocabulary; return its place."""
    token = used[0]
    tokens[token] = low
    tokens[token + _1] = high
    tokens[token + _2] = xxh3_64(text, start, stop)
    tokens[token + _3] = _0
    used[0] = token + _4
    return token


@njit(cache=True, nogil=True)
def _spread_out(slots, tokens, used):  # type: ignore[no-untyped-def]
    """Have four slots a token in use; return the last of them."""
    while used[1] < used[0]:
        used[1] *= _2
    last = used[1] - _1
    slots[: used[1]] = uint32(0)
    for token in range(_4, used[0], _4):
        # CJK characters come too, though nobody looks for them there
        slot = _hash(tokens[token], tokens[uint64(token) + _1]) & last
        while slots[slot] != uint32(0):
            slot = (slot + _1) & last
        slots[slot] = uint32(token)
    return last


@njit(cache=True, nogil=True)
def _hash(low, high):  # type: ignore[no-untyped-def]
    return folded_product(low ^ _FACTORS[0], high ^ _FACTORS[1])
