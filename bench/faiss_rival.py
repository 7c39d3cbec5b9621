"""The binary indices of faiss, with parameters that make them exact for k = 3. One thread.

IndexBinaryMultiHash with 4 hashes of 16 bits is the four-table design: without flipped bits in the
hashes it finds all pairs within 3 bits. IndexBinaryFlat compares everything. A range search returns
distances below its radius, so the radius is k + 1.

The queries are indexed: with the corpus indexed instead, MultiHash took 4.0 s to build (0.6) and
112 s to probe (55), because each probe has 8 times as many candidates.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.measure import PairArrays

Fingerprints = NDArray[np.uint64]


class FaissIndex:
    """Queries in a faiss index: MultiHash or Flat."""

    def __init__(self, queries: Fingerprints, k: int, *, multi_hash: bool) -> None:
        """Index ``queries`` uint64[n]. Raises ImportError if faiss is not installed."""
        import faiss

        faiss.omp_set_num_threads(1)
        self._k = k
        self._queries = queries
        self._index: faiss.IndexBinary
        if multi_hash:
            # k + 1 hashes of 64 / (k + 1) bits each: at least one of them is equal
            hashed = faiss.IndexBinaryMultiHash(64, k + 1, 64 // (k + 1))
            hashed.nflip = 0
            self._index = hashed
        else:
            self._index = faiss.IndexBinaryFlat(64)
        self._index.add(_bytes(queries))

    def probe(self, corpus: Fingerprints) -> PairArrays:
        """Return the pairs of a query and one of ``corpus`` uint64[n], in the order of faiss."""
        limits, _, ranks = self._index.range_search(_bytes(corpus), self._k + 1)
        return self._queries[ranks], np.repeat(corpus, np.diff(limits).astype(np.int64))


class SingleQueries:
    """A corpus in an exact faiss index, for one query at a time."""

    KINDS = ("MultiHash", "BinaryHash")

    def __init__(self, kind: str, corpus: Fingerprints, k: int) -> None:
        """Index ``corpus`` uint64[n]. Raises ImportError if faiss is not installed.

        MultiHash as above. BinaryHash has one table, keyed by leading bits, and probes all buckets
        with keys within k bits: for 10 million, 24 bits were faster than 16 and 20.
        """
        import faiss

        faiss.omp_set_num_threads(1)
        self._corpus, self._k = corpus, k
        index: faiss.IndexBinary
        if kind == "MultiHash":
            index = faiss.IndexBinaryMultiHash(64, k + 1, 64 // (k + 1))
            index.nflip = 0
        else:
            index = faiss.IndexBinaryHash(64, max(8, min(24, corpus.size.bit_length())))
            index.nflip = k
        index.add(_bytes(corpus))
        self._index = index

    def query(self, one: Fingerprints) -> Fingerprints:
        """Return the fingerprints within k bits of one, uint64[1]."""
        _, _, ranks = self._index.range_search(_bytes(one), self._k + 1)
        matches: Fingerprints = self._corpus[ranks]
        return matches


def _bytes(fingerprints: Fingerprints) -> NDArray[np.uint8]:
    return fingerprints.view(np.uint8).reshape(-1, 8)
