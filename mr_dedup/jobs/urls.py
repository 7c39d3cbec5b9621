"""The URLs job: lists of URLs to distinct ones, with how often each was seen.

A map task brings the URLs of one chunk to their form and merges equal ones; a reducer merges those
of a range of digests, in the order in which their URLs came first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, pairwise
from typing import Literal

import numpy as np
import pyarrow as pa

from mr_dedup.formats.documents.chunks import DocumentChunk
from mr_dedup.formats.documents.rejects import Rejects
from mr_dedup.formats.url_lines import part_url_lines
from mr_dedup.jobs.contract import Counters, Group, Job, Keyed, Reduce, TaskInput
from mr_dedup.jobs.merging import merged_in_turn
from mr_dedup.jobs.reading import REJECTED, TaskRejects, chunk_of, local_chunk
from mr_dedup.jobs.url_rows import UrlRows, from_table, merged, to_table
from mr_dedup.urls.canonical import UrlForm
from mr_dedup.urls.digests import digests_of, formed_lines

LIST_FORMAT: Literal["jsonl"] = "jsonl"
"""The format as which lists are cut into chunks: they are lines, like JSON lines."""

REJECTS_KEY = 1 << 8
"""The keys of rejects, which are from here on: theirs plus the number of their chunk.

Below are those of URLs, the leading bits of digests, so that a range fits in memory.
"""

_RANGE_BITS = 8


class UrlsJob(Job, frozen=True, kw_only=True):
    """See the module.

    Attributes:
        form: The form that URLs are brought to.
        buffered_urls: URLs that a map task merges before it yields them; some 140 bytes each.
        yielded_urls: URLs of a table that a map task yields.
        left_urls: URLs of a table of the result; a reader of it buffers one of each range.
    """

    form: UrlForm = UrlForm()
    buffered_urls: int = 1 << 19
    yielded_urls: int = 1 << 16
    left_urls: int = 1 << 12

    def map(self, part: TaskInput, counters: Counters) -> Iterator[Keyed]:
        """Yield the distinct URLs of one chunk, keyed by their digests, and its rejects."""
        found = chunk_of(part, LIST_FORMAT)
        with TaskRejects() as rejects, local_chunk(found, part) as chunk:
            for rows, seen in self._merged_rows(chunk, rejects.report):
                counters["urls"] += seen
                yield from _keyed(rows, self.yielded_urls)
            for table in rejects.tables():
                yield REJECTS_KEY + chunk.number, table
            counters[REJECTED] += rejects.report.count

    def reduces(self) -> Sequence[Reduce]:
        """Return the one step."""
        return [self.merge_ranges]

    def merge_ranges(self, groups: Iterator[Group], counters: Counters) -> Iterator[Keyed]:
        """Yield the URLs of each range of digests, and the rejects of each chunk."""
        for key, tables in groups:
            if key >= REJECTS_KEY:
                for table in tables:
                    yield key, table
                continue
            rows = merged_in_turn(map(from_table, tables), merged, self.buffered_urls)
            rows = rows.by_position()
            counters["distinct_urls"] += len(rows)
            for table in _tables(rows, self.left_urls):
                yield key, table

    def _merged_rows(self, chunk: DocumentChunk, rejects: Rejects) -> Iterator[tuple[UrlRows, int]]:
        """Yield rows of the URLs of a chunk, merged as far as they are buffered, and how many."""
        buffered: list[UrlRows] = []
        seen = begun = 0
        for lines in chain.from_iterable(part_url_lines(part, rejects) for part in chunk.parts):
            urls, formed = formed_lines(lines, self.form)
            buffered.append(UrlRows.seen(urls, digests_of(formed), chunk.number, seen))
            seen += len(urls)
            if seen - begun >= self.buffered_urls:
                yield merged(buffered), seen - begun
                buffered, begun = [], seen
        if buffered:
            yield merged(buffered), seen - begun


def format_lines(rows: UrlRows) -> bytes:
    """Return ``visits TAB url`` a line."""
    return b"".join(
        b"%d\t%b\n" % row for row in zip(rows.visits.tolist(), rows.urls.to_pylist(), strict=True)
    )


def _keyed(rows: UrlRows, urls_a_table: int) -> Iterator[Keyed]:
    """Yield rows that ascend by their digests, keyed by the leading bits of these."""
    firsts = np.arange(1, 1 << _RANGE_BITS, dtype=np.uint64) << np.uint64(64 - _RANGE_BITS)
    edges = [0, *np.searchsorted(rows.digests[:, 0], firsts).tolist(), len(rows)]
    for key, edge in enumerate(pairwise(edges)):
        for table in _tables(rows.between(*edge), urls_a_table):
            yield key, table


def _tables(rows: UrlRows, urls_a_table: int) -> Iterator[pa.Table]:
    for start in range(0, len(rows), urls_a_table):
        yield to_table(rows.between(start, start + urls_a_table))
