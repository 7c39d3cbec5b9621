"""The decontamination job: what documents have of the items of test sets.

A map task searches one chunk of documents for the items of a side file, and yields what it found;
there is no reduce step. If contaminated documents are to be dropped, it yields the records of the
others as well.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.contamination.item_index import ItemIndex
from mr_dedup.contamination.judging import Judge, Judgement
from mr_dedup.contamination.matching import Matcher
from mr_dedup.features.token_spans import TokenSpans, token_spans
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.jobs.contract import Counters, Keyed, TaskInput
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.kept_records import FILE_KEY, KeptFormat, as_written, records_of

Action = Literal["report", "drop"]
"""What is done with contaminated documents."""

CONTAMINATED, KEPT, DROPPED = "documents_contaminated", "documents_kept", "documents_dropped"
STOPPED = "documents_searched_in_part"
"""Counters of documents."""

FOUND = pa.schema(
    [
        ("id", pa.large_string()),
        ("file", pa.large_string()),
        ("position", pa.int64()),
        ("item", pa.int32()),
        ("field", pa.uint8()),
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

The rows of a document are in one table. ``item`` is a row of the items, ``field`` a ``Field``;
``start`` and ``end`` are characters of the document, of which ``text`` has the first ones.
"""

MAX_TEXT = 4000
"""Characters of a text of the document that are in a result."""


class DecontaminateJob(DocumentJob, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        items: The file of the items, as ``ItemIndex.write`` writes it.
        action: ``drop`` to yield the records of documents that are not contaminated.
        documents: How they are written, see ``KeptFormat``.
    """

    side_files: ClassVar[tuple[str, ...]] = ("items",)

    items: str
    action: Action = "report"
    documents: KeptFormat = "same"

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield what is found in the documents of one chunk, their records, and its rejects."""
        search = _Search(read_index(self.items))
        keeps = self.action == "drop"
        with self.reading_of(part, counters, keep_records=keeps) as reading:
            number = reading.chunk.number
            for batch in reading.batches():
                found, contaminated = search.batch(batch)
                counters[CONTAMINATED] += int(contaminated.sum())
                if len(found):
                    yield number, found
                if not keeps:
                    continue
                counters[DROPPED] += int(contaminated.sum())
                counters[KEPT] += int((~contaminated).sum())
                if contaminated.all():
                    continue
                records = records_of(batch, ~contaminated)
                if self.documents != "same":
                    records = as_written(
                        records, batch, ~contaminated, reading.chunk, self.reading, self.documents
                    )
                yield number, records
            counters[STOPPED] += search.stopped
            for rejects in reading.rejects():
                yield number, rejects


def is_found(table: pa.Table) -> bool:
    """Return whether a table of the job has what was found, not records."""
    # rows of a Parquet file may have columns of any names
    return table.column_names == FOUND.names and FILE_KEY not in (table.schema.metadata or {})


class _Search:
    """Searches batches of documents, in one thread."""

    def __init__(self, index: ItemIndex) -> None:
        self._matcher = Matcher(index)
        self._judge = Judge(index)

    @property
    def stopped(self) -> int:
        return self._matcher.stopped

    def batch(self, batch: DocumentBatch) -> tuple[pa.Table, NDArray[np.bool_]]:
        """Return what is found, as ``FOUND``, and which documents are contaminated, bool[n]."""
        spans = token_spans(batch.texts)
        contaminated = np.zeros(len(batch), bool)
        rows: dict[str, list[Any]] = {name: [] for name in FOUND.names}
        files = batch.files.dictionary.to_pylist()
        for document, matches in self._matcher.find(spans):
            first, last = spans.offsets[document : document + 2].tolist()
            judgements = list(self._judge.judgements(spans.hashes[first:last], matches))
            contaminated[document] = any(each.verdict.is_contaminated for each in judgements)
            places = (
                batch.ids[document].as_py(),
                files[batch.files.indices[document].as_py()],
                int(batch.offsets[document]),
            )
            content = batch.texts[document].as_buffer()
            for row in _rows(judgements, memoryview(content), spans, first):
                for name, value in zip(FOUND.names, (*places, *row), strict=True):
                    rows[name].append(value)
        return pa.table(rows, FOUND), contaminated


def _rows(
    judgements: Sequence[Judgement], content: memoryview, spans: TokenSpans, first: int
) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of a document, without the columns that say which one it is."""
    characters = _Characters(content)
    for judgement in judgements:
        verdict = judgement.verdict
        for field, match in judgement.found:
            begin = int(spans.starts[first + match.start])
            end = int(spans.stops[first + match.stop - 1])
            text = bytes(content[begin : min(end, begin + 4 * MAX_TEXT)]).decode(errors="ignore")
            yield (
                judgement.item, int(field), verdict.value, verdict.is_contaminated, match.is_exact,
                match.coverage, characters.before(begin), characters.before(end), text[:MAX_TEXT],
                match.deleted, match.inserted, match.changed,
            )  # fmt: skip


class _Characters:
    """Counts the characters of UTF-8 before a byte: 0.1 ns a byte once, then a look-up."""

    _STEP = 1 << 12

    def __init__(self, content: memoryview) -> None:
        self._begins = np.frombuffer(content, np.int8)
        self._sums: NDArray[np.int64] | None = None

    def before(self, byte: int) -> int:
        """Return how many characters begin before a byte."""
        # bytes that continue a character are below -64 as signed ones
        if self._sums is None:
            starts = np.arange(0, self._begins.size, self._STEP)
            counts = np.add.reduceat(self._begins >= -64, starts, dtype=np.int64)
            self._sums = np.append(0, np.cumsum(counts))
        whole = byte // self._STEP
        rest = self._begins[whole * self._STEP : byte] >= -64
        return int(self._sums[whole]) + int(np.count_nonzero(rest))


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
