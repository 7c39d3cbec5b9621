"""From signatures to candidates: texts that share enough keys, without comparing all with all.

Texts with an equal key are brought together by sorting the keys (Shivakumar and Garcia-Molina,
Finding near-replicas of documents on the web, 1998), or by hash tables where no pair needs to be
compared.
"""

from __future__ import annotations

import itertools
import math
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.table_store import TableStore
from mr_dedup.kernels.unsigned import FACTORS, U32
from mr_dedup.signatures import candidate_kernels as kernels
from mr_dedup.signatures.protocol import SignatureMethod, Signatures

Rows = NDArray[np.int64]

_Keys = tuple[Rows, NDArray[np.uint64]]
"""The offsets of texts, and their keys."""

MAX_SUBSETS = 128
"""Maximum number of subsets of a text's keys, 8 bytes each; 8 keys have 70 subsets of 4."""

LINKED_KEYS = 1 << 20
"""Keys that a thread links at a time, about: up to 16 MB of edges."""

RANGE_KEYS = 1 << 15
"""Keys of a hash table, about: 256 KB of slots, which fit the CPU's caches."""

PASS_KEYS = 1 << 23
"""Keys that are in memory at a time, with their texts, while equal ones are linked: 100 MB."""

STORED_BYTES = 1 << 25
"""Bytes of runs and subsets of keys that are in memory; further ones are in a temporary file."""

SORTED_KEYS = 1 << 24
"""Keys that are sorted at a time to count the texts of each, about: some 600 MB."""

_PIECE_TEXTS = 1 << 14
"""Texts whose keys are hashed together: of 20 keys and subsets or runs of these some 15 MB."""

BATCH_PAIRS = 1 << 20
"""Pairs that are yielded together, about."""


