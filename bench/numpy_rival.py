"""The fastest exact search for k = 3 that we could write in NumPy alone.

Of three flipped bits at most one is in one of the 32-bit halves of a fingerprint, so that three of
the four bytes of this half are equal: eight tables, keyed by three bytes of a half, find every
pair. For each table a bitmap of 2**24 keys selects the corpus fingerprints that share a key with a
query: 6 % for a million queries. For these, queries are looked up in a directory of keys and
compared in full.

Alternatives, as ratios of the whole search to this one within a run (8,388,608 x 1,000,000,
300,000 matches, Zen 5, numpy 2.4, 0.55 to 0.65 s):

- ten tables of 25 or 26 bits (5 blocks, 2 chosen) and a map of bytes: 3.1; a bitmap: 1.4 to 1.8;
  keys by a multiplication, a third more of which collide: 2.0 (eight tables: 1.1)
- ten tables of 25 or 26 bits in halves (5 parts of a half, 4 chosen), a bitmap: 1.75
- six tables of 21 or 22 bits (3 parts of a half, 2 chosen), of whose keys 31 % are marked: 1.15;
  signatures of the other half after the map: 1.1; signatures once more among queries that share
  a key: 0.95 to 1.0, for twice the code
- no map, but such signatures in a table by key, which is larger than the cache: 1.2 to 1.5
- four tables of 16 bits: comparing their 500 million candidates in rows in the cache (XOR,
  bitwise_count, compare) alone takes 1.5 times as long as this search
- whole halves as keys, every query entered 33 times, with each bit flipped: 66 million entries
  in two bitmaps of 512 MB, which take longer to fill than this search
- sixteen tables of 28 bits, twenty of 31 to 33: 4 ns a fingerprint for each table more than ten
- sorting the corpus by each key, to merge: 7 ns a fingerprint and table, the bitmap takes 4
- blocks of 2**14: 1.05 to 1.1; of 2**15 and 2**17: 1.0 to 1.05
- a directory of 2**24 keys, 64 MB: 1.05 to 1.2; of 2**21: 1.0
- take with out= and mode="wrap" or "clip": 1.1 to 1.4 times the plain take, and fancy indexing
  no faster
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.measure import PairArrays

K = 3

_KEY_BITS = 24
_DIRECTORY_BITS = 22
_BLOCK = 1 << 16
_LOOKUPS = 1 << 16  # selected corpus fingerprints that are looked up at a time

Fingerprints = NDArray[np.uint64]
Halves = NDArray[np.uint32]


def search(corpus: Fingerprints, queries: Fingerprints) -> PairArrays:
    """Return every pair within K bits, each once, ascending by query, then corpus (signed).

    Memory: 4 bytes a corpus fingerprint and half, some 40 a query, and 50 MB.
    """
    queries = np.sort(queries)
    queries = queries[np.append(True, queries[1:] != queries[:-1])]
    corpus_halves, query_halves = _halves(corpus), _halves(queries)
    marked = np.zeros(1 << _KEY_BITS, dtype=bool)
    directory = np.zeros(1 << _DIRECTORY_BITS, dtype=np.int32)
    found: list[PairArrays] = []
    earlier: list[np.uint64] = []
    for half in (0, 1):
        for excluded in range(4):
            rotation = 8 * (excluded + 1) % 32
            table = _Table(query_halves[half], queries, rotation, marked, directory)
            mask = np.uint64((0xFFFFFFFF ^ 0xFF << 8 * excluded) << 32 * half)
            for candidates, keys in _candidates(corpus_halves[half], corpus, table):
                found += table.matches(candidates, keys, mask, earlier)
            earlier.append(mask)
    return _merged(found)


class _Table:
    """The queries ordered by one key, a bitmap of the keys, and the start of each key."""

    def __init__(
        self,
        halves: Halves,
        queries: Fingerprints,
        rotation: int,
        marked: NDArray[np.bool_],
        directory: NDArray[np.int32],
    ) -> None:
        """Build the table; ``marked`` is False before and after, ``directory`` overwritten."""
        self.rotation = rotation
        # key and rank are sorted as one number: 3 times faster than argsort
        rank_bits = np.uint64(32)
        keys = np.empty_like(halves)
        _keys(halves, rotation, keys, np.empty_like(halves))
        packed = keys.astype(np.uint64) << rank_bits
        packed |= np.arange(queries.size, dtype=np.uint64)
        packed.sort()
        self._queries = queries.take((packed & np.uint64(0xFFFFFFFF)).view(np.int64))
        ordered = (packed >> rank_bits).view(np.int64)
        marked[ordered] = True
        self.bits = np.packbits(marked, bitorder="little")
        marked[ordered] = False
        coarse = ordered >> (_KEY_BITS - _DIRECTORY_BITS)
        # in descending order, so that the first of a run is written last; other slots are not read
        directory[coarse[::-1]] = np.arange(queries.size - 1, -1, -1, dtype=np.int32)
        self._directory = directory
        self._has_next = np.append(coarse[1:] == coarse[:-1], False)

    def matches(
        self,
        corpus: Fingerprints,
        keys: Halves,
        mask: np.uint64,
        earlier: list[np.uint64],
    ) -> list[PairArrays]:
        """Return the matches of corpus fingerprints with keys in the table.

        A pair belongs to the first table whose mask it shares.
        """
        found = []
        row = self._directory.take(keys >> np.uint32(_KEY_BITS - _DIRECTORY_BITS))
        while corpus.size:
            others = self._queries.take(row)
            near = (np.bitwise_count(others ^ corpus) <= K).nonzero()[0]
            if near.size:
                near_corpus, near_queries = corpus.take(near), others.take(near)
                difference = near_corpus ^ near_queries
                own = difference & mask == 0
                for other_mask in earlier:
                    own &= difference & other_mask != 0
                found.append((near_queries[own], near_corpus[own]))
            more = self._has_next.take(row).nonzero()[0]
            corpus, row = corpus.take(more), row.take(more)
            row += np.int32(1)
        return found


def _candidates(
    halves: Halves, corpus: Fingerprints, table: _Table
) -> Iterator[tuple[Fingerprints, Halves]]:
    """Yield the corpus fingerprints whose keys are in the bitmap, with their keys."""
    keys, scratch = np.empty(_BLOCK, np.uint32), np.empty(_BLOCK, np.uint32)
    bytes_of, bits_of = np.empty(_BLOCK, np.int64), np.empty(_BLOCK, np.uint8)
    selected: list[tuple[Fingerprints, Halves]] = []
    size = 0
    for start in range(0, halves.size, _BLOCK):
        part = halves[start : start + _BLOCK]
        key, byte, bit = keys[: part.size], bytes_of[: part.size], bits_of[: part.size]
        _keys(part, table.rotation, key, scratch[: part.size])
        np.copyto(byte, np.right_shift(key, np.uint32(3), out=scratch[: part.size]))
        np.copyto(bit, key, casting="unsafe")
        bit &= np.uint8(7)
        passed = table.bits.take(byte)
        passed >>= bit
        passed &= np.uint8(1)
        through = passed.view(bool).nonzero()[0]
        selected.append((corpus[start : start + _BLOCK].take(through), key.take(through)))
        size += through.size
        if size >= _LOOKUPS or start + _BLOCK >= halves.size:
            fingerprints, of_keys = zip(*selected, strict=True)
            yield np.concatenate(fingerprints), np.concatenate(of_keys)
            selected, size = [], 0


def _halves(fingerprints: Fingerprints) -> tuple[Halves, Halves]:
    """Return the lower and the upper halves, each contiguous."""
    both = fingerprints.astype("<u8", copy=False).view("<u4").reshape(-1, 2)
    return np.ascontiguousarray(both[:, 0]), np.ascontiguousarray(both[:, 1])


def _keys(halves: Halves, rotation: int, out: Halves, scratch: Halves) -> None:
    """Write three bytes of each half: its low bytes after a rotation to the right."""
    np.right_shift(halves, np.uint32(rotation), out=out)
    if rotation > 32 - _KEY_BITS:
        out |= np.left_shift(halves, np.uint32(32 - rotation), out=scratch)
    out &= np.uint32((1 << _KEY_BITS) - 1)


def _merged(found: list[PairArrays]) -> PairArrays:
    """Return all distinct pairs, ascending: a corpus may repeat a fingerprint."""
    queries = np.concatenate([np.empty(0, np.uint64), *(pair[0] for pair in found)])
    corpus = np.concatenate([np.empty(0, np.uint64), *(pair[1] for pair in found)])
    order = np.lexsort((corpus.view(np.int64), queries.view(np.int64)))
    queries, corpus = queries[order], corpus[order]
    new = np.ones(queries.size, dtype=bool)
    new[1:] = (queries[1:] != queries[:-1]) | (corpus[1:] != corpus[:-1])
    return queries[new], corpus[new]
