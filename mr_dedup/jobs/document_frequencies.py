"""The document frequencies job: in how many documents each feature occurs, counted in the cluster.

A map task counts the features of one chunk of documents; a reducer adds up the counts for a range
of features, by the leading bits of their hashes, and drops those that too few documents have. Run
alone it prints ``documents TAB number``, and a line a feature, ``hash TAB documents``, signed
decimals: python -m mr_dedup.jobs.document_frequencies -r local pages.jsonl.gz
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from typing_extensions import Self

from mr_dedup.features.feature_counts import (
    Counts,
    count_features,
    document_frequencies,
    sum_counts,
)
from mr_dedup.features.options import FeatureOptions
from mr_dedup.formats.decimal_kernels import signed_decimals
from mr_dedup.jobs.contract import Add, Counters, Group, Keyed, Reduce, TaskInput
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.document_options import add_feature_options, feature_options

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
        keeps_rejects: Whether rejected records are in the result as well.
        buffered_features: Features that a reducer buffers before it merges them; 16 bytes each.
    """

    features: FeatureOptions = FeatureOptions()
    min_documents: int = 2
    keeps_rejects: bool = True
    buffered_features: int = 1 << 22

    def __post_init__(self) -> None:
        """Check the options."""
        if self.min_documents < 1:
            raise ValueError(f"--min-documents must be at least 1, not {self.min_documents}")

    def warm_up(self) -> None:
        """Compile and load what tasks need."""
        # so many that tables grow
        texts = pa.array([" ".join(map(str, range(1 << 16)))], pa.large_string())
        document_frequencies([texts], self.features)

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the counts of one chunk's features, how many documents it has, and its rejects."""
        with self.reading_of(part, counters) as reading:
            texts = (batch.texts for batch in reading.batches())
            for counts in count_features(texts, self.features):
                yield from _keyed(counts)
            yield _DOCUMENTS_KEY, pa.table({DOCUMENTS: [reading.documents]})
            if self.keeps_rejects:
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
                hashes, counts = self._merged(tables)
                enough = counts >= self.min_documents
                counters["features"] += hashes.size
                counters["features_kept"] += int(np.count_nonzero(enough))
                if enough.any():
                    yield key, _table_of((hashes[enough], counts[enough]))

    def _merged(self, tables: Iterable[pa.Table]) -> Counts:
        """Return the sums of counts."""
        buffered: list[Counts] = []
        features, limit = 0, self.buffered_features
        for table in tables:
            buffered.append(counts_in(table))
            features += len(table)
            if features >= limit:
                buffered = [sum_counts(buffered)]
                features = len(buffered[0][0])
                # merging again before there are twice as many gains nothing
                limit = max(limit, 2 * features)
        return sum_counts(buffered)

    # run alone

    @classmethod
    def add_arguments(cls, add: Add, add_file: Add) -> None:
        """Declare what is read, and which features are counted."""
        super().add_arguments(add, add_file)
        add_feature_options(add, add_file, weights=False)
        add("--min-documents", type=int, default=2, metavar="N",
            help="drop features that fewer documents have (2)")  # fmt: skip

    @classmethod
    def from_arguments(cls, arguments: argparse.Namespace) -> Self:
        """Return the job; raises ValueError for options that contradict one another."""
        return cls(
            **cls.reading_arguments(arguments),
            features=feature_options(arguments),
            min_documents=arguments.min_documents,
            keeps_rejects=False,
        )

    def lines(self, table: pa.Table) -> bytes:
        """Return ``documents TAB number``, or ``hash TAB documents`` a line."""
        if table.column_names == [DOCUMENTS]:
            return b"documents\t%d\n" % table[DOCUMENTS][0].as_py()
        return format_lines(*counts_in(table))


def counts_in(table: pa.Table) -> Counts:
    """Return the features of a table, ascending, and in how many documents each is."""
    return table["feature"].to_numpy(), table["documents"].to_numpy()


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


def format_lines(hashes: NDArray[np.uint64], counts: NDArray[np.uint64]) -> bytes:
    """Return ``hash TAB documents`` a line, signed decimals."""
    numbers = np.column_stack([hashes, counts]).reshape(-1)
    following = np.tile(np.frombuffer(b"\t\n", np.uint8), hashes.size)
    return signed_decimals(numbers, following)


if __name__ == "__main__":
    from mr_dedup.engines.streaming.table_job import run_alone

    run_alone(DocumentFrequenciesJob)
