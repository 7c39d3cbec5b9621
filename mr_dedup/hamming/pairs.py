"""Pairs of fingerprints within k bits of one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mr_dedup.hamming.kernels import sort_runs

Fingerprints = NDArray[np.uint64]


@dataclass(frozen=True)
class Pairs:
    """Pairs within k bits: ``left`` and ``right``, uint64[n] each, aligned.

    Of a search, left are queries and right corpus fingerprints. Of one corpus, left is the smaller,
    as signed numbers; of two corpora, it is of the first.
    """

    left: Fingerprints
    right: Fingerprints

    @classmethod
    def unordered(cls, one: Fingerprints, other: Fingerprints) -> Pairs:
        """Return pairs of one corpus, the smaller fingerprint of each on the left."""
        signed, others = one.view(np.int64), other.view(np.int64)
        return cls(
            np.minimum(signed, others).view(np.uint64), np.maximum(signed, others).view(np.uint64)
        )

    @classmethod
    def merged(cls, parts: Sequence[Pairs]) -> Pairs:
        """Return the pairs of all parts, each once, ascending by left, then right.

        The order is that of signed numbers, as results are printed. O(n log n), 40 bytes a pair.
        Sorting by left, then the run of each left by itself, takes a third to a seventh of a
        lexsort.
        """
        if not parts:
            return cls(np.empty(0, np.uint64), np.empty(0, np.uint64))
        left = np.concatenate([part.left for part in parts])
        right = np.concatenate([part.right for part in parts])
        order = np.argsort(left.view(np.int64))
        left, right = left[order], right[order]
        sort_runs(left, right.view(np.int64))
        new = np.ones(left.size, dtype=bool)
        new[1:] = (left[1:] != left[:-1]) | (right[1:] != right[:-1])
        return cls(left[new], right[new])

    def between(self, start: int, stop: int) -> Pairs:
        """Return the pairs from ``start`` to ``stop`` in their order; no copy."""
        return Pairs(self.left[start:stop], self.right[start:stop])

    @property
    def distances(self) -> NDArray[np.uint8]:
        """The Hamming distance of each pair."""
        bits: NDArray[np.uint8] = np.bitwise_count(self.left ^ self.right)
        return bits

    @property
    def left_starts(self) -> NDArray[np.intp]:
        """The index of the first pair of each left fingerprint; pairs must ascend by left."""
        if not len(self):
            return np.empty(0, np.intp)
        return np.flatnonzero(np.r_[True, self.left[1:] != self.left[:-1]])

    def __len__(self) -> int:
        return int(self.left.size)
