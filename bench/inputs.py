"""What the searches are timed on, made by data_gen, so that what is planted is known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from data_gen.distributions import Distribution, Uniform
from data_gen.fingerprints import (
    FingerprintParameters,
    corpus_blocks,
    make_duplicates,
    make_queries,
)

Fingerprints = NDArray[np.uint64]

SEED = 20070508


@dataclass(frozen=True)
class Inputs:
    """A corpus and queries, uint64[n] each; which of the corpus are near which query."""

    corpus: Fingerprints
    queries: Fingerprints
    planted_queries: Fingerprints
    planted: Fingerprints


def make(
    corpus_size: int, query_size: int, k: int, distribution: Distribution | None = None
) -> Inputs:
    """Return a corpus that holds a near-duplicate of every fourth query, and the queries."""
    parameters = FingerprintParameters(
        queries=query_size,
        corpus=corpus_size,
        duplicates_per_query=1,
        k=k,
        seed=SEED,
        distribution=distribution or Uniform(),
    )
    queries = make_queries(parameters)
    near = queries[::4]
    planted = make_duplicates(parameters, queries)[::4, 0]
    planted = planted[: corpus_size // 2]
    corpus = np.concatenate(list(corpus_blocks(parameters, planted)))
    return Inputs(corpus, queries, near[: planted.size], planted)
