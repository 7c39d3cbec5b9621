"""What the searches are timed on, made by data_gen, so that what is planted is known."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.measure import Mismatch
from data_gen.distributions import Distribution, Uniform
from data_gen.fingerprints import (
    FingerprintParameters,
    corpus_blocks,
    make_duplicates,
    make_queries,
)
from data_gen.streams import BLOCK_LONGS
from mr_dedup.hamming.matches import Matches

Fingerprints = NDArray[np.uint64]

SEED = 20070508


@dataclass(frozen=True)
class Planted:
    """Queries, and the near-duplicates of some of them that a corpus holds: uint64[n] all."""

    queries: Fingerprints
    near: Fingerprints
    duplicates: Fingerprints

    def require_found(self, found: Matches) -> None:
        """Raise Mismatch unless every planted pair is among merged matches."""
        planted = Matches(self.near, self.duplicates)
        if len(Matches.merged([found, planted])) != len(found):
            raise Mismatch("a planted near-duplicate was not found")


@dataclass(frozen=True)
class Inputs:
    """A corpus that comes in batches, as often as asked for, and what is searched for in it."""

    parameters: FingerprintParameters
    planted: Planted

    @classmethod
    def make(
        cls, corpus_size: int, query_size: int, k: int, distribution: Distribution | None = None
    ) -> Inputs:
        """Return queries, and a corpus of which 1 in 32 is near one of them."""
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
        return cls(parameters, Planted(queries, near, make_duplicates(planting, near)[:, 0]))

    @property
    def queries(self) -> Fingerprints:
        """What is searched for."""
        return self.planted.queries

    def batches(self, size: int) -> Iterator[Fingerprints]:
        """Yield the corpus, ``size`` fingerprints at a time (a multiple of BLOCK_LONGS)."""
        pieces = corpus_blocks(self.parameters, self.planted.duplicates)
        while block := list(itertools.islice(pieces, size // BLOCK_LONGS)):
            yield np.concatenate(block)

    def corpus(self) -> Fingerprints:
        """Return the whole corpus."""
        return np.concatenate(list(self.batches(BLOCK_LONGS)))
