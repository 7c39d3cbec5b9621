"""Simhash, min-wise hashes, winnowing and sets of shingles of texts, in one pass over shingles.

To find the shingles of a text takes longer than everything computed from them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import prepared_batch
from mr_dedup.features.shingle_sets import ShingleSets, space_for_sets
from mr_dedup.features.shingles import scratch_for, shingle_rule
from mr_dedup.fingerprints.simhash import Fingerprints
from mr_dedup.kernels.arrays import written
from mr_dedup.signatures import combined_kernels as kernels
from mr_dedup.signatures.minwise import NO_ORDERS, MinwiseHashes, empty_values, orders_of
from mr_dedup.signatures.protocol import Signatures
from mr_dedup.signatures.winnowing import signatures_of, space_for_keys


class Combined(NamedTuple):
    """The results of ``simhash`` and, if wanted, ``minwise_hashes``, ``Winnowing`` and sets."""

    fingerprints: Fingerprints
    hashes: MinwiseHashes | None
    winnowed: Signatures | None
    sets: ShingleSets | None


class Wanted(NamedTuple):
    """What is computed beside fingerprints.

    Attributes:
        permutations: The number of min-wise hashes; 0 for none.
        window: The window of winnowing; 0 for none.
        max_hashes: The size at which sets of shingles are cut; 0 for none.
    """

    permutations: int = 0
    window: int = 0
    max_hashes: int = 0


def can_be_combined(options: FeatureOptions) -> bool:
    """Return whether fingerprints by these features can be computed in the same pass.

    Only if every occurrence of every feature has the same weight.
    """
    return options.steps.size == 1 and not options.uses_idf


def combined(texts: pa.LargeStringArray, options: FeatureOptions, wanted: Wanted) -> Combined:
    """Return fingerprints and what is wanted beside them, equal to what is made separately.

    Memory: the results, and the scratch of the longest text.

    Args:
        texts: n texts.
        options: Which shingles a text has; see :func:`can_be_combined`.
        wanted: What is computed.

    Raises:
        ValueError: For features that cannot be combined, another type of array, or permutations
            out of range.
    """
    if not can_be_combined(options):
        raise ValueError(f"options: {options} have occurrences of different weights")
    permutations, window, max_hashes = wanted
    orders = orders_of(permutations) if permutations else NO_ORDERS
    batch = prepared_batch(texts, options)
    fingerprints, occurrences, sizes = np.zeros((3, len(texts)), np.uint64)
    ends = np.zeros(len(texts) + 1, np.uint64)
    keys = space_for_keys(batch, options) if window else np.empty(0, np.uint64)
    hashes = space_for_sets(batch, options, max_hashes)
    values = empty_values(len(texts), permutations)
    stop = kernels.sign_texts(
        batch, shingle_rule(options), scratch_for(batch.longest, options), orders,
        np.uint64(max_hashes), np.uint64(window),
        kernels.Results(fingerprints, occurrences, values, sizes, hashes, ends, keys),
    )  # fmt: skip
    sets = None
    if max_hashes:
        sets = ShingleSets.of_sizes(sizes.view(np.int64), written(hashes, stop), max_hashes)
    return Combined(
        Fingerprints(fingerprints, occurrences),
        MinwiseHashes(values, occurrences) if permutations else None,
        signatures_of(ends, keys) if window else None,
        sets,
    )
