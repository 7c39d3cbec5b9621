"""The URLs job: lists of URLs to distinct ones, with how often each was seen.

A map task brings the URLs of one chunk to their form and merges equal ones; a reducer merges those
of a range of digests. Run by a command its output are batches, those of a range in the order in
which their URLs came first; run alone it prints ``visits TAB url``:
python -m mr_dedup.jobs.urls -r local urls.txt.gz
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Literal

import numpy as np
from mrjob.step import MRStep

from mr_dedup.errors import MrDedupError
from mr_dedup.jobs.batches import BatchProtocol, LinesProtocol
from mr_dedup.jobs.documents import REJECTED, TaskRejects, document_chunk
from mr_dedup.jobs.inputs import input_name
from mr_dedup.jobs.job import COUNTERS, Job, errors_naming
from mr_dedup.jobs.url_options import add_form_options, url_form
from mr_dedup.urls.canonical import UrlForm

if TYPE_CHECKING:
    from mr_dedup.formats.documents.chunks import DocumentChunk
    from mr_dedup.formats.documents.rejects import Rejects
    from mr_dedup.jobs.url_rows import UrlRows

LIST_FORMAT: Literal["jsonl"] = "jsonl"
"""What lists are for what cuts files into chunks: lines, as JSON lines are."""

REJECTS_KEY = 1 << 8
"""The keys of rejects, which are from here on: theirs plus the number of their chunk.

Below are those of URLs, the leading bits of digests, so that a range fits in memory.
"""

_RANGE_BITS = 8

_HELD_URLS = 1 << 19
"""URLs that a map task holds before it merges and sends them: some 70 MB."""

_SENT_URLS = 1 << 16
"""URLs of a batch from a map task to a reducer."""

_LEFT_URLS = 1 << 12
"""URLs of a batch that a reducer leaves: the client holds one of each range."""


class UrlsJob(Job):
    """See the module."""

    INTERNAL_PROTOCOL = BatchProtocol

    def configure_args(self) -> None:
        """Declare the job's options beside mrjob's own."""
        super().configure_args()
        add_form_options(self.add_passthru_arg, self.add_file_arg)
        self.add_passthru_arg(
            "--as-batches", action="store_true", help="write batches for mr_dedup, not lines"
        )

    def check_options(self) -> None:
        """Raise MrDedupError for options that cannot be."""
        self.form()

    def check_inputs(self) -> None:
        """Raise MrDedupError for inputs that cannot be."""
        if not self.options.args or "-" in self.options.args:
            # mrjob would copy it to a file whose name says nothing
            raise MrDedupError("no lists of URLs; mr-dedup reads them from standard input")

    def form(self) -> UrlForm:
        """Return the form that URLs are brought to."""
        return url_form(self.options) or UrlForm()

    def output_protocol(self) -> BatchProtocol | LinesProtocol:
        """Return the protocol of what the job writes."""
        return BatchProtocol() if self.options.as_batches else LinesProtocol()

    def steps(self) -> list[MRStep]:
        """Return the one step."""
        return [
            MRStep(
                mapper_raw=self.map_list,
                reducer_init=self.start_counting,
                reducer=self.reduce_urls,
                reducer_final=self.count_distinct,
            )
        ]

    @staticmethod
    def warm_up() -> None:
        """Load what tasks need, compiled: once, before they are forked."""
        from mr_dedup.urls.digests import digests_of, grouped

        UrlForm().of(b"http://example.org/")
        grouped(digests_of([b"a", b"b"]))

    def map_list(self, path: str, uri: str) -> Iterator[tuple[int, bytes]]:
        """Yield the distinct URLs of one chunk, keyed by their digests, and its rejects."""
        with errors_naming(input_name(uri), path):
            chunk = document_chunk(path, uri, LIST_FORMAT)
        urls = 0
        with TaskRejects() as rejected:
            for rows, seen in _merged_rows(chunk, self.form(), rejected.taker):
                urls += seen
                yield from _keyed_batches(rows)
            if self.options.as_batches:
                for batch in rejected.batches():
                    yield REJECTS_KEY + chunk.number, batch
            self.count(urls=urls)
            self.increment_counter(COUNTERS, REJECTED, rejected.taker.count)

    def start_counting(self) -> None:
        """Begin a reduce task."""
        self.distinct = 0

    def count_distinct(self) -> None:
        """End a reduce task: a counter costs a flush, so it is told once."""
        self.count(distinct_urls=self.distinct)

    def reduce_urls(self, key: int, batches: Iterable[bytes]) -> Iterator[tuple[int | None, bytes]]:
        """Yield what there is of one key: the URLs of a range of digests, or rejects."""
        from mr_dedup.jobs.url_rows import encode_urls

        if key >= REJECTS_KEY:
            for batch in batches:
                yield key, batch
            return
        rows = _merged_batches(batches).by_place()
        self.distinct += len(rows)
        if self.options.as_batches:
            for batch in encode_urls(rows, _LEFT_URLS):
                yield key, batch
        else:
            yield None, format_lines(rows)


def format_lines(rows: UrlRows) -> bytes:
    """Return ``visits TAB url`` a line."""
    return b"".join(
        b"%d\t%b\n" % row for row in zip(rows.visits.tolist(), rows.urls.to_pylist(), strict=True)
    )


def _merged_rows(
    chunk: DocumentChunk, form: UrlForm, rejects: Rejects
) -> Iterator[tuple[UrlRows, int]]:
    """Yield rows of the URLs of a chunk, merged as far as they are held, and how many URLs."""
    from mr_dedup.formats.url_lines import part_url_lines
    from mr_dedup.jobs.url_rows import UrlRows, merged
    from mr_dedup.urls.digests import digests_of, formed_lines

    held: list[UrlRows] = []
    seen = begun = 0
    for lines in chain.from_iterable(part_url_lines(part, rejects) for part in chunk.parts):
        urls, formed = formed_lines(lines, form)
        held.append(UrlRows.seen(urls, digests_of(formed), chunk.number, seen))
        seen += len(urls)
        if seen - begun >= _HELD_URLS:
            yield merged(held), seen - begun
            held, begun = [], seen
    if held:
        yield merged(held), seen - begun


def _keyed_batches(rows: UrlRows) -> Iterator[tuple[int, bytes]]:
    """Yield rows that ascend by their digests as batches, keyed by the leading bits of these."""
    from mr_dedup.jobs.url_rows import encode_urls

    firsts = np.arange(1, 1 << _RANGE_BITS, dtype=np.uint64) << np.uint64(64 - _RANGE_BITS)
    edges = [0, *np.searchsorted(rows.digests[:, 0], firsts).tolist(), len(rows)]
    for key, edge in enumerate(pairwise(edges)):
        for batch in encode_urls(rows.between(*edge), _SENT_URLS):
            yield key, batch


def _merged_batches(batches: Iterable[bytes]) -> UrlRows:
    """Return the rows of all batches, merged whenever there are twice as many as were left."""
    from mr_dedup.jobs.url_rows import decode_urls, merged

    held: list[UrlRows] = []
    count, limit = 0, _HELD_URLS
    for batch in batches:
        held.append(decode_urls(batch))
        count += len(held[-1])
        if count >= limit:
            held = [merged(held)]
            count = len(held[0])
            limit = max(limit, 2 * count)
    return merged(held)


if __name__ == "__main__":
    UrlsJob.run()
