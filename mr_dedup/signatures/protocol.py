"""The base class of methods that find near-duplicates by equal keys.

Two documents are candidates if they share enough keys, and a match if what the method stored of
both to verify them, their sketches, agrees too. Documents are grouped by keys alone, so every such
method is distributed over reducers in the same way.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.document_frequencies import DocumentFrequencies
from mr_dedup.features.options import FeatureOptions


@dataclass(frozen=True)
class Signatures:
    """The signatures of n texts.

    A text from which no key can be made has none, and matches no other. Keys that belong to
    positions, such as the bands of min-wise hashes, have the position hashed in, so keys of
    different bands are equal only by chance.

    Args:
        offsets: int64[n + 1], from 0. The keys of text i are ``keys[offsets[i]:offsets[i + 1]]``.
        keys: uint64[m], distinct in each text.
        sketches: uint8[n, w], what is compared to verify candidates; w is 0 without verification.

    Raises:
        ValueError: For arrays of other types or lengths.

    Example:
        >>> found = Signatures(
        ...     np.array([0, 2, 2, 3]), np.array([7, 8, 7], np.uint64), np.empty((3, 0), np.uint8)
        ... )
        >>> found.has_keys.tolist()
        [True, False, True]
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
    def has_keys(self) -> NDArray[np.bool_]:
        """Whether each text has keys, bool[n]."""
        return np.diff(self.offsets) > 0

    @classmethod
    def of_fingerprints(
        cls, values: NDArray[np.uint64], has_fingerprint: NDArray[np.bool_]
    ) -> Signatures:
        """Return signatures with the fingerprints ``values`` as keys, uint64[n], where known.

        >>> values, known = np.array([5, 0], np.uint64), np.array([True, False])
        >>> Signatures.of_fingerprints(values, known).keys
        array([5], dtype=uint64)
        """
        offsets = np.append(0, np.cumsum(has_fingerprint))
        return cls(offsets, values[has_fingerprint], np.empty((values.size, 0), np.uint8))

    @classmethod
    def joined(cls, parts: Sequence[Signatures]) -> Signatures:
        """Return the signatures of all texts of one or more ``parts``, in order."""
        if len(parts) == 1:
            return parts[0]
        sizes = np.concatenate([np.diff(part.offsets) for part in parts])
        return cls(
            np.append(0, np.cumsum(sizes)),
            np.concatenate([part.keys for part in parts]),
            np.concatenate([part.sketches for part in parts]),
        )

    def take(self, rows: NDArray[np.int64]) -> Signatures:
        """Return a copy of the signatures of texts ``rows`` int64[m], in that order."""
        sizes = np.diff(self.offsets)[rows]
        offsets = np.append(0, np.cumsum(sizes))
        starts = np.repeat(self.offsets[rows] - offsets[:-1], sizes)
        return Signatures(offsets, self.keys[starts + np.arange(starts.size)], self.sketches[rows])


@dataclass(frozen=True)
class SignatureMethod(ABC):
    """A method; its parameters are the fields of its dataclass, and ``parse_method`` makes one.

    Methods of equal names give equal signatures, so a result records the name. By default texts
    that share one key are candidates, and every candidate is a match.
    """

    TITLE: ClassVar[str]
    """The name of the method without parameters."""

    @property
    def name(self) -> str:
        """The title and all parameters that are not None, ``segments:count=8``."""
        # parameters of all methods of words last
        ordered = sorted(fields(self), key=lambda it: it.kw_only is True)
        values = {each.name: getattr(self, each.name) for each in ordered}
        stated = ",".join(f"{key}={_text(it)}" for key, it in values.items() if it is not None)
        return f"{self.TITLE}:{stated}" if stated else self.TITLE

    @classmethod
    def defaults_for(cls, similarity: float) -> dict[str, int]:
        """Return the parameters to find pairs of a similarity by, if the method has such."""
        return {}

    def expected_recall(self, similarity: float, shingles: FeatureOptions) -> float | None:
        """Return the probability that texts of a similarity are a match; None if unknown.

        Args:
            similarity: The Jaccard index of their sets of shingles.
            shingles: Which shingles.
        """
        return None

    @property
    def min_shared_keys(self) -> int:
        """The number of keys that the two texts of a candidate pair must share."""
        return 1

    @property
    def sketch_bytes(self) -> int:
        """The size of a sketch in bytes, w of ``Signatures``."""
        return 0

    @property
    def needs_verification(self) -> bool:
        """Whether sketches decide if a candidate is a match; if not, they are not needed."""
        return False

    @property
    def has_common_keys(self) -> bool:
        """Whether texts that are no match often share a key, as of a passage that many texts have.

        Then what splits a cluster that is too large are fewer keys, not more that must be shared:
        those that too many texts have do not count.
        """
        return False

    @abstractmethod
    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null has none."""

    def similarity(
        self, first: NDArray[np.uint8], second: NDArray[np.uint8]
    ) -> NDArray[np.float64]:
        """Return the similarity of each pair of sketches uint8[m, w], float64[m].

        NaN for a candidate that is not a match; 1 without verification.
        """
        return np.ones(len(first))


def _text(value: object) -> str:
    if isinstance(value, DocumentFrequencies):
        return value.digest
    # 1 and 1.0 are the same parameter
    return str(value).removesuffix(".0")
