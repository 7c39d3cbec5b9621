"""How values are spread: labelled counts, as plots and tables show them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

_SIMILARITY_BINS = 20

_MOST_LEADING_BITS = 7
"""128 buckets, as in the paper's figure 2."""

_LEAST_IN_BUCKET = 32
"""Fingerprints expected in a bucket, at least: with fewer, chance hides how they are spread."""


class Histogram(NamedTuple):
    """Counts, int64, of what each label says."""

    labels: list[str]
    counts: list[int]


def by_size(sizes: NDArray[np.int64]) -> Histogram:
    """Count clusters by their sizes, from 2 on: 2, 3 to 4, 5 to 8, … up to the largest."""
    powers = np.ceil(np.log2(sizes)).astype(np.int64)
    counts = np.bincount(powers, minlength=2)[1:].tolist()
    labels = ["2", *(f"{(1 << p - 1) + 1:,}–{1 << p:,}" for p in range(2, len(counts) + 1))]
    return Histogram(labels[: len(counts)], counts)


def by_distance(distances: NDArray[np.uint8]) -> Histogram:
    """Count documents by their distance in bits, from 0 up to the largest."""
    counts = np.bincount(distances, minlength=1).tolist()
    return Histogram([str(bits) for bits in range(len(counts))], counts)


def by_similarity(similarities: NDArray[np.float64]) -> Histogram:
    """Count documents by similarity, NaN left out, in 20 equal ranges up to 1 and those at 1.

    The first begins at the largest multiple of 0.1 that none is below. Each has its beginning.
    """
    known = similarities[~np.isnan(similarities)]
    lowest = min(int(10 * known.min(initial=1.0)), 9) / 10
    edges = [lowest + (1 - lowest) * i / _SIMILARITY_BINS for i in range(_SIMILARITY_BINS + 1)]
    places = np.searchsorted(np.round(edges, 9), known, "right") - 1
    counts = np.bincount(places, minlength=_SIMILARITY_BINS + 1).tolist()
    return Histogram([f"{edge:.3f}".rstrip("0").rstrip(".") for edge in edges], counts)


def by_leading_bits(fingerprints: NDArray[np.uint64]) -> Histogram:
    """Count fingerprints by their leading bits, 7 or fewer if there are few (paper, figure 2)."""
    share = max(2, fingerprints.size // _LEAST_IN_BUCKET)
    bits = min(_MOST_LEADING_BITS, share.bit_length() - 1)
    buckets = (fingerprints >> np.uint64(64 - bits)).astype(np.int64)
    counts = np.bincount(buckets, minlength=1 << bits).tolist()
    return Histogram([f"{bucket:0{bits}b}" for bucket in range(1 << bits)], counts)
