"""The resolve job over shards: which documents of clusters are kept.

As the resolve job, but which documents are in clusters is read from the shard of their chunk. It
leaves shards with the decisions on some clusters each, these clusters, and what a report shows of
them, which ``order_decisions`` brings together by chunk.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.clusters.decisions import Reason, are_kept
from mr_dedup.clusters.duplicate_counts import DuplicateCounts, count_duplicates
from mr_dedup.clusters.suspects import (
    LISTED,
    MIN_DOCUMENTS,
    ClusterMembers,
    template_clusters,
)
from mr_dedup.errors import MrDedupError
from mr_dedup.features.text_hashes import SeenTexts
from mr_dedup.fingerprints.simhash import simhash
from mr_dedup.formats.count_tables import COUNTS
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.clustered_rows import ClusteredRows
from mr_dedup.jobs.contract import Counters, Group, Keyed, Reduce, TaskInput
from mr_dedup.jobs.earlier_chunks import EarlierReading, count_of, reading_of_earlier
from mr_dedup.jobs.frequencies import read_frequencies
from mr_dedup.jobs.order_decisions import (
    DECISION,
    EARLIER_COUNT,
    is_size,
    smallest_hashes,
)
from mr_dedup.jobs.reading import DocumentReading, chunk_of
from mr_dedup.jobs.report_counts import (
    DISTANCE,
    EXAMPLES,
    LARGEST,
    SIMILARITY,
    SIMILARITY_STEPS,
    SIZE,
    TEMPLATE_CLUSTERS,
)
from mr_dedup.jobs.resolve import Clustered, Locate, Resolved, ResolveJob
from mr_dedup.jobs.row_shards import (
    Attached,
    counts_of_rows,
    document_rows,
    offsets_in_rows,
)
from mr_dedup.jobs.shares import sources
from mr_dedup.signatures.columns import schema_of, signatures_in
from mr_dedup.signatures.linking import MethodSignatures, method_sets
from mr_dedup.signatures.methods import parse_methods
from mr_dedup.signatures.protocol import SignatureMethod

_MIXER = np.uint64(0x9E3779B97F4A7C15)

_KNOWN = "known_"
"""The prefix of columns of counts before this run."""


class ResolveShardsJob(ResolveJob, frozen=True, kw_only=True):
    """See the module.

    Counts the documents of this run by reason, ``documents_dropped_for_earlier``, and what the
    histograms of a report show.

    Attributes:
        rows_at: The directory of the shards of rows.
        attached: That of the shards of clustered documents.
        methods: The names of the methods, of simhash with k.
        keyword_idf: The file of document frequencies by which keywords are weighted.
        earlier: The first chunks: documents that earlier runs kept.
        seen: The field of rows by which documents are seen.
        names_below: The directory whose directories are sources, as of ``shares.directories``.
    """

    side_files = ("idf", "keyword_idf")

    rows_at: str
    attached: str
    clustered: str = ""
    k: int | None = None
    methods: tuple[str, ...] = ()
    keyword_idf: str | None = None
    earlier: tuple[EarlierReading, ...] = ()
    seen: str | None = None
    names_below: str = ""

    @property
    def earlier_chunks(self) -> int:
        """The number of chunks of earlier documents."""
        return count_of(self.earlier)

    @cached_property
    def _methods(self) -> list[SignatureMethod]:
        named = self.methods if self.k is None else self.methods[1:]
        return parse_methods(named, read_frequencies(self.keyword_idf)) if named else []

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the clustered documents of a chunk by their clusters, and that it was read."""
        number = chunk_of(part, self.format).number
        of_chunk, documents = self.rows_of(number)
        if of_chunk.numbers.size:
            yield from super().map(part, counters)
        yield 0, pa.table({"chunk": [number], "documents": [documents]})

    def reading_of(
        self,
        part: TaskInput,
        counters: Counters,
        *,
        fields: Sequence[str] = (),
        keep_records: bool = False,
    ) -> DocumentReading:
        """Return the documents of a chunk, those of earlier results as they were written."""
        found = reading_of_earlier(part, self.format, self.earlier, counters)
        return found or super().reading_of(part, counters, fields=fields, keep_records=keep_records)

    def offsets_of(
        self, part: TaskInput, chunk: DocumentChunk, *, stays: bool = False
    ) -> Iterable[pa.Table] | None:
        """Return where the records of a chunk of this run begin."""
        return (
            offsets_in_rows(self.rows_at, chunk.number)
            if chunk.number >= self.earlier_chunks
            else None
        )

    def rows_of(self, chunk: int) -> tuple[ClusteredRows, int]:
        """Return the clustered documents of a chunk, and how many documents it has."""
        found = Attached.read(self.attached, chunk)
        rows = ClusteredRows(found.rows, found.nodes, found.labels, found.lengths)
        return rows, found.documents

    def locating(self, chunk: int) -> Locate:
        """Return what adds file, position, known counts and signatures as well."""
        basic = super().locating(chunk)
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
            table = basic(table, rows)
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

    def _with_texts(
        self, batch: DocumentBatch, clustered: ClusteredRows, seen: SeenTexts
    ) -> pa.Table:
        table = super()._with_texts(batch, clustered, seen)
        return table.append_column("position", pa.array(batch.offsets[clustered.numbers]))

    def _clustered(self, part: TaskInput, counters: Counters) -> Iterator[Clustered]:
        chunk = chunk_of(part, self.format)
        frequencies = read_frequencies(self.idf, self.features)
        for batch, clustered, rows in super()._clustered(part, counters):
            if chunk.number < self.earlier_chunks:
                texts = batch.texts.take(pa.array(clustered.numbers))
                found = simhash(texts, self.features, frequencies)
                # texts of the same length may be others by now
                if not np.array_equal(found.values, clustered.fingerprints):
                    raise self.changed(chunk)
            yield batch, clustered, rows

    def changed(self, chunk: DocumentChunk) -> MrDedupError:
        """Return the error of a chunk that has other documents than before."""
        if chunk.number < self.earlier_chunks:
            return MrDedupError(f"{chunk.name}: has changed since it was kept")
        return super().changed(chunk)

    def is_earlier(self, chunks: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which chunks contain documents that an earlier run kept."""
        earlier: NDArray[np.bool_] = chunks < self.earlier_chunks
        return earlier

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
            resolved = self.resolved(itertools.chain(first, clustered)) if first else None
            yield from ((key, table) for table in sizes)
            if resolved is None:
                continue
            del first
            decided = self._described_decisions(resolved)
            self._count(decided, counters)
            is_earlier = self.is_earlier(decided["chunk"].to_numpy())
            yield key, decided.filter(pa.array(~is_earlier)).select(["chunk", *DECISION.names])
            # of earlier documents counts alone
            counted = decided.filter(pa.array(is_earlier & (decided["duplicates"].to_numpy() > 0)))
            if len(counted):
                yield key, counted.select(["chunk", *EARLIER_COUNT])
            sample = _sampled(decided)
            yield from ((key, table) for table in self._clusters(decided, sample, counters))
            yield key, self._templates(decided, counters)
            yield key, sample

    def _described_decisions(self, resolved: Resolved) -> pa.Table:
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

    def _count(self, decided: pa.Table, counters: Counters) -> None:
        """Count the decisions on documents of this run."""
        new = ~self.is_earlier(decided["chunk"].to_numpy())
        reasons = np.bincount(decided["reason"].to_numpy()[new], minlength=len(Reason))
        for reason in Reason:
            counters[reason.key] += int(reasons[reason])
        of_dropped = decided.filter(pc.and_(pa.array(new), decided["kept_id"].is_valid()))
        kept_chunks = of_dropped["kept_chunk"].to_numpy()
        for_earlier = int(np.count_nonzero(self.is_earlier(kept_chunks)))
        counters["documents_dropped_for_earlier"] += for_earlier
        distances = np.bincount(of_dropped["distance_bits"].to_numpy())
        for bits in np.flatnonzero(distances).tolist():
            counters[f"{DISTANCE}{bits}"] += int(distances[bits])
        similarities = of_dropped["similarity"].drop_null().to_numpy()
        steps = np.round(np.arange(SIMILARITY_STEPS + 1) / SIMILARITY_STEPS, 9)
        counts = np.bincount(np.searchsorted(steps, similarities, "right") - 1)
        for step in np.flatnonzero(counts).tolist():
            counters[f"{SIMILARITY}{step}"] += int(counts[step])

    def _templates(self, decided: pa.Table, counters: Counters) -> pa.Table:
        """Return the largest clusters that look like templates."""
        new = decided.filter(pa.array(~self.is_earlier(decided["chunk"].to_numpy())))
        _, inverse, sizes = np.unique(
            new["cluster"].to_numpy(), return_inverse=True, return_counts=True
        )
        new = new.filter(pa.array(sizes[inverse] >= MIN_DOCUMENTS))
        found = template_clusters(
            ClusterMembers(
                new["cluster"].to_numpy().view(np.int64),
                sources(one_array(new["id"]), self.names_below),
                are_kept(new["reason"].to_numpy()),
                new["similarity"].fill_null(np.nan).to_numpy(),
            )
        )
        counters[TEMPLATE_CLUSTERS] += len(found)
        return found.slice(0, LISTED)

    def _clusters(
        self, decided: pa.Table, sample: pa.Table, counters: Counters
    ) -> Iterator[pa.Table]:
        """Yield the clusters, and the largest and those of a sample as a report lists them."""
        labels = decided["cluster"].to_numpy().view(np.int64)
        new = ~self.is_earlier(decided["chunk"].to_numpy())
        kept = are_kept(decided["reason"].to_numpy())
        values, inverse, sizes = np.unique(labels, return_inverse=True, return_counts=True)
        documents = np.bincount(inverse, new, values.size).astype(np.int64)
        documents_kept = np.bincount(inverse, new & kept, values.size).astype(np.int64)
        wanted = (sizes >= 2) & (documents >= 1)
        powers, counts = np.unique(_powers(sizes[wanted]), return_counts=True)
        for power, count in zip(powers.tolist(), counts.tolist(), strict=True):
            counters[f"{SIZE}{power}"] += count
        yield pa.table(
            {
                "cluster": values[wanted],
                "documents": documents[wanted],
                "documents_kept": documents_kept[wanted],
                "earlier_documents": (sizes - documents)[wanted],
            }
        )
        order = np.lexsort((values, -sizes))
        of_sample = np.searchsorted(values, sample["cluster"].to_numpy().view(np.int64))
        listed = np.union1d(order[wanted[order]][:LARGEST], of_sample)
        is_listed = np.zeros(values.size, np.bool_)
        is_listed[listed] = True
        rows = np.flatnonzero(new & is_listed[inverse])
        of_rows = decided.select(["chunk", "row"]).take(pa.array(rows))
        rows = rows[np.lexsort((of_rows["row"], of_rows["chunk"], inverse[rows]))]
        begins = np.searchsorted(inverse[rows], listed)
        shown = np.minimum(np.diff(begins, append=rows.size), EXAMPLES)
        edges = np.append(0, np.cumsum(shown))
        firsts = rows[np.arange(edges[-1]) + np.repeat(begins - edges[:-1], shown)]
        similarities = decided["similarity"].fill_null(np.inf).to_numpy()[rows]
        lowest = np.minimum.reduceat(similarities, begins) if rows.size else similarities

        def of_firsts(name: str) -> pa.Array:
            values = one_array(decided[name]).take(pa.array(firsts))
            return pa.ListArray.from_arrays(pa.array(edges, pa.int32()), values)

        described = {
            "cluster": values[listed],
            "size": sizes[listed],
            "documents": documents[listed],
            "documents_kept": documents_kept[listed],
            "similarity": pa.array(lowest, mask=np.isinf(lowest)),
            "examples": of_firsts("id"),
            "reasons": of_firsts("reason"),
        }
        yield pa.table(described)


def _clustered_in(tables: Iterable[pa.Table], sizes: list[pa.Table]) -> Iterator[pa.Table]:
    """Yield tables of documents in clusters; add those of the sizes of chunks to ``sizes``."""
    for table in tables:
        if is_size(table):
            sizes.append(table)
        else:
            yield table


def _powers(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the smallest n of each size, 2 and more, such that 2^n is not below it."""
    found: NDArray[np.int64] = np.searchsorted(1 << np.arange(63), sizes)
    return found


_SAMPLE = ["chunk", "row", "id", "cluster", "reason", "kept_id", "kept_chunk", "kept_row",
           "distance_bits", "similarity", "order"]  # fmt: skip


def _sampled(decided: pa.Table) -> pa.Table:
    """Return dropped documents: those with the smallest hashes of their fingerprints and ids."""
    dropped = decided.filter(decided["kept_id"].is_valid())
    order = dropped["fingerprint"].to_numpy() * _MIXER
    return smallest_hashes(dropped.append_column("order", pa.array(order)).select(_SAMPLE))
