"""From texts to features: which shingles a text has, and what each weighs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features import kernels
from mr_dedup.features.document_frequencies import IDF_ONE, DocumentFrequencies, weighing
from mr_dedup.features.frequency_kernels import weigh_by_rarity
from mr_dedup.features.normalisation import slices
from mr_dedup.features.options import WEIGHT_ONE, FeatureOptions
from mr_dedup.features.preparation import prepare, table_for
from mr_dedup.kernels.byte_blocks import COPY_BYTES


def most_features(
    size_bytes: NDArray[np.int64] | int, options: FeatureOptions
) -> NDArray[np.int64] | int:
    """Return as many shingles, repeats counted, as texts of ``size_bytes`` never have more."""
    # folded, a text has at most twice the bytes
    return 2 * size_bytes + 2 if options.unit == "characters" else size_bytes // 2 + 2


def scratch_for(size_bytes: int, options: FeatureOptions) -> kernels.Scratch:
    """Return scratch for texts of up to ``size_bytes``.

    Takes up to 40 bytes a byte for words, 100 for characters; a text touches a third of that.
    """
    tokens = size_bytes // 2 + 2
    by_characters = options.unit == "characters"
    pieces = int(most_features(size_bytes, options))
    features = (pieces + 15) // 8 * 8
    slots = 1 << (2 * features - 1).bit_length()
    token_starts, token_stops = np.empty(tokens, np.uint32), np.empty(tokens, np.uint32)
    starts, stops = token_starts, token_stops
    if by_characters:
        starts, stops = np.empty(pieces, np.uint32), np.empty(pieces, np.uint32)
    return kernels.Scratch(
        np.empty(2 * size_bytes + 2 * COPY_BYTES, np.uint8),
        token_starts,
        token_stops,
        starts,
        stops,
        np.empty(features, np.uint64),
        np.empty(features, np.int32),
        np.empty(slots, np.uint64),
        np.empty(slots, np.uint32),
        np.empty((4, kernels.SPAN), np.uint32),
    )


def slices_of(
    texts: pa.LargeStringArray, options: FeatureOptions
) -> tuple[NDArray[np.uint8], NDArray[np.uint64], NDArray[np.uint64]]:
    """Return the UTF-8 of n prepared texts, and where each starts and stops, uint64[n].

    A null starts and stops past the UTF-8. Raises ValueError for another type of array.
    """
    slices(texts)
    return slices(prepare(texts, options))


@dataclass(frozen=True)
class Features:
    """The features of a text: ``shingles``, each once, ``hashes`` uint64[n], ``weights``."""

    shingles: tuple[str, ...]
    hashes: NDArray[np.uint64]
    weights: NDArray[np.float64]


def features_of(
    text: str, options: FeatureOptions, frequencies: DocumentFrequencies | None = None
) -> Features:
    """Return the features of one text, in the order in which they first occur.

    To explain, not to compute with: about a microsecond a feature. Raises ValueError for a text
    with lone surrogates, and as ``document_frequencies.weighing``.
    """
    table = weighing(options, frequencies)
    try:
        texts = pa.array([text], pa.large_string())
    except UnicodeEncodeError as error:
        raise ValueError(f"text: character {error.start} is a lone surrogate") from error
    content = np.frombuffer(prepare(texts, options)[0].as_buffer(), np.uint8)
    scratch = scratch_for(content.size, options)
    by_characters = options.unit == "characters"
    count, length = kernels.find_features(
        content, np.uint64(0), np.uint64(content.size), *table_for(options), by_characters,
        np.uint64(options.length), options.steps, scratch,
    )  # fmt: skip
    one = WEIGHT_ONE
    if options.uses_idf:
        weigh_by_rarity(scratch.hashes, scratch.weights, count, table)
        one *= IDF_ONE
    totals: dict[int, float] = {}
    shingles: dict[int, str] = {}
    for i in range(count):
        key = int(scratch.hashes[i])
        totals[key] = totals.get(key, 0) + int(scratch.weights[i]) / one
        if key not in shingles:
            place = slice(scratch.starts[i], scratch.stops[i + length - 1])
            shingles[key] = scratch.text[place].tobytes().decode()
    return Features(
        tuple(shingles.values()),
        np.array(list(totals), np.uint64),
        np.array(list(totals.values()), np.float64),
    )
