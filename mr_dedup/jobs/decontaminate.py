"""The decontamination job: what documents have of the items of test sets.

A map task searches one chunk of documents for the items of a side file, and yields what it found;
there is no reduce step. If contaminated documents are to be dropped, it yields the records of the
others as well; if items are to be cut out of them, the records of all, and what was cut.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.contamination.item_index import ItemIndex
from mr_dedup.contamination.judging import Judge, Judgement
from mr_dedup.contamination.matching import Matcher
from mr_dedup.errors import MrDedupError
from mr_dedup.features.text_batch import text_batch
from mr_dedup.features.token_spans import TokenSpans, token_spans
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.jobs.contract import Counters, Keyed, TaskInput
from mr_dedup.jobs.cut_documents import CUTS_OF_BATCH, cut_batch, document_columns, offset_columns
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.kept_records import FILE_KEY, KeptFormat, as_written, records_of
from mr_dedup.jobs.reading import DOCUMENTS, TEXT_BYTES
from mr_dedup.passages import cutting
from mr_dedup.passages.cutting import Slices

Action = Literal["report", "drop", "cut"]
"""What is done with contaminated documents; ``cut`` cuts the items out of them."""

CONTAMINATED, KEPT, DROPPED = "documents_contaminated", "documents_kept", "documents_dropped"
STOPPED = "documents_searched_in_part"
CUT = "documents_cut"
COUNTS = (DOCUMENTS, TEXT_BYTES, CONTAMINATED, STOPPED, KEPT, DROPPED, CUT)
"""The columns of a table with counts of documents, a row for each chunk: the counters of some
clusters are not known."""

FOUND = pa.schema(
    [
        ("id", pa.large_string()),
        ("file", pa.large_string()),
        ("position", pa.int64()),
        ("item", pa.int32()),
        ("field", pa.uint8()),
        ("answer", pa.int32()),
        ("verdict", pa.string()),
        ("contaminated", pa.bool_()),
        ("exact", pa.bool_()),
        ("coverage", pa.float64()),
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("text", pa.large_string()),
        ("deleted", pa.int32()),
        ("inserted", pa.int32()),
        ("changed", pa.int32()),
    ]
)
"""Columns of what is found: a row for each text of an item in a document.

The rows of a document are in one table. ``item`` is a row of the items, ``field`` a ``Field``,
``answer`` which of several answers it is; ``start`` and ``end`` are characters of the document, of
which ``text`` has the first ones.
"""

_ITEM = pa.field("item", pa.int32())

CUTS = CUTS_OF_BATCH.append(_ITEM)
"""Columns of what is cut: a row a cut, with the first of its items.

