"""The loops of the self-join: pick a range of buckets, compare the fingerprints of a bucket.

Nothing is validated here: self_join.py allocates and calls.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint32, uint64

from mr_dedup.hamming.kernels import bucket_of, build_table
from mr_dedup.kernels.bits import trailing_zeros
from mr_dedup.kernels.distances import LANES, ROWS, lanes_within, rows_near
from mr_dedup.kernels.memory import prefetch

PADDING = LANES + ROWS
"""Elements past the last signature that are read."""

_LANES = np.uint64(LANES)
_ROWS = np.uint64(ROWS)
_LINE = np.uint64(8)
_MOST = np.uint64(ROWS * LANES)
_0, _1 = np.uint64(0), np.uint64(1)
_NONE = np.uint32(0)


@njit(cache=True, nogil=True)
def count_parts(  # type: ignore[no-untyped-def]
    fingerprints, mask, first, fold, second, shift, counts
):
    """Add to ``counts`` uint64[parts] how many of ``fingerprints`` each part gets."""
    for i in range(fingerprints.size):
        counts[bucket_of(fingerprints[i], mask, first, fold, second, shift)] += _1


@njit(cache=True, nogil=True)
def deal_parts(  # type: ignore[no-untyped-def]
    fingerprints, mask, first, fold, second, shift, begin, ends, out
):
    """Copy the fingerprints of as many parts as ``ends`` has, from ``begin`` on, to ``out``.

    Each goes to the end of its part, ``ends`` uint64[parts], which is moved on. ``out`` uint64[n]
    has an element more than they need, for those of other parts: a branch would be guessed wrong.

    The line after the one that is written is on its way by then: without that each eighth write
    waited for the memory, 3.5 ns a fingerprint instead of 1.4 to 2.
    """
    nowhere = uint64(out.size - 1)
    for i in range(fingerprints.size):
        x = fingerprints[i]
        part = bucket_of(x, mask, first, fold, second, shift) - begin
        wanted = part < uint64(ends.size)
        part = part if wanted else _0
        end = ends[part]
        out[end if wanted else nowhere] = x
        prefetch(out, end + _LINE)
        ends[part] = end + uint64(wanted)


@njit(cache=True, nogil=True)
def join_parts(  # type: ignore[no-untyped-def]
    parted, begins, ends, mask, first, fold, second, shift, k, starts, signatures, slots, place,
    left, right,
):  # fmt: skip
    """Write the candidates among the fingerprints of each part that share a bucket of it.

    Part p is parted[begins[p] : ends[p]], uint64; no bucket reaches over two. ``starts``
    uint32[buckets + 1], ``signatures`` uint32 or uint64[largest part + PADDING] and ``slots``
    uint32[largest part] are its table, built anew for each: in the second-level cache, 2 ns a
    fingerprint. ``k`` has the signatures' type.

    A candidate goes to ``left`` and ``right``, uint64[m], m at least ROWS * LANES; returns how many
    were written. ``place`` uint64[3] says where to go on: part, row, and offset, which is 0 but
    where the part's table is built. At the end its first element is the number of parts.

    Blocks of rows are held against what follows them, LANES at a time, to the end of the last
    one's bucket; where something is near, row by row.
    """
    part, row, offset = place[0], place[1], place[2]
    written = _0
    while part < uint64(begins.size):
        members = parted[begins[part] : ends[part]]
        size = uint64(members.size)
        if offset == _0:
            build_table(members, mask, first, fold, second, shift, starts, signatures, slots)
            offset = _1
        bucket = _0
        while row < size:
            stop = min(row + _ROWS, size)
            while uint64(starts[bucket + _1]) < stop:
                bucket += _1
            end = uint64(starts[bucket + _1])
            while row + offset < end:
                if rows_near(signatures, row, offset, k) != _NONE:
                    if written + _MOST > uint64(left.size):
                        place[0], place[1], place[2] = part, row, offset
                        return written
                    for one in range(row, stop):
                        x = members[slots[one]]
                        base = uint64(one) + offset
                        within = lanes_within(signatures, base, signatures[one], k)
                        while within != _NONE:
                            slot = base + uint64(trailing_zeros(within))
                            within &= within - uint32(1)
                            if slot >= end:
                                break
                            other = members[slots[slot]]
                            left[written] = x
                            right[written] = other
                            # the same once more, where fingerprints repeat
                            written += uint64(other != x)
                offset += _LANES
            offset = _1
            row = stop
        part += _1
        row = offset = _0
    place[0], place[1], place[2] = part, row, offset
    return written
