"""Simhash, min-wise hashes and sets of shingles of texts, in one pass over the same shingles.

To find the shingles of a text takes longer than everything computed from them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import prepared_batch
from mr_dedup.features.shingle_sets import MAX_SHINGLES, ShingleSets, space_for_sets
from mr_dedup.features.shingles import scratch_for, shingle_rule
from mr_dedup.fingerprints.simhash import Fingerprints
from mr_dedup.signatures import combined_kernels as kernels
from mr_dedup.signatures.minwise import MinwiseHashes, empty_values, orders_of


class Combined(NamedTuple):
    """The results of ``simhash``, ``minwise_hashes`` and, if wanted, ``shingle_sets``."""

    fingerprints: Fingerprints
    hashes: MinwiseHashes
    sets: ShingleSets | None


def can_be_combined(options: FeatureOptions) -> bool:
    """Return whether fingerprints by these features can be computed in the same pass.

    Only if every occurrence of every feature has the same weight.
    """
    return options.steps.size == 1 and not options.uses_idf


def combined(
    texts: pa.LargeStringArray, permutations: int, options: FeatureOptions, *, sets: bool
) -> Combined:
    """Return fingerprints, min-wise hashes and sets of shingles, equal to those made separately.

    Memory: the results, and the scratch of the longest text.

    Args:
        texts: n texts.
        permutations: The number of min-wise hashes.
        options: Which shingles a text has; see :func:`can_be_combined`.
        sets: Whether to return the sets of shingles.

    Raises:
        ValueError: For features that cannot be combined, another type of array, or
            ``permutations`` out of range.
    """
    if not can_be_combined(options):
        raise ValueError(f"options: {options} have occurrences of different weights")
    orders = orders_of(permutations)
    batch = prepared_batch(texts, options)
    fingerprints, occurrences, sizes = np.zeros((3, len(texts)), np.uint64)
    max_hashes = MAX_SHINGLES if sets else 0
    hashes = space_for_sets(batch, options, max_hashes)
    values = empty_values(len(texts), permutations)
    written = kernels.sign_texts(
        batch, shingle_rule(options), scratch_for(batch.longest, options), orders,
        np.uint64(max_hashes),
        kernels.Results(fingerprints, occurrences, values, sizes, hashes),
    )  # fmt: skip
    hashes.resize(written, refcheck=False)
    return Combined(
        Fingerprints(fingerprints, occurrences),
        MinwiseHashes(values, occurrences),
        ShingleSets.of_sizes(sizes.view(np.int64), hashes, max_hashes) if sets else None,
    )
