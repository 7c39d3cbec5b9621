"""The decontamination job: what documents have of the items of test sets.

A map task searches one chunk of documents for the items of side files, and writes parts of the
result: the matches, and if contaminated documents are to be dropped, the others and which those
are; if items are to be cut out, all documents and what was cut. It leaves a shard with the files
that it has written, counts as ``contamination_counts`` has them, and rejected records. A chunk with
such a shard is done.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.contamination.item_index import Field, ItemIndex
from mr_dedup.contamination.judging import Judge
from mr_dedup.contamination.matching import Matcher
from mr_dedup.features.text_batch import text_batch
from mr_dedup.features.token_spans import token_spans
from mr_dedup.formats.benchmark_items import read_written_items
from mr_dedup.formats.cut_files import cuts_schema
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.shards import new_files
from mr_dedup.jobs.chunk_writer import ChunkWriter
from mr_dedup.jobs.contamination_counts import ChunkCounts
from mr_dedup.jobs.contract import Counters, Keyed, TaskInput
from mr_dedup.jobs.cut_documents import (
    CutDocuments,
    cut_batch,
    document_columns,
    offset_columns,
)
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.document_parts import DocumentParts, Writer
from mr_dedup.jobs.kept_records import KeptFormat, as_written, records_of
from mr_dedup.passages import cutting
from mr_dedup.passages.cutting import Slices

Action = Literal["report", "drop", "cut"]
"""What is done with contaminated documents; ``cut`` cuts the items out of them."""

CONTAMINATED, KEPT, DROPPED = "documents_contaminated", "documents_kept", "documents_dropped"
STOPPED, CUT, MATCHED = "documents_searched_in_part", "documents_cut", "matches"
"""Names of counts, besides those of reading."""

MATCHES_FOLDER, DROPPED_FOLDER, CUTS_FOLDER = "matches", "dropped", "cuts"
"""The directories of a result that tasks write, besides those of ``document_parts``."""

MATCHES = pa.schema(
    [
        ("id", pa.large_string()),
        ("file", pa.large_string()),
        ("position", pa.int64()),
        ("set", pa.string()),
        ("item", pa.large_string()),
        ("field", pa.string()),
        ("verdict", pa.string()),
        ("contaminated", pa.bool_()),
        ("kind", pa.string()),
        ("coverage", pa.float64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("text", pa.large_string()),
        ("item_text", pa.large_string()),
        ("deleted", pa.int32()),
        ("inserted", pa.int32()),
        ("changed", pa.int32()),
    ]
)
"""Columns of matches: a row for each text of an item in a document; ``start`` and ``end`` are code
points of the document, of which ``text`` has the first ones."""

DROPPED_DOCUMENTS = pa.schema(
    [
        ("id", pa.large_string()),
        ("file", pa.large_string()),
        ("position", pa.int64()),
        ("set", pa.string()),
        ("item", pa.large_string()),
        ("verdict", pa.string()),
        ("items", pa.int64()),
    ]
)
"""Columns of dropped documents, with the first of the items that each has."""

CUTS = cuts_schema(pa.field("set", pa.string()), pa.field("item", pa.large_string()))
"""Columns of what is cut, with the first of its items."""

FILES = pa.schema([("chunk", pa.int64()), ("file", pa.string()), ("size_bytes", pa.int64())])
"""Columns of the files that a task has written, below the directory of the result."""

_FOUND = pa.schema(
    [
        ("document", pa.int64()),
        ("item", pa.int32()),
        ("field", pa.uint8()),
        ("answer", pa.int32()),
        ("verdict", pa.string()),
        ("contaminated", pa.bool_()),
        ("exact", pa.bool_()),
        ("coverage", pa.float64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("deleted", pa.int32()),
        ("inserted", pa.int32()),
        ("changed", pa.int32()),
    ]
)
"""Columns of what is found, a row for each row of the matches: ``document`` is one of a batch,
``item`` a row of the items, ``field`` a ``Field``, ``answer`` which of several answers it is;
``start`` and ``end`` are bytes."""

ROWS_AT_ONCE = 1 << 14
"""Rows of matches that are made, and written, together: a document may have millions."""

MAX_TEXT = 4000
"""Characters of a text of the document that are in a result."""


class DecontaminateJob(DocumentJob, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        items: The file of the items for matching, as ``ItemIndex.write`` writes it.
        texts: That of their texts, as ``write_items`` writes it.
        result: The directory of the result.
        action: ``drop`` to write the documents that are not contaminated; ``cut`` to write all,
            with the items cut out.
        parts: How they are written.
    """

    side_files: ClassVar[tuple[str, ...]] = ("items", "texts")

    items: str
    texts: str
    result: str
    action: Action = "report"
    parts: DocumentParts = DocumentParts()

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Write the parts of a chunk; yield which files these are, counts, and rejects."""
        index, items = read_searched(self.items, self.texts)
        search = _Search(index)
        set_of = items["set"].combine_chunks().dictionary_encode().indices.to_numpy()
        found = ChunkCounts(set_of.astype(np.int64))
        counts: Counters = Counters()
        with (
            new_files(self.result) as folder,
            self.reading_of(part, counts, keep_records=self.action != "report") as reading,
        ):
            number = reading.chunk.number
            with _Writer(self, folder, reading.chunk) as writer:
                for batch in reading.batches():
                    of_batch = search.batch(batch, items)
                    counts[CONTAMINATED] += int(of_batch.contaminated.sum())
                    if len(of_batch.rows):
                        counts[MATCHED] += len(of_batch.rows)
                        found.add(of_batch.rows, of_batch.documents)
                    for matches, numbers in of_batch.matches():
                        found.add_examples(numbers, matches)
                        writer.write_matches(matches)
                    writer.write(batch, of_batch, counts)
            writer.finish()
            counts[STOPPED] += search.stopped
            counters.update(counts)
            files = _files_of(folder, number)
            rejects = list(reading.rejects())
        yield number, files
        for table in (*found.tables(counts), *rejects):
            yield number, table


def _files_of(folder: Path, chunk: int) -> pa.Table:
    """Return the files below a directory, as ``FILES``."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    names = [path.relative_to(folder).as_posix() for path in paths]
    sizes = [path.stat().st_size for path in paths]
    return pa.table([[chunk] * len(paths), names, sizes], schema=FILES)


