"""What is compared: methods by keys and simhash, and the pairs that each calls alike."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.options import FeatureOptions
from mr_dedup.fingerprints.simhash import simhash
from mr_dedup.hamming.row_pairs import near_rows
from mr_dedup.signatures.candidates import candidates
from mr_dedup.signatures.protocol import SignatureMethod, Signatures

Rows = NDArray[np.int64]
Texts = Sequence[pa.LargeStringArray]
"""Texts in parts of some megabytes: what a method takes beside them is that of a part."""


class Found(NamedTuple):
    """Of so many ``candidates`` the pairs that are alike, rows first[m] and second[m]."""

    candidates: int
    first: Rows
    second: Rows


class Entrant(Protocol):
    """A method with its parameters, as it is compared; of one ``family`` only numbers differ."""

    @property
    def name(self) -> str:
        """What it is called, parameters and all."""

    @property
    def family(self) -> str:
        """What it is called without numbers."""

    def kept_bytes(self, signatures: Signatures) -> int:
        """Return how much of what ``sign`` returned is needed to pair texts."""

    def sign(self, texts: Texts) -> Signatures:
        """Return the keys of all texts, and what else is compared of them."""

    def pairs(self, signatures: Signatures, most: int | None) -> Iterator[Found]:
        """Yield what is alike, each pair once; of one key's texts slices of ``most``."""


@dataclass(frozen=True)
class ByKeys:
    """A method by keys."""

    method: SignatureMethod

    @property
    def name(self) -> str:
        """As the method's, but for the digest of frequencies, which are those of the documents."""
        parts = self.method.name.split(",")
        return ",".join(part for part in parts if not part.startswith("frequencies="))

    @property
    def family(self) -> str:
        """Its title, how it cuts texts, and whether it checks candidates."""
        title, _, parameters = self.method.name.partition(":")
        told = [part[3:] for part in parameters.split(",") if part.startswith("by=")]
        is_estimate = title == "minhash" and self.method.checks
        return " ".join([title, *told, *(["estimated"] if is_estimate else [])])

    def sign(self, texts: Texts) -> Signatures:
        """Sign a part at a time."""
        return _joined([self.method.sign(part) for part in texts])

    def kept_bytes(self, signatures: Signatures) -> int:
        """Return those of keys, and of sketches if they are compared."""
        return signatures.keys.nbytes + self.method.checks * signatures.sketches.nbytes

    def pairs(self, signatures: Signatures, most: int | None) -> Iterator[Found]:
        """Yield matches by the method's whole rule."""
        for first, second in candidates(signatures, self.method.least, most):
            size = first.size
            if self.method.checks:
                sketches = signatures.sketches
                kept = ~np.isnan(self.method.similarity(sketches[first], sketches[second]))
                first, second = first[kept], second[kept]
            yield Found(size, first, second)


@dataclass(frozen=True)
class BySimhash:
    """Fingerprints within ``k`` bits; a candidate is a pair that is."""

    k: int
    features: FeatureOptions

    @property
    def name(self) -> str:
        """With the features, which fingerprints are made of."""
        return f"simhash:k={self.k},features={self.features.shingles}"

    @property
    def family(self) -> str:
        """Simhash, and of what."""
        return f"simhash {self.features.unit}:{self.features.length}"

    def sign(self, texts: Texts) -> Signatures:
        """Return fingerprints as keys; a null has none."""
        made = [simhash(part, self.features) for part in texts]
        exist = np.concatenate([np.empty(0, bool), *(each.exist for each in made)])
        values = np.concatenate([np.empty(0, np.uint64), *(each.values for each in made)])
        offsets = np.append(0, np.cumsum(exist))
        return Signatures(offsets, values[exist], np.empty((exist.size, 0), np.uint8))

    def kept_bytes(self, signatures: Signatures) -> int:
        """Return those of the fingerprints."""
        return signatures.keys.nbytes

    def pairs(self, signatures: Signatures, most: int | None) -> Iterator[Found]:
        """Yield documents of one fingerprint, then those of fingerprints near one another."""
        for first, second in candidates(signatures, 1, most):
            yield Found(first.size, first, second)
        rows = np.flatnonzero(signatures.exist)
        for first, second in near_rows(signatures.keys, self.k):
            yield Found(first.size, rows[first], rows[second])


def _joined(parts: Sequence[Signatures]) -> Signatures:
    ends = np.cumsum([0, *(part.offsets[-1] for part in parts)])
    offsets = [part.offsets[1:] + end for part, end in zip(parts, ends, strict=False)]
    width = parts[0].sketches.shape[1] if parts else 0
    return Signatures(
        np.concatenate([np.zeros(1, np.int64), *offsets]),
        np.concatenate([np.empty(0, np.uint64), *(part.keys for part in parts)]),
        np.concatenate([np.empty((0, width), np.uint8), *(part.sketches for part in parts)]),
    )
