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

from mr_dedup.kernels.bits import population_count, trailing_zeros
from mr_dedup.kernels.distances import ALL_PAIRS, LANES, PROBES, lanes_within, near_pairs
from mr_dedup.kernels.memory import prefetch

_LANES = np.uint64(LANES)
_PROBES = np.uint64(PROBES)
_LINE = np.uint64(8)
_ALL_PAIRS = np.uint32(ALL_PAIRS)
_0, _1, _2, _31, _32 = (np.uint64(n) for n in (0, 1, 2, 31, 32))

_SPAN = 1024
"""Stream fingerprints filtered before the near ones are looked at: they stay in the cache."""

_REST = np.uint64(16)
"""Spans that go unfiltered after one of which the filter let more than half pass."""

_SHORT_RUN = np.uint64(16)
"""Length up to which a run is sorted by insertion."""


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
    """Fill a table's three arrays by a counting sort on the bucket; O(n + buckets).

    ``signatures`` of uint64 hold the fingerprints themselves.
    """
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
        signatures[slot] = x if signatures.itemsize == 8 else uint64(signature_of(x))
        slots[slot] = uint32(i)
    # the scatter moved every start to its bucket's end, which is the next bucket's start
    for bucket in range(starts.size - 1, 0, -1):
        starts[bucket] = starts[bucket - 1]
    starts[0] = uint32(0)


@njit(cache=True, nogil=True)
def partition(stream, mask, first, fold, second, shift, ends, out):  # type: ignore[no-untyped-def]
    """Copy ``stream`` uint64[n] to ``out`` uint64[n], grouped by the bucket's leading bits.

    Part p then ends at ``ends[p]``; ``ends`` uint64[parts + 1]. A probe in this order finds its
    buckets in the cache: 2 ns a fingerprint that save 5 to 30 once a table is larger than the
    second-level cache. The line after the one that is written is on its way by then, so that no
    write waits for the memory.
    """
    ends[:] = _0
    for i in range(stream.size):
        ends[bucket_of(stream[i], mask, first, fold, second, shift) + _1] += _1
    for part in range(ends.size - 1):
        ends[part + 1] += ends[part]
    for i in range(stream.size):
        x = stream[i]
        part = bucket_of(x, mask, first, fold, second, shift)
        end = ends[part]
        out[end] = x
        prefetch(out, end + _LINE)
        ends[part] = end + _1


