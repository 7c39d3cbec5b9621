"""The loop that makes all of a text from its shingles at once: to find these takes the longest.

Nothing is validated or allocated here: combined.py does both.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from mr_dedup.clusters.verification_kernels import write_set
from mr_dedup.features.kernels import find_features
from mr_dedup.fingerprints.kernels import simhash
from mr_dedup.signatures.minwise_kernels import BINS, spare_for, take_least

_U = np.uint64
_0, _1 = _U(0), _U(1)
_BITS = 64


@njit(cache=True, nogil=True)
def sign_texts(  # type: ignore[no-untyped-def]
    content, starts, stops, begin, pages, entries, by_characters, length, steps, scratch, flips,
    factors, values, occurrences, least, reserve, most, sizes, hashes,
):  # fmt: skip
    """Write simhash, least hashes and set of each text from ``begin`` on, as their own loops do.

    Until ``hashes`` may not hold another set of ``reserve``; with ``most`` 0 no sets are made. With
    one entry ``steps`` leaves scratch.keys and scratch.times free to sort in. Returns (begin,
    written): where to go on, starts.size at the end.
    """
    sums, lanes = np.empty(_BITS, np.int64), np.empty(_BITS, np.int32)
    spare, bins = spare_for(flips.size), np.empty(BINS, np.uint32)
    written = _0
    i = uint64(begin)
    while i < uint64(starts.size) and written + reserve <= uint64(hashes.size):
        count, _ = find_features(
            content, starts[i], stops[i], pages, entries, by_characters, length, steps, scratch
        )
        occurrences[i] = count
        if count > _0:
            values[i] = simhash(scratch.hashes, scratch.weights, count, sums, lanes)
        if most > _0:
            sizes[i] = write_set(scratch, count, most, written, hashes)
            written += min(sizes[i], most)
        take_least(scratch.hashes, count, flips, factors, i, least, spare, bins)
        i += _1
    return i, written
