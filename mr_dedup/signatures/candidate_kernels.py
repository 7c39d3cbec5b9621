"""The loops over shared keys: subsets of a text's keys, and pairs of texts that share enough.

Keys of text i are keys[offsets[i]:offsets[i + 1]]. Nothing is validated or allocated here:
candidates.py does both.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint8, uint32, uint64

from mr_dedup.kernels.bits import folded_product

_U = np.uint64
_0, _1, _2, _32 = _U(0), _U(1), _U(2), _U(32)
_FACTORS = _U(0x9E3779B97F4A7C15), _U(0xD6E8FEB86659FD93)


@njit(cache=True, nogil=True)
def write_subsets(offsets, keys, least, chosen, starts, out):  # type: ignore[no-untyped-def]
    """Write a hash of each subset of ``least`` of a text's keys to out[starts[i]:starts[i + 1]].

    Keys of a text ascend; ``chosen`` uint64[least] is scratch.
    """
    for i in range(offsets.size - 1):
        first = uint64(offsets[i])
        count = uint64(offsets[i + 1]) - first
        if count < least:
            continue
        for j in range(least):
            chosen[j] = uint64(j)
        place = uint64(starts[i])
        while True:
            key = uint64(least)
            for j in range(least):
                key = folded_product(key ^ keys[first + chosen[j]] ^ _FACTORS[0], _FACTORS[1])
            out[place] = key
            place += _1
            # the next subset: the last of its members that can move moves on by one
            j = least
            while j > _0 and chosen[j - _1] == count - least + j - _1:
                j -= _1
            if j == _0:
                break
            chosen[j - _1] += _1
            for k in range(j, least):
                chosen[k] = chosen[k - _1] + _1


@njit(cache=True, nogil=True)
def count_shared(  # type: ignore[no-untyped-def]
    begin, least, offsets, places, ends, members, counts, touched, first, second
):
    """Write the pairs of a text from ``begin`` on and a later one that share ``least`` keys.

    Until ``first`` and ``second`` may not hold those of another text. members[places[j]] is the
    text of entry j of offsets, in its key's group, which ends before ends[j]; members of a group
    ascend. ``counts`` uint64[n] is 0, and left so; ``touched`` uint64[n] is scratch. Returns
    (begin, written): where to go on, n at the end.
    """
    texts = uint64(counts.size)
    written = _0
    i = uint64(begin)
    while i < texts and written + texts <= uint64(first.size):
        size = _0
        for entry in range(uint64(offsets[i]), uint64(offsets[i + 1])):
            for place in range(uint64(places[entry]) + _1, uint64(ends[entry])):
                other = uint64(members[place])
                if counts[other] == _0:
                    touched[size] = other
                    size += _1
                counts[other] += _1
        for j in range(size):
            other = touched[j]
            if counts[other] >= least:
                first[written] = i
                second[written] = other
                written += _1
            counts[other] = _0
        i += _1
    return i, written


@njit(cache=True, nogil=True)
def share_enough(offsets, keys, first, second, least, out):  # type: ignore[no-untyped-def]
    """Write to out[p] whether texts first[p] and second[p] share ``least`` keys.

    Each key of the one is held against all of the other: of some tens that is nothing.
    """
    for p in range(first.size):
        begin, end = uint64(offsets[second[p]]), uint64(offsets[second[p] + 1])
        shared = _0
        for one in range(uint64(offsets[first[p]]), uint64(offsets[first[p] + 1])):
            key = keys[one]
            for other in range(begin, end):
                shared += uint64(keys[other] == key)
        out[p] = uint8(shared >= least)


@njit(cache=True, nogil=True)
def count_ranges(keys, shift, counts):  # type: ignore[no-untyped-def]
    """Add to ``counts`` uint64[ranges] how many keys have each of the values from ``shift`` on."""
    for i in range(keys.size):
        counts[keys[i] >> shift] += _1


@njit(cache=True, nogil=True)
def deal(keys, offsets, text, shift, ends, dealt_keys, dealt_texts):  # type: ignore[no-untyped-def]
    """Write keys and their texts, numbered from ``text`` on, each to where its range ends so far.

    Which is in ``ends`` uint64[ranges], as in ``count_ranges``, and moves on.
    """
    for i in range(offsets.size - 1):
        for entry in range(uint64(offsets[i]), uint64(offsets[i + 1])):
            r = keys[entry] >> shift
            place = ends[r]
            dealt_keys[place] = keys[entry]
            dealt_texts[place] = uint32(text + uint64(i))
            ends[r] = place + _1


@njit(cache=True, nogil=True)
def link_equal(keys, texts, edges, table, first, second):  # type: ignore[no-untyped-def]
    """Write to ``first`` and ``second`` each text with a key, and the one that had it first.

    Of ranges of keys between ``edges`` uint64[ranges + 1], each by a hash table in ``table``, which
    has 2 slots and more for each key of the largest. Returns how many were written. A key of n
    texts has n - 1.
    """
    written = _0
    for r in range(edges.size - 1):
        begin, end = edges[r], edges[r + 1]
        slots = _1
        while slots < _2 * (end - begin):
            slots <<= _1
        last = slots - _1
        table[:slots] = 0
        for i in range(begin, end):
            key = keys[i]
            slot = (key * _FACTORS[0] >> _32) & last
            while table[slot] != 0 and keys[begin + uint64(table[slot]) - _1] != key:
                slot = (slot + _1) & last
            if table[slot] == 0:
                table[slot] = i - begin + _1
            else:
                first[written] = texts[begin + uint64(table[slot]) - _1]
                second[written] = texts[i]
                written += _1
    return written
