"""Histograms: counts with labels, for plots and tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

_SIMILARITY_BINS = 20

_BATCH_VALUES = 1 << 16
"""Values counted at a time: with their bins they take at least 16 bytes each."""

_MAX_LEADING_BITS = 7
"""128 buckets, as in the paper's figure 2."""

_MIN_PER_BUCKET = 32
"""Fingerprints expected in a bucket: with fewer, chance hides their distribution."""


class Histogram(NamedTuple):
    """Labels and their counts."""

    labels: list[str]
    counts: list[int]


def by_size(sizes: NDArray[np.int64]) -> Histogram:
    """Count clusters by size: 2, 3 to 4, 5 to 8, … up to the largest."""
    powers = max(int(sizes.max(initial=2)) - 1, 1).bit_length()
    edges = 1 << np.arange(1, powers + 1)
    counts = _counted(sizes, powers, lambda batch: np.searchsorted(edges, batch))
    labels = ["2", *(f"{(1 << p - 1) + 1:,}–{1 << p:,}" for p in range(2, len(counts) + 1))]
    return Histogram(labels[: len(counts)], counts)


def by_distance(distances: NDArray[np.uint8]) -> Histogram:
    """Count documents by their distance in bits, from 0 up to the largest."""
    counts = _counted(distances, int(distances.max(initial=0)) + 1, lambda batch: batch)
    return Histogram([str(bits) for bits in range(len(counts))], counts)


def by_similarity(similarities: NDArray[np.float64]) -> Histogram:
    """Count documents by similarity: 20 equal ranges, and exactly 1; NaN is excluded.

    The first range starts at the largest multiple of 0.1 that is not above any similarity. The
    label of a range is its start.
    """
    lowest = min(int(10 * np.fmin.reduce(similarities, initial=1.0)), 9) / 10
    edges = [lowest + (1 - lowest) * i / _SIMILARITY_BINS for i in range(_SIMILARITY_BINS + 1)]
    rounded = np.round(edges, 9)
    counts = _counted(
        similarities,
        len(edges),
        lambda batch: np.searchsorted(rounded, batch[~np.isnan(batch)], "right") - 1,
    )
    return Histogram([f"{edge:.3f}".rstrip("0").rstrip(".") for edge in edges], counts)


def by_leading_bits(fingerprints: NDArray[np.uint64]) -> Histogram:
    """Count fingerprints by their leading bits: 7, or fewer bits for few (paper, figure 2)."""
    share = max(2, fingerprints.size // _MIN_PER_BUCKET)
    bits = min(_MAX_LEADING_BITS, share.bit_length() - 1)
    shift = np.uint64(64 - bits)
    counts = _counted(fingerprints, 1 << bits, lambda batch: (batch >> shift).astype(np.int64))
    return Histogram([f"{bucket:0{bits}b}" for bucket in range(1 << bits)], counts)


def _counted(
    values: NDArray[Any], bins: int, bin_of: Callable[[NDArray[Any]], NDArray[Any]]
) -> list[int]:
    """Return how many values are in each bin; ``bin_of`` returns the bins of a batch."""
    counts = np.zeros(bins, np.int64)
    for start in range(0, values.size, _BATCH_VALUES):
        counts += np.bincount(bin_of(values[start : start + _BATCH_VALUES]), minlength=bins)
    numbers: list[int] = counts.tolist()
    return numbers
