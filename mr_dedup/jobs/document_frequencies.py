"""The document frequencies job: in how many documents each feature occurs, counted in the cluster.

A map task counts the features of one chunk of documents; a reducer adds up the counts for a range
of features, by the leading bits of their hashes, and drops those that too few documents have. Run
by a command its output are batches; run alone it prints ``documents TAB number``, and a line a
feature, ``hash TAB documents``, signed decimals:
python -m mr_dedup.jobs.document_frequencies -r local pages.jsonl.gz
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from mrjob.step import MRStep
from numpy.typing import NDArray

from mr_dedup.jobs.batches import (
    BatchProtocol,
    Kind,
    LinesProtocol,
    decode_columns,
    encode_columns,
)
from mr_dedup.jobs.documents import DocumentJob, TaskReading
from mr_dedup.jobs.inputs import input_name
from mr_dedup.jobs.job import errors_naming

if TYPE_CHECKING:
    from mr_dedup.features.feature_counts import Counts
    from mr_dedup.features.options import FeatureOptions

_RANGE_BITS = 8
"""Leading bits of a hash that are its reduce key, so that a range fits in memory."""

_DOCUMENTS_KEY = 1 << _RANGE_BITS
"""The key of how many documents there are; above it those of rejects, by their chunk's number."""

_HELD_FEATURES = 1 << 22
"""Features held before they are merged: 64 MB."""


class DocumentFrequenciesJob(DocumentJob):
    """See the module."""

    INTERNAL_PROTOCOL = BatchProtocol
    weighs_features = False

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        add = self.add_passthru_arg
        add("--min-documents", type=int, default=2, metavar="N",
            help="drop features that fewer documents have (2)")  # fmt: skip
        add("--as-batches", action="store_true", help="write batches for mr_dedup, not lines")

    def check_options(self) -> None:
        """Raise ValueError or MrDedupError for options that cannot be."""
        super().check_options()
        if self.options.min_documents < 1:
            raise ValueError(
                f"--min-documents must be at least 1, not {self.options.min_documents}"
            )

    def output_protocol(self) -> BatchProtocol | LinesProtocol:
        """Return the protocol of what the job writes."""
        return BatchProtocol() if self.options.as_batches else LinesProtocol()

    def steps(self) -> list[MRStep]:
        """Return the one step."""
        return [
            MRStep(
                mapper_raw=self.map_documents,
                reducer_init=self.start_counting,
                reducer=self.reduce_counts,
                reducer_final=self.count_kept,
            )
        ]

    @staticmethod
    def warm_up(options: FeatureOptions | None = None) -> None:
        """Load what tasks need, compiled: once, before they are forked."""
        import pyarrow as pa

        from mr_dedup.features.feature_counts import document_frequencies
        from mr_dedup.features.options import FeatureOptions

        # so many that tables grow
        texts = pa.array([" ".join(map(str, range(1 << 16)))], pa.large_string())
        document_frequencies([texts], options or FeatureOptions())

    def map_documents(self, path: str, uri: str) -> Iterator[tuple[int, bytes]]:
        """Yield the counts of one chunk's features, how many documents it has, and its rejects."""
        from mr_dedup.features.feature_counts import count_features

        with errors_naming(input_name(uri), path):
            chunk = self.chunk(path, uri)
        with TaskReading(self, chunk) as reading:
            texts = (batch.texts for batch in reading.batches())
            for counts in count_features(texts, self.feature_options()):
                yield from _keyed_batches(counts)
            yield _DOCUMENTS_KEY, _encoded_count(reading.documents)
            if self.options.as_batches:
                for rejects in reading.rejects():
                    yield _DOCUMENTS_KEY + 1 + chunk.number, rejects
        reading.count()

    def start_counting(self) -> None:
        """Begin a reduce task."""
        self.features = self.kept = 0

    def count_kept(self) -> None:
        """End a reduce task: a counter costs a flush, so each is told once."""
        self.count(features=self.features, features_kept=self.kept)

    def reduce_counts(
        self, key: int, batches: Iterable[bytes]
    ) -> Iterator[tuple[int | None, bytes]]:
        """Yield what there is of one key: counts of a range of features, documents, or rejects."""
        if key > _DOCUMENTS_KEY:
            for batch in batches:
                yield key, batch
        elif key == _DOCUMENTS_KEY:
            documents = sum(decoded_count(batch) for batch in batches)
            if self.options.as_batches:
                yield key, _encoded_count(documents)
            else:
                yield None, b"documents\t%d\n" % documents
        else:
            hashes, counts = self._merged(batches)
            if self.options.as_batches:
                for batch in encode_columns(Kind.FREQUENCIES, [hashes, counts]):
                    yield key, batch
            elif hashes.size:
                yield None, format_lines(hashes, counts)

    def _merged(self, batches: Iterable[bytes]) -> Counts:
        """Return the sums of counts, without features that too few documents have."""
        from mr_dedup.features.feature_counts import sum_counts

        held, features, limit = [], 0, _HELD_FEATURES
        for batch in batches:
            held.append(decode_counts(batch))
            features += len(held[-1][0])
            if features >= limit:
                held = [sum_counts(held)]
                features = len(held[0][0])
                # merging again before there are twice as many gains nothing
                limit = max(limit, 2 * features)
        hashes, counts = sum_counts(held)
        enough = counts >= self.options.min_documents
        self.features += hashes.size
        self.kept += int(np.count_nonzero(enough))
        return hashes[enough], counts[enough]


def decode_counts(batch: bytes) -> Counts:
    """Return the counts of one batch; raises MrDedupError if it is damaged."""
    hashes, counts = decode_columns(Kind.FREQUENCIES, batch, 2)
    return hashes, counts


def decoded_count(batch: bytes) -> int:
    """Return the number that a batch is; raises MrDedupError if it is damaged."""
    return int(decode_columns(Kind.COUNT, batch, 1)[0][0])


def _encoded_count(number: int) -> bytes:
    (batch,) = encode_columns(Kind.COUNT, [np.array([number], np.uint64)])
    return batch


def _keyed_batches(counts: Counts) -> Iterator[tuple[int, bytes]]:
    """Yield ascending features as batches, keyed by the leading bits of their hashes."""
    hashes, _ = counts
    firsts = np.arange(1, 1 << _RANGE_BITS, dtype=np.uint64) << np.uint64(64 - _RANGE_BITS)
    edges = [0, *np.searchsorted(hashes, firsts).tolist(), hashes.size]
    for key, (start, stop) in enumerate(pairwise(edges)):
        for batch in encode_columns(Kind.FREQUENCIES, [column[start:stop] for column in counts]):
            yield key, batch


def format_lines(hashes: NDArray[np.uint64], counts: NDArray[np.uint64]) -> bytes:
    """Return ``hash TAB documents`` a line, signed decimals."""
    # numba takes half a second to import: the client does without
    from mr_dedup.formats.decimal_kernels import signed_decimals

    numbers = np.column_stack([hashes, counts]).reshape(-1)
    following = np.tile(np.frombuffer(b"\t\n", np.uint8), hashes.size)
    return signed_decimals(numbers, following)


if __name__ == "__main__":
    DocumentFrequenciesJob.run()
