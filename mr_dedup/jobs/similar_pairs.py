"""The job of similar pairs: all pairs of documents that methods call alike, with their similarity.

A map task reads a chunk of documents again, and hands on the texts of those that are to be compared
with others, as it is told, by groups. Reduce: the texts of a group are signed, paired by each
method's whole rule, and the pairs compared by shingles. Groups are so large that a task holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from mrjob.step import MRStep
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.batches import Batch, BatchProtocol
from mr_dedup.jobs.document_tables import DocumentTable, decode_documents
from mr_dedup.jobs.documents import DocumentJob, TaskReading
from mr_dedup.jobs.grouped_rows import WHOLE, GroupedRows
from mr_dedup.jobs.inputs import input_name
from mr_dedup.jobs.job import COUNTERS, errors_naming

if TYPE_CHECKING:
    from mr_dedup.features.options import FeatureOptions
    from mr_dedup.formats.documents.chunks import DocumentChunk
    from mr_dedup.signatures.protocol import SignatureMethod

Rows = NDArray[np.int64]
Pairs = Iterator[tuple[Rows, Rows, NDArray[np.float64]]]
"""Rows first[m] < second[m] of a group, and how similar they are."""

UNVERIFIED = "off"

_BITS = 64


class SimilarPairsJob(DocumentJob):
    """See the module."""

    INTERNAL_PROTOCOL = BatchProtocol
    OUTPUT_PROTOCOL = BatchProtocol

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        self.add_file_arg("--grouped", help="which documents are compared (required)")
        self.add_file_arg("--keyword-idf", metavar="FILE", help="what keywords weigh by")
        add = self.add_passthru_arg
        add("--method", action="append", metavar="NAME", help="what calls documents alike")
        add("--verify", default="0.8", metavar="J", help="least similarity of texts, or off")
        add("--shingles", default="auto", help="what texts are compared by (auto)")

    def check_options(self) -> None:
        """Raise ValueError or MrDedupError for options that cannot be."""
        super().check_options()
        self.rules()
        self.threshold()
        self.shingles()
        if not self.options.grouped:
            raise ValueError("--grouped is required")

    def threshold(self) -> float | None:
        """Return the least similarity of texts; None if they are not compared."""
        if self.options.verify == UNVERIFIED:
            return None
        threshold = float(self.options.verify)
        if not 0 < threshold <= 1:
            raise ValueError(f"--verify must be above 0 and at most 1, or off, not {threshold}")
        return threshold

    def shingles(self) -> FeatureOptions:
        """Return what texts are compared by."""
        from mr_dedup.features.options import FeatureOptions

        return FeatureOptions.parse(self.options.shingles, "binary", self.options.normalize)

    def rules(self) -> list[int | SignatureMethod]:
        """Return the methods, of simhash its k; ValueError for what is none."""
        from mr_dedup.jobs.method_options import (
            keyword_frequencies,
            parsed_methods,
            simhash_distance,
        )

        found: list[int | SignatureMethod] = []
        frequencies = keyword_frequencies(self.options)
        for name in self.options.method or ():
            k = simhash_distance(name)
            found += parsed_methods([name], frequencies) if k is None else [k]
        if not found or -1 in found:
            raise ValueError("--method is required, with k of simhash")
        return found

    def steps(self) -> list[MRStep]:
        """Return the one step."""
        return [MRStep(mapper_raw=self.map_documents, reducer=self.reduce_group)]

    @staticmethod
    def warm_up() -> None:
        """Load what tasks need, compiled: once, before they are forked."""
        from mr_dedup.clusters.verification import shingle_sets

        texts = pa.array(["a text", "a text"], pa.large_string())
        shingle_sets(texts).jaccard(np.zeros(1, np.int64), np.ones(1, np.int64))

    def map_documents(self, path: str, uri: str) -> Iterator[tuple[int, Batch]]:
        """Yield the texts of one chunk that are to be compared, keyed by their groups."""
        with errors_naming(input_name(uri), path):
            chunk = self.chunk(path, uri)
        for texts, told in self._told(chunk):
            order = np.argsort(told.keys, kind="stable")
            keys, starts = np.unique(told.keys[order], return_index=True)
            for key, of_key in zip(keys.tolist(), np.split(order, starts[1:]), strict=True):
                table = pa.table(
                    {
                        "number": told.numbers[of_key],
                        "side": told.sides[of_key],
                        "text": texts.take(pa.array(of_key)),
                    }
                )
                yield key, DocumentTable(table)

    def _told(self, chunk: DocumentChunk) -> Iterator[tuple[pa.LargeStringArray, GroupedRows]]:
        """Yield texts that are to be compared, and where each goes.

        Raises MrDedupError if the chunk has other documents than when it was first read.
        """
        grouped = GroupedRows.read(Path(self.options.grouped))
        done, stop = grouped.ranges.get(chunk.number, (0, 0))
        with TaskReading(self, chunk) as reading:
            for batch in reading.batches():
                told = grouped.between(done, done + len(batch))
                rows = told.numbers - done
                if not np.array_equal(np.diff(batch.text_bytes()[0])[rows], told.lengths):
                    break
                done += len(batch)
                if rows.size:
                    yield batch.texts.take(pa.array(rows)), told
        if done != stop:
            raise MrDedupError(f"{chunk.name}: has other documents than when it was first read")

    def reduce_group(self, key: int, batches: Iterable[Batch]) -> Iterator[tuple[int, Batch]]:
        """Yield the pairs of one group: numbers of documents, and their similarity."""
        table = pa.concat_tables([decode_documents(batch) for batch in batches])
        numbers, sides = table["number"].to_numpy(), table["side"].to_numpy()
        # in the order of the documents, whichever the engine's is
        order = np.argsort(numbers)
        numbers, sides = numbers[order], sides[order]
        texts = pa.chunked_array([one_array(table["text"]).take(pa.array(order))]).chunk(0)
        compare = self._comparing(texts)
        count = 0
        for first, second, similarities in self._alike(texts):
            wanted = (sides[first] != sides[second]) | (sides[first] == WHOLE)
            first, second = first[wanted], second[wanted]
            found, kept = compare(first, second, similarities[wanted])
            count += found.size
            if found.size:
                columns = {"first": numbers[first[kept]], "second": numbers[second[kept]]}
                yield key, DocumentTable(pa.table({**columns, "similarity": found}))
        self.increment_counter(COUNTERS, "pairs", count)

    def _comparing(
        self, texts: pa.LargeStringArray
    ) -> Callable[..., tuple[NDArray[np.float64], NDArray[np.bool_]]]:
        """Return what tells the similarity of pairs, and which of them are similar enough."""
        threshold = self.threshold()
        if threshold is None:
            return lambda first, second, found: (found, np.ones(found.size, bool))
        from mr_dedup.clusters.verification import shingle_sets

        sets = shingle_sets(texts, self.shingles())

        def compare(
            first: Rows, second: Rows, _: NDArray[np.float64]
        ) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
            found = sets.jaccard(first, second)
            kept = found >= threshold
            return found[kept], kept

        return compare

    def _alike(self, texts: pa.LargeStringArray) -> Pairs:
        """Yield the pairs that any method calls alike, each once: by the first that does."""
        before: list[Callable[[Rows, Rows], NDArray[np.bool_]]] = []
        is_scored = self.threshold() is None
        for rule in self.rules():
            if isinstance(rule, int):
                paired, holds = self._by_simhash(texts, rule)
            else:
                paired, holds = _by(rule, texts, is_scored)
            for first, second, similarities in paired:
                new = np.ones(first.size, bool)
                for earlier in before:
                    new &= ~earlier(first, second)
                yield first[new], second[new], similarities[new]
            before.append(holds)

    def _by_simhash(
        self, texts: pa.LargeStringArray, k: int
    ) -> tuple[Pairs, Callable[[Rows, Rows], NDArray[np.bool_]]]:
        from mr_dedup.fingerprints.simhash import simhash
        from mr_dedup.hamming.row_pairs import near_rows
        from mr_dedup.signatures.candidates import candidates
        from mr_dedup.signatures.protocol import Signatures

        made = simhash(texts, self.feature_options(), self.document_frequencies())
        known = made.has_fingerprint
        values, rows = made.values[known], np.flatnonzero(known)
        keys = Signatures(
            np.append(0, np.cumsum(known)), values, np.empty((len(texts), 0), np.uint8)
        )

        def paired() -> Pairs:
            for first, second in candidates(keys, 1):
                yield first, second, np.ones(first.size)
            for one, other in near_rows(values, k):
                bits = np.bitwise_count(values[one] ^ values[other])
                yield rows[one], rows[other], 1 - bits / _BITS

        def holds(first: Rows, second: Rows) -> NDArray[np.bool_]:
            near = np.bitwise_count(made.values[first] ^ made.values[second]) <= k
            both: NDArray[np.bool_] = near & known[first] & known[second]
            return both

        return paired(), holds


def _by(
    method: SignatureMethod, texts: pa.LargeStringArray, is_scored: bool
) -> tuple[Pairs, Callable[[Rows, Rows], NDArray[np.bool_]]]:
    """Return the pairs by a method's whole rule, and what tells whether a pair is one.

    How similar they are only if it is asked for: MinHash's estimates take longer than all else.
    """
    from mr_dedup.signatures.candidates import candidates, match, matches

    signatures = method.sign(texts)
    paired: Pairs
    if is_scored or method.needs_verification:
        paired = matches(method, signatures)
    else:
        found = candidates(signatures, method.least)
        paired = ((first, second, np.ones(first.size)) for first, second in found)
    return paired, lambda first, second: match(method, signatures, first, second)


if __name__ == "__main__":
    SimilarPairsJob.run()
