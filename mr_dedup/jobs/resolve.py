"""The resolve job: of each cluster of documents, which are kept, and which ones they duplicate.

A map task reads one chunk of documents again and yields those that are in clusters, keyed by these:
what the policy looks at, and their texts, each text once, which compressed are a third of their
sets of shingles; or these sets, where the process has them cached, that of a text once in all. A
reducer resolves some whole clusters together. It leaves shards with the decisions on these, the
clusters, and what a report shows of them, which ``order_decisions`` brings together by chunk.
Documents that are in no cluster are not mentioned.

The first chunks may be documents that an earlier run kept. These stay kept.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.clusters.criterion import SIMILAR, Criterion
from mr_dedup.clusters.decisions import Decisions, Limits, are_kept, resolve
from mr_dedup.clusters.documents import ClusteredDocuments
from mr_dedup.clusters.duplicate_counts import DuplicateCounts, count_duplicates
from mr_dedup.clusters.keep_policy import KeepPolicy
from mr_dedup.clusters.retention import Retention, retain
from mr_dedup.errors import MrDedupError
from mr_dedup.features.options import FeatureOptions
from mr_dedup.features.shingle_sets import MAX_SHINGLES, ShingleSets, shingle_sets
from mr_dedup.features.stored_shingle_sets import StoredSets
from mr_dedup.features.text_hashes import SeenTexts, number_texts, text_hashes
from mr_dedup.fingerprints.simhash import simhash
from mr_dedup.formats.count_tables import COUNTS
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
from mr_dedup.jobs.contract import Counters, Group, Keyed, Reduce, TaskInput
from mr_dedup.jobs.frequencies import read_frequencies
from mr_dedup.jobs.order_decisions import DECISION, EARLIER_COUNT, is_size
from mr_dedup.jobs.reading import chunk_of
from mr_dedup.jobs.rereading_job import RereadingJob
from mr_dedup.jobs.resolved_clusters import (
    clusters_in,
    count_decisions,
    sample_of,
    templates_in,
)
from mr_dedup.jobs.row_shards import (
    Attached,
    counts_of_rows,
    document_rows,
)
from mr_dedup.signatures.columns import schema_of, signatures_in
from mr_dedup.signatures.linking import MethodSignatures, method_sets
from mr_dedup.signatures.methods import parse_methods
from mr_dedup.signatures.protocol import SignatureMethod

_MIXER = np.uint64(0x9E3779B97F4A7C15)
"""Spreads labels over reduce keys: near-duplicates share their leading bits."""

_BUFFERED_BYTES = 64 << 20
"""Bytes of documents that a map task sorts by reduce keys at a time; less with less memory."""

_GROUP_BYTES = 32 << 20
_MANY_GROUPS = 64
"""Bytes of texts for each reduce key, and the number of keys from which on groups get larger."""

_DOCUMENT_BYTES = 256
"""What a document counts as beside its text; a reduce task has up to 1,000 in memory."""

_KNOWN = "known_"
"""The prefix of columns of counts before this run."""

Clustered = tuple[DocumentBatch, Attached, NDArray[np.int64]]
"""A batch, which of its documents are in clusters, and the rows of these in their chunk."""

Locate = Callable[[pa.Table, NDArray[np.int64]], pa.Table]
"""Adds to documents of a chunk, given their rows, where they are, and what is known of them."""


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


class ResolveJob(RereadingJob, frozen=True, kw_only=True):
    """See the module.

    Counts the documents of this run by reason, ``documents_dropped_for_earlier``, and what the
    histograms of a report show.

    Attributes:
        attached: The directory of the shards of clustered documents.
        keep: Policies that choose the documents to keep; the next ones decide between equals.
        retention: How many documents of a group of duplicates are kept.
        verify: When a document duplicates a kept one; None if texts are not compared.
        shingles: What texts are compared by.
        features: What fingerprints of earlier documents are made of, and ``idf`` their weights.
        reduce_keys: Groups of clusters that are resolved together.
        stored_bytes: Bytes of sets of shingles that a reduce task has in memory; beyond that they
            are in a temporary file. What deciding takes beside them is in proportion.
        k: The largest distance of candidates; None without simhash.
        methods: The names of the methods, of simhash with k.
        keyword_idf: The file of document frequencies by which keywords are weighted.
        seen: The field of rows by which documents are seen.
        names_below: The directory whose directories are sources, as of ``shares.directories``.
    """

    side_files = ("idf", "keyword_idf")

    attached: str
    keep: tuple[str, ...] = ("first",)
    retention: Retention = Retention()
    verify: Criterion | None = SIMILAR
    shingles: FeatureOptions = FeatureOptions(unit="auto", weighting="binary")
    features: FeatureOptions = FeatureOptions()
    idf: str | None = None
    reduce_keys: int = 1
    stored_bytes: int = 256 << 20
    k: int | None = None
    methods: tuple[str, ...] = ()
    keyword_idf: str | None = None
    seen: str | None = None
    names_below: str = ""

    def __post_init__(self) -> None:
        """Check the options."""
        KeepPolicy.parse(self.keep)
        if self.reduce_keys < 1:
            raise ValueError(f"reduce_keys must be at least 1, not {self.reduce_keys}")

    @cached_property
    def policy(self) -> KeepPolicy:
        """Which documents of a cluster come first."""
        return KeepPolicy.parse(self.keep)

    @cached_property
    def _methods(self) -> list[SignatureMethod]:
        named = self.methods if self.k is None else self.methods[1:]
        return parse_methods(named, read_frequencies(self.keyword_idf)) if named else []

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the clustered documents of a chunk by their clusters, and that it was read."""
        chunk = chunk_of(part, self.format)
        attached = Attached.read(self.attached, chunk.number)
        if attached.rows.size:
            locate = self._locating(chunk.number)
            cached = take_sets(part.cache, chunk.number)
            if cached is not None:
                yield from self._of_cached(attached, cached, locate)
            else:
                yield from self._of_texts(self._clustered(part, attached, counters), locate)
        yield 0, pa.table({"chunk": [chunk.number], "documents": [attached.documents]})

    @property
    def _buffered_bytes(self) -> int:
        return min(_BUFFERED_BYTES, self.stored_bytes // 4)

    def _locating(self, chunk: int) -> Locate:
        """Return what adds chunk, row, file, position, known counts and signatures."""
        of_chunk = document_rows(self.rows_at, chunk)
        assert of_chunk is not None
        names = ["file", "position", *(field.name for field in schema_of(self._methods))]
        columns = of_chunk.select(["id", *names])
        is_earlier = chunk < self.earlier_chunks
        known = of_chunk if is_earlier else counts_of_rows(of_chunk, self.seen).table()
        for name in COUNTS.names:
            columns = columns.append_column(f"{_KNOWN}{name}", known[name])
        names += [f"{_KNOWN}{name}" for name in COUNTS.names]
        if pa.types.is_dictionary(columns["file"].type):
            plain = columns["file"].cast(pa.large_string())
            columns = columns.set_column(1, "file", plain)

        def locate(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
            table = table.append_column("row", pa.array(rows))
            table = table.append_column("chunk", pa.array(np.full(len(table), chunk)))
            some = columns.take(pa.array(rows))
            for name in names:
                column = some[name]
                if name in table.column_names:
                    # positions of earlier documents come with their texts
                    column = table[name]
                    table = table.drop_columns([name])
                # in one order, whether sets were cached or texts read
                table = table.append_column(name, column)
            if is_earlier:
                # those that were made of names have others now
                table = table.set_column(table.column_names.index("id"), "id", some["id"])
            return table

        return locate

    def _of_cached(
        self, attached: Attached, cached: Iterator[pa.Table], locate: Locate
    ) -> Iterator[Keyed]:
        """Yield the clustered documents of a chunk whose sets of shingles are cached."""
        done = 0
        for tables in _grouped(cached, self._buffered_bytes):
            count = sum(map(len, tables))
            clustered = attached.between(done, done + count)
            if clustered.rows.size:
                order, slices = _by_key(_reduce_keys(clustered.labels, self.reduce_keys))
                clustered = clustered.chosen(order)
                table = self._with_sets(tables, clustered)
                table = locate(table, clustered.rows + done)
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
            if clustered.rows.size
        )
        # batches are small: tables of each batch and key would cost more than their rows
        for group in _grouped(tables, self._buffered_bytes):
            table = pa.concat_tables(group).combine_chunks()
            order, slices = _by_key(_reduce_keys(table["label"].to_numpy(), self.reduce_keys))
            table = table.take(pa.array(order))
            for key, rows in slices:
                yield key, table[rows]

    def _clustered(
        self, part: TaskInput, attached: Attached, counters: Counters
    ) -> Iterator[Clustered]:
        """Yield batches, which of their documents are in clusters, and the rows of these.

        Raises MrDedupError if the chunk has other documents than when it was first read.
        """
        frequencies = read_frequencies(self.idf, self.features)
        with self.reading_of(part, counters, fields=self.policy.fields) as reading:
            wanted = np.zeros(attached.documents, np.bool_)
            wanted[attached.rows] = True
            done = 0
            # the keep job needs it too
            known = self.known_texts(part, reading.chunk.number, wanted, stays=True)
            for batch in reading.batches(known):
                these = attached.between(done, done + len(batch))
                if not np.array_equal(batch.text_lengths[these.rows], these.lengths):
                    break
                if reading.chunk.number < self.earlier_chunks:
                    texts = batch.texts.take(pa.array(these.rows))
                    found = simhash(texts, self.features, frequencies)
                    # texts of the same length may be others by now
                    if not np.array_equal(found.values, these.nodes):
                        break
                yield batch, these, these.rows + done
                done += len(batch)
            if done != attached.documents:
                raise self._changed(reading.chunk)

    def _changed(self, chunk: DocumentChunk) -> MrDedupError:
        """Return the error of a chunk that has other documents than before."""
        if chunk.number < self.earlier_chunks:
            return MrDedupError(f"{chunk.name}: has changed since it was kept")
        return MrDedupError(f"{chunk.name}: has other documents than when it was first read")

    def _described(
        self,
        ids: pa.LargeStringArray,
        fields: pa.Table | Mapping[str, pa.ChunkedArray],
        clustered: Attached,
    ) -> dict[str, Any]:
        """Return the columns of documents in clusters, but for their texts."""
        rows = pa.array(clustered.rows)
        known = fields.column_names if isinstance(fields, pa.Table) else fields
        columns: dict[str, Any] = {
            "id": ids.take(rows),
            "length": clustered.lengths,
            "label": clustered.labels,
            "fingerprint": clustered.nodes,
        }
        for name in self.policy.fields:
            if f"field_{name}" in known:
                columns[f"field_{name}"] = fields[f"field_{name}"].take(rows)
            else:
                # of earlier documents, which stay whatever the policy
                columns[f"field_{name}"] = pa.nulls(len(rows), pa.large_string())
        return columns

    def _with_texts(self, batch: DocumentBatch, clustered: Attached, seen: SeenTexts) -> pa.Table:
        """Return documents in clusters, with those of their texts that were not ``seen``."""
        rows = clustered.rows
        columns = self._described(batch.ids, fields_of(batch), clustered)
        if self.verify is not None:
            hashes = text_hashes(batch.texts, rows)
            columns |= columns_of_hashes(hashes)
            columns["text"] = batch.texts.take(pa.array(rows, mask=_known(hashes, seen)))
        return pa.table({**columns, "position": batch.offsets[rows]})

    def _with_sets(self, cached: Sequence[pa.Table], clustered: Attached) -> pa.Table:
        """Return documents in clusters with the sets of shingles of their texts."""
        rows = clustered.rows
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

    def max_keys(self) -> Sequence[int | None]:
        """Return the number of keys of the reduce step."""
        return [self.reduce_keys]

    def reduces(self) -> Sequence[Reduce]:
        """Return the one step."""
        return [self.resolve_clusters]

    def resolve_clusters(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield decisions, their clusters, what a report shows, and the size of each chunk."""
        for key, tables in groups:
            sizes: list[pa.Table] = []
            # read one by one: their texts are not needed together
            clustered = _clustered_in(tables, sizes)
            first = [*itertools.islice(clustered, 1)]
            resolved = self._resolved(itertools.chain(first, clustered)) if first else None
            yield from ((key, table) for table in sizes)
            if resolved is None:
                continue
            del first
            decided = self._decided(resolved)
            is_new = decided["chunk"].to_numpy() >= self.earlier_chunks
            count_decisions(decided.filter(pa.array(is_new)), self.earlier_chunks, counters)
            yield key, decided.filter(pa.array(is_new)).select(["chunk", *DECISION.names])
            # of earlier documents counts alone
            counted = decided.filter(pa.array(~is_new & (decided["duplicates"].to_numpy() > 0)))
            if len(counted):
                yield key, counted.select(["chunk", *EARLIER_COUNT])
            sample = sample_of(decided)
            yield from ((key, each) for each in clusters_in(decided, is_new, sample, counters))
            yield key, templates_in(decided.filter(pa.array(is_new)), self.names_below, counters)
            yield key, sample

    def _resolved(self, tables: Iterable[pa.Table]) -> Resolved:
        """Return what is decided on documents of whole clusters."""
        with StoredSets(self.stored_bytes) as stored:
            table = pa.concat_tables([self._without_text(table, stored) for table in tables])
            documents, sets = self._documents(table, stored)
            earlier = documents.files < self.earlier_chunks
            order = self._best_first(documents, earlier)
            limits = Limits.of(self.stored_bytes)
            decisions = resolve(documents, order, sets, self.verify, earlier, limits)
            decisions = retain(decisions, documents.ids, order, earlier, self.retention)
            del sets
        return Resolved(table, documents, decisions)

    def _decided(self, resolved: Resolved) -> pa.Table:
        """Return the decisions with all that is known of both documents."""
        table, documents, decisions = resolved
        kept_rows = decisions.kept_rows
        dropped = np.flatnonzero(~are_kept(decisions.reasons))
        kept = pa.array(kept_rows[dropped])
        distances = decisions.distances[dropped]
        named = method_sets(
            self.methods, distances, self.k, lambda: self._signed(table), dropped,
            kept_rows[dropped],
        ).names()  # fmt: skip
        index = np.full(len(table), -1)
        index[dropped] = np.arange(dropped.size)
        at = pa.array(index, mask=index < 0)
        columns = [one_array(table[f"{_KNOWN}{name}"]) for name in COUNTS.names]
        known = DuplicateCounts.of(np.array(columns[0]), *columns[1:])
        duplicates, total = count_duplicates(kept_rows, known)
        return pa.table(
            {
                "chunk": table["chunk"],
                "row": table["row"],
                "cluster": documents.clusters,
                "reason": decisions.reasons,
                "id": documents.ids,
                "fingerprint": documents.fingerprints,
                "kept_id": documents.ids.take(kept).take(at),
                "kept_file": one_array(table["file"]).take(kept).take(at),
                "kept_position": one_array(table["position"]).take(kept).take(at),
                "kept_chunk": pa.array(documents.files[kept_rows[dropped]]).take(at),
                "kept_row": pa.array(documents.positions[kept_rows[dropped]]).take(at),
                "distance_bits": pa.array(distances).take(at),
                "similarity": pa.array(
                    decisions.similarities, mask=np.isnan(decisions.similarities)
                ),
                "methods": named.take(at),
                "position": table["position"],
                "duplicates": duplicates,
                "duplicates_total": total.duplicates,
                "first_seen": total.first_seen.cast(pa.large_string()),
                "last_seen": total.last_seen.cast(pa.large_string()),
            }
        )

    def _signed(self, table: pa.Table) -> Iterator[MethodSignatures]:
        for number, method in enumerate(self._methods):
            yield MethodSignatures(method, [signatures_in(table, self._methods, number)])

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


def _clustered_in(tables: Iterable[pa.Table], sizes: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of documents in clusters; add those of the sizes of chunks to ``sizes``."""
    for table in tables:
        if is_size(table):
            sizes.append(table)
        else:
            yield table


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
