# mypy: ignore-errors
"""The loop that makes keys of passages: pairs of shingles that winnowing selects one after another.

Nothing is validated or allocated here: winnowing.py does both.
"""

from __future__ import annotations

import numpy as np
from numpy import uint64
from numpy.typing import NDArray

from mr_dedup.features.shingle_kernels import Scratch, ShingleRule, find_features
from mr_dedup.features.shingle_set_kernels import write_set
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.kernels.bits import folded_product
from mr_dedup.kernels.entry import entry, kernel
from mr_dedup.kernels.unsigned import ALL_BITS, FACTORS, U0, U1


@entry
def sign_winnowed(
    batch: TextBatch,
    rule: ShingleRule,
    scratch: Scratch,
    window: np.uint64,
    ends: NDArray[np.uint64],
    keys: NDArray[np.uint64],
) -> None:
    """Write the keys of text i, distinct and ascending, to keys[ends[i]:ends[i + 1]].

    ``ends`` uint64[n + 1] begins with 0. ``rule`` must give all shingles one weight: then the hash
    table of ``scratch`` is free to sort in.
    """
    content, starts, stops = batch
    written = U0
    for i in range(starts.size):
        count, _ = find_features(content, starts[i], stops[i], rule, scratch)
        written += write_winnowed(scratch, count, window, written, keys)
        ends[i + 1] = written


@kernel
def write_winnowed(scratch, count, window, begin, keys):
    """Write the keys of a text with ``count`` scratch.hashes, which change, from ``begin`` on.

    Returns how many there are. scratch.keys and scratch.times are to sort in.
    """
    pairs = pair_selected(scratch.hashes, count, window)
    if pairs == U0 and count > U0:
        scratch.hashes[U0] = key_of_all(scratch.hashes, count)
        pairs = U1
    return write_set(scratch, pairs, ALL_BITS, begin, keys)


@kernel
def pair_selected(hashes, count, window):
    """Replace the first of ``count`` hashes by a key of each two selected neighbours; their number.

    Of each ``window`` consecutive hashes the smallest is selected, of equal ones the last. A key
    is written before the window that is read next: there are no more keys than windows before it.
    """
    pairs, smallest, last = U0, U0, U0
    selected = U0
    for stop in range(window, count + U1):
        end = uint64(stop)
        begin = end - window
        if begin == U0 or smallest < begin:
            smallest = begin
            for at in range(begin + U1, end):
                if hashes[at] <= hashes[smallest]:
                    smallest = uint64(at)
        elif hashes[end - U1] <= hashes[smallest]:
            smallest = end - U1
        else:
            continue
        now = hashes[smallest]
        if selected > U0:
            hashes[pairs] = folded_product(last ^ FACTORS[0], now ^ FACTORS[1])
            pairs += U1
        selected, last = U1, now
    return pairs


@kernel
def key_of_all(hashes, count):
    """Return a hash of the first ``count`` of ``hashes`` in their order."""
    key = uint64(count)
    for at in range(count):
        key = folded_product(key ^ hashes[at] ^ FACTORS[0], FACTORS[1])
    return key
