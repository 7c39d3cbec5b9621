"""The job of passages: where repeated windows are, joined where they touch; and cuts.

A map task reads the documents of a chunk once more and writes parts of the result: the occurrences
of passages in them, and if they are to be cut out, the cut documents and what was removed. A reduce
step brings the occurrences of each passage together and leaves shards of passages by their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.passage_files import CUTS, OCCURRENCES, PASSAGES
from mr_dedup.formats.shards import new_files
from mr_dedup.jobs.chunk_writer import ChunkWriter
from mr_dedup.jobs.contract import Counters, Group, Keyed, Reduce, TaskInput
from mr_dedup.jobs.cut_documents import (
    CutDocuments,
    cut_batch,
    document_columns,
    offset_columns,
)
from mr_dedup.jobs.document_parts import DocumentParts, write_rejects
from mr_dedup.jobs.kept_records import as_written, records_of
from mr_dedup.jobs.passage_anchors import anchors_of_chunk
from mr_dedup.jobs.passage_job import (
    PassageJob,
    by_partition,
    candidates_of_chunk,
    require_unchanged,
    starts_of_keys,
)
from mr_dedup.jobs.passage_windows import windows_of_chunk
from mr_dedup.jobs.reading import DOCUMENTS
from mr_dedup.passages import cutting
from mr_dedup.passages.cutting import Boundaries, Slices
from mr_dedup.passages.windows import CountTable, Spans, TextWindows

Cut = Literal["none", "all", "all-but-first"]
CUT_CHOICES: tuple[Cut, ...] = get_args(Cut)

EXCERPT = 400
"""Code points of a passage that are shown."""

OCCURRENCES_FOLDER, PASSAGES_FOLDER, CUTS_FOLDER = "occurrences", "passages", "cuts"
"""The directories of a result, besides those of ``document_parts``."""

LEFT_EMPTY = "documents_left_without_words"
"""The counter of documents of which all words were cut."""


class PassagesJob(PassageJob, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        anchors: The directory of the shards of anchors.
        windows: That of the shards of windows.
        result: That of the result.
        cut: What is cut out of documents.
        boundaries: What is never divided by a cut.
        parts: How cut documents are written.
        has_rejects: Whether any record was rejected.
    """

    anchors: str
    windows: str
    result: str
    cut: Cut = "none"
    boundaries: Boundaries = "words"
    parts: DocumentParts = DocumentParts()
    has_rejects: bool = False

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Write the parts of a chunk; yield the passages in it by partition."""
        with (
            new_files(self.result) as folder,
            self.reading_batches(part, counters, keep_records=self.cut != "none") as reading,
        ):
            chunk = reading.chunk
            documents, repeated = windows_of_chunk(self.windows, chunk.number)
            candidates = candidates_of_chunk(self.windows, chunk.number)
            _, anchors = anchors_of_chunk(self.anchors, chunk.number)
            with _Writer(self, folder, chunk) as writer:
                if repeated is not None or self.cut != "none" or self.has_rejects:
                    for batch in reading.batches():
                        first_row = reading.documents - len(batch)
                        of_batch = candidates[first_row : reading.documents]
                        if repeated is not None and len(of_batch) != len(batch):
                            require_unchanged(part, reading.documents, documents)
                        tables = (anchors, repeated)
                        found = self._find(batch, first_row, of_batch, tables, counters)
                        if found is not None:
                            table = found.occurrences()
                            writer.occurrences.write_table(table)
                            counters["occurrences"] += len(table)
                            rows = found.passages(table, chunk.number, first_row)
                            yield from by_partition(rows, self.partitions)
                        if self.cut != "none":
                            writer.write_cut(batch, found, counters)
                    require_unchanged(part, reading.documents, documents)
                if self.has_rejects:
                    write_rejects(folder, chunk.number, reading.rejects())
        # counted when they were first read
        del counters[DOCUMENTS]

    def _find(
        self,
        batch: DocumentBatch,
        first_row: int,
        candidates: NDArray[np.bool_],
        tables: tuple[CountTable | None, CountTable | None],
        counters: Counters,
    ) -> _Found | None:
        """Return the repeated windows of some documents; None if there are none."""
        anchors, repeated = tables
        if anchors is None or repeated is None or not candidates.any():
            return None
        groups = self.groups_of(batch)
        windows = self.windows_of(batch, groups, candidates)
        count = windows.keep_anchors(anchors)
        spans, firsts = windows.repeated(first_row, count, repeated)
        if not len(spans):
            return None
        counters["documents_with_passages"] += np.unique(spans.rows).size
        counters["tokens_in_passages"] += int((spans.last - spans.first).sum())
        return _Found(batch, groups, windows, spans, firsts)

    def max_keys(self) -> Sequence[int | None]:
        """Return the number of keys of the reduce step."""
        return [self.partitions]

    def reduces(self) -> Sequence[Reduce]:
        """Return the step by passage."""
        return [self.join]

    def join(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the passages of a partition, ascending by their ids."""
        for key, tables in groups:
            table, starts = starts_of_keys(pa.concat_tables(tables).combine_chunks())
            first = table.take(pa.array(starts))
            columns = {
                **{name: first[name] for name in PASSAGES.names},
                **{
                    name: np.add.reduceat(table[name].to_numpy(), starts)
                    for name in ("documents", "occurrences")
                },
                "window_documents": np.minimum.reduceat(
                    table["window_documents"].to_numpy(), starts
                ),
            }
            counters["passages"] += starts.size
            yield key, pa.table(columns).select(PASSAGES.names).cast(PASSAGES)


