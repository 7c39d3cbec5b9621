"""How map tasks read documents, count them, and pass on records that could not be read."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, TypedDict

import numpy as np
import pyarrow as pa

from mr_dedup.errors import errors_naming
from mr_dedup.formats.chunks import DESCRIPTION_SUFFIX
from mr_dedup.formats.documents.batch import DocumentBatch, KnownText
from mr_dedup.formats.documents.chunks import BUNDLE_SUFFIX, DocumentChunk, unbundle
from mr_dedup.formats.documents.files import DocumentFile, DocumentFormat, DocumentPart
from mr_dedup.formats.documents.local_copies import on_this_machine
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.read import read_documents
from mr_dedup.formats.documents.rejects import SKIP_PHRASES, ReadCounts, Rejects, SkipReason
from mr_dedup.jobs.contract import Counters, TaskInput

if TYPE_CHECKING:
    from typing_extensions import NotRequired

DOCUMENTS, TEXT_BYTES = "documents_read", "text_bytes"
"""The counters of documents, and of the bytes of their texts."""

REJECTED = "rejected_records"
"""The counter of records that could not be read."""

INCOMPLETE = "incomplete_files"
"""The counter of files that could not be read to their end."""

PAGES, CUT = "html_pages", "html_cut_thousandths"
"""The counters of pages of HTML, and of thousandths of them that are not in their texts."""

WITHOUT_TEXT = "documents_without_text"
"""The counter of valid records whose text is null, which are no documents."""

EMPTY = "documents_empty"
"""The counter of documents whose text is empty or white space."""

UNUSABLE_IDS = "documents_with_unusable_id"
"""The counter of documents whose id has no form as text, so that they are named by position."""

SKIPPED = "skipped_"
"""The prefix of the counters of valid records that are not documents; a SkipReason follows."""

REJECT = "reject"
"""The only column of a table of rejected records: a line of JSON each."""

_START_BITS = 42
"""Of a byte in a file, of up to 4 TB; with two million inputs numbers still have 63."""

_SPOOLED_BYTES = 1 << 20
_REJECTS_BYTES = 4 << 20


NO_REJECTS = pa.table({REJECT: pa.array([], pa.large_binary())})
"""A table of no rejected records."""


def is_rejects(table: pa.Table) -> bool:
    """Return whether a table has rejected records."""
    names: list[str] = table.column_names
    return names == [REJECT]


def reject_lines(table: pa.Table) -> bytes:
    """Return a table of rejected records as lines of JSON."""
    return b"".join(line + b"\n" for line in table[REJECT].to_pylist())


def order_of(number: int) -> int:
    """Return the number that sorts the output of an input's tasks, where the input begins.

    Parts of an input add the offset at which they begin.
    """
    return number << _START_BITS


def chunk_of(part: TaskInput, format: DocumentFormat | None) -> DocumentChunk:
    """Return the chunk of documents that a task reads.

    The input is the description of a chunk, a bundle of files, lines of a file that Hadoop split,
    or a plain file, of ``format`` or that of its name. Numbers of chunks ascend in the order
    of the documents.
    """
    with errors_naming(part.name, part.path):
        number = order_of(part.number)
        if part.lines is not None:
            file = DocumentFile(None, part.name, "jsonl")
            lines = DocumentPart(file, split=part.lines)
            return DocumentChunk(number + part.lines.start, (lines,))
        if part.path.name.endswith(DESCRIPTION_SUFFIX):
            return DocumentChunk.read(part.path)
        if part.path.name.endswith(BUNDLE_SUFFIX):
            parts = unbundle(part.path, Path.cwd() / "unpacked").parts
            return DocumentChunk(number, parts)
        file = DocumentFile.detect(str(part.path), name=part.name, format=format)
        return DocumentChunk(number, (file.whole(),))


def local_chunk(
    chunk: DocumentChunk, part: TaskInput
) -> contextlib.AbstractContextManager[DocumentChunk]:
    """Return the chunk of a task with local files; see ``on_this_machine``."""
    # a cache is there for several jobs that read the same
    is_kept = part.cache is not None and part.cache.keeps_copies
    return on_this_machine(chunk, part.scratch, part.next_path, is_kept)


def reading_summary(counters: Mapping[str, int]) -> ReadingCounts:
    """Return what was read, from the counters of a job.

    >>> reading_summary({"html_pages": 4, "html_cut_thousandths": 1000})["html_cut_share"]
    0.25

    >>> reading_summary({"documents_read": 7, "skipped_media_type": 2})["skipped_records"]
    {'media_type': 2}
    """
    skipped = {reason: counters.get(SKIPPED + reason, 0) for reason in sorted(SKIP_PHRASES)}
    counts: ReadingCounts = {
        "documents_read": counters.get(DOCUMENTS, 0),
        "rejected_records": counters.get(REJECTED, 0),
        "incomplete_files": counters.get(INCOMPLETE, 0),
        "documents_without_text": counters.get(WITHOUT_TEXT, 0),
        "documents_empty": counters.get(EMPTY, 0),
        "documents_with_unusable_id": counters.get(UNUSABLE_IDS, 0),
        "skipped_records": {reason: count for reason, count in skipped.items() if count},
    }
    if pages := counters.get(PAGES, 0):
        counts["html_pages"] = pages
        counts["html_cut_share"] = round(counters.get(CUT, 0) / pages / 1000, 4)
    return counts


class ReadingCounts(TypedDict):
    """What was read, as summaries have it; what is of pages of HTML only if there are any."""

    documents_read: int
    rejected_records: int
    incomplete_files: int
    documents_without_text: int
    documents_empty: int
    documents_with_unusable_id: int
    skipped_records: dict[SkipReason, int]
    html_pages: NotRequired[int]
    html_cut_share: NotRequired[float]


def has_rejects(counters: Mapping[str, int]) -> bool:
    """Return whether a job has listed records that are no documents."""
    return bool(counters.get(REJECTED, 0) + counters.get(WITHOUT_TEXT, 0))


def require_documents(counters: Mapping[str, int], tables: Iterable[pa.Table]) -> None:
    """Raise NothingReadError if no record was a document; ``tables`` have rejects, or the first."""
    if counters.get(DOCUMENTS) or not has_rejects(counters):
        return
    counts = ReadCounts()
    for table in filter(is_rejects, tables):
        counts.add_lines(reject_lines(table))
    known = counts.rejected + counts.without_text
    counts.rejected = counters.get(REJECTED, 0)
    counts.without_text = counters.get(WITHOUT_TEXT, 0)
    if known < counts.rejected + counts.without_text:
        counts.rejects = max(counts.rejects, 2)
    counts.require_documents()


class TaskRejects:
    """The rejected records of one task; those beyond a megabyte are in a temporary file.

    Attributes:
        report: What readers of formats report rejected records to.
    """

    def __init__(self) -> None:
        spool = tempfile.SpooledTemporaryFile(max_size=_SPOOLED_BYTES)  # noqa: SIM115 (__exit__ closes it)
        self._spool: BinaryIO = spool  # type: ignore[assignment]
        self.report = Rejects(self._spool)

    def __enter__(self) -> TaskRejects:
        return self

    def __exit__(self, *exception: object) -> None:
        self._spool.close()

    def tables(self) -> Iterator[pa.Table]:
        """Yield the rejected records."""
        self._spool.seek(0)
        while lines := self._spool.readlines(_REJECTS_BYTES):
            stripped = [line.rstrip(b"\n") for line in lines]
            yield pa.table({REJECT: pa.array(stripped, pa.large_binary())})


class DocumentReading:
    """The documents of a task's input; a context manager.

    In memory: a batch; rejected records beyond a megabyte are in a temporary file.

    Args:
        part: What the task reads.
        format: Of the files; None for that of their names.
        options: What of each record is read.
        counters: Counts documents, bytes of text, rejected and skipped records, once ``batches``
            has ended.
    """

    def __init__(
        self,
        part: TaskInput,
        format: DocumentFormat | None,
        options: ReadOptions,
        counters: Counters,
    ) -> None:
        self.chunk = chunk_of(part, format)
        self.documents = 0
        self._part = part
        self._options = options
        self._counters = counters
        self._rejects = TaskRejects()

    def __enter__(self) -> DocumentReading:
        return self

    def __exit__(self, *exception: object) -> None:
        self._rejects.__exit__()

    def batches(self, known: KnownText | None = None) -> Iterator[DocumentBatch]:
        """Yield the documents; raises as ``read_documents`` and ``local_chunk``.

        HTML of which the text is ``known`` is not extracted.
        """
        text_bytes = pages = cut = 0
        report = self._rejects.report
        with local_chunk(self.chunk, self._part) as chunk:
            extraction = self._part.extraction
            for batch in read_documents(chunk.parts, report, self._options, extraction, known):
                self.documents += len(batch)
                text_bytes += int(batch.text_lengths.sum())
                if batch.cut_shares is not None:
                    shares = batch.cut_shares[~np.isnan(batch.cut_shares)]
                    pages += len(shares)
                    cut += int(np.round(1000 * shares).sum())
                yield batch
        counts = {DOCUMENTS: self.documents, TEXT_BYTES: text_bytes}
        counts[REJECTED] = report.counts.rejected
        counts[INCOMPLETE] = report.counts.incomplete_files
        counts |= {PAGES: pages, CUT: cut} if pages else {}
        counts[WITHOUT_TEXT] = report.counts.without_text
        counts[EMPTY] = report.counts.empty
        counts[UNUSABLE_IDS] = report.counts.unusable_ids
        counts |= {SKIPPED + why: amount for why, amount in report.skipped.items()}
        self._counters.update(counts)

    def rejects(self) -> Iterator[pa.Table]:
        """Yield the rejected records, once ``batches`` has ended."""
        return self._rejects.tables()
