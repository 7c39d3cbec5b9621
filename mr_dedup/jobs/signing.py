"""Fingerprints, signatures and sets of shingles of texts, in one pass where they use the same
shingles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from mr_dedup.features.document_frequencies import DocumentFrequencies
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import MAX_SHINGLES, ShingleSets, shingle_sets
from mr_dedup.fingerprints.simhash import Fingerprints, simhash
from mr_dedup.signatures.columns import columns_of
from mr_dedup.signatures.combined import Wanted, can_be_combined, combined
from mr_dedup.signatures.minhash import MinHash
from mr_dedup.signatures.protocol import SignatureMethod, Signatures
from mr_dedup.signatures.winnowing import Winnowing

M = TypeVar("M", MinHash, Winnowing)

Signing = Callable[
    [pa.LargeStringArray], tuple[Fingerprints, dict[str, pa.Array], ShingleSets | None]
]
"""Returns the fingerprints of texts, columns of their signatures, and sets of shingles or None."""


def signing(
    options: FeatureOptions,
    frequencies: DocumentFrequencies | None,
    methods: Sequence[SignatureMethod],
    shingles: FeatureOptions | None,
    max_hashes: int = MAX_SHINGLES,
) -> Signing:
    """Return what makes fingerprints, signatures, and sets by ``shingles`` unless that is None.

    Sets are cut at ``max_hashes`` hashes.
    """

    def separately(
        texts: pa.LargeStringArray,
    ) -> tuple[Fingerprints, dict[str, pa.Array], ShingleSets | None]:
        signed = [method.sign(texts) for method in methods]
        sets = None if shingles is None else shingle_sets(texts, shingles, max_hashes)
        return simhash(texts, options, frequencies), columns_of(methods, signed), sets

    if not can_be_combined(options):
        return separately
    minhash = _combinable(MinHash, options, methods)
    winnowing = _combinable(Winnowing, options, methods)
    with_sets = shingles is not None and _same_shingles(shingles, options)
    if minhash is None and winnowing is None and not with_sets:
        return separately
    wanted = Wanted(
        0 if minhash is None else minhash.sketch_bytes,
        0 if winnowing is None else winnowing.window,
        max_hashes if with_sets else 0,
    )

    def together(
        texts: pa.LargeStringArray,
    ) -> tuple[Fingerprints, dict[str, pa.Array], ShingleSets | None]:
        found = combined(texts, options, wanted)

        def signed_by(method: SignatureMethod) -> Signatures:
            if method is minhash and found.hashes is not None:
                return minhash.of_hashes(found.hashes)
            if method is winnowing and found.winnowed is not None:
                return found.winnowed
            return method.sign(texts)

        signed = [signed_by(method) for method in methods]
        sets = found.sets
        if shingles is not None and sets is None:
            sets = shingle_sets(texts, shingles, max_hashes)
        return found.fingerprints, columns_of(methods, signed), sets

    return together


def _combinable(
    kind: type[M], options: FeatureOptions, methods: Sequence[SignatureMethod]
) -> M | None:
    """Return the first method of a kind, of the shingles that fingerprints are made of."""
    for method in methods:
        if isinstance(method, kind) and _same_shingles(method.options, options):
            return method
    return None


def _same_shingles(one: FeatureOptions, other: FeatureOptions) -> bool:
    return replace(one, weighting="tf") == replace(other, weighting="tf")
