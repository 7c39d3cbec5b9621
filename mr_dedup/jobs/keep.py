"""The keep job: documents read once more, and handed on, as they came, if they are kept.

A map task reads a chunk of documents and hands on the records of those that are kept, and a few
texts that are to be shown; nothing is to be reduced. Which they are it is told by a file, two bits
a document in the order of all.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from mrjob.step import MRStep
from numpy.typing import NDArray

from mr_dedup.errors import FormatError, MrDedupError
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.formats.parquet_table import read_table
from mr_dedup.jobs.batches import Batch, BatchProtocol
from mr_dedup.jobs.document_options import read_options
from mr_dedup.jobs.document_tables import DocumentTable
from mr_dedup.jobs.documents import DocumentJob, TaskReading
from mr_dedup.jobs.inputs import input_name
from mr_dedup.jobs.job import COUNTERS, errors_naming

if TYPE_CHECKING:
    from mr_dedup.formats.documents.batch import DocumentBatch

FILE_KEY = b"mr_dedup.file"
"""Where rows of Parquet say which file they came from; other records have a column for it."""

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
        """Which documents are kept; read once, also where tasks are threads."""
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
            raise MrDedupError(f"{chunk.name}: has other documents than when it was first read")
        self.increment_counter(COUNTERS, "documents kept", handed_on)


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


def _texts(batch: DocumentBatch, rows: NDArray[np.int64], first: int) -> pa.Table:
    """Return the texts of some rows of a batch whose first is row ``first`` of its chunk."""
    texts = batch.texts.take(pa.array(rows))
    return pa.table({"row": rows + first, "text": texts})


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
