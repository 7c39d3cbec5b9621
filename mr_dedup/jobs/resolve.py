"""The resolve job: of each cluster of documents, which are kept, and which ones they duplicate.

A map task reads one chunk of documents again and yields those that are in clusters, keyed by these:
what the policy looks at, and their texts, each text once, which compressed are a third of their
sets of shingles; or these sets, where the process has them cached, that of a text once in all. A
reducer resolves some whole clusters together. Documents that are in no cluster are not mentioned.

Some inputs, the last ones, may contain documents that an earlier run kept. They are identified by
their numbers and stay kept; their clusters are found by their fingerprints, computed again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.criterion import SIMILAR, Criterion
from mr_dedup.clusters.decisions import Decisions, Limits, resolve
from mr_dedup.clusters.documents import ClusteredDocuments
from mr_dedup.clusters.keep_policy import KeepPolicy
from mr_dedup.clusters.retention import Retention, retain
from mr_dedup.errors import MrDedupError
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import MAX_SHINGLES, ShingleSets, shingle_sets
from mr_dedup.features.stored_shingle_sets import StoredSets
from mr_dedup.features.text_hashes import SeenTexts, number_texts, text_hashes
from mr_dedup.fingerprints.simhash import simhash
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.cached_documents import (
    HASHES,
    SETS,
    columns_of_hashes,
    columns_of_sets,
    fields_of,
    sets_in,
    take_sets,
)
from mr_dedup.jobs.clustered_rows import ClusteredRows
from mr_dedup.jobs.contract import Counters, Group, Keyed, Reduce, TaskInput
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.fingerprint_labels import read_labels
from mr_dedup.jobs.frequencies import read_frequencies
from mr_dedup.jobs.reading import chunk_of

_MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Spreads labels over reduce keys: near-duplicates share their leading bits."""

_BUFFERED_BYTES = 64 << 20
"""Bytes of documents that a map task sorts by reduce keys at a time; less with less memory."""

_GROUP_BYTES = 32 << 20
_MANY_GROUPS = 64
"""Bytes of texts for each reduce key, and the number of keys from which on groups get larger."""

_DOCUMENT_BYTES = 256
"""What a document counts as beside its text; a reduce task has up to 1,000 in memory."""

Clustered = tuple[DocumentBatch, ClusteredRows, NDArray[np.int64]]
"""A batch, which of its documents are in clusters, and the rows of these in their chunk."""

Locate = Callable[[pa.Table, NDArray[np.int64]], pa.Table]
"""Adds to documents of a chunk, given their rows, where they are."""

EARLIER = -1
"""The chunk of all documents that an earlier run kept; their rows are their numbers."""


def reduce_keys_for(size_bytes: int, documents: int = 0) -> int:
    """Return the number of reduce keys for documents in clusters, of texts of ``size_bytes``.

    Each map task yields a table for each key, so that keys in proportion to the bytes would make
    tables in proportion to their square: beyond 2 GB keys grow with the square root of the bytes.
    """
    groups = (size_bytes + _DOCUMENT_BYTES * documents) // _GROUP_BYTES
    return 1 + (groups if groups <= _MANY_GROUPS else math.isqrt(_MANY_GROUPS * groups))


class Resolved(NamedTuple):
    """What is decided on documents of whole clusters: rows of the tables of these, in order."""

    table: pa.Table
    documents: ClusteredDocuments
    decisions: Decisions

    def decided(self) -> pa.Table:
        """Return the decisions as a table."""
        documents, decisions = self.documents, self.decisions
        return pa.table(
            {
                "chunk": self.table["chunk"],
                "row": self.table["row"],
                "cluster": documents.clusters,
                "kept_chunk": documents.files[decisions.kept_rows],
                "kept_row": documents.positions[decisions.kept_rows],
                "distance_bits": decisions.distances,
                "similarity": decisions.similarities,
                "reason": decisions.reasons,
            }
        )


