# mypy: ignore-errors
"""Loops over tokens and sets of shingles, without a thing in common with those of mr_dedup."""

from __future__ import annotations

from typing import NamedTuple

import numba
import numpy as np
from numpy import int32, int64, uint64
from numpy.typing import NDArray

_compiled = numba.njit(cache=True, nogil=True)


class Sets(NamedTuple):
    """Sets of shingles: set i is ``hashes[offsets[i]:offsets[i + 1]]``, ascending, each once.

    Attributes:
        offsets: int64[n + 1], from 0 on.
        hashes: uint64[m].
    """

    offsets: NDArray[np.int64]
    hashes: NDArray[np.uint64]

    def __len__(self) -> int:
        return self.offsets.size - 1


class Index(NamedTuple):
    """Some shingles of each query, and which queries have them.

    Attributes:
        keys: uint64[c], a hash table of shingles, c a power of 2; 0 where a slot is empty.
        starts: int64[c], where in ``rows`` the queries of a slot begin.
        stops: int64[c], where they end.
        rows: int32[p], queries.
        sizes: int32[q], of how many shingles each query is indexed.
    """

    keys: NDArray[np.uint64]
    starts: NDArray[np.int64]
    stops: NDArray[np.int64]
    rows: NDArray[np.int32]
    sizes: NDArray[np.int32]


class Matches(NamedTuple):
    """Space for matches, r of them: document, query, and Jaccard similarity."""

    documents: NDArray[np.int64]
    queries: NDArray[np.int64]
    similarities: NDArray[np.float64]


@_compiled
def mixed(x):
    """Return 64 bits that depend on all bits of x (the finaliser of SplitMix64)."""
    x = (x ^ (x >> uint64(30))) * uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> uint64(27))) * uint64(0x94D049BB133111EB)
    return x ^ (x >> uint64(31))


@_compiled
def write_sets(content, starts, out, offsets):
    """Write the set of shingles of each text to ``out``, and where it ends to ``offsets``.

    Text i is ``content[starts[i]:starts[i + 1]]`` uint8, tokens with spaces between, one at least.
    A token weighs 5 or, if it begins with a byte 1, which is not hashed, 3. ``out`` has room for
    as many hashes as there are bytes. Hashes of tokens are FNV-1a.
    """
    weights = np.empty(out.size, np.uint8)
    start_of_hash = uint64(0xCBF29CE484222325)
    size = int64(0)
    for i in range(starts.size - 1):
        first = size
        weights[size] = 5
        token, is_open = start_of_hash, False
        for at in range(starts[i], starts[i + 1]):
            if content[at] == 1:
                weights[size] = 3
            elif content[at] != 32:
                token, is_open = (token ^ uint64(content[at])) * uint64(0x100000001B3), True
            elif is_open:
                out[size] = token
                size += 1
                weights[size] = 5
                token, is_open = start_of_hash, False
        if is_open:
            out[size] = token
            size += 1
        # the last shingle begins where what is left no longer weighs enough
        last, weight = size - 1, int64(weights[size - 1])
        while last > first and weight < 15:
            last -= 1
            weight += weights[last]
        for j in range(first, last + 1):
            shingle, weight, k = uint64(0), int64(0), j
            while k < size and (weight < 15 or j == last):
                shingle = mixed(shingle * uint64(0x9E3779B97F4A7C15) + out[k])
                weight += weights[k]
                k += 1
            out[j] = max(shingle, uint64(1))
        size = last + 1
        found = np.sort(out[first:size])
        size = first
        for j in range(found.size):
            if j == 0 or found[j] != found[j - 1]:
                out[size] = found[j]
                size += 1
        offsets[i + 1] = size


@_compiled
def slot_of(keys, key):
    """Return the slot of a key in a hash table, or the empty one where it belongs."""
    last = uint64(keys.size - 1)
    slot = mixed(key) & last
    while keys[slot] != 0 and keys[slot] != key:
        slot = (slot + uint64(1)) & last
    return slot


@_compiled
def write_table(shingles, bounds, keys, starts, stops):
    """Write distinct ``shingles`` to a table, i with the range ``bounds[i:i + 2]``."""
    for i in range(shingles.size):
        slot = slot_of(keys, shingles[i])
        keys[slot], starts[slot], stops[slot] = shingles[i], bounds[i], bounds[i + 1]


@_compiled
def intersection(left, right):
    """Return how many hashes two ascending arrays have in common."""
    i = j = both = 0
    while i < left.size and j < right.size:
        if left[i] == right[j]:
            both += 1
            i += 1
            j += 1
        elif left[i] < right[j]:
            i += 1
        else:
            j += 1
    return both


@_compiled
def match(documents, first, queries, index, threshold, shared, out):
    """Find the queries that are at least ``threshold`` similar to documents, from ``first`` on.

    A query that is similar enough shares one of its indexed shingles at least. Those that do are
    candidates, whose whole sets are compared, unless their sizes or the number of the indexed
    shingles that are shared exclude it. ``shared`` int32[q] is zeros, and is left so.

    Returns the number of matches written to ``out``, and the document to continue with: it stops
    where there might be more matches than there is room.
    """
    count = 0
    candidates = np.empty(shared.size, int32)
    for d in range(first, documents.offsets.size - 1):
        if out.documents.size - count < shared.size:
            return count, d
        document = documents.hashes[documents.offsets[d] : documents.offsets[d + 1]]
        found = 0
        for h in range(document.size):
            slot = slot_of(index.keys, document[h])
            if index.keys[slot] != 0:
                for p in range(index.starts[slot], index.stops[slot]):
                    q = index.rows[p]
                    if shared[q] == 0:
                        candidates[found] = q
                        found += 1
                    shared[q] += 1
        for c in range(found):
            q = candidates[c]
            query = queries.hashes[queries.offsets[q] : queries.offsets[q + 1]]
            both = min(shared[q] + query.size - index.sizes[q], document.size)
            shared[q] = 0
            if both >= threshold * (document.size + query.size - both):
                both = intersection(document, query)
                similarity = both / (document.size + query.size - both)
                if similarity >= threshold:
                    out.documents[count] = d
                    out.queries[count] = q
                    out.similarities[count] = similarity
                    count += 1
    return count, documents.offsets.size - 1
