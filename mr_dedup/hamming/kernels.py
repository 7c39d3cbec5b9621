"""The loops of the Hamming search: build a table, partition a stream, scan, verify.

A table is three arrays over the n indexed fingerprints, ordered by bucket:
``starts`` uint32[buckets + 1], ``signatures`` uint32[n + LANES] and ``slots`` uint32[n], the
position of each in the array it was built from. The bucket of a fingerprint follows from mask,
first, fold, second and shift (design.Hashing); fingerprints that agree in the masked bits share
one. A ``fold`` of None compiles to other code than a number.

Nothing is validated here: search.py allocates and calls.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint32, uint64

from mr_dedup.hamming.intrinsics import (
    LANES,
    lanes_within,
    population_count,
    trailing_zeros,
)

_LANES = np.uint64(LANES)
_0, _1, _31, _32 = (np.uint64(n) for n in (0, 1, 31, 32))


@njit(cache=True, nogil=True)
def bucket_of(x, mask, first, fold, second, shift):  # type: ignore[no-untyped-def]
    """Return the bucket, uint64, of fingerprint x."""
    mixed = (x & mask) * first
    if fold is None:
        return mixed >> shift
    return ((mixed ^ (mixed >> fold)) * second) >> shift


@njit(cache=True, nogil=True)
def signature_of(x):  # type: ignore[no-untyped-def]
    """Return 32 bits whose Hamming distances never exceed those of the fingerprints.

    The halves are XORed, so each bit of x flips exactly one bit of the signature. The rotation
    lays the idle bits of a BitOrder.spread, which are mostly the odd ones, on live bits: rotated
    by 8, 32 shared bits let so many candidates through that a search took 5 times as long.
    """
    high = x >> _32
    return uint32(x ^ (high << _1) ^ (high >> _31))


@njit(cache=True, nogil=True)
def build_table(  # type: ignore[no-untyped-def]
    fingerprints, mask, first, fold, second, shift, starts, signatures, slots
):
    """Fill a table's three arrays by a counting sort on the bucket; O(n + buckets)."""
    starts[:] = uint32(0)
    for i in range(fingerprints.size):
        starts[bucket_of(fingerprints[i], mask, first, fold, second, shift) + _1] += uint32(1)
    for bucket in range(starts.size - 1):
        starts[bucket + 1] += starts[bucket]
    for i in range(fingerprints.size):
        x = fingerprints[i]
        bucket = bucket_of(x, mask, first, fold, second, shift)
        slot = starts[bucket]
        starts[bucket] = slot + uint32(1)
        signatures[slot] = signature_of(x)
        slots[slot] = uint32(i)
    # the scatter moved every start to its bucket's end, which is the next bucket's start
    for bucket in range(starts.size - 1, 0, -1):
        starts[bucket] = starts[bucket - 1]
    starts[0] = uint32(0)


@njit(cache=True, nogil=True)
def partition(stream, mask, first, fold, second, shift, ends, out):  # type: ignore[no-untyped-def]
    """Copy ``stream`` uint64[n] to ``out`` uint64[n], grouped by the bucket's leading bits.

    ``ends`` uint64[parts + 1] is scratch. A probe in this order finds its buckets in the cache:
    2 ns a fingerprint that save 5 to 30 once a table is larger than the second-level cache.
    """
    ends[:] = _0
    for i in range(stream.size):
        ends[bucket_of(stream[i], mask, first, fold, second, shift) + _1] += _1
    for part in range(ends.size - 1):
        ends[part + 1] += ends[part]
    for i in range(stream.size):
        x = stream[i]
        part = bucket_of(x, mask, first, fold, second, shift)
        out[ends[part]] = x
        ends[part] += _1


@njit(cache=True, nogil=True)
def scan_table(  # type: ignore[no-untyped-def]
    stream, begin, mask, first, fold, second, shift, starts, signatures, k, found, bases, lanes
):
    """Probe a table with ``stream[begin:]``; write the groups of LANES that hold a candidate.

    Writes the probing fingerprint to ``found`` uint64[m], the group's first slot to ``bases``
    uint32[m] and the lanes within k bits to ``lanes`` uint32[m]. Returns (written, begin): where
    to go on after a flush, stream.size at the end. m is at least the groups of the largest
    bucket: a fingerprint whose groups no longer fit is left for the next call as a whole. To
    resume inside a bucket instead cost every probe half as much again.

    Verification lives in another loop: with it inside, this one took 2.5 times as long.
    """
    written = _0
    capacity = uint64(found.size)
    for i in range(begin, stream.size):
        x = stream[i]
        bucket = bucket_of(x, mask, first, fold, second, shift)
        base = uint64(starts[bucket])
        end = uint64(starts[bucket + _1])
        signature = signature_of(x)
        before = written
        while base < end:
            within = lanes_within(signatures, base, signature, k)
            if within != uint32(0):
                if written == capacity:
                    return before, uint64(i)
                found[written] = x
                bases[written] = uint32(base)
                lanes[written] = within
                written += _1
            base += _LANES
    return written, uint64(stream.size)


@njit(cache=True, nogil=True)
def verify(found, bases, lanes, indexed, slots, masks, table, k, out_stream, out_slots):  # type: ignore[no-untyped-def]
    """Keep of n candidate groups the matches that no earlier table has found.

    ``indexed`` uint64[n] are the fingerprints the tables were built from, ``slots`` uint32[n]
    this table's, ``masks`` uint64[tables] all the design's; ``table`` is this one's number. A
    pair belongs to the first table whose masked bits it shares: so each comes out once, without
    a pass to drop repeats. Writes stream fingerprints to ``out_stream`` uint64[n * LANES]
    and positions in ``indexed`` to ``out_slots`` uint32[n * LANES]; returns how many.
    """
    written = _0
    n = uint64(slots.size)
    for group in range(found.size):
        x = found[group]
        within = lanes[group]
        base = uint64(bases[group])
        while within != uint32(0):
            slot = base + uint64(trailing_zeros(within))
            within &= within - uint32(1)
            if slot >= n:
                break
            position = slots[slot]
            difference = x ^ indexed[position]
            # lanes past the bucket's end hold other buckets, whose masked bits differ
            if difference & masks[table] != _0 or population_count(difference) > k:
                continue
            first = True
            for earlier in range(table):
                if difference & masks[earlier] == _0:
                    first = False
                    break
            if first:
                out_stream[written] = x
                out_slots[written] = position
                written += _1
    return written


@njit(cache=True, nogil=True)
def permute_bits(fingerprints, byte_tables, out):  # type: ignore[no-untyped-def]
    """Write to ``out`` each fingerprint with its bits moved as ``byte_tables`` uint64[8, 256] say.

    byte_tables[b, v] is where the bits of value v of byte b (0 the least significant) go.
    """
    for i in range(fingerprints.size):
        x = fingerprints[i]
        moved = _0
        for byte in range(8):
            moved |= byte_tables[byte, (x >> uint64(8 * byte)) & uint64(255)]
        out[i] = moved
