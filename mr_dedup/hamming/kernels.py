# mypy: ignore-errors
"""The loops of the Hamming search: build a table, partition a stream, scan, verify.

Fingerprints that agree in the bits a table is keyed by hash to one bucket (design.Hashing). Numba
compiles a hash function whose ``fold`` is None to other code than one with a number.

Nothing is validated here: search.py allocates and calls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import uint32, uint64
from numpy.typing import NDArray

from mr_dedup.hamming.design import Hashing
from mr_dedup.kernels.bits import population_count, trailing_zeros
from mr_dedup.kernels.distances import ALL_PAIRS, LANES, PROBES, lanes_within, probes_within
from mr_dedup.kernels.entry import Matrix, entry, kernel
from mr_dedup.kernels.memory import prefetch
from mr_dedup.kernels.unsigned import U0, U1, U2, U8, U16, U31, U32, U

_LANES, _PROBES = U(LANES), U(PROBES)
_ALL_PAIRS = np.uint32(ALL_PAIRS)
_LINE = U8
"""Fingerprints in a line of the cache."""

_SPAN = 1024
"""Stream fingerprints filtered before those listed are verified: they stay in the cache."""

_REST = U16
"""Spans that are not filtered after one of which the filter let more than half pass."""

_SHORT_RUN = U16
"""Length up to which a run is sorted by insertion."""


class Table(NamedTuple):
    """A table over n indexed fingerprints, ordered by bucket.

    Attributes:
        starts: The first slot of each bucket, and n, uint32[buckets + 1].
        signatures: 32 bits of each fingerprint, uint32[n + padding]; or the fingerprints
            themselves, uint64[n + padding].
        slots: The index of each in the array that the table was built from, uint32[n].
    """

    starts: NDArray[np.uint32]
    signatures: NDArray[np.uint32 | np.uint64]
    slots: NDArray[np.uint32]


class Groups(NamedTuple):
    """Groups of LANES slots in which a probe has a candidate.

    Attributes:
        probes: The probing fingerprint of each, uint64[m].
        bases: The first slot, uint32[m].
        lanes: A bit for each slot within k bits of the probe, uint32[m].
    """

    probes: NDArray[np.uint64]
    bases: NDArray[np.uint32]
    lanes: NDArray[np.uint32]

    def between(self, rows: slice) -> Groups:
        """Return the groups in ``rows``; no copy."""
        return Groups(self.probes[rows], self.bases[rows], self.lanes[rows])


class Candidates(NamedTuple):
    """Pairs of fingerprints to verify: ``left`` and ``right`` uint64[n]; ``slots`` uint32[n]."""

    left: NDArray[np.uint64]
    right: NDArray[np.uint64]
    slots: NDArray[np.uint32]


@kernel
def bucket_of(x, hashing):
    """Return the bucket, uint64, of fingerprint x."""
    mixed = _folded((x & hashing.mask) * hashing.first, hashing.fold, hashing.second)
    return mixed >> hashing.shift


@kernel
def _folded(mixed, fold, second):
    # an argument, as numba knows at compile time whether it is None, but not of a field
    return mixed if fold is None else (mixed ^ (mixed >> fold)) * second


@kernel
def signature_of(x):
    """Return 32 bits whose Hamming distances never exceed those of the fingerprints.

    The halves are XORed, so each bit of x flips exactly one bit of the signature. The rotation
    by 1 combines the idle bits of a BitOrder.spread, which are mostly the odd ones, with live
    bits: rotated by 8, 32 shared bits let so many candidates through that a search took 5 times
    as long.
    """
    high = x >> U32
    return uint32(x ^ (high << U1) ^ (high >> U31))


@entry
def build_table(fingerprints: NDArray[np.uint64], hashing: Hashing, table: Table) -> None:
    """Fill a Table of ``fingerprints`` uint64[n] by a counting sort on the bucket.

    O(n + buckets).
    """
    starts, signatures, slots = table.starts, table.signatures, table.slots
    starts[:] = uint32(0)
    for i in range(fingerprints.size):
        starts[bucket_of(fingerprints[i], hashing) + U1] += uint32(1)
    for bucket in range(starts.size - 1):
        starts[bucket + 1] += starts[bucket]
    for i in range(fingerprints.size):
        x = fingerprints[i]
        bucket = bucket_of(x, hashing)
        slot = starts[bucket]
        starts[bucket] = slot + uint32(1)
        signatures[slot] = x if signatures.itemsize == 8 else uint64(signature_of(x))
        slots[slot] = uint32(i)
    # every start has moved to its bucket's end, which is the next bucket's start
    for bucket in range(starts.size - 1, 0, -1):
        starts[bucket] = starts[bucket - 1]
    starts[0] = uint32(0)


@entry
def partition(
    stream: NDArray[np.uint64], hashing: Hashing, ends: NDArray[np.uint64], out: NDArray[np.uint64]
) -> None:
    """Copy ``stream`` uint64[n] to ``out`` uint64[n], partitioned by the bucket of ``hashing``.

    Partition p then ends at ``ends[p]``; ``ends`` uint64[buckets + 1]. A probe in this order finds
    its buckets in the cache: 2 ns a fingerprint that save 5 to 30 once a table is larger than the
    second-level cache. The line after the one that is written is prefetched, so that no write
    waits for the memory.
    """
    ends[:] = U0
    for i in range(stream.size):
        ends[bucket_of(stream[i], hashing) + U1] += U1
    for part in range(ends.size - 1):
        ends[part + 1] += ends[part]
    for i in range(stream.size):
        x = stream[i]
        part = bucket_of(x, hashing)
        end = ends[part]
        out[end] = x
        prefetch(out, end + _LINE)
        ends[part] = end + U1


@entry
def scan_table(
    stream: NDArray[np.uint64],
    begin: np.uint64,
    hashing: Hashing,
    table: Table,
    k: np.uint32,
    groups: Groups,
) -> tuple[int, int]:
    """Probe a table with ``stream[begin:]``; write the groups of slots that have a candidate.

    ``groups`` has room for m Groups, more than those of the largest bucket: a fingerprint whose
    groups may not fit is left for the next call as a whole. Returns (written, begin): how many
    groups, and where to continue, stream.size at the end.

    A span is filtered without a branch, eight fingerprints at a time, and those with a similar
    signature are listed; then the list is processed. Where most are similar (large buckets, a
    corpus of near-duplicates) the next spans are not filtered. Verification is another loop: with
    it inside, this one took 2.5 times as long.
    """
    starts, signatures = table.starts, table.signatures
    found, bases, lanes = groups.probes, groups.bases, groups.lanes
    written = U0
    size = uint64(stream.size)
    at = np.empty(_SPAN // PROBES + 1, np.uint64)
    pairs = np.empty(_SPAN // PROBES + 1, np.uint32)
    resting = U0
    span_begin = uint64(begin)
    while span_begin < size:
        span_end = min(span_begin + uint64(_SPAN), size)
        i = span_begin
        listed = U0
        if resting > U0:
            resting -= U1
        else:
            while i + _PROBES <= span_end:
                mask = probes_within(stream, i, hashing, starts, signatures, k)
                at[listed] = i
                pairs[listed] = mask
                listed += uint64(mask != uint32(0))
                i += _PROBES
            if listed > uint64(_SPAN // PROBES // 2):
                resting = _REST
        while i < span_end:
            at[listed] = i
            pairs[listed] = _ALL_PAIRS
            listed += U1
            i += _PROBES
        for group in range(listed):
            mask = pairs[group]
            while mask != uint32(0):
                one = at[group] + U2 * uint64(trailing_zeros(mask))
                mask &= mask - uint32(1)
                for i in range(one, min(one + U2, size)):
                    x = stream[i]
                    bucket = bucket_of(x, hashing)
                    base = uint64(starts[bucket])
                    end = uint64(starts[bucket + U1])
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
                            written += U1
                        base += _LANES
        span_begin = span_end
    return written, size


@entry
def verify(
    groups: Groups,
    indexed: NDArray[np.uint64],
    slots: NDArray[np.uint32],
    masks: NDArray[np.uint64],
    table: np.uint64,
    k: np.uint64,
    out: Candidates,
) -> int:
    """Write to ``out`` the pairs within k bits in n Groups that no earlier table has found.

    ``indexed`` uint64 are the fingerprints that the tables were built from, ``slots`` uint32 this
    table's, ``masks`` uint64[tables] all the design's; ``table`` is this one's number. A pair
    belongs to the first table whose masked bits it shares: so each comes out once, without a pass
    to drop repeats. ``out`` has room for n * LANES Candidates, (probe, indexed); returns how many
    were written.

    Lists the candidates, fetches them all, then tests them, so that the fetches, each a miss of
    the cache, do not wait for one another: half the time of one loop.
    """
    found, bases, lanes = groups.probes, groups.bases, groups.lanes
    out_stream, out_indexed, positions = out.left, out.right, out.slots
    listed = U0
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
            listed += U1
    for i in range(listed):
        positions[i] = slots[positions[i]]
    for i in range(listed):
        out_indexed[i] = indexed[positions[i]]
    # lanes past the bucket's end are of other buckets, whose masked bits differ
    return keep_own(out_stream, out_indexed, listed, masks, table, k)


@entry
def keep_own(
    left: NDArray[np.uint64],
    right: NDArray[np.uint64],
    count: np.uint64,
    masks: NDArray[np.uint64],
    table: np.uint64,
    k: np.uint64,
) -> int:
    """Move to the front those of ``count`` pairs that are within k bits and belong to a table.

    ``left`` and ``right`` uint64[n] are aligned and changed in place, ``masks`` uint64[tables] are
    the design's. A pair belongs to the first table whose masked bits it shares. Returns how many
    there are.
    """
    written = U0
    for i in range(count):
        x, other = left[i], right[i]
        difference = x ^ other
        if difference & masks[table] != U0 or population_count(difference) > k:
            continue
        first = True
        for earlier in range(table):
            if difference & masks[earlier] == U0:
                first = False
                break
        if first:
            left[written] = x
            right[written] = other
            written += U1
    return written


@entry
def sort_runs(keys: NDArray[np.uint64], values: NDArray[np.int64]) -> None:
    """Sort ``values`` int64[n] within every run of equal ``keys`` uint64[n], in place."""
    size = uint64(keys.size)
    begin = U0
    while begin < size:
        end = begin + U1
        while end < size and keys[end] == keys[begin]:
            end += U1
        if end - begin > _SHORT_RUN:
            values[begin:end].sort()
        else:
            for i in range(begin + U1, end):
                value = values[i]
                hole = uint64(i)
                while hole > begin and values[hole - U1] > value:
                    values[hole] = values[hole - U1]
                    hole -= U1
                values[hole] = value
        begin = end


@entry
def permute_bits(
    fingerprints: NDArray[np.uint64], byte_tables: Matrix[np.uint64], out: NDArray[np.uint64]
) -> None:
    """Write to ``out`` each fingerprint with its bits permuted by ``byte_tables`` uint64[8, 256].

    byte_tables[b, v] is the result of value v of byte b (0 the least significant) alone.
    """
    for i in range(fingerprints.size):
        x = fingerprints[i]
        moved = U0
        for byte in range(8):
            moved |= byte_tables[byte, (x >> uint64(8 * byte)) & uint64(255)]
        out[i] = moved
