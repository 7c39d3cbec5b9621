"""What the searches are timed on, made by data_gen, so that what is planted is known."""

from __future__ import annotations

import dataclasses
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
    """Return queries, and a corpus that holds near-duplicates of some of them: 1 in 32."""
    parameters = FingerprintParameters(
        queries=query_size,
        corpus=corpus_size,
        duplicates_per_query=0,
        k=k,
        seed=SEED,
        distribution=distribution or Uniform(),
    )
    queries = make_queries(parameters)
    near = queries[: corpus_size // 32]
    planting = dataclasses.replace(parameters, queries=near.size, duplicates_per_query=1)
    planted = make_duplicates(planting, near)[:, 0]
    corpus = np.concatenate(list(corpus_blocks(parameters, planted)))
    return Inputs(corpus, queries, near, planted)