def connecting_edges(
    signatures: Signatures | Sequence[Signatures],
    min_shared_keys: int,
    *,
    by_runs: bool = False,
    threads: int = 1,
    linked_keys: int = LINKED_KEYS,
    range_keys: int = RANGE_KEYS,
    pass_keys: int = PASS_KEYS,
    stored_bytes: int = STORED_BYTES,
) -> Iterator[tuple[Rows, Rows]]:
    """Yield edges, first[m] and second[m], that connect all texts that share enough keys.

    Every text has an edge to the first one with the same key, so a key of a million texts has a
    million edges, not half a billion pairs. Where more than one key must be shared, each subset of
    so many keys stands for one key; or ``by_runs`` each run of so many, which is stricter: as many
    as a text has keys, however many must be shared.

    Memory: 12 bytes for each of ``pass_keys`` keys, and 60 MB; and for each thread 24 MB, or 32
    bytes for each text with the most common key if that is more. 15 to 22 ns a key for 3
    to 100 million keys, with two threads 13 to 20; to sort the keys took 100. A further pass over
    the keys takes 1 ns a key. Runs and subsets take 35 ns to make: where several passes are needed
    they are made once, and beyond ``stored_bytes`` are in a temporary file, 12 bytes each.

    Args:
        signatures: Those of all texts. Texts of several are numbered on from one to the next.
        min_shared_keys: The number of keys that connected texts share at least.
        by_runs: Whether these must follow one another, the last of a text followed by its first.
        threads: The number of threads. Edges and their order do not depend on it.
        linked_keys: Keys that a thread links at a time, about.
        range_keys: Keys of a hash table, about.
        pass_keys: Keys of a pass over the signatures, about. Edges and their order do not depend
            on it, where it is a power of 2.
        stored_bytes: Bytes of runs or subsets that are in memory between passes.

    Raises:
        ValueError: If a text has more than MAX_SUBSETS subsets: see :func:`can_be_connected`.
        MrDedupError: If the temporary file cannot be written.
    """
    derived = _runs if by_runs else _subsets
    parts = _parts_of(signatures)
    size = sum(
        _key_count(piece, 1 if by_runs else min_shared_keys)
        for part in parts
        for piece in _pieces(part)
    )
    # keys are hashes: their leading bits give even ranges
    bits = max(1, (size // range_keys).bit_length())
    passes = min(bits, max(0, (size - 1) // pass_keys).bit_length())
    with ThreadPoolExecutor(threads) as pool, TableStore(stored_bytes) as store:

        def found() -> Iterator[_Keys]:
            return (derived(piece, min_shared_keys) for part in parts for piece in _pieces(part))

        is_stored = passes > 0 and min_shared_keys > 1
        if is_stored:
            _store(found(), passes, store)
        for number in range(1 << passes):
            if is_stored:
                some, texts = _taken(store, number)
            else:
                some, texts = [_of_range(*each, number, passes) for each in found()], None
            edges, keys, rows = _scattered(
                some, number << (bits - passes), bits - passes, 64 - bits
            )
            del some
            texts = rows if texts is None else texts[rows]
            del rows
            yield from _linked(edges, keys, texts, pool, threads, linked_keys)
            del edges, keys, texts


def _linked(
    edges: NDArray[np.uint64],
    keys: NDArray[np.uint64],
    texts: NDArray[np.uint32],
    pool: ThreadPoolExecutor,
    threads: int,
    linked_keys: int,
) -> Iterator[tuple[Rows, Rows]]:
    def linked(begin: int, end: int) -> tuple[Rows, Rows]:
        ranges = edges[begin : end + 1]
        largest = int(np.diff(ranges).max(initial=0))
        table = np.empty(1 << (2 * largest).bit_length(), np.uint32)
        first, second = np.empty((2, int(ranges[-1] - ranges[0])), np.int64)
        written = kernels.link_equal(keys, texts, ranges, table, first, second)
        return first[:written], second[:written]

    # group g begins at the first range at or after key g * linked_keys
    begins = np.searchsorted(edges[:-1], np.arange(0, keys.size, linked_keys))
    groups = itertools.pairwise(np.unique([*begins, edges.size - 1]).tolist())
    running: deque[Future[tuple[Rows, Rows]]] = deque()
    for begin, end in groups:
        running.append(pool.submit(linked, begin, end))
        if len(running) == threads:
            yield running.popleft().result()
    while running:
        yield running.popleft().result()


def _parts_of(signatures: Signatures | Sequence[Signatures]) -> Sequence[Signatures]:
    return [signatures] if isinstance(signatures, Signatures) else signatures


def _pieces(signatures: Signatures) -> Iterator[Signatures]:
    """Yield the signatures of texts, so many at a time that what is made of them is small."""
    for start in range(0, len(signatures), _PIECE_TEXTS):
        stop = min(start + _PIECE_TEXTS, len(signatures))
        offsets = signatures.offsets[start : stop + 1]
        keys = signatures.keys[offsets[0] : offsets[-1]]
        yield Signatures(offsets - offsets[0], keys, signatures.sketches[start:stop])


def _of_range(offsets: Rows, keys: NDArray[np.uint64], number: int, bits: int) -> _Keys:
    """Return the offsets of texts and those of their keys whose leading ``bits`` are ``number``."""
    if not bits:
        return offsets, keys
    chosen = keys >> np.uint64(64 - bits) == np.uint64(number)
    counts = np.zeros(keys.size + 1, np.uint32)
    np.cumsum(chosen, out=counts[1:])
    return counts[offsets].astype(np.int64), keys[chosen]


def _store(found: Iterable[_Keys], bits: int, store: TableStore) -> None:
    """Add keys and their texts, by the leading ``bits`` of the keys, to the tables of these."""
    first = 0
    for offsets, keys in found:
        edges, keys, texts = _scattered([(offsets, keys)], 0, bits, 64 - bits)
        table = pa.table({"key": keys, "text": texts + np.uint32(first)})
        for number, (begin, end) in enumerate(itertools.pairwise(edges.tolist())):
            store.add(number, table[begin:end])
        first += offsets.size - 1


def _taken(store: TableStore, number: int) -> tuple[list[_Keys], NDArray[np.uint32]]:
    """Return the keys that are stored under a number, as if each had a text, and their texts."""
    tables = [*store.take(number)]
    keys = [(np.arange(len(each) + 1), each["key"].to_numpy()) for each in tables]
    return keys, np.concatenate([each["text"].to_numpy() for each in tables])


def _scattered(
    parts: Sequence[_Keys], first: int, bits: int, shift: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint32]]:
    """Return the edges of 2^bits ranges of keys, and keys and texts in these ranges.

    ``parts`` are the offsets and the keys of texts; key >> shift is ``first`` or more.
    """
    size = sum(keys.size for _, keys in parts)
    counts = np.zeros(first + (1 << bits), np.uint64)
    for _, keys in parts:
        kernels.count_ranges(keys, np.uint64(shift), counts)
    ends = np.append(np.uint64(0), np.cumsum(counts))[:-1]
    edges = np.append(ends[first:], np.uint64(size))
    scattered = kernels.KeyedTexts(np.empty(size, np.uint64), np.empty(size, np.uint32))
    text = 0
    for offsets, keys in parts:
        kernels.scatter(offsets, keys, np.uint64(text), np.uint64(shift), ends, scattered)
        text += offsets.size - 1
    return edges, *scattered


def key_rows(
    signatures: Signatures, min_shared_keys: int
) -> tuple[NDArray[np.uint64], NDArray[np.uint32]]:
    """Return (key, row) pairs, uint64[m] and uint32[m]: texts that share enough keys share one.

    Memory: 12 bytes a pair.

    Args:
        signatures: Those of all texts.
        min_shared_keys: The number of keys that texts must share. If more than one, each subset of
            so many keys stands for one key.

    Raises:
        ValueError: As :func:`connecting_edges`.
    """
    offsets, keys = _subsets(signatures, min_shared_keys)
    return keys, np.repeat(np.arange(len(signatures), dtype=np.uint32), np.diff(offsets))


def max_keys(signatures: Signatures | Sequence[Signatures]) -> int:
    """Return the largest number of keys of a text."""
    parts = _parts_of(signatures)
    return max((int(np.diff(part.offsets).max(initial=0)) for part in parts), default=0)


def can_be_connected(signatures: Signatures | Sequence[Signatures], min_shared_keys: int) -> bool:
    """Return whether no text has too many subsets for :func:`connecting_edges`."""
    return min_shared_keys == 1 or (math.comb(max_keys(signatures), min_shared_keys) <= MAX_SUBSETS)


def too_many_subsets(signatures: Signatures, min_shared_keys: int) -> int:
    """Return how many texts have too many subsets of keys for :func:`connecting_edges`."""
    sizes, counts = np.unique(np.diff(signatures.offsets), return_counts=True)
    return sum(
        count
        for size, count in zip(sizes.tolist(), counts.tolist(), strict=True)
        if math.comb(size, min_shared_keys) > MAX_SUBSETS
    )


def candidates(
    signatures: Signatures,
    min_shared_keys: int,
    max_members: int | None = None,
    *,
    batch_pairs: int = BATCH_PAIRS,
) -> Iterator[tuple[Rows, Rows]]:
    """Yield the pairs, first[m] < second[m], of texts that share enough keys.

    Each pair once, in the order of the first; all pairs of the texts of each key are counted.
    Memory: 40 bytes a key, and 16 MB, or 32 bytes a text if that is more.

    Args:
        signatures: Those of all texts.
        min_shared_keys: The number of keys that a pair shares at least.
        max_members: The texts of one key that are compared with one another. If a key has more,
            they are compared in slices of so many, and pairs that share keys in different slices
            only are lost: :func:`count_oversized_keys` counts such keys. None for no limit.
        batch_pairs: Pairs that are yielded together, about.
    """
    groups = _key_groups(signatures, max_members)
    size = len(signatures)
    counts, touched = np.zeros((2, size), np.uint64)
    first, second = np.empty((2, max(batch_pairs, size)), np.int64)
    begin = 0
    while begin < size:
        begin, written = kernels.count_shared(
            np.uint64(begin), np.uint64(min_shared_keys), signatures.offsets, groups, counts,
            touched, first, second,
        )  # fmt: skip
        if written:
            yield first[:written].copy(), second[:written].copy()


def count_oversized_keys(signatures: Signatures, max_members: int) -> int:
    """Return the number of keys that more than ``max_members`` texts have."""
    return int(np.count_nonzero(texts_of_keys(signatures) > max_members))


def texts_of_keys(signatures: Signatures) -> Rows:
    """Return the number of texts with each distinct key, int64[k], in the order of the keys."""
    counts: Rows = np.unique(signatures.keys, return_counts=True)[1]
    return counts


def without_common_keys(
    signatures: Signatures, max_texts: int, *, sorted_keys: int = SORTED_KEYS
) -> Signatures:
    """Return signatures without the keys that more than ``max_texts`` texts have.

    Memory: 25 bytes a key, and 40 bytes for each of ``sorted_keys``.

    Args:
        signatures: Those of all texts.
        max_texts: The largest number of texts of a key.
        sorted_keys: Keys that are sorted at a time, about.
    """
    keys = signatures.keys
    is_rare = np.empty(keys.size, np.bool_)
    ranges = 1 << (keys.size // sorted_keys).bit_length()
    for low in range(0, 1 << 64, (1 << 64) // ranges):
        high = low + (1 << 64) // ranges - 1
        rows = np.flatnonzero((keys >= np.uint64(low)) & (keys <= np.uint64(high)))
        _, numbers, counts = np.unique(keys[rows], return_inverse=True, return_counts=True)
        is_rare[rows] = counts[numbers] <= max_texts
    before = np.append(0, np.cumsum(is_rare))
    return Signatures(before[signatures.offsets], keys[is_rare], signatures.sketches)


def matches(
    method: SignatureMethod,
    signatures: Signatures,
    min_shared_keys: int | None = None,
    max_members: int | None = None,
) -> Iterator[tuple[Rows, Rows, NDArray[np.float64]]]:
    """Yield the pairs that match by all of a method's rules, with their similarity.

    Args:
        method: The method of the signatures.
        signatures: Those of all texts.
        min_shared_keys: The number of keys that a pair shares at least; by default the method's.
        max_members: As in :func:`candidates`.
    """
    min_shared_keys = min_shared_keys or method.min_shared_keys
    for first, second in candidates(signatures, min_shared_keys, max_members):
        found = method.similarity(signatures.sketches[first], signatures.sketches[second])
        kept = ~np.isnan(found)
        if kept.any():
            yield first[kept], second[kept], found[kept]


def match(
    method: SignatureMethod, signatures: Signatures, first: Rows, second: Rows
) -> NDArray[np.bool_]:
    """Return which pairs of texts first[m] and second[m] match by all of a method's rules."""
    enough = np.empty(first.size, np.uint8)
    min_keys = np.uint64(method.min_shared_keys)
    kernels.share_enough(
        signatures.offsets, signatures.keys, np.ascontiguousarray(first),
        np.ascontiguousarray(second), min_keys, enough,
    )  # fmt: skip
    found = enough.astype(bool)
    if method.needs_verification:
        sketches = signatures.sketches
        similar = method.similarity(sketches[first[found]], sketches[second[found]])
        found[found] = ~np.isnan(similar)
    return found


def _key_groups(signatures: Signatures, max_members: int | None) -> kernels.KeyGroups:
    order = np.argsort(signatures.keys, kind="stable")
    keys = signatures.keys[order]
    size = keys.size
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[:size])
    if max_members is not None:
        lengths = np.diff(np.append(starts, size))
        slices = -(-lengths // max_members)
        within = np.arange(slices.sum()) - np.repeat(np.cumsum(slices) - slices, slices)
        starts = np.repeat(starts, slices) + within * max_members
    lengths = np.diff(np.append(starts, size))
    positions = np.empty(size, np.int64)
    positions[order] = np.arange(size)
    ends = np.empty(size, np.int64)
    ends[order] = np.repeat(starts + lengths, lengths)
    texts = np.repeat(np.arange(len(signatures)), np.diff(signatures.offsets))
    return kernels.KeyGroups(positions, ends, texts[order])


def _ascending(signatures: Signatures) -> _Keys:
    """Return the offsets of texts, and their keys, ascending in each text."""
    texts = np.repeat(np.arange(len(signatures)), np.diff(signatures.offsets))
    return signatures.offsets, signatures.keys[np.lexsort((signatures.keys, texts))]


def _runs(signatures: Signatures, size: int) -> _Keys:
    """Return the offsets of texts, and a hash of each run of ``size`` of their keys.

    Texts with fewer keys have none.
    """
    sizes = np.diff(signatures.offsets)
    starts = np.repeat(signatures.offsets[:-1], sizes)
    counts = np.repeat(sizes, sizes)
    at = np.arange(signatures.keys.size) - starts
    found = signatures.keys.copy()
    for step in range(1, size):
        # odd factors and shifts permute the values
        found *= FACTORS[0]
        found ^= found >> U32
        found += signatures.keys[starts + (at + step) % counts]
    found *= FACTORS[1]
    found ^= found >> U32
    found *= FACTORS[0]
    enough = sizes >= size
    offsets = np.append(0, np.cumsum(np.where(enough, sizes, 0)))
    return offsets, found[np.repeat(enough, sizes)]


def _key_count(signatures: Signatures, size: int) -> int:
    """Return how many subsets of ``size`` keys the texts have."""
    sizes, counts = np.unique(np.diff(signatures.offsets), return_counts=True)
    numbers = zip(sizes.tolist(), counts.tolist(), strict=True)
    return sum(count * math.comb(keys, size) for keys, count in numbers)


def _subsets(signatures: Signatures, size: int) -> _Keys:
    """Return the offsets of texts, and a hash of each subset of ``size`` of their keys."""
    if size == 1:
        return signatures.offsets, signatures.keys
    sizes = np.diff(signatures.offsets)
    if not can_be_connected(signatures, size):
        raise ValueError(
            f"signatures: {sizes.max()} keys of a text have more than "
            f"{MAX_SUBSETS} subsets of {size}"
        )
    combinations = np.array([math.comb(n, size) for n in range(int(sizes.max(initial=0)) + 1)])
    starts = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(combinations[sizes], out=starts[1:])
    out = np.empty(int(starts[-1]), np.uint64)
    offsets, keys = _ascending(signatures)
    kernels.write_subsets(
        offsets, keys, np.uint64(size), np.empty(size, np.uint64), starts, out
    )  # fmt: skip
    return starts, out
