"""From signatures to candidates: texts that share enough keys, without comparing all with all.

Entries of keys and texts are brought together by sorting the keys (Shivakumar and Garcia-Molina,
Finding near-replicas of documents on the web, 1998), or where no pair need be looked at, by hash
tables.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

from mr_dedup.signatures import candidate_kernels as kernels
from mr_dedup.signatures.protocol import SignatureMethod, Signatures

Rows = NDArray[np.int64]

MOST_SUBSETS = 128
"""Subsets of a text's keys that may stand for pairs: 1 KB a text; of 8 keys 70 have 4."""

_LINKED_KEYS = 1 << 20
"""Keys that a thread links at a time, about: up to 16 MB of edges."""

_RANGE_KEYS = 1 << 15
"""Keys of a hash table: 256 KB of slots, which stay in the cache."""

_PAIRS = 1 << 20


def chained(
    signatures: Signatures | Sequence[Signatures], least: int, *, threads: int = 1
) -> Iterator[tuple[Rows, Rows]]:
    """Yield edges, first[m] and second[m], that connect all texts that share ``least`` keys.

    Of several signatures the texts are numbered on from one to the next. A text has an edge to the
    first one with the same key, so a key of a million texts has a million edges, not half a billion
    pairs. Where more than one key is to be shared, each subset of so many stands for one, so texts
    may have up to MOST_SUBSETS of them: else ValueError. In memory: 12 bytes a key or subset, and
    for each of the ``threads`` 24 MB, or what the most common key takes, 32 bytes for each text
    that has it. Of 3 to 100 million keys 15 to 22 ns each, by two threads 13 to 20: to sort them,
    which tells the same, took some 100. Edges and their order are those of one thread.
    """
    edges, keys, texts = _dealt([_subsets(part, least) for part in _parts_of(signatures)])

    def linked(begin: int, end: int) -> tuple[Rows, Rows]:
        ranges = edges[begin : end + 1]
        largest = int(np.diff(ranges).max(initial=0))
        table = np.empty(1 << (2 * largest).bit_length(), np.uint32)
        first, second = np.empty((2, int(ranges[-1] - ranges[0])), np.int64)
        written = kernels.link_equal(keys, texts, ranges, table, first, second)
        return first[:written], second[:written]

    # from the first range that begins at so many keys or behind
    begins = np.searchsorted(edges[:-1], np.arange(0, keys.size, _LINKED_KEYS))
    groups = itertools.pairwise(np.unique([*begins, edges.size - 1]).tolist())
    with ThreadPoolExecutor(threads) as pool:
        running: deque[Future[tuple[Rows, Rows]]] = deque()
        for begin, end in groups:
            running.append(pool.submit(linked, begin, end))
            if len(running) == threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()


def _parts_of(signatures: Signatures | Sequence[Signatures]) -> Sequence[Signatures]:
    return [signatures] if isinstance(signatures, Signatures) else signatures


