"""When a document of a cluster duplicates a kept one: by their similarity, or if it is in that."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

from mr_dedup.features import shingle_set_kernels as kernels
from mr_dedup.features.shingle_sets import MAX_SHINGLES, UNLIMITED

THRESHOLD = 0.8
"""The similarity from which on two documents are near-duplicates, by default."""

Measure = Literal["similarity", "contained"]


@dataclass(frozen=True)
class Criterion:
    """The smallest similarity of a dropped document and the kept one that it duplicates.

    Args:
        threshold: Above 0 and at most 1.
        measure: ``similarity``, the Jaccard index of their sets of shingles; or ``contained``, the
            share of the shingles of the dropped document that the kept one has too, which must
            have as many shingles or more.

    Raises:
        ValueError: For a value out of range.

    Example:
        >>> Criterion.parse("contained:0.9")
        Criterion(threshold=0.9, measure='contained')
        >>> str(Criterion(0.8)), str(Criterion(0.9, "contained"))
        ('0.8', 'contained:0.9')
    """

    threshold: float = THRESHOLD
    measure: Measure = "similarity"

    def __post_init__(self) -> None:
        if not 0 < self.threshold <= 1:
            raise ValueError(f"threshold must be above 0 and at most 1, not {self.threshold}")
        if self.measure not in get_args(Measure):
            names = " or ".join(get_args(Measure))
            raise ValueError(f"measure must be {names}, not {self.measure!r}")

    @classmethod
    def parse(cls, text: str) -> Criterion:
        """Return the criterion of ``J`` or ``contained:C``; ValueError for another text."""
        measure, colon, value = text.rpartition(":")
        try:
            threshold = float(value)
        except ValueError:
            threshold = math.nan
        if not 0 < threshold <= 1 or (colon and measure != "contained"):
            raise ValueError(
                f"{text!r} is not a similarity above 0 and up to 1, or contained: and a share"
            )
        return cls(threshold, "contained" if colon else "similarity")

    def __str__(self) -> str:
        value = str(self.threshold)
        return value if self.measure == "similarity" else f"{self.measure}:{value}"

    @property
    def as_json(self) -> float | str:
        """The criterion in summaries: a similarity as a number."""
        return self.threshold if self.measure == "similarity" else str(self)

    @property
    def is_containment(self) -> bool:
        """Whether a document must be contained in a kept one."""
        return self.measure == "contained"

    @property
    def max_hashes(self) -> int:
        """The size at which sets of shingles may be cut.

        What a sample of the shingles of a long text says of its similarity to another is good, but
        few of them are shingles of a short text that is in it: then sets are whole.
        """
        return UNLIMITED if self.is_containment else MAX_SHINGLES

    def min_words(self, shingle_words: int) -> int | None:
        """Return the number of words from which on a text may differ in two of them.

        Of S shingles of L words, 2 L have one of the two. None if texts must be equal, or
        contained.

        >>> Criterion(0.8).min_words(3), Criterion(0.8).min_words(1)
        (56, 18)
        """
        if self.is_containment or self.threshold == 1:
            return None
        t = self.threshold
        shingles = math.ceil(round(2 * shingle_words * (1 + t) / (1 - t), 6))
        return shingles + shingle_words - 1

    @property
    def for_kernels(self) -> kernels.Criterion:
        """The criterion as kernels take it."""
        return kernels.Criterion(float(self.threshold), self.is_containment)


SIMILAR = Criterion()
"""Similarity from THRESHOLD on."""
