"""What jobs over documents share: how these are read."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mr_dedup.errors import MrDedupError
from mr_dedup.formats.documents.files import DocumentFormat
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.contract import Add, Counters, Job, TaskInput
from mr_dedup.jobs.document_options import add_reading_options, read_options
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

    @classmethod
    def add_arguments(cls, add: Add, add_file: Add) -> None:
        """Declare how documents are read."""
        add_reading_options(add)

    @staticmethod
    def reading_arguments(arguments: argparse.Namespace) -> dict[str, Any]:
        """Return the fields of the job on reading documents, by its arguments."""
        return {"reading": read_options(arguments), "format": arguments.format}

    @classmethod
    def check_inputs(cls, arguments: argparse.Namespace) -> None:
        """Raise MrDedupError for standard input, which mrjob copies to a file without a name."""
        if not arguments.args or "-" in arguments.args:
            raise MrDedupError("no files of documents; mr-dedup reads them from standard input")
