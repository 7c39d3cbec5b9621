# mypy: ignore-errors
"""Kernels of the online index: probe a segment, look up ids and fingerprints, scan new documents.

A segment is one file, seen as ``words`` uint32, ``halves`` uint16 and ``octets`` uint8: three views
of the same bytes, so that a call passes few arrays, each of which costs it 100 ns. ``tables``
uint64[tables, FIELDS + 2 * runs] describes the tables, a row each: where its parts begin, in
elements of the view that they are read by, and how it permutes bits. ``verified`` uint8[blocks] is
1 for each block of 64 KB whose checksum was found right: a kernel that needs another block returns
its number, and is called again when the caller has verified it.

Kernels validate nothing: segment.py and memory_table.py allocate and call.
"""

from __future__ import annotations

import numpy as np
from numpy import uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.xxh3_kernels import xxh3_64
from mr_dedup.kernels.bits import population_count, trailing_zeros
from mr_dedup.kernels.distances import LANES, lanes_within
from mr_dedup.kernels.entry import Matrix, entry, kernel
from mr_dedup.kernels.memory import prefetch

BLOCK_BITS = 16
"""A checksum is over 2**16 bytes: 8 of 65,536; to verify a block takes 6 µs."""

MASK, WIDTH, BITS, DIRECTORY, LOW, HIGH, HIGH_BYTES, FIELDS = range(8)
"""Fields of a row of ``tables``: the mask of the bits that are probed, the number of these bits,
the bits of the directory; where the directory (words), the low halves (words) and the bits between
(halves or octets, by HIGH_BYTES) begin. From FIELDS on follow pairs of a rotation and a mask: the
permutation is the OR of the rotated fingerprints under their masks. Unused pairs are zeros."""

ID_BITS, ID_DIRECTORY, ID_TAGS, ID_DOCUMENTS, ID_OFFSETS, ID_OFFSET_WORDS, ID_CONTENT, ID_FIELDS = (
    range(8)
)
"""Fields of the id table: the bits of the directory over the hashes of ids; where the directory,
the last 32 bits of each hash, its document, the offsets of ids (words, one or two each) and the ids
themselves (octets) begin."""

_BLOCK_BITS = np.uint64(BLOCK_BITS)
_LANES = np.uint64(LANES)
_0, _1, _2, _32, _63, _64 = (np.uint64(n) for n in (0, 1, 2, 32, 63, 64))
_WORD = np.uint64(4)
_ABSENT = np.uint64(0xFFFFFFFFFFFFFFFF)


@entry
def permuted(x: np.uint64, tables: Matrix[np.uint64], table: int) -> np.uint64:
    """Return fingerprint x with its bits in the order of a table."""
    moved = _0
    for run in range(FIELDS, tables.shape[1], 2):
        turn = tables[table, run]
        moved |= (x << turn | x >> ((_64 - turn) & _63)) & tables[table, run + 1]
    return moved


@kernel
def restored(y, tables, table):
    """Return the fingerprint that ``permuted`` returns y for."""
    back = _0
    for run in range(FIELDS, tables.shape[1], 2):
        turn = tables[table, run]
        part = y & tables[table, run + 1]
        back |= part >> turn | part << ((_64 - turn) & _63)
    return back


@entry
def permute_all(
    values: NDArray[np.uint64], tables: Matrix[np.uint64], table: int, out: NDArray[np.uint64]
) -> None:
    """Write ``values`` uint64[n], permuted for a table, to ``out`` uint64[n]."""
    for i in range(values.size):
        out[i] = permuted(values[i], tables, table)


@entry
def restore_all(
    values: NDArray[np.uint64], tables: Matrix[np.uint64], table: int, out: NDArray[np.uint64]
) -> None:
    """Write to ``out`` uint64[n] the fingerprints that were permuted to ``values`` uint64[n]."""
    for i in range(values.size):
        out[i] = restored(values[i], tables, table)


@entry
def fill_directory(
    ordered: NDArray[np.uint64], shift: np.uint64, directory: NDArray[np.uint32]
) -> None:
    """Write where each run of equal leading bits of ``ordered`` uint64[n] begins.

    ``directory`` uint32[2**bits + 1], ``shift`` is 64 - bits.
    """
    bucket = _0
    for i in range(ordered.size):
        leading = ordered[i] >> shift
        while bucket <= leading:
            directory[bucket] = uint32(i)
            bucket += _1
    while bucket < uint64(directory.size):
        directory[bucket] = uint32(ordered.size)
        bucket += _1


