"""Min-wise hashing: of two texts, the share of equal values estimates their similarity.

Broder, On the resemblance and containment of documents, 1997: if the shingles of all texts are
ordered at random, two texts have the same first shingle with the probability that is the Jaccard
index of their sets. So many orders, so many values; groups of them, hashed to one key each, are
equal with a power of it: bands, or with 6 groups of 14 the super-shingles of Broder and others.

The orders are not independent here. Each, or of more each of 128, has a share of all shingles, no
two the same one, that comes before all others (one permutation hashing: Li, Owen, Zhang, 2012),
then another share, then all; within each the order is by a permutation of hashes. That is an order
like any other, so values are equal with the probability J. But those of a text are of different
shingles, as if drawn without putting any back: the estimate's variance is less, and a long text is
gone through once for all orders, not once for each.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.options import SHINGLES, FeatureOptions
from mr_dedup.features.preparation import table_for
from mr_dedup.features.shingles import scratch_for, slices_of
from mr_dedup.signatures import minwise_kernels as kernels

MOST_PERMUTATIONS = 1 << 12

_UNWEIGHTED = np.array([1], np.int32)
"""One step: repeats need not be told apart."""

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class MinwiseHashes:
    """The min-wise hashes of n texts, aligned with them.

    ``values`` uint32[n, p], and ``occurrences`` uint64[n], the shingles that a text has, repeats
    counted. A text without any has no hashes: its values mean nothing.
    """

    values: NDArray[np.uint32]
    occurrences: NDArray[np.uint64]

    @property
    def exist(self) -> NDArray[np.bool_]:
        """Which texts have shingles, bool[n]."""
        return self.occurrences > 0

    def similarity(
        self, first: NDArray[np.int64], second: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Return the estimated similarity of texts first[m] and second[m], float64[m].

        Its standard error is less than sqrt(J (1 - J) / p), 0.035 at J = 0.8 with 128: 0.025
        for texts of 90 shingles, 0.030 of 400, 0.034 of 1,000. 0 to a text without shingles.
        """
        equal = self.values[first] == self.values[second]
        both = self.exist[first] & self.exist[second]
        shares: NDArray[np.float64] = np.where(both, equal.mean(axis=1), 0.0)
        return shares

    def band_keys(self, bands: int, rows: int) -> NDArray[np.uint64]:
        """Return a key for each of ``bands`` groups of ``rows`` values, uint64[n, bands].

        Two texts of similarity J share a given one with probability J**rows, others of the same
        band by chance once in 2**64 pairs; keys of different bands are never to be compared.
        Raises ValueError for more values than there are.
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
    """Return the min-wise hashes of every text by ``permutations``; a null has no shingles.

    Orders are dealt with 128 at a time, the last ones as many as are left, m. Of the high half u of
    a shingle's XXH3 m * (u * c mod 2**32) / 2**32 tells whose it is, with c = 1 for the first 128,
    other constants for the next. An order has first those that are its own, among them that one
    first of which the low half h makes the least (h ^ flip) * factor, factor odd, which permutes
    the 32-bit numbers, with the constants of the first of the 128. If a text has none of them, the
    next c says which, and the greatest is first; if it has none of these, all shingles, with the
    order's own constants. The value is the rank by the product, its upper 30 bits, below 2**30,
    2**31, and 3 * 2**30 in these three cases. Constants are fixed, so that the same text has the
    same values on every machine, but others if more are asked for. What shingles weigh makes no
    difference. Raises ValueError for another type of array, and for less than 1 or more than
    MOST_PERMUTATIONS.
    """
    check_permutations(permutations)
    content, starts, stops = slices_of(texts, options)
    flips, factors = permutation_constants(permutations)
    values = np.full((stops.size, flips.size), 0xFFFFFFFF, np.uint32)
    occurrences = np.zeros(stops.size, np.uint64)
    longest = int((stops - starts).max(initial=0))
    kernels.least_of_texts(
        content, starts, stops, *table_for(options), options.unit == "characters",
        np.uint64(options.length), _UNWEIGHTED, scratch_for(longest, options), flips, factors,
        values, occurrences, *scratch_for_orders(permutations),
    )  # fmt: skip
    return MinwiseHashes(values, occurrences)


def minwise_of_hashes(
    offsets: NDArray[np.int64], hashes: NDArray[np.uint64], permutations: int
) -> MinwiseHashes:
    """Return the min-wise hashes of n sets of hashed things, of which shingles are some.

    Set i is ``hashes[offsets[i]:offsets[i + 1]]``: ``offsets`` int64[n + 1], ``hashes`` uint64[m],
    of which all bits should be random, in any order, repeats allowed. Raises ValueError for offsets
    that do not ascend within ``hashes``, and as ``minwise_hashes``.
    """
    check_permutations(permutations)
    sizes = np.diff(offsets)
    inside = offsets.size and offsets[0] >= 0 and offsets[-1] <= hashes.size
    if not inside or (sizes < 0).any():
        raise ValueError(f"offsets: expected to ascend from 0 to at most {hashes.size}")
    flips, factors = permutation_constants(permutations)
    values = np.full((sizes.size, flips.size), 0xFFFFFFFF, np.uint32)
    scratch = np.empty(int(sizes.max(initial=0)) + kernels.LANES, np.uint64)
    kernels.least_of_sets(
        offsets.view(np.uint64), hashes, scratch, flips, factors, values,
        *scratch_for_orders(permutations),
    )  # fmt: skip
    return MinwiseHashes(values, sizes.astype(np.uint64))


def scratch_for_orders(permutations: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return what ``kernels.take_least`` works in."""
    rounded = -(-permutations // kernels.LANES) * kernels.LANES
    return np.empty((4, rounded), np.uint32), np.empty(kernels.BINS, np.uint32)


def check_permutations(permutations: int) -> None:
    """Raise ValueError for less than 1 or more than MOST_PERMUTATIONS."""
    if not 1 <= permutations <= MOST_PERMUTATIONS:
        raise ValueError(f"permutations must be from 1 to {MOST_PERMUTATIONS}, not {permutations}")


def permutation_constants(permutations: int) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return flips and factors for so many permutations, uint32 each.

    The first ones are the same however many there are: halves of the SplitMix64 sequence from 0.
    """
    drawn = [_splitmix(number) for number in range(1, permutations + 1)]
    flips = np.array([value >> 32 for value in drawn], np.uint32)
    return flips, np.array([value & 0xFFFFFFFF | 1 for value in drawn], np.uint32)


def _splitmix(number: int) -> int:
    value = number * _GOLDEN & _MASK
    value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    value = (value ^ value >> 27) * 0x94D049BB133111EB & _MASK
    return value ^ value >> 31
