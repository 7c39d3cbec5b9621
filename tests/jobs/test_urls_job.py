"""The URLs job run alone, what its tasks hand over, and rows of URLs."""

import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mr_dedup.errors import MrDedupError
from mr_dedup.jobs import urls as urls_module
from mr_dedup.jobs.batches import Kind, decode_bytes, encode_bytes, kind_of
from mr_dedup.jobs.url_rows import UrlRows, decode_urls, encode_urls, joined, merged
from mr_dedup.jobs.urls import UrlsJob
from mr_dedup.urls.digests import digests_of
from tests.urls.url_lists import distinct, visits, write_lists


def rows_of(seen):
    """Rows of (url, chunk, number) in one array each, as if each had been seen by itself."""
    parts = [UrlRows.seen([url], digests_of([url[:1]]), chunk, n) for url, chunk, n in seen]
    return joined([UrlRows.seen([], digests_of([]), 0, 0), *parts])


def as_dict(rows):
    """By digest: visits, place, URL."""
    columns = rows.visits.tolist(), rows.places.tolist(), rows.urls.to_pylist()
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
    places = found.by_place().places.tolist()
    assert places == sorted(places)


@given(SEEN, st.integers(1, 7))
def test_batches_hold_what_was_put_in(seen, rows_a_batch):
    rows = merged([rows_of(seen)])
    batches = list(encode_urls(rows, rows_a_batch))
    assert len(batches) == -(-len(rows) // rows_a_batch)
    found = [decode_urls(batch) for batch in batches]
    assert {k: v for part in found for k, v in as_dict(part).items()} == as_dict(rows)


def test_damaged_batches_and_those_of_others_are_refused():
    (batch,) = encode_urls(UrlRows.seen([b"a", b"bc"], digests_of([b"a", b"bc"]), 1, 2), 10)
    rng = random.Random(1)
    for _ in range(50):
        at = rng.randrange(len(batch))
        damaged = batch[:at] + bytes([batch[at] ^ 1 << rng.randrange(7)]) + batch[at + 1 :]
        with pytest.raises(MrDedupError):
            decode_urls(damaged)
    with pytest.raises(MrDedupError, match="expected urls"):
        decode_urls(encode_bytes(Kind.REJECTS, 1, b"{}"))


def job_of(*options):
    job = UrlsJob(["--as-batches", *options])
    job.sandbox()
    return job


@pytest.mark.parametrize("held", [1, 100, 1 << 19])
def test_what_is_sent_on_early_is_merged_again(tmp_path, monkeypatch, held):
    """Whatever a task holds: the same URLs, counted, and as many of them."""
    monkeypatch.setattr(urls_module, "_HELD_URLS", held)
    monkeypatch.setattr(urls_module, "_SENT_URLS", 7)
    paths, expected, bad = write_lists(tmp_path, 400)
    job = job_of()
    grouped = {}
    for number, path in enumerate(paths):
        monkeypatch.setenv("MR_DEDUP_INPUT_NUMBER", str(number))
        for key, batch in job.map_list(str(path), path.name):
            grouped.setdefault(key, []).append(batch)
    rng = random.Random(held)
    job.start_counting()
    left = []
    for key, batches in grouped.items():
        rng.shuffle(batches)
        left += job.reduce_urls(key, iter(batches))
    rows = joined([decode_urls(batch) for _, batch in left if kind_of(batch) == Kind.URLS])
    assert urls_module.format_lines(rows.by_place()) == expected
    assert job.distinct == expected.count(b"\n")
    rejects = [decode_bytes(Kind.REJECTS, b)[0] for _, b in left if kind_of(b) == Kind.REJECTS]
    assert sum(rejects) == bad
    assert isinstance(rows.urls, pa.LargeBinaryArray)
    assert rows.visits.dtype == np.uint64


@pytest.mark.parametrize(("runner", "options"), [("inline", ["--no-canonical"]), ("local", [])])
def test_the_job_runs_alone(tmp_path, runner, options):
    every = visits(100)
    (tmp_path / "list.txt").write_bytes(b"\n".join([b"", *(line for _, line in every)]))
    if options:
        every = [(line, line) for _, line in every]
    command = [sys.executable, "-m", "mr_dedup.jobs.urls", "--no-conf", "-r", runner, *options]
    done = subprocess.run(
        [*command, "list.txt"], cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == sorted(distinct(every).splitlines())
    assert b"urls=100" in done.stderr
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (
        2,
        "urls.py: error: no lists of URLs; mr-dedup reads them from standard input\n",
    )


def test_options_are_those_of_the_form():
    assert job_of("--drop-index", "--keep-fragments").form().describe() == (
        "canonical, keep fragments, drop index"
    )
    with pytest.raises(ValueError, match="--no-canonical leaves nothing to --drop-index"):
        job_of("--no-canonical", "--drop-index")
