"""The loop that makes all of a text from its shingles at once: to find these takes the longest.

Nothing is validated or allocated here: combined.py does both.
"""

from __future__ import annotations

import numpy as np
from numba import njit, uint64

from mr_dedup.clusters.verification_kernels import write_set
from mr_dedup.features.kernels import find_features
from mr_dedup.fingerprints.kernels import simhash
from mr_dedup.signatures.minwise_kernels import take_least

_U = np.uint64
_0 = _U(0)


@njit(cache=True, nogil=True)
def sign_texts(  # type: ignore[no-untyped-def]
    content, starts, stops, pages, entries, by_characters, length, steps, scratch, flips, factors,
    values, occurrences, least, most, sizes, hashes, sums, lanes, spare, bins,
):  # fmt: skip
    """Write simhash, least hashes and set of each text, as their own loops do.

    With ``most`` 0 no sets are made. With one entry ``steps`` leaves scratch.keys and scratch.times
    free to sort in; the four last are as well, as ``simhash`` and ``take_least`` take them. Returns
    how many hashes of sets are written.
    """
    written = _0
    for i in range(starts.size):
        count, _ = find_features(
            content, starts[i], stops[i], pages, entries, by_characters, length, steps, scratch
        )
        occurrences[i] = count
        if count > _0:
            values[i] = simhash(scratch.hashes, scratch.weights, count, sums, lanes)
        if most > _0:
            sizes[i] = write_set(scratch, count, most, written, hashes)
            written += min(sizes[i], most)
        take_least(scratch.hashes, count, flips, factors, uint64(i), least, spare, bins)
    return written