@kernel
def unverified_block(verified, begin, end):
    """Return the first block of bytes ``begin`` to ``end`` that is not verified, or _ABSENT."""
    if end <= begin:
        return _ABSENT
    for block in range(begin >> _BLOCK_BITS, ((end - _1) >> _BLOCK_BITS) + _1):
        if verified[block] == 0:
            return uint64(block)
    return _ABSENT


@kernel
def _high(tables, table, slot, halves, octets):
    """Return the bits of a row between those of the directory and the last 32."""
    if tables[table, HIGH_BYTES] == _2:
        return uint64(halves[tables[table, HIGH] + slot])
    return uint64(octets[tables[table, HIGH] + slot])


@kernel
def _unverified_high(tables, table, begin, end, verified):
    size = tables[table, HIGH_BYTES]
    at = tables[table, HIGH]
    return unverified_block(verified, (at + begin) * size, (at + end) * size)


@kernel
def rank_of(x, tables, words, halves, octets, verified):
    """Return (rank of fingerprint x in the first table or _ABSENT, block to verify or _ABSENT)."""
    y = permuted(x, tables, 0)
    shift = _64 - tables[0, BITS]
    at = tables[0, DIRECTORY] + (y >> shift)
    missing = unverified_block(verified, at * _WORD, (at + _2) * _WORD)
    if missing != _ABSENT:
        return _ABSENT, missing
    begin, end = uint64(words[at]), uint64(words[at + _1])
    low = tables[0, LOW]
    missing = unverified_block(verified, (low + begin) * _WORD, (low + end) * _WORD)
    if missing == _ABSENT:
        missing = _unverified_high(tables, 0, begin, end, verified)
    if missing != _ABSENT:
        return _ABSENT, missing
    wanted = y & ((_1 << shift) - _1)
    while begin < end:
        middle = (begin + end) >> _1
        value = _high(tables, 0, middle, halves, octets) << _32 | uint64(words[low + middle])
        if value == wanted:
            return middle, _ABSENT
        if value < wanted:
            begin = middle + _1
        else:
            end = middle
    return _ABSENT, _ABSENT


@entry
def probe(
    queries: NDArray[np.uint64],
    begin: int,
    k: np.uint64,
    tables: Matrix[np.uint64],
    words: NDArray[np.uint32],
    halves: NDArray[np.uint16],
    octets: NDArray[np.uint8],
    verified: NDArray[np.uint8],
    ranges: Matrix[np.uint64],
    out: Matrix[np.uint64],
) -> tuple[int, int, np.uint64]:
    """Write the fingerprints within k bits of ``queries[begin:]``, uint64[n], and their ranks.

    ``out`` uint64[3, m] receives columns of row of the query, fingerprint, rank; all matches of a
    query or none. ``tables`` are the tables to probe, the first ones of the segment. ``ranges``
    uint64[tables, 4] is scratch.

    Returns (columns written, row of the first query that is not done or n, block to verify before
    it or _ABSENT if ``out`` is full).

    All directories are read before any bucket, whose first line is prefetched meanwhile, so that
    cache misses overlap. A pair is written for the first table that shares its probed bits.
    """
    written = uint64(0)
    size = uint64(queries.size)
    room = uint64(out.shape[1])
    limit = uint32(k)
    q = uint64(begin)
    while q < size:
        x = queries[q]
        before = written
        for table in range(tables.shape[0]):
            y = permuted(x, tables, table)
            finer = tables[table, BITS] - tables[table, WIDTH]
            # in two steps, as a shift by 64 bits is undefined
            first = (y >> _1 >> (_63 - tables[table, WIDTH])) << finer
            at = tables[table, DIRECTORY] + first
            after = at + (_1 << finer)
            missing = unverified_block(verified, at * _WORD, (at + _1) * _WORD)
            if missing == _ABSENT:
                missing = unverified_block(verified, after * _WORD, (after + _1) * _WORD)
            if missing != _ABSENT:
                return before, q, missing
            ranges[table, 0] = y
            ranges[table, 1] = first
            ranges[table, 2] = uint64(words[at])
            ranges[table, 3] = uint64(words[after])
            prefetch(words, tables[table, LOW] + ranges[table, 2])
        for table in range(tables.shape[0]):
            y, first = ranges[table, 0], ranges[table, 1]
            base, end = ranges[table, 2], ranges[table, 3]
            low = tables[table, LOW]
            missing = unverified_block(verified, (low + base) * _WORD, (low + end) * _WORD)
            if missing != _ABSENT:
                return before, q, missing
            shift = _64 - tables[table, BITS]
            while base < end:
                within = lanes_within(words, low + base, uint32(y), limit)
                while within != uint32(0):
                    slot = base + uint64(trailing_zeros(within))
                    within &= within - uint32(1)
                    if slot >= end:
                        break
                    # its bucket of the directory: the last that begins at or before it
                    finer = tables[table, BITS] - tables[table, WIDTH]
                    bucket, beyond = first, first + (_1 << finer)
                    at = tables[table, DIRECTORY]
                    missing = unverified_block(
                        verified, (at + bucket) * _WORD, (at + beyond + _1) * _WORD
                    )
                    if missing == _ABSENT:
                        missing = _unverified_high(tables, table, slot, slot + _1, verified)
                    if missing != _ABSENT:
                        return before, q, missing
                    while beyond - bucket > _1:
                        middle = (bucket + beyond) >> _1
                        if uint64(words[at + middle]) <= slot:
                            bucket = middle
                        else:
                            beyond = middle
                    other = bucket << shift | _high(tables, table, slot, halves, octets) << _32
                    other |= uint64(words[low + slot])
                    if population_count(y ^ other) > k:
                        continue
                    found = restored(other, tables, table)
                    difference = x ^ found
                    mine = True
                    for earlier in range(table):
                        if difference & tables[earlier, MASK] == _0:
                            mine = False
                            break
                    if not mine:
                        continue
                    rank = slot
                    if table > 0:
                        rank, missing = rank_of(found, tables, words, halves, octets, verified)
                        if missing != _ABSENT:
                            return before, q, missing
                    if written == room:
                        return before, q, _ABSENT
                    out[0, written] = q
                    out[1, written] = found
                    out[2, written] = rank
                    written += _1
                base += _LANES
        q += _1
    return written, q, _ABSENT