Its table precedes that of the records, in which ``row`` is the one that was cut.
"""

MAX_TEXT = 4000
"""Characters of a text of the document that are in a result."""


class DecontaminateJob(DocumentJob, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        items: The file of the items, as ``ItemIndex.write`` writes it.
        action: ``drop`` to yield the records of documents that are not contaminated; ``cut`` to
            yield those of all, with the items cut out.
        documents: How they are written, see ``KeptFormat``.
    """

    side_files: ClassVar[tuple[str, ...]] = ("items",)

    items: str
    action: Action = "report"
    documents: KeptFormat = "same"

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield what is found in the documents of one chunk, their records, and its rejects."""
        search = _Search(read_index(self.items))
        counts: Counters = Counters(dict.fromkeys(COUNTS, 0))
        with self.reading_of(part, counters, keep_records=self.action != "report") as reading:
            if self.action == "cut" and self.documents == "same":
                _refuse_whole_pages(reading.chunk)
            number = reading.chunk.number
            for batch in reading.batches():
                found = search.batch(batch)
                counts[DOCUMENTS] += len(batch)
                counts[TEXT_BYTES] += int(batch.text_lengths.sum())
                counts[CONTAMINATED] += int(found.contaminated.sum())
                if len(found.rows):
                    yield number, found.rows
                for table in self._records(batch, found, reading.chunk, counts):
                    yield number, table
            counts[STOPPED] += search.stopped
            yield number, pa.table({name: [counts[name]] for name in COUNTS})
            for rejects in reading.rejects():
                yield number, rejects

    def _records(
        self, batch: DocumentBatch, found: _Found, chunk: DocumentChunk, counts: Counters
    ) -> Iterator[pa.Table]:
        """Yield the records of a batch that are kept, as they are written, and what is cut."""
        if self.action == "report":
            return
        kept = ~found.contaminated if self.action == "drop" else np.ones(len(batch), bool)
        counts[KEPT] += int(kept.sum())
        counts[DROPPED] += int((~kept).sum())
        if not kept.any():
            return
        records = records_of(batch, kept)
        if self.documents != "same":
            records = as_written(records, batch, kept, chunk, self.reading, self.documents)
        if self.action == "cut" and len(found.cuts):
            counts[CUT] += np.unique(found.cuts.rows).size
            records, cuts = cut_batch(
                records, batch, found.cuts, self.reading.text_name, self.documents, "--action cut"
            )
            yield cuts.append_column(_ITEM, pa.array(found.cut_items.astype(np.int32)))
        yield records


def _refuse_whole_pages(chunk: DocumentChunk) -> None:
    """Raise MrDedupError for files whose texts are not members or columns of records."""
    for part in chunk.parts:
        if part.file.format not in ("jsonl", "parquet"):
            raise MrDedupError(
                f"{part.file.name}: is {part.file.format}; --action cut needs --documents jsonl or "
                "parquet for such files"
            )


def is_found(table: pa.Table) -> bool:
    """Return whether a table of the job has what was found, not records."""
    # rows of a Parquet file may have columns of any names
    return table.column_names == FOUND.names and FILE_KEY not in (table.schema.metadata or {})


def is_cuts(table: pa.Table) -> bool:
    """Return whether a table of the job has what was cut."""
    return table.column_names == CUTS.names and FILE_KEY not in (table.schema.metadata or {})


def is_counts(table: pa.Table) -> bool:
    """Return whether a table of the job has counts of documents."""
    return table.column_names == list(COUNTS) and FILE_KEY not in (table.schema.metadata or {})


class _Found(NamedTuple):
    """What is found in a batch of documents.

    Attributes:
        rows: A table as ``FOUND``.
        contaminated: Which documents are contaminated, bool[n].
        cuts: The texts of items that count, joined where they overlap or touch.
        cut_items: int64[c], the first item of each.
    """

    rows: pa.Table
    contaminated: NDArray[np.bool_]
    cuts: Slices
    cut_items: NDArray[np.int64]


class _Search:
    """Searches batches of documents, in one thread."""

    def __init__(self, index: ItemIndex) -> None:
        self._matcher = Matcher(index)
        self._judge = Judge(index)

    @property
    def stopped(self) -> int:
        return self._matcher.stopped

    def batch(self, batch: DocumentBatch) -> _Found:
        """Return what is found."""
        spans = token_spans(batch.texts)
        contaminated = np.zeros(len(batch), bool)
        rows: list[tuple[Any, ...]] = []
        documents: list[int] = []
        for document, matches in self._matcher.find(spans):
            first, last = spans.offsets[document : document + 2].tolist()
            judgements = list(self._judge.judgements(spans.hashes[first:last], matches))
            contaminated[document] = any(each.verdict.is_contaminated for each in judgements)
            found = list(_rows(judgements, spans, first))
            rows += found
            documents += [document] * len(found)
        return _found(batch, rows, np.array(documents, np.int64), contaminated)


_ROW = ("item", "field", "answer", "verdict", "contaminated", "exact", "coverage", "start", "end",
        "deleted", "inserted", "changed")  # fmt: skip


def _rows(
    judgements: Sequence[Judgement], spans: TokenSpans, first: int
) -> Iterator[tuple[Any, ...]]:
    """Yield the columns ``_ROW`` of a document's rows, whose offsets are bytes."""
    for judgement in judgements:
        verdict = judgement.verdict
        for field, match, answer in judgement.found:
            yield (
                judgement.item, int(field), answer, verdict.value, verdict.is_contaminated,
                match.is_exact, match.coverage, int(spans.starts[first + match.start]),
                int(spans.stops[first + match.stop - 1]), match.deleted, match.inserted,
                match.changed,
            )  # fmt: skip


def _found(
    batch: DocumentBatch,
    rows: list[tuple[Any, ...]],
    documents: NDArray[np.int64],
    contaminated: NDArray[np.bool_],
) -> _Found:
    """Return what is found, given the rows ``_ROW`` and the document that each is of."""
    if not rows:
        return _Found(FOUND.empty_table(), contaminated, Slices.none(), np.empty(0, np.int64))
    columns = dict(zip(_ROW, zip(*rows, strict=True), strict=True))
    starts, stops = (np.array(columns[name], np.int64) for name in ("start", "end"))
    slices = Slices(documents, starts, stops)
    shown = Slices(documents, starts, np.minimum(stops, starts + 4 * MAX_TEXT))
    made = {
        **columns,
        **document_columns(batch, documents),
        **offset_columns(batch.texts, slices),
        "text": _beginnings(batch.texts, shown),
    }
    table = pa.table([pa.array(made[name], FOUND.field(name).type) if isinstance(made[name], tuple)
                      else made[name] for name in FOUND.names], schema=FOUND)  # fmt: skip
    counted = np.flatnonzero(np.array(columns["contaminated"], bool))
    order = counted[np.lexsort((starts[counted], documents[counted]))]
    cuts, of = cutting.joined(slices.chosen(order))
    firsts = np.unique(of, return_index=True)[1]
    return _Found(table, contaminated, cuts, np.array(columns["item"], np.int64)[order[firsts]])


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


def read_index(path: str) -> ItemIndex:
    """Return the items of a side file: once a process, however many tasks it runs."""
    status = Path(path).stat()
    with _reading:
        return _read(path, status.st_dev, status.st_ino, status.st_mtime_ns)


@lru_cache(maxsize=1)
def _read(path: str, *_: int) -> ItemIndex:
    """Read a file, named with what changes if it is replaced."""
    return ItemIndex.read(Path(path))