class _Writer(ChunkWriter):
    """Writes the parts of a chunk."""

    def __init__(self, job: DecontaminateJob, folder: Path, chunk: DocumentChunk) -> None:
        super().__init__(folder, chunk.number)
        self._job = job
        self._chunk = chunk
        self._documents: Writer | None = None
        self._cut: CutDocuments | None = None

    def begin(self) -> None:
        """Begin the parts of matches, of documents if they are written, and of what is missing."""
        self._matches = self.part(MATCHES_FOLDER, MATCHES)
        if self._job.action == "report":
            return
        self._documents = self._job.parts.writer(self.folder, self.number, self.number)
        if self._job.action == "drop":
            self._dropped = self.part(DROPPED_FOLDER, DROPPED_DOCUMENTS)
            self.open.enter_context(self._documents)
        else:
            cuts = self.part(CUTS_FOLDER, CUTS)
            self._cut = self.open.enter_context(CutDocuments(self._documents, cuts))

    def finish(self) -> None:
        """End the documents, after the block."""
        if self._documents is not None:
            self._job.parts.finish(self.folder, self._documents.files, self.number)

    def write_matches(self, matches: pa.Table) -> None:
        """Write what is found in some documents."""
        self._matches.write_table(matches)

    def write(self, batch: DocumentBatch, found: _Found, counts: Counters) -> None:
        """Write those of some documents that are kept, given what is found in all."""
        if self._documents is None:
            return
        if self._cut is not None:
            self._write_cut(batch, found, counts)
            return
        kept = ~found.contaminated
        counts[KEPT] += int(kept.sum())
        counts[DROPPED] += int((~kept).sum())
        if len(found.rows):
            self._dropped.write_table(_dropped(found))
        if kept.any():
            self._documents.write(self._records(batch, kept, self._job.parts.format))

    def _records(
        self, batch: DocumentBatch, kept: NDArray[np.bool_], format: KeptFormat
    ) -> pa.Table:
        records = records_of(batch, kept)
        if format == "same":
            return records
        return as_written(records, batch, kept, self._chunk, self._job.reading, format)

    def _write_cut(self, batch: DocumentBatch, found: _Found, counts: Counters) -> None:
        assert self._cut is not None
        # files of other formats than lines and rows become lines
        format = self._job.parts.format
        all_documents = np.ones(len(batch), bool)
        records = self._records(batch, all_documents, "parquet" if format == "same" else format)
        records, cuts = cut_batch(
            records, batch, found.cuts, self._job.reading.text_name, format, "--action cut"
        )
        if len(found.cuts):
            counts[CUT] += np.unique(found.cuts.rows).size
            for name in ("set", "item"):
                cuts = cuts.append_column(name, found.cut_items[name])
        self._cut.write(records, cuts)


