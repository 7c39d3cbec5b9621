"""Chunks of documents that earlier runs kept: the first ones, each read as its result says."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mr_dedup.formats.documents.files import DocumentFormat
from mr_dedup.formats.documents.options import ReadOptions
from mr_dedup.jobs.contract import Counters, TaskInput
from mr_dedup.jobs.reading import DocumentReading, chunk_of


class EarlierReading(NamedTuple):
    """How the documents of an earlier result are read: those of chunks below ``stop``.

    ``name`` is what the user calls the result.
    """

    stop: int
    name: str
    reading: ReadOptions
    format: DocumentFormat | None


def count_of(earlier: Sequence[EarlierReading]) -> int:
    """Return how many chunks of earlier documents there are."""
    return earlier[-1].stop if earlier else 0


def reading_of_earlier(
    part: TaskInput,
    format: DocumentFormat | None,
    earlier: Sequence[EarlierReading],
    counters: Counters,
) -> DocumentReading | None:
    """Return the documents of a task's input if an earlier run kept them, else None."""
    number = chunk_of(part, format).number
    for each in earlier:
        if number < each.stop:
            return DocumentReading(part, each.format, each.reading, counters)
    return None