class _Found:
    """The repeated windows of some documents."""

    def __init__(
        self,
        batch: DocumentBatch,
        groups: pa.LargeStringArray | None,
        windows: TextWindows,
        spans: Spans,
        firsts: Spans,
    ) -> None:
        self.batch = batch
        self.windows = windows
        self.spans = spans
        self.firsts = firsts
        self.passages_of = _ids(spans)
        rows = pa.array(spans.rows)
        self.groups = pa.nulls(len(spans), pa.large_string())
        if groups is not None:
            self.groups = groups.cast(pa.large_string()).take(rows)
        self._starts, self._stops = windows.offsets(spans)

    def occurrences(self) -> pa.Table:
        """Return a row a span, as OCCURRENCES."""
        spans = self.spans
        names = document_columns(self.batch, spans.rows)
        texts = self.batch.texts
        columns = {
            **names,
            **offset_columns(texts, Slices(spans.rows, self._starts, self._stops)),
            "tokens": spans.last - spans.first,
            "passage": self.passages_of,
            "group": self.groups,
        }
        return pa.table(columns).select(OCCURRENCES.names).cast(OCCURRENCES)

    def passages(self, occurrences: pa.Table, chunk: int, first_row: int) -> pa.Table:
        """Return a row for each passage and group, with its first occurrence here."""
        spans = self.spans
        key = spans.two.copy()
        if not self.groups.null_count:
            from mr_dedup.features.text_hashes import text_hashes

            key ^= text_hashes(self.groups)[:, 0]
        order = np.lexsort([np.arange(len(spans)), key, spans.one])
        one, two, rows = spans.one[order], key[order], spans.rows[order]
        new = np.append(True, (one[1:] != one[:-1]) | (two[1:] != two[:-1]))
        starts = np.flatnonzero(new)
        new_row = np.append(True, np.diff(rows) != 0) | new
        first = order[starts]
        found = occurrences.take(pa.array(first))
        slices = Slices(spans.rows[first], self._starts[first], self._stops[first])
        columns = {
            **{name: found[name] for name in found.column_names},
            "one": one[starts],
            "two": two[starts],
            "chunk": np.full(starts.size, chunk, np.int32),
            "row": (rows[starts] + first_row).astype(np.uint32),
            "documents": np.add.reduceat(new_row.astype(np.int64), starts),
            "occurrences": np.diff(np.append(starts, order.size)),
            "window_documents": np.minimum.reduceat(
                spans.documents[order].astype(np.int64), starts
            ),
            "text": _excerpts(self.batch.texts, slices),
        }
        return pa.table(columns)


