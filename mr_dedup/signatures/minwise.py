"""Min-wise hashing: the share of equal values of two texts estimates their similarity.

Broder, On the resemblance and containment of documents, 1997: if the shingles of all texts are
sorted in a random order, two texts have the same first shingle with a probability that is the
Jaccard index of their sets of shingles. p orders give p values. Values in groups of r, hashed to
one key each, are equal with the r-th power of it: bands, or with 6 groups of 14 super-shingles.

The orders here are not independent. In each, or of more than 128 in each 128, a bin of all
shingles comes first, another one in each order (one-permutation hashing: Li, Owen, Zhang, 2012),
then the shingles of a second bin, then all others; within a bin the order is a permutation of
hashes. That is an order like any other, so values are equal with probability J. But the values of
a text come from different shingles, as if drawn without replacement: the variance of the estimate
is lower, and a long text is read once for all orders, not once for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.options import SHINGLES, FeatureOptions
from mr_dedup.features.preparation import prepared_batch
from mr_dedup.features.shingles import scratch_for, shingle_rule
from mr_dedup.signatures import minwise_kernels as kernels

MAX_PERMUTATIONS = 1 << 12

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1
_NO_VALUE = 0xFFFFFFFF


@dataclass(frozen=True)
class MinwiseHashes:
    """The min-wise hashes of n texts in p orders.

    Attributes:
        values: uint32[n, p]; without a meaning for a text without shingles.
        occurrences: uint64[n], the number of shingles of each text, repeats counted.

    Example:
        >>> texts = pa.array(["a b c d e f", "a b c d e g"], pa.large_string())
        >>> found = minwise_hashes(texts, 128, FeatureOptions("words", 1, "binary"))
        >>> bool(abs(found.similarity(np.array([0]), np.array([1]))[0] - 5 / 7) < 0.15)
        True
    """

    values: NDArray[np.uint32]
    occurrences: NDArray[np.uint64]

    @property
    def has_shingles(self) -> NDArray[np.bool_]:
        """Whether each text has shingles, bool[n]."""
        return self.occurrences > 0

    def similarity(
        self, first: NDArray[np.int64], second: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the estimated Jaccard index of texts first[m] and second[m], float64[m].

        Its standard error is below sqrt(J (1 - J) / p), 0.035 at J = 0.8 with 128 orders: 0.025
        for texts of 90 shingles, 0.030 of 400, 0.034 of 1,000. 0 to a text without shingles.
        """
        equal = self.values[first] == self.values[second]
        both = self.has_shingles[first] & self.has_shingles[second]
        shares: NDArray[np.float64] = np.where(both, equal.mean(axis=1), 0.0)
        return shares

    def band_keys(self, bands: int, rows: int) -> NDArray[np.uint64]:
        """Return a key for each of ``bands`` groups of ``rows`` values, uint64[n, bands].

        Two texts of similarity J have equal keys of a band with probability J**rows, and otherwise
        by chance once in 2**64 pairs. Keys of different bands are not comparable.

        Raises:
            ValueError: For more values than there are.
        """
        if bands < 1 or rows < 1 or bands * rows > self.values.shape[1]:
            raise ValueError(
                f"bands, rows: expected at least 1 and up to {self.values.shape[1]} together, "
                f"got {bands} x {rows}"
            )
        keys = np.empty((len(self.values), bands), np.uint64)
        kernels.mix_bands(self.values, rows, keys)
        return keys


