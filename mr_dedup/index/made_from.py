"""What an index's fingerprints are made from: to make more of the same, and refuse others."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.features.normalisation_table import Normalization

if TYPE_CHECKING:
    import pyarrow as pa

    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.features.options import FeatureOptions


class MadeFrom(msgspec.Struct, frozen=True):
    """The options by which texts become fingerprints, called as those of the command line.

    ``idf`` is the path of the document frequencies, for weights that need them.
    """

    features: str = "words:1"
    weights: str = "log-tf"
    stop_words: str | None = None
    stem: str | None = None
    segment: str | None = None
    normalize: Normalization = "nfkc"
    idf: str | None = None

    def options(self) -> FeatureOptions:
        """Return which features texts have; ValueError if there are no such."""
        from mr_dedup.features.options import FeatureOptions

        return dataclasses.replace(
            FeatureOptions.parse(self.features, self.weights),
            stop_words=self.stop_words, stem=self.stem, segment=self.segment,
            normalize=self.normalize,
        )  # fmt: skip

    def maker_for(self, features: str | None, name: str) -> FingerprintMaker:
        """Return what makes fingerprints as those of the index ``name`` are, from ``features``.

        Raises MrDedupError where these are others: of document frequencies that changed, or of an
        earlier version.
        """
        maker = self.maker()
        if maker.described != features:
            raise MrDedupError(
                f"{name}: its fingerprints are made from {features}, but those of texts would be "
                f"from {maker.described}; such cannot be compared"
            )
        return maker

    def maker(self) -> FingerprintMaker:
        """Return what makes fingerprints of texts.

        Raises ValueError for options that are none, MrDedupError for document frequencies that
        cannot be read or are of other features.
        """
        from mr_dedup.features.document_frequencies import DocumentFrequencies

        options = self.options()
        frequencies = None
        if options.uses_idf:
            if self.idf is None:
                raise ValueError(f"--weights {self.weights}: needs --idf, a file of mr-dedup idf")
            frequencies = DocumentFrequencies.read(Path(self.idf))
            frequencies.check_features(options)
        elif self.idf is not None:
            raise ValueError(f"--idf: means nothing to --weights {self.weights}")
        return FingerprintMaker(options, frequencies)


class FingerprintMaker:
    """Makes fingerprints of texts, all by the same options."""

    def __init__(self, options: FeatureOptions, frequencies: DocumentFrequencies | None) -> None:
        from mr_dedup.features.document_frequencies import feature_description

        self._options = options
        self._frequencies = frequencies
        self.described = feature_description(options, frequencies)
        """What the fingerprints are made from: they can be compared only if it is the same."""

    def of(self, texts: pa.LargeStringArray) -> NDArray[np.uint64]:
        """Return the fingerprint of each of n texts, none of which is null, uint64[n]."""
        from mr_dedup.fingerprints.simhash import simhash

        return simhash(texts, self._options, self._frequencies).values
