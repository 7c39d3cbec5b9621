"""MinHash with locality-sensitive hashing, and super-shingles: bands of min-wise hashes.

Texts of similarity J have equal values in all r rows of a band with probability J**r (Leskovec,
Rajaraman, Ullman, Mining of Massive Datasets, 3.4). Super-shingles are 6 bands of 14 rows, of which
2 must be equal (Broder, Identifying and filtering near-duplicate documents, 2000).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.options import FeatureOptions
from mr_dedup.signatures.bands import choose_bands, expected_recall
from mr_dedup.signatures.minwise import MAX_PERMUTATIONS, MinwiseHashes, minwise_hashes
from mr_dedup.signatures.parameters import MethodOfWords, check_range
from mr_dedup.signatures.protocol import Signatures

_BY_CHANCE = 1 / 256
"""The probability that the lowest bytes of two different values are equal."""


@dataclass(frozen=True)
class MinHash(MethodOfWords):
    """A key for each of ``bands`` bands of ``rows`` min-wise hashes.

    The sketch is the lowest byte of each hash. The share s of equal bytes, less what is equal by
    chance, estimates the Jaccard index of the sets of shingles (Li and König, b-bit minwise
    hashing, 2010). With p hashes its standard error is at most sqrt(s (1 - s) / p): 0.040 at
    J = 0.8 with 100.

    Args:
        bands: The number of keys of a text.
        rows: Min-wise hashes a band; ``bands * rows`` is at most 4096.
        min_shared_keys: The number of bands that a candidate pair must share.
        shingles: ``words:N``, ``characters:N`` or ``auto``, as ``FeatureOptions.parse`` reads it.
        estimate: The smallest estimated similarity of a match, from 0 to 1; None to accept every
            candidate.
        stop_words, stem, segment, normalize, symbols: As in ``FeatureOptions``.

    Raises:
        ValueError: For a parameter out of range.

    Example:
        >>> texts = pa.array(["a rose is a rose is a rose", "A rose is a rose!"], pa.large_string())
        >>> MinHash(bands=4, rows=2, shingles="words:2").sign(texts).keys.size
        8
    """

    TITLE: ClassVar[str] = "minhash"

    bands: int = 20
    rows: int = 5
    min_shared_keys: int = 1
    shingles: str = "auto"
    estimate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        options = self.options
        object.__setattr__(self, "shingles", options.shingles)
        check_range("bands", self.bands, 1, MAX_PERMUTATIONS)
        check_range("rows", self.rows, 1, MAX_PERMUTATIONS // self.bands)
        check_range("min_shared_keys", self.min_shared_keys, 1, self.bands)
        if self.estimate is not None:
            check_range("estimate", self.estimate, 0, 1)

    @property
    def options(self) -> FeatureOptions:
        """Which shingles are hashed."""
        return self.prepared(FeatureOptions.parse(self.shingles, "binary"))

    @classmethod
    def defaults_for(cls, similarity: float) -> dict[str, int]:
        """Return the bands and rows to find pairs of a similarity by; see ``choose_bands``."""
        bands, rows = choose_bands(similarity)
        return {"bands": bands, "rows": rows, "min_shared_keys": 1}

    def expected_recall(self, similarity: float, shingles: FeatureOptions) -> float | None:
        """Return the probability that texts of a similarity share enough bands.

        None if ``shingles``, by which the similarity is defined, are not those that are hashed, or
        if the estimated similarity decides as well.
        """
        if self.estimate is not None or shingles.unweighted != self.options.unweighted:
            return None
        return expected_recall(similarity, self.bands, self.rows, self.min_shared_keys)

    @property
    def sketch_bytes(self) -> int:
        """The size of a sketch: a byte for each hash."""
        return self.bands * self.rows

    @property
    def needs_verification(self) -> bool:
        """Whether sketches decide if a candidate is a match: with ``estimate``."""
        return self.estimate is not None

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null has none.

        Memory: 4 bytes a hash, and the scratch of the longest text.

        Raises:
            ValueError: For another type of array.
        """
        return self.of_hashes(minwise_hashes(texts, self.sketch_bytes, self.options))

    def of_hashes(self, found: MinwiseHashes) -> Signatures:
        """Return the signatures of texts from their ``bands * rows`` min-wise hashes."""
        offsets = np.zeros(found.occurrences.size + 1, np.int64)
        np.cumsum(found.has_shingles * self.bands, out=offsets[1:])
        keys = found.band_keys(self.bands, self.rows)[found.has_shingles].reshape(-1)
        # values of texts without shingles are undefined
        sketches = found.values.astype(np.uint8)
        sketches[~found.has_shingles] = 0
        return Signatures(offsets, keys, sketches)

    def similarity(
        self, first: NDArray[np.uint8], second: NDArray[np.uint8]
    ) -> NDArray[np.float64]:
        """Return the estimated similarity of pairs of texts with keys, NaN below ``estimate``."""
        shares = (first == second).mean(axis=1)
        found: NDArray[np.float64] = np.maximum((shares - _BY_CHANCE) / (1 - _BY_CHANCE), 0)
        if self.estimate is not None:
            found[found < self.estimate] = np.nan
        return found


@dataclass(frozen=True)
class SuperShingles(MinHash):
    """MinHash with 6 bands of 14, of which 2 are shared (Broder, 2000)."""

    TITLE: ClassVar[str] = "super-shingles"

    bands: int = 6
    rows: int = 14
    min_shared_keys: int = 2

    @classmethod
    def defaults_for(cls, similarity: float) -> dict[str, int]:
        """Return no parameters: the bands are those of the paper."""
        return {}