def minwise_hashes(
    texts: pa.LargeStringArray, permutations: int, options: FeatureOptions = SHINGLES
) -> MinwiseHashes:
    """Return the min-wise hashes of every text.

    Orders are made in groups of 128, the last one of m = the rest. A shingle's XXH3 has a high half
    u and a low half h. The shingle is in bin ``m * (u * c mod 2**32) / 2**32`` of the group, c = 1
    for the first group, other constants for the next. The value of order i is, in this sequence,

    1. the lowest ``(h ^ flip) * factor`` of the shingles in bin i, with the flip and the odd factor
       of the group's first order, by which the product permutes the 32-bit numbers;
    2. if bin i is empty, the complement of the greatest such product in bin i by the next c;
    3. if that is empty, the lowest product of all shingles, with the flip and factor of order i.

    Its upper 30 bits are stored, plus 0, 2**30 or 2**31 by the case. Constants are fixed: the same
    text has the same values on every machine, but others with another number of permutations.

    Args:
        texts: n texts. A null has no shingles.
        permutations: The number of orders, from 1 to MAX_PERMUTATIONS.
        options: Which shingles a text has. Weights do not matter.

    Raises:
        ValueError: For another type of array, or ``permutations`` out of range.
    """
    orders = orders_of(permutations)
    batch = prepared_batch(texts, options)
    values = empty_values(len(texts), permutations)
    occurrences = np.zeros(len(texts), np.uint64)
    kernels.minwise_of_texts(
        batch, shingle_rule(options, weighted=False), scratch_for(batch.longest, options), orders,
        values, occurrences,
    )  # fmt: skip
    return MinwiseHashes(values, occurrences)


def minwise_of_hashes(
    offsets: NDArray[np.int64], hashes: NDArray[np.uint64], permutations: int
) -> MinwiseHashes:
    """Return the min-wise hashes of n sets of hashes, whatever was hashed.

    Args:
        offsets: int64[n + 1], ascending; set i is ``hashes[offsets[i]:offsets[i + 1]]``.
        hashes: uint64[m], with random bits, in any order; repeats are allowed.
        permutations: As for :func:`minwise_hashes`.

    Raises:
        ValueError: For offsets that do not ascend within ``hashes``, or ``permutations`` out of
            range.
    """
    orders = orders_of(permutations)
    sizes = np.diff(offsets)
    inside = offsets.size and offsets[0] >= 0 and offsets[-1] <= hashes.size
    if not inside or (sizes < 0).any():
        raise ValueError(f"offsets: expected to ascend from 0 to at most {hashes.size}")
    values = empty_values(sizes.size, permutations)
    scratch = np.empty(int(sizes.max(initial=0)) + kernels.LANES, np.uint64)
    kernels.minwise_of_sets(offsets.view(np.uint64), hashes, scratch, orders, values)
    return MinwiseHashes(values, sizes.astype(np.uint64))


def empty_values(texts: int, permutations: int) -> NDArray[np.uint32]:
    """Return an array for the values of so many texts, as kernels expect it."""
    return np.full((texts, permutations), _NO_VALUE, np.uint32)


def orders_of(permutations: int) -> kernels.Orders:
    """Return so many orders, with space for kernels.

    The first ones are the same whatever their number: halves of the SplitMix64 sequence from 0.

    Raises:
        ValueError: For less than 1 or more than MAX_PERMUTATIONS.
    """
    if not 1 <= permutations <= MAX_PERMUTATIONS:
        raise ValueError(f"permutations must be from 1 to {MAX_PERMUTATIONS}, not {permutations}")
    drawn = [_splitmix(number) for number in range(1, permutations + 1)]
    rounded = -(-permutations // kernels.LANES) * kernels.LANES
    return kernels.Orders(
        np.array([value >> 32 for value in drawn], np.uint32),
        np.array([value & 0xFFFFFFFF | 1 for value in drawn], np.uint32),
        np.empty((4, rounded), np.uint32),
        np.empty(kernels.BINS, np.uint32),
    )


NO_ORDERS = kernels.Orders(
    np.empty(0, np.uint32), np.empty(0, np.uint32), np.empty((4, 0), np.uint32),
    np.empty(0, np.uint32),
)  # fmt: skip
"""No orders, for kernels that compute no min-wise hashes."""


def _splitmix(number: int) -> int:
    value = number * _GOLDEN & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31
