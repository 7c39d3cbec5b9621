# mypy: ignore-errors
"""Loops over a text that find its features: hash its shingles and weigh them.

Nothing is validated or allocated here: shingles.py does both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.token_kernels import (
    Tokens,
    copy_text,
    is_null,
    split_characters,
    tokenise,
)
from mr_dedup.features.unicode_table import UnicodeTable
from mr_dedup.features.xxh3_kernels import xxh3_64, xxh3_64_17_to_32, xxh3_64_up_to_16
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.hash_table import find_slot
from mr_dedup.kernels.unsigned import U0, U1, U2, U3, U5, U15, U16, U32


class ShingleRule(NamedTuple):
    """The fields of ``FeatureOptions`` about shingles, as kernels take them.

    Attributes:
        table: The character table for prepared texts.
        by_characters: Whether a shingle is made of characters, not of tokens.
        length: Tokens or characters a shingle, uint64; LENGTH_BY_SCRIPT if scripts decide.
        steps: int32[s], what each further occurrence of a feature adds to its weight.
    """

    table: UnicodeTable
    by_characters: bool
    length: np.uint64
    steps: NDArray[np.int32]


class Scratch(NamedTuple):
    """Space for the features of one text, of up to p pieces: its tokens, or their characters.

    Attributes:
        tokens: The tokens.
        pieces: What shingles are made of: the tokens, or slices of the same text that are its
            characters.
        hashes: uint64[p], p rounded up to a multiple of 8: the shingles.
        weights: int32[p], as well: what each shingle adds to the weight of its feature.
        keys: uint64[c], a hash table of features, c a power of 2 and at least 2 p.
        times: uint32[c], the number of occurrences of each.
    """

    tokens: Tokens
    pieces: Tokens
    hashes: NDArray[np.uint64]
    weights: NDArray[np.int32]
    keys: NDArray[np.uint64]
    times: NDArray[np.uint32]


@entry
def find_features(
    content: NDArray[np.uint8],
    begin: np.uint64,
    end: np.uint64,
    rule: ShingleRule,
    scratch: Scratch,
) -> tuple[int, int]:
    """Find the shingles of ``content[begin:end]``.

    Writes to ``scratch`` the hash of each shingle, and what it adds to the weight of its feature.
    Returns the number of shingles, repeats counted, and the number of pieces in each: the rule's
    length, or fewer if the text has fewer; 1 of shingles by script, which replace the pieces. A
    text without tokens has one shingle, all its bytes; a null has none.
    """
    if is_null(content, begin):
        return U0, U0
    tokens, pieces, hashes = scratch.tokens, scratch.pieces, scratch.hashes
    length = rule.length
    size = tokenise(content, begin, end, rule.table, tokens)
    if size == U0:
        size, length, count = U1, U1, U1
        pieces.starts[U0] = uint32(0)
        pieces.stops[U0] = uint32(copy_text(content, begin, end, pieces.text))
        hashes[U0] = xxh3_64(content, begin, end)
    else:
        if rule.by_characters:
            stop = uint64(tokens.stops[size - U1])
            size = split_characters(tokens.text, stop, pieces.starts, pieces.stops)
        elif length == U0:
            size, length = join_by_script(tokens, size), U1
        count = hash_shingles(pieces, size, length, hashes)
    if rule.steps.size == 1:
        scratch.weights[:count] = rule.steps[0]
    else:
        weigh_repeats(hashes, count, rule.steps, scratch.weights, scratch.keys, scratch.times)
    return count, min(length, size)


@kernel
def hash_shingles(pieces, count, length, hashes):
    """Write the hash of every shingle of ``length`` pieces; return the number of shingles.

    ``count`` pieces, uint64, if at least one and fewer than ``length``, are one shingle.
    """
    text, starts, stops = pieces
    if count == U0:
        return U0
    shingles = count - length + U1 if count >= length else U1
    last = min(length, count) - U1
    for i in range(shingles):
        start, stop = uint64(starts[i]), uint64(stops[uint64(i) + last])
        # as xxh3_64, which is too large to be inlined: with calls of it finding features takes
        # 1.15 (English) to 1.3 times (Chinese) the CPU time
        if stop - start <= U16:
            hashes[i] = xxh3_64_up_to_16(text, start, stop - start)
        elif stop - start <= U32:
            hashes[i] = xxh3_64_17_to_32(text, start, stop - start)
        else:
            hashes[i] = xxh3_64(text, start, stop)
    return shingles


@kernel
def join_by_script(tokens, count):
    """Replace ``count`` tokens, uint64, by the shingles by script; return their number.

    From each token on a shingle is the shortest run that weighs 15: a token weighs 5 or, if it is
    one of two neighbouring characters of scripts without spaces, which have nothing between them,
    3. So it has three words or five characters, and no other part of the text decides what is in
    it. The last shingle ends with the text; a text of less weight is one shingle.
    """
    _, starts, stops = tokens
    weight, end = U0, U0
    # whether the token before ``end``, and the one before the run, join the ones after them
    joins_end, joins_first = False, False
    shingles = U0
    while True:
        while weight < U15 and end < count:
            joins = end + U1 < count and stops[end] == starts[end + U1]
            weight += U3 if joins or joins_end else U5
            joins_end = joins
            end += U1
        if weight < U15:
            break
        joins = stops[shingles] == starts[shingles + U1]
        weight -= U3 if joins or joins_first else U5
        joins_first = joins
        stops[shingles] = stops[end - U1]
        shingles += U1
    shingles = max(shingles, U1)
    stops[shingles - U1] = stops[count - U1]
    return shingles


@kernel
def weigh_repeats(hashes, count, steps, weights, keys, times):
    """Write the weight that each occurrence adds to its feature.

    That is steps[t] of occurrence t + 1, and the last of ``steps`` int32[s] of all later ones.
    ``keys`` uint64[c] and ``times`` uint32[c] are scratch, c a power of 2 and at least twice
    ``count``.
    """
    capacity = U2
    while capacity < U2 * count:
        capacity *= U2
    keys, times = keys[:capacity], times[:capacity]
    times[:] = uint32(0)
    last = uint32(steps.size - 1)
    for i in range(count):
        slot = find_slot(keys, times, hashes[i])
        keys[slot] = hashes[i]
        before = times[slot]
        times[slot] = before + uint32(1)
        weights[i] = steps[min(before, last)]
