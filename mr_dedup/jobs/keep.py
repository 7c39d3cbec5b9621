"""The keep job: documents read once more, and handed on, as they came, if they are kept.

A map task reads a chunk of documents and hands on the records of those that are kept, and a few
texts that are to be shown; nothing is to be reduced. Which they are it is told by a file, two bits
a document in the order of all.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mrjob.step import MRStep
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.tables import read_table
from mr_dedup.jobs.batches import Batch, BatchProtocol
from mr_dedup.jobs.document_options import read_options
from mr_dedup.jobs.document_tables import DocumentTable
from mr_dedup.jobs.documents import DocumentJob, TaskReading
from mr_dedup.jobs.inputs import input_name
from mr_dedup.jobs.job import COUNTERS, errors_naming

if TYPE_CHECKING:
    from mr_dedup.formats.documents.batch import DocumentBatch
    from mr_dedup.formats.documents.chunks import DocumentChunk
    from mr_dedup.formats.documents.files import DocumentPart

FILE_KEY = b"mr_dedup.file"
"""Where rows of Parquet say which file they came from; other records have a column for it."""

_SHOWN = ["row", "text", "place"]
"""Columns of texts that are to be shown."""

_RANGES_KEY = b"mr_dedup.ranges"


class KeepJob(DocumentJob):
    """See the module."""

    OUTPUT_PROTOCOL = BatchProtocol

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        self.add_file_arg("--kept", help="which documents are kept (required)")

    def check_options(self) -> None:
        """Raise ValueError or MrDedupError for options that cannot be."""
        super().check_options()
        if not self.options.kept:
            raise ValueError("--kept is required")

    @functools.cached_property
    def kept(self) -> Kept:
        """Which documents are kept: for the tasks of a process, threads perhaps, once."""
        return Kept.read(Path(self.options.kept))

    def read_options(self) -> ReadOptions:
        """Return how documents are to be read."""
        return read_options(self.options, keep_records=True)

    def steps(self) -> list[MRStep]:
        """Return the one step."""
        return [MRStep(mapper_raw=self.map_documents)]

    def map_documents(self, path: str, uri: str) -> Iterator[tuple[int, Batch]]:
        """Yield the kept records of one chunk, in order, and what is to be shown of it."""
        with errors_naming(input_name(uri), path):
            chunk = self.chunk(path, uri)
        kept, shown = self.kept.of(chunk.number)
        if self.held is not None and chunk.number in self.held.places:
            yield from self._by_places(chunk, kept, shown)
            return
        done = handed_on = 0
        with TaskReading(self, chunk) as reading:
            for batch in reading.batches():
                mask = kept[done : done + len(batch)]
                if len(mask) != len(batch):
                    done += len(batch)
                    break
                rows = np.flatnonzero(shown[done : done + len(batch)])
                if rows.size:
                    yield chunk.number, DocumentTable(_texts(batch, rows, done))
                done += len(batch)
                if mask.any():
                    handed_on += int(mask.sum())
                    yield chunk.number, DocumentTable(_records(batch, mask))
        if done != len(kept):
            raise self._changed(chunk)
        self.increment_counter(COUNTERS, "documents kept", handed_on)

    def _by_places(
        self, chunk: DocumentChunk, kept: NDArray[np.bool_], shown: NDArray[np.bool_]
    ) -> Iterator[tuple[int, Batch]]:
        """Yield the same of a chunk of lines whose places are known, without decoding them."""
        from mr_dedup.formats.documents.lines_at import lines_at

        assert self.held is not None
        options = self.read_options()
        documents = self.held.places.pop(chunk.number)
        assert sum(len(places) for _, places in documents) == len(kept)
        done = 0
        for part, places in _placed(chunk, documents):
            rows = np.arange(done, done + places.size)
            done += places.size
            rows = rows[kept[rows] | shown[rows]]
            wanted = places[rows - (done - places.size)]
            begin = 0
            for lines in lines_at(part, wanted, options.max_record_bytes):
                these = slice(begin, begin + len(lines))
                begin += len(lines)
                for place in np.flatnonzero(shown[rows[these]]).tolist():
                    text = _text_of(lines[place], options)
                    if text is None:
                        raise self._changed(chunk)
                    row = slice(place, place + 1)
                    columns = {"row": rows[these][row], "text": text, "place": wanted[these][row]}
                    table = pa.table(columns)
                    yield chunk.number, DocumentTable(table)
                chosen = kept[rows[these]]
                if not chosen.any():
                    continue
                records = lines if chosen.all() else lines.filter(pa.array(chosen))
                files = pa.DictionaryArray.from_arrays(
                    np.zeros(len(records), np.int32), pa.array([part.file.name], pa.string())
                )
                table = pa.table({"file": files, "record": records})
                yield chunk.number, DocumentTable(table)
        self.increment_counter(COUNTERS, "documents kept", int(np.count_nonzero(kept)))

    @staticmethod
    def _changed(chunk: DocumentChunk) -> MrDedupError:
        return MrDedupError(f"{chunk.name}: has other documents than when it was first read")


def _placed(
    chunk: DocumentChunk, documents: Iterable[tuple[pa.DictionaryArray, NDArray[np.int64]]]
) -> Iterator[tuple[DocumentPart, NDArray[np.int64]]]:
    """Yield the parts of a chunk, and where in them its documents begin, in order."""
    names: dict[str, int] = {}
    numbers, places = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for files, begin in documents:
        known = [names.setdefault(name, len(names)) for name in files.dictionary.to_pylist()]
        numbers.append(np.array(known, np.int64)[files.indices.to_numpy()])
        places.append(begin)
    number, place = np.concatenate(numbers), np.concatenate(places)
    # a file has its documents in order, so another begins where the name is another, or not so
    new = np.append(True, (number[1:] != number[:-1]) | (place[1:] <= place[:-1]))[: number.size]
    starts = np.append(np.flatnonzero(new), number.size).tolist()
    files_in_order = list(names)
    run = 0
    for part in chunk.parts:
        begin = end = starts[run]
        if run + 1 < len(starts) and files_in_order[int(number[begin])] == part.file.name:
            end = starts[run + 1]
            if part.stop is not None:
                end = begin + int(np.searchsorted(place[begin:end], part.stop))
            if end == starts[run + 1]:
                run += 1
            else:
                starts[run] = end
        yield part, place[begin:end]


def _text_of(line: pa.LargeBinaryScalar, options: ReadOptions) -> pa.LargeStringArray | None:
    """Return the text of the document that a line is, an array of one; None if it is none."""
    from mr_dedup.formats.documents.batch import BatchBuilder
    from mr_dedup.formats.documents.jsonl import read_jsonl
    from mr_dedup.formats.documents.rejects import Rejects, Report
    from mr_dedup.formats.lines import LineBlock

    builder = BatchBuilder(options)
    content = bytearray(line.as_buffer())
    # not the first line of a file, which might begin with a byte order mark
    blocks = [LineBlock(1, content, len(content))]
    report = Report("", "byte", Rejects(), strict=False)
    batches = [*read_jsonl(blocks, None, options, report, builder), *builder.finish()]
    return batches[0].texts if batches else None


class Kept:
    """Which documents are kept, and whose texts are to be shown; those of a chunk by its number.

    ``kept`` and ``shown`` are bool[n], in the order of all documents.
    """

    def __init__(
        self,
        kept: NDArray[np.bool_],
        shown: NDArray[np.bool_],
        ranges: dict[int, tuple[int, int]],
    ) -> None:
        """Take where the documents of each chunk that has any start and stop."""
        self._kept = kept
        self._shown = shown
        self._ranges = ranges

    def of(self, chunk: int) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which documents of a chunk are kept, and which are shown."""
        these = slice(*self._ranges.get(chunk, (0, 0)))
        return self._kept[these], self._shown[these]

    @classmethod
    def read(cls, path: Path) -> Kept:
        """Return what ``write`` wrote; raises FormatError where it is damaged."""
        try:
            table = read_table(path)
            ranges = json.loads(table.schema.metadata[_RANGES_KEY])
            kept, shown = table["kept"].to_numpy(), table["shown"].to_numpy()
        except (pa.ArrowException, OSError, KeyError, TypeError, ValueError) as error:
            raise FormatError(path, None, f"does not say what is kept: {error}") from error
        return cls(kept, shown, {int(chunk): tuple(range) for chunk, range in ranges.items()})

    def write(self, path: Path) -> None:
        """Write it to ``path``, Parquet with checksums."""
        table = pa.table({"kept": self._kept, "shown": self._shown})
        table = table.replace_schema_metadata({_RANGES_KEY: json.dumps(self._ranges)})
        pq.write_table(table, path, write_page_checksum=True)