def _ids(spans: Spans) -> pa.Array:
    """Return the ids of passages: 32 hexadecimal digits of the hash of their tokens."""
    pairs = np.stack([spans.one, spans.two], axis=1).astype(">u8").tobytes().hex()
    return pa.array([pairs[at : at + 32] for at in range(0, len(pairs), 32)], pa.string())


def _excerpts(texts: pa.LargeStringArray, slices: Slices) -> pa.LargeStringArray:
    """Return the first code points of slices, a few bytes at a time: slices may be long."""
    stops = np.minimum(slices.stops, slices.starts + 4 * EXCERPT)
    content = texts.buffers()[2]
    edges = np.frombuffer(texts.buffers()[1], np.int64, len(texts) + 1, 8 * texts.offset)
    begins = edges[slices.rows]
    found = []
    for start, stop in zip(
        (begins + slices.starts).tolist(), (begins + stops).tolist(), strict=True
    ):
        text = content[start:stop].to_pybytes().decode(errors="ignore")
        found.append(text[:EXCERPT])
    return pa.array(found, pa.large_string())


class _Writer(ChunkWriter):
    """Writes the parts of a chunk."""

    def __init__(self, job: PassagesJob, folder: Path, chunk: DocumentChunk) -> None:
        super().__init__(folder, chunk.number)
        self._job = job
        self._chunk = chunk

    def begin(self) -> None:
        """Begin the parts of occurrences, and of cut documents and cuts."""
        self.occurrences = self.part(OCCURRENCES_FOLDER, OCCURRENCES)
        if self._job.cut != "none":
            cuts = self.part(CUTS_FOLDER, CUTS)
            documents = self._job.parts.writer(self.folder, self.number, self.number)
            self.documents = self.open.enter_context(CutDocuments(documents, cuts))

    def write_cut(self, batch: DocumentBatch, found: _Found | None, counters: Counters) -> None:
        """Write documents without what is to be cut out of them, and the cuts."""
        slices, of = Slices.none(), np.empty(0, np.int64)
        if found is not None:
            firsts = found.firsts if self._job.cut == "all-but-first" else None
            slices, of = found.windows.slices(found.spans, firsts)
            if self._job.boundaries == "sentences":
                tokens = found.windows.tokens
                slices, within = cutting.whole_sentences(batch.texts, slices, tokens)
                of = of[within]
        chosen = np.ones(len(batch), bool)
        reading = self._job.reading
        records = records_of(batch, chosen)
        records = as_written(records, batch, chosen, self._chunk, reading, "parquet")
        records, cuts = cut_batch(records, batch, slices, reading.text_name, "same", "--cut")
        if found is not None and len(slices):
            cuts = cuts.append_column("passage", found.passages_of.take(pa.array(of)))
            counters["cuts"] += len(slices)
            counters["documents_cut"] += np.unique(slices.rows).size
            counters["cut_bytes"] += int((slices.stops - slices.starts).sum())
            counters[LEFT_EMPTY] += _left_empty(found.windows, slices)
        self.documents.write(records, cuts)


def _left_empty(windows: TextWindows, slices: Slices) -> int:
    """Return how many of the texts that are cut have no token left."""
    tokens = windows.tokens
    rows = np.unique(slices.rows)
    wide = 1 << 32
    row_of = np.repeat(np.arange(len(tokens)), np.diff(tokens.offsets))
    starts = row_of * wide + tokens.starts
    stops = row_of * wide + tokens.stops
    first = np.searchsorted(starts, slices.rows * wide + slices.starts)
    last = np.searchsorted(stops, slices.rows * wide + slices.stops, "right")
    gone = np.bincount(slices.rows, np.maximum(last - first, 0), len(tokens))
    return int(np.count_nonzero(gone[rows] >= np.diff(tokens.offsets)[rows]))
