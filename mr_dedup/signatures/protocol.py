"""What a method of finding near-duplicates by exact keys is: signatures of texts, and a check.

Two documents are a candidate pair if they share enough keys, and a match if the method's own check
of what it kept of both, their sketches, passes too. Keys are all that documents are grouped by, so
any such method can be spread over reducers in the same way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.options import FeatureOptions


@dataclass(frozen=True)
class Signatures:
    """The signatures of n texts, aligned with them.

    The keys of text i are ``keys[offsets[i]:offsets[i + 1]]``, each once: ``offsets`` int64[n + 1]
    from 0 on, ``keys`` uint64[m]. What is numbered, such as the bands of min-wise hashes, has its
    number hashed into its key, so keys of different bands are never equal but by chance. A text
    without anything to make keys of has none, and matches no other. ``sketches`` uint8[n, w] are
    what the method's check compares, w bytes a text, 0 if it compares nothing.
    """

    offsets: NDArray[np.int64]
    keys: NDArray[np.uint64]
    sketches: NDArray[np.uint8]

    def __post_init__(self) -> None:
        if self.offsets.dtype != np.int64 or self.offsets.ndim != 1 or not self.offsets.size:
            raise ValueError(f"offsets: expected int64[n + 1], got {self.offsets.dtype}")
        if self.keys.dtype != np.uint64 or self.keys.shape != (self.offsets[-1],):
            raise ValueError(f"keys: expected uint64[{self.offsets[-1]}], got {self.keys.shape}")
        if self.sketches.dtype != np.uint8 or self.sketches.shape[:1] != (len(self),):
            raise ValueError(f"sketches: expected uint8[{len(self)}, w]")

    def __len__(self) -> int:
        return int(self.offsets.size) - 1

    @property
    def exist(self) -> NDArray[np.bool_]:
        """Which texts have any keys, bool[n]."""
        return np.diff(self.offsets) > 0

    @classmethod
    def joined(cls, parts: Sequence[Signatures]) -> Signatures:
        """Return the signatures of all texts of ``parts``, one at least, in their order."""
        if len(parts) == 1:
            return parts[0]
        sizes = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(
            np.append(0, np.cumsum(sizes)),
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.sketches for part in parts]),
        )

    def take(self, rows: NDArray[np.int64]) -> Signatures:
        """Return the signatures of texts ``rows`` int64[m], in their order; a copy."""
        sizes = np.diff(self.offsets)[rows]
        offsets = np.append(0, np.cumsum(sizes))
        starts = np.repeat(self.offsets[rows] - offsets[:-1], sizes)
        return Signatures(offsets, self.keys[starts + np.arange(starts.size)], self.sketches[rows])


class SignatureMethod(Protocol):
    """A method with its parameters.

    ``name`` is what a user writes and a result records, parameters and all, such as
    ``segments:count=8,least=4``: methods of equal names give equal signatures. A pair that shares
    ``least`` keys or more is a candidate. ``sketch_bytes`` is w of Signatures.
    """

    @property
    def name(self) -> str:
        """What the method is called, with its parameters."""

    @property
    def least(self) -> int:
        """How many keys a candidate pair shares."""

    @property
    def sketch_bytes(self) -> int:
        """How long a sketch is."""

    @property
    def checks(self) -> bool:
        """Whether a candidate may be no match: only then are sketches needed."""

    def expected_recall(self, similarity: float, shingles: FeatureOptions) -> float | None:
        """Return the probability with which texts of a similarity are a match; None if unknown.

        ``similarity`` is the Jaccard index of their ``shingles``.
        """

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null has none."""

    def similarity(
        self, first: NDArray[np.uint8], second: NDArray[np.uint8]
    ) -> NDArray[np.float64]:
        """Return how similar texts of sketches first[m, w] and second[m, w] are, float64[m].

        NaN for a candidate that is no match by the method's own check; 1 if it checks nothing.
        """
