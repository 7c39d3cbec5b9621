"""Fingerprints, signatures and sets of shingles of texts, in one pass where they use the same
shingles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa

from mr_dedup.features.document_frequencies import DocumentFrequencies
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import ShingleSets, shingle_sets
from mr_dedup.fingerprints.simhash import Fingerprints, simhash
from mr_dedup.signatures.columns import columns_of
from mr_dedup.signatures.combined import can_be_combined, combined
from mr_dedup.signatures.minhash import MinHash
from mr_dedup.signatures.protocol import SignatureMethod, Signatures

Signing = Callable[
    [pa.LargeStringArray], tuple[Fingerprints, dict[str, pa.Array], ShingleSets | None]
]
"""Returns the fingerprints of texts, columns of their signatures, and sets of shingles or None."""


def signing(
    options: FeatureOptions,
    frequencies: DocumentFrequencies | None,
    methods: Sequence[SignatureMethod],
    shingles: FeatureOptions | None,
) -> Signing:
    """Return what makes fingerprints, signatures, and sets by ``shingles`` unless that is None."""
    whole = _combinable(options, methods)

    def separately(
        texts: pa.LargeStringArray,
    ) -> tuple[Fingerprints, dict[str, pa.Array], ShingleSets | None]:
        signed = [method.sign(texts) for method in methods]
        sets = None if shingles is None else shingle_sets(texts, shingles)
        return simhash(texts, options, frequencies), columns_of(methods, signed), sets

    if whole is None:
        return separately
    with_sets = shingles is not None and _same_shingles(shingles, options)

    def together(
        texts: pa.LargeStringArray,
    ) -> tuple[Fingerprints, dict[str, pa.Array], ShingleSets | None]:
        found = combined(texts, whole.sketch_bytes, options, sets=with_sets)
        signed: list[Signatures] = [
            whole.of_hashes(found.hashes) if method is whole else method.sign(texts)
            for method in methods
        ]
        sets = found.sets
        if shingles is not None and sets is None:
            sets = shingle_sets(texts, shingles)
        return found.fingerprints, columns_of(methods, signed), sets

    return together


def _combinable(options: FeatureOptions, methods: Sequence[SignatureMethod]) -> MinHash | None:
    """Return the first method of min-wise hashes of the shingles that fingerprints are made of."""
    if not can_be_combined(options):
        return None
    for method in methods:
        if isinstance(method, MinHash) and _same_shingles(method.options, options):
            return method
    return None


def _same_shingles(one: FeatureOptions, other: FeatureOptions) -> bool:
    return replace(one, weighting="tf") == replace(other, weighting="tf")
