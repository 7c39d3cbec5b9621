"""Pairs of fingerprints within k bits of one another: of one corpus, or of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mr_dedup.hamming.matches import Matches

Fingerprints = NDArray[np.uint64]


@dataclass(frozen=True)
class Pairs:
    """Pairs within k bits: ``left`` and ``right``, uint64[n] each, aligned.

    Of one corpus left is the smaller, as signed numbers; of two it is the first's fingerprint.
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

        The order is that of signed numbers, as they are printed. O(n log n), 40 bytes a pair.
        """
        merged = Matches.merged([Matches(part.left, part.right) for part in parts])
        return cls(merged.queries, merged.corpus)

    def between(self, start: int, stop: int) -> Pairs:
        """Return the pairs from ``start`` to ``stop`` in their order; no copy."""
        return Pairs(self.left[start:stop], self.right[start:stop])

    @property
    def distances(self) -> NDArray[np.uint8]:
        """The Hamming distance of each pair."""
        bits: NDArray[np.uint8] = np.bitwise_count(self.left ^ self.right)
        return bits

    def __len__(self) -> int:
        return int(self.left.size)
