"""Histograms: counts with labels, for plots and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mr_dedup.jobs.report_counts import LEADING_BITS, SIMILARITY_STEPS

_SIMILARITY_BINS = 20

_MIN_PER_BUCKET = 32
"""Fingerprints expected in a bucket: with fewer, chance hides their distribution."""


class Histogram(NamedTuple):
    """Labels and their counts."""

    labels: list[str]
    counts: list[int]


@dataclass(frozen=True)
class Distributions:
    """How clusters and documents are distributed.

    Attributes:
        clusters: The clusters of two and more documents, which are ``clustered``.
        compared: Dropped documents whose texts were compared.
        fingerprints: Documents with a fingerprint.
        sizes: Clusters by size: 2, 3 to 4, 5 to 8, … up to the largest.
        distances: Dropped documents by their distance in bits from the kept ones, from 0 up.
        similarities: Compared documents by similarity: 20 equal ranges, and exactly 1. The first
            range starts at the largest multiple of 0.1 that is not above any similarity. The label
            of a range is its start.
        leading: Fingerprints by their leading bits: 7, or fewer bits for few (paper, figure 2).
    """

    clusters: int
    clustered: int
    compared: int
    fingerprints: int
    sizes: Histogram
    distances: Histogram
    similarities: Histogram
    leading: Histogram

    @classmethod
    def of_counts(
        cls,
        clustered: int,
        sizes: Sequence[int],
        distances: Sequence[int],
        similarities: Sequence[int],
        leading: Sequence[int],
    ) -> Distributions:
        """Return the distributions of what was counted.

        Args:
            clustered: Documents in clusters.
            sizes: Clusters by the smallest n for which 2^n is not below their size.
            distances: Documents by distance.
            similarities: Documents by similarity in steps of 1 / SIMILARITY_STEPS.
            leading: Fingerprints by their LEADING_BITS leading bits.
        """
        return cls(
            sum(sizes),
            clustered,
            sum(similarities),
            sum(leading),
            _by_size(sizes),
            _by_distance(distances),
            _by_similarity(similarities),
            _by_leading_bits(leading),
        )


def _last(counts: Sequence[int]) -> int:
    """Return the last index with a count, 0 if there is none."""
    return max((index for index, count in enumerate(counts) if count), default=0)


def _by_size(counts: Sequence[int]) -> Histogram:
    powers = max(_last(counts), 1)
    labels = ["2", *(f"{(1 << p - 1) + 1:,}–{1 << p:,}" for p in range(2, powers + 1))]
    return Histogram(labels, list(counts[1 : powers + 1]))


def _by_distance(counts: Sequence[int]) -> Histogram:
    bits = _last(counts) + 1
    return Histogram([str(distance) for distance in range(bits)], list(counts[:bits]))


def _by_similarity(counts: Sequence[int]) -> Histogram:
    smallest = next((step for step, count in enumerate(counts) if count), SIMILARITY_STEPS)
    # in tenths
    lowest = min(smallest * 10 // SIMILARITY_STEPS, 9)
    first = lowest * SIMILARITY_STEPS // 10
    width = (SIMILARITY_STEPS - first) // _SIMILARITY_BINS
    starts = [first + width * number for number in range(_SIMILARITY_BINS + 1)]
    sums = [sum(counts[start : start + width]) for start in starts]
    labels = [f"{start / SIMILARITY_STEPS:.3f}".rstrip("0").rstrip(".") for start in starts]
    return Histogram(labels, sums)


def _by_leading_bits(counts: Sequence[int]) -> Histogram:
    share = max(2, sum(counts) // _MIN_PER_BUCKET)
    bits = min(LEADING_BITS, share.bit_length() - 1)
    width = 1 << (LEADING_BITS - bits)
    sums = [sum(counts[bucket * width : (bucket + 1) * width]) for bucket in range(1 << bits)]
    return Histogram([f"{bucket:0{bits}b}" for bucket in range(1 << bits)], sums)