def _dropped(found: _Found) -> pa.Table:
    """Return a row for each contaminated document, with the first of its items."""
    rows = np.flatnonzero(found.rows["contaminated"].to_numpy())
    document = found.documents[rows]
    first = np.unique(document, return_index=True)[1]
    item = found.rows["item"].to_numpy()[rows]
    pairs = np.unique(np.stack([document, item], axis=1), axis=0)
    items = np.unique(pairs[:, 0], return_counts=True)[1]
    names = DROPPED_DOCUMENTS.names[:-1]
    chosen = found.some_matches(rows[first]).select(names)
    return chosen.append_column("items", pa.array(items)).cast(DROPPED_DOCUMENTS)


class _Found(NamedTuple):
    """What is found in a batch of documents.

    Attributes:
        batch: The documents.
        items: The texts of items.
        rows: A table as ``_FOUND``, ascending by document.
        offsets: The columns ``start`` and ``end`` in code points.
        contaminated: Which documents are contaminated, bool[n].
        cuts: The texts of items that count, joined where they overlap or touch.
        cut_items: The ``set`` and ``item`` of the first item of each.
    """

    batch: DocumentBatch
    items: pa.Table
    rows: pa.Table
    offsets: dict[str, NDArray[np.int64]]
    contaminated: NDArray[np.bool_]
    cuts: Slices
    cut_items: pa.Table

    @property
    def documents(self) -> NDArray[np.int64]:
        """The document of each row, int64[m], ascending."""
        documents: NDArray[np.int64] = self.rows["document"].to_numpy()
        return documents

    def matches(
        self, rows_at_once: int = ROWS_AT_ONCE
    ) -> Iterator[tuple[pa.Table, NDArray[np.int64]]]:
        """Yield tables as ``MATCHES`` of some rows each, and the items of these."""
        for start in range(0, len(self.rows), rows_at_once):
            numbers = np.arange(start, min(start + rows_at_once, len(self.rows)))
            item = self.rows["item"].slice(start, rows_at_once).to_numpy().astype(np.int64)
            yield self.some_matches(numbers), item

    def some_matches(self, numbers: NDArray[np.int64]) -> pa.Table:
        """Return a table as ``MATCHES`` of some rows."""
        rows = self.rows.take(pa.array(numbers))
        documents, starts, stops = (rows[name].to_numpy() for name in ("document", "start", "end"))
        shown = Slices(documents, starts, np.minimum(stops, starts + 4 * MAX_TEXT))
        of_row = self.items.select(["set", "item"]).take(rows["item"])
        made = {
            **{name: rows[name] for name in _FOUND.names},
            **document_columns(self.batch, documents),
            **{name: column[numbers] for name, column in self.offsets.items()},
            "text": _beginnings(self.batch.texts, shown),
            "set": of_row["set"],
            "item": of_row["item"],
            "field": [Field(field).key for field in rows["field"].to_pylist()],
            "kind": np.where(rows["exact"].to_numpy(), "exact", "near"),
            "item_text": _item_texts(self.items, rows),
        }
        columns = [_column(made[field.name], field.type) for field in MATCHES]
        return pa.table(columns, schema=MATCHES)


