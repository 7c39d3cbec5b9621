"""Space and rules for the kernels that find shingles, and the features of one text."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.features.document_frequencies import IDF_ONE, DocumentFrequencies, idf_table_for
from mr_dedup.features.frequency_kernels import multiply_by_idf
from mr_dedup.features.options import WEIGHT_ONE, FeatureOptions
from mr_dedup.features.preparation import prepare, table_for
from mr_dedup.features.shingle_kernels import Scratch, ShingleRule, find_features
from mr_dedup.features.token_kernels import Tokens
from mr_dedup.kernels.arrays import uninitialised


def max_shingles(
    size_bytes: NDArray[np.int64] | int, options: FeatureOptions
) -> NDArray[np.int64] | int:
    """Return the largest number of shingles, repeats counted, of texts of ``size_bytes``."""
    # a folded text has at most twice the bytes
    return 2 * size_bytes + 2 if options.unit == "characters" else size_bytes // 2 + 2


def shingle_rule(options: FeatureOptions, *, weighted: bool = True) -> ShingleRule:
    """Return the options as kernels take them.

    Args:
        options: Which shingles a text has.
        weighted: Whether the kernel uses weights. If not, every shingle weighs 1, which costs
            nothing, and the hash table of the scratch stays unused.
    """
    steps = options.steps if weighted else np.array([1], np.int32)
    return ShingleRule(
        table_for(options), options.unit == "characters", np.uint64(options.length), steps
    )


def scratch_for(size_bytes: int, options: FeatureOptions) -> Scratch:
    """Return space for the features of texts of up to ``size_bytes``, one after another.

    Reserves up to 40 bytes a byte of text for words, 100 for characters; a text touches a third.
    """
    tokens = Tokens.allocate(size_bytes)
    max_pieces = int(max_shingles(size_bytes, options))
    pieces = tokens
    if options.unit == "characters":
        starts, stops = uninitialised(2 * max_pieces, np.uint32).reshape(2, -1)
        pieces = Tokens(tokens.text, starts, stops)
    rounded = (max_pieces + 15) // 8 * 8
    slots = 1 << (2 * rounded - 1).bit_length()
    return Scratch(
        tokens,
        pieces,
        uninitialised(rounded, np.uint64),
        uninitialised(rounded, np.int32),
        uninitialised(slots, np.uint64),
        uninitialised(slots, np.uint32),
    )


@dataclass(frozen=True)
class Features:
    """The features of a text.

    Attributes:
        shingles: The distinct shingles, in the order in which they first occur.
        hashes: uint64[n], their hashes.
        weights: float64[n].
    """

    shingles: tuple[str, ...]
    hashes: NDArray[np.uint64]
    weights: NDArray[np.float64]


def features_of(
    text: str, options: FeatureOptions, frequencies: DocumentFrequencies | None = None
) -> Features:
    """Return the features of one text, to explain a fingerprint: a microsecond a feature.

    Args:
        text: The text.
        options: Which features it has, and their weighting.
        frequencies: Document frequencies, for a weighting with idf.

    Raises:
        ValueError: For a text with lone surrogates, and as :func:`idf_table_for`.
        MrDedupError: As :func:`idf_table_for`.

    Example:
        >>> found = features_of("To be or not to be", FeatureOptions("words", 2, "tf"))
        >>> dict(zip(found.shingles, found.weights.tolist()))
        {'to be': 2.0, 'be or': 1.0, 'or not': 1.0, 'not to': 1.0}
    """
    idf_table = idf_table_for(options, frequencies)
    try:
        texts = pa.array([text], pa.large_string())
    except UnicodeEncodeError as error:
        raise ValueError(f"text: character {error.start} is a lone surrogate") from error
    content = np.frombuffer(prepare(texts, options)[0].as_buffer(), np.uint8)
    scratch = scratch_for(content.size, options)
    count, length = find_features(
        content, np.uint64(0), np.uint64(content.size), shingle_rule(options), scratch
    )
    one = WEIGHT_ONE
    if options.uses_idf:
        multiply_by_idf(scratch.hashes, scratch.weights, np.uint64(count), idf_table)
        one *= IDF_ONE
    pieces = scratch.pieces
    weights: dict[int, float] = {}
    shingles: dict[int, str] = {}
    for i in range(count):
        key = int(scratch.hashes[i])
        weights[key] = weights.get(key, 0) + int(scratch.weights[i]) / one
        if key not in shingles:
            shingle = pieces.text[pieces.starts[i] : pieces.stops[i + length - 1]]
            shingles[key] = shingle.tobytes().decode()
    return Features(
        tuple(shingles.values()),
        np.array(list(weights), np.uint64),
        np.array(list(weights.values()), np.float64),
    )