def _dealt(
    parts: Sequence[tuple[Rows, NDArray[np.uint64]]],
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint32]]:
    """Return keys and texts in ranges of some _RANGE_KEYS, and between which edges these are.

    ``parts`` are offsets of texts, and their keys.
    """
    size = sum(keys.size for _, keys in parts)
    # hashes, so that their leading bits deal them out evenly
    bits = max(1, (size // _RANGE_KEYS).bit_length())
    shift = np.uint64(64 - bits)
    counts = np.zeros(1 << bits, np.uint64)
    for _, keys in parts:
        kernels.count_ranges(keys, shift, counts)
    edges = np.append(np.uint64(0), np.cumsum(counts))
    ends, dealt = edges[:-1].copy(), (np.empty(size, np.uint64), np.empty(size, np.uint32))
    text = 0
    for offsets, keys in parts:
        kernels.deal(keys, offsets, np.uint64(text), shift, ends, *dealt)
        text += offsets.size - 1
    return edges, *dealt


def keyed(signatures: Signatures, least: int) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return keys and whose they are: two texts have an equal one if ``least`` of theirs are.

    12 bytes a key. Raises ValueError as ``chained``.
    """
    offsets, keys = _subsets(signatures, least)
    return keys, np.repeat(np.arange(len(signatures), dtype=np.uint32), np.diff(offsets))


def most_keys(signatures: Signatures | Sequence[Signatures]) -> int:
    """Return how many keys a text has at most."""
    parts = _parts_of(signatures)
    return max((int(np.diff(part.offsets).max(initial=0)) for part in parts), default=0)


def can_be_chained(signatures: Signatures | Sequence[Signatures], least: int) -> bool:
    """Return whether ``chained`` takes them."""
    return least == 1 or math.comb(most_keys(signatures), least) <= MOST_SUBSETS


def candidates(
    signatures: Signatures, least: int, most_members: int | None = None
) -> Iterator[tuple[Rows, Rows]]:
    """Yield the pairs, first[m] < second[m], of texts that share at least ``least`` keys.

    Each once, in the order of the first; all pairs of each key's texts are looked at. With
    ``most_members`` more texts of one key are taken in slices of so many, and pairs that only meet
    in different slices are lost: ``crowded`` counts such keys. In memory 40 bytes a key, and 16 MB,
    or 32 bytes a text if that is more.
    """
    entries = _Entries.of(signatures, most_members)
    size = len(signatures)
    counts, touched = np.zeros((2, size), np.uint64)
    first, second = np.empty((2, max(_PAIRS, size)), np.int64)
    begin = 0
    while begin < size:
        begin, written = kernels.count_shared(
            np.uint64(begin), np.uint64(least), signatures.offsets, entries.places, entries.ends,
            entries.members, counts, touched, first, second,
        )  # fmt: skip
        if written:
            yield first[:written].copy(), second[:written].copy()


def crowded(signatures: Signatures, most_members: int) -> int:
    """Return how many keys more than ``most_members`` texts have."""
    return int(np.count_nonzero(texts_of_keys(signatures) > most_members))


def texts_of_keys(signatures: Signatures) -> Rows:
    """Return how many texts have each key, int64[keys], in their order."""
    counts: Rows = np.unique(signatures.keys, return_counts=True)[1]
    return counts


def matches(
    method: SignatureMethod,
    signatures: Signatures,
    least: int | None = None,
    most_members: int | None = None,
) -> Iterator[tuple[Rows, Rows, NDArray[np.float64]]]:
    """Yield the pairs that match by a method's whole rule, as ``candidates``, and how similar.

    With ``least`` they share so many keys.
    """
    for first, second in candidates(signatures, least or method.least, most_members):
        found = method.similarity(signatures.sketches[first], signatures.sketches[second])
        kept = ~np.isnan(found)
        if kept.any():
            yield first[kept], second[kept], found[kept]


def match(
    method: SignatureMethod, signatures: Signatures, first: Rows, second: Rows
) -> NDArray[np.bool_]:
    """Return which of texts first[m] and second[m] match by a method's whole rule, bool[m]."""
    enough = np.empty(first.size, np.uint8)
    kernels.share_enough(
        signatures.offsets, signatures.keys, first, second, np.uint64(method.least), enough
    )
    found = enough.astype(bool)
    if method.checks:
        sketches = signatures.sketches
        similar = method.similarity(sketches[first[found]], sketches[second[found]])
        found[found] = ~np.isnan(similar)
    return found


class _Entries:
    """Where each key of each text is among all texts that have the key."""

    def __init__(self, places: Rows, ends: Rows, members: Rows) -> None:
        self.places = places
        self.ends = ends
        self.members = members

    @classmethod
    def of(cls, signatures: Signatures, most_members: int | None) -> _Entries:
        order = np.argsort(signatures.keys, kind="stable")
        keys = signatures.keys[order]
        size = keys.size
        starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[:size])
        if most_members is not None:
            lengths = np.diff(np.append(starts, size))
            slices = -(-lengths // most_members)
            within = np.arange(slices.sum()) - np.repeat(np.cumsum(slices) - slices, slices)
            starts = np.repeat(starts, slices) + within * most_members
        lengths = np.diff(np.append(starts, size))
        places = np.empty(size, np.int64)
        places[order] = np.arange(size)
        ends = np.empty(size, np.int64)
        ends[order] = np.repeat(starts + lengths, lengths)
        texts = np.repeat(np.arange(len(signatures)), np.diff(signatures.offsets))
        return cls(places, ends, texts[order])


def _ascending(signatures: Signatures) -> tuple[Rows, NDArray[np.uint64]]:
    """Return offsets, and keys that ascend for each text."""
    texts = np.repeat(np.arange(len(signatures)), np.diff(signatures.offsets))
    return signatures.offsets, signatures.keys[np.lexsort((signatures.keys, texts))]


def _subsets(signatures: Signatures, least: int) -> tuple[Rows, NDArray[np.uint64]]:
    """Return the offsets and keys of subsets of ``least`` keys of each text."""
    if least == 1:
        return signatures.offsets, signatures.keys
    sizes = np.diff(signatures.offsets)
    if not can_be_chained(signatures, least):
        raise ValueError(
            f"signatures: of {sizes.max()} keys more than {MOST_SUBSETS} subsets have {least}"
        )
    combinations = np.array([math.comb(n, least) for n in range(int(sizes.max(initial=0)) + 1)])
    starts = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(combinations[sizes], out=starts[1:])
    out = np.empty(int(starts[-1]), np.uint64)
    offsets, keys = _ascending(signatures)
    kernels.write_subsets(
        offsets, keys, np.uint64(least), np.empty(least, np.uint64), starts, out
    )  # fmt: skip
    return starts, out