def has_texts(table: pa.Table) -> bool:
    """Return whether a batch of the job has texts that are to be shown, not records."""
    # rows of a Parquet file may have columns of any names
    return table.column_names == _SHOWN and FILE_KEY not in (table.schema.metadata or {})


def _texts(batch: DocumentBatch, rows: NDArray[np.int64], first: int) -> pa.Table:
    """Return the texts of some rows of a batch whose first is row ``first`` of its chunk."""
    texts = batch.texts.take(pa.array(rows))
    return pa.table({"row": rows + first, "text": texts, "place": batch.offsets[rows]})


def _records(batch: DocumentBatch, mask: Sequence[bool] | NDArray[np.bool_]) -> pa.Table:
    """Return the records of a batch that ``mask`` chooses."""
    chosen = pa.array(mask)
    if isinstance(batch.records, pa.Table):
        # of Parquet a batch has one file
        rows = batch.records.filter(chosen)
        name = batch.files.dictionary[batch.files.indices[0].as_py()].as_py()
        metadata = {**(rows.schema.metadata or {}), FILE_KEY: name.encode()}
        return rows.replace_schema_metadata(metadata)
    assert batch.records is not None
    return pa.table({"file": batch.files.filter(chosen), "record": batch.records.filter(chosen)})


if __name__ == "__main__":
    KeepJob.run()
