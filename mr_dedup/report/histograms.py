"""How values are spread: labelled counts, as plots and tables show them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SIMILARITY_BINS = 20

_AT_ONCE = 1 << 16
"""Values that are counted at a time: with their bins they take 16 bytes and more each."""

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
    powers = max(int(sizes.max(initial=2)) - 1, 1).bit_length()
    edges = 1 << np.arange(1, powers + 1)
    counts = _counted(sizes, powers, lambda some: np.searchsorted(edges, some))
    labels = ["2", *(f"{(1 << p - 1) + 1:,}–{1 << p:,}" for p in range(2, len(counts) + 1))]
    return Histogram(labels[: len(counts)], counts)


def by_distance(distances: NDArray[np.uint8]) -> Histogram:
    """Count documents by their distance in bits, from 0 up to the largest."""
    counts = _counted(distances, int(distances.max(initial=0)) + 1, lambda some: some)
    return Histogram([str(bits) for bits in range(len(counts))], counts)


def by_similarity(similarities: NDArray[np.float64]) -> Histogram:
    """Count documents by similarity, NaN excluded, in 20 equal ranges up to 1 and those at 1.

    The first begins at the largest multiple of 0.1 that none is below. Each has its beginning.
    """
    lowest = min(int(10 * np.fmin.reduce(similarities, initial=1.0)), 9) / 10
    edges = [lowest + (1 - lowest) * i / _SIMILARITY_BINS for i in range(_SIMILARITY_BINS + 1)]
    rounded = np.round(edges, 9)
    counts = _counted(
        similarities,
        len(edges),
        lambda some: np.searchsorted(rounded, some[~np.isnan(some)], "right") - 1,
    )
    return Histogram([f"{edge:.3f}".rstrip("0").rstrip(".") for edge in edges], counts)


def by_leading_bits(fingerprints: NDArray[np.uint64]) -> Histogram:
    """Count fingerprints by their leading bits, 7 or fewer if there are few (paper, figure 2)."""
    share = max(2, fingerprints.size // _LEAST_IN_BUCKET)
    bits = min(_MOST_LEADING_BITS, share.bit_length() - 1)
    shift = np.uint64(64 - bits)
    counts = _counted(fingerprints, 1 << bits, lambda some: (some >> shift).astype(np.int64))
    return Histogram([f"{bucket:0{bits}b}" for bucket in range(1 << bits)], counts)


def _counted(
    values: NDArray[Any], bins: int, bin_of: Callable[[NDArray[Any]], NDArray[Any]]
) -> list[int]:
    """Return how many values are in each bin; ``bin_of`` returns the bins of some values."""
    counts = np.zeros(bins, np.int64)
    for start in range(0, values.size, _AT_ONCE):
        counts += np.bincount(bin_of(values[start : start + _AT_ONCE]), minlength=bins)
    numbers: list[int] = counts.tolist()
    return numbers
