"""The URLs job, what its tasks yield, and rows of URLs."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.engines.inputs import Input
from mr_dedup.engines.memory import MemoryEngine
from mr_dedup.jobs.reading import reject_lines
from mr_dedup.jobs.url_rows import UrlRows, from_table, joined, merged, to_table
from mr_dedup.jobs.urls import UrlsJob, format_lines
from mr_dedup.pipeline.distinct_urls import DistinctUrls
from mr_dedup.urls.digests import digests_of
from tests.urls.url_lists import write_lists


def rows_of(seen):
    """Rows of (url, chunk, number) in one array each, as if each had been seen by itself."""
    parts = [UrlRows.seen([url], digests_of([url[:1]]), chunk, n) for url, chunk, n in seen]
    return joined([UrlRows.seen([], digests_of([]), 0, 0), *parts])


def as_dict(rows):
    """By digest: visits, place, URL."""
    columns = rows.visits.tolist(), rows.positions.tolist(), rows.urls.to_pylist()
    digests = map(tuple, rows.digests.tolist())
    return {digest: (v, tuple(p), u) for digest, v, p, u in zip(digests, *columns, strict=True)}


# URLs that begin with one letter are one
SEEN = st.lists(
    st.tuples(
        st.binary(min_size=1, max_size=4).map(lambda end: b"abc"[end[0] % 3 :][:1] + end),
        st.integers(0, 3),
        st.integers(0, 2**63),
    ),
    max_size=30,
    unique_by=lambda each: each[1:],
)


@given(SEEN, st.integers(1, 5))
def test_merging_keeps_what_came_first_and_adds_up(seen, parts):
    wanted = {}
    for url, chunk, number in seen:
        digest = tuple(digests_of([url[:1]])[0].tolist())
        visits, place, first = wanted.get(digest, (0, (9, 0), b""))
        place, first = min((place, first), ((chunk, number), url))
        wanted[digest] = (visits + 1, place, first)
    found = merged([merged([rows_of(seen[at::parts])]) for at in range(parts)])
    assert as_dict(found) == wanted
    assert list(map(tuple, found.digests.tolist())) == sorted(wanted)
    places = found.by_position().positions.tolist()
    assert places == sorted(places)


@given(SEEN)
def test_tables_have_what_was_put_in(seen):
    rows = merged([rows_of(seen)])
    assert as_dict(from_table(to_table(rows))) == as_dict(rows)


@pytest.mark.parametrize("buffered", [1, 100, 1 << 19])
@pytest.mark.parametrize("memory_bytes", [0, 1 << 30])
def test_what_is_yielded_early_is_merged_again(tmp_path, buffered, memory_bytes):
    """Whatever a task buffers: the same URLs, counted, and as many of them."""
    paths, expected, bad = write_lists(tmp_path, 400)
    job = UrlsJob(buffered_urls=buffered, yielded_urls=7, left_urls=3)
    inputs = [Input(str(path), path.name) for path in paths]
    with (
        MemoryEngine(threads=2, memory_bytes=memory_bytes).run(job, inputs) as output,
        DistinctUrls(output, memory_bytes) as urls,
    ):
        rejects = [reject_lines(table) for table in urls.rejects()]
        rows = list(urls.by_position())
    assert b"".join(map(format_lines, rows)) == expected
    assert output.counters["distinct_urls"] == expected.count(b"\n")
    assert b"".join(rejects).count(b"\n") == output.counters["rejected_records"] == bad
    assert isinstance(rows[0].urls, pa.LargeBinaryArray)
    assert rows[0].visits.dtype == np.uint64
