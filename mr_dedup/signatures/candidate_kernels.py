# mypy: ignore-errors
"""Loops over shared keys: subsets of a text's keys, and pairs of texts that share enough of them.

Keys of text i are ``keys[offsets[i]:offsets[i + 1]]``. Nothing is validated or allocated here:
candidates.py does both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import uint8, uint32, uint64
from numpy.typing import NDArray

from mr_dedup.kernels.bits import folded_product
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import FACTORS, U0, U1, U2, U32


class KeyGroups(NamedTuple):
    """The texts with each key, and where each key of each text is among them.

    Attributes:
        positions: int64[keys]; ``members[positions[j]]`` is the text of key j.
        ends: int64[keys], the end in ``members`` of the group of key j.
        members: int64[keys], texts, grouped by key, ascending in each group.
    """

    positions: NDArray[np.int64]
    ends: NDArray[np.int64]
    members: NDArray[np.int64]


class KeyedTexts(NamedTuple):
    """Pairs of a key and a text with it.

    Attributes:
        keys: uint64[m].
        texts: uint32[m].
    """

    keys: NDArray[np.uint64]
    texts: NDArray[np.uint32]


@entry
def write_subsets(
    offsets: NDArray[np.int64],
    keys: NDArray[np.uint64],
    size: np.uint64,
    chosen: NDArray[np.uint64],
    starts: NDArray[np.int64],
    out: NDArray[np.uint64],
) -> None:
    """Write a hash of each subset of ``size`` keys of text i to out[starts[i]:starts[i + 1]].

    Keys of a text ascend. ``chosen`` uint64[size] is scratch.
    """
    for i in range(offsets.size - 1):
        first = uint64(offsets[i])
        count = uint64(offsets[i + 1]) - first
        if count < size:
            continue
        for j in range(size):
            chosen[j] = uint64(j)
        written = uint64(starts[i])
        while True:
            key = uint64(size)
            for j in range(size):
                key = folded_product(key ^ keys[first + chosen[j]] ^ FACTORS[0], FACTORS[1])
            out[written] = key
            written += U1
            # the next subset: the last of its members that can move moves on by one
            j = size
            while j > U0 and chosen[j - U1] == count - size + j - U1:
                j -= U1
            if j == U0:
                break
            chosen[j - U1] += U1
            for k in range(j, size):
                chosen[k] = chosen[k - U1] + U1


@entry
def count_shared(
    begin: np.uint64,
    min_keys: np.uint64,
    offsets: NDArray[np.int64],
    groups: KeyGroups,
    counts: NDArray[np.uint64],
    touched: NDArray[np.uint64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> tuple[int, int]:
    """Write the pairs of a text, from ``begin`` on, and a later one that share ``min_keys`` keys.

    Stops when ``first`` and ``second`` may not have space for the pairs of another text. ``counts``
    uint64[n] is 0, before and after; ``touched`` uint64[n] is scratch. Returns the next text to
    begin with, n at the end, and the number of pairs.
    """
    positions, ends, members = groups
    texts = uint64(counts.size)
    written = U0
    i = uint64(begin)
    while i < texts and written + texts <= uint64(first.size):
        size = U0
        for at in range(uint64(offsets[i]), uint64(offsets[i + 1])):
            for member in range(uint64(positions[at]) + U1, uint64(ends[at])):
                other = uint64(members[member])
                if counts[other] == U0:
                    touched[size] = other
                    size += U1
                counts[other] += U1
        for j in range(size):
            other = touched[j]
            if counts[other] >= min_keys:
                first[written] = i
                second[written] = other
                written += U1
            counts[other] = U0
        i += U1
    return i, written


@entry
def share_enough(
    offsets: NDArray[np.int64],
    keys: NDArray[np.uint64],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
    min_keys: np.uint64,
    out: NDArray[np.uint8],
) -> None:
    """Write to out[p] whether texts first[p] and second[p] share ``min_keys`` keys.

    Ascending keys are merged. Of others all are compared with all: of some tens that is fast.
    """
    for p in range(first.size):
        start, stop = uint64(offsets[first[p]]), uint64(offsets[first[p] + 1])
        begin, end = uint64(offsets[second[p]]), uint64(offsets[second[p] + 1])
        shared = U0
        if ascend(keys, start, stop) and ascend(keys, begin, end):
            while start < stop and begin < end:
                x, y = keys[start], keys[begin]
                shared += uint64(x == y)
                start += uint64(x <= y)
                begin += uint64(y <= x)
        else:
            for one in range(start, stop):
                key = keys[one]
                for other in range(begin, end):
                    shared += uint64(keys[other] == key)
        out[p] = uint8(shared >= min_keys)


@kernel
def ascend(keys, begin, end):
    """Return whether each of ``keys[begin:end]`` is larger than the one before."""
    at = begin + U1
    while at < end and keys[at] > keys[at - U1]:
        at += U1
    return at >= end


@entry
def count_ranges(keys: NDArray[np.uint64], shift: np.uint64, counts: NDArray[np.uint64]) -> None:
    """Add the number of keys in each range r, those with key >> shift = r, to ``counts``."""
    for i in range(keys.size):
        counts[keys[i] >> shift] += U1


@entry
def scatter(
    offsets: NDArray[np.int64],
    keys: NDArray[np.uint64],
    text: np.uint64,
    shift: np.uint64,
    ends: NDArray[np.uint64],
    scattered: KeyedTexts,
) -> None:
    """Write each key and its text, numbered from ``text`` on, to the end of its range.

    ``ends`` uint64[ranges] is updated; ranges are as in ``count_ranges``.
    """
    for i in range(offsets.size - 1):
        for at in range(uint64(offsets[i]), uint64(offsets[i + 1])):
            r = keys[at] >> shift
            end = ends[r]
            scattered.keys[end] = keys[at]
            scattered.texts[end] = uint32(text + uint64(i))
            ends[r] = end + U1


@entry
def link_equal(
    keys: NDArray[np.uint64],
    texts: NDArray[np.uint32],
    edges: NDArray[np.uint64],
    table: NDArray[np.uint32],
    first: NDArray[np.int64],
    second: NDArray[np.int64],
) -> int:
    """Write each text with a key and the first text with it, to ``second`` and ``first``.

    Range r of keys is keys[edges[r]:edges[r + 1]]. ``table`` is scratch, at least twice the largest
    range. Returns the number of pairs: n - 1 for a key of n texts.
    """
    written = U0
    for r in range(edges.size - 1):
        begin, end = edges[r], edges[r + 1]
        slots = U1
        while slots < U2 * (end - begin):
            slots <<= U1
        last = slots - U1
        table[:slots] = 0
        for i in range(begin, end):
            key = keys[i]
            slot = (key * FACTORS[0] >> U32) & last
            while table[slot] != 0 and keys[begin + uint64(table[slot]) - U1] != key:
                slot = (slot + U1) & last
            if table[slot] == 0:
                table[slot] = i - begin + U1
            else:
                first[written] = texts[begin + uint64(table[slot]) - U1]
                second[written] = texts[i]
                written += U1
    return written
