"""The keep job: documents are read once more, and the records of the kept ones are the result.

A map task reads one chunk of documents and yields the records of those that are kept, and a few
texts that are to be shown. The job has no reduce step. Records are as they came, or JSON lines.
Which documents these are is in a file, two bits a document in the order of all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.batch import BatchBuilder, DocumentBatch
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.files import DocumentPart
from mr_dedup.formats.documents.jsonl import read_jsonl
from mr_dedup.formats.documents.lines_at import lines_at
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.documents.rejects import Rejects, Report
from mr_dedup.formats.lines import LineBlock
from mr_dedup.formats.tables import one_array
from mr_dedup.jobs.added_members import AddedMembers, with_columns, with_lines
from mr_dedup.jobs.cached_documents import has_offsets
from mr_dedup.jobs.contract import Counters, Keyed, TaskInput
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.kept_records import FILE_KEY, KeptFormat, as_written, records_of
from mr_dedup.jobs.reading import chunk_of, local_chunk
from mr_dedup.jobs.side_table import SideTable

_SHOWN = ["row", "text", "position"]
"""Columns of texts that are to be shown."""


class KeepJob(DocumentJob, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        kept: The file of the documents that are kept, as KeptRows writes it.
        documents: How they are written. Unless it is ``same``, records of other formats than JSON
            lines are converted to these, but rows of Parquet for Parquet.
        members: The file of members that kept records get, as ``write_members`` writes it; None
            for none.
    """

    side_files: ClassVar[tuple[str, ...]] = ("kept", "members")

    kept: str
    documents: KeptFormat = "same"
    members: str | None = None

    @cached_property
    def flags(self) -> KeptRows:
        """Which documents are kept."""
        return KeptRows.read(Path(self.kept))

    def flags_of(self, chunk: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which documents of a chunk are kept, and which are shown."""
        return self.flags.of(chunk)

    @cached_property
    def _added(self) -> AddedMembers | None:
        return AddedMembers.read(Path(self.members)) if self.members else None

    def members_of(self, chunk: int) -> pa.Table | None:
        """Return the members that each document of a chunk gets if it is kept."""
        return None if self._added is None else self._added.of(chunk)

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the kept records of one chunk, in order, and the texts to be shown."""
        chunk = chunk_of(part, self.format)
        kept, shown = self.flags_of(chunk.number)
        members = self.members_of(chunk.number)
        offsets = self.offsets_of(part, chunk) if has_offsets(chunk) else None
        if offsets is not None:
            with local_chunk(chunk, part) as local:
                yield from self._by_offsets(local, offsets, (kept, shown, members))
            counters["documents_kept"] += int(np.count_nonzero(kept))
            return
        done = 0
        wanted = shown if self.documents == "same" else kept | shown
        known = self.known_texts(part, chunk, wanted)
        with self.reading_of(part, counters, keep_records=True) as reading:
            for batch in reading.batches(known):
                mask = kept[done : done + len(batch)]
                if len(mask) != len(batch):
                    done += len(batch)
                    break
                rows = np.flatnonzero(shown[done : done + len(batch)])
                if rows.size:
                    yield chunk.number, _texts(batch, rows, done)
                done += len(batch)
                if mask.any():
                    counters["documents_kept"] += int(mask.sum())
                    records = records_of(batch, mask)
                    if self.documents != "same":
                        records = as_written(
                            records, batch, mask, chunk, self.reading, self.documents
                        )
                    if members is not None:
                        of_batch = members.slice(done - len(batch), len(batch))
                        records = self._with(records, of_batch.filter(pa.array(mask)), chunk)
                    yield chunk.number, records
        if done != len(kept):
            raise _changed(chunk)

    def _with(self, records: pa.Table, members: pa.Table, chunk: DocumentChunk) -> pa.Table:
        """Return kept records with further members."""
        if FILE_KEY in (records.schema.metadata or {}):
            return with_columns(records, members, chunk.name)
        return with_lines(records, members, chunk.name, self.reading.max_record_bytes)

    def _by_offsets(
        self,
        chunk: DocumentChunk,
        offsets: Iterable[pa.Table],
        known: tuple[NDArray[np.bool_], NDArray[np.bool_], pa.Table | None],
    ) -> Iterator[Keyed]:
        """Yield the same of a chunk of lines whose offsets are known, without decoding them.

        Of its documents it is ``known`` which are kept, which are shown, and their members.
        """
        kept, shown, members = known
        options = replace(self.reading, keep_records=True)
        done = 0
        documents = ((one_array(each["file"]), each["offset"].to_numpy()) for each in offsets)
        for part, starts in _divided(chunk, documents):
            rows = np.arange(done, done + starts.size)
            done += starts.size
            rows = rows[kept[rows] | shown[rows]]
            wanted = starts[rows - (done - starts.size)]
            begin = 0
            for lines in lines_at(part, wanted, options.max_record_bytes, options.encoding):
                these = slice(begin, begin + len(lines))
                begin += len(lines)
                for index in np.flatnonzero(shown[rows[these]]).tolist():
                    text = _text_of(lines[index], options)
                    if text is None:
                        raise _changed(chunk)
                    row = slice(index, index + 1)
                    columns = {
                        "row": rows[these][row],
                        "text": text,
                        "position": wanted[these][row],
                    }
                    yield chunk.number, pa.table(columns)
                chosen = kept[rows[these]]
                if not chosen.any():
                    continue
                records = lines if chosen.all() else lines.filter(pa.array(chosen))
                files = pa.DictionaryArray.from_arrays(
                    np.zeros(len(records), np.int32), pa.array([part.file.name], pa.string())
                )
                found = pa.table({"file": files, "record": records})
                if members is not None:
                    of_kept = members.take(pa.array(rows[these][chosen]))
                    found = self._with(found, of_kept, chunk)
                yield chunk.number, found


def _changed(chunk: DocumentChunk) -> MrDedupError:
    return MrDedupError(f"{chunk.name}: has other documents than when it was first read")


def _divided(
    chunk: DocumentChunk, documents: Iterable[tuple[pa.DictionaryArray, NDArray[np.int64]]]
) -> Iterator[tuple[DocumentPart, NDArray[np.int64]]]:
    """Yield the parts of a chunk, and the offsets at which its documents begin in each."""
    names: dict[str, int] = {}
    numbers, offsets = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for files, begin in documents:
        known = [names.setdefault(name, len(names)) for name in files.dictionary.to_pylist()]
        numbers.append(np.array(known, np.int64)[files.indices.to_numpy()])
        offsets.append(begin)
    number, offset = np.concatenate(numbers), np.concatenate(offsets)
    # offsets ascend within a file: a new one begins where the name changes or the offset does not
    # increase
    new = np.append(True, (number[1:] != number[:-1]) | (offset[1:] <= offset[:-1]))[: number.size]
    starts = np.append(np.flatnonzero(new), number.size).tolist()
    files_in_order = list(names)
    run = 0
    for part in chunk.parts:
        begin = end = starts[run]
        if run + 1 < len(starts) and files_in_order[int(number[begin])] == part.file.name:
            end = starts[run + 1]
            if part.stop is not None:
                end = begin + int(np.searchsorted(offset[begin:end], part.stop))
            if end == starts[run + 1]:
                run += 1
            else:
                starts[run] = end
        yield part, offset[begin:end]


def _text_of(line: pa.LargeBinaryScalar, options: ReadOptions) -> pa.LargeStringArray | None:
    """Return the text of the document that a line is, an array of one; None if it is none."""
    builder = BatchBuilder(options)
    content = bytearray(line.as_buffer())
    # not the first line of a file, which might begin with a byte order mark
    blocks = [LineBlock(1, content, len(content))]
    report = Report("", "byte", Rejects(), strict=False)
    batches = [*read_jsonl(blocks, None, options, report, builder), *builder.finish()]
    return batches[0].texts if batches else None


@dataclass(frozen=True)
class KeptRows(SideTable):
    """Which of all n documents are kept, and whose texts are to be shown.

    Attributes:
        kept, shown: bool[n], in the order of documents.
    """

    kept: NDArray[np.bool_]
    shown: NDArray[np.bool_]

    def of(self, chunk: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which documents of a chunk are kept, and which are shown."""
        these = slice(*self.ranges.get(chunk, (0, 0)))
        return self.kept[these], self.shown[these]


def has_texts(table: pa.Table) -> bool:
    """Return whether a batch of the job has texts that are to be shown, not records."""
    # rows of a Parquet file may have columns of any names
    return table.column_names == _SHOWN and FILE_KEY not in (table.schema.metadata or {})


def _texts(batch: DocumentBatch, rows: NDArray[np.int64], first: int) -> pa.Table:
    """Return the texts of some rows of a batch whose first is row ``first`` of its chunk."""
    texts = batch.texts.take(pa.array(rows))
    return pa.table({"row": rows + first, "text": texts, "position": batch.offsets[rows]})
