"""The methods that ``comparison`` compares: methods by keys, and simhash, behind one protocol."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.options import FeatureOptions
from mr_dedup.fingerprints.simhash import simhash
from mr_dedup.hamming.row_pairs import row_pairs_within
from mr_dedup.signatures.candidates import candidates
from mr_dedup.signatures.protocol import SignatureMethod, Signatures

Rows = NDArray[np.int64]
Texts = Sequence[pa.LargeStringArray]
"""Texts in parts of some megabytes, which bounds the temporary memory of a method."""


class PairBatch(NamedTuple):
    """The predicted pairs, rows first[m] and second[m], among ``candidates`` candidate pairs."""

    candidates: int
    first: Rows
    second: Rows


class ComparedMethod(Protocol):
    """A method with its parameters."""

    @property
    def name(self) -> str:
        """The name with all parameters."""

    @property
    def family(self) -> str:
        """The name without numeric parameters."""

    def sign(self, texts: Texts) -> Signatures:
        """Return the signatures of all texts."""

    def stored_bytes(self, signatures: Signatures) -> int:
        """Return the bytes of ``signatures`` that are needed to find pairs."""

    def pairs(self, signatures: Signatures, max_texts: int | None) -> Iterator[PairBatch]:
        """Yield the predicted pairs, each once.

        Args:
            signatures: of all texts.
            max_texts: compare the texts with the same key in slices of so many; None for all.
        """


@dataclass(frozen=True)
class KeyMethod:
    """A method that compares texts with shared keys."""

    method: SignatureMethod

    @property
    def name(self) -> str:
        """The name without the digest of document frequencies: these are of the documents."""
        parts = self.method.name.split(",")
        return ",".join(part for part in parts if not part.startswith("frequencies="))

    @property
    def family(self) -> str:
        """Its title, the unit of its segments, and whether similarities are estimated."""
        title, _, parameters = self.method.name.partition(":")
        units = [part[3:] for part in parameters.split(",") if part.startswith("by=")]
        is_estimate = title == "minhash" and self.method.needs_verification
        return " ".join([title, *units, *(["estimated"] if is_estimate else [])])

    def sign(self, texts: Texts) -> Signatures:
        """Return the signatures of all texts, computed part by part."""
        return Signatures.joined([self.method.sign(part) for part in texts])

    def stored_bytes(self, signatures: Signatures) -> int:
        """Return the bytes of keys, and of sketches if they are compared."""
        return signatures.keys.nbytes + self.method.needs_verification * signatures.sketches.nbytes

    def pairs(self, signatures: Signatures, max_texts: int | None) -> Iterator[PairBatch]:
        """Yield the pairs that the method matches."""
        for first, second in candidates(signatures, self.method.min_shared_keys, max_texts):
            count = first.size
            if self.method.needs_verification:
                sketches = signatures.sketches
                kept = ~np.isnan(self.method.similarity(sketches[first], sketches[second]))
                first, second = first[kept], second[kept]
            yield PairBatch(count, first, second)


@dataclass(frozen=True)
class SimhashMethod:
    """Fingerprints within ``k`` bits; each such pair counts as a candidate."""

    k: int
    features: FeatureOptions

    @property
    def name(self) -> str:
        """The name with k and the features."""
        return f"simhash:k={self.k},features={self.features.shingles}"

    @property
    def family(self) -> str:
        """Simhash with its features."""
        return f"simhash {self.features.unit}:{self.features.length}"

    def sign(self, texts: Texts) -> Signatures:
        """Return fingerprints as keys; a null has none."""
        parts = [simhash(part, self.features) for part in texts]
        return Signatures.joined(
            [Signatures.of_fingerprints(part.values, part.has_fingerprint) for part in parts]
        )

    def stored_bytes(self, signatures: Signatures) -> int:
        """Return the bytes of the fingerprints."""
        return signatures.keys.nbytes

    def pairs(self, signatures: Signatures, max_texts: int | None) -> Iterator[PairBatch]:
        """Yield documents with equal fingerprints, then those with fingerprints within k bits."""
        for first, second in candidates(signatures, 1, max_texts):
            yield PairBatch(first.size, first, second)
        rows = np.flatnonzero(signatures.has_keys)
        for first, second in row_pairs_within(signatures.keys, self.k):
            yield PairBatch(first.size, rows[first], rows[second])