@njit(cache=True, nogil=True)
def scan_table(  # type: ignore[no-untyped-def]
    stream, begin, mask, first, fold, second, shift, starts, signatures, k, found, bases, lanes
):
    """Probe a table with ``stream[begin:]``; write the groups of LANES that hold a candidate.

    Writes the probing fingerprint to ``found`` uint64[m], the group's first slot to ``bases``
    uint32[m] and the lanes within k bits to ``lanes`` uint32[m]. Returns (written, begin): where
    to go on after a flush, stream.size at the end. m is more than the groups of the largest
    bucket: a fingerprint whose groups may not fit is left for the next call as a whole.

    A span is filtered without a branch, eight fingerprints at a time, and what is near, listed;
    then the list is gone through. Where most are near (crowded buckets, a corpus of near-
    duplicates) the filter is idle for a while. Verification lives in another loop: with it
    inside, this one took 2.5 times as long.
    """
    written = _0
    size = uint64(stream.size)
    at = np.empty(_SPAN // PROBES + 1, np.uint64)
    pairs = np.empty(_SPAN // PROBES + 1, np.uint32)
    resting = _0
    span_begin = uint64(begin)
    while span_begin < size:
        span_end = min(span_begin + uint64(_SPAN), size)
        i = span_begin
        listed = _0
        if resting > _0:
            resting -= _1
        else:
            while i + _PROBES <= span_end:
                near = near_pairs(
                    stream, i, mask, first, fold, second, shift, starts, signatures, k
                )
                at[listed] = i
                pairs[listed] = near
                listed += uint64(near != uint32(0))
                i += _PROBES
            if listed > uint64(_SPAN // PROBES // 2):
                resting = _REST
        while i < span_end:
            at[listed] = i
            pairs[listed] = _ALL_PAIRS
            listed += _1
            i += _PROBES
        for entry in range(listed):
            near = pairs[entry]
            while near != uint32(0):
                one = at[entry] + _2 * uint64(trailing_zeros(near))
                near &= near - uint32(1)
                for i in range(one, min(one + _2, size)):
                    x = stream[i]
                    bucket = bucket_of(x, mask, first, fold, second, shift)
                    base = uint64(starts[bucket])
                    end = uint64(starts[bucket + _1])
                    if written + (end - base + _LANES) // _LANES >= uint64(found.size):
                        return written, i
                    signature = signature_of(x)
                    within = lanes_within(signatures, base, signature, k)
                    found[written] = x
                    bases[written] = uint32(base)
                    lanes[written] = within
                    # not a branch: it would be guessed wrong at every other near-duplicate
                    written += uint64(within != uint32(0))
                    base += _LANES
                    while base < end:
                        within = lanes_within(signatures, base, signature, k)
                        if within != uint32(0):
                            found[written] = x
                            bases[written] = uint32(base)
                            lanes[written] = within
                            written += _1
                        base += _LANES
        span_begin = span_end
    return written, size


@njit(cache=True, nogil=True)
def verify(  # type: ignore[no-untyped-def]
    found, bases, lanes, indexed, slots, masks, table, k, out_stream, out_indexed, positions
):
    """Keep of n candidate groups the matches that no earlier table has found.

    ``indexed`` uint64[n] are the fingerprints the tables were built from, ``slots`` uint32[n]
    this table's, ``masks`` uint64[tables] all the design's; ``table`` is this one's number. A
    pair belongs to the first table whose masked bits it shares: so each comes out once, without
    a pass to drop repeats. Writes the pairs to ``out_stream`` and ``out_indexed``,
    uint64[n * LANES] each, and returns how many. ``positions`` uint32[n * LANES] is scratch.

    Lists the candidates, fetches them all, then tests them, so that the fetches, each a miss of
    the cache, do not wait for one another: half the time of one loop.
    """
    listed = _0
    n = uint64(slots.size)
    for group in range(found.size):
        within = lanes[group]
        base = uint64(bases[group])
        while within != uint32(0):
            slot = base + uint64(trailing_zeros(within))
            within &= within - uint32(1)
            if slot >= n:
                break  # padding
            out_stream[listed] = found[group]
            positions[listed] = uint32(slot)
            listed += _1
    for i in range(listed):
        positions[i] = slots[positions[i]]
    for i in range(listed):
        out_indexed[i] = indexed[positions[i]]
    # lanes past the bucket's end hold other buckets, whose masked bits differ
    return keep_own(out_stream, out_indexed, listed, masks, table, k)


@njit(cache=True, nogil=True)
def keep_own(left, right, count, masks, table, k):  # type: ignore[no-untyped-def]
    """Keep of the first ``count`` pairs those within k bits that belong to a table.

    ``left`` and ``right`` uint64[n] are aligned and changed in place, ``masks`` uint64[tables] the
    design's. A pair belongs to the first table whose masked bits it shares. Returns how many stay.
    """
    written = _0
    for i in range(count):
        x, other = left[i], right[i]
        difference = x ^ other
        if difference & masks[table] != _0 or population_count(difference) > k:
            continue
        first = True
        for earlier in range(table):
            if difference & masks[earlier] == _0:
                first = False
                break
        if first:
            left[written] = x
            right[written] = other
            written += _1
    return written


@njit(cache=True, nogil=True)
def sort_runs(keys, values):  # type: ignore[no-untyped-def]
    """Sort ``values`` int64[n] within every run of equal ``keys`` uint64[n], in place."""
    size = uint64(keys.size)
    begin = _0
    while begin < size:
        end = begin + _1
        while end < size and keys[end] == keys[begin]:
            end += _1
        if end - begin > _SHORT_RUN:
            values[begin:end].sort()
        else:
            for i in range(begin + _1, end):
                value = values[i]
                hole = uint64(i)
                while hole > begin and values[hole - _1] > value:
                    values[hole] = values[hole - _1]
                    hole -= _1
                values[hole] = value
        begin = end


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
