"""What methods are made of alike: parameters, which their names tell, and one key without a check.

A method is a frozen dataclass; its fields are what a user may write.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.document_frequencies import DocumentFrequencies
from mr_dedup.features.normalisation_table import Normalization
from mr_dedup.features.options import FeatureOptions
from mr_dedup.signatures.protocol import Signatures


@dataclass(frozen=True)
class ParameterisedMethod(ABC):
    """A SignatureMethod whose name has all its parameters that are not None.

    Unless it says otherwise one shared key makes a candidate, and a candidate is a match.
    """

    TITLE: ClassVar[str]
    """Its name without parameters."""

    @property
    def name(self) -> str:
        """What the method is called: its title, and parameters as ``parse_method`` reads them."""
        # those of all methods of words last
        ordered = sorted(fields(self), key=lambda each: each.kw_only is True)
        values = {each.name: getattr(self, each.name) for each in ordered}
        told = ",".join(f"{key}={_told(it)}" for key, it in values.items() if it is not None)
        return f"{self.TITLE}:{told}" if told else self.TITLE

    @classmethod
    def defaults_for(cls, similarity: float) -> dict[str, int]:
        """Return parameters by which pairs of a similarity are found, if there are such."""
        return {}

    def expected_recall(self, similarity: float, shingles: FeatureOptions) -> float | None:
        """Return the probability with which texts of a similarity are a match; None if unknown.

        ``similarity`` is the Jaccard index of their ``shingles``.
        """
        return None

    @property
    def least(self) -> int:
        """How many keys a candidate pair shares."""
        return 1

    @property
    def sketch_bytes(self) -> int:
        """How long a sketch is."""
        return 0

    @property
    def checks(self) -> bool:
        """Whether a candidate may be no match."""
        return False

    @abstractmethod
    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null has none."""

    def similarity(
        self, first: NDArray[np.uint8], second: NDArray[np.uint8]
    ) -> NDArray[np.float64]:
        """Return how similar texts of sketches first[m, w] and second[m, w] are, float64[m]."""
        return np.ones(len(first))


@dataclass(frozen=True)
class MethodOfWords(ParameterisedMethod):
    """A method that cuts texts into words, and can prepare them, as FeatureOptions.

    ``normalize`` is None by default, which is what FeatureOptions have.
    """

    stop_words: str | None = field(default=None, kw_only=True)
    stem: str | None = field(default=None, kw_only=True)
    segment: str | None = field(default=None, kw_only=True)
    normalize: Normalization | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.normalize == FeatureOptions.normalize:
            object.__setattr__(self, "normalize", None)
        self.prepared(FeatureOptions())

    def prepared(self, options: FeatureOptions) -> FeatureOptions:
        """Return ``options`` with what is asked for; ValueError for a language there is not."""
        return FeatureOptions(
            options.unit, options.length, options.weighting,
            self.stop_words, self.stem, self.segment, self.normalize or FeatureOptions.normalize,
        )  # fmt: skip


def check_range(name: str, value: float, least: float, most: float) -> None:
    """Raise ValueError for a parameter that is not within the range."""
    if not least <= value <= most:
        raise ValueError(f"{name} must be from {least} to {most}, not {value}")


def _told(value: object) -> str:
    if isinstance(value, DocumentFrequencies):
        return value.digest
    # 1 and 1.0 are the same
    return str(value).removesuffix(".0")
