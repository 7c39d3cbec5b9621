"""Batches of documents: Arrow columns, whose texts kernels read without a copy."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.formats.documents.extraction import Extraction
from mr_dedup.formats.documents.html_process import Extracted, Page
from mr_dedup.formats.documents.options import ReadOptions

_CHUNK_BYTES = 1 << 19
"""Size in bytes at which documents that were added one by one are converted to columns."""

_DOCUMENT_BYTES = 64
"""What a document counts besides its text, so that empty ones fill a batch too."""

_GROUP_BYTES = 1 << 19
"""Bytes of pages that are extracted together: a few hundredths of a second."""

_SENT_BYTES = 8 << 20
"""Bytes of pages whose texts are awaited, unless that is one group."""

KnownText = Callable[[str, int], Extracted | None]
"""What is known of the page at an offset of a file: its text; that it is no document, without a
text; or None if it is to be extracted."""

LargeStrings: TypeAlias = pa.LargeStringArray | pa.ChunkedArray
"""An array of large strings, or several one after another."""


@dataclass(frozen=True)
class DocumentBatch:
    """Some documents, in the order of their files; every column has one entry for each.

    Attributes:
        ids: LargeStringArray, contiguous, without nulls.
        texts: LargeStringArray, contiguous, without nulls.
        files: DictionaryArray of int32 to string, the name of each document's file.
        offsets: int64[n], where in its file the record begins: a byte of the content,
            decompressed if it is compressed; in Parquet the row; 0 where the file is the record.
            File and offset identify a document, whatever its id and however the file is split.
        fields: Table of large_string columns, those of ``ReadOptions.fields``, null where a
            record lacks one; None if there are none.
        records: the original records if the options keep them, else None: a LargeBinaryArray of
            JSON lines with their ends, WARC records or files; of Parquet a Table of all columns.
        cut_shares: float32[n], the share of each page of HTML that is not in its text, NaN for
            other documents; None if there are no such pages.
    """

    ids: pa.LargeStringArray
    texts: pa.LargeStringArray
    files: pa.DictionaryArray
    offsets: NDArray[np.int64]
    fields: pa.Table | None = None
    records: pa.LargeBinaryArray | pa.Table | None = None
    cut_shares: NDArray[np.float32] | None = None

    def __post_init__(self) -> None:
        columns = (self.ids, self.texts, self.files, self.offsets, self.fields, self.records,
                   self.cut_shares)  # fmt: skip
        lengths = {len(column) for column in columns if column is not None}
        if len(lengths) != 1:
            raise ValueError(f"columns: expected one length, got {sorted(lengths)}")

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def text_lengths(self) -> NDArray[np.int64]:
        """The length of each text in bytes of UTF-8, int64[n]."""
        _, offsets, _ = self.texts.buffers()
        ends = np.frombuffer(offsets, np.int64, len(self) + 1, 8 * self.texts.offset)
        return ends[1:] - ends[:-1]

    def are_named_by_position(self) -> pa.BooleanArray:
        """Return which documents have no id but the ``FILE:OFFSET`` that readers make."""
        files = self.files.cast(pa.large_string())
        offsets = pa.array(self.offsets).cast(pa.large_string())
        made = pc.binary_join_element_wise(files, offsets, pa.scalar(":", pa.large_string()))
        return pc.equal(made, self.ids)


@dataclass(frozen=True)
class _Chunk:
    """The columns of consecutive documents; ``files`` are numbers of files, int32."""

    files: NDArray[np.int32]
    ids: LargeStrings
    texts: LargeStrings
    offsets: NDArray[np.int64]
    fields: Sequence[LargeStrings]
    records: pa.LargeBinaryArray | pa.Table | None
    cut_shares: NDArray[np.float32] | None = None


class _Waiting(NamedTuple):
    """A document whose text is awaited, or that follows such a one."""

    file: str
    id: str
    text: str | Page
    offset: int
    fields: Sequence[str | None]
    record: bytes
    cut_share: float = math.nan
    reject: Callable[[str], None] | None = None


class BatchBuilder:
    """Collects documents, of one file after another, into batches.

    In memory: a batch, twice while its columns are concatenated, one record or block more, and
    pages whose texts are awaited.

    Args:
        options: What is read.
        extraction: Extracts the texts of pages; by default in one process.
        known: What is known of pages.
    """

    def __init__(
        self,
        options: ReadOptions,
        extraction: Extraction | None = None,
        known: KnownText | None = None,
    ) -> None:
        self._options = options
        self._extraction = extraction or Extraction()
        self._known = known
        self._group: list[_Waiting] = []
        self._group_bytes = 0
        self._sent: deque[tuple[Future[list[Extracted]], list[_Waiting], int]] = deque()
        self._is_settling = False
        self._clear()

    def add_columns(
        self,
        file: str,
        ids: LargeStrings,
        texts: LargeStrings,
        offsets: NDArray[np.int64],
        fields: Sequence[LargeStrings] = (),
        records: pa.LargeBinaryArray | pa.Table | None = None,
        cut_shares: NDArray[np.float32] | None = None,
    ) -> None:
        """Add documents of one file as columns; ``fields`` in the order of the options."""
        self.settle()
        self._flush_singles()
        files = np.full(len(ids), self._number(file), dtype=np.int32)
        self._add(_Chunk(files, ids, texts, offsets, fields, records, cut_shares))

    def add(
        self,
        file: str,
        id: str,
        text: str,
        offset: int,
        fields: Sequence[str | None] = (),
        record: bytes = b"",
        cut_share: float = math.nan,
    ) -> None:
        """Add one document; ``record`` is ignored unless the options keep records.

        ``cut_share`` is that of a page whose text is known.
        """
        if self._group or self._sent:
            self._await(_Waiting(file, id, text, offset, fields, record, cut_share))
        else:
            self._add_single(file, id, text, offset, fields, record, cut_share)

    def add_page(
        self,
        file: str,
        id: str,
        page: Page,
        offset: int,
        reject: Callable[[str], None],
        fields: Sequence[str | None] = (),
        record: bytes = b"",
    ) -> None:
        """Add a document that is a page of HTML, once its text is there.

        If there is none, ``reject`` is called with the reason, in the order of the documents.
        """
        known = self._known_text(file, offset)
        if known is None:
            self._await(_Waiting(file, id, page, offset, fields, record, reject=reject))
        elif known.text is not None:
            self.add(file, id, known.text, offset, fields, record, known.cut_share)

    def texts(self, file: str, pages: Sequence[tuple[int, Page]]) -> list[Extracted]:
        """Return the texts of pages, each at an offset of a file, in their order."""
        found = [self._known_text(file, offset) for offset, _ in pages]
        groups: list[list[Page]] = [[]]
        size = 0
        for (_, page), known in zip(pages, found, strict=True):
            if known is None:
                groups[-1].append(page)
                size += len(page.data)
                if size >= _GROUP_BYTES * len(groups):
                    groups.append([])
        max_seconds = self._options.max_page_seconds
        sent = [self._extraction.submit(group, max_seconds) for group in groups if group]
        extracted = (text for future in sent for text in future.result())
        return [next(extracted) if text is None else text for text in found]

    def settle(self, ahead: int = 0) -> None:
        """Add the pages whose texts are awaited, but for the last ``ahead`` groups of them."""
        if self._is_settling:
            # by the reject of a page
            return
        self._is_settling = True
        try:
            if not ahead:
                self._send()
            while len(self._sent) > ahead:
                future, group, _ = self._sent.popleft()
                texts = iter(future.result())
                for waiting in group:
                    text, share = waiting.text, waiting.cut_share
                    if isinstance(text, Page):
                        extracted = next(texts)
                        if extracted.text is None:
                            assert waiting.reject is not None
                            waiting.reject(extracted.reason)
                            continue
                        text, share = extracted.text, extracted.cut_share
                    file, id, _, offset, fields, record, *_ = waiting
                    self._add_single(file, id, text, offset, fields, record, share)
        finally:
            self._is_settling = False

    def _known_text(self, file: str, offset: int) -> Extracted | None:
        return None if self._known is None else self._known(file, offset)

    def _await(self, waiting: _Waiting) -> None:
        self._group.append(waiting)
        text = waiting.text
        self._group_bytes += len(text.data) if isinstance(text, Page) else len(text)
        self._group_bytes += _DOCUMENT_BYTES
        if self._group_bytes < _GROUP_BYTES:
            return
        self._send()
        while len(self._sent) > 1 and (
            self._sent[0][0].done()
            or self._extraction.is_busy
            or sum(size for _, _, size in self._sent) > _SENT_BYTES
        ):
            self.settle(len(self._sent) - 1)

    def _send(self) -> None:
        """Have the texts of the group extracted."""
        group, size = self._group, self._group_bytes
        self._group, self._group_bytes = [], 0
        if group:
            pages = [waiting.text for waiting in group if isinstance(waiting.text, Page)]
            future = self._extraction.submit(pages, self._options.max_page_seconds)
            self._sent.append((future, group, size))

    def _add_single(
        self,
        file: str,
        id: str,
        text: str,
        offset: int,
        fields: Sequence[str | None],
        record: bytes,
        cut_share: float,
    ) -> None:
        if self._single_bytes >= _CHUNK_BYTES:
            self._flush_singles()
        self._singles.append((self._number(file), id, text, offset, fields, record, cut_share))
        # characters, not bytes, which is enough to decide when to stop
        self._single_bytes += len(id) + len(text) + _DOCUMENT_BYTES
        self._single_bytes += sum(len(value or "") for value in fields)
        self._single_bytes += len(record) if self._options.keep_records else 0

    def full(self) -> Iterator[DocumentBatch]:
        """Yield a batch if one is full."""
        if self._bytes + self._single_bytes >= self._options.batch_bytes:
            yield from self._added()

    def finish(self) -> Iterator[DocumentBatch]:
        """Yield the rest as a batch, if there is any."""
        self.settle()
        yield from self._added()

    def _added(self) -> Iterator[DocumentBatch]:
        """Yield what was added as a batch, without the pages whose texts are awaited."""
        self._flush_singles()
        if self._chunks:
            batch = self._joined()
            self._clear()
            yield batch

    def _clear(self) -> None:
        self._numbers: dict[str, int] = {}
        self._chunks: list[_Chunk] = []
        self._bytes = 0
        self._clear_singles()

    def _clear_singles(self) -> None:
        self._singles: list[tuple[int, str, str, int, Sequence[str | None], bytes, float]] = []
        self._single_bytes = 0

    def _number(self, file: str) -> int:
        return self._numbers.setdefault(file, len(self._numbers))

    def _add(self, chunk: _Chunk) -> None:
        if not len(chunk.ids):
            return
        self._chunks.append(chunk)
        self._bytes += chunk.ids.nbytes + chunk.texts.nbytes + _DOCUMENT_BYTES * len(chunk.ids)
        self._bytes += sum(column.nbytes for column in chunk.fields)
        self._bytes += 0 if chunk.records is None else chunk.records.nbytes

    def _flush_singles(self) -> None:
        if not self._singles:
            return
        files, ids, texts, offsets, fields, records, shares = zip(*self._singles, strict=True)
        self._clear_singles()
        self._add(
            _Chunk(
                np.array(files, dtype=np.int32),
                pa.array(ids, pa.large_string()),
                pa.array(texts, pa.large_string()),
                np.array(offsets, dtype=np.int64),
                [pa.array(column, pa.large_string()) for column in zip(*fields, strict=True)],
                pa.array(records, pa.large_binary()) if self._options.keep_records else None,
                None if all(map(math.isnan, shares)) else np.array(shares, np.float32),
            )
        )

    def _joined(self) -> DocumentBatch:
        names = list(self._options.fields)
        columns = [
            _concatenated([chunk.fields[number] for chunk in self._chunks])
            for number in range(len(names))
        ]
        return DocumentBatch(
            ids=_concatenated([chunk.ids for chunk in self._chunks]),
            texts=_concatenated([chunk.texts for chunk in self._chunks]),
            files=pa.DictionaryArray.from_arrays(
                # of an array of NumPy it would import numpy.ma, which takes 10 ms
                pa.array(np.concatenate([chunk.files for chunk in self._chunks])),
                pa.array(self._numbers, pa.string()),
            ),
            offsets=np.concatenate([chunk.offsets for chunk in self._chunks]),
            fields=pa.table(columns, names=names) if names else None,
            records=_joined_records([chunk.records for chunk in self._chunks]),
            cut_shares=_joined_shares(self._chunks),
        )


def are_blank(texts: LargeStrings) -> LargeStrings:
    """Return which texts are empty or white space, booleans; null stays null."""
    return pc.or_(pc.equal(pc.binary_length(texts), 0), pc.utf8_is_space(texts))


def _concatenated(columns: Sequence[LargeStrings]) -> pa.LargeStringArray:
    arrays: list[pa.LargeStringArray] = []
    for column in columns:
        arrays += column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return pa.concat_arrays(arrays)


def _joined_shares(chunks: Sequence[_Chunk]) -> NDArray[np.float32] | None:
    if all(chunk.cut_shares is None for chunk in chunks):
        return None
    return np.concatenate(
        [
            np.full(len(chunk.ids), np.nan, np.float32)
            if chunk.cut_shares is None
            else chunk.cut_shares
            for chunk in chunks
        ]
    )


def _joined_records(
    records: Sequence[pa.LargeBinaryArray | pa.Table | None],
) -> pa.LargeBinaryArray | pa.Table | None:
    if records[0] is None:
        return None
    return (pa.concat_tables if isinstance(records[0], pa.Table) else pa.concat_arrays)(records)
