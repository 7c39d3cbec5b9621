"""The loops of document frequencies: count each feature of a text once, look features up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import int32, njit, uint16, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.kernels import find_features
from mr_dedup.features.word_kernels import find_words

_1 = np.uint64(1)


class CountTable(NamedTuple):
    """How many texts features occur in, in open addressing: c slots, c a power of 2.

    ``keys`` uint64[c] are the features, ``counts`` uint32[c] in how many texts each is, 0 where a
    slot is free, ``seen`` uint32[c] the last of these texts, by its number from 1 on.
    """

    keys: NDArray[np.uint64]
    counts: NDArray[np.uint32]
    seen: NDArray[np.uint32]


@njit(cache=True, nogil=True)
def count_texts(  # type: ignore[no-untyped-def]
    content,
    starts,
    stops,
    pages,
    entries,
    by_characters,
    length,
    steps,
    scratch,
    first,
    before,
    table,
    used,
    enough,
):
    """Count the features of each content[starts[i]:stops[i]] from i = ``first`` on in ``table``.

    Text i has number ``before`` + i + 1, and ``used`` slots are taken. Returns how many texts are
    done and how many slots are taken then: all texts, or those up to the one with which ``enough``
    slots were, or those before the one for which half of the slots were too few. That is to be
    counted again, in a larger table: a feature that was counted is not counted twice.
    """
    for i in range(first, uint64(stops.size)):
        found, _ = find_features(
            content, starts[i], stops[i], pages, entries, by_characters, length, steps, scratch
        )
        used, fits = _count(scratch.hashes, found, before + uint64(i) + _1, table, used)
        if not fits:
            return uint64(i), used
        if used >= enough:
            return uint64(i) + _1, used
    return uint64(stops.size), used


@njit(cache=True, nogil=True)
def count_words(  # type: ignore[no-untyped-def]
    content, starts, stops, pages, entries, totals, scratch, first, before, table, used, enough
):
    """Do as ``count_texts`` for features that are single words; ``totals`` as in ``find_words``."""
    for i in range(first, uint64(stops.size)):
        _, found = find_words(content, starts[i], stops[i], pages, entries, totals, scratch)
        used, fits = _count(scratch.hashes, found, before + uint64(i) + _1, table, used)
        if not fits:
            return uint64(i), used
        if used >= enough:
            return uint64(i) + _1, used
    return uint64(stops.size), used


@njit(cache=True, nogil=True)
def _count(hashes, found, number, table, used):  # type: ignore[no-untyped-def]
    """Count the features of a text; return how many slots are taken, and whether there was room."""
    mask = uint64(table.keys.size - 1)
    room = uint64(table.keys.size // 2)
    text = uint32(number)
    for i in range(found):
        feature = hashes[i]
        slot = feature & mask
        while table.counts[slot] != uint32(0) and table.keys[slot] != feature:
            slot = (slot + _1) & mask
        if table.counts[slot] == uint32(0):
            if used == room:
                return used, False
            used += _1
            table.keys[slot] = feature
        elif table.seen[slot] == text:
            continue
        table.counts[slot] += uint32(1)
        table.seen[slot] = text
    return used, True


@njit(cache=True, nogil=True)
def move(table, larger):  # type: ignore[no-untyped-def]
    """Copy what is in ``table`` to an empty one that is larger."""
    mask = uint64(larger.keys.size - 1)
    for i in range(uint64(table.keys.size)):
        if table.counts[i] == uint32(0):
            continue
        slot = table.keys[i] & mask
        while larger.counts[slot] != uint32(0):
            slot = (slot + _1) & mask
        larger.keys[slot] = table.keys[i]
        larger.counts[slot] = table.counts[i]
        larger.seen[slot] = table.seen[i]


class IdfTable(NamedTuple):
    """What features weigh by their rarity, in open addressing: c slots, c a power of 2.

    ``keys`` uint64[c] are features, ``idfs`` uint16[c] theirs in 64ths, 0 where a slot is free;
    ``unknown``, which none exceeds, is that of all others; 0 if there is no table, and features
    keep their weights.
    """

    keys: NDArray[np.uint64]
    idfs: NDArray[np.uint16]
    unknown: np.int32


@njit(cache=True, nogil=True)
def fill(hashes, idfs, table):  # type: ignore[no-untyped-def]
    """Put distinct hashes and their idfs, uint64[n] and uint16[n], n < c, into an empty table."""
    mask = uint64(table.keys.size - 1)
    for i in range(uint64(hashes.size)):
        slot = hashes[i] & mask
        while table.idfs[slot] != uint16(0):
            slot = (slot + _1) & mask
        table.keys[slot] = hashes[i]
        table.idfs[slot] = idfs[i]


@njit(cache=True, nogil=True)
def weigh_by_rarity(hashes, weights, count, table):  # type: ignore[no-untyped-def]
    """Multiply the weight of each of ``count`` hashes by the idf of its feature.

    3 to 20 ns a hash, by how much of the table the caches hold. Searched in their order, found by
    their leading bits, features took 1.5 to 4 times as long, in half the memory.
    """
    mask = uint64(table.keys.size - 1)
    for i in range(count):
        feature = hashes[i]
        slot = feature & mask
        while table.idfs[slot] != uint16(0) and table.keys[slot] != feature:
            slot = (slot + _1) & mask
        idf = int32(table.idfs[slot])
        weights[i] *= idf if idf > int32(0) else table.unknown
