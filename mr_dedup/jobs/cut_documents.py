"""Documents that are cut: their records without slices of their texts, and what restores them."""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from mr_dedup.formats.cut_files import CUT, DOCUMENT
from mr_dedup.formats.documents.batch import DocumentBatch
from mr_dedup.formats.parts import ParquetParts
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.kept_documents import KeptDocuments
from mr_dedup.jobs.kept_parts import JsonDocuments, ParquetDocuments
from mr_dedup.jobs.kept_records import FILE_KEY, KeptFormat
from mr_dedup.passages import cutting
from mr_dedup.passages.cutting import Slices
from mr_dedup.passages.records import LineEdits, cut_lines, cut_rows, edits_of_rows

ROW = pa.field("row", pa.int64())
"""The record that a cut is of: which of those in its batch."""

CUTS_OF_BATCH = pa.schema([*DOCUMENT, ROW, *CUT])
"""Columns of the cuts of a batch, a row for each slice."""


def document_columns(batch: DocumentBatch, rows: NDArray[np.int64]) -> dict[str, pa.Array]:
    """Return the columns that name documents of a batch, by name."""
    at = pa.array(rows)
    return {
        "id": batch.ids.take(at),
        "file": batch.files.take(at).cast(pa.large_string()),
        "position": pa.array(batch.offsets[rows]),
    }


def offset_columns(texts: pa.LargeStringArray, slices: Slices) -> dict[str, NDArray[np.int64]]:
    """Return where slices begin and end, in code points, by name."""
    rows = np.tile(slices.rows, 2)
    both = cutting.code_points(texts, rows, np.concatenate([slices.starts, slices.stops]))
    return {"start": both[: len(slices)], "end": both[len(slices) :]}


def cut_batch(
    records: pa.Table,
    batch: DocumentBatch,
    slices: Slices,
    text_name: str,
    documents: KeptFormat,
    option: str,
) -> tuple[pa.Table, pa.Table]:
    """Return the records of a batch, with slices cut out of their texts, and the cuts.

    Args:
        records: Of all documents of the batch, as ``as_written`` returns them.
        batch: The documents.
        slices: What is cut out of their texts; no two overlap.
        text_name: The member or column that is the text.
        documents: How the records will be written.
        option: What cuts, for errors.

    Returns:
        Records, and a table as ``CUTS_OF_BATCH``.

    Raises:
        MrDedupError: If a row of Parquet has its text elsewhere.
    """
    if not len(slices):
        return records, CUTS_OF_BATCH.empty_table()
    spaces = cutting.needs_space(batch.texts, slices)
    texts = cutting.cut_texts(batch.texts, slices, spaces)
    edits = edits_of_rows(batch.texts, slices)
    file = (records.schema.metadata or {}).get(FILE_KEY)
    if file is not None:
        called = f"{file.decode()}: {option}"
        records = cut_rows(records, texts, np.unique(slices.rows), text_name, called)
    else:
        lines = one_array(records["record"])
        lines, of_lines = cut_lines(lines, texts, slices, spaces, text_name)
        records = records.set_column(1, "record", lines)
        # lines that become rows are restored by their texts
        edits = edits if documents == "parquet" else of_lines
    return records, _cuts(batch, slices, spaces, edits)


def _cuts(
    batch: DocumentBatch, slices: Slices, spaces: NDArray[np.bool_], edits: LineEdits
) -> pa.Table:
    columns = {
        **document_columns(batch, slices.rows),
        ROW.name: slices.rows,
        **offset_columns(batch.texts, slices),
        "text": cutting.removed_texts(batch.texts, slices),
        "space": spaces,
        "json_start": edits.starts,
        "json_removed": edits.removed,
        "json_written": edits.written,
        "checksum": edits.checksums,
    }
    return pa.table(columns).select(CUTS_OF_BATCH.names).cast(CUTS_OF_BATCH)


class _Run(NamedTuple):
    """Records that follow one another in a file: the number of the first, and its row there."""

    number: int
    stop: int
    file: str
    row: int


class CutDocuments:
    """Writes documents that are cut, and the cuts with the file and row that each is of.

    A context manager, whose end is that of the documents, not of the table of cuts. In memory: the
    cuts of documents that are not in a file yet.
    """

    def __init__(
        self, documents: KeptDocuments | JsonDocuments | ParquetDocuments, cuts: ParquetParts
    ) -> None:
        documents.on_written = self._on_written
        self._documents = documents
        self._cuts = cuts
        self._given = self._written = 0
        self._pending: deque[pa.Table] = deque()
        self._runs: deque[_Run] = deque()

    def __enter__(self) -> CutDocuments:
        self._documents.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._documents.__exit__(kind, error, trace)
        if kind is None and self._pending:
            raise AssertionError("documents that were cut are in no file")

    def write(self, records: pa.Table, cuts: pa.Table | None = None) -> None:
        """Append a batch of records, and what was cut out of them.

        Args:
            records: As the writer of documents takes them.
            cuts: The columns of the table of cuts but ``WRITTEN``, and ``ROW``.
        """
        if cuts is not None and len(cuts):
            index = cuts.column_names.index(ROW.name)
            numbers = pc.add(cuts[ROW.name], self._given)
            self._pending.append(cuts.set_column(index, ROW, numbers))
        self._given += len(records)
        self._documents.write(records)

    def _on_written(self, file: str, row: int, count: int) -> None:
        """Write the cuts of records that are in a file now."""
        number = self._written
        self._written += count
        if self._pending:
            self._runs.append(_Run(number, self._written, file, row))
        while self._pending and self._pending[0][ROW.name][-1].as_py() < self._written:
            self._cuts.write_table(self._located(self._pending.popleft()))
            begin = self._pending[0][ROW.name][0].as_py() if self._pending else self._written
            while self._runs and self._runs[0].stop <= begin:
                self._runs.popleft()

    def _located(self, cuts: pa.Table) -> pa.Table:
        """Return cuts with the file and row of each."""
        numbers = cuts[ROW.name].to_numpy()
        first = np.array([run.number for run in self._runs])
        rows = np.array([run.row for run in self._runs])
        at = np.searchsorted(first, numbers, "right") - 1
        files = pa.array([run.file for run in self._runs], pa.string())
        cuts = cuts.append_column("written_file", files.take(pa.array(at)))
        cuts = cuts.append_column("written_row", pa.array(rows[at] + numbers - first[at]))
        schema = self._cuts.schema
        return cuts.select(schema.names).cast(schema)
