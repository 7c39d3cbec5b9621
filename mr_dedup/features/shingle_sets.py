"""How similar texts truly are: the Jaccard similarity of their sets of shingles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features import shingle_set_kernels as kernels
from mr_dedup.features.options import SHINGLES, FeatureOptions
from mr_dedup.features.preparation import prepared_batch
from mr_dedup.features.shingles import max_shingles, scratch_for, shingle_rule
from mr_dedup.features.text_batch import TextBatch
from mr_dedup.kernels.arrays import uninitialised, written

MAX_SHINGLES = 1 << 14
"""Maximum number of hashes stored of a text, 128 KB. Of a longer text the smallest hashes are
stored."""

UNLIMITED = 1 << 62
"""The ``max_hashes`` of sets that are never cut."""

_Compare = Callable[..., None]
"""The kernels ``jaccard`` and ``contained``."""


@dataclass(frozen=True)
class ShingleSets:
    """The sets of shingles of n texts, as hashes.

    Set i is ``hashes[offsets[i]:offsets[i + 1]]``, ascending, each hash once: ``offsets``
    int64[n + 1] from 0 on, ``hashes`` uint64[m]. ``sizes`` int64[n] is how many shingles a text
    has; if more than ``max_hashes``, its set is cut to the ``max_hashes`` smallest. 8 bytes a hash.

    Similarity is exact between whole sets. The smallest hashes of two sets together are a random
    sample, without repeats, of all their shingles (k minimum values: Beyer and others, SIGMOD
    2007), so where a set was cut, similarity is the share of ``max_hashes`` of these or more. With
    n = max_hashes it is off by e or more with a probability of at most 2 exp(-2 n e**2) (Hoeffding,
    for draws without replacement): 0.02 in 4 of a million pairs. The standard error is about
    sqrt(J (1 - J) / n), 0.003 at J = 0.8.

    Raises ValueError for columns of other types or lengths.
    """

    offsets: NDArray[np.int64]
    sizes: NDArray[np.int64]
    hashes: NDArray[np.uint64]
    max_hashes: int

    def __post_init__(self) -> None:
        for name, dtype in (("offsets", np.int64), ("sizes", np.int64), ("hashes", np.uint64)):
            column = getattr(self, name)
            if column.dtype != dtype or column.ndim != 1:
                raise ValueError(f"{name}: expected {np.dtype(dtype)}[n], got {column.dtype}")
        if self.max_hashes < 1:
            raise ValueError(f"max_hashes must be at least 1, not {self.max_hashes}")
        ends = np.minimum(self.sizes, self.max_hashes).cumsum()
        if not np.array_equal(self.offsets, np.append(0, ends)):
            raise ValueError("offsets: expected sums of sizes, each at most max_hashes")
        if self.hashes.size != self.offsets[-1]:
            raise ValueError(f"hashes: expected {self.offsets[-1]}, got {self.hashes.size}")

    def __len__(self) -> int:
        return int(self.sizes.size)

    @classmethod
    def joined(cls, parts: Sequence[ShingleSets]) -> ShingleSets:
        """Return the sets of all ``parts``, in order; ValueError if ``max_hashes`` differs."""
        max_hashes = _one_limit(parts)
        sizes = np.concatenate([part.sizes for part in parts])
        hashes = np.concatenate([part.hashes for part in parts])
        return cls(_offsets(sizes, max_hashes), sizes, hashes, max_hashes)

    @classmethod
    def of_sizes(
        cls, sizes: NDArray[np.int64], hashes: NDArray[np.uint64], max_hashes: int
    ) -> ShingleSets:
        """Return the sets of texts with ``sizes`` shingles, whose hashes follow one another."""
        return cls(_offsets(sizes, max_hashes), sizes, hashes, max_hashes)

    @classmethod
    def gathered(
        cls, parts: Sequence[ShingleSets], which: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> ShingleSets:
        """Return the sets rows[i] of parts[which[i]], int64[m], in their order; a copy.

        Raises ValueError if ``max_hashes`` of the parts differs.
        """
        max_hashes = _one_limit(parts)
        sizes = np.empty(rows.size, np.int64)
        chosen = [np.flatnonzero(which == number) for number in range(len(parts))]
        for part, at in zip(parts, chosen, strict=True):
            sizes[at] = part.sizes[rows[at]]
        offsets = _offsets(sizes, max_hashes)
        hashes = uninitialised(int(offsets[-1]), np.uint64)
        for part, at in zip(parts, chosen, strict=True):
            kernels.gather(part.arrays[0], part.arrays[2], rows[at], offsets[:-1][at], hashes)
        return cls(offsets, sizes, hashes, max_hashes)

    def emptied(self, rows: NDArray[np.bool_]) -> ShingleSets:
        """Return the sets with those of ``rows``, bool[n], empty; a copy if there are some."""
        if not rows.any():
            return self
        sizes = np.where(rows, 0, self.sizes)
        offsets = _offsets(sizes, self.max_hashes)
        others = np.flatnonzero(~rows)
        hashes = uninitialised(int(offsets[-1]), np.uint64)
        kernels.gather(*self.arrays[::2], others, offsets[:-1][others], hashes)
        return ShingleSets(offsets, sizes, hashes, self.max_hashes)

    def release(self) -> None:
        """Let go of memory that need not be kept between calls of a kernel; here there is none."""

    def jaccard(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the similarity of sets first[p] and second[p], float64[m]; 0 to an empty set.

        1.3 ns for each hash of either, 0.1 to 0.5 microseconds a pair of 100 to 300 words. Raises
        ValueError for rows that are not int64[m], or out of range.
        """
        return self._compared(kernels.jaccard, first, second)

    def contained(self, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the share of set first[p] that is in second[p], float64[m].

        0 of an empty set, and if the second set is smaller. Costs as much as ``jaccard``. Raises
        ValueError as that, and if a set was cut.
        """
        if (self.sizes > self.max_hashes).any():
            raise ValueError(f"sets: expected whole ones, got some cut at {self.max_hashes}")
        return self._compared(kernels.contained, first, second)

    def _compared(
        self, kernel: _Compare, first: NDArray[np.int64], second: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        for name, rows in (("first", first), ("second", second)):
            if rows.dtype != np.int64 or rows.shape != first.shape or rows.ndim != 1:
                raise ValueError(f"{name}: expected int64[m], got {rows.dtype}{list(rows.shape)}")
            if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
                raise ValueError(f"{name}: expected rows from 0 to {len(self) - 1}")
        out = np.empty(first.size, np.float64)
        left, right = (np.ascontiguousarray(each).view(np.uint64) for each in (first, second))
        kernel(*self.arrays, left, right, out)
        return out

    @property
    def arrays(self) -> tuple[NDArray[np.uint64], NDArray[np.uint64], NDArray[np.uint64]]:
        """Offsets, sizes and hashes as kernels take them: unsigned."""
        return self.offsets.view(np.uint64), self.sizes.view(np.uint64), self.hashes


def _one_limit(parts: Sequence[ShingleSets]) -> int:
    limits = {part.max_hashes for part in parts}
    if len(limits) != 1:
        raise ValueError(f"parts: expected sets cut at one size, got {sorted(limits)}")
    return limits.pop()


def _offsets(sizes: NDArray[np.int64], max_hashes: int) -> NDArray[np.int64]:
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(np.minimum(sizes, max_hashes), out=offsets[1:])
    return offsets


def shingle_sets(
    texts: pa.LargeStringArray, options: FeatureOptions = SHINGLES, max_hashes: int = MAX_SHINGLES
) -> ShingleSets:
    """Return the set of shingles of every text; that of a null is empty.

    The weighting of ``options`` does not matter. Texts of fewer tokens than a shingle has are one
    shingle. Memory: the sets, and the longest text's scratch.
    Raises ValueError for another type of array, and for a ``max_hashes`` below 1.
    """
    if max_hashes < 1:
        raise ValueError(f"max_hashes must be at least 1, not {max_hashes}")
    batch = prepared_batch(texts, options)
    sizes = np.empty(len(texts), np.uint64)
    hashes = space_for_sets(batch, options, max_hashes)
    stop = kernels.fill_sets(
        batch, shingle_rule(options, weighted=False), scratch_for(batch.longest, options),
        np.uint64(max_hashes), sizes, hashes,
    )  # fmt: skip
    return ShingleSets.of_sizes(sizes.view(np.int64), written(hashes, stop), max_hashes)


def space_for_sets(
    batch: TextBatch, options: FeatureOptions, max_hashes: int
) -> NDArray[np.uint64]:
    """Return space for the sets of texts, each cut to ``max_hashes`` hashes.

    What is written of it is to be copied by ``written``.
    """
    shingles = max_shingles(batch.sizes.astype(np.int64), options)
    return uninitialised(int(np.minimum(shingles, max_hashes).sum()), np.uint64)
