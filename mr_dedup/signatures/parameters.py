"""Base classes of methods: parameters, which are the fields of a frozen dataclass, and defaults."""

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
    """A SignatureMethod whose name states all its parameters but those that are None.

    By default texts that share one key are candidates, and every candidate is a match.
    """

    TITLE: ClassVar[str]
    """The name of the method without parameters."""

    @property
    def name(self) -> str:
        """The title and the parameters, as ``parse_method`` reads them."""
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
        """The size of a sketch in bytes."""
        return 0

    @property
    def needs_verification(self) -> bool:
        """Whether sketches decide if a candidate is a match."""
        return False

    @abstractmethod
    def sign(self, texts: pa.LargeStringArray) -> Signatures:
        """Return the signatures of every text; a null has none."""

    def similarity(
        self, first: NDArray[np.uint8], second: NDArray[np.uint8]
    ) -> NDArray[np.float64]:
        """Return the similarity of each pair of sketches uint8[m, w], float64[m]."""
        return np.ones(len(first))


@dataclass(frozen=True)
class MethodOfWords(ParameterisedMethod):
    """A method that prepares texts and splits them into words, as by ``FeatureOptions``.

    Args:
        stop_words, stem, segment, normalize: As in ``FeatureOptions``, with its defaults; None of
            ``normalize`` is the default there.

    Raises:
        ValueError: For an unknown language.
        MrDedupError: If the package for a language is not installed.
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
        """Return ``options`` with this method's preparation of texts."""
        return FeatureOptions(
            options.unit, options.length, options.weighting,
            self.stop_words, self.stem, self.segment, self.normalize or FeatureOptions.normalize,
        )  # fmt: skip


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raise ValueError, naming the parameter, for a value out of range."""
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {low} to {high}, not {value}")


def _text(value: object) -> str:
    if isinstance(value, DocumentFrequencies):
        return value.digest
    # 1 and 1.0 are the same parameter
    return str(value).removesuffix(".0")
