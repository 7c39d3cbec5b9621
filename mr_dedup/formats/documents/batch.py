"""Batches of documents: Arrow columns, whose texts kernels read without a copy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.documents.options import ReadOptions

_CHUNK_BYTES = 1 << 19
"""Size in bytes at which documents that were added one by one are converted to columns."""

_DOCUMENT_BYTES = 64
"""What a document counts besides its text, so that empty ones fill a batch too."""


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
        cut_shares: float32[n], of pages of HTML the share that is not in their texts, NaN of other
            documents; None if there are no pages.
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


class BatchBuilder:
    """Collects documents, of one file after another, into batches.

    In memory: a batch, twice while its columns are concatenated, and one record or block more.
    """

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
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

        ``cut_share`` is that of a page.
        """
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
            yield from self.finish()

    def finish(self) -> Iterator[DocumentBatch]:
        """Yield the rest as a batch, if there is any."""
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
