"""MinHash with locality-sensitive hashing, and super-shingles: bands of min-wise hashes.

Broder, Glassman, Manasse, Zweig, Syntactic clustering of the web, 1997, has 6 bands of 14 of which
2 are equal. Texts of similarity J share a band of r values with a probability of J**r.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.options import FeatureOptions
from mr_dedup.signatures.bands import choose_bands, expected_recall
from mr_dedup.signatures.minwise import MOST_PERMUTATIONS, MinwiseHashes, minwise_hashes
from mr_dedup.signatures.parameters import MethodOfWords, check_range
from mr_dedup.signatures.protocol import Signatures

_BY_CHANCE = 1 / 256
"""How often bytes of different values are equal."""


@dataclass(frozen=True)
class MinHash(MethodOfWords):
    """A key for each of ``bands`` bands of ``rows`` min-wise hashes; ``least`` of them are shared.

    The sketch is the lowest byte of each hash: their share of equal ones, less what is so by
    chance, estimates the Jaccard index of the sets of ``shingles``. With p hashes its standard
    error is at most sqrt(s (1 - s) / p), s the share; 0.040 at J = 0.8 with 100. With ``estimate``
    only pairs of that estimated similarity are matches (Li and König, b-bit minwise hashing, 2010).
    """

    TITLE: ClassVar[str] = "minhash"

    bands: int = 20
    rows: int = 5
    least: int = 1
    shingles: str = "auto"
    estimate: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        options = self.options
        object.__setattr__(self, "shingles", options.shingles)
        check_range("bands", self.bands, 1, MOST_PERMUTATIONS)
        check_range("rows", self.rows, 1, MOST_PERMUTATIONS // self.bands)
        check_range("least", self.least, 1, self.bands)
        if self.estimate is not None:
            check_range("estimate", self.estimate, 0, 1)

    @property
    def options(self) -> FeatureOptions:
        """Of what the hashes are."""
        return self.prepared(FeatureOptions.parse(self.shingles, "binary"))

    @classmethod
    def defaults_for(cls, similarity: float) -> dict[str, int]:
        """Return the bands and rows by which pairs of a similarity are found."""
        bands, rows = choose_bands(similarity)
        return {"bands": bands, "rows": rows, "least": 1}

    def expected_recall(self, similarity: float, shingles: FeatureOptions) -> float | None:
        """Return the probability with which texts of a similarity share enough bands.

        None if ``shingles``, of which the similarity is, are not those of the hashes, or if the
        estimate of the similarity decides as well.
        """
        if self.estimate is not None or shingles.unweighted != self.options.unweighted:
            return None
        return expected_recall(similarity, self.bands, self.rows, self.least)

    @property
    def sketch_bytes(self) -> int:
        """How long a sketch is: a byte for each hash."""
        return self.bands * self.rows

    @property
    def checks(self) -> bool:
        """Whether a candidate may be no match: with ``estimate``."""
        return self.estimate is not None

    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null has none.

        Memory: the hashes, 4 bytes each, and the longest text's scratch. Raises ValueError for
        another type of array.
        """
        return self.of_hashes(minwise_hashes(texts, self.sketch_bytes, self.options))

    def of_hashes(self, found: MinwiseHashes) -> Signatures:
        """Return the signatures of texts by their ``sketch_bytes`` min-wise hashes."""
        offsets = np.zeros(found.occurrences.size + 1, np.int64)
        np.cumsum(found.exist * self.bands, out=offsets[1:])
        keys = found.band_keys(self.bands, self.rows)[found.exist].reshape(-1)
        # what has no hashes has any values
        sketches = found.values.astype(np.uint8)
        sketches[~found.exist] = 0
        return Signatures(offsets, keys, sketches)

    def similarity(
        self, first: NDArray[np.uint8], second: NDArray[np.uint8]
    ) -> NDArray[np.float64]:
        """Return the estimated similarity of texts that have keys, NaN below ``estimate``."""
        shares = (first == second).mean(axis=1)
        found: NDArray[np.float64] = np.maximum((shares - _BY_CHANCE) / (1 - _BY_CHANCE), 0)
        if self.estimate is not None:
            found[found < self.estimate] = np.nan
        return found


@dataclass(frozen=True)
class SuperShingles(MinHash):
    """MinHash as Broder and others have it: 6 bands of 14, of which 2 are shared."""

    TITLE: ClassVar[str] = "super-shingles"

    bands: int = 6
    rows: int = 14
    least: int = 2

    @classmethod
    def defaults_for(cls, similarity: float) -> dict[str, int]:
        """Return nothing: the bands are those of the paper."""
        return {}
