"""Simhash, min-wise hashes and sets of shingles of texts, of the same shingles, in one pass.

To find the shingles of a text takes longer than all that is made of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa

from mr_dedup.clusters.verification import MOST_SHINGLES, ShingleSets, room_for_sets
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.preparation import table_for
from mr_dedup.features.shingles import scratch_for, slices_of
from mr_dedup.fingerprints.simhash import Fingerprints, scratch_for_bits
from mr_dedup.signatures import combined_kernels as kernels
from mr_dedup.signatures.minwise import (
    MinwiseHashes,
    check_permutations,
    permutation_constants,
    scratch_for_orders,
)


class Combined(NamedTuple):
    """What ``simhash``, ``minwise_hashes`` and ``shingle_sets`` return."""

    fingerprints: Fingerprints
    hashes: MinwiseHashes
    sets: ShingleSets | None


def can_be_combined(options: FeatureOptions) -> bool:
    """Return whether fingerprints by these features can be made beside the others.

    Those that weigh each occurrence alike.
    """
    return options.steps.size == 1 and not options.uses_idf


def combined(
    texts: pa.LargeStringArray, permutations: int, options: FeatureOptions, *, sets: bool
) -> Combined:
    """Return all of every text, as if made one after the other; the sets only if asked for.

    Memory: all of it, and the longest text's scratch.
    Raises ValueError as they do, and for features that cannot be combined.
    """
    if not can_be_combined(options):
        raise ValueError(f"options: {options} weigh occurrences unlike one another")
    check_permutations(permutations)
    content, starts, stops = slices_of(texts, options)
    scratch = scratch_for(int((stops - starts).max(initial=0)), options)
    flips, factors = permutation_constants(permutations)
    values, occurrences, sizes = np.zeros((3, stops.size), np.uint64)
    least = np.full((stops.size, flips.size), 0xFFFFFFFF, np.uint32)
    most = MOST_SHINGLES if sets else 0
    hashes = room_for_sets(starts, stops, options, most)
    written = kernels.sign_texts(
        content, starts, stops, *table_for(options), options.unit == "characters",
        np.uint64(options.length), options.steps, scratch, flips, factors, values, occurrences,
        least, np.uint64(most), sizes, hashes, *scratch_for_bits(),
        *scratch_for_orders(permutations),
    )  # fmt: skip
    hashes.resize(written, refcheck=False)
    return Combined(
        Fingerprints(values, occurrences),
        MinwiseHashes(least, occurrences),
        ShingleSets.of_sizes(sizes.view(np.int64), hashes, most) if sets else None,
    )
