# mypy: ignore-errors
"""The loop that computes fingerprints, min-wise hashes, winnowing and sets of the same shingles.

Nothing is validated or allocated here: combined.py does both.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mr_dedup.features.shingle_kernels import Scratch, ShingleRule, find_features
from mr_dedup.features.shingle_set_kernels import write_set
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.fingerprints.kernels import BITS, simhash
from mr_dedup.kernels.entry import Matrix, entry
from mr_dedup.kernels.unsigned import U0
from mr_dedup.signatures.minwise_kernels import Orders, take_minwise
from mr_dedup.signatures.winnowing_kernels import write_winnowed


class Results(NamedTuple):
    """What is computed of n texts.

    Attributes:
        fingerprints: uint64[n].
        occurrences: uint64[n], the number of shingles of each text, repeats counted.
        values: uint32[n, p], min-wise hashes; all ones before.
        sizes: uint64[n], the size of each set before it is cut.
        hashes: uint64[m], the sets, one after another.
        ends: uint64[n + 1], where the keys by winnowing of each text end, 0 first.
        keys: uint64[k], these keys, one after another.
    """

    fingerprints: NDArray[np.uint64]
    occurrences: NDArray[np.uint64]
    values: Matrix[np.uint32]
    sizes: NDArray[np.uint64]
    hashes: NDArray[np.uint64]
    ends: NDArray[np.uint64]
    keys: NDArray[np.uint64]


@entry
def sign_texts(
    batch: TextBatch,
    rule: ShingleRule,
    scratch: Scratch,
    orders: Orders,
    max_hashes: np.uint64,
    window: np.uint64,
    results: Results,
) -> int:
    """Write fingerprint, min-wise hashes and set of each text; return the number of set hashes.

    ``max_hashes`` is the size at which a set is cut; with 0 no sets are made. ``window`` is that of
    winnowing, 0 for none. Without orders there are no min-wise hashes. ``rule`` must give
    all shingles one weight: then the hash table of ``scratch`` is free to sort in.
    """
    content, starts, stops = batch
    sums, lanes = np.empty(BITS, np.int64), np.empty(BITS, np.int32)
    written, winnowed = U0, U0
    for i in range(starts.size):
        count, _ = find_features(content, starts[i], stops[i], rule, scratch)
        results.occurrences[i] = count
        if count > U0:
            results.fingerprints[i] = simhash(scratch.hashes, scratch.weights, count, sums, lanes)
        if max_hashes > U0:
            size = write_set(scratch, count, max_hashes, written, results.hashes)
            results.sizes[i] = size
            written += min(size, max_hashes)
        take_minwise(scratch.hashes, count, orders, results.values[i])
        if window > U0:
            winnowed += write_winnowed(scratch, count, window, winnowed, results.keys)
            results.ends[i + 1] = winnowed
    return written
