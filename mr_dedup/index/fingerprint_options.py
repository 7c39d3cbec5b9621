"""How the fingerprints of an index are made: to make more of them, and refuse others."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.features.options import Symbols

if TYPE_CHECKING:
    import pyarrow as pa

    from mr_dedup.features.document_frequencies import DocumentFrequencies
    from mr_dedup.features.options import FeatureOptions


class FingerprintOptions(msgspec.Struct, frozen=True):
    """Options of the simhash of texts, under their command line names.

    Args:
        features: ``words:N`` or ``characters:N``, shingles of N.
        weights: of the features.
        stop_words: the language of stop words to remove.
        stem: the language of a stemmer.
        segment: the language whose words are segmented.
        normalize: the normalisation of Unicode.
        symbols: which symbols are tokens.
        idf: the path of the document frequencies, for weights that need them.

    >>> FingerprintOptions(features="words:2").fingerprinter().described
    'words:2, log-tf, normalize nfkc'
    """

    features: str = "words:1"
    weights: str = "log-tf"
    stop_words: str | None = None
    stem: str | None = None
    segment: str | None = None
    normalize: str = "nfkc"
    idf: str | None = None
    symbols: Symbols = "ignore"

    def options(self) -> FeatureOptions:
        """Return the options of feature extraction; ValueError if they are not valid."""
        from mr_dedup.features.options import FeatureOptions

        return dataclasses.replace(
            FeatureOptions.parse(self.features, self.weights),
            stop_words=self.stop_words, stem=self.stem, segment=self.segment,
            normalize=self.normalize, symbols=self.symbols,
        )  # fmt: skip

    def fingerprinter_for(self, features: str | None, name: str) -> Fingerprinter:
        """Return a fingerprinter like those of the index ``name``.

        Raises MrDedupError if its description is not ``features``, the index's: if document
        frequencies changed since, or an earlier version made the fingerprints.
        """
        fingerprinter = self.fingerprinter()
        if fingerprinter.described != features:
            raise MrDedupError(
                f"{name}: its fingerprints are made from {features}, but those of texts would be "
                f"from {fingerprinter.described}; such cannot be compared"
            )
        return fingerprinter

    def fingerprinter(self) -> Fingerprinter:
        """Return a fingerprinter.

        Raises ValueError if the options are not valid, MrDedupError if the document frequencies
        cannot be read or are of other features.
        """
        from mr_dedup.features.document_frequencies import DocumentFrequencies

        options = self.options()
        frequencies = None
        if options.uses_idf:
            if self.idf is None:
                raise ValueError(f"weights {self.weights}: need idf, a file of mr-dedup idf")
            frequencies = DocumentFrequencies.read(Path(self.idf))
            frequencies.check_features(options)
        elif self.idf is not None:
            raise ValueError(f"idf: not used by weights {self.weights}")
        return Fingerprinter(options, frequencies)


class Fingerprinter:
    """Makes fingerprints of texts, all by the same options.

    Args:
        options: of feature extraction.
        frequencies: the document frequencies, for weights that need them.
    """

    def __init__(self, options: FeatureOptions, frequencies: DocumentFrequencies | None) -> None:
        from mr_dedup.features.document_frequencies import feature_description

        self._options = options
        self._frequencies = frequencies
        self.described = feature_description(options, frequencies)
        """What the fingerprints are made from, in print: only equal ones can be compared."""

    def of(self, texts: pa.LargeStringArray) -> NDArray[np.uint64]:
        """Return the fingerprints of n texts, none of them null, uint64[n]."""
        from mr_dedup.fingerprints.simhash import simhash

        return simhash(texts, self._options, self._frequencies).values
