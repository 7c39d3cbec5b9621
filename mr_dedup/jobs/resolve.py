"""The resolve job: of each cluster of documents, which are kept, and for whom the others go.

A map task reads a chunk of documents again, and hands on those that are in a cluster, as it is
told: what their keeper is chosen by, and their texts, each once: compressed, they are a third of
their shingles. Reduce: clusters are resolved, some whole ones together. Documents that are in no
cluster are not mentioned.

Some inputs, the last ones, may hold documents that an earlier run kept. They are called by their
numbers, and stay kept; in which cluster they are their fingerprints say, computed again.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mrjob.step import MRStep
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.tables import one_array, read_table
from mr_dedup.jobs.batches import Batch, BatchProtocol
from mr_dedup.jobs.clustered_rows import ClusteredRows
from mr_dedup.jobs.document_options import read_options
from mr_dedup.jobs.document_tables import DocumentTable, decode_documents
from mr_dedup.jobs.documents import DocumentJob, TaskReading
from mr_dedup.jobs.inputs import input_name
from mr_dedup.jobs.job import COUNTERS, errors_naming

if TYPE_CHECKING:
    from mr_dedup.clusters.components import Ranks
    from mr_dedup.clusters.documents import ClusteredDocuments
    from mr_dedup.clusters.keepers import KeepPolicy
    from mr_dedup.clusters.stored_sets import StoredSets
    from mr_dedup.clusters.verification import ShingleSets
    from mr_dedup.features.options import FeatureOptions
    from mr_dedup.formats.documents.batch import DocumentBatch
    from mr_dedup.formats.documents.chunks import DocumentChunk
    from mr_dedup.jobs.held_sets import HeldBatchOfSets

    _Clustered = tuple[DocumentBatch, ClusteredRows, NDArray[np.int64]]

_MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Spreads labels over reduce keys: near-duplicates share their leading bits."""

UNVERIFIED = "off"

EARLIER = -1
"""The chunk of all documents that an earlier run kept; their rows are their numbers."""


