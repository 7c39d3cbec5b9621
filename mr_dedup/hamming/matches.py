"""Matches: pairs of a query and a corpus fingerprint within k bits of one another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Matches:
    """Pairs within k bits: ``queries`` and ``corpus``, uint64[n] each, aligned."""

    queries: NDArray[np.uint64]
    corpus: NDArray[np.uint64]

    @classmethod
    def merged(cls, parts: Sequence[Matches]) -> Matches:
        """Return the pairs of all parts, each once, ascending by query, then corpus.

        The order is that of signed numbers, as results are printed. O(n log n), 40 bytes a pair.
        Sorting by query, then each query's run by itself, takes a third to a seventh of a lexsort.
        """
        # numba takes half a second to import: those who only count matches do without
        from mr_dedup.hamming.kernels import sort_runs

        if not parts:
            return cls(np.empty(0, np.uint64), np.empty(0, np.uint64))
        queries = np.concatenate([part.queries for part in parts])
        corpus = np.concatenate([part.corpus for part in parts])
        order = np.argsort(queries.view(np.int64))
        queries, corpus = queries[order], corpus[order]
        sort_runs(queries, corpus.view(np.int64))
        new = np.ones(queries.size, dtype=bool)
        new[1:] = (queries[1:] != queries[:-1]) | (corpus[1:] != corpus[:-1])
        return cls(queries[new], corpus[new])

    def between(self, start: int, stop: int) -> Matches:
        """Return the pairs from ``start`` to ``stop`` in their order; no copy."""
        return Matches(self.queries[start:stop], self.corpus[start:stop])

    @property
    def distances(self) -> NDArray[np.uint8]:
        """The Hamming distance of each pair."""
        bits: NDArray[np.uint8] = np.bitwise_count(self.queries ^ self.corpus)
        return bits

    @property
    def query_starts(self) -> NDArray[np.intp]:
        """Where each query's pairs start, the pairs being ascending by query."""
        if not len(self):
            return np.empty(0, np.intp)
        return np.flatnonzero(np.r_[True, self.queries[1:] != self.queries[:-1]])

    def __len__(self) -> int:
        return int(self.queries.size)
