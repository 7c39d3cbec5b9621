"""The document frequencies job: in how many documents each feature occurs, counted in the cluster.

A map task counts the features of one chunk of documents; a reducer adds up the counts for a range
of features, by the leading bits of their hashes, and drops those that too few documents have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa

from mr_dedup.features.feature_counts import (
    Counts,
    count_features,
    sum_counts,
)
from mr_dedup.features.options import FeatureOptions
from mr_dedup.jobs.contract import Counters, Group, Keyed, Reduce, TaskInput
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.merging import merged_in_turn

_RANGE_BITS = 8
"""Leading bits of a hash that are its reduce key, so that a range fits in memory."""

_DOCUMENTS_KEY = 1 << _RANGE_BITS
"""The key of how many documents there are; above it those of rejects, by their chunk's number."""

DOCUMENTS = "documents_read"
"""The only column of a table that counts documents."""


class DocumentFrequenciesJob(DocumentJob, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        features: Which features are counted.
        min_documents: Features that fewer documents have are dropped.
        buffered_features: Features that a reducer buffers before it merges them; 16 bytes each.
    """

    features: FeatureOptions = FeatureOptions()
    min_documents: int = 2
    buffered_features: int = 1 << 22

    def __post_init__(self) -> None:
        """Check the options."""
        if self.min_documents < 1:
            raise ValueError(f"--min-documents must be at least 1, not {self.min_documents}")

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the counts of one chunk's features, how many documents it has, and its rejects."""
        with self.reading_of(part, counters) as reading:
            texts = (batch.texts for batch in reading.batches())
            for counts in count_features(texts, self.features):
                yield from _keyed(counts)
            yield _DOCUMENTS_KEY, pa.table({DOCUMENTS: [reading.documents]})
            for rejects in reading.rejects():
                yield _DOCUMENTS_KEY + 1 + reading.chunk.number, rejects

    def reduces(self) -> Sequence[Reduce]:
        """Return the one step."""
        return [self.add_up]

    def add_up(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield what there is of each key: counts of a range of features, documents, or rejects."""
        for key, tables in groups:
            if key > _DOCUMENTS_KEY:
                for table in tables:
                    yield key, table
            elif key == _DOCUMENTS_KEY:
                documents = sum(table[DOCUMENTS][0].as_py() for table in tables)
                yield key, pa.table({DOCUMENTS: [documents]})
            else:
                summed = merged_in_turn(tables, _summed, self.buffered_features)
                hashes, counts = counts_in(summed)
                enough = counts >= self.min_documents
                counters["features"] += hashes.size
                counters["features_kept"] += int(np.count_nonzero(enough))
                if enough.any():
                    yield key, _table_of((hashes[enough], counts[enough]))


def counts_in(table: pa.Table) -> Counts:
    """Return the features of a table, ascending, and in how many documents each is."""
    return table["feature"].to_numpy(), table["documents"].to_numpy()


def _summed(tables: Sequence[pa.Table]) -> pa.Table:
    return _table_of(sum_counts([counts_in(table) for table in tables]))


def _table_of(counts: Counts) -> pa.Table:
    hashes, documents = counts
    return pa.table({"feature": hashes, "documents": documents})


def _keyed(counts: Counts) -> Iterator[Keyed]:
    """Yield ascending features, keyed by the leading bits of their hashes."""
    hashes, documents = counts
    firsts = np.arange(1, 1 << _RANGE_BITS, dtype=np.uint64) << np.uint64(64 - _RANGE_BITS)
    edges = [0, *np.searchsorted(hashes, firsts).tolist(), hashes.size]
    for key, (start, stop) in enumerate(pairwise(edges)):
        if start < stop:
            yield key, _table_of((hashes[start:stop], documents[start:stop]))