class ResolveJob(DocumentJob):
    """See the module."""

    stored_bytes = 256 << 20
    """Bytes of sets of shingles that a reduce task has in memory; more are in a temporary file."""

    INTERNAL_PROTOCOL = BatchProtocol
    OUTPUT_PROTOCOL = BatchProtocol

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        self.add_file_arg("--clustered", help="which documents are in clusters (required)")
        self.add_file_arg("--labels", help="the clusters' fingerprints, for earlier documents")
        add = self.add_passthru_arg
        add("--keep", action="append", metavar="POLICY", help="whom to keep of a cluster (first)")
        add("--verify", default="0.8", metavar="J", help="least similarity to a keeper, or off")
        add("--shingles", default="auto", help="what texts are compared by (auto)")
        add("--reduce-keys", type=int, default=1, help="groups of clusters resolved together")
        add("--earlier-from", type=int, metavar="N",
            help="chunks of this number and more hold documents that were kept before")  # fmt: skip

    def check_options(self) -> None:
        """Raise ValueError or MrDedupError for options that cannot be."""
        super().check_options()
        self.policy()
        self.threshold()
        self.shingles()
        if not self.options.clustered:
            raise ValueError("--clustered is required")
        if self.options.earlier_from is not None and not self.options.labels:
            raise ValueError("--earlier-from needs --labels")
        if self.options.reduce_keys < 1:
            raise ValueError(f"--reduce-keys must be at least 1, not {self.options.reduce_keys}")

    def read_options(self) -> ReadOptions:
        """Return how documents are to be read."""
        return read_options(self.options, self.policy().fields)

    @functools.cached_property
    def clustered(self) -> ClusteredRows:
        """Which documents are in clusters: for the tasks of a process, threads perhaps, once."""
        return ClusteredRows.read(Path(self.options.clustered))

    def policy(self) -> KeepPolicy:
        """Return whom to keep."""
        from mr_dedup.clusters.keepers import KeepPolicy

        return KeepPolicy.parse(self.options.keep or ["first"])

    def threshold(self) -> float | None:
        """Return the least similarity to a keeper; None if texts are not compared."""
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

    def steps(self) -> list[MRStep]:
        """Return the one step."""
        return [MRStep(mapper_raw=self.map_documents, reducer=self.reduce_clusters)]

    @staticmethod
    def warm_up() -> None:
        """Load what tasks need, compiled: once, before they are forked."""
        from mr_dedup.clusters.decisions import warm_up
        from mr_dedup.clusters.verification import text_hashes
        from mr_dedup.features.options import FeatureOptions
        from mr_dedup.fingerprints.simhash import simhash

        texts = pa.array(["a text"], pa.large_string())
        values = simhash(texts, FeatureOptions()).values
        Labels(values, values).of(values)
        text_hashes(texts)
        warm_up()

    def map_documents(self, path: str, uri: str) -> Iterator[tuple[int, Batch]]:
        """Yield the clustered documents of one chunk, keyed by their clusters."""
        with errors_naming(input_name(uri), path):
            chunk = self.chunk(path, uri)
        is_earlier = (
            self.options.earlier_from is not None and chunk.number >= self.options.earlier_from
        )
        if self.held is not None and not is_earlier and chunk.number in self.held.chunks:
            yield from self._held(chunk)
            return
        found = self._earlier(chunk) if is_earlier else self._told(chunk)
        seen: set[bytes] = set()
        for batch, clustered, rows in found:
            if not clustered.numbers.size:
                continue
            keys = _reduce_keys(clustered.labels, self.options.reduce_keys)
            # by keys before texts are copied, so that they are once
            order = np.argsort(keys, kind="stable")
            table = self._described(batch, clustered.take(order), seen)
            table = table.append_column("row", pa.array(rows[order]))
            number = EARLIER if is_earlier else chunk.number
            table = table.append_column("chunk", pa.array(np.full(len(table), number)))
            yield from _keyed(table, keys[order])

    def _held(self, chunk: DocumentChunk) -> Iterator[tuple[int, Batch]]:
        """Yield the same of a chunk whose sets are held, with their places instead of texts."""
        assert self.held is not None
        told, _ = self.clustered.of(chunk.number)
        done = 0
        for batch in self.held.chunks.pop(chunk.number):
            clustered = told.between(done, done + len(batch.ids))
            if clustered.numbers.size:
                keys = _reduce_keys(clustered.labels, self.options.reduce_keys)
                order = np.argsort(keys, kind="stable")
                table = self._described_by_sets(batch, clustered.take(order))
                rows = clustered.numbers[order] + done
                table = table.append_column("row", pa.array(rows))
                number = np.full(len(table), chunk.number)
                yield from _keyed(table.append_column("chunk", pa.array(number)), keys[order])
            done += len(batch.ids)

    def _described_by_sets(self, batch: HeldBatchOfSets, clustered: ClusteredRows) -> pa.Table:
        assert self.held is not None
        rows = clustered.numbers
        columns: dict[str, Any] = {
            "id": batch.ids.take(pa.array(rows)),
            "length": clustered.lengths,
            "label": clustered.labels,
            "fingerprint": clustered.fingerprints,
        }
        for name in self.policy().fields:
            assert batch.fields is not None
            columns[f"field {name}"] = batch.fields[name].take(pa.array(rows))
        columns |= _halves(batch.hashes[rows])
        return pa.table({**columns, **_references(self.held.put(batch.sets), rows)})

    def _told(self, chunk: DocumentChunk) -> Iterator[_Clustered]:
        """Yield batches of a chunk, which of their documents are in clusters, and their rows.

        Raises MrDedupError if the chunk has other documents than when it was first read.
        """
        told, count = self.clustered.of(chunk.number)
        done = 0
        with TaskReading(self, chunk) as reading:
            for batch in reading.batches():
                these = told.between(done, done + len(batch))
                lengths = np.diff(batch.text_bytes()[0])[these.numbers]
                if not np.array_equal(lengths, these.lengths):
                    break
                yield batch, these, these.numbers + done
                done += len(batch)
        if done != count:
            raise MrDedupError(f"{chunk.name}: has other documents than when it was first read")

    def _earlier(self, chunk: DocumentChunk) -> Iterator[_Clustered]:
        """Yield the same of a chunk of earlier documents, whose ids are their rows."""
        from mr_dedup.fingerprints.simhash import simhash

        labels, frequencies = Labels.read(Path(self.options.labels)), self.document_frequencies()
        with TaskReading(self, chunk) as reading:
            for batch in reading.batches():
                fingerprints = simhash(batch.texts, self.feature_options(), frequencies)
                label, known = labels.of(fingerprints.values)
                places = np.flatnonzero(known & fingerprints.has_fingerprint)
                lengths = np.diff(batch.text_bytes()[0])[places]
                values = fingerprints.values[places]
                clustered = ClusteredRows(places, values, label[places], lengths, {})
                yield batch, clustered, batch.ids.take(pa.array(places)).cast(pa.int64()).to_numpy()

    def _described(
        self, batch: DocumentBatch, clustered: ClusteredRows, seen: set[bytes]
    ) -> pa.Table:
        """Return what is to be known of those in clusters.

        Of their texts those not ``seen``, or where they are held the places of their sets.
        """
        from mr_dedup.clusters.verification import number_texts, shingle_sets, text_hashes

        rows = clustered.numbers
        columns: dict[str, Any] = {
            "id": batch.ids.take(pa.array(rows)),
            "length": clustered.lengths,
            "label": clustered.labels,
            "fingerprint": clustered.fingerprints,
        }
        for name in self.policy().fields:
            assert batch.fields is not None
            columns[f"field {name}"] = batch.fields[name].take(pa.array(rows))
        if self.threshold() is not None:
            hashes = text_hashes(batch.texts, rows)
            columns |= _halves(hashes)
            if self.held is None:
                columns["text"] = batch.texts.take(pa.array(rows, mask=_known(hashes, seen)))
            else:
                numbers, firsts = number_texts(hashes)
                sets = shingle_sets(batch.texts.take(pa.array(rows[firsts])), self.shingles())
                columns |= _references(self.held.put(sets), numbers)
        return pa.table(columns)

    def reduce_clusters(self, key: int, batches: Iterable[Batch]) -> Iterator[tuple[int, Batch]]:
        """Yield the decisions on the documents of some clusters."""
        from mr_dedup.clusters.decisions import resolve
        from mr_dedup.clusters.stored_sets import StoredSets

        with StoredSets(self.stored_bytes) as stored:
            table = pa.concat_tables([self._without_text(batch, stored) for batch in batches])
            documents, sets = self._documents(table, stored)
            earlier = documents.files == EARLIER
            order = self._best_first(documents, earlier)
            decisions = resolve(documents, order, sets, self.threshold(), earlier)
            del sets
        result = pa.table(
            {
                "chunk": table["chunk"],
                "row": table["row"],
                "cluster": documents.clusters,
                "keeper": documents.ids.take(pa.array(decisions.keepers)),
                "keeper chunk": documents.files[decisions.keepers],
                "keeper row": documents.places[decisions.keepers],
                "distance": decisions.distances,
                "similarity": decisions.similarities,
                "reason": decisions.reasons,
            }
        )
        yield key, DocumentTable(result)
        self.increment_counter(COUNTERS, "documents resolved", len(decisions))

    def _without_text(self, batch: Batch, stored: StoredSets) -> pa.Table:
        """Return the documents of a batch; the sets of shingles of their texts are stored.

        Row i of all batches has set i, which is empty where the text came with another document.
        """
        from mr_dedup.clusters.verification import shingle_sets

        table = decode_documents(batch)
        if "text" not in table.column_names:
            return table
        for texts in table["text"].chunks:
            stored.append(shingle_sets(texts, self.shingles()))
        has_text = table["text"].is_valid()
        return table.drop_columns(["text"]).append_column("has text", has_text)

    def _documents(
        self, table: pa.Table, stored: StoredSets
    ) -> tuple[ClusteredDocuments, ShingleSets | None]:
        """Return documents as clusters/ takes them, and the shingles of their distinct texts."""
        from mr_dedup.clusters.documents import ClusteredDocuments

        verified = self.threshold() is not None
        texts, sets = self._texts(table, stored) if verified else (None, None)
        columns = {name: table[f"field {name}"] for name in self.policy().fields}
        documents = ClusteredDocuments(
            ids=one_array(table["id"]),
            files=table["chunk"].to_numpy(),
            places=table["row"].to_numpy(),
            text_bytes=table["length"].to_numpy(),
            clusters=table["label"].to_numpy(),
            fingerprints=table["fingerprint"].to_numpy(),
            exist=np.ones(len(table), bool),
            texts=texts,
            fields=pa.table(columns) if columns else None,
        )
        return documents, sets

    def _texts(self, table: pa.Table, stored: StoredSets) -> tuple[NDArray[np.int64], ShingleSets]:
        """Return the number of each document's text, and the set of each text."""
        from mr_dedup.clusters.verification import number_texts

        hashes = np.stack([table["text a"].to_numpy(), table["text b"].to_numpy()], axis=1)
        numbers, firsts = number_texts(hashes)
        if self.held is not None:
            parts, rows = table["part"].to_numpy(), table["row of part"].to_numpy()
            return numbers, self.held.gathered(parts[firsts], rows[firsts])
        # a text comes from every task that met it: one will do
        rows = np.flatnonzero(table["has text"].to_numpy())
        chosen = np.zeros(firsts.size, np.int64)
        chosen[numbers[rows]] = rows
        return chosen[numbers], stored.joined()

    def _best_first(
        self, documents: ClusteredDocuments, earlier: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return all documents: the earlier ones by their numbers, then the others by the policy.

        What a policy looks at need not be known of earlier ones.
        """
        order = self.policy().rank(documents).order
        before = np.flatnonzero(earlier)
        before = before[np.argsort(documents.places[before])]
        return np.concatenate([before, order[~earlier[order]]])


class Labels:
    """The fingerprints that are in clusters of several documents, and their clusters."""

    def __init__(self, fingerprints: NDArray[np.uint64], labels: NDArray[np.uint64]) -> None:
        """Take aligned arrays; ``fingerprints`` strictly ascending."""
        self.fingerprints = fingerprints
        self.labels = labels
        self._ranks: Ranks | None = None

    @classmethod
    def read(cls, path: Path) -> Labels:
        """Return what ``write`` wrote; raises FormatError where it is damaged."""
        try:
            table = read_table(path)
            return cls(table["fingerprint"].to_numpy(), table["label"].to_numpy())
        except (pa.ArrowException, OSError, KeyError) as error:
            raise FormatError(path, None, f"holds no labels: {error}") from error

    def write(self, path: Path) -> None:
        """Write them to ``path``, Parquet with checksums."""
        table = pa.table({"fingerprint": self.fingerprints, "label": self.labels})
        pq.write_table(table, path, write_page_checksum=True, use_dictionary=False)

    def of(self, fingerprints: NDArray[np.uint64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
        """Return the label of each of ``fingerprints``, and whether there is one."""
        from mr_dedup.clusters.components import Ranks

        if not self.fingerprints.size:
            return np.zeros(fingerprints.size, np.uint64), np.zeros(fingerprints.size, bool)
        if self._ranks is None:
            self._ranks = Ranks(self.fingerprints)
        places = self._ranks.of(fingerprints)
        return self.labels[places], places >= 0


def _reduce_keys(labels: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    """Return which of ``count`` reduce keys the documents of each label have."""
    keys: NDArray[np.uint64] = ((labels * _MIXER) >> np.uint64(32)) % np.uint64(count)
    return keys


def _keyed(table: pa.Table, keys: NDArray[np.uint64]) -> Iterator[tuple[int, Batch]]:
    """Yield the rows of each key; ``keys`` ascend."""
    values, starts = np.unique(keys, return_index=True)
    stops = [*starts[1:].tolist(), keys.size]
    for value, start, stop in zip(values.tolist(), starts.tolist(), stops, strict=True):
        yield value, DocumentTable(table.slice(start, stop - start))


def _halves(hashes: NDArray[np.uint64]) -> dict[str, NDArray[np.uint64]]:
    return {"text a": hashes[:, 0], "text b": hashes[:, 1]}


def _references(part: int, rows: NDArray[np.int64]) -> dict[str, NDArray[np.int64]]:
    """Return the columns that say where the sets of some documents are held."""
    return {"part": np.full(rows.size, part), "row of part": rows}


def _known(hashes: NDArray[np.uint64], seen: set[bytes]) -> NDArray[np.bool_]:
    """Return which texts were ``seen`` before, by their hashes, and put the others there."""
    digests = np.ascontiguousarray(hashes).view("V16").ravel().tolist()
    known = []
    for digest in digests:
        known.append(digest in seen)
        seen.add(digest)
    return np.array(known, bool)


if __name__ == "__main__":
    ResolveJob.run()