class ResolveJob(DocumentJob, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        clustered: The file of the documents that are in clusters, as ClusteredRows writes it.
        labels: The file of the clusters' fingerprints, for earlier documents.
        keep: Policies that choose the documents to keep; the next ones decide between equals.
        retention: How many documents of a group of duplicates are kept.
        verify: When a document duplicates a kept one; None if texts are not compared.
        shingles: What texts are compared by.
        features: What fingerprints of earlier documents are made of, and ``idf`` their weights.
        reduce_keys: Groups of clusters that are resolved together.
        earlier_from: Chunks of this number and more contain earlier documents.
        stored_bytes: Bytes of sets of shingles that a reduce task has in memory; beyond that they
            are in a temporary file. What deciding takes beside them is in proportion.
    """

    side_files: ClassVar[tuple[str, ...]] = ("idf", "clustered", "labels")

    clustered: str
    labels: str | None = None
    keep: tuple[str, ...] = ("first",)
    retention: Retention = Retention()
    verify: Criterion | None = SIMILAR
    shingles: FeatureOptions = FeatureOptions(unit="auto", weighting="binary")
    features: FeatureOptions = FeatureOptions()
    idf: str | None = None
    reduce_keys: int = 1
    earlier_from: int | None = None
    stored_bytes: int = 256 << 20

    def __post_init__(self) -> None:
        """Check the options."""
        KeepPolicy.parse(self.keep)
        if self.earlier_from is not None and not self.labels:
            raise ValueError("earlier_from: needs labels")
        if self.reduce_keys < 1:
            raise ValueError(f"reduce_keys must be at least 1, not {self.reduce_keys}")

    @cached_property
    def policy(self) -> KeepPolicy:
        """Which documents of a cluster come first."""
        return KeepPolicy.parse(self.keep)

    @cached_property
    def rows(self) -> ClusteredRows:
        """Which documents are in clusters."""
        return ClusteredRows.read(Path(self.clustered))

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the clustered documents of one chunk, keyed by their clusters."""
        chunk = chunk_of(part, self.format)
        is_earlier = self.earlier_from is not None and chunk.number >= self.earlier_from
        cached = None if is_earlier else take_sets(part.cache, chunk.number)
        locate = self.locating(EARLIER if is_earlier else chunk.number)
        if cached is not None:
            yield from self._of_cached(chunk, cached, locate)
        elif is_earlier:
            yield from self._of_texts(self._earlier(part, counters), locate)
        else:
            yield from self._of_texts(self._clustered(part, counters), locate)

    @property
    def _buffered_bytes(self) -> int:
        return min(_BUFFERED_BYTES, self.stored_bytes // 4)

    def rows_of(self, chunk: int) -> tuple[ClusteredRows, int]:
        """Return the clustered documents of a chunk, and how many documents it has."""
        return self.rows.of(chunk)

    def locating(self, chunk: int) -> Locate:
        """Return what adds to documents of a chunk, given their rows, where they are."""

        def locate(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
            table = table.append_column("row", pa.array(rows))
            return table.append_column("chunk", pa.array(np.full(len(table), chunk)))

        return locate

    def _of_cached(
        self, chunk: DocumentChunk, cached: Iterator[pa.Table], locate: Locate
    ) -> Iterator[Keyed]:
        """Yield the clustered documents of a chunk whose sets of shingles are cached."""
        of_chunk, _ = self.rows_of(chunk.number)
        done = 0
        for tables in _grouped(cached, self._buffered_bytes):
            count = sum(map(len, tables))
            clustered = of_chunk.between(done, done + count)
            if clustered.numbers.size:
                order, slices = _by_key(_reduce_keys(clustered.labels, self.reduce_keys))
                clustered = clustered.chosen(order)
                table = self._with_sets(tables, clustered)
                table = locate(table, clustered.numbers + done)
                for key, rows in slices:
                    yield key, table[rows]
            done += count

    def _of_texts(self, found: Iterator[Clustered], locate: Locate) -> Iterator[Keyed]:
        """Yield the clustered documents of a chunk with their texts, each of these once."""
        # 16 bytes a text, an eighth of the memory of sets at most
        seen = SeenTexts(1 << (max(1, self.stored_bytes // 128).bit_length() - 1))
        tables = (
            locate(self._with_texts(batch, clustered, seen), rows)
            for batch, clustered, rows in found
            if clustered.numbers.size
        )
        # batches are small: tables of each batch and key would cost more than their rows
        for group in _grouped(tables, self._buffered_bytes):
            table = pa.concat_tables(group).combine_chunks()
            order, slices = _by_key(_reduce_keys(table["label"].to_numpy(), self.reduce_keys))
            table = table.take(pa.array(order))
            for key, rows in slices:
                yield key, table[rows]

    def _clustered(self, part: TaskInput, counters: Counters) -> Iterator[Clustered]:
        """Yield batches, which of their documents are in clusters, and the rows of these.

        Raises MrDedupError if the chunk has other documents than when it was first read.
        """
        with self.reading_of(part, counters, fields=self.policy.fields) as reading:
            of_chunk, count = self.rows_of(reading.chunk.number)
            wanted = np.zeros(count, np.bool_)
            wanted[of_chunk.numbers] = True
            done = 0
            # the keep job needs it too
            known = self.known_texts(part, reading.chunk, wanted, stays=True)
            for batch in reading.batches(known):
                these = of_chunk.between(done, done + len(batch))
                lengths = batch.text_lengths[these.numbers]
                if not np.array_equal(lengths, these.lengths):
                    break
                yield batch, these, these.numbers + done
                done += len(batch)
            if done != count:
                raise self.changed(reading.chunk)

    def changed(self, chunk: DocumentChunk) -> MrDedupError:
        """Return the error of a chunk that has other documents than before."""
        return MrDedupError(f"{chunk.name}: has other documents than when it was first read")

    def _earlier(self, part: TaskInput, counters: Counters) -> Iterator[Clustered]:
        """Yield the same of a chunk of earlier documents, whose ids are their rows."""
        assert self.labels is not None
        labels = read_labels(Path(self.labels))
        frequencies = read_frequencies(self.idf, self.features)
        with self.reading_of(part, counters, fields=self.policy.fields) as reading:
            for batch in reading.batches():
                fingerprints = simhash(batch.texts, self.features, frequencies)
                label, known = labels.of(fingerprints.values)
                rows = np.flatnonzero(known & fingerprints.has_fingerprint)
                lengths = batch.text_lengths[rows]
                clustered = ClusteredRows(rows, fingerprints.values[rows], label[rows], lengths)
                yield batch, clustered, batch.ids.take(pa.array(rows)).cast(pa.int64()).to_numpy()

    def _described(
        self,
        ids: pa.LargeStringArray,
        fields: pa.Table | Mapping[str, pa.ChunkedArray],
        clustered: ClusteredRows,
    ) -> dict[str, Any]:
        """Return the columns of documents in clusters, but for their texts."""
        rows = pa.array(clustered.numbers)
        known = fields.column_names if isinstance(fields, pa.Table) else fields
        columns: dict[str, Any] = {
            "id": ids.take(rows),
            "length": clustered.lengths,
            "label": clustered.labels,
            "fingerprint": clustered.fingerprints,
        }
        for name in self.policy.fields:
            if f"field_{name}" in known:
                columns[f"field_{name}"] = fields[f"field_{name}"].take(rows)
            else:
                # of earlier documents, which stay whatever the policy
                columns[f"field_{name}"] = pa.nulls(len(rows), pa.large_string())
        return columns

    def _with_texts(
        self, batch: DocumentBatch, clustered: ClusteredRows, seen: SeenTexts
    ) -> pa.Table:
        """Return documents in clusters, with those of their texts that were not ``seen``."""
        rows = clustered.numbers
        columns = self._described(batch.ids, fields_of(batch), clustered)
        if self.verify is not None:
            hashes = text_hashes(batch.texts, rows)
            columns |= columns_of_hashes(hashes)
            columns["text"] = batch.texts.take(pa.array(rows, mask=_known(hashes, seen)))
        return pa.table(columns)

    def _with_sets(self, cached: Sequence[pa.Table], clustered: ClusteredRows) -> pa.Table:
        """Return documents in clusters with the sets of shingles of their texts."""
        rows = clustered.numbers
        starts = np.cumsum([0, *map(len, cached)])
        which = np.searchsorted(starts, rows, side="right") - 1
        others = pa.concat_tables(table.drop_columns(SETS) for table in cached)
        columns = self._described(one_array(others["id"]), others, clustered)
        for name in ("has_text", *HASHES):
            columns[name] = one_array(others[name]).take(pa.array(rows))
        found = [sets_in(table, self.max_hashes) for table in cached]
        sets = ShingleSets.gathered(found, which, rows - starts[which])
        return pa.table(columns | columns_of_sets(sets))

    @property
    def max_hashes(self) -> int:
        """The size at which sets of shingles are cut."""
        return MAX_SHINGLES if self.verify is None else self.verify.max_hashes

    def reduces(self) -> Sequence[Reduce]:
        """Return the one step."""
        return [self.resolve_clusters]

    def resolve_clusters(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the decisions on the documents of some clusters."""
        for key, tables in groups:
            resolved = self.resolved(tables)
            counters["documents_resolved"] += len(resolved.table)
            yield key, resolved.decided()

    def resolved(self, tables: Iterable[pa.Table]) -> Resolved:
        """Return what is decided on documents of whole clusters."""
        with StoredSets(self.stored_bytes) as stored:
            table = pa.concat_tables([self._without_text(table, stored) for table in tables])
            documents, sets = self._documents(table, stored)
            earlier = self.is_earlier(documents.files)
            order = self._best_first(documents, earlier)
            limits = Limits.of(self.stored_bytes)
            decisions = resolve(documents, order, sets, self.verify, earlier, limits)
            decisions = retain(decisions, documents.ids, order, earlier, self.retention)
            del sets
        return Resolved(table, documents, decisions)

    def is_earlier(self, chunks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which chunks contain documents that an earlier run kept."""
        earlier: NDArray[np.bool_] = chunks == EARLIER
        return earlier

    def _without_text(self, table: pa.Table, stored: StoredSets) -> pa.Table:
        """Return documents; the sets of shingles of their texts are stored.

        Row i of all tables has set i, which is empty where the text came with another document.
        """
        if "shingles" in table.column_names:
            stored.append(sets_in(table, self.max_hashes))
            # the last column, as of texts
            has_text = table["has_text"]
            table = table.drop_columns([*SETS, "has_text"]).append_column("has_text", has_text)
            return _copy(table)
        if "text" not in table.column_names:
            return table
        for texts in table["text"].chunks:
            stored.append(shingle_sets(texts, self.shingles, self.max_hashes))
        has_text = table["text"].is_valid()
        return _copy(table.drop_columns(["text"]).append_column("has_text", has_text))

    def _documents(
        self, table: pa.Table, stored: StoredSets
    ) -> tuple[ClusteredDocuments, ShingleSets | None]:
        """Return documents as clusters/ takes them, and the shingles of their distinct texts."""
        verified = self.verify is not None
        texts, sets = _texts(table, stored) if verified else (None, None)
        columns = {name: table[f"field_{name}"] for name in self.policy.fields}
        documents = ClusteredDocuments(
            ids=one_array(table["id"]),
            files=table["chunk"].to_numpy(),
            positions=table["row"].to_numpy(),
            text_bytes=table["length"].to_numpy(),
            clusters=table["label"].to_numpy(),
            fingerprints=table["fingerprint"].to_numpy(),
            has_fingerprint=np.ones(len(table), bool),
            texts=texts,
            fields=pa.table(columns) if columns else None,
        )
        return documents, sets

    def _best_first(
        self, documents: ClusteredDocuments, earlier: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """Return all documents: the earlier ones by their numbers, then the others by the policy.

        What a policy looks at need not be known of earlier ones.
        """
        order = self.policy.rank(documents)
        before = np.flatnonzero(earlier)
        before = before[np.lexsort((documents.positions[before], documents.files[before]))]
        return np.concatenate([before, order[~earlier[order]]])


def _copy(table: pa.Table) -> pa.Table:
    """Return a copy: columns that were read together share memory, which each of them keeps."""
    return table.take(pa.array(np.arange(len(table))))


def _texts(table: pa.Table, stored: StoredSets) -> tuple[NDArray[np.int64], ShingleSets]:
    """Return the number of each document's text, and the set of each text."""
    hashes = np.stack([*(table[name].to_numpy() for name in HASHES)], axis=1)
    numbers, firsts = number_texts(hashes)
    # several tasks may have sent the same text: use any one
    rows = np.flatnonzero(table["has_text"].to_numpy())
    chosen = np.zeros(firsts.size, np.int64)
    chosen[numbers[rows]] = rows
    return chosen[numbers], stored.joined()


def _reduce_keys(labels: NDArray[np.uint64], count: int) -> NDArray[np.uint64]:
    """Return which of ``count`` reduce keys the documents of each label have."""
    keys: NDArray[np.uint64] = ((labels * _MIXER) >> np.uint64(32)) % np.uint64(count)
    return keys


def _by_key(keys: NDArray[np.uint64]) -> tuple[NDArray[np.int64], list[tuple[int, slice]]]:
    """Return the order that groups rows by their keys, and where in it the rows of each key are."""
    order = np.argsort(keys, kind="stable")
    values, starts = np.unique(keys[order], return_index=True)
    stops = [*starts[1:].tolist(), keys.size]
    return order, list(zip(values.tolist(), map(slice, starts.tolist(), stops), strict=True))


def _grouped(tables: Iterable[pa.Table], size_bytes: int) -> Iterator[list[pa.Table]]:
    """Yield lists of tables that have about ``size_bytes`` together."""
    group: list[pa.Table] = []
    group_bytes = 0
    for table in tables:
        group.append(table)
        group_bytes += table.nbytes
        if group_bytes >= size_bytes:
            yield group
            group, group_bytes = [], 0
    if group:
        yield group


def _known(hashes: NDArray[np.uint64], seen: SeenTexts) -> NDArray[np.bool_]:
    """Return which texts were ``seen`` before or are repeated, by their hashes; see the others."""
    known = seen.add(hashes)
    is_first = np.zeros(known.size, np.bool_)
    is_first[number_texts(hashes)[1]] = True
    return known | ~is_first