@entry
def find_fingerprints(
    values: NDArray[np.uint64],
    begin: int,
    tables: Matrix[np.uint64],
    words: NDArray[np.uint32],
    halves: NDArray[np.uint16],
    octets: NDArray[np.uint8],
    verified: NDArray[np.uint8],
    out: NDArray[np.uint64],
) -> tuple[int, np.uint64]:
    """Write the rank of each of ``values[begin:]`` uint64[n], or _ABSENT, to ``out`` uint64[n].

    Returns (row of the first value that is not done or n, block to verify before or _ABSENT).
    """
    i = uint64(begin)
    while i < uint64(values.size):
        rank, missing = rank_of(values[i], tables, words, halves, octets, verified)
        if missing != _ABSENT:
            return i, missing
        out[i] = rank
        i += _1
    return i, _ABSENT


@entry
def decode(
    table: int,
    tables: Matrix[np.uint64],
    words: NDArray[np.uint32],
    halves: NDArray[np.uint16],
    octets: NDArray[np.uint8],
    out: NDArray[np.uint64],
) -> None:
    """Write the rows of a table, permuted, to ``out`` uint64[n]; all blocks are verified."""
    shift = _64 - tables[table, BITS]
    directory, low = tables[table, DIRECTORY], tables[table, LOW]
    for bucket in range(_1 << tables[table, BITS]):
        leading = uint64(bucket) << shift
        for slot in range(uint64(words[directory + bucket]), words[directory + bucket + _1]):
            high = _high(tables, table, slot, halves, octets)
            out[slot] = leading | high << _32 | uint64(words[low + slot])


@kernel
def _id_offset(layout, words, document):
    at = layout[ID_OFFSETS] + document * layout[ID_OFFSET_WORDS]
    offset = uint64(words[at])
    if layout[ID_OFFSET_WORDS] == _2:
        offset |= uint64(words[at + _1]) << _32
    return offset


@entry
def find_ids(
    hashes: NDArray[np.uint64],
    content: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    begin: int,
    layout: NDArray[np.uint64],
    words: NDArray[np.uint32],
    octets: NDArray[np.uint8],
    verified: NDArray[np.uint8],
    out: NDArray[np.uint64],
) -> tuple[int, np.uint64]:
    """Write the document of each id from row ``begin`` on, or _ABSENT, to ``out`` uint64[n].

    ``hashes`` uint64[n], ``content`` uint8[…] and ``offsets`` int64[n + 1] are the ids to look up.
    Returns (row of the first id that is not done or n, block to verify before or _ABSENT).
    """
    i = uint64(begin)
    while i < uint64(hashes.size):
        document, missing = _find_id(
            hashes[i], content, uint64(offsets[i]), uint64(offsets[i + _1]), layout, words, octets,
            verified,
        )  # fmt: skip
        if missing != _ABSENT:
            return i, missing
        out[i] = document
        i += _1
    return i, _ABSENT


