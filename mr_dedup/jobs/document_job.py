"""What jobs over documents share: how these are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mr_dedup.formats.documents.files import DocumentFormat
from mr_dedup.formats.documents.options import ReadOptions
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
