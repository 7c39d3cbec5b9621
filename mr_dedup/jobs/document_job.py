"""What jobs over documents share: how these are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mr_dedup.formats.documents.batch import KnownText
from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.files import DocumentFormat
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.cached_documents import known_texts, take_offsets, take_texts
from mr_dedup.jobs.contract import Counters, Job, TaskInput
from mr_dedup.jobs.reading import DocumentReading


class DocumentJob(Job, frozen=True, kw_only=True):
    """A job whose map tasks read documents.

    Attributes:
        reading: What of each record is read.
        format: Of the files; None for that of their names.
    """

    reading: ReadOptions = ReadOptions()
    format: DocumentFormat | None = None

    def offsets_of(
        self, part: TaskInput, chunk: DocumentChunk, *, stays: bool = False
    ) -> Iterable[pa.Table] | None:
        """Return where the records of a chunk begin: their ``file`` and ``offset``, if known."""
        return take_offsets(part.cache, chunk.number, stays=stays)

    def known_texts(
        self,
        part: TaskInput,
        chunk: DocumentChunk,
        wanted: NDArray[np.bool_],
        *,
        stays: bool = False,
    ) -> KnownText | None:
        """Return what is known of the pages of a chunk, of whose documents texts are ``wanted``.

        None if nothing is. What is cached is dropped, unless it is to stay for a later job.
        """
        offsets = self.offsets_of(part, chunk, stays=stays)
        if offsets is None:
            return None
        return known_texts(offsets, wanted, take_texts(part.cache, chunk.number, stays=stays))

    def reading_of(
        self,
        part: TaskInput,
        counters: Counters,
        *,
        fields: Sequence[str] = (),
        keep_records: bool = False,
    ) -> DocumentReading:
        """Return the documents of a task's input, with ``fields``, and records if wanted."""
        options = replace(self.reading, fields=tuple(fields), keep_records=keep_records)
        return DocumentReading(part, self.format, options, counters)