@kernel
def _find_id(hashed, content, start, stop, layout, words, octets, verified):
    at = layout[ID_DIRECTORY] + (hashed >> (_64 - layout[ID_BITS]))
    missing = unverified_block(verified, at * _WORD, (at + _2) * _WORD)
    if missing != _ABSENT:
        return _ABSENT, missing
    begin, end = uint64(words[at]), uint64(words[at + _1])
    tags, documents = layout[ID_TAGS], layout[ID_DOCUMENTS]
    missing = unverified_block(verified, (tags + begin) * _WORD, (tags + end) * _WORD)
    if missing != _ABSENT:
        return _ABSENT, missing
    for slot in range(begin, end):
        if words[tags + slot] != uint32(hashed):
            continue
        at = documents + slot
        missing = unverified_block(verified, at * _WORD, (at + _1) * _WORD)
        if missing != _ABSENT:
            return _ABSENT, missing
        document = uint64(words[at])
        at = layout[ID_OFFSETS] + document * layout[ID_OFFSET_WORDS]
        after = at + _2 * layout[ID_OFFSET_WORDS]
        missing = unverified_block(verified, at * _WORD, after * _WORD)
        if missing != _ABSENT:
            return _ABSENT, missing
        at = layout[ID_CONTENT] + _id_offset(layout, words, document)
        length = _id_offset(layout, words, document + _1) + layout[ID_CONTENT] - at
        if length != stop - start:
            continue
        missing = unverified_block(verified, at, at + length)
        if missing != _ABSENT:
            return _ABSENT, missing
        same = True
        for byte in range(length):
            if octets[at + uint64(byte)] != content[start + uint64(byte)]:
                same = False
                break
        if same:
            return document, _ABSENT
    return _ABSENT, _ABSENT


@entry
def hash_ids(
    content: NDArray[np.uint8], offsets: NDArray[np.int64], out: NDArray[np.uint64]
) -> None:
    """Write the hash of each id to ``out`` uint64[n]."""
    for i in range(out.size):
        out[i] = xxh3_64(content, uint64(offsets[i]), uint64(offsets[i + 1]))


@entry
def copy_ids(
    content: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    rows: NDArray[np.int64],
    out_offsets: NDArray[np.int64],
    out: NDArray[np.uint8],
) -> None:
    """Write the ids of ``rows`` int64[m] to ``out`` uint8[…], id i at ``out_offsets[i]``.

    Negative rows are skipped.
    """
    for i in range(rows.size):
        if rows[i] >= 0:
            start = uint64(offsets[rows[i]])
            length = uint64(offsets[rows[i] + 1]) - start
            at = uint64(out_offsets[i])
            for byte in range(length):
                out[at + uint64(byte)] = content[start + uint64(byte)]


@entry
def scan(
    queries: NDArray[np.uint64],
    begin: int,
    k: np.uint64,
    values: NDArray[np.uint64],
    count: np.uint64,
    died: NDArray[np.uint64],
    sequence: np.uint64,
    out: Matrix[np.int64],
) -> tuple[int, int]:
    """Write the slots of ``values[:count]`` within k bits of ``queries[begin:]``, uint64[n].

    ``out`` int64[2, m] receives columns of row of the query, slot; all matches of a query or none.
    Skips slots whose ``died`` uint64[…] is not past ``sequence``. ``values`` has LANES more
    elements. Returns (columns written, row of the first query that is not done or n).
    """
    written = uint64(0)
    q = uint64(begin)
    while q < uint64(queries.size):
        before = written
        base = _0
        while base < count:
            within = lanes_within(values, base, queries[q], k)
            while within != uint32(0):
                slot = base + uint64(trailing_zeros(within))
                within &= within - uint32(1)
                if slot >= count:
                    break
                if died[slot] > sequence:
                    if written == uint64(out.shape[1]):
                        return before, q
                    out[0, written] = q
                    out[1, written] = slot
                    written += _1
            base += _LANES
        q += _1
    return written, q