class _Search:
    """Searches batches of documents, in one thread."""

    def __init__(self, index: ItemIndex) -> None:
        self._matcher = Matcher(index)
        self._judge = Judge(index)

    @property
    def stopped(self) -> int:
        return self._matcher.stopped

    def batch(self, batch: DocumentBatch, items: pa.Table) -> _Found:
        """Return what is found, with the texts of items."""
        rows = pa.concat_tables([_FOUND.empty_table(), *_tables(self._rows(batch))])
        documents, starts, stops = (rows[name].to_numpy() for name in ("document", "start", "end"))
        slices = Slices(documents, starts, stops)
        counted = np.flatnonzero(rows["contaminated"].to_numpy())
        contaminated = np.zeros(len(batch), bool)
        contaminated[documents[counted]] = True
        order = counted[np.lexsort((starts[counted], documents[counted]))]
        cuts, of = cutting.joined(slices.chosen(order))
        firsts = order[np.unique(of, return_index=True)[1]]
        cut_items = items.select(["set", "item"]).take(rows["item"].take(pa.array(firsts)))
        offsets = offset_columns(batch.texts, slices)
        return _Found(batch, items, rows, offsets, contaminated, cuts, cut_items)

    def _rows(self, batch: DocumentBatch) -> Iterator[tuple[Any, ...]]:
        """Yield rows as ``_FOUND``."""
        spans = token_spans(batch.texts)
        for document, matches in self._matcher.find(spans):
            first, last = spans.offsets[document : document + 2].tolist()
            for each in self._judge.judgements(spans.hashes[first:last], matches):
                is_contaminated = each.verdict.is_contaminated
                for field, match, answer in each.found:
                    yield (
                        document, each.item, int(field), answer, each.verdict.value,
                        is_contaminated, match.is_exact, match.coverage,
                        int(spans.starts[first + match.start]),
                        int(spans.stops[first + match.stop - 1]),
                        match.deleted, match.inserted, match.changed,
                    )  # fmt: skip


def _tables(rows: Iterator[tuple[Any, ...]]) -> Iterator[pa.Table]:
    """Yield tables as ``_FOUND`` of some rows each."""
    while some := list(itertools.islice(rows, ROWS_AT_ONCE)):
        columns = zip(*some, strict=True)
        yield pa.table(
            [pa.array(column, field.type) for column, field in zip(columns, _FOUND, strict=True)],
            schema=_FOUND,
        )


def _column(values: Any, kind: pa.DataType) -> pa.ChunkedArray:
    if isinstance(values, pa.ChunkedArray):
        return values.cast(kind)
    return pa.chunked_array([values.cast(kind) if isinstance(values, pa.Array) else
                             pa.array(values, kind)])  # fmt: skip


def _item_texts(items: pa.Table, rows: pa.Table) -> pa.Array:
    """Return the beginnings of the texts of items that were found."""
    texts = []
    names = "item", "field", "answer"
    for item, field, answer in zip(*(rows[name].to_pylist() for name in names), strict=True):
        if field == Field.ANSWER:
            text = items["answers"][item][answer].as_py()
        else:
            text = items[Field(field).key][item].as_py()
        texts.append(text[:MAX_TEXT])
    return pa.array(texts, pa.large_string())


def _beginnings(texts: pa.LargeStringArray, slices: Slices) -> pa.LargeStringArray:
    """Return the first MAX_TEXT characters of slices, which may end within a character."""
    content, starts, _ = text_batch(texts)
    found = []
    for row, start, stop in zip(
        slices.rows.tolist(), slices.starts.tolist(), slices.stops.tolist(), strict=True
    ):
        begin = int(starts[row])
        found.append(content[begin + start : begin + stop].tobytes().decode(errors="ignore"))
    return pa.array([text[:MAX_TEXT] for text in found], pa.large_string())


_reading = threading.Lock()


def read_searched(items: str, texts: str) -> tuple[ItemIndex, pa.Table]:
    """Return the items of side files: once a process, however many tasks it runs."""
    with _reading:
        return _read(items, texts, *_identity(items), *_identity(texts))


def _identity(path: str) -> tuple[int, int, int]:
    """Return what changes if a file is replaced."""
    status = Path(path).stat()
    return status.st_dev, status.st_ino, status.st_mtime_ns


@lru_cache(maxsize=1)
def _read(items: str, texts: str, *_: int) -> tuple[ItemIndex, pa.Table]:
    return ItemIndex.read(Path(items)), read_written_items(Path(texts))
