"""What jobs share that read documents again, of which a job before has left rows in shards."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.documents.batch import KnownText
from mr_dedup.formats.documents.files import DocumentFormat
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.cached_documents import known_texts, take_texts
from mr_dedup.jobs.contract import Counters, TaskInput
from mr_dedup.jobs.document_job import DocumentJob
from mr_dedup.jobs.reading import DocumentReading, chunk_of
from mr_dedup.jobs.row_shards import offsets_in_rows


class EarlierReading(NamedTuple):
    """How the documents of an earlier result are read: those of chunks below ``stop``.

    ``name`` is what the user calls the result.
    """

    stop: int
    name: str
    reading: ReadOptions
    format: DocumentFormat | None


class RereadingJob(DocumentJob, frozen=True, kw_only=True):
    """A job over documents of this run, and of earlier ones.

    Attributes:
        rows_at: The directory of the shards of rows.
        earlier: The first chunks: documents that earlier runs kept.
    """

    rows_at: str
    earlier: tuple[EarlierReading, ...] = ()

    @property
    def earlier_chunks(self) -> int:
        """The number of chunks of earlier documents."""
        return self.earlier[-1].stop if self.earlier else 0

    def reading_of(
        self,
        part: TaskInput,
        counters: Counters,
        *,
        fields: Sequence[str] = (),
        keep_records: bool = False,
    ) -> DocumentReading:
        """Return the documents of a chunk, those of earlier results as they were written."""
        number = chunk_of(part, self.format).number
        for each in self.earlier:
            if number < each.stop:
                return DocumentReading(part, each.format, each.reading, counters)
        return super().reading_of(part, counters, fields=fields, keep_records=keep_records)

    def offsets_of(self, chunk: int) -> list[pa.Table] | None:
        """Return where the records of a chunk of this run begin: their ``file`` and ``offset``."""
        return None if chunk < self.earlier_chunks else offsets_in_rows(self.rows_at, chunk)

    def known_texts(
        self, part: TaskInput, chunk: int, wanted: NDArray[np.bool_], *, stays: bool = False
    ) -> KnownText | None:
        """Return what is known of the pages of a chunk, of whose documents texts are ``wanted``.

        None if nothing is. What is cached is dropped, unless it is to stay for a later job.
        """
        offsets = self.offsets_of(chunk)
        if offsets is None:
            return None
        return known_texts(offsets, wanted, take_texts(part.cache, chunk, stays=stays))
