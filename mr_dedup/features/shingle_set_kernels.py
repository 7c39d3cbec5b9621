# mypy: ignore-errors
"""The loops over sets of shingles: made from texts, and what two of them have in common.

A set is a slice of ``hashes`` uint64[m], ascending, each hash once: those from offsets[i] to
offsets[i + 1], ``offsets`` uint64[n + 1]. ``sizes`` uint64[n] is how many it had before only the
smallest were kept. Nothing is validated or allocated here: shingle_sets.py does both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy import uint32, uint64
from numpy.typing import NDArray

from mr_dedup.features.shingle_kernels import Scratch, ShingleRule, find_features
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import ALL_BITS, U0, U1, U64, U

_SHORT_BUCKET = U(24)
"""Hashes up to which a bucket is sorted by insertion."""

_STRIDE = U(4)
"""Steps of a merge between two checks of whether ``needed`` can still be reached."""


class Criterion(NamedTuple):
    """When a set duplicates another: by their Jaccard similarity, or by the share that is in it.

    Attributes:
        threshold: The smallest value of either.
        is_containment: Whether it is the share of the set that is in the other, which must be as
            large or larger. Then all sets are whole.
    """

    threshold: float
    is_containment: bool


@entry
def fill_sets(
    batch: TextBatch,
    rule: ShingleRule,
    scratch: Scratch,
    max_hashes: np.uint64,
    sizes: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
) -> int:
    """Write the set of each text to ``hashes``; return the number of hashes written.

    A set is cut at ``max_hashes`` hashes; ``sizes`` uint64[n] are the sizes before. ``rule`` must
    give all shingles one weight: then the hash table of ``scratch`` is free to sort in.
    """
    content, starts, stops = batch
    written = U0
    for i in range(starts.size):
        count, _ = find_features(content, starts[i], stops[i], rule, scratch)
        sizes[i] = write_set(scratch, count, max_hashes, written, hashes)
        written += min(sizes[i], max_hashes)
    return written


@kernel
def write_set(scratch, count, max_hashes, begin, hashes):
    """Write the distinct ones of ``count`` scratch.hashes to ``hashes`` from ``begin`` on.

    Ascending, and up to ``max_hashes``; returns how many there are. scratch.keys and scratch.times
    are to sort in.
    """
    sort_hashes(scratch.hashes, count, scratch.keys, scratch.times)
    size, last = U0, U0
    for j in range(count):
        if size == U0 or scratch.keys[j] != last:
            last = scratch.keys[j]
            if size < max_hashes:
                hashes[begin + size] = last
            size += U1
    return size


@kernel
def sort_hashes(hashes, count, out, ends):
    """Write the first ``count`` of ``hashes`` to ``out``, ascending; ``ends`` uint32[c] is scratch.

    c is at least 2 ``count`` + 1. Hashes are uniform, so their leading bits scatter them to as
    many buckets, one or two in each: 5 to 8 ns a hash, where numba's sort takes 30 to 55. A bucket
    of many repeats is sorted like any array.
    """
    if count <= U1:
        if count == U1:
            out[0] = hashes[0]
        return
    bits = U1
    while (U1 << bits) < count:
        bits += U1
    shift = U64 - bits
    buckets = U1 << bits
    ends[: buckets + U1] = uint32(0)
    for i in range(count):
        ends[(hashes[i] >> shift) + U1] += uint32(1)
    for bucket in range(buckets):
        ends[uint64(bucket) + U1] += ends[bucket]
    for i in range(count):
        bucket = hashes[i] >> shift
        out[ends[bucket]] = hashes[i]
        ends[bucket] += uint32(1)
    begin = U0
    for bucket in range(buckets):
        end = uint64(ends[bucket])
        if end - begin > _SHORT_BUCKET:
            out[begin:end].sort()
        else:
            for i in range(begin + U1, end):
                value = out[i]
                hole = uint64(i)
                while hole > begin and out[hole - U1] > value:
                    out[hole] = out[hole - U1]
                    hole -= U1
                out[hole] = value
        begin = end


@entry
def gather(
    offsets: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
    rows: NDArray[np.int64],
    starts: NDArray[np.int64],
    out: NDArray[np.uint64],
) -> None:
    """Write each set rows[i] to ``out`` from starts[i] on, int64[m] both."""
    for i in range(rows.size):
        row, begin = uint64(rows[i]), uint64(starts[i])
        start, stop = uint64(offsets[row]), uint64(offsets[row + U1])
        for j in range(stop - start):
            out[begin + uint64(j)] = hashes[start + uint64(j)]


@kernel(error_model="numpy")  # 1 / 0 is inf
def min_overlap(total, threshold):
    """Return the smallest o with o / (total - o) >= ``threshold``, as doubles divide.

    ``total`` is the sum of two sets' sizes, o what they have in common, so that is their
    similarity. Found from one below the rounded value on: a bound that is off by one would lose
    pairs at the very threshold.
    """
    sum_of_sizes = np.float64(total)
    overlap = max(np.floor(sum_of_sizes * threshold / (1.0 + threshold)) - 1.0, 0.0)
    while overlap / (sum_of_sizes - overlap) < threshold:
        overlap += 1.0
    return uint64(overlap)


@kernel
def common(hashes, i, i_end, j, j_end, needed):
    """Return how many hashes two sets have in common, or less than ``needed`` if that few.

    A merge from both ends at once, since each step of one depends on the step before: 1.3 ns a
    hash instead of 2.4. Without branches, since which of two hashes is smaller is random. Every
    _STRIDE steps it checks whether ``needed`` can still be reached.
    """
    found = U0
    while True:
        left = min(i_end - i, j_end - j)
        if found + left < needed:
            return found
        if left < _STRIDE + _STRIDE:
            break
        for _ in range(_STRIDE):
            x, y = hashes[i], hashes[j]
            found += uint64(x == y)
            i += uint64(x <= y)
            j += uint64(y <= x)
            x, y = hashes[i_end - U1], hashes[j_end - U1]
            found += uint64(x == y)
            i_end -= uint64(x >= y)
            j_end -= uint64(y >= x)
    while i < i_end and j < j_end:
        x, y = hashes[i], hashes[j]
        found += uint64(x == y)
        i += uint64(x <= y)
        j += uint64(y <= x)
    return found


@kernel
def end_within(hashes, begin, end, limit):
    """Return where the hashes of ``hashes[begin:end]`` up to ``limit`` end, by bisection."""
    while begin < end:
        middle = (begin + end) >> U1
        if hashes[middle] <= limit:
            begin = middle + U1
        else:
            end = middle
    return begin


@kernel
def similarity(offsets, sizes, hashes, a, b, min_similarity):
    """Return the Jaccard similarity of sets ``a`` and ``b``, or -1 below ``min_similarity``.

    A set that was cut is complete up to its last hash: the two are compared up to there.
    """
    size_a, size_b = sizes[a], sizes[b]
    if size_a == U0 or size_b == U0:
        return 0.0 if min_similarity <= 0.0 else -1.0
    at_most = np.float64(min(size_a, size_b)) / np.float64(max(size_a, size_b))
    if at_most < min_similarity:
        return -1.0
    i, i_end, j, j_end = offsets[a], offsets[a + U1], offsets[b], offsets[b + U1]
    cut_a, cut_b = i_end - i < size_a, j_end - j < size_b
    if cut_a or cut_b:
        limit = ALL_BITS
        if cut_a:
            limit = hashes[i_end - U1]
        if cut_b:
            limit = min(limit, hashes[j_end - U1])
        i_end, j_end = end_within(hashes, i, i_end, limit), end_within(hashes, j, j_end, limit)
    total = i_end - i + (j_end - j)
    found = common(hashes, i, i_end, j, j_end, min_overlap(total, min_similarity))
    value = min(np.float64(found) / np.float64(total - found), at_most)
    return value if value >= min_similarity else -1.0


@kernel
def min_shared(size, threshold):
    """Return the smallest o with o / ``size`` >= ``threshold``, as doubles divide.

    A set of ``size`` hashes has at least this many in common with any set that contains
    ``threshold`` of it, and with any of that Jaccard similarity, since their union has ``size``
    hashes or more. That is true of cut sets too, as similarity compares them.
    """
    whole = np.float64(size)
    shared = max(np.floor(whole * threshold) - 1.0, 0.0)
    while shared / whole < threshold:
        shared += 1.0
    return uint64(shared)


@kernel
def containment(offsets, sizes, hashes, a, b, min_share):
    """Return the share of set ``a`` that is in ``b``, or -1 if below ``min_share``.

    Also -1 if ``b`` is smaller. Neither set is empty or cut.
    """
    size = sizes[a]
    if sizes[b] < size:
        return -1.0
    needed = min_shared(size, min_share)
    found = common(hashes, offsets[a], offsets[a + U1], offsets[b], offsets[b + U1], needed)
    value = np.float64(found) / np.float64(size)
    return value if value >= min_share else -1.0


@kernel
def score(criterion, offsets, sizes, hashes, a, b, required):
    """Return the value of the criterion by which set ``a`` duplicates ``b``.

    -1 below ``required``.
    """
    if criterion.is_containment:
        return containment(offsets, sizes, hashes, a, b, required)
    return similarity(offsets, sizes, hashes, a, b, required)


@entry
def contained(
    offsets: NDArray[np.uint64],
    sizes: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
    first: NDArray[np.uint64],
    second: NDArray[np.uint64],
    out: NDArray[np.float64],
) -> None:
    """Write the share of set first[p] that is in second[p] to out[p]; 0 if that is smaller."""
    for p in range(out.size):
        found = -1.0
        if sizes[first[p]] > U0:
            found = containment(offsets, sizes, hashes, first[p], second[p], 0.0)
        out[p] = max(found, 0.0)


@entry
def jaccard(
    offsets: NDArray[np.uint64],
    sizes: NDArray[np.uint64],
    hashes: NDArray[np.uint64],
    first: NDArray[np.uint64],
    second: NDArray[np.uint64],
    out: NDArray[np.float64],
) -> None:
    """Write the similarity of sets first[p] and second[p] to out[p], for every p."""
    for p in range(out.size):
        out[p] = similarity(offsets, sizes, hashes, first[p], second[p], 0.0)
